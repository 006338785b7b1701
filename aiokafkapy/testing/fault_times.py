"""How often an armed fault of a ``FaultProxy`` or a ``SchemaRegistry`` happens: the check of ``times``.

Pure: it knows neither of them.
"""

from __future__ import annotations

__all__ = ["checked_times"]


def checked_times(times: int | None) -> int | None:
    """How often a fault happens (None: until it is cleared); ValueError unless that is once at least."""
    if times is not None and times < 1:
        raise ValueError(f"times={times}: write 1 or more, or None")
    return times
