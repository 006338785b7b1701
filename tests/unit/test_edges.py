"""The edges of the package use the producer by its public face."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiokafkapy

PACKAGE = Path(aiokafkapy.__file__).parent
EDGES = ("blocking", "cli", "console", "demo", "integrations", "migration", "spark", "testing", "typed")
FACE = {
    *("arguments", "closings", "config", "explanation", "forks", "mock", "options.keywords", "producer", "records"),
    *("serializers", "state", "statistics", "undelivered_line"),
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


def modules_of(edge: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in (PACKAGE / edge).rglob("*.py"):
        yield path, ast.parse(path.read_text())


def private_accesses(tree: ast.Module) -> Iterator[str]:
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if "producer" in name.lower() and name not in own:
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_takes_no_private_attribute_of_a_producer(edge: str) -> None:
    found = {path.name: list(private_accesses(tree)) for path, tree in modules_of(edge)}
    assert not any(found.values()), found


def test_such_an_access_is_seen() -> None:
    source = "producer._intake; self._producer._check_usable(); self._producer.send(); self._other; KafkaProducer.send"
    assert len(list(private_accesses(ast.parse(source)))) == 2


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
