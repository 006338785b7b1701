"""The smallest set of faults with which a seed still fails: faults are left out one after another.

Owns the choice of the sets to try. It knows no simulations: a function says whether a set fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

__all__ = ["smallest"]

MOST_RUNS: Final = 60

F = TypeVar("F")


def smallest(faults: Sequence[F], fails: Callable[[Sequence[F]], bool]) -> list[F]:
    """A part of ``faults``, in order, that ``fails``; each of its faults is needed, unless ``MOST_RUNS`` did not
    suffice to tell.
    """
    left = list(faults)
    runs = 1
    if left and fails(()):
        return []
    has_changed = True
    while has_changed:
        has_changed = False
        for fault in reversed(left.copy()):
            without = [each for each in left if each is not fault]
            if not without or runs >= MOST_RUNS:
                break
            runs += 1
            if fails(without):
                left, has_changed = without, True
    return left
