"""``BatchSealer``: makes closed batches' bytes final, compressing small ones at once and leaving large ones to threads.

Owns the list of batches that threads compress, and the memory that this takes. It starts no thread: the Sender takes
batches from here, has them compressed, and tells when that has ended. Java has no counterpart: it compresses as it
appends.

Rules: a thread's work is paid for beforehand, with as many bytes as the records have. When there is no memory for
that, the batch waits for another batch's thread to end; without such a thread it goes without paying, so that a pool
full of records empties, and the loop never compresses a large batch itself. Memory that sealing saves is given back.

A thread needs the GIL before and after its work: it competes with the loop for it, and waits while the loop is busy
(5 ms each time, by Python's default). So a batch that records fill one by one is compressed on the loop when that is
quick, and so are some of those that are about to be sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ...record.compression import quick_limit
from .buffer_pool import BufferPool
from .partition_queue import PartitionQueue
from .producer_batch import ProducerBatch

if TYPE_CHECKING:
    from .phase_timer import PhaseTimer

__all__ = ["QUICK_AT_ONCE", "BatchSealer"]

QUICK_AT_ONCE: Final = 8
"""Quick batches that are compressed on their way out in one turn of the loop: with JSON, 1.3 ms at most."""


class BatchSealer:
    """Seals the batches of one accumulator."""

    __slots__ = ("_compressing", "_pool", "_sealed_at_once", "_waiting", "timer")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        # Batches for threads to compress, and how many threads have or will have, these included
        self._waiting: list[ProducerBatch] = []
        self._compressing = 0
        # Quick batches on their way out that were compressed here since the last ``take``
        self._sealed_at_once = 0
        # Told how long this takes, with ``record_timing``
        self.timer: PhaseTimer | None = None

    def seal(self, batch: ProducerBatch) -> None:
        """Make the batch's bytes final, now."""
        if batch.withdrawn is not None or not batch.builder.is_sealed:
            if self.timer is not None:
                self.timer.encoding(batch)
            batch.seal()
            self._pool.charge(batch.settle_memory())
            if self.timer is not None:
                self.timer.encoded(batch)

    def must_wait(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """True when ``batch``, the first of ``queue``, cannot be sent yet, because a thread compresses it or will.

        In that case, and when this call seals it, the batch takes no more records.
        """
        if batch.is_being_compressed:
            return True
        if batch.withdrawn is not None:
            batch.leave_out_withdrawn()  # here, because a compression thread may not change the batch
            self._pool.charge(batch.settle_memory())
        if not batch.needs_compression:
            return False
        if queue.open_batch is batch:
            queue.open_batch = None
        batch.close()
        if self.timer is not None:
            self.timer.ready(batch)  # or no later call would ask
        if self._sealed_at_once < QUICK_AT_ONCE and self.is_quick(batch):
            self._sealed_at_once += 1
            self.seal(batch)
            return False
        self.hand_over(batch)
        return True

    def exchange(self, batch: ProducerBatch, successors: Iterable[ProducerBatch]) -> None:
        """The batch's records live on in these: count their memory in place of the batch's."""
        self._pool.release(batch.memory)
        batch.memory = 0
        for successor in successors:
            self._pool.charge(successor.settle_memory())

    def hand_over(self, batch: ProducerBatch) -> None:
        """Queue a closed batch for a thread, unless its memory has to come back from another first."""
        size = batch.builder.records_size
        if self._pool.try_acquire_reserved(size):
            batch.reserved_memory = size
        elif self._compressing:
            return  # must_wait asks again when another batch's thread has ended
        if self.timer is not None:
            self.timer.encoding(batch)
        batch.is_being_compressed = True
        self._compressing += 1
        self._waiting.append(batch)

    def is_quick(self, batch: ProducerBatch) -> bool:
        """True when compressing the batch here costs less than a thread that must wait for its turn."""
        return batch.builder.records_size <= quick_limit(batch.compression, batch.compression_level)

    def take(self) -> list[ProducerBatch]:
        """The batches to be compressed in a thread; once a turn of the loop."""
        self._sealed_at_once = 0
        taken, self._waiting = self._waiting, []
        return taken

    def ended(self, batch: ProducerBatch) -> None:
        """A thread's work on ``batch`` is over, well or not."""
        batch.is_being_compressed = False
        self._compressing -= 1
        self._pool.release(batch.reserved_memory)
        batch.reserved_memory = 0
        if not batch.is_done:
            self.seal(batch)
