"""Brings the outcome of a transaction to its partitions and groups.

Owns nothing: it appends a control batch to each partition's log, and ends the offsets that are pending in each group.
It must not know transactional ids' states. Kafka's counterpart is ``TransactionMarkerChannelManager``, whose
WriteTxnMarkers requests are calls here, for every node is in this process.

Rules:

- a partition that is led gets its marker at once, and a group its offsets; only the end of the transaction waits for
  those without a leader, or whose disk does not take it;
- a partition that was deleted needs none; one that has a marker of this producer with a higher epoch is done too;
- a partition may get its marker twice, after a crash between the marker and the journal's entry: to readers
  the second one ends nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from ...errors import InvalidProducerEpochError, KafkaStorageError
from ...observability import get_logger
from ...record.batch import ControlType
from ..storage.producer_state import Marker
from ..storage.topics import Partition, TopicRegistry
from .group_offsets import OffsetStore
from .transaction import TransactionMetadata, TransactionState

__all__ = ["COORDINATOR_EPOCH", "TransactionMarkers"]

logger = get_logger()

COORDINATOR_EPOCH: Final = 0
"""Constant: all nodes share one coordinator, which never really moves."""


class TransactionMarkers:
    """Writes markers into the cluster's logs."""

    __slots__ = ("_offsets", "_on_append", "_timestamp_ms", "_topics")

    def __init__(
        self,
        topics: TopicRegistry,
        offsets: OffsetStore,
        on_append: Callable[[Partition], object],
        timestamp_ms: Callable[[], int],
    ) -> None:
        """``on_append`` hears of each partition with a new marker, for the fetches that wait."""
        self._topics = topics
        self._offsets = offsets
        self._on_append = on_append
        self._timestamp_ms = timestamp_ms

    def write(self, transaction: TransactionMetadata) -> bool:
        """Write the markers that can be written now, and take their partitions and groups out of the transaction;
        returns whether none is left.
        """
        self._write(transaction, is_commit=transaction.state is TransactionState.PREPARE_COMMIT)
        return not (transaction.groups or transaction.partitions)

    # internals

    def _write(self, transaction: TransactionMetadata, *, is_commit: bool) -> None:
        for group_id in sorted(transaction.groups):
            end = partial(self._offsets.end_pending, group_id, transaction.producer_id, is_commit=is_commit)
            if _is_done(end, transaction):
                transaction.groups.remove(group_id)
        for place in sorted(transaction.partitions):
            partition = self._topics.partition(place.topic, place.partition)
            if partition is None or (
                partition.leader is not None
                and _is_done(partial(self._append, partition, transaction, is_commit=is_commit), transaction)
            ):
                transaction.partitions.remove(place)

    def _append(self, partition: Partition, transaction: TransactionMetadata, *, is_commit: bool) -> None:
        control_type = ControlType.COMMIT if is_commit else ControlType.ABORT
        marker = Marker(control_type, transaction.producer_id, transaction.producer_epoch, COORDINATOR_EPOCH)
        try:
            partition.log.append_marker(marker, partition.leader_epoch, self._timestamp_ms())
        except InvalidProducerEpochError:
            return
        self._on_append(partition)


def _is_done(write: Callable[[], object], transaction: TransactionMetadata) -> bool:
    """Write one marker; False when the disk does not take it."""
    try:
        write()
    except KafkaStorageError as error:
        logger.warning("broker.marker_failed", transactional_id=transaction.transactional_id, error=str(error))
        return False
    return True
