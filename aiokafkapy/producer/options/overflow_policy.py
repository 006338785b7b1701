"""The policies for records without room: the values of ``overflow``.

Owns the words: the options take them, and the parts that act on a policy look for them. It knows no records.
Java has only the wait, and librdkafka only the error.

Rule: it imports nothing of the package, because the import of the producer's class loads it.
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["DROP_NEWEST", "DROP_OLDEST", "RAISE", "SPOOL", "WAIT", "OverflowPolicy"]

OverflowPolicy = Literal["wait", "raise", "drop_newest", "drop_oldest", "spool"]

WAIT: Final = "wait"
RAISE: Final = "raise"
DROP_NEWEST: Final = "drop_newest"
DROP_OLDEST: Final = "drop_oldest"
SPOOL: Final = "spool"
