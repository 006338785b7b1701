"""aiokafkapy.integrations.schema_registry.serializer: options that contradict each other, lazy imports, and questions
that are asked once and beside the records.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations import schema_registry
from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
    RegistryUnavailableError,
    Schema,
    SchemaRegistryClient,
    SchemaRules,
    SchemaRulesError,
)
from aiokafkapy.integrations.schema_registry import serializer as serializer_module
from tests.unit.integrations.schema_registry.fakes import MINE, NEW, Executor, FakeTransport, fake_registry
from tests.unit.virtual_time import elapsed, on_virtual_time

URL = "http://localhost:1"
SEVEN: Any = 7
NO_MESSAGE: Any = int


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"auto_register_schemas": True, "use_latest_version": True}, "exclude each other"),
        ({"auto_register_schema": True}, "no option 'auto_register_schema'"),
        ({"schema_id_in": "footer"}, "'prefix' or 'headers'"),
        ({"is_key": 1}, "True or False"),
        ({"subject_name_strategy": "topic"}, "not a function"),
    ],
)
def test_options_are_checked_when_they_are_given(options: Any, wanted: str) -> None:
    with pytest.raises(ConfigurationError, match=wanted):
        AvroSerializer(SchemaRegistryClient(URL), "string", **options)


def test_a_schema_is_needed_unless_the_latest_is_used() -> None:
    with pytest.raises(ConfigurationError, match="needs a schema"):
        JsonSchemaSerializer(SchemaRegistryClient(URL))
    assert JsonSchemaSerializer(SchemaRegistryClient(URL), use_latest_version=True).schema is None


@pytest.mark.parametrize(
    "make",
    [
        lambda registry: AvroSerializer(registry, '{"type":"record","fields":[]}'),
        lambda registry: AvroSerializer(registry, Schema("{}", "JSON")),
        lambda registry: AvroSerializer(registry, SEVEN),
        lambda registry: AvroSerializer(registry, int),
        lambda registry: AvroDeserializer(registry, {"type": "nonsense"}),
        lambda registry: JsonSchemaSerializer(registry, {"type": "nonsense"}),
        lambda registry: JsonSchemaSerializer(registry, "{"),
        lambda registry: ProtobufSerializer(registry, NO_MESSAGE),
    ],
)
def test_a_schema_that_cannot_be_read_raises_at_once(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make(SchemaRegistryClient(URL))


@pytest.mark.parametrize("given", [None, "", 7])
async def test_a_strategy_that_gives_no_subject_is_named_in_the_error(given: Any) -> None:
    strategy: Any = lambda topic, is_key, name: given  # noqa: E731
    serializer = AvroSerializer(SchemaRegistryClient(URL), "string", subject_name_strategy=strategy)
    with pytest.raises(ConfigurationError, match="topic 'orders': subject_name_strategy gave"):
        await serializer.prepare("orders")


def test_the_public_names_are_looked_up_when_used() -> None:
    assert dir(schema_registry) == sorted(schema_registry.__all__)
    for name in schema_registry.__all__:
        assert getattr(schema_registry, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        schema_registry.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_a_format_is_imported_with_its_first_name() -> None:
    program = (
        "import sys; from aiokafkapy.integrations.schema_registry import JsonSchemaSerializer; "
        "print(*({'fastavro', 'google.protobuf', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("library", "statement", "extra"),
    [
        ("fastavro", "from aiokafkapy.integrations.schema_registry import AvroSerializer", "schema-registry"),
        ("jsonschema", "from aiokafkapy.integrations.schema_registry import JsonSchemaSerializer", "schema-registry"),
        ("google", "from aiokafkapy.integrations.schema_registry import ProtobufSerializer", "schema-registry"),
        (
            "httpx",
            "from aiokafkapy.integrations.schema_registry import SchemaRegistryClient as C; C('http://a')",
            "schema-registry",
        ),
        ("aiohttp", "from aiokafkapy.testing import SchemaRegistry", "testing"),
    ],
)
def test_a_missing_library_names_the_extra_that_has_it(library: str, statement: str, extra: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; {statement}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"pip install 'aiokafkapy[{extra}]'" in done.stderr.splitlines()[-1], done.stderr


# asking, once and beside the records

DATA = {"id": 1, "n": 2}


def latest_serializer(
    monkeypatch: pytest.MonkeyPatch, *, ttl_ms: int = 60_000, **options: Any
) -> tuple[AvroSerializer[Any], FakeTransport]:
    """A serializer by the newest version, on virtual time."""
    monkeypatch.setattr(serializer_module, "monotonic", lambda: asyncio.get_running_loop().time())
    registry, transport = fake_registry(latest_cache_ttl_ms=ttl_ms)
    return AvroSerializer(registry, use_latest_version=True, **options), transport


async def written_by(serializer: AvroSerializer[Any]) -> bytes:
    found = serializer("orders", DATA)
    return found if isinstance(found, bytes) else await found


def schema_id_at_once(serializer: AvroSerializer[Any]) -> int | None:
    """The schema of a record that cannot wait; None where it would have to wait, as for ``send_nowait``."""
    written = serializer("orders", DATA)
    if isinstance(written, bytes):
        return written[4]
    assert isinstance(written, Coroutine)
    written.close()
    return None


@on_virtual_time
async def test_a_version_that_was_believed_long_enough_is_looked_up_beside_the_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serializer, transport = latest_serializer(monkeypatch)
    await serializer.prepare("orders")
    transport.publish(NEW)
    await elapsed(59)
    assert schema_id_at_once(serializer) == 1
    assert transport.requests == 1
    await elapsed(2)
    assert [schema_id_at_once(serializer) for _ in range(3)] == [1, 1, 1]
    await elapsed(1.5)
    assert schema_id_at_once(serializer) == 2
    assert transport.requests == 2


@on_virtual_time
async def test_no_record_waits_for_a_registry_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer, transport = latest_serializer(monkeypatch)
    await serializer.prepare("orders")
    transport.error, transport.seconds = RegistryUnavailableError("away"), 30.0
    for _ in range(600):
        await elapsed(1)
        assert schema_id_at_once(serializer) == 1
    assert 5 <= transport.requests <= 9  # one question for each time that the version is believed again
    with pytest.raises(RegistryUnavailableError):
        await serializer.prepare("orders")


@on_virtual_time
async def test_after_a_refusal_no_record_goes_by_the_version_before_until_there_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serializer, transport = latest_serializer(monkeypatch)
    await serializer.prepare("orders")
    transport.publish(NEW, ruleSet={"domainRules": [{"name": "odd", "type": "ODD", "kind": "TRANSFORM"}]})
    await elapsed(60)
    assert schema_id_at_once(serializer) == 1
    await elapsed(2)
    with pytest.raises(SchemaRulesError):
        await written_by(serializer)
    transport.publish(NEW)
    await elapsed(60)
    assert schema_id_at_once(serializer) is None
    await elapsed(2)
    assert schema_id_at_once(serializer) == 3  # though nobody could wait


@on_virtual_time
async def test_a_version_is_believed_from_its_answer_on_and_not_from_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer, transport = latest_serializer(monkeypatch)
    await serializer._registry.latest("orders-value")
    await elapsed(50)
    await serializer.prepare("orders")  # an answer of 50 s ago
    transport.publish(NEW)
    await elapsed(11)
    schema_id_at_once(serializer)
    await elapsed(2)
    assert schema_id_at_once(serializer) == 2


@on_virtual_time
async def test_where_nothing_is_believed_each_record_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer, transport = latest_serializer(monkeypatch, ttl_ms=0)
    await serializer.prepare("orders")
    transport.publish(NEW)
    assert (await written_by(serializer))[4] == 2
    assert transport.requests == 2


async def test_a_version_that_is_over_is_looked_up_on_the_loop_also_from_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serializer, transport = latest_serializer(monkeypatch)
    now, transport.seconds = 0.0, 0.0
    monkeypatch.setattr(serializer_module, "monotonic", lambda: now)
    await serializer.prepare("orders")
    now = 60.0
    written = await asyncio.to_thread(serializer, "orders", DATA)
    assert not isinstance(written, bytes)
    assert (await written)[4] == 1


@on_virtual_time
async def test_the_rules_of_many_waiting_records_are_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor()
    rules = SchemaRules(executors={"MINE": executor})
    serializer, transport = latest_serializer(monkeypatch, rules=rules)
    transport.publish(NEW, ruleSet=MINE)
    assert len(set(await asyncio.gather(*(written_by(serializer) for _ in range(200))))) == 1
    assert (executor.prepared, transport.requests) == (1, 1)
    for _ in range(10):  # the same version is looked up again, and its rules stay ready
        await elapsed(30)
        assert schema_id_at_once(serializer) == 2
    assert transport.requests > 3
    assert executor.prepared == 1


@on_virtual_time
async def test_keys_that_are_over_are_fetched_beside_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor(seconds=30)
    serializer, transport = latest_serializer(monkeypatch, rules=SchemaRules(executors={"MINE": executor}))
    transport.publish(NEW, ruleSet=MINE)
    await serializer.prepare("orders")
    await elapsed(31)
    assert [schema_id_at_once(serializer) for _ in range(3)] == [2, 2, 2]
    await elapsed(2)
    assert executor.prepared == 2
