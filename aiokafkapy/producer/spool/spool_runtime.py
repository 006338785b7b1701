"""``SpoolRuntime``: the parts of a started producer that its spool uses. Kafka has no counterpart.

The name lets both refer to it: the runtime has a spool, and the spool puts records into the runtime's accumulator. It
knows neither the beginning nor the end of these parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..intake.intake_runtime import IntakeRuntime

if TYPE_CHECKING:
    import asyncio

    from ...client.network_client import NetworkClient
    from ..accumulator.incomplete_batches import Flush
    from ..deliveries.outcome_teller import OutcomeTeller
    from ..intake.overflow import Overflow
    from ..intake.partitioners import Partitioner
    from ..metrics import CallMetrics
    from ..producer_metadata import ProducerMetadata

__all__ = ["SpoolRuntime"]


class SpoolRuntime(IntakeRuntime, Protocol):
    """One life of a producer, as its spool sees it."""

    metadata: ProducerMetadata
    client: NetworkClient
    teller: OutcomeTeller
    overflow: Overflow
    partitioner: Partitioner
    calls: CallMetrics

    async def metadata_change(self, deadline: float) -> bool:
        """Wait for the next outcome of a metadata request; False when the deadline came first."""

    def begin_flush(self) -> tuple[Flush, asyncio.Future[None]]:
        """A flush of the records accepted by now, and a future that is done when it is settled; ``end()`` it."""
