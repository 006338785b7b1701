"""Iterators of awaited objects: of one whose value is there, and of one whose value a task waits for.

- ``returned(value)`` returns the value at once. One is made for each delivery that is awaited after its outcome has
  come, as nearly all are where many records are on their way.
- ``outcome_after(waiter, outcome)`` awaits the waiter, then returns or raises what ``outcome.result()`` does.

Interpreted both are generators. The compiled twin, ``returned.pyx``, is lighter. Java has no counterpart.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from .waiting import Awaiter

__all__ = ["outcome_after", "returned"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Outcome(Protocol[T_co]):
    """What a task waits for."""

    def result(self) -> T_co:
        """Its value; raises its error."""


def returned(value: T) -> Generator[Any, None, T]:
    """Described above."""
    return value
    yield  # type: ignore[unreachable]  # makes it a generator


def outcome_after(waiter: Awaiter, outcome: Outcome[T]) -> Generator[Any, None, T]:
    """Described above."""
    try:
        yield from waiter
    finally:
        del waiter  # it refers to the loop, and this frame lives as long as a traceback does
    return outcome.result()
