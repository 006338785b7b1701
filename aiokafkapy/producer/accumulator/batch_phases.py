"""``BatchPhases``: the moments on one batch's way into a request, with ``record_timing=True``.

Owns values only; ``PhaseTimer`` notes them. Java has no counterpart.
"""

from __future__ import annotations

__all__ = ["BatchPhases"]


class BatchPhases:
    """The moments of one batch, in loop time; ``encode`` is seconds. None: not reached yet."""

    __slots__ = ("attempted_at", "encode", "encoding_since", "first_attempted_at", "ready_at")

    def __init__(self) -> None:
        self.ready_at: float | None = None
        self.encoding_since: float | None = None
        self.encode = 0.0
        self.first_attempted_at: float | None = None
        self.attempted_at: float | None = None

    def copy(self) -> BatchPhases:
        """The same moments, for a batch of the same records."""
        copied = BatchPhases()
        copied.ready_at = self.ready_at
        copied.encode = self.encode
        copied.first_attempted_at = self.first_attempted_at
        copied.attempted_at = self.attempted_at
        return copied
