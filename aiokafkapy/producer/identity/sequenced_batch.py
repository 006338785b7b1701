"""``SequencedBatch``: a batch as the ``TransactionManager`` sees it, a number of records with a sequence.

Owns a batch's identity and sequence. It knows neither bytes nor outcomes: ``ProducerBatch`` extends it, writes these
fields into its header, and reports its end. It is a class, not a protocol, so that compiled code reads its fields in
place. In Java they are fields of ``ProducerBatch`` itself.
"""

from __future__ import annotations

from typing import Final

from ...common import TopicPartition

__all__ = [
    "BATCHES_REMEMBERED",
    "MAX_SEQUENCE",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "SequencedBatch",
    "increment_sequence",
]

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1
BATCHES_REMEMBERED: Final = 5
"""The batches of a producer that brokers remember in each partition (``ProducerStateEntry``): they do not detect older
duplicates.
"""
_NOTHING: Final = -1  # this and the next one are C numbers when compiled
_MASK: Final = MAX_SEQUENCE


class SequencedBatch:
    """The sequenced part of a batch. ``order`` is its place among all batches of the partition.

    No field is an object: compiled, that would make the cyclic collector see every batch.
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

    def destination(self) -> TopicPartition:
        """The partition that the batch is for."""
        raise NotImplementedError

    @property
    def has_sequence(self) -> bool:
        """True once a sequence was given: the batch, with its present bytes, may be on a broker."""
        return self.base_sequence != _NOTHING

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False
    ) -> None:
        """Give the batch its identity and sequence, and write them into its bytes, if it has any."""
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
        """Write identity and sequence into the batch's bytes, if it has any."""


def increment_sequence(sequence: int, by: int) -> int:
    """The sequence, ``by`` records later; it wraps to 0 after 2³¹ - 1, as the brokers expect."""
    return (sequence + by) & _MASK
