"""Decodes the bytes of a Fetch response into the records that a reader may see.

Decides which records are visible: none before the position, no control records, and with read_committed none of an
aborted transaction. Knows no connection, no clock and no metadata. Kafka's counterpart is ``CompletedFetch``.

Rules:

- Batches are decoded on demand, some at a time, so that a large response does not block the loop.
- A damaged batch is reported with its position, after the records before it were handed out.
- The next position is after the last whole batch, even if nothing in it was visible, so reading always advances; but
  never beyond ``stop_at``, since a reader may go on there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..common import Buffer, ConsumedRecord, TopicPartition
from ..errors import CorruptMessageError, KafkaError
from ..record.batch import ControlType, RecordBatch, iter_batches
from ..record.record_columns import OFFSET_MAX, RecordColumns

__all__ = ["AbortedTransaction", "CompletedFetch"]


class AbortedTransaction(NamedTuple):
    """An aborted transaction, as Fetch lists it: its first offset and its producer."""

    first_offset: int
    producer_id: int


class CompletedFetch:
    """The batches of one partition in one response, from ``position`` on.

    ``aborted`` are the transactions to skip, None if everything is visible (read_uncommitted). ``next_offset`` is the
    position after the records of ``take``; ``error`` is the reason why decoding stopped before the end of the bytes.
    """

    __slots__ = (
        "_batches",
        "_check_crcs",
        "_position",
        "_transactions",
        "end_offset",
        "error",
        "is_drained",
        "next_offset",
        "node_id",
        "topic_partition",
    )

    def __init__(
        self,
        data: Buffer,
        topic_partition: TopicPartition,
        position: int,
        *,
        check_crcs: bool = True,
        aborted: Iterable[AbortedTransaction] | None = None,
        node_id: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.topic_partition = topic_partition
        self.node_id = node_id
        self.end_offset = end_offset
        self.next_offset = position
        self.is_drained = False
        self.error: KafkaError | None = None
        self._position = position
        self._check_crcs = check_crcs
        self._batches = iter_batches(data)
        self._transactions = None if aborted is None else _AbortedTransactions(aborted)

    def take(self, enough: int, stop_at: int = OFFSET_MAX) -> list[ConsumedRecord]:
        """The next records before ``stop_at``, from whole batches until there are at least ``enough`` or
        none is left.
        """
        records: list[ConsumedRecord] = []
        self._read(
            lambda batch: records.extend(self._records_of(batch, stop_at)), lambda: len(records) < enough, stop_at
        )
        return records

    def take_columns(self, columns: RecordColumns, enough_bytes: int, stop_at: int = OFFSET_MAX) -> None:
        """As ``take``, into ``columns``, until these have ``enough_bytes`` of keys, values and headers."""
        self._read(
            lambda batch: batch.read_into(columns, self._position, stop_at),
            lambda: columns.data_bytes < enough_bytes,
            stop_at,
        )

    # internals

    def _read(self, read: Callable[[RecordBatch], None], wants_more: Callable[[], bool], stop_at: int) -> None:
        """Pass the next visible batches to ``read``, as long as more is wanted."""
        try:
            while wants_more():
                batch = next(self._batches, None) if self.next_offset < stop_at else None
                if batch is None:
                    self.is_drained = True
                    break
                if self._check_crcs:
                    batch.validate()
                is_shown = not batch.is_control if self._transactions is None else self._transactions.shows(batch)
                if is_shown and batch.next_offset > self._position:
                    read(batch)
                self.next_offset = max(self.next_offset, min(batch.next_offset, stop_at))
                if batch.next_offset > stop_at:  # fetched again, should its end be wanted later
                    self.is_drained = True
                    break
        except KafkaError as error:
            self.is_drained = True
            topic, partition = self.topic_partition
            place = f"{self.topic_partition}: at offset {self.next_offset}: {error}"
            self.error = CorruptMessageError(place, topic=topic, partition=partition)
            self.error.__cause__ = error

    def _records_of(self, batch: RecordBatch, stop_at: int) -> list[ConsumedRecord]:
        records = batch.records(*self.topic_partition)
        if batch.base_offset >= self._position and batch.last_offset < stop_at:
            return records
        # Brokers return whole batches: the position may be inside the first, and the end inside the last.
        return [record for record in records if self._position <= record.offset < stop_at]


class _AbortedTransactions:
    """Tracks which producers are inside an aborted transaction while batches are read in the log's order."""

    __slots__ = ("_aborting", "_pending")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._pending = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()

    def shows(self, batch: RecordBatch) -> bool:
        """True when the batch's records are visible; call it once for each batch, in order."""
        while self._pending and self._pending[-1].first_offset <= batch.last_offset:
            self._aborting.add(self._pending.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in self._aborting and batch.control_type() is ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)
