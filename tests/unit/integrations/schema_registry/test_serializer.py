"""aiokafkapy.integrations.schema_registry.serializer: options that contradict each other, and lazy imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations import schema_registry
from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
    Schema,
    SchemaRegistryClient,
)

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
async def test_a_strategy_that_gives_no_subject_is_told_so(given: Any) -> None:
    strategy: Any = lambda topic, is_key, name: given  # noqa: E731
    serializer = AvroSerializer(SchemaRegistryClient(URL), "string", subject_name_strategy=strategy)
    with pytest.raises(ConfigurationError, match="topic 'orders': subject_name_strategy gave"):
        await serializer.prepare("orders")


def test_the_public_names_are_looked_up_when_used() -> None:
    assert dir(schema_registry) == sorted(schema_registry.__all__)
    for name in schema_registry.__all__:
        assert getattr(schema_registry, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        schema_registry.nonsense  # noqa: B018


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
