"""The check of ``times``, the number of times that an armed fault of a ``FaultProxy`` or a ``SchemaRegistry`` happens.

Pure: it knows neither of them.
"""

from __future__ import annotations

__all__ = ["checked_times"]


def checked_times(times: int | None) -> int | None:
    """The number of times that a fault happens (None: until it is cleared); ValueError unless it is at least 1."""
    if times is not None and times < 1:
        raise ValueError(f"times={times}: write 1 or more, or None")
    return times
