"""``PhaseTimer``: the moments on a batch's way into a request, with ``record_timing=True``.

Owns the time at which a batch is ready, the duration of making its bytes final, and the start of each attempt; the
batch keeps them, as ``BatchPhases``. It knows no queues and no answers: the appender, ``ReadyBatches`` and
``BatchSealer`` tell it. Imported only by a producer that times its records. Java has no counterpart.

Rules:

- A batch is ready once: when it is full, when ``ReadyBatches`` would send it if its leader could take a request, or
  when its linger is over, whichever is first; a batch that a flush waits for is ready with the flush, however full it
  is. Waiting behind other batches is not linger.
- The times of a batch do not overlap: linger, queued, encode, retried and in flight are the time from its first record
  to its answer.
- Encoding is ``BatchSealer``'s work: compression, with the wait for a thread, and the header. Serializers run before
  there is a batch, and a record's own encoding is part of its call.
- A batch that is made of another's records, split or without some, has the times that the other had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .batch_phases import BatchPhases

if TYPE_CHECKING:
    from .producer_batch import ProducerBatch

__all__ = ["PhaseTimer"]


class PhaseTimer:
    """Notes the moments of one producer's batches. ``clock`` is the loop's."""

    __slots__ = ("_clock",)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def ready(self, batch: ProducerBatch, at: float | None = None) -> bool:
        """The batch would be sent if its leader could take a request, since ``at``; None: from now on. False if that
        was noted before.
        """
        phases = _phases_of(batch)
        if phases.ready_at is not None:
            return False
        phases.ready_at = max(batch.created, self._clock() if at is None else at)
        return True

    def encoding(self, batch: ProducerBatch) -> None:
        """The batch's bytes are about to become final, here or in a thread."""
        phases = _phases_of(batch)
        if phases.encoding_since is None:
            phases.encoding_since = self._clock()

    def encoded(self, batch: ProducerBatch) -> None:
        """The batch's bytes are final."""
        phases = _phases_of(batch)
        if phases.encoding_since is not None:
            phases.encode += self._clock() - phases.encoding_since
            phases.encoding_since = None

    def attempted(self, batch: ProducerBatch, linger: float) -> None:
        """The batch goes into a request, and gathered for at most ``linger`` seconds."""
        phases = _phases_of(batch)
        phases.attempted_at = now = self._clock()
        if phases.first_attempted_at is None:
            self.ready(batch, now)
            phases.first_attempted_at = now
        if phases.ready_at is not None:
            phases.ready_at = min(phases.ready_at, batch.created + max(0.0, linger))


def _phases_of(batch: ProducerBatch) -> BatchPhases:
    phases: BatchPhases | None = batch.phases
    if phases is None:
        phases = batch.phases = BatchPhases()
    return phases
