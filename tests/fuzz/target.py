"""The base of every target of fuzzing: ``Target``, and ``check``, the whole judgement on one input.

Rule: knows none of the fuzzed code, so that each file of targets may know this one.
"""

from __future__ import annotations

import abc
import contextlib
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import ClassVar, Final

__all__ = ["KIBIBYTE", "MEBIBYTE", "ExcessiveMemoryError", "Target", "check", "opened"]

KIBIBYTE: Final = 1 << 10
MEBIBYTE: Final = 1 << 20


class ExcessiveMemoryError(AssertionError):
    """An input cost more memory than one of its size may."""


class Target(abc.ABC):
    """One reader of strangers' bytes."""

    name: ClassVar[str]
    most_bytes: ClassVar[int] = MEBIBYTE
    """The bytes that any input may cost, however small."""
    most_bytes_per_byte: ClassVar[int] = 100
    """The bytes that each byte of an input may cost beside that."""

    @abc.abstractmethod
    def valid(self, chance: random.Random) -> bytes:
        """An input as an honest peer would send it."""

    @abc.abstractmethod
    def run(self, data: bytes) -> None:
        """Read ``data``; raises for a finding only."""

    def session(self) -> AbstractContextManager[object]:
        """The surroundings of all inputs."""
        return contextlib.nullcontext()


@contextlib.contextmanager
def opened(target: Target) -> Iterator[Target]:
    """The target within its session, with memory being traced."""
    with target.session():
        target.run(target.valid(random.Random(0)))  # the first input pays for imports, too
        tracemalloc.start()
        try:
            yield target
        finally:
            tracemalloc.stop()


def check(target: Target, data: bytes) -> None:
    """Give the target an input; raises for any finding, ExcessiveMemoryError among them."""
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    target.run(data)
    _, peak = tracemalloc.get_traced_memory()
    allowed = target.most_bytes + target.most_bytes_per_byte * len(data)
    if peak - before > allowed:
        raise ExcessiveMemoryError(f"{len(data)} bytes cost {peak - before}, {allowed} at most were expected")
