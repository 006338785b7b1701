"""``returned(value)``: the iterator of an awaited object whose value is there: it returns the value at once.

One is made for each delivery that is awaited after its outcome has come, as nearly all are where many records are on
their way. Interpreted it is a generator; the compiled twin, ``returned.pyx``, is lighter. Java has no counterpart.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

__all__ = ["returned"]

T = TypeVar("T")


def returned(value: T) -> Generator[Any, None, T]:
    """Described above."""
    return value
    yield  # type: ignore[unreachable]  # makes it a generator
