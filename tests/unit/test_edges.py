"""The edges of the package use the producer by its public face."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiokafkapy

PACKAGE = Path(aiokafkapy.__file__).parent
EDGES = ("cli", "console", "demo", "integrations", "spark", "testing", "typed")
ROOMS = ("accumulator", "bulk", "identity", "intake", "sender", "runtime")
"""Of the producer; the rest of it belongs to its face: its options, its states, and its results."""


def modules_of(edge: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in (PACKAGE / edge).rglob("*.py"):
        yield path, ast.parse(path.read_text())


def private_accesses(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if "producer" in name.lower():
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_takes_no_private_attribute_of_a_producer(edge: str) -> None:
    found = {path.name: list(private_accesses(tree)) for path, tree in modules_of(edge)}
    assert not any(found.values()), found


def test_such_an_access_is_seen() -> None:
    source = "producer._intake; self._producer._check_usable(); self._producer.send(); self._other"
    assert len(list(private_accesses(ast.parse(source)))) == 2


@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_builds_on_no_inner_room_of_the_producer(edge: str) -> None:
    inner = {f"producer.{room}" for room in ROOMS}
    for path, tree in modules_of(edge):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                module = node.module.removeprefix("aiokafkapy.")
                assert not any(f"{module}.".startswith(f"{room}.") for room in inner), (path, node.lineno)
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base) for base in node.bases}
                assert not {"ArrowSend", "TableSend", "KafkaProducer"} & bases, (path, node.lineno)
