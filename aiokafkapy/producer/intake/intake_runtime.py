"""``IntakeRuntime``: the parts of a started producer that its calls use.

The name lets both refer to it: ``ProducerRuntime`` is made of rooms like this one, and an intake is bound to it. Rooms
that use other parts have a protocol of their own: ``SpoolRuntime``, ``TransactionsRuntime``. It knows neither the
beginning nor the end of these parts. Kafka has no counterpart: its producer is bound to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ...common import PartitionInfo
    from ..accumulator.record_accumulator import RecordAccumulator
    from ..circuits.circuits import Circuits
    from ..config import ProducerConfig
    from .admission import Admission
    from .record_deadlines import RecordDeadlines
    from .topic_state import TopicState

__all__ = ["IntakeRuntime"]


class IntakeRuntime(Protocol):
    """One life of a producer, as its calls see it: ``is_bound`` until it is over, and then without ``topics``."""

    config: ProducerConfig
    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    max_block: float
    is_bound: bool
    accumulator: RecordAccumulator
    admission: Admission
    deadlines: RecordDeadlines
    topics: dict[str, TopicState]

    @property
    def circuits(self) -> Circuits | None:
        """The topics that take no calls for now; None without ``circuit_breaker``."""

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, waiting up to ``max_block_ms`` for its metadata."""

    async def metadata_refreshed(self) -> None:
        """Ask for the metadata of all topics in use again, and wait for the answer, up to ``max_block_ms``."""
