# cython: annotation_typing=False
"""``RecordAccumulator``: gathers records into batches, and says which batches are ready to go where.

Owns every batch that has no outcome yet, the memory they hold, and the records that wait for memory. It knows neither
sockets nor tasks: ``now`` is an argument, the cluster is a view it is given, and ``wakeup`` is all it calls by itself.
Kafka's counterpart has the same name; ``append``, ``ready``, ``drain``, ``reenqueue`` and the others are its methods.

Rules:

- Order: a partition's batches leave in the order they were filled, one for each visit; one that comes back finds its old
  place. While records wait for memory no other record overtakes them, to whatever partition.
- Memory: what the builders really hold is counted; a batch grows only when the growth is paid for. When memory comes
  back, the accumulator itself appends the first waiters that fit, and no others wake.
- Linger is measured from the first record of a batch. With ``linger_ms=None`` a batch is ready as soon as its leader has
  no Produce request in flight, and otherwise gathers for at most ``ADAPTIVE_LINGER``.
- What is ready at ``ready`` is taken by ``drain`` (but for its size bound), and what is not has its time in
  ``next_ready_check_delay``: call ``ready`` again after each drain and at that time, and never in between.
- Costs: an append costs the same with ten thousand partitions and waiters; ``ready`` and ``drain`` cost by the
  partitions that have data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..common import NO_LEADER, ExponentialBackoff, Headers, TopicPartition
from ..errors import BufferExhaustedError, IllegalStateError, ProducerClosedError, RecordTooLargeError
from ..record.builder import BATCH_HEADER_SIZE, RecordBatchBuilder, record_size_upper_bound
from ..record.compression import Compression
from .append_tickets import AppendTicket, AppendTickets
from .buffer_pool import BufferPool
from .delivery import Delivery, DeliveryList
from .incomplete_batches import Flush, IncompleteBatches
from .partition_queue import PartitionQueue, TopicInfo
from .partitioners import BuiltInPartitioner
from .producer_batch import RECORDS_PER_ORDER, ProducerBatch

if TYPE_CHECKING:
    from ..cluster.cluster import Cluster
    from .transaction_manager import TransactionManager

__all__ = ["ADAPTIVE_LINGER", "AccumulatorConfig", "ReadyCheckResult", "RecordAccumulator"]

ADAPTIVE_LINGER: Final = 0.005
"""Seconds that a batch gathers behind a request in flight, with ``linger_ms=None``."""

COMPRESSION_RESERVE: Final = 8 * 1024 * 1024
"""The most that is kept from records so that a full pool can still be compressed in threads; else an eighth of it."""

_NEVER: Final = float("inf")


class ReadyCheckResult(NamedTuple):
    """What ``ready`` found: node ids to send to, seconds until something else is ready (or infinity), topics to look up."""

    ready_nodes: set[int]
    next_ready_check_delay: float
    unknown_leader_topics: set[str]


class AccumulatorConfig(Protocol):
    """The options of ``ProducerConfig`` that are read here."""

    batch_size: int
    buffer_memory: int
    compression_type: Any
    delivery_timeout_ms: int
    linger_ms: int | None
    max_request_size: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int


class RecordAccumulator:
    """All records that are accepted and have no outcome. ``wakeup`` is called when there may be something new to send."""

    __slots__ = (
        "__weakref__",
        "_active",
        "_availability_timeout",
        "_backoff",
        "_batch_size",
        "_cluster",
        "_compressing",
        "_compression",
        "_compression_level",
        "_compressions",
        "_delivery_timeout",
        "_flushes",
        "_incomplete",
        "_is_adaptive",
        "_is_closed",
        "_is_granting",
        "_last_batch",
        "_linger",
        "_max_record_size",
        "_node_latencies",
        "_now",
        "_pool",
        "_tickets",
        "_topics",
        "_transaction_manager",
        "accepted",
        "next_expiry_time",
        "on_unseen_failure",
        "waiting",
        "wakeup",
    )

    def __init__(
        self,
        config: AccumulatorConfig,
        buffer_pool: BufferPool | None = None,
        transaction_manager: TransactionManager | None = None,
    ) -> None:
        # Options
        # A batch that could not be sent in one request, or not be paid for, would be of no use.
        self._batch_size = max(1, min(config.batch_size, config.max_request_size, config.buffer_memory))
        self._max_record_size = min(config.max_request_size, config.buffer_memory)
        self._linger = -1.0 if config.linger_ms is None else config.linger_ms / 1000
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._backoff = ExponentialBackoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._compression, self._compression_level = _codec_of(config)
        self._is_adaptive = config.partitioner_adaptive_partitioning_enable
        self._availability_timeout = config.partitioner_availability_timeout_ms / 1000
        # Parts
        self._transaction_manager = transaction_manager
        if buffer_pool is None:
            has_codec = self._compression != Compression.NONE
            reserve = min(config.buffer_memory // 8, COMPRESSION_RESERVE) if has_codec else 0
            buffer_pool = BufferPool(config.buffer_memory, reserve)
        self._pool = buffer_pool
        self._incomplete = IncompleteBatches()
        self.wakeup: Callable[[], object] = _nothing
        self.on_unseen_failure: Callable[[TopicPartition, int, BaseException], None] | None = None
        # Queues
        self._topics: dict[str, TopicInfo] = {}
        # Those that have batches, the one drained longest ago first
        self._active: dict[PartitionQueue, None] = {}
        self._last_batch: Any = None
        self._cluster: Any = None
        self._node_latencies: dict[int, list[float]] = {}
        # Records that wait for memory
        self._tickets = AppendTickets(self._ticket_cancelled)
        self.waiting = 0
        self._is_granting = False
        # Batches for a thread to compress, and how many are with one
        self._compressions: list[ProducerBatch] = []
        self._compressing = 0
        # State
        self._is_closed = False
        self._flushes = 0
        self._now = 0.0
        self.next_expiry_time = _NEVER
        self.accepted = 0

    # --- append ---

    def append(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: Any,
        value: Any,
        headers: Headers | None,
        now: float,
        cluster: Cluster | None = None,
    ) -> Delivery | None:
        """Accept one record of bytes-like key and value; None when there is no memory for it, or others wait already.

        ``partition`` -1 is the topic's sticky partition, chosen from ``cluster``. Raises RecordTooLargeError for a record
        over ``max_request_size`` or ``buffer_memory``, ProducerClosedError, and TypeError for what has no bytes.
        """
        if self.waiting:
            return None
        return self._append(topic, partition, timestamp_ms, key, value, headers, now, cluster)

    def append_later(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: Any,
        value: Any,
        headers: Headers | None,
        now: float,
        cluster: Cluster | None = None,
        *,
        deadline: float,
        on_granted: Callable[[Delivery], object],
        on_failed: Callable[[BaseException], object],
    ) -> AppendTicket:
        """Queue a record that ``append`` had no room for, behind all that wait already.

        ``on_granted`` is called with the delivery once the record is appended (even now, when there is room), or
        ``on_failed`` with BufferExhaustedError at ``deadline`` (see ``expire_waiters``) or ProducerClosedError. The ticket
        can be cancelled until then. Raises as ``append`` does.
        """
        self._check_open()
        size = record_size_upper_bound(key, value, headers)
        self._check_size(size, topic, partition)
        if cluster is not None:
            self._cluster = cluster
        self._now = now
        ticket = AppendTicket(
            self._tickets, topic, partition, timestamp_ms, key, value, headers,
            size=size, deadline=deadline, on_granted=on_granted, on_failed=on_failed,
        )  # fmt: skip
        self._tickets.add(ticket)
        self.waiting = len(self._tickets)
        if self.waiting == 1:
            self._grant(now)
            if self.waiting:
                self.wakeup()  # from now on everything is ready, so that memory comes back
        return ticket

    def append_many(
        self,
        deliveries: DeliveryList,
        topic: str,
        partition: int,
        timestamp_ms: int,
        values: Any,
        keys: Any,
        start: int,
        stop: int,
        now: float,
        cluster: Cluster | None = None,
    ) -> int:
        """Accept ``values[start:stop]`` (a list or tuple of bytes-like or None, and ``keys`` of the same kind or None).

        All go to one partition, or to the sticky ones as they change. Returns the position of the first record that was
        not accepted for want of memory, or ``stop``; the accepted ones are added to ``deliveries``, in order, also when
        a record raises, as ``append`` does.
        """
        position = start
        while position < stop and not self.waiting:
            # The first of each run goes the ordinary way, which makes room, opens batches and switches partitions.
            key = None if keys is None else keys[position]
            if self._append(topic, partition, timestamp_ms, key, values[position], None, now, cluster) is None:
                break
            batch = self._last_batch
            first = batch.record_count - 1
            size = batch.builder.size
            try:
                batch.append_run(timestamp_ms, values, keys, position + 1, stop)
            finally:
                count = batch.record_count - first
                position += count
                deliveries.add_span(batch.produce_result, first, count)
                self.accepted += count - 1
                if partition < 0:
                    self._topics[topic].produced_bytes += batch.builder.size - size
            if batch.builder.size >= batch.limit:
                self.wakeup()
        return position

    def buffer_exhausted_error(self, topic: str, partition: int = -1) -> BufferExhaustedError:
        """The error for a record that found no room, saying what is full."""
        return BufferExhaustedError(
            f"no room for a record of topic {topic!r}: buffer_memory is full ({self._pool.held} of {self._pool.limit} bytes"
            f" held by {len(self._incomplete)} batches, {self.waiting} records waiting)",
            topic=topic,
            partition=None if partition < 0 else partition,
        )

    def expire_waiters(self, now: float) -> int:
        """Fail the waiting records whose deadline has come; returns how many."""
        count = 0
        while (ticket := self._tickets.pop_expired(now)) is not None:
            error = self.buffer_exhausted_error(ticket.topic, ticket.partition)
            ticket.failed(error)
            self.waiting = len(self._tickets)
            count += 1
        if count:
            self._grant(now)  # the one that waits first now may be small enough
        return count

    @property
    def next_waiter_deadline(self) -> float:
        """When ``expire_waiters`` has something to do, or infinity."""
        return self._tickets.next_deadline

    # --- ready and drain ---

    def ready(self, cluster: Cluster, now: float, in_flight: Callable[[int], int]) -> ReadyCheckResult:
        """The nodes that can be sent something now; ``in_flight`` tells how many Produce requests a node has.

        Batches that are ready but too large to compress here go to ``take_compressions``. ``next_ready_check_delay`` is
        the time until the first lingering or backing-off batch is ready by itself. Also sets ``next_expiry_time``.
        """
        self._cluster = cluster
        self._now = now
        ready_nodes: set[int] = set()
        idle_nodes: dict[int, bool] = {}
        unknown_leader_topics: set[str] = set()
        next_ready = _NEVER
        next_expiry = _NEVER
        manager = self._transaction_manager
        is_hurried = self.is_hurried
        for queue in list(self._active):
            batch = queue.batches[0]
            next_expiry = min(next_expiry, batch.created + self._delivery_timeout)
            queue.update_leader(cluster)
            leader = queue.leader
            if leader == NO_LEADER:
                unknown_leader_topics.add(queue.topic_partition[0])
                continue
            if queue.is_muted:
                continue
            batch.maybe_update_leader_epoch(queue.leader_epoch)
            if batch.is_backing_off(now):
                next_ready = min(next_ready, batch.retry_at)
                continue
            if leader in ready_nodes and not batch.needs_compression:
                continue
            if not (is_hurried or batch.attempts or batch.is_full or len(queue.batches) > 1):
                if self._linger < 0 and leader not in idle_nodes:
                    idle_nodes[leader] = in_flight(leader) == 0
                lingers_until = batch.created + (ADAPTIVE_LINGER if self._linger < 0 else self._linger)
                if now < lingers_until and not (self._linger < 0 and idle_nodes[leader]):
                    next_ready = min(next_ready, lingers_until)
                    continue
            if manager is not None and manager.should_stop_drain_batches_for_partition(queue.topic_partition, batch):
                continue
            if not self._waits_for_compression(queue, batch):
                ready_nodes.add(leader)
        self.next_expiry_time = next_expiry
        return ReadyCheckResult(ready_nodes, max(0.0, next_ready - now), unknown_leader_topics)

    def drain(
        self, cluster: Cluster, node_ids: Iterable[int], max_request_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take the first batch of each sendable partition of these nodes, for one request to each node.

        A node's batches stay within ``max_request_size`` bytes, but for a first one that alone is larger. Who was visited
        goes to the back of the round. The batches are sealed, stamped with their identity and sequence, and in flight.
        """
        self._now = now
        drained: dict[int, list[ProducerBatch]] = {node_id: [] for node_id in node_ids}
        sizes = dict.fromkeys(drained, 0)
        manager = self._transaction_manager
        for queue in list(self._active) if drained else ():
            queue.update_leader(cluster)
            batches = drained.get(queue.leader)
            if batches is None or sizes[queue.leader] < 0 or queue.is_muted:
                continue
            batch = queue.batches[0]
            batch.maybe_update_leader_epoch(queue.leader_epoch)
            if batch.is_backing_off(now):
                continue
            if manager is not None and manager.should_stop_drain_batches_for_partition(queue.topic_partition, batch):
                continue
            if self._waits_for_compression(queue, batch):
                continue
            if batch.compression:
                if queue.open_batch is batch:
                    queue.open_batch = None
                self._seal(batch)  # only then its size is known
            if batches and sizes[queue.leader] + batch.size > max_request_size:
                sizes[queue.leader] = -1  # full: this partition will be the first of the next round
                continue
            self._seal(batch)
            sizes[queue.leader] += batch.size
            self._take_first(queue)
            self._stamp(batch)
            batch.drained(now)
            batches.append(batch)
        if self.waiting:
            self._grant(now)  # sealing gave memory back
        return drained

    @property
    def is_hurried(self) -> bool:
        """True while everything is ready at once: memory is exhausted, a flush is on, or the accumulator is closed."""
        return self.waiting > 0 or self._flushes > 0 or self._is_closed

    @property
    def has_undrained(self) -> bool:
        """True when a batch waits to be sent."""
        return bool(self._active)

    @property
    def has_incomplete(self) -> bool:
        """True when a batch has no outcome."""
        return len(self._incomplete) > 0

    def mute_partition(self, topic_partition: TopicPartition) -> None:
        """Drain nothing of the partition until it is unmuted: order with one request in flight."""
        self._queue(topic_partition).is_muted = True

    def unmute_partition(self, topic_partition: TopicPartition) -> None:
        """Undo ``mute_partition``."""
        self._queue(topic_partition).is_muted = False
        self.wakeup()

    def is_muted(self, topic_partition: TopicPartition) -> bool:
        """True between ``mute_partition`` and ``unmute_partition``."""
        return self._queue(topic_partition).is_muted

    def update_node_latency_stats(self, node_id: int, now: float, can_drain: bool) -> None:
        """A node that is ready to be sent something could be sent it, or not (``partitioner_availability_timeout_ms``)."""
        if self._availability_timeout > 0:
            latency = self._node_latencies.setdefault(node_id, [now, now])
            latency[0] = now
            if can_drain:
                latency[1] = now

    # --- compression in threads ---

    def take_compressions(self) -> list[ProducerBatch]:
        """Closed batches to compress elsewhere: call ``batch.compress()`` in a thread, then ``compressed(batch)`` here."""
        taken, self._compressions = self._compressions, []
        return taken

    def compressed(self, batch: ProducerBatch, now: float) -> None:
        """``batch.compress()`` has ended, well or not: the batch can be sent. Needed also when the batch is done."""
        batch.is_being_compressed = False
        self._compressing -= 1
        self._pool.release(batch.reserved_memory)
        batch.reserved_memory = 0
        if batch.is_done:
            self._remove(batch)  # it failed where it stood, perhaps because it could not be compressed
        else:
            self._seal(batch)
        self._grant(now)
        self.wakeup()

    # --- what came back ---

    def reenqueue(self, batch: ProducerBatch, now: float) -> None:
        """Queue a drained batch again, at its old place, to be sent after a back-off."""
        batch.reenqueued(now, self._backoff.delay(batch.attempts))
        self._enqueue_again(batch)
        self.wakeup()

    def split_and_reenqueue(self, batch: ProducerBatch, now: float) -> int:
        """Queue a drained batch that a broker found too large as two or more of half its size, to be sent at once.

        Returns how many there are now. The batch itself is done and its memory given back; raises IllegalStateError for
        one of a single record, which can only be failed.
        """
        if batch.record_count < 2:
            raise IllegalStateError(f"{batch!r} has one record and cannot be split")
        limit = (BATCH_HEADER_SIZE + batch.builder.records_size) // 2
        self._replace(batch, batch.split(limit), now)
        return len(batch.produce_result.successors())

    def remove_records_and_reenqueue(
        self, batch: ProducerBatch, errors: Mapping[int, BaseException], now: float
    ) -> ProducerBatch | None:
        """Fail the records that a broker named (KIP-467) and queue the others again as a new batch, which is returned.

        With idempotence the partition is renumbered with a new epoch, for the sequences behind the batch do not follow.
        """
        rest = batch.remove_records(errors)
        self._replace(batch, [] if rest is None else [rest], now)
        if self._transaction_manager is not None:
            self._transaction_manager.request_epoch_bump(batch.topic_partition)
        return rest

    def expired_batches(self, now: float) -> list[ProducerBatch]:
        """Take out the queued batches that are older than ``delivery_timeout_ms``, oldest first in each partition.

        They are closed and not failed: the Sender fails them and deallocates them. Those in flight are the Sender's.
        """
        expired: list[ProducerBatch] = []
        if now < self.next_expiry_time:
            return expired
        next_expiry = _NEVER
        for queue in list(self._active):
            while queue.batches and queue.batches[0].has_reached_delivery_timeout(self._delivery_timeout, now):
                batch = queue.batches[0]
                self._take_first(queue)
                batch.close()
                expired.append(batch)
            if queue.batches:
                next_expiry = min(next_expiry, queue.batches[0].created + self._delivery_timeout)
        self.next_expiry_time = next_expiry
        return expired

    def deallocate(self, batch: ProducerBatch, now: float) -> None:
        """Give the memory of a batch back, once: it is done, and no transport holds its bytes any more.

        Waiting records that fit now are appended, in order.
        """
        if self._last_batch is batch:
            self._last_batch = None
        memory, batch.memory = batch.memory, 0
        if memory:
            self._pool.release(memory)
            if self.waiting:
                self._grant(now)

    # --- flush and end ---

    def begin_flush(self, on_settled: Callable[[], object]) -> Flush:
        """Make everything ready at once, and call ``on_settled`` when the batches of this moment have outcomes.

        It is not called when there are none (``Flush.is_settled``). What is appended later is not waited for. ``end()``
        it in any case.
        """
        self._flushes += 1
        self.wakeup()
        return Flush(self._incomplete.copy_all(), on_settled, self._end_flush)

    @property
    def flush_in_progress(self) -> bool:
        """True while a flush has begun and not ended."""
        return self._flushes > 0

    def close(self) -> None:
        """Accept nothing more, fail the waiting records, and make everything ready."""
        self._is_closed = True
        while (ticket := self._tickets.first) is not None:
            ticket.failed(ProducerClosedError("the producer was closed before there was room for the record"))
        self.waiting = 0
        self.wakeup()

    def abort_batches(self, error: BaseException | Callable[[ProducerBatch], BaseException]) -> int:
        """Abort every batch without an outcome, also those in flight, with one error or each with its own; returns how
        many records failed.
        """
        return self._abort(self._incomplete.copy_all(), error)

    def abort_undrained(self, error: BaseException) -> int:
        """Abort the queued batches that were never sent; those that may be on a broker stay."""
        undrained = [batch for queue in self._active for batch in queue.batches if not batch.has_been_sent]
        return self._abort(undrained, error)

    def abandon(self) -> None:
        """Let go of everybody who waits: there will be no answers. Called when the accumulator itself is thrown away."""
        for batch in self._incomplete.copy_all():
            batch.produce_result.abandon()

    def __del__(self) -> None:
        # A task that awaits a delivery is held by its batch, and holds the delivery, which the collector does not see:
        # without this a producer dropped in the midst of things would stay for ever.
        self.abandon()

    # --- counters ---

    @property
    def delivered(self) -> int:
        """Records that are on a broker."""
        return self._incomplete.delivered

    @property
    def failed(self) -> int:
        """Records that were accepted and are given up."""
        return self._incomplete.failed

    @property
    def pending(self) -> int:
        """Records accepted and without an outcome: accepted = delivered + failed + pending. Walks over the batches."""
        return self._incomplete.pending

    @property
    def incomplete(self) -> list[ProducerBatch]:
        """The batches without an outcome, a copy."""
        return self._incomplete.copy_all()

    @property
    def batch_count(self) -> int:
        """Batches without an outcome."""
        return len(self._incomplete)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of ``buffer_memory`` that are held."""
        return self._pool.held

    @property
    def available_bytes(self) -> int:
        """Bytes of ``buffer_memory`` that are free."""
        return self._pool.available

    @property
    def delivery_timeout(self) -> float:
        """Seconds from a batch's creation to its expiry."""
        return self._delivery_timeout

    def queue_sizes(self) -> dict[TopicPartition, int]:
        """How many batches wait to be sent, by partition, where there are any."""
        return {queue.topic_partition: len(queue.batches) for queue in self._active}

    # --- internals: append ---

    def _append(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: Any,
        value: Any,
        headers: Any,
        now: float,
        cluster: Any,
    ) -> Delivery | None:
        info = self._topics.get(topic)
        if info is None:
            info = self._add_topic(topic)
        queue = self._sticky_queue(info, cluster) if partition < 0 else info.queue(partition)
        batch = queue.open_batch
        if batch is not None and not self._is_closed:
            size_before = batch.builder.size
            delivery = batch.try_append(timestamp_ms, key, value, headers)
            if delivery is not None:
                self._appended(info, batch, partition, size_before)
                return delivery
        return self._append_slowly(info, queue, partition, (timestamp_ms, key, value, headers), now, cluster)

    def _appended(self, info: TopicInfo, batch: ProducerBatch, partition: int, size_before: int) -> None:
        self.accepted += 1
        self._last_batch = batch
        if partition < 0:
            info.produced_bytes += batch.builder.size - size_before
        if batch.builder.size >= batch.limit and batch.record_count > 1:  # for its first record, whoever opens it wakes
            self.wakeup()

    def _append_slowly(
        self,
        info: TopicInfo,
        queue: PartitionQueue,
        partition: int,
        record: tuple[int, Any, Any, Any],
        now: float,
        cluster: Any,
    ) -> Delivery | None:
        """As ``_append``, where the last batch did not take the record: it must grow, or another be opened."""
        self._check_open()
        batch = queue.open_batch
        if batch is not None:
            if batch.wanted:
                if not self._pool.try_acquire(batch.wanted - batch.memory):
                    return None
                batch.memory = batch.builder.allowance = batch.wanted
                return self._append_and_settle(info, batch, partition, record)
            self._close_open_batch(queue)
        size = record_size_upper_bound(record[1], record[2], record[3])
        self._check_size(size, info.topic, partition)
        if partition < 0 and info.produced_bytes and info.produced_bytes + size >= self._batch_size:
            # Java switches only after it has opened a batch here, which then leaves with a record or two in it. But a
            # partition just switched to takes the record, however large it is.
            self._switch_partition(info, cluster)
            timestamp_ms, key, value, headers = record
            return self._append(info.topic, partition, timestamp_ms, key, value, headers, now, cluster)
        return self._append_to_new_batch(info, queue, partition, record, now)

    def _append_to_new_batch(
        self,
        info: TopicInfo,
        queue: PartitionQueue,
        partition: int,
        record: tuple[int, Any, Any, Any],
        now: float,
    ) -> Delivery | None:
        timestamp_ms, key, value, headers = record
        builder = RecordBatchBuilder(self._batch_size)
        builder.allowance = 0
        wanted = memory = -builder.try_append(timestamp_ms, key, value, headers)
        if not self._pool.try_acquire(memory):
            # With nothing else held, a record is never refused for the slack that a small pool has no room for.
            memory = min(memory, self._pool.limit)
            if self._pool.held or not self._pool.try_acquire(memory):
                return None
        builder.allowance = wanted
        batch = ProducerBatch(
            queue.topic_partition,
            builder,
            now,
            order=queue.next_order,
            compression=self._compression,
            compression_level=self._compression_level,
            incomplete=self._incomplete,
        )
        batch.memory = memory
        delivery = self._append_and_settle(info, batch, partition, record)
        batch.produce_result.on_unseen_failure = self.on_unseen_failure
        queue.next_order += RECORDS_PER_ORDER
        queue.open_batch = batch
        queue.batches.append(batch)
        self._active.setdefault(queue)
        self._incomplete.add(batch)
        self.next_expiry_time = min(self.next_expiry_time, now + self._delivery_timeout)
        self.wakeup()  # only now, when the accounts are right again
        return delivery

    def _append_and_settle(
        self, info: TopicInfo, batch: ProducerBatch, partition: int, record: tuple[int, Any, Any, Any]
    ) -> Delivery | None:
        timestamp_ms, key, value, headers = record
        size_before = batch.size
        try:
            delivery = batch.try_append(timestamp_ms, key, value, headers)
        except BaseException:
            if not batch.record_count:  # it is not queued yet, so nobody else would give its memory back
                self._pool.release(batch.memory)
                batch.memory = 0
            raise
        finally:
            if batch.record_count:
                self._settle_memory(batch)
        if delivery is not None:
            self._appended(info, batch, partition, size_before)
        return delivery

    def _settle_memory(self, batch: ProducerBatch) -> None:
        """Count what the batch's builder really holds."""
        capacity = batch.builder.capacity
        if capacity < batch.memory:
            self._pool.release(batch.memory - capacity)
        else:
            self._pool.charge(capacity - batch.memory)
        batch.memory = batch.builder.allowance = capacity

    def _close_open_batch(self, queue: PartitionQueue) -> None:
        batch = queue.open_batch
        if batch is not None:
            queue.open_batch = None
            batch.close()
            if batch.needs_compression:
                self._hand_to_thread(batch)
            self.wakeup()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProducerClosedError("the producer is closed")

    def _check_size(self, size: int, topic: str, partition: int) -> None:
        if size > self._max_record_size:
            option = "max_request_size" if self._max_record_size < self._pool.limit else "buffer_memory"
            raise RecordTooLargeError(
                f"a record for topic {topic!r} has {size} bytes when serialized, more than {option}, {self._max_record_size}",
                size=size,
                limit=self._max_record_size,
                topic=topic,
                partition=None if partition < 0 else partition,
            )

    # --- internals: queues ---

    def _add_topic(self, topic: str) -> TopicInfo:
        info = self._topics[topic] = TopicInfo(topic, BuiltInPartitioner(topic, self._is_adaptive))
        return info

    def _queue(self, topic_partition: TopicPartition) -> PartitionQueue:
        info = self._topics.get(topic_partition[0])
        if info is None:
            info = self._add_topic(topic_partition[0])
        return info.queue(topic_partition[1])

    def _sticky_queue(self, info: TopicInfo, cluster: Any) -> PartitionQueue:
        queue = info.sticky_queue
        if queue is None or (
            info.produced_bytes >= self._batch_size
            # An open batch is filled first, unless records with keys keep it open for ever (KIP-794).
            and (queue.open_batch is None or info.produced_bytes >= 2 * self._batch_size)
        ):
            return self._switch_partition(info, cluster)
        return queue

    def _switch_partition(self, info: TopicInfo, cluster: Any) -> PartitionQueue:
        if cluster is None:
            cluster = self._cluster
        if cluster is None:
            raise IllegalStateError("a record without a partition needs a cluster to choose one from")
        is_available = self._is_node_available if self._availability_timeout > 0 else None
        queue = info.queue(info.partitioner.next_partition(cluster, info.queue_size, is_available))
        info.sticky_queue = queue
        info.produced_bytes = 0
        return queue

    def _is_node_available(self, node_id: int) -> bool:
        latency = self._node_latencies.get(node_id)
        return latency is None or latency[0] - latency[1] <= self._availability_timeout

    def _take_first(self, queue: PartitionQueue) -> None:
        queue.pop_first()
        # To the end of the round, if there is more
        del self._active[queue]
        if queue.batches:
            self._active[queue] = None

    def _remove(self, batch: ProducerBatch) -> None:
        queue = self._queue(batch.topic_partition)
        if queue.remove(batch) and not queue.batches:
            del self._active[queue]

    def _enqueue_again(self, batch: ProducerBatch) -> None:
        queue = self._queue(batch.topic_partition)
        queue.insert_in_order(batch)
        self._active.setdefault(queue)
        self.next_expiry_time = min(self.next_expiry_time, batch.created + self._delivery_timeout)

    def _replace(self, batch: ProducerBatch, successors: Iterable[ProducerBatch], now: float) -> None:
        manager = self._transaction_manager
        if manager is not None:
            manager.remove_in_flight_batch(batch)
        self._pool.release(batch.memory)
        batch.memory = 0
        for successor in successors:
            self._settle_memory(successor)
            if manager is not None and successor.has_sequence:
                manager.add_in_flight_batch(successor)
            self._enqueue_again(successor)
        if self.waiting:
            self._grant(now)
        self.wakeup()

    def _abort(
        self, batches: Iterable[ProducerBatch], error: BaseException | Callable[[ProducerBatch], BaseException]
    ) -> int:
        count = 0
        for batch in batches:
            self._remove(batch)
            if batch.abort(error if isinstance(error, BaseException) else error(batch)):
                count += batch.record_count
            memory, batch.memory = batch.memory, 0
            self._pool.release(memory)
        if self.waiting:
            self._grant(self._now)
        return count

    # --- internals: drain ---

    def _seal(self, batch: ProducerBatch) -> None:
        if not batch.is_sealed:
            batch.seal()
            self._settle_memory(batch)

    def _stamp(self, batch: ProducerBatch) -> None:
        """Give a batch its place in the partition's sequence; a retry keeps what it has, or it would be another batch."""
        manager = self._transaction_manager
        if manager is None or batch.has_sequence:
            return
        topic_partition = batch.topic_partition
        manager.maybe_update_producer_id_and_epoch(topic_partition)
        producer_id, epoch = manager.producer_id_and_epoch
        sequence = manager.sequence_number(topic_partition)
        batch.set_producer_state(producer_id, epoch, sequence, manager.is_transactional)
        manager.increment_sequence_number(topic_partition, batch.record_count)
        manager.add_in_flight_batch(batch)

    def _waits_for_compression(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        if batch.is_being_compressed:
            return True
        if not batch.needs_compression:
            return False
        if queue.open_batch is batch:
            queue.open_batch = None
        batch.close()
        return self._hand_to_thread(batch)

    def _hand_to_thread(self, batch: ProducerBatch) -> bool:
        """Queue a closed batch for a thread; False when it is to be compressed at drain, for there is no memory for it."""
        size = batch.builder.records_size
        if not self._pool.try_acquire_reserved(size):
            return self._compressing > 0  # its turn comes when one of those ends
        batch.reserved_memory = size
        batch.is_being_compressed = True
        self._compressing += 1
        self._compressions.append(batch)
        self.wakeup()
        return True

    # --- internals: waiters ---

    def _grant(self, now: float) -> None:
        """Append the first waiting records that fit. A callback may come back here; then the outer call carries on."""
        if self._is_granting:
            return
        self._is_granting = True
        try:
            while (ticket := self._tickets.first) is not None:
                try:
                    delivery = self._append(
                        ticket.topic, ticket.partition, ticket.timestamp_ms,
                        ticket.key, ticket.value, ticket.headers, now, None,
                    )  # fmt: skip
                except Exception as error:  # whatever is wrong with a record, it is its own, and the next one goes on
                    ticket.failed(error)
                    continue
                if delivery is None:
                    break
                ticket.granted(delivery)
        finally:
            self._is_granting = False
            self.waiting = len(self._tickets)

    def _ticket_cancelled(self) -> None:
        self.waiting = len(self._tickets)
        self._grant(self._now)

    def _end_flush(self) -> None:
        self._flushes -= 1


def _codec_of(config: AccumulatorConfig) -> tuple[Compression, int | None]:
    kind = config.compression_type
    codec = Compression.for_name(kind) if isinstance(kind, str) else Compression(kind or 0)
    return codec, getattr(config, f"compression_{codec.codec_name}_level", None)


def _nothing() -> None:
    """What is woken as long as nobody listens."""
