"""The edges of the package use the producer by its public face; tests outside of ``unit`` reach private names by way of
``inside`` only.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiokafkapy
from aiokafkapy.integrations.settings import ProducerSettings

PACKAGE = Path(aiokafkapy.__file__).parent
EDGES = ("blocking", "cli", "console", "demo", "integrations", "migration", "spark", "testing", "typed")
FACE = {
    *("arguments", "closings", "config", "explanation", "forks", "given_config", "mock.producer", "options.keywords"),
    *("producer", "records", "serializers", "state", "statistics", "undelivered_line"),
}
"""The modules of the producer that edges may use."""
NAMES = {
    "circuits.circuits": {"CircuitStatus"},
    "deliveries.delivery": {"Delivery"},
    "deliveries.shortcuts": {"now_ms"},
    "intake.record_sender": {"K", "V"},
    "tables.table_metadata": {"TableMetadata"},
}
"""The names of its rooms for edges: the types of results, of the generic producer, and the clock of records."""


TESTS = Path(__file__).parents[1]
PRIVATE_NAMES_OF_OTHERS = {
    *("._replace", "os._exit", "sys._is_gil_enabled"),  # Python's, which are public
    *("loop._ready", "Handle._run", "handle._callback"),  # asyncio's, which shows its queue in no other way
    *("KafkaError._PARTITION_EOF", "KafkaError._AUTHENTICATION", "KafkaError._NO_OFFSET"),  # librdkafka's, public
    *("._conn", "._gateway", "._jvm", "._jdf", "._jsq"),  # aiosqlite's and PySpark's, which have no call for them
}
SABOTAGE = {"simulation/test_simulation.py", "simulation/test_transactions.py"}
"""Tests that put a known bug into the product, wherever it belongs."""


def modules_of(edge: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in (PACKAGE / edge).rglob("*.py"):
        yield path, ast.parse(path.read_text())


def private_attributes(tree: ast.Module) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            yield node


def private_accesses(tree: ast.Module) -> Iterator[str]:
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for node in private_attributes(tree):
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if "producer" in name.lower() and name not in own:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def accesses_of_others(tree: ast.Module) -> Iterator[str]:
    """The private attributes of anything but the object itself and its class."""
    for node in private_attributes(tree):
        found = ast.unparse(node)
        if ast.unparse(node.value) not in ("self", "cls", "super()") and not found.endswith(
            tuple(PRIVATE_NAMES_OF_OTHERS)
        ):
            yield f"line {node.lineno}: {found}"


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_takes_no_private_attribute_of_a_producer(edge: str) -> None:
    found = {path.name: list(private_accesses(tree)) for path, tree in modules_of(edge)}
    assert not any(found.values()), found


def test_such_an_access_is_seen() -> None:
    source = "producer._intake; self._producer._check_usable(); self._producer.send(); self._other; KafkaProducer.send"
    assert len(list(private_accesses(ast.parse(source)))) == 2


@pytest.mark.parametrize("edge", EDGES)
def test_a_class_of_an_edge_takes_no_private_attribute_of_its_bases(edge: str) -> None:
    found = {}
    for path, tree in modules_of(edge):
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        if path.name == "__main__.py" or not any(node.bases for node in defined):
            continue
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for node in defined:
            cls = getattr(module, node.name, None)
            if isinstance(cls, type):
                taken = {each.attr for each in private_attributes(ast.Module(node.body, []))}
                found[f"{path.name}: {node.name}"] = taken & private_names_of_bases(cls)
    assert not any(found.values()), {name: taken for name, taken in found.items() if taken}


def private_names_of_bases(cls: type) -> set[str]:
    """The private attributes of a class that it has from classes of the package that belong to no edge."""
    edges = tuple(f"aiokafkapy.{edge}." for edge in EDGES)
    names = set()
    for base in cls.__mro__:
        if base.__module__.startswith("aiokafkapy.") and not base.__module__.startswith(edges):
            names |= {name for name in vars(base) if name.startswith("_") and not name.startswith("__")}
    return names


def test_a_private_name_of_a_base_is_seen() -> None:
    assert "_validate" in private_names_of_bases(ProducerSettings)


def test_a_test_outside_of_unit_takes_private_attributes_by_way_of_inside() -> None:
    found = {}
    for path in TESTS.rglob("*.py"):
        name = path.relative_to(TESTS).as_posix()
        if not name.startswith("unit/") and name != "inside.py" and name not in SABOTAGE:
            found[name] = list(accesses_of_others(ast.parse(path.read_text())))
    assert len(found) > 50
    assert not any(found.values()), {name: lines for name, lines in found.items() if lines}


def test_an_access_of_a_private_attribute_of_another_is_seen() -> None:
    source = (
        "self._own; cls._own; super()._own; record._replace(key=1); x.__class__; relay._database; self._relay._task"
    )
    assert list(accesses_of_others(ast.parse(source))) == ["line 1: relay._database", "line 1: self._relay._task"]


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_builds_on_no_inner_room_of_the_producer(edge: str) -> None:
    for path, tree in modules_of(edge):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert not inner_names(node), (path, node.lineno)
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base) for base in node.bases}
                assert not {"ArrowSend", "TableSend", "KafkaProducer"} & bases, (path, node.lineno)


def inner_names(node: ast.ImportFrom) -> set[str]:
    """The names that an import takes from inner rooms of the producer."""
    owner, _, module = (node.module or "").removeprefix("aiokafkapy.").partition(".")
    names = {each.name for each in node.names}
    if owner != "producer" or module in FACE:
        return set()
    return names - NAMES.get(module, FACE if not module else set())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from ..producer.accumulator.batch_queues import BatchQueues", {"BatchQueues"}),
        ("from ..producer.spool.spool import Spool", {"Spool"}),
        ("from ..producer.intake.record_sender import K, RecordSender", {"RecordSender"}),
        ("from aiokafkapy.producer import forks, runtime", {"runtime"}),
        ("from ..producer.producer import KafkaProducer", set()),
        ("from .producing import Line", set()),
    ],
)
def test_names_of_inner_rooms_are_seen(line: str, found: set[str]) -> None:
    (node,) = ast.parse(line).body
    assert isinstance(node, ast.ImportFrom)
    assert inner_names(node) == found
