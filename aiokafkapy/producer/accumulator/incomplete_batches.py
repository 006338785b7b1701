"""The batches without an outcome, and the counts of records that have one.

Owns the producer's accounting: a record is *accepted* when the accumulator has appended it, then *pending*, and at the
end *delivered* or *failed*, once. It knows no partitions, memory or time. Kafka's counterpart is ``IncompleteBatches``.

Rules: ``delivered`` and ``failed`` change in the same step in which a batch leaves, so accepted = delivered + failed +
pending holds at every moment; a batch that is split leaves in the same step in which its successors come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from ..deliveries.produce_request_result import SettlementCounter
from .producer_batch import BatchAccount, ProducerBatch

__all__ = ["Flush", "IncompleteBatches"]


class IncompleteBatches(BatchAccount):
    """The batches without an outcome."""

    __slots__ = ("_batches", "_is_by_age", "delivered", "failed")

    def __init__(self) -> None:
        super().__init__()
        self._batches: dict[ProducerBatch, None] = {}
        self._is_by_age = True
        self.delivered = 0
        self.failed = 0

    def add(self, batch: ProducerBatch) -> None:
        """``batch`` is being filled, or came out of a split."""
        self._batches[batch] = None

    def settled(self, batch: ProducerBatch, delivered: int, failed: int) -> None:
        """``batch`` has its outcome."""
        self._batches.pop(batch, None)
        self.delivered += delivered
        self.failed += failed

    def withdrawn(self, count: int) -> None:
        """``count`` records have left their batch, and failed."""
        self.failed += count

    def replace(self, batch: ProducerBatch, successors: Iterable[ProducerBatch], failed: int) -> None:
        """The records of ``batch`` live on in ``successors``, except for ``failed`` of them."""
        self._batches.pop(batch, None)
        self._batches.update(dict.fromkeys(successors))
        self._is_by_age = False
        self.failed += failed

    def copy_all(self) -> list[ProducerBatch]:
        """The batches as they are now."""
        return list(self._batches)

    def first(self, is_meant: Callable[[ProducerBatch], bool]) -> ProducerBatch | None:
        """The oldest batch that ``is_meant`` accepts; None without one."""
        if not self._is_by_age:
            # Successors came last, and are as old as the batch that was split.
            self._batches = dict.fromkeys(sorted(self._batches, key=attrgetter("created")))
            self._is_by_age = True
        return next(filter(is_meant, self._batches), None)

    @property
    def pending(self) -> int:
        """Records accepted and without an outcome. Walks over the batches."""
        return sum(batch.record_count for batch in self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, batch: object) -> bool:
        return batch in self._batches


class Flush:
    """One ``flush()``: settled when the batches that were incomplete when it began have outcomes, splits included.

    ``end()`` must be called in the end, also when the waiting was given up: until then everything is sent at once.
    """

    __slots__ = ("_counter", "_on_end")

    def __init__(
        self, batches: Iterable[ProducerBatch], on_settled: Callable[[], object], on_end: Callable[[], object]
    ) -> None:
        self._on_end: Callable[[], object] | None = on_end
        self._counter = SettlementCounter()
        for batch in batches:
            self._counter.watch(batch.produce_result)
        self._counter.on_settled = on_settled

    @property
    def is_settled(self) -> bool:
        """True when nothing is left to wait for; ``on_settled`` is not called if that was so at the beginning."""
        return self._counter.is_settled

    def end(self) -> None:
        """The flush is over, or was given up. May be called twice."""
        on_end, self._on_end = self._on_end, None
        self._counter.on_settled = None
        if on_end is not None:
            on_end()
