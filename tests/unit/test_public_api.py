"""The public names, and the cost of importing them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing

import pytest

import aiokafkapy
from aiokafkapy import (
    BlockingProducer,
    KafkaProducer,
    ProducerConfig,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    errors,
    string_serializer,
)

if typing.TYPE_CHECKING:
    import polars

NAMES = {
    "BlockingProducer", "BytesWithHeaders", "CircuitBreaker", "ConsumedRecord", "DefaultPartitioner", "Delivery",
    "Headers", "KafkaProducer", "Node",
    "Observer", "PartitionInfo", "PartitionMetadata", "Partitioner", "PreparedTxnState", "ProducerConfig",
    "ProducerHealth",
    "ProducerInterceptor", "ProducerRecord", "ProducerStatistics", "RecordMetadata", "RoundRobinPartitioner",
    "Serializer", "TableMetadata", "TopicOptions", "TopicPartition", "compiled", "deadline", "errors",
    "json_serializer", "raise_all", "string_serializer",
}  # fmt: skip


def test_the_names_are_these() -> None:
    assert set(aiokafkapy.__all__) == NAMES
    assert set(dir(aiokafkapy)) >= NAMES
    for name in NAMES:
        assert getattr(aiokafkapy, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        aiokafkapy.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_names_of_the_design_are_as_they_should_be() -> None:
    assert KafkaProducer.__name__ == "KafkaProducer"
    assert ProducerConfig(bootstrap_servers="h:1").linger_ms is None
    assert ProducerRecord("t").topic == "t"
    assert RecordMetadata("t", 0, 1).offset == 1
    assert TopicPartition("t", 1) == ("t", 1)
    assert issubclass(errors.KafkaError, Exception)


@pytest.mark.parametrize(
    "name", ["start", "close", "send", "enqueue", "send_many", "send_arrow", "flush", "partitions_for", "ping"]
)
def test_awaited_methods_are_coroutine_functions(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(KafkaProducer, name))


def test_a_record_s_arguments_are_the_same_everywhere() -> None:
    record = ["topic", "value", "key", "partition", "timestamp_ms", "headers"]
    expected = ["self", *record, "delivery_timeout_ms", "overflow"]
    for name in ("send", "enqueue", "send_nowait"):
        parameters = inspect.signature(getattr(KafkaProducer, name)).parameters
        assert list(parameters) == expected
        # By position or by name. A default of an argument that can be given by name only is looked up at each call.
        assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters.values())


def test_a_record_s_arguments_may_be_given_by_position_as_aiokafka_s() -> None:
    aiokafka = pytest.importorskip("aiokafka")
    theirs = list(inspect.signature(aiokafka.AIOKafkaProducer.send).parameters)
    for call in (KafkaProducer.send, KafkaProducer.enqueue, KafkaProducer.send_nowait, KafkaProducer.send_from_thread):
        assert list(inspect.signature(call).parameters)[: len(theirs)] == theirs
    assert list(inspect.signature(BlockingProducer.send).parameters)[: len(theirs)] == theirs


def test_every_public_method_documents_its_promises() -> None:
    for name, member in inspect.getmembers(KafkaProducer):
        if not name.startswith("_"):
            assert inspect.getdoc(member), name
    assert typing.get_type_hints(KafkaProducer.send)["return"] is RecordMetadata


LIGHT = {
    "aiokafkapy": {
        "_core", "_form", "_lazy", "_version", "common", "errors", "observability", "producer", "record", "states",
    },
    "aiokafkapy.producer": {
        "accumulator", "arguments", "closings", "deliveries", "forks", "identity", "intake", "options", "producer",
        "records", "serializers", "state",
    },
    "aiokafkapy.producer.options": {"overflow_policy"},
    "aiokafkapy.observability": {"events", "rate_limit", "secret_names"},
    # Cython's own: of the compiled core, and of the interpreted one where the extra ``dev`` has brought Cython
    "": {"cython_runtime", "_cython", "cython", "Cython"},
}  # fmt: skip
"""The modules that the import of the producer's class may load: of the package, of three of its parts, and of other
libraries.
"""


def modules_after(program: str) -> set[str]:
    """The imports of a program of its own, the standard library apart."""
    show = "\nimport sys\nprint(*(name for name in sys.modules if name not in before))"
    program = f"import sys\nbefore = set(sys.modules)\n{program}{show}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}


def test_importing_the_package_imports_its_errors_and_nothing_else() -> None:
    modules = {name for name in modules_after("import aiokafkapy") if name.startswith("aiokafkapy.")}
    # And the core's list of its modules, where it is compiled
    assert {name.split(".")[1] for name in modules} - {"_core"} == {"_form", "_lazy", "_version", "errors"}


@pytest.mark.parametrize(
    ("extra", "missing", "program"),
    [
        ("fastapi", "fastapi", "import aiokafkapy.integrations.fastapi"),
        ("aiohttp", "aiohttp", "import aiokafkapy.integrations.aiohttp"),
        ("litestar", "litestar", "import aiokafkapy.integrations.litestar"),
        ("prometheus", "prometheus_client", "import aiokafkapy.integrations.prometheus"),
        ("opentelemetry", "opentelemetry", "import aiokafkapy.integrations.opentelemetry"),
        ("settings", "pydantic_settings", "import aiokafkapy.integrations.settings"),
        ("outbox", "sqlalchemy", "import aiokafkapy.integrations.outbox"),
        ("spark", "pyspark", "from aiokafkapy.spark import KafkaDataSource"),
        ("testing", "trustme", "from aiokafkapy.testing import TestCertificates"),
        ("schema-registry", "fastavro", "from aiokafkapy.integrations.schema_registry import AvroSerializer"),
        ("schema-rules", "cryptography", "from aiokafkapy.integrations.schema_registry import LocalKms"),
    ],
)
def test_the_error_of_a_missing_library_says_which_extra_to_install(extra: str, missing: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.modules[{missing!r}] = None\n{program}"],
        capture_output=True,
        text=True,
    )
    assert f"pip install 'aiokafkapy[{extra}]'" in done.stderr.splitlines()[-1]


def test_importing_the_producer_imports_no_other_library() -> None:
    # Neither pydantic nor kio, which imports hypothesis where it is installed; no more time and room than asyncio's.
    modules = modules_after("from aiokafkapy import KafkaProducer")
    for package in filter(None, LIGHT):
        inside = {
            name.removeprefix(f"{package}.").partition(".")[0] for name in modules if name.startswith(f"{package}.")
        }
        assert inside <= LIGHT[package], package
    others = {name.partition(".")[0].partition("_3_")[0] for name in modules if not name.startswith("aiokafkapy")}
    assert others <= LIGHT[""]


def test_a_producer_of_plain_options_is_made_without_pydantic() -> None:
    program = "from aiokafkapy import KafkaProducer\nKafkaProducer('h:1', linger_ms=5, acks=1, buffer_memory=10**7)"
    others = {name.partition(".")[0] for name in modules_after(program) if not name.startswith("aiokafkapy")}
    assert others & {"kio", "pydantic", "pydantic_core", "annotated_types", "structlog", "hypothesis"} == set()


def test_a_producer_of_plain_options_imports_only_its_own_parts() -> None:
    """Each part that it does not use costs every process memory, and its start time."""
    modules = modules_after("from aiokafkapy import KafkaProducer\nKafkaProducer('h:1')")
    assert "aiokafkapy.producer.sender.sender" in modules
    unused = {
        "aiokafkapy.client.authentication",
        "aiokafkapy.client.transport.listener_probe",
        "aiokafkapy.producer.transactional.transactions",
        "aiokafkapy.security.tls_transport",
        "concurrent.futures.thread",
        "uuid",
    }
    if aiokafkapy.compiled:
        unused.add("aiokafkapy.record.encoding")  # the plain builder's tables
    assert unused & set(modules) == set()


@pytest.mark.parametrize(
    ("framework", "make"),
    [
        ("fastapi", "kafka_lifespan('h:1', linger_ms=5)"),
        ("aiohttp", "from aiohttp.web import Application; setup_kafka(Application(), 'h:1', linger_ms=5)"),
        ("litestar", "KafkaPlugin('h:1', linger_ms=5)"),
    ],
)
def test_a_service_with_plain_options_makes_no_model_of_them(framework: str, make: str) -> None:
    # pydantic's models are thousands of objects for the garbage collector to walk while the service waits.
    pytest.importorskip(framework)
    modules = modules_after(f"from aiokafkapy.integrations.{framework} import *\n{make}")
    assert "aiokafkapy.producer.given_config" in modules
    assert not modules & {"aiokafkapy.producer.config", "aiokafkapy.client.config"}
    if framework == "aiohttp":  # the others may import it themselves
        assert "pydantic" not in modules


def test_importing_the_producer_does_without_slow_modules_of_the_standard_library() -> None:
    slow = ["importlib.metadata", "importlib.resources", "argparse", "uuid", "json", "email"]
    program = f"from aiokafkapy import KafkaProducer\nimport sys\nprint(*(set({slow}) & set(sys.modules)))"
    # Without ``site``, whose path files may import anything.
    path = repr([entry for entry in sys.path if entry])
    command = [sys.executable, "-S", "-c", f"import sys\nsys.path[:] = {path}\n{program}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []


async def seen_by_a_type_checker() -> None:
    """Checked, not run: the types follow the serializers, and mypy reports a ``type: ignore`` that is not needed."""
    plain = KafkaProducer("h:1")
    typing.assert_type(plain, KafkaProducer[bytes, bytes])
    keyed = KafkaProducer("h:1", key_serializer=string_serializer)
    typing.assert_type(keyed, KafkaProducer[str, bytes])
    await plain.send("t", b"v", key=b"k")
    await keyed.send("t", b"v", key="k")
    await keyed.send("t", b"v", key=5)  # type: ignore[arg-type]
    await plain.send("t", "text")  # type: ignore[arg-type]
    typing.assert_type(await (await plain.enqueue("t", b"v")), RecordMetadata)
    # objects of other libraries
    plain.consume_transform_produce(object())  # type: ignore[arg-type]
    await plain.send_offsets_to_transaction({TopicPartition("t", 0): 5}, "group")
    await plain.send_offsets_to_transaction({TopicPartition("t", 0): "5"}, "group")  # type: ignore[arg-type]
    await plain.send_offsets_to_transaction({TopicPartition("t", 0): 5}, 7)  # type: ignore[arg-type]
    await plain.send_arrow("t", polars.DataFrame())
    await plain.send_arrow("t", [b"v"])  # type: ignore[arg-type]
