"""``SequencedBatch``: a batch as the ``TransactionManager`` sees it, a number of records with a sequence.

Owns a batch's identity and sequence. It knows neither bytes nor outcomes: ``ProducerBatch`` extends it, writes these
fields into its header, and says when it is done. A class and not a protocol, so that compiled code reads its fields
where they are. In Java they are fields of ``ProducerBatch`` itself.
"""

from __future__ import annotations

from typing import Final

from ...common import TopicPartition

__all__ = ["NO_PRODUCER_EPOCH", "NO_PRODUCER_ID", "NO_SEQUENCE", "SequencedBatch"]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
_NOTHING: Final = -1  # each of these; a number of C's, compiled


class SequencedBatch:
    """The part of a batch that sequences are given to. ``order`` is its place among all batches of the partition.

    It has no objects among its fields: compiled, it would make the cyclic collector see every batch.
    """

    __slots__ = (
        "base_sequence",
        "is_done",
        "is_transactional",
        "may_be_renumbered",
        "order",
        "producer_epoch",
        "producer_id",
        "record_count",
        "sequence_has_been_reset",
    )

    def __init__(self, order: int = 0, record_count: int = 0) -> None:
        self._without_sequence(order, record_count)

    def _without_sequence(self, order: int, record_count: int) -> None:
        self.order = order
        self.record_count = record_count
        self.is_done = False
        self.producer_id = self.producer_epoch = self.base_sequence = _NOTHING
        self.is_transactional = False
        # Between a renumbering and the next drain
        self.sequence_has_been_reset = False
        # False while an attempt may have been written; True again once a broker has said that it does not have it
        self.may_be_renumbered = True

    def place(self) -> TopicPartition:
        """The partition that the batch is for."""
        raise NotImplementedError

    @property
    def has_sequence(self) -> bool:
        """True once a sequence was given: this batch, with these bytes, may be on a broker."""
        return self.base_sequence != _NOTHING

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False
    ) -> None:
        """Give the batch its identity and sequence; they are written into its bytes, if it has any."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.stamp()

    def reset_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Renumber a batch that waits for its retry, after an epoch bump (KIP-360)."""
        self.set_producer_state(producer_id, producer_epoch, base_sequence, self.is_transactional)
        self.sequence_has_been_reset = True

    def stamp(self) -> None:
        """Write identity and sequence into the batch's bytes, where it has any."""
