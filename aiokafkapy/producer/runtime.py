"""One life of a producer: everything that begins with ``start()`` and ends with ``close()``, bound to one event loop.

Owns the parts (metadata, network client, accumulator, Sender, admission), their order at the start and at the end, and
the consequences of the Sender's death. ``KafkaProducer`` is the face before it. The runtime knows nothing of calls'
arguments or serializers. Nothing in here refers to the ``KafkaProducer``, so that one dropped without ``close()`` is
noticed.

Rules: every accepted record has an outcome when ``close()`` returns, and no task, timer or socket is left; the deadline
holds even while no broker answers; being cancelled while closing means closing at once.

Events: ``producer.closed`` (info; delivered, failed), ``producer.crashed`` (error; records, waiting, error),
``producer.close_timed_out`` (warning; pending, seconds), ``producer.purged`` (info; topic, partition, records,
in_flight), ``producer.cluster_changed`` (warning; before, now),
``producer.started_on_spool`` (warning; error, folder).
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from ..client.network_client import NetworkClient
from ..client.network_client_utils import await_ready
from ..client.tap.wire_tap import WireTap
from ..common import PartitionInfo, TopicPartition
from ..errors import (
    DisconnectedError,
    FlushTimeoutError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    SenderCrashedError,
    UnsupportedVersionError,
)
from ..observability import get_logger
from ..protocol.api import ApiKey
from ..protocol.codec import Message
from ..protocol.messages import build_request
from .accumulator.built_in_partitioner import UNKNOWN_PARTITION
from .accumulator.incomplete_batches import Flush
from .accumulator.record_accumulator import RecordAccumulator
from .deliveries.delivery import Delivery
from .deliveries.delivery_list import DeliveryList
from .deliveries.outcome_teller import OutcomeTeller
from .deliveries.record_timing import WeakClock
from .given_up_errors import (
    closed_error,
    crashed_error,
    dropped_error,
    error_of_batch,
    purged_batch,
    purged_waiting,
    purges,
)
from .identity.transaction import Transaction
from .identity.transaction_manager import TransactionManager
from .intake.admission import Admission
from .intake.overflow import Overflow
from .intake.partitioners import Partitioner
from .intake.pending_record import PendingRecord
from .intake.record_deadlines import Accepted, RecordDeadlines, accepted_of, places_of
from .intake.record_intake import RecordIntake
from .metadata_waits import MetadataWaits
from .metrics import CallMetrics, SenderMetrics
from .observation.observation import Observation
from .producer_metadata import ProducerMetadata
from .sender.sender import Sender

if TYPE_CHECKING:
    from uuid import UUID

    from ..client.telemetry import TelemetrySender
    from ..protocol.otlp import MetricPoint
    from .circuits.circuits import Circuits
    from .config import ProducerConfig
    from .optional_parts import OptionalParts
    from .spool.spooling import Spooling
    from .transactional.transaction_requests import TransactionRequests
    from .transactional.transactions import Transactions

__all__ = ["ProducerRuntime"]

_SHOWN_PARTITIONS: Final = 5
"""The most partitions in the message of a time-out; there may be thousands."""
WAITED_AT_ONCE: Final = 1000
"""Records for which a flush waits in one go: asyncio looks at each when the wait begins, and again when it ends."""

_logger = get_logger(__name__)


class ProducerRuntime:
    """The parts of a started producer."""

    def __init__(
        self,
        config: ProducerConfig,
        partitioner: Partitioner,
        loop: asyncio.AbstractEventLoop,
        collect: Callable[[ProducerRuntime], Sequence[MetricPoint]] | None = None,
    ) -> None:
        self._collect = collect  # the metrics to push
        self.config = config
        self.loop = loop
        self.is_bound = True  # False once this life is over
        self.now = loop.time
        self.crash: SenderCrashedError | None = None
        self.max_block = config.max_block_ms / 1000
        self._is_closed = False
        self.metrics = SenderMetrics(loop.time())
        self.calls = CallMetrics(loop.time())
        self.metadata = _new_metadata(config)
        name = config.transactional_id
        self.transaction = None if name is None else Transaction(name, self._on_new_partition)
        self.transaction_manager: TransactionManager | None = None
        if config.enable_idempotence:
            self.transaction_manager = TransactionManager(config.retry_backoff, self.transaction)
        self.teller = OutcomeTeller(loop)
        self.accumulator = RecordAccumulator(config, self.transaction_manager, self.teller)
        self.observation = Observation(config, WeakClock(loop) if config.record_timing else loop.time)
        self.client = NetworkClient(config, self.metadata, loop=loop, watch=self.observation.client_watch())
        self.observation.count_nodes(self.client)
        self.sender = self._new_sender()
        self.client.wakeup = self.accumulator.wakeup = self.sender.wakeup
        self._watch_batches(config)
        self.transactions: Transactions | None = None  # once it is started
        self.transaction_requests: TransactionRequests | None = None
        self.telemetry: TelemetrySender | None = None  # if a broker takes it
        if self.transaction is not None and self.transaction_manager is not None:
            self.transaction_requests = self._new_transaction_requests(self.transaction, self.transaction_manager)
            self.observation.count_nodes(self.transaction_requests.client)
        self.overflow = Overflow(config, self.accumulator, self.metrics)
        self.partitioner = partitioner
        self.deadlines = RecordDeadlines(loop, self._on_overdue)
        self.spooling: Spooling | None = None
        self.admission = self._new_admission()
        self._waits = MetadataWaits(config, self.metadata, self.admission, loop, self.calls)
        self.accumulator.on_room = self.admission.on_room
        if self.transaction is not None:
            # A record that was never accepted is missing in its transaction, like a failed one.
            self.accumulator.appender.on_refusal = self.transaction.fail_accepting
            self.admission.on_refusal = self.transaction.fail_accepting
        self.metadata.add_listener(self._on_metadata_change)
        # For the fast path
        self.topics = self.admission.topics
        self.optional = self._new_optional_parts()
        self._cluster_id: str | None = None
        self.sender_task = loop.create_task(self.sender.run(), name="aiokafkapy-sender")
        self.sender_task.add_done_callback(self._on_sender_done)

    @property
    def is_usable_here(self) -> bool:
        """True on its loop, until this life is over."""
        return self.is_bound and self.loop is asyncio._get_running_loop()

    @property
    def circuits(self) -> Circuits | None:
        """The topics that take no calls for now; None without ``circuit_breaker``."""
        return None if self.optional is None else self.optional.circuits

    def open_transactions(self, intake: RecordIntake) -> Transactions | None:
        """The calls of a transactional producer, with the gate that they open and shut; None without transactions."""
        if self.transaction is not None and self.transaction_requests is not None:
            from .transactional.transactions import Transactions  # most producers have none

            self.transactions = Transactions(self, intake, self.transaction, self.transaction_requests)
        return self.transactions

    # waiting for metadata

    async def wait_until_connected(self) -> None:
        """Return when the cluster is known; raises after ``max_block_ms`` with the cause, address by address. With a
        spool it still returns, for records have a place to go.
        """
        if self.spooling is not None:
            await self.spooling.open()
        error = await self._waits.connected()
        if error is None:
            self._maybe_start_telemetry()
        elif self.spooling is None:
            raise error
        else:
            cause = self.metadata.describe_failure()
            _logger.warning("producer.started_on_spool", error=cause, folder=self.config.spool_dir)

    async def metadata_change(self, deadline: float) -> bool:
        """Wait for the next outcome of a metadata request; False when the deadline came first."""
        return await self._waits.change(deadline)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, waiting up to ``max_block_ms`` for its metadata."""
        return await self._waits.partitions_for(topic)

    async def metadata_refreshed(self) -> None:
        """Ask for the metadata of all topics in use again, and wait for the answer, up to ``max_block_ms``."""
        await self._waits.refreshed()

    async def warm_up(self, topics: Sequence[str]) -> None:
        """Connect to the leaders of all partitions of these topics, within ``max_block_ms``."""
        try:
            async with asyncio.timeout(self.max_block):
                while not await self._connected_to_leaders(topics):
                    pass  # a connection was lost: until it may be tried again, the leader may change
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            cause = self.metadata.describe_failure()
            limit = f"max_block_ms={self.config.max_block_ms}"
            raise KafkaTimeoutError(f"not all leaders were connected within {limit}: {cause}") from None

    async def _connected_to_leaders(self, topics: Sequence[str]) -> bool:
        """Connect to the known leaders; False if a connection fails."""
        leaders = {part.leader for topic in topics for part in await self.partitions_for(topic)}
        nodes = [node for node in self.metadata.cluster.nodes if node.node_id in leaders]
        for node in nodes:
            self.client.ready(node, self.loop.time())  # begins to connect, so that the nodes connect side by side
        try:
            for node in nodes:
                await await_ready(self.client, node, self.loop.time)
        except DisconnectedError:
            if not self.client.is_active:
                raise
            return False
        return True

    def update_credentials(self, config: ProducerConfig) -> None:
        """Authenticate with the credentials of ``config`` from now on."""
        for client in (self.client, self.transaction_requests):
            mechanism = config.new_sasl_mechanism()
            if client is not None and mechanism is not None:
                client.update_credentials(mechanism)

    def resume(self, topic_partition: TopicPartition) -> None:
        """Take records for the partition again; see ``KafkaProducer.resume``."""
        topic, partition = topic_partition
        places = (None, UNKNOWN_PARTITION, partition)
        waiting = [one for one in self.admission.snapshot() if one.topic == topic and one.partition in places]
        self.accumulator.close_gap(topic_partition, len(waiting))

    def purge(self, topic: str | None, partition: int | None, *, in_flight: bool) -> int:
        """Give up records; see ``KafkaProducer.purge``."""
        is_meant = purges(topic, partition)
        # Purge the waiting records first, or they would take the room of the others.
        count = self.admission.purge(lambda record: is_meant((record.topic, record.partition)), purged_waiting)
        count += self.sender.in_flight_batches.purge(is_meant, purged_batch, self.loop.time(), in_flight=in_flight)
        if count:
            self.sender.wakeup()
            fields = {"topic": topic, "partition": partition, "records": count, "in_flight": in_flight}
            _logger.info("producer.purged", **fields)
        return count

    def take_back(self, records: Sequence[Delivery | DeliveryList]) -> int:
        """Take accepted records out of batches that were never sent; returns the number that left."""
        return self.sender.in_flight_batches.take_back(places_of(records), self.loop.time()) if self.is_bound else 0

    def tap(self, tap: WireTap) -> WireTap:
        """Let ``tap`` record the bytes on the wire, until it or the producer is closed."""
        self.observation.tap(tap, self.client)
        if self.transaction_requests is not None:
            self.observation.tap(tap, self.transaction_requests.client)
        return tap

    # flush and close

    async def flush(self, deadline: float) -> None:
        """Wait until every record sent before this call has its outcome; raises FlushTimeoutError at ``deadline``."""
        waiting = self.admission.snapshot()
        if waiting:
            hurry = self.accumulator.hurry()  # accepted records wait neither for linger nor for these
            try:
                await self.admitted(waiting, deadline)
            finally:
                hurry.end()
        flush, settled = self.begin_flush()
        try:
            if not flush.is_settled:
                await asyncio.wait([settled], timeout=self._remaining(deadline))
            is_settled = flush.is_settled and not any(not record.done() for record in waiting)
            if is_settled and (self.spooling is None or await self.spooling.written(self._remaining(deadline))):
                return
        finally:
            flush.end()
        raise FlushTimeoutError(f"flush() reached its timeout with {self.describe_pending()}; they stay on their way")

    async def admitted(self, waiting: Sequence[PendingRecord], deadline: float = math.inf) -> None:
        """Return when these records are accepted or refused, or at ``deadline``."""
        for start in range(0, len(waiting), WAITED_AT_ONCE):
            # They are not part of a batch yet; wait() cancels none of them.
            await asyncio.wait(waiting[start : start + WAITED_AT_ONCE], timeout=self._remaining(deadline))
            if self.loop.time() >= deadline:
                break

    def begin_flush(self) -> tuple[Flush, asyncio.Future[None]]:
        """A flush of the records accepted by now, and a future that is done when it is settled; ``end()`` it."""
        settled: asyncio.Future[None] = self.loop.create_future()
        return self.accumulator.begin_flush(partial(_resolve, settled)), settled

    async def close(self, deadline: float) -> None:
        """Flush until ``deadline`` (loop time), fail the records that are left then, and leave nothing behind.

        If it is cancelled, it fails the rest and closes at once; it returns when all outcomes are told.
        """
        try:
            await self._close(deadline)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # the callbacks of single records
            await self.teller.told_all()
            raise

    def abort(self, make_error: Callable[[TopicPartition | str, int], KafkaError] | None = None) -> None:
        """End everything now, without waiting: pending records fail, connections are cut. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        self.is_bound = False
        self.sender.stop()
        self.metadata.remove_listener(self._on_metadata_change)
        self.deadlines.close()
        self._fail_pending(make_error or dropped_error)
        self.client.abort()
        if self.telemetry is not None:
            self.telemetry.abort()
        if self.optional is not None:
            self.optional.abort()
        if self.transactions is not None:
            self.transactions.abandon()
        if self.transaction_requests is not None:
            self.transaction_requests.abort()
        self.accumulator.close()
        if self.spooling is not None:
            self.spooling.abort()
        self._waits.close()

    def disown(self) -> None:
        """This is the child of a fork: ``abort`` does nothing from now on, because the tasks end here too, but the
        sockets and the loop's poller are the parent's.
        """
        self._is_closed = True
        self.is_bound = False
        if self.spooling is not None:
            self.spooling.release_lock()

    async def ping(self, timeout: float | None) -> float:
        """Ask a broker for a sign of life; returns the seconds it took."""
        started = perf_counter()
        # No topics: version 0 would mean all of them.
        await self.client.send_and_wait(ApiKey.METADATA, _build_ping, timeout=timeout, min_version=1)
        return perf_counter() - started

    async def client_instance_id(self, timeout: float | None) -> UUID:
        """The id under which the producer's metrics are pushed; see ``KafkaProducer.client_instance_id``."""
        if not self.config.enable_metrics_push:
            raise IllegalStateError("client_instance_id(): this producer has enable_metrics_push=False")
        if self.telemetry is None:
            raise UnsupportedVersionError("no broker that we are connected to takes clients' metrics (KIP-714)")
        return await self.telemetry.instance_id(self.max_block if timeout is None else timeout)

    def describe_pending(self) -> str:
        """The number of pending records, and their partitions: for messages."""
        by_partition = self._pending_by_partition()
        records = sum(by_partition.values())
        parts = [f"{topic_partition}: {count}" for topic_partition, count in by_partition.items()][:_SHOWN_PARTITIONS]
        if len(by_partition) > _SHOWN_PARTITIONS:
            parts.append(f"and {len(by_partition) - _SHOWN_PARTITIONS} more partitions")
        text = f"{records} records without an outcome" + (f" ({', '.join(parts)})" if parts else "")
        waiting = self.admission.waiting
        return text + (f" and {waiting} waiting to be accepted" if waiting else "")

    # asyncio callbacks

    def _on_new_partition(self) -> None:
        assert self.transaction_requests is not None
        self.transaction_requests.add_partitions_soon()

    def _on_metadata_change(self) -> None:
        cluster_id = self.metadata.cluster.cluster_id
        if cluster_id is not None and cluster_id != self._cluster_id:
            self._on_cluster(cluster_id)
        if self.optional is not None:
            self.optional.on_metadata_update()
        self.admission.on_metadata_update()
        self._waits.wake()
        self.sender.wakeup()

    def _on_overdue(self, records: list[Accepted]) -> None:
        overdue = places_of(accepted_of(records, self.admission.expire_early))
        if overdue:
            self.sender.in_flight_batches.expire_records(overdue, self.loop.time())
            if self.optional is not None:
                self.optional.overdue(overdue)

    def _on_cluster(self, cluster_id: str) -> None:
        before, self._cluster_id = self._cluster_id, cluster_id
        if before is not None:
            # The bootstrap addresses lead there, so the user wants it; but our producer id is of another cluster.
            _logger.warning("producer.cluster_changed", before=before, now=cluster_id)
            if self.transaction_manager is not None:
                self.transaction_manager.request_new_producer_id()

    def _on_sender_crash(self, cause: BaseException) -> None:
        is_cancelled = isinstance(cause, asyncio.CancelledError)
        what = "was cancelled" if is_cancelled else f"ended: {type(cause).__name__}: {cause}"
        self.crash = SenderCrashedError(f"the producer's Sender task {what}")
        self.crash.__cause__ = cause
        records = self.accumulator.pending
        if records or self.admission.waiting:
            _logger.error("producer.crashed", records=records, waiting=self.admission.waiting, error=str(self.crash))
        self.abort(partial(crashed_error, self.crash))

    def _on_sender_done(self, task: asyncio.Task[None]) -> None:
        """The Sender has reported its error already, unless it was cancelled before it began."""
        if not task.cancelled():
            task.exception()  # so that asyncio does not report it again
        elif not self._is_closed:
            self._on_sender_crash(asyncio.CancelledError())

    # internals

    async def _close(self, deadline: float) -> None:
        started = self.loop.time()
        if self.spooling is not None:
            self.spooling.stop_sending()
        try:
            if self.transactions is not None and self.crash is None:
                await self.transactions.close(deadline)
            if self.crash is None and not self.sender_task.done():
                await self.flush(deadline)
            if self.telemetry is not None and deadline > self.loop.time():
                await self.telemetry.close(self._remaining(deadline))
        except FlushTimeoutError:
            elapsed = self.loop.time() - started
            _logger.warning("producer.close_timed_out", pending=self.describe_pending(), seconds=round(elapsed, 3))
            await asyncio.sleep(0)  # ending the wait of thousands takes time, and so does failing them
        finally:
            last_errors = self.sender.in_flight_batches.last_errors
            elapsed = self.loop.time() - started
            self.abort(partial(closed_error, elapsed, last_errors, self.metadata.describe_failure))
        if self.spooling is not None:
            await self.spooling.close(self._remaining(deadline))
        await self.client.close()
        if self.transactions is not None:
            await self.transactions.settled()
        if self.transaction_requests is not None:
            await self.transaction_requests.close()
        if self.telemetry is not None:
            await self.telemetry.settled()
        if self.optional is not None:
            await self.optional.settled()
        await asyncio.wait([self.sender_task])
        await self.sender.settled()
        await self.teller.told_all()
        _logger.info("producer.closed", delivered=self.accumulator.delivered, failed=self.accumulator.failed)

    def _new_sender(self) -> Sender:
        return Sender(
            self.config,
            self.client,
            self.metadata,
            self.accumulator,
            self.transaction_manager,
            self.metrics,
            loop=self.loop,
            on_crash=self._on_sender_crash,
        )

    def _new_admission(self) -> Admission:
        if self.config.spool_dir is not None:
            from .spool.spooling import Spooling  # with its files and its thread

            self.spooling = spooling = Spooling(self)
            self.accumulator.wakeup = spooling.watch(self.sender.wakeup)
            return spooling.admission
        return Admission(
            self.loop,
            self.metadata,
            self.accumulator,
            self.partitioner,
            self.teller,
            self.overflow,
            max_block=self.max_block,
            calls=self.calls,
        )

    def _maybe_start_telemetry(self) -> None:
        """Push metrics if a broker that we are connected to takes them, and the options allow it."""
        collect = self._collect
        if not self.config.enable_metrics_push or collect is None or self.telemetry is not None:
            return
        nodes = (*self.metadata.bootstrap_nodes, *self.metadata.cluster.nodes)
        versions = [self.client.nodes.node_api_versions(node.node_id) for node in nodes]
        if any(each is not None and each.supports(ApiKey.PUSH_TELEMETRY) for each in versions):
            from ..client.telemetry import TelemetrySender  # few brokers take it, and it costs each start milliseconds

            name = self.config.transactional_id
            resource = {} if name is None else {"transactional_id": name}
            self.telemetry = TelemetrySender(self.client, partial(collect, self), loop=self.loop, resource=resource)
            self.telemetry.start()

    def _new_transaction_requests(self, transaction: Transaction, manager: TransactionManager) -> TransactionRequests:
        from .transactional.transaction_requests import TransactionRequests  # most producers have none

        return TransactionRequests(
            self.config,
            transaction,
            manager,
            loop=self.loop,
            wakeup=self.sender.wakeup,
            watch=self.observation.client_watch(),
        )

    def _watch_batches(self, config: ProducerConfig) -> None:
        watch = self.observation.batch_watch
        self.metrics.topics = self.observation.topic_metrics
        self.sender.in_flight_batches.watch = watch
        if watch is not None:
            self.accumulator.on_abort = watch.aborted
        if config.record_timing:
            from .accumulator.phase_timer import PhaseTimer  # most producers have none

            self.accumulator.time_phases(PhaseTimer(WeakClock(self.loop)))

    def _new_optional_parts(self) -> OptionalParts | None:
        config = self.config
        has_any = config.topic_limits or config.circuit_breaker is not None or config.chooses_codecs
        if not has_any and self.accumulator.auto_linger is None:
            return None
        from .optional_parts import OptionalParts  # most producers have none

        parts = OptionalParts(self)
        if parts.circuits is not None and self.spooling is not None:
            parts.circuits.goes_elsewhere = self.spooling.has
        return parts

    def _fail_pending(self, make_error: Callable[[TopicPartition | str, int], KafkaError]) -> None:
        """Give every record an outcome now."""
        self.admission.close(lambda topic: make_error(topic, 1))
        if self.spooling is not None:
            self.spooling.keep_unsent()
        counts = self._pending_by_partition()
        errors = {topic_partition: make_error(topic_partition, count) for topic_partition, count in counts.items()}
        self.accumulator.abort_batches(partial(error_of_batch, errors))

    def _pending_by_partition(self) -> Counter[TopicPartition]:
        counts: Counter[TopicPartition] = Counter()
        for batch in self.accumulator.incomplete:
            counts[batch.topic_partition] += batch.record_count
        return counts

    def _remaining(self, deadline: float) -> float | None:
        return None if deadline == math.inf else max(0.0, deadline - self.loop.time())


def _new_metadata(config: ProducerConfig) -> ProducerMetadata:
    return ProducerMetadata(
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        metadata_max_age_ms=config.metadata_max_age_ms,
        metadata_max_idle_ms=config.metadata_max_idle_ms,
        allow_auto_topic_creation=config.allow_auto_create_topics,
    )


def _build_ping(version: int) -> Message:
    return build_request(ApiKey.METADATA, version, topics=[], allow_auto_topic_creation=False)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
