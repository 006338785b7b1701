"""``MockRuntime``: a started ``MockProducer`` has it in the place of ``ProducerRuntime``.

Owns the parts that the producer's calls use, without a Sender, batches or a network. Transactions are the producer's
own, ``Transactions`` with ``Transaction``'s states; their requests are ``MockTransactionRequests``, answered at once.

Rule: a call changes the state of a transaction, and raises errors, by the same code as a real producer's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid4

from ...common import PartitionInfo, TopicPartition
from ...errors import (
    CloseTimeoutError,
    DeliveryTimeoutError,
    FlushTimeoutError,
    KafkaError,
)
from ...record.builder import record_size_upper_bound
from ..accumulator.incomplete_batches import Flush
from ..accumulator.size_errors import too_large_error
from ..deliveries.delivery import Delivery, new_delivery
from ..deliveries.delivery_list import DeliveryList
from ..deliveries.produce_request_result import ProduceRequestResult
from ..given_up_errors import closed_waiting, purged_batch, purged_waiting, purges
from ..identity.transaction import PreparedTxnState, Transaction
from ..intake.partitioners import Partitioner
from ..intake.pending_record import PendingRecord
from ..intake.record_deadlines import Accepted, RecordDeadlines, accepted_of, places_of
from ..intake.record_intake import RecordIntake
from ..metrics import CallMetrics
from ..records import ProducerRecord, serialized_size
from ..transactional.group_offsets import GroupMetadata, OffsetToCommit
from ..transactional.transactions import Transactions
from .line import MockLine, MockTopics
from .log import MockLog, SentRecord

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ..config import ProducerConfig
    from ..intake.topic_state import TopicState

__all__ = ["MockFailures", "MockRuntime"]


@dataclass(slots=True)
class MockFailures:
    """The errors that calls of a ``MockProducer`` raise while they are set: Java's ``sendException`` and its sisters.

    Those of transactions are the coordinator's answers: ``TransactionAbortableError`` leaves an abort,
    ``ProducerFencedError`` a producer that can only be closed, and ``KafkaTimeoutError`` a commit that is in doubt.
    """

    send: BaseException | None = None
    flush: BaseException | None = None
    partitions_for: BaseException | None = None
    init_transactions: BaseException | None = None
    begin_transaction: BaseException | None = None
    send_offsets_to_transaction: BaseException | None = None
    commit_transaction: BaseException | None = None
    abort_transaction: BaseException | None = None

    def raise_for(self, call: str) -> None:
        """Raise the error that is set for a call."""
        error = getattr(self, call)
        if error is not None:
            raise error.fresh() if isinstance(error, KafkaError) else error

    def clear(self) -> None:
        """Raise no errors any more."""
        for field in fields(self):
            setattr(self, field.name, None)


class MockTransaction(Transaction):
    """A transaction that the coordinator has to end in any case: an empty one counts too."""

    def __init__(self, transactional_id: str, failures: MockFailures) -> None:
        super().__init__(transactional_id, lambda: None)
        self._failures = failures
        self.version = 2

    @property
    def is_known_to_the_broker(self) -> bool:
        """True."""
        return True

    def begin(self) -> None:
        """As ``Transaction.begin``, unless a test has set its error."""
        self._failures.raise_for("begin_transaction")
        super().begin()


class MockTransactionRequests:
    """``TransactionRequests`` without a broker."""

    def __init__(self, log: MockLog, failures: MockFailures) -> None:
        self._log = log
        self._failures = failures
        self.commits = 0
        self.was_aborted = False
        self.identity = PreparedTxnState(1, 0)

    async def init_producer_id(self, timeout: float, *, keeps_prepared: bool = False) -> None:
        """Returns at once: the id is ours."""
        self._failures.raise_for("init_transactions")

    async def end(self, *, committed: bool, timeout: float) -> None:
        """Commit or abort."""
        await asyncio.sleep(0)  # as an answer does, it comes later
        self._failures.raise_for("commit_transaction" if committed else "abort_transaction")
        self.was_aborted = not committed
        if committed:
            self.commits += 1
            self._log.commit()
        else:
            self._log.abort()

    async def markers_written(self) -> None:
        """Returns at once."""

    async def partitions_added(self) -> None:
        """Does nothing: no partition waits."""

    async def stop_adding_partitions(self) -> None:
        """Does nothing: no partition is added."""

    async def add_offsets(self, group_id: str, timeout: float) -> None:
        """The group is part of the transaction."""

    async def commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetToCommit], timeout: float
    ) -> None:
        """Keep a group's offsets."""
        self._failures.raise_for("send_offsets_to_transaction")
        self._log.add_offsets(group.group_id, offsets)


