"""``LeaderEpochCache``: the leader epochs under which a partition's records were written, and where each begins.

Owns the look-up by epoch and by offset. It knows no batch, and keeps nothing: recovery notes the epochs again. Kafka's
counterpart is ``LeaderEpochFileCache``.

Rule: epochs and their first offsets both ascend, and the first one begins at the log's start.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

__all__ = ["UNDEFINED_EPOCH", "UNDEFINED_OFFSET", "LeaderEpochCache"]

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochCache:
    """The leader epochs of one partition's log."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        # (leader epoch, first offset)
        self._entries: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        """The epoch of the newest records, 0 when there are none."""
        return self._entries[-1][0] if self._entries else 0

    def assign(self, epoch: int, offset: int) -> None:
        """The record at ``offset``, the newest one, was written under this epoch."""
        if not self._entries or self._entries[-1][0] < epoch:
            self._entries.append((epoch, offset))

    def forget_before(self, offset: int) -> None:
        """The log begins here from now on."""
        entries = self._entries
        while len(entries) > 1 and entries[1][1] <= offset:
            del entries[0]
        if entries:
            entries[0] = (entries[0][0], max(entries[0][1], offset))

    def epoch_at(self, offset: int) -> int:
        """The epoch under which the record at ``offset`` was written; UNDEFINED_EPOCH before the first."""
        found = bisect_right(self._entries, offset, key=lambda entry: entry[1]) - 1
        return self._entries[found][0] if found >= 0 else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, current_epoch: int, end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the last records written under ``epoch`` or below it; (-1, -1) when unknown (KIP-320).

        ``end_offset`` is the log's. Java's leader notes its epoch, ``current_epoch``, as soon as it leads.
        """
        entries = list(self._entries)
        if not entries or entries[-1][0] < current_epoch:
            entries.append((current_epoch, end_offset))
        if epoch == entries[-1][0]:
            return epoch, end_offset
        higher = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if epoch < 0 or higher == len(entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (entries[higher - 1][0] if higher else epoch), entries[higher][1]
