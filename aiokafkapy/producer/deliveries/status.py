"""The states of a ``ProduceRequestResult``: whether, and how, its batch came to an end.

Plain ints, which the compiled modules copy into variables of C when they are imported. Java has no counterpart: there
a latch and an exception say it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FAILED", "MOVED", "PENDING", "SUCCEEDED"]

PENDING: Final = 0
SUCCEEDED: Final = 1
FAILED: Final = 2
MOVED: Final = 3
"""The batch was split or lost records: they live on in other batches, and their outcomes with them."""
