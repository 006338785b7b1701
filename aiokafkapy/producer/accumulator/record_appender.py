"""``RecordAppender``: a record's way into a batch, and the line of records that wait for room.

Owns the append path, the memory that open batches may grow into, and the waiting records. It knows neither the sending
of batches nor their outcomes, nor the deadlines of waiting records, which ``intake.admission`` keeps. Kafka's
counterparts are ``RecordAccumulator.append`` and ``tryAppend``, and the waiting in ``BufferPool.allocate``.

Rules:

- Memory: the builders' actual capacity is counted, and a batch grows only after the growth was acquired from the pool.
  When memory is freed, ``grant`` appends the waiting records that fit, oldest first, and returns their deliveries.
- Records: each one uses up a credit, which is checked against ``buffer_records`` only when it is used up. The credit
  is 0 while records wait, so that one comparison answers both questions for an append.
- While records wait for memory no other record overtakes them, of any partition; except for those of topics with
  priority, which pass the records of all others, and may take the share of the buffer that is kept for them.
- A record that is refused changes neither the batch nor the accounts.
- An append costs the same with ten thousand partitions and waiters: the path of a record that fits is ``append`` and
  ``ProducerBatch.try_append``; everything else happens once per batch or per growth of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, Protocol

from ...common import Buffer, Headers
from ...errors import BufferExhaustedError, IllegalStateError, KafkaError, ProducerClosedError
from ...record.arrow_rows import ArrowRows
from ...record.builder import RecordBatchBuilder, record_size_upper_bound
from ..deliveries.delivery import Delivery
from ..deliveries.produce_request_result import ProduceRequestResult
from .batch_queues import BatchQueues, refused_behind
from .batch_sealer import BatchSealer
from .buffer_pool import UNBOUNDED, BufferPool
from .built_in_partitioner import UNKNOWN_PARTITION
from .incomplete_batches import IncompleteBatches
from .partition_queue import PartitionQueue, TopicInfo
from .producer_batch import RECORDS_PER_ORDER, ProducerBatch, new_batch
from .serialized_record import IncomingRecord, SerializedRecord, WaitingRecord, serialized_record
from .size_errors import over_limit_error, too_large_error
from .waiting_line import WaitingLine

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster

__all__ = ["NO_TIME", "RecordAppender"]

NO_TIME: Final = -1.0
"""For ``now``, from a caller that did not read the clock: the record is only appended if it fits into an open batch, as
nearly all do.
"""
_UNTIL_FLUSH: Final = float("inf")


class Spans(Protocol):
    """Collects the places of the records of a bulk call: ``DeliveryList`` and ``RowPlaces``."""

    def add_span(self, result: ProduceRequestResult, first_index: int, count: int) -> None:
        """The next ``count`` records are those of ``result`` from ``first_index`` on."""


class RecordAppender:
    """The way into the accumulator. ``wakeup`` is called when a batch was opened or is full."""

    __slots__ = (
        "_credit",
        "_credit_step",
        "_granted",
        "_incomplete",
        "_is_in_bulk",
        "_last_batch",
        "_last_info",
        "_line",
        "_max_record_size",
        "_pool",
        "_queues",
        "_sealer",
        "is_closed",
        "on_over_limit",
        "on_refusal",
        "waiting",
        "wakeup",
    )

    def __init__(
        self,
        queues: BatchQueues,
        pool: BufferPool,
        sealer: BatchSealer,
        incomplete: IncompleteBatches,
        *,
        max_record_size: int,
        credit_step: int = UNBOUNDED,
        priority_topics: Collection[str] = (),
    ) -> None:
        """``credit_step``: batches are closed after so many records, so that the oldest are few at a time."""
        self._queues = queues
        self._pool = pool
        self._sealer = sealer
        self._incomplete = incomplete
        # Options
        self._max_record_size = max_record_size
        self._credit_step = credit_step
        # Records that wait for memory, and their number
        self._line = WaitingLine(priority_topics)
        self.waiting = 0
        # The number of records that may be accepted before the room is checked again; records granted minus this
        # credit were accepted
        self._credit = 0
        self._granted = 0
        # State; in bulk many batches may fill up in one turn of the loop, so threads compress them
        self._is_in_bulk = False
        self.wakeup: Callable[[], object] = lambda: None  # until there is a Sender
        self.on_refusal: Callable[[KafkaError], object] = lambda _: None  # unless there are transactions
        self.on_over_limit: Callable[[str], object] = lambda _: None  # unless topics' limits are known
        self._last_batch: ProducerBatch | None = None
        self._last_info: TopicInfo | None = None  # of the last record's topic
        self.is_closed = False

    @property
    def accepted(self) -> int:
        """Records that were appended."""
        return self._granted - self._credit

    # one record

    def append(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None,
        now: float,
        cluster: Cluster | None = None,
    ) -> Delivery | None:
        """Accept one record of bytes-like key and value; None when there is no room for it, or other records wait.

        ``partition`` -1 is the topic's sticky partition, chosen from ``cluster``. With ``now`` NO_TIME the result is
        also None if the time is needed. Raises RecordTooLargeError for a record over ``max_request_size``,
        ``buffer_memory`` or its topic's limit, ProducerClosedError, GaplessGuaranteeError, and TypeError for a part
        that is not bytes-like.
        """
        if self._credit <= 0 and not self._renew_credit():
            return None
        info = self._last_info
        if info is None or info.topic is not topic:
            info = self._last_info = self._queues.topic(topic)
        queue = info.sticky_queue if partition < 0 else info.queue(partition)
        if queue is None or (partition < 0 and info.produced_bytes >= info.batch_size):  # time to switch
            queue = self._queues.sticky_queue(info, cluster)
        batch = queue.open_batch
        if batch is not None and not self.is_closed:
            builder = batch.builder
            size = builder.size
            delivery = batch.try_append(timestamp_ms, key, value, headers)
            if delivery is not None:
                if self._last_batch is not batch:
                    self._last_batch = batch
                self._credit -= 1
                if partition < 0:
                    info.produced_bytes += builder.size - size
                if builder.size >= batch.limit and batch.record_count > 1:  # a new batch wakes by itself
                    self.wakeup()
                return delivery
        if now < 0:
            return None
        return self._append_slowly(
            info, queue, serialized_record(topic, partition, timestamp_ms, key, value, headers), now, cluster
        )

    def append_or_wait(self, record: WaitingRecord, now: float, cluster: Cluster | None = None) -> Delivery | None:
        """Accept a record as ``append`` does, or put it at the end of the waiting line; None when it waits.

        ``grant`` or ``leave`` takes it out of the line. Raises as ``append`` does.
        """
        delivery = self.append_record(record, now, cluster)
        if delivery is not None:
            return delivery
        self.check_record(record, now)
        if cluster is not None:
            self._queues.cluster = cluster  # for the sticky partition, which is chosen when there is room
        self._line.add(record)
        self._set_waiting(len(self._line))
        if self.waiting == 1:
            self.wakeup()  # from now on everything is ready, so that memory comes back
        return None

    def append_record(self, record: WaitingRecord, now: float, cluster: Cluster | None = None) -> Delivery | None:
        """As ``append``; a topic with priority may use the share kept for such topics, and pass the others' line."""
        if self._line.has_priority(record.topic):
            return None if self._line.is_behind_others(record) else self._append_with_priority(record, now, cluster)
        return self._append_record(record, now, cluster)

    def has_priority(self, topic: str) -> bool:
        """True when the topic's records get room before others."""
        return self._line.has_priority(topic)

    def check_record(self, record: WaitingRecord, now: float) -> None:
        """Raise for a record that can never be accepted, as ``append`` does."""
        self._check_open()
        size = record_size_upper_bound(record.key, record.value, record.headers)
        self._check_size(size, record)
        info = self._queues.topic(record.topic)
        if size > info.max_message_bytes:
            self._check_topic_limit(info, record, size, now)

    def take_back(self, count: int) -> None:
        """``count`` records that were accepted go another way: they count as never accepted."""
        self._granted -= count

    # many records

    def append_many(
        self,
        deliveries: Spans,
        topic: str,
        timestamp_ms: int,
        values: list[bytes | None],
        start: int,
        stop: int,
        now: float,
        cluster: Cluster | None = None,
    ) -> int:
        """Accept records without a key, of values[start:stop], in the sticky partitions as they change.

        Returns the position of the first that was not accepted, because room ran out. Those before it are added to
        ``deliveries``, in order, even if the next one raises, as ``append`` does.
        """
        position, partition = start, UNKNOWN_PARTITION
        self._is_in_bulk = True
        try:
            while position < stop:
                # The first of each run takes the general path, which makes room, opens batches and switches partitions.
                if self.append(topic, partition, timestamp_ms, None, values[position], None, now, cluster) is None:
                    break
                position += self._append_run(deliveries, topic, timestamp_ms, values, position + 1, stop)
        finally:
            self._is_in_bulk = False
        return position

    def append_rows(
        self,
        rows: ArrowRows,
        places: Spans,
        topic: str,
        first_lane: int,
        last_lane: int,
        most_bytes: int,
        now: float,
        cluster: Cluster | None = None,
    ) -> bool:
        """Accept the planned rows of one topic, whose lanes these are, until ``rows.encoded_bytes`` is ``most_bytes``.

        Returns False if it ended for lack of room, or because other records wait. Accepted rows are added to
        ``places``, and ``rows.position`` is after them, even if the next raises, as ``append`` does, or
        SerializationError.
        """
        info = self._queues.topic(topic)
        self._is_in_bulk = True
        try:
            while rows.position < rows.planned and rows.encoded_bytes < most_bytes:
                lane = rows.lane_at(rows.position)
                if lane > last_lane:
                    break
                if self._credit <= 0 and not self._renew_credit():
                    return False
                partition = lane - first_lane - 1
                queue = self._queues.sticky_queue(info, cluster) if partition < 0 else info.queue(partition)
                batch = queue.open_batch
                if batch is not None and not self.is_closed:
                    end = min(rows.end_of_lane(rows.position), rows.position + self._credit)
                    if self._append_rows(info, batch, partition, rows, places, end, most_bytes):
                        continue
                # The first of each batch takes the general path, which makes room, opens batches, switches partitions.
                encoded = 0 if batch is None else batch.builder.records_size
                timestamp_ms, key, value, headers = rows.record(rows.row_at(rows.position))
                if self.append(topic, partition, timestamp_ms, key, value, headers, now, cluster) is None:
                    return False
                last = self._last()
                rows.encoded_bytes += last.builder.records_size - (encoded if last is batch else 0)
                rows.position += 1
                places.add_span(last.produce_result, last.record_count - 1, 1)
        finally:
            self._is_in_bulk = False
        return True

    def sticky_partition(self, topic: str, produced_bytes: int, cluster: Cluster) -> int:
        """The current sticky partition, after ``produced_bytes`` more since the last call."""
        info = self._queues.topic(topic)
        info.produced_bytes += produced_bytes
        return self._queues.sticky_queue(info, cluster).topic_partition.partition

    # waiting records

    def grant(self, now: float) -> list[tuple[WaitingRecord, Delivery | Exception]]:
        """Append the waiting records that fit, oldest first, and return them, each with its delivery or its error.

        Call it when memory was freed, or when a record left the line.
        """
        granted: list[tuple[WaitingRecord, Delivery | Exception]] = []
        line = self._line
        self._is_in_bulk = True
        try:
            while len(line):
                record = line.next()
                self.waiting = 0  # or append would refuse the record
                outcome: Delivery | Exception | None
                try:
                    if line.has_priority(record.topic):
                        outcome = self._append_with_priority(record, now, None)
                    else:
                        outcome = self._append_record(record, now, None)
                except Exception as error:  # of this record alone; the next one goes on
                    outcome = error
                if outcome is None:
                    break
                line.remove(record)
                granted.append((record, outcome))
        finally:
            self._is_in_bulk = False
            self._set_waiting(len(line))
        return granted

    def leave(self, record: WaitingRecord) -> bool:
        """Take ``record`` out of the line, unappended; False if it is not in the line. The next record may fit then."""
        if not self._line.remove(record):
            return False
        self._set_waiting(len(self._line))
        return True

    def is_waiting(self, record: WaitingRecord) -> bool:
        """True while ``record`` is in the line."""
        return record in self._line

    def clear_line(self) -> None:
        """Take all waiting records out of the line."""
        self._line.clear()
        self.waiting = 0

    def buffer_exhausted_error(self, topic: str, partition: int = -1) -> BufferExhaustedError:
        """The error of a record for which there is no room, with the bound that was reached and its figures."""
        return BufferExhaustedError(
            f"no room for a record of topic {topic!r}: {self.describe_fullness()}",
            topic=topic,
            partition=None if partition < 0 else partition,
        )

    def describe_fullness(self) -> str:
        """The bound that was reached, with its value and its limit, for messages."""
        pool, batches = self._pool, len(self._incomplete)
        pending = self._pending()
        if pending >= pool.record_limit:
            full = f"buffer_records is full ({pending} of {pool.record_limit} records without an outcome in"
        else:
            full = f"buffer_memory is full ({pool.held} of {pool.limit} bytes held by"
        kept = f", {pool.kept_bytes} bytes kept for topics with priority" if pool.kept_bytes else ""
        return f"{full} {batches} batches, {self.waiting} records waiting{kept})"

    # end

    def close_open_batches(self) -> None:
        """Let the next records begin batches of their own."""
        was_in_bulk, self._is_in_bulk = self._is_in_bulk, True
        try:
            for queue in self._queues.with_batches():
                if queue.open_batch is not None:
                    self._close_open_batch(queue, queue.open_batch)
        finally:
            self._is_in_bulk = was_in_bulk

    def close_batch(self, queue: PartitionQueue) -> None:
        """Let the next record for this partition begin a batch of its own."""
        if queue.open_batch is not None:
            self._close_open_batch(queue, queue.open_batch)

    def forget(self, batch: ProducerBatch) -> None:
        """Drop the reference to a batch that is done."""
        if self._last_batch is batch:
            self._last_batch = None

    def close(self) -> None:
        """Accept nothing more; ``grant`` then returns the waiting records, with a ProducerClosedError for each."""
        self.is_closed = True

    # internals

    def _pending(self) -> int:
        return self._granted - self._credit - self._incomplete.delivered - self._incomplete.failed

    def _renew_credit(self) -> bool:
        """The credit is used up: take a new one. False if there is no room, or if records wait."""
        if self.waiting:
            return False
        credit = self._pool.record_limit - self._pending()
        if credit > self._credit_step:
            credit = self._credit_step
        if self._credit_step < UNBOUNDED:
            self.close_open_batches()
        self._granted += credit - self._credit
        self._credit = credit
        return credit > 0

    def _set_waiting(self, count: int) -> None:
        """``count`` records wait; while there are any, nothing else is accepted."""
        self.waiting = count
        if count:
            self._granted -= self._credit
            self._credit = 0

    def _append_record(self, record: IncomingRecord, now: float, cluster: Cluster | None) -> Delivery | None:
        partition = UNKNOWN_PARTITION if record.partition is None else record.partition
        return self.append(
            record.topic, partition, record.timestamp_ms, record.key, record.value, record.headers, now, cluster
        )

    def _append_with_priority(self, record: WaitingRecord, now: float, cluster: Cluster | None) -> Delivery | None:
        """As ``append``, past the waiting records, and with the share that is kept."""
        waiting, self.waiting = self.waiting, 0
        self._pool.lend()
        try:
            return self._append_record(record, now, cluster)
        finally:
            self._pool.take_back()
            self._granted -= self._credit  # it may be of the share
            self._credit = 0
            self.waiting = waiting

    def _append_run(
        self,
        deliveries: Spans,
        topic: str,
        timestamp_ms: int,
        values: list[bytes | None],
        start: int,
        stop: int,
    ) -> int:
        """Append values[start:stop] to the batch that took the one before, as long as it has room; returns how many it
        took, with that one.
        """
        batch = self._last()
        first, size = batch.record_count - 1, batch.builder.size
        try:
            batch.append_run(timestamp_ms, values, start, min(stop, start + self._credit))
        finally:
            count = batch.record_count - first
            deliveries.add_span(batch.produce_result, first, count)
            self._credit -= count - 1
            info = self._queues.topic(topic)
            info.produced_bytes += batch.builder.size - size
        if batch.builder.size >= batch.limit:
            self.wakeup()
        return count

    def _last(self) -> ProducerBatch:
        """The batch that took the last record, right after it did."""
        batch = self._last_batch
        if batch is None:
            raise IllegalStateError("no record was appended yet")
        return batch

    def _append_rows(
        self,
        info: TopicInfo,
        batch: ProducerBatch,
        partition: int,
        rows: ArrowRows,
        places: Spans,
        stop: int,
        most_bytes: int,
    ) -> bool:
        """Append rows to an open batch, which may grow; False when it took none."""
        first, size = batch.record_count, batch.builder.size
        wanted = batch.append_rows(rows, stop, most_bytes)
        while wanted and self._pool.try_acquire(wanted - batch.memory):
            batch.memory = batch.builder.allowance = wanted
            wanted = batch.append_rows(rows, stop, most_bytes)
        self._pool.charge(batch.settle_memory())
        count = batch.record_count - first
        if not count:
            return False
        self._credit -= count
        self._last_batch = batch
        if partition < 0:
            info.produced_bytes += batch.builder.size - size
        if batch.builder.size >= batch.limit:
            self.wakeup()
        places.add_span(batch.produce_result, first, count)
        return True

    def _append_slowly(
        self, info: TopicInfo, queue: PartitionQueue, record: SerializedRecord, now: float, cluster: Cluster | None
    ) -> Delivery | None:
        """As ``append``, where the last batch did not take the record: it must grow, or another be opened."""
        self._check_open()
        if record.partition < 0 and queue.open_batch is None and self._queues.is_dead_end(info, queue, cluster):
            queue = self._queues.switch_partition(info, cluster)
            if queue.open_batch is not None:
                return self._append_record(record, now, cluster)
        if self._queues.gaps and queue.topic_partition in self._queues.gaps:
            raise refused_behind(queue.topic_partition, self._queues.gaps[queue.topic_partition].cause)
        batch = queue.open_batch
        if batch is not None:
            if batch.wanted:
                if not self._pool.try_acquire(batch.wanted - batch.memory):
                    return None
                batch.memory = batch.builder.allowance = batch.wanted
                return self._append_and_settle(info, batch, record)
            self._close_open_batch(queue, batch)
        size = record_size_upper_bound(record.key, record.value, record.headers)
        self._check_size(size, record)
        if size > info.max_message_bytes:
            self._check_topic_limit(info, record, size, now)
        if record.partition < 0 and info.produced_bytes and info.produced_bytes + size >= info.batch_size:
            # Java switches only after it has opened a batch here, which then leaves with a record or two in it. But a
            # partition just switched to takes the record, however large it is.
            self._queues.switch_partition(info, cluster)
            return self._append_record(record, now, cluster)
        return self._append_to_new_batch(info, queue, record, now)

    def _append_to_new_batch(
        self, info: TopicInfo, queue: PartitionQueue, record: SerializedRecord, now: float
    ) -> Delivery | None:
        builder = RecordBatchBuilder(info.batch_size)
        builder.allowance = 0
        builder.expected = queue.last_size
        wanted = memory = -builder.try_append(record.timestamp_ms, record.key, record.value, record.headers)
        if not self._pool.try_acquire(memory):
            builder.expected = 0
            wanted = -builder.try_append(record.timestamp_ms, record.key, record.value, record.headers)
            # With nothing else held, a record is never refused for the slack that a small pool has no room for.
            memory = wanted if self._pool.held else min(wanted, self._pool.limit)
            if not self._pool.try_acquire(memory):
                return None
        builder.allowance = wanted
        batch = new_batch(
            queue.topic_partition, builder, now, queue.next_order,
            info.compression, info.compression_level, self._incomplete,
        )  # fmt: skip
        batch.memory = memory
        delivery = self._append_and_settle(info, batch, record)
        queue.next_order += RECORDS_PER_ORDER
        self._queues.add_open(queue, batch)
        self._incomplete.add(batch)
        if (
            batch.builder.size >= batch.limit
            or queue.leader not in self._queues.gathering
            or 0 <= queue.linger < _UNTIL_FLUSH  # its deadline may be over before that of the others
        ):
            self.wakeup()  # only now, when the accounts are right again
        return delivery

    def _append_and_settle(self, info: TopicInfo, batch: ProducerBatch, record: SerializedRecord) -> Delivery | None:
        size = batch.builder.size
        try:
            delivery = batch.try_append(record.timestamp_ms, record.key, record.value, record.headers)
        except BaseException:
            if not batch.record_count:  # it is not queued yet, so nothing else would give its memory back
                self._pool.release(batch.memory)
                batch.memory = 0
            raise
        finally:
            if batch.record_count:
                self._pool.charge(batch.settle_memory())
        if delivery is not None:
            self._last_batch = batch
            self._credit -= 1
            if record.partition < 0:
                info.produced_bytes += batch.builder.size - size
            if batch.builder.size >= batch.limit and batch.record_count > 1:
                self.wakeup()
        return delivery

    def _close_open_batch(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.open_batch = None
        batch.close()
        if self._sealer.timer is not None and queue.linger < _UNTIL_FLUSH:
            self._sealer.timer.ready(batch)
        if batch.needs_compression and (self._is_in_bulk or not self._sealer.is_quick(batch)):
            self._sealer.hand_over(batch)
        elif batch.needs_compression or not batch.compression:
            self._sealer.seal(batch)
        self.wakeup()

    def _check_open(self) -> None:
        if self.is_closed:
            raise ProducerClosedError("the producer is closed")

    def _check_size(self, size: int, record: IncomingRecord) -> None:
        if size > self._max_record_size:
            option = "max_request_size" if self._max_record_size < self._pool.limit else "buffer_memory"
            error = too_large_error(record, size, option, self._max_record_size)
            self.on_refusal(error)
            raise error

    def _check_topic_limit(self, info: TopicInfo, record: IncomingRecord, most_size: int, now: float) -> None:
        """Raise for a record that its topic cannot take, by a limit that was read a short time ago."""
        if now < info.limit_until:
            error = over_limit_error(record, most_size, info.compression, info.max_message_bytes)
            if error is not None:
                self.on_over_limit(record.topic)
                self.on_refusal(error)
                raise error
