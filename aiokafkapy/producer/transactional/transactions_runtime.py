"""``TransactionsRuntime``: the parts of a started producer that its transactions use.

A name below both: the runtime has transactions, and they end when its records have their outcomes. It knows neither the
beginning nor the end of these parts. Kafka has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..intake.intake_runtime import IntakeRuntime

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from ..accumulator.incomplete_batches import Flush
    from ..intake.pending_record import PendingRecord
    from ..metrics import CallMetrics
    from ..sender.sender import Sender

__all__ = ["TransactionsRuntime"]


class TransactionsRuntime(IntakeRuntime, Protocol):
    """One life of a producer, as its transactions see it."""

    sender: Sender
    calls: CallMetrics

    @property
    def is_usable_here(self) -> bool:
        """True on its loop, until this life is over."""

    async def flush(self, deadline: float) -> None:
        """Wait until every record sent before this call has its outcome; raises FlushTimeoutError at ``deadline``."""

    async def admitted(self, waiting: Sequence[PendingRecord]) -> None:
        """Return when these records are accepted or refused."""

    def begin_flush(self) -> tuple[Flush, asyncio.Future[None]]:
        """A flush of the records accepted by now, and a future that is done when it is settled; ``end()`` it."""
