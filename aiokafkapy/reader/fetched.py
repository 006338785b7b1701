"""From the bytes of a Fetch answer to the records a reader may see.

Owns which records of the batches count: none before the position, no control records, and with read_committed none of
an aborted transaction. Knows no connection, no clock and no metadata. Kafka's counterpart is `CompletedFetch`.

Rules:
- a batch that is damaged is reported with its place, and what stands before it in the answer is handed out first;
- the next position is behind the last whole batch, also when nothing of it was visible, so reading never stands still.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..common import ConsumedRecord, TopicPartition
from ..errors import CorruptMessageError, KafkaError
from ..record.batch import ControlType, RecordBatch, iter_batches
from ..record.builder import Buffer

__all__ = ["AbortedTransaction", "DecodedRecords", "decode_fetched"]


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, as Fetch lists it: where it starts, and its producer."""

    first_offset: int
    producer_id: int


class DecodedRecords(NamedTuple):
    """What may be seen, and where to read on. `error` is what stopped the decoding before the end of the bytes."""

    records: list[ConsumedRecord]
    next_offset: int
    error: KafkaError | None


def decode_fetched(
    data: Buffer,
    topic_partition: TopicPartition,
    position: int,
    *,
    check_crcs: bool = True,
    aborted: Iterable[AbortedTransaction] | None = None,
) -> DecodedRecords:
    """Decode the batches of one partition from `position` on.

    `aborted` are the transactions to leave out, None when everything may be seen (read_uncommitted).
    """
    topic, partition = topic_partition
    records: list[ConsumedRecord] = []
    next_offset = position
    transactions = None if aborted is None else _AbortedTransactions(aborted)
    try:
        for batch in iter_batches(data):
            if check_crcs:
                batch.validate()
            is_visible = not batch.is_control if transactions is None else transactions.shows(batch)
            if is_visible and batch.next_offset > position:
                found = batch.records(topic, partition)
                # The position may be inside the first batch: brokers hand out whole batches.
                records += found if batch.base_offset >= position else [one for one in found if one[0] >= position]
            next_offset = max(next_offset, batch.next_offset)
    except KafkaError as error:
        place = f"{topic_partition}: after offset {next_offset - 1}: {error}"
        damaged = CorruptMessageError(place, topic=topic, partition=partition)
        damaged.__cause__ = error
        return DecodedRecords(records, next_offset, damaged)
    return DecodedRecords(records, next_offset, None)


class _AbortedTransactions:
    """Follows which producers are inside an aborted transaction while the batches go by, in the log's order."""

    __slots__ = ("_aborting", "_pending")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._pending = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()

    def shows(self, batch: RecordBatch) -> bool:
        """Whether the batch's records may be seen; to be asked once for each batch, in order."""
        while self._pending and self._pending[-1].first_offset <= batch.last_offset:
            self._aborting.add(self._pending.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in self._aborting and batch.control_type() is ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)