class _Metadata(NamedTuple):
    cluster: Cluster


class _Accumulator(NamedTuple):
    """There are no batches, so the short cuts find nothing."""

    abort_undrained: Callable[[BaseException], object]
    cut: Callable[[], dict[TopicPartition, int]] = dict
    appender: None = None


class _Sender(NamedTuple):
    wakeup: Callable[[], object]


class MockRuntime:
    """The parts of a started ``MockProducer``."""

    def __init__(
        self,
        config: ProducerConfig,
        partitioner: Partitioner,
        loop: asyncio.AbstractEventLoop,
        topics: MockTopics,
        failures: MockFailures,
        *,
        auto_complete: bool,
        log: MockLog,
    ) -> None:
        self.config = config
        self.loop = loop
        self.now = loop.time
        self.is_bound = True
        self.crash = None
        self.max_block = config.max_block_ms / 1000
        self.calls = CallMetrics(loop.time())
        self.failures = failures
        self.log = log
        self._topics = topics
        self._auto_complete = auto_complete
        self._is_closed = False
        self._instance_id = uuid4()
        # Stand for the producer's own parts
        self.topics: dict[str, TopicState] = {}
        self.accumulator = _Accumulator(log.fail_next)
        self.admission = MockLine(topics, partitioner, self.max_block, self._append)
        self.sender = _Sender(self._begin_next)
        self.deadlines = RecordDeadlines(loop, self._on_overdue)
        self.transaction_requests = MockTransactionRequests(log, failures)
        name = config.transactional_id
        self.transaction = None if name is None else MockTransaction(name, failures)
        self.transactions: Transactions | None = None
        if self.transaction is not None:
            self.admission.on_refusal = self.transaction.fail_accepting

    @property
    def metadata(self) -> _Metadata:
        """The cluster, where a producer looks for it."""
        return _Metadata(self._topics.cluster)

    @property
    def is_usable_here(self) -> bool:
        """True on its loop, until this life is over."""
        return self.is_bound and self.loop is asyncio._get_running_loop()

    def open_transactions(self, intake: RecordIntake) -> Transactions | None:
        """The producer's own, with other requests."""
        if self.transaction is not None:
            self.transactions = Transactions(self, intake, self.transaction, self.transaction_requests)
        return self.transactions

    # calls that need no broker here

    async def wait_until_connected(self) -> None:
        """Returns at once."""

    async def metadata_refreshed(self) -> None:
        """Returns at once."""

    async def ping(self, timeout: float | None) -> float:
        """Always 0."""
        return 0.0

    async def client_instance_id(self, timeout: float | None) -> UUID:
        """An id that this producer keeps."""
        return self._instance_id

    def update_credentials(self, config: ProducerConfig) -> None:
        """Does nothing."""

    def resume(self, topic_partition: TopicPartition) -> None:
        """No partition refuses records."""

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions; raises MetadataTimeoutError when there is no such topic."""
        self.failures.raise_for("partitions_for")
        found = self._topics.look(topic)
        if not found:
            raise self._topics.missing(topic)
        return list(found)

    async def warm_up(self, topics: Sequence[str]) -> None:
        """Ask for the topics."""
        for topic in topics:
            await self.partitions_for(topic)

    # flush, purge and close

    async def flush(self, deadline: float) -> None:
        """Deliver every record, when all are accepted; raises FlushTimeoutError at ``deadline``."""
        self.failures.raise_for("flush")
        waiting = self.admission.snapshot()
        await self.admitted(waiting, deadline)
        self.log.complete_all()
        if any(not record.done() for record in waiting):
            count = self.admission.waiting
            raise FlushTimeoutError(f"flush() reached its timeout with {count} records waiting to be accepted")

    async def admitted(self, waiting: Sequence[PendingRecord], deadline: float = math.inf) -> None:
        """Return when these records are accepted or refused, or at ``deadline``."""
        timeout = None if deadline == math.inf else max(0.0, deadline - self.loop.time())
        if waiting:
            await asyncio.wait(waiting, timeout=timeout)

    def begin_flush(self) -> tuple[Flush, asyncio.Future[None]]:
        """Deliver every record that is accepted by now."""
        self.log.complete_all()
        return Flush((), lambda: None, lambda: None), self.loop.create_future()

    def purge(self, topic: str | None, partition: int | None, *, in_flight: bool) -> int:
        """Give up records without an outcome; none was sent."""
        is_meant = purges(topic, partition)
        waiting = [record for record in self.admission.snapshot() if is_meant((record.topic, record.partition))]
        for record in waiting:
            self.admission.refuse(record, purged_waiting(record.topic))
        return len(waiting) + self.log.fail_if(is_meant, _purged)

    async def close(self, deadline: float) -> None:
        """Deliver the accepted records, unless ``deadline`` is over; abort an open transaction."""
        try:
            if deadline > self.loop.time():
                if self.transactions is not None:
                    await self.transactions.close(deadline)
                await self.admitted(self.admission.snapshot(), deadline)
                self.log.complete_all()
        finally:
            self.abort()
        if self.transactions is not None:
            await self.transactions.settled()

    def abort(self) -> None:
        """End at once; records without an outcome fail."""
        if self._is_closed:
            return
        self._is_closed = True
        self.is_bound = False
        self.deadlines.close()
        for record in self.admission.snapshot():
            self.admission.refuse(record, closed_waiting(record.topic))
        self.log.fail_if(lambda _: True, _closed)
        if self.transactions is not None:
            self.transactions.abandon()

    def take_back(self, records: Sequence[Delivery | DeliveryList]) -> int:
        """As ``ProducerRuntime.take_back``: none leaves, because every record here counts as sent."""
        return 0

    # internals

    def _append(self, record: PendingRecord, given: ProducerRecord, topic_partition: TopicPartition) -> Delivery:
        """Accept a record for good. Raises RecordTooLargeError."""
        key, value, headers = record.key, record.value, tuple(record.headers or ())
        self._check_size(record_size_upper_bound(key, value, headers), record)
        result = ProduceRequestResult(topic_partition)
        result.record_count = 1
        sent = SentRecord(given, topic_partition, record.timestamp_ms, key, value, headers, result)
        transaction = self.transaction
        is_of_next = transaction is not None and transaction.is_of_next(topic_partition, 0)
        self.log.add(sent, in_transaction=transaction is not None, is_of_next=is_of_next)
        if self._auto_complete and not is_of_next:
            self.log.complete_all()
        return new_delivery(result, 0, record.timestamp_ms, serialized_size(key), serialized_size(value))

    def _check_size(self, size: int, record: PendingRecord) -> None:
        limit = min(self.config.max_request_size, self.config.buffer_memory)
        if size <= limit:
            return
        option = "max_request_size" if limit < self.config.buffer_memory else "buffer_memory"
        error = too_large_error(record, size, option, limit)
        if self.transaction is not None:
            self.transaction.fail_accepting(error)
        raise error

    def _begin_next(self) -> None:
        """The next transaction has begun: ``commit_and_begin_transaction`` wakes the Sender then."""
        self.log.begin_next()
        if self._auto_complete:
            self.log.complete_all()

    def _on_overdue(self, records: list[Accepted]) -> None:
        self.log.fail(
            set(places_of(accepted_of(records, self.admission.expire))),
            DeliveryTimeoutError("the record's delivery_timeout_ms is over", outcome_unknown=True),
        )


def _purged(sent: SentRecord) -> KafkaError:
    return purged_batch(sent.topic_partition, 1, outcome_unknown=False)


def _closed(sent: SentRecord) -> KafkaError:
    topic, partition = sent.topic_partition
    text = f"{sent.topic_partition}: close() ended without its outcome"
    return CloseTimeoutError(text, topic=topic, partition=partition)
