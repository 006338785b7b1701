"""``TransactionsRuntime``: the parts of a started producer that its transactions use, and the calls of each.

The name lets both refer to it: the runtime has transactions, and they end when its records have their outcomes. It
knows neither the beginning nor the end of these parts. Kafka has no counterpart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from ...common import TopicPartition
    from ..accumulator.incomplete_batches import Flush
    from ..config import ProducerConfig
    from ..identity.transaction import PreparedTxnState
    from ..intake.pending_record import PendingRecord
    from ..metrics import CallMetrics
    from .group_offsets import GroupMetadata, OffsetToCommit

__all__ = ["CoordinatorRequests", "TransactionsRuntime"]


class CoordinatorRequests(Protocol):
    """The requests to the coordinator: ``TransactionRequests``."""

    @property
    def identity(self) -> PreparedTxnState:
        """Producer id and epoch."""

    async def init_producer_id(self, timeout: float, *, keeps_prepared: bool = False) -> PreparedTxnState | None:
        """Get an id and epoch; returns the transaction that was kept prepared, if there is one."""

    async def partitions_added(self) -> None:
        """Return when no partition waits for the answer any more."""

    async def stop_adding_partitions(self) -> None:
        """Stop waiting for answers."""

    async def add_offsets(self, group_id: str, timeout: float) -> None:
        """Add a consumer group to the transaction."""

    async def commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetToCommit], timeout: float
    ) -> None:
        """Commit a group's offsets with the transaction."""

    async def end(self, *, committed: bool, timeout: float) -> None:
        """Commit or abort."""

    async def markers_written(self) -> None:
        """Return when the markers of the last transaction are written."""


class WaitingRecords(Protocol):
    """The records that wait to be accepted: ``Admission``."""

    def snapshot(self) -> list[PendingRecord]:
        """The records that wait now."""

    def refuse(self, record: PendingRecord, error: BaseException) -> None:
        """The record cannot be sent."""


class UnsentRecords(Protocol):
    """The records that are accepted: ``RecordAccumulator``."""

    def cut(self) -> dict[TopicPartition, int]:
        """Close the open batches; returns the order that later ones will be at or above, by partition."""

    def abort_undrained(self, error: BaseException) -> object:
        """Fail the batches that were never sent."""


class Wakeable(Protocol):
    """The sender of the requests: ``Sender``."""

    def wakeup(self) -> object:
        """There may be something to send."""


class TransactionsRuntime(Protocol):
    """One life of a producer, as its transactions see it."""

    config: ProducerConfig
    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    max_block: float
    calls: CallMetrics

    @property
    def accumulator(self) -> UnsentRecords:
        """The records that are accepted."""

    @property
    def admission(self) -> WaitingRecords:
        """The records that are not accepted yet."""

    @property
    def sender(self) -> Wakeable:
        """The sender of the requests."""

    @property
    def is_usable_here(self) -> bool:
        """True on its loop, until this life is over."""

    async def flush(self, deadline: float) -> None:
        """Wait until every record sent before this call has its outcome; raises FlushTimeoutError at ``deadline``."""

    async def admitted(self, waiting: Sequence[PendingRecord]) -> None:
        """Return when these records are accepted or refused."""

    def begin_flush(self) -> tuple[Flush, asyncio.Future[None]]:
        """A flush of the records accepted by now, and a future that is done when it is settled; ``end()`` it."""
