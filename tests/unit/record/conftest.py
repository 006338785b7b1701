"""Both forms of the byte kernel, and the records that the golden files were made of."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.forms import compiled_form, plain_form

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
BASE = 1_700_000_000_000

Item = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def plain() -> list[Item]:
    return [(BASE, None, b"value-%d" % i, ()) for i in range(3)]


def mixed() -> list[Item]:
    items: list[Item] = []
    for i in range(10):
        key = None if i % 3 == 0 else b"key-%d" % i
        value = None if i % 4 == 3 else (b"value-%d" % i) * (i * 10)
        headers = () if i % 2 == 0 else ((f"h{i}", bytes([i])), ("ünï", None), ("", b""))
        items.append((BASE + (i * 37 % 11) * 100_000 - 500_000 * (i % 2), key, value, headers))
    return items


def large() -> list[Item]:
    return [(BASE + i, b"k%d" % (i % 7), b"v%d-" % i + b"x" * 100, ()) for i in range(700)]


def random() -> list[Item]:
    return [(BASE, None, hashlib.sha256(b"random-%d" % i).digest(), ()) for i in range(5)]


KERNEL = "aiokafkapy.record.builder"
RECORDS = {"plain": plain, "mixed": mixed, "large": large, "random": random}


def read_golden(name: str) -> dict[str, bytes]:
    lines = (GOLDEN / name).read_text().splitlines()
    return {key: bytes.fromhex(hexadecimal) for key, hexadecimal in (line.split() for line in lines)}


@pytest.fixture(scope="session")
def golden_batches() -> dict[str, bytes]:
    return read_golden("batches.hex")


@pytest.fixture(scope="session")
def our_batches() -> dict[str, bytes]:
    return read_golden("ours.hex")


@pytest.fixture(scope="session", params=["compiled", "interpreted"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return (plain_form if request.param == "interpreted" else compiled_form)(KERNEL)


@pytest.fixture(scope="session")
def kernels() -> tuple[ModuleType, ModuleType]:
    """The compiled form and its twin, to be compared."""
    return compiled_form(KERNEL), plain_form(KERNEL)


@pytest.fixture(scope="session")
def records_of() -> dict[str, list[Item]]:
    """Name of a set of records → the records, as in GoldenBytes.java."""
    return {name: make() for name, make in RECORDS.items()}
