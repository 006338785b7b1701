"""``RecordAccumulator``: all records that are accepted and have no outcome yet.

Owns the parts: the way in (``appender``), the queues between (``batch_queues``), the way out (``ready_batches``), and
the batches that come back. It knows neither sockets nor tasks: ``now`` is an argument, the cluster is a view it is
given, and ``wakeup`` and ``on_room`` are all it calls by itself. Kafka's counterpart has the same name; ``ready``,
``drain``, ``reenqueue`` and the others are its methods, and ``append`` is the appender's.

Rules:

- Order: a partition's batches leave in the order they were filled, one for each visit; one that comes back finds its
  old place. While records wait for memory no other record overtakes them.
- Memory: ``buffer_memory`` bounds the bytes that the batches really hold, from their first record until ``deallocate``,
  and ``buffer_records`` the records without an outcome. Whenever there is room again while records wait for it,
  ``on_room`` is called in the same step.
- Accounts: accepted = delivered + failed + pending, at every moment.
- Costs: an append costs the same with ten thousand partitions and waiters; ``ready`` and ``drain`` cost by the
  partitions that have data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ...common import ExponentialBackoff, TopicPartition
from ...errors import IllegalStateError, KafkaError
from ...record.compression import Compression
from ...record.layout import BATCH_HEADER_SIZE
from ..deliveries.produce_request_result import ProduceRequestResult, Teller
from ..options.auto import AUTO
from .accumulator_config import AccumulatorConfig
from .accumulator_settings import credit_step, new_pool, settings_of
from .auto_linger import AutoLinger
from .batch_queues import BatchQueues, Gap
from .batch_sealer import BatchSealer
from .batch_successors import move_out, remove_records, split, uncompressed
from .incomplete_batches import Flush, IncompleteBatches
from .producer_batch import ProducerBatch
from .ready_batches import ADAPTIVE_LINGER, ReadyBatches, ReadyCheckResult
from .record_appender import RecordAppender

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ..identity.transaction_manager import TransactionManager
    from .phase_timer import PhaseTimer

__all__ = ["ADAPTIVE_LINGER", "ReadyCheckResult", "RecordAccumulator"]


class MakesRecordError(Protocol):
    """Makes the error of a batch's records; None leaves them alone."""

    def __call__(self, topic_partition: TopicPartition, /, *, outcome_unknown: bool) -> KafkaError | None: ...


class RecordAccumulator:
    """The batches of one producer, from ``append`` to their outcome."""

    __slots__ = (
        "__weakref__",
        "_backoff",
        "_flushes",
        "_incomplete",
        "_pool",
        "_queues",
        "_ready_batches",
        "_sealer",
        "_transaction_manager",
        "appender",
        "on_abort",
        "on_room",
    )

    def __init__(
        self,
        config: AccumulatorConfig,
        transaction_manager: TransactionManager | None = None,
        teller: Teller | None = None,
    ) -> None:
        settings = settings_of(config, has_own_linger=False)
        by_topic = {
            topic: settings_of(
                config.for_topic(topic),
                has_own_linger=options.linger_ms is not None,
                has_priority=topic in config.priority_topics,
            )
            for topic, options in config.topics.items()
        }
        compresses = any(each.compression != Compression.NONE for each in (settings, *by_topic.values()))
        self._transaction_manager = transaction_manager
        self._backoff = ExponentialBackoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._flushes = 0
        # Parts
        self._pool = new_pool(config, has_codec=compresses or config.chooses_codecs)
        self._incomplete = IncompleteBatches()
        self._incomplete.teller = teller
        self._sealer = BatchSealer(self._pool)
        self._queues = BatchQueues(
            settings,
            by_topic,
            config.delivery_timeout_ms / 1000,
            is_adaptive=config.partitioner_adaptive_partitioning_enable,
            availability_timeout=config.partitioner_availability_timeout_ms / 1000,
        )
        linger = config.linger_ms / 1000 if isinstance(config.linger_ms, int) else None
        self._ready_batches = ReadyBatches(self._queues, self._sealer, transaction_manager, linger)
        # The way in
        self.appender = RecordAppender(
            self._queues,
            self._pool,
            self._sealer,
            self._incomplete,
            max_record_size=min(config.max_request_size, config.buffer_memory),
            credit_step=credit_step(config),
            priority_topics=config.priority_topics,
        )
        self._ready_batches.appender = self.appender
        if config.linger_ms == AUTO:
            self._ready_batches.auto_linger = AutoLinger(self.appender)
        # Called when memory came back while records wait for it: ``appender.grant`` then returns them
        self.on_room: Callable[[], object] = _nothing
        # Called for each batch that is about to be given up, with the number of its records and the reason
        self.on_abort: Callable[[ProducerBatch, int, BaseException], object] | None = None

    @property
    def auto_linger(self) -> AutoLinger | None:
        """The source of the linger with ``linger_ms="auto"``; else None."""
        return self._ready_batches.auto_linger

    def time_phases(self, timer: PhaseTimer) -> None:
        """Report the steps of batches to ``timer`` from now on."""
        self._sealer.timer = self._ready_batches.timer = timer

    @property
    def wakeup(self) -> Callable[[], object]:
        """Called when there may be something new to send; does nothing until it is set."""
        return self.appender.wakeup

    @wakeup.setter
    def wakeup(self, wakeup: Callable[[], object]) -> None:
        self.appender.wakeup = wakeup

    # ready and drain

    def ready(self, cluster: Cluster, now: float, in_flight: dict[int, int]) -> ReadyCheckResult:
        """The nodes that can be sent batches now; ``in_flight`` has the nodes with Produce requests.

        Batches that are ready but too large to compress here go to ``take_compressions``. ``next_ready_check_delay`` is
        the time until the first lingering or backing-off batch is ready by itself.
        """
        self._queues.cluster = cluster
        return self._ready_batches.ready(cluster, now, in_flight, self._is_hurried())

    def drain(
        self, cluster: Cluster, node_ids: Iterable[int], max_request_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take the first batch of each sendable partition of these nodes, for one request to each node.

        A node's batches stay within ``max_request_size`` bytes, except for a first one that alone is larger. They are
        sealed, stamped with their identity and sequence, and in flight.
        """
        drained = self._ready_batches.drain(cluster, node_ids, max_request_size, now)
        self._tell_of_room()  # sealing may have given memory back
        return drained

    def has_queued(self) -> bool:
        """True when a batch waits to be sent. Not a property: that would cost the hot path more than the answer."""
        return self._queues.has_batches()

    def mute_partition(self, topic_partition: TopicPartition) -> None:
        """Drain nothing of the partition until it is unmuted: order with one request in flight."""
        self._queues.queue(topic_partition).is_muted = True

    def unmute_partition(self, topic_partition: TopicPartition) -> None:
        """Undo ``mute_partition``."""
        self._queues.queue(topic_partition).is_muted = False
        self.wakeup()

    def update_node_latency_stats(self, node_id: int, now: float, can_drain: bool) -> None:
        """Note whether a ready node could be drained to (``partitioner_availability_timeout_ms``)."""
        self._queues.update_node_latency_stats(node_id, now, can_drain)

    # compression in threads

    def take_compressions(self) -> list[ProducerBatch]:
        """Closed batches to compress elsewhere: ``batch.compress()`` in a thread, then ``compressed(batch)`` here."""
        return self._sealer.take()

    def compressed(self, batch: ProducerBatch) -> None:
        """``batch.compress()`` has ended, well or not: the batch can be sent. Needed also when the batch is done."""
        self._sealer.ended(batch)
        if batch.is_done:
            self._queues.remove(batch)  # it failed where it stood, perhaps because it could not be compressed
        self._tell_of_room()
        self.wakeup()

    # batches that came back

    def reenqueue(self, batch: ProducerBatch, now: float) -> None:
        """Queue a drained batch again, at its old place, to be sent after a back-off."""
        batch.reenqueued(now, self._backoff.delay(batch.attempts))
        self._queues.put_back(batch)
        self.wakeup()

    def split_and_reenqueue(self, batch: ProducerBatch) -> None:
        """Queue a drained batch that a broker found too large as two or more of half its size, to be sent at once.

        The batch itself is done and its memory given back; raises IllegalStateError for one of a single record, which
        can only be failed.
        """
        if batch.record_count < 2:
            raise IllegalStateError(f"{batch!r} has one record and cannot be split")
        info = self._queues.topic(batch.topic_partition[0])
        size = BATCH_HEADER_SIZE + batch.builder.records_size
        if size > info.own_batch_size:
            info.keep_own_batch_size()
        limit = size // 2
        if not batch.compression:
            limit = min(limit, info.max_message_bytes)
        self._replace(batch, split(batch, limit))

    def limit_topic(self, topic: str, max_message_bytes: int | None, until: float) -> None:
        """The topic takes batches of so many bytes, as sent; None: nothing is known.

        Records that can never fit are refused until ``until``, and batches are filled no further. Queued batches are
        made to fit when they are drained; a batch that was sent, or is to be compressed, is left to the broker.
        """
        info = self._queues.topic(topic)
        if not info.limit(max_message_bytes, until):
            return
        for queue in self._queues.with_batches():
            batch = queue.open_batch
            if queue.topic_partition[0] == topic and batch is not None and batch.limit > info.batch_size:
                self.appender.close_batch(queue)

    def fill_batches(self, topic: str, batch_size: int) -> None:
        """Fill the topic's batches with so many bytes from now on, as far as its limit allows."""
        self._queues.topic(topic).fill(batch_size)

    def begin_bulk(self, topic: str) -> None:
        """Fill larger batches of the topic until ``end_bulk()``, for a call that brings many records at once: each
        batch has a cost of its own, here and at the broker.
        """
        self._queues.topic(topic).count_bulk_calls(1)

    def end_bulk(self, topic: str) -> None:
        """The call has brought its records; once for each ``begin_bulk()``."""
        self._queues.topic(topic).count_bulk_calls(-1)

    def allowed_of(self, topic: str, batch_size: int) -> int:
        """The bytes, of so many in a batch, that the topic's limit allows."""
        return self._queues.topic(topic).taken_of(batch_size)

    def use_codec(self, topic: str, compression: int, level: int | None) -> None:
        """Compress the topic's new batches with this codec; those that are filled keep theirs."""
        self._queues.topic(topic).use_codec(compression, level)

    def remove_records_and_reenqueue(self, batch: ProducerBatch, errors: Mapping[int, BaseException]) -> None:
        """Fail the records that a broker named (KIP-467) and queue the others again as a new batch.

        With idempotence the partition is renumbered with a new epoch, because the sequences behind the batch do not
        follow.
        """
        rest = remove_records(batch, errors)
        self._replace(batch, [] if rest is None else [rest])
        if self._transaction_manager is not None:
            self._transaction_manager.request_epoch_bump(batch.topic_partition)

    def reenqueue_uncompressed(self, batch: ProducerBatch) -> None:
        """Queue a drained batch again without its codec, which a broker does not take, to be sent at once."""
        self._replace(batch, [uncompressed(batch)])

    def expired_batches(self, now: float) -> list[ProducerBatch]:
        """Take out the queued batches that are older than ``delivery_timeout_ms``, oldest first in each partition.

        They are closed and not failed: the Sender fails them and deallocates them. Those in flight are the Sender's.
        """
        expired = self._queues.take_expired(now)
        for batch in expired:
            batch.close()
        return expired

    def take_queued(
        self, is_meant: Callable[[TopicPartition], bool], *, also_sent: bool = False
    ) -> list[ProducerBatch]:
        """Take out the never-sent batches of these partitions, closed, as ``expired_batches`` does; with ``also_sent``
        also the batches that were sent once.
        """
        queues = [queue for queue in self._queues.with_batches() if is_meant(queue.topic_partition)]
        taken = [batch for queue in queues for batch in queue.batches if also_sent or batch.may_be_taken_back]
        for batch in taken:
            self._queues.remove(batch)
            batch.close()
        return taken

    def expire_records(
        self,
        overdue: Mapping[ProduceRequestResult, Collection[int]],
        make_error: MakesRecordError,
    ) -> tuple[int, int]:
        """Expire single records: ``overdue`` maps each batch's result to the indexes of its records, each once.

        The records of a batch that was never sent leave it, and fail; its other records are ready at once, since
        nothing can be added. The records of a batch that was sent stay, and are only told that their outcome is
        unknown; records for which ``make_error`` returns None are left alone. Returns how many records left their
        batch, and how many got the error.
        """
        left = told = 0
        for batch in self._incomplete.copy_all():
            indexes = overdue.get(batch.produce_result, ())
            if not indexes:
                continue
            may_leave = batch.may_be_taken_back
            error = make_error(batch.topic_partition, outcome_unknown=not may_leave)
            if error is None:
                continue
            manager = self._transaction_manager
            if manager is not None and manager.transaction is not None:
                manager.transaction.fail_batch(batch.topic_partition, batch.order, error)
            if may_leave and len(indexes) == batch.record_count:
                left += self._abort([batch], error)  # many have one deadline, and whole batches need no rewriting
                continue
            errors = dict.fromkeys(indexes, error)
            if may_leave:
                left += len(errors)
                if self.on_abort is not None:
                    self.on_abort(batch, len(errors), error)
                self._withdraw(batch, errors)
            else:
                told += len(errors)
                batch.tell_early(errors)
        return left, told

    def drop_oldest(
        self, is_droppable: Callable[[str], bool], make_error: Callable[[ProducerBatch], KafkaError]
    ) -> int:
        """Abort the oldest batch that was never sent, of a topic that is droppable; returns the number of its records,
        0 without such a batch. The room goes to the records that wait for it first.
        """
        batch = self._incomplete.first(
            lambda batch: batch.may_be_taken_back and is_droppable(batch.topic_partition.topic)
        )
        return 0 if batch is None else self._abort([batch], make_error(batch))

    def move_out(
        self, is_meant: Callable[[TopicPartition], bool], adopt: Callable[[ProducerBatch], ProduceRequestResult]
    ) -> None:
        """Give the batches of these partitions that were never sent to ``adopt``, partition by partition in order, and
        forget them: their records live on as those of the results that it returns.
        """
        for batch in self.take_queued(is_meant):
            batch.leave_out_withdrawn()
            move_out(batch, adopt(batch))
            self.appender.take_back(batch.record_count)
            self._replace(batch, [])

    # the gapless guarantee

    def leave_gap(self, batch: ProducerBatch, cause: BaseException) -> list[ProducerBatch]:
        """``batch`` failed: take no more records for its partition until ``close_gap``, and take out the queued batches
        after it, which are returned closed. The Sender fails them, and those that come back.
        """
        gap = self._queues.gaps.get(batch.topic_partition)
        if gap is None or batch.order < gap.order:
            self._queues.gaps[batch.topic_partition] = Gap(batch.order, cause)
        behind = self._queues.take_behind(batch)
        for follower in behind:
            follower.close()
        return behind

    def gap_before(self, batch: ProducerBatch) -> BaseException | None:
        """The error of the batch behind which ``batch`` must not be written; None when it may be."""
        gap = self._queues.gaps.get(batch.topic_partition)
        return None if gap is None or batch.order <= gap.order else gap.cause

    def close_gap(self, topic_partition: TopicPartition, waiting: int = 0) -> None:
        """Take records for the partition again, if there is a gap; ``waiting`` records may be for it.

        Raises IllegalStateError while older records of it have no outcome: they would be written after the gap.
        """
        if topic_partition not in self._queues.gaps:
            return
        pending = waiting
        pending += sum(batch.record_count for batch in self.incomplete if batch.topic_partition == topic_partition)
        if pending:
            raise IllegalStateError(
                f"{topic_partition}: {pending} older records have no outcome yet; await flush() before resume()"
            )
        del self._queues.gaps[topic_partition]

    def deallocate(self, batch: ProducerBatch) -> None:
        """Give the memory of a batch back, once: it is done, and no transport holds its bytes any more."""
        self.appender.forget(batch)
        memory, batch.memory = batch.memory, 0
        if memory:
            self._pool.release(memory)
            self._tell_of_room()

    def settled_on_the_wire(self) -> None:
        """A batch has its outcome before its request is over: its records no longer count, its memory still does."""
        self._tell_of_room()

    # flush and end

    def begin_flush(self, on_settled: Callable[[], object]) -> Flush:
        """Make everything ready at once, and call ``on_settled`` when the batches of this moment have outcomes.

        It is not called when there are none (``Flush.is_settled``). Records appended later are not waited for.
        ``end()`` it in any case.
        """
        self._flushes += 1
        self.wakeup()
        return Flush(self._incomplete.copy_all(), on_settled, self._end_flush)

    def cut(self) -> dict[TopicPartition, int]:
        """Close the open batches. Returns, for each partition that has records without an outcome, the order that the
        batches of later records will be at or above.
        """
        self.appender.close_open_batches()
        partitions = {batch.topic_partition for batch in self._incomplete.copy_all()}
        return {tp: self._queues.queue(tp).next_order for tp in partitions}

    def hurry(self) -> Flush:
        """Make everything ready at once, until the returned flush is ended; it waits for nothing."""
        self._flushes += 1
        self.wakeup()
        return Flush((), _nothing, self._end_flush)

    def close(self) -> None:
        """Accept nothing more, refuse the waiting records, and make everything ready."""
        self.appender.close()
        self._tell_of_room()
        self.wakeup()

    def abort_batches(self, error: BaseException | Callable[[ProducerBatch], BaseException]) -> None:
        """Abort every batch without an outcome, also those in flight, with one error or each with its own."""
        self._abort(self._incomplete.copy_all(), error)

    def abort_undrained(self, error: BaseException) -> None:
        """Abort the queued batches that were never sent. Those that may be on a broker stay, and those that have a
        sequence, as the parts of a split batch: without them the sequences would have a gap.
        """
        queues = self._queues.with_batches()
        undrained = [batch for queue in queues for batch in queue.batches if batch.may_be_taken_back]
        self._abort(undrained, error)

    def abandon(self) -> None:
        """Release all waiters: there will be no outcomes. Called when the accumulator is thrown away."""
        for batch in self._incomplete.copy_all():
            batch.abandon()

    def __del__(self) -> None:
        # A batch's result holds the tasks that await it, and a task holds its delivery, which the collector does not
        # see: without this a producer that is dropped with records on their way would stay in memory for ever.
        self.abandon()

    # counters

    @property
    def accepted(self) -> int:
        """Records that were appended; accepted = delivered + failed + pending."""
        return self.appender.accepted

    @property
    def delivered(self) -> int:
        """Records that are on a broker."""
        return self._incomplete.delivered

    @property
    def failed(self) -> int:
        """Records that were accepted and given up."""
        return self._incomplete.failed

    @property
    def pending(self) -> int:
        """Records accepted and without an outcome. Walks over the batches."""
        return self._incomplete.pending

    def next_expiry_time(self) -> float:
        """The time at which ``expired_batches`` may return a batch, or infinity."""
        return self._queues.next_expiry_time

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

    # internals

    def _withdraw(self, batch: ProducerBatch, errors: Mapping[int, BaseException]) -> None:
        if batch.is_being_compressed:  # a thread reads its bytes: its result is of no use
            self._queues.remove(batch)
            rest = remove_records(batch, errors)
            self._replace(batch, [] if rest is None else [rest])
            return
        queue = self._queues.queue(batch.topic_partition)
        if queue.open_batch is batch:
            queue.open_batch = None
        batch.withdraw(errors)
        if batch.withdrawn is not None and len(batch.withdrawn) > batch.record_count:
            # Not for each record, which would take too long, and not only when it is sent: others wait for the memory.
            batch.leave_out_withdrawn()
            self._pool.charge(batch.settle_memory())
        self.appender.forget(batch)
        self._tell_of_room()
        self.wakeup()

    def _replace(self, batch: ProducerBatch, successors: Collection[ProducerBatch]) -> None:
        manager = self._transaction_manager
        if manager is not None:
            manager.remove_in_flight_batch(batch)
        self.appender.forget(batch)
        self._sealer.exchange(batch, successors)
        for successor in successors:
            if manager is not None and successor.has_sequence:
                manager.add_in_flight_batch(successor)
            self._queues.put_back(successor)
        self._tell_of_room()
        self.wakeup()

    def _abort(
        self, batches: Iterable[ProducerBatch], error: BaseException | Callable[[ProducerBatch], BaseException]
    ) -> int:
        count = 0
        for batch in batches:
            self._queues.remove(batch)
            self.appender.forget(batch)
            cause = error if isinstance(error, BaseException) else error(batch)
            if self.on_abort is not None and not batch.is_done:
                self.on_abort(batch, batch.record_count, cause)
            if batch.abort(cause):
                count += batch.record_count
            memory, batch.memory = batch.memory, 0
            self._pool.release(memory)
        self._tell_of_room()
        return count

    def _tell_of_room(self) -> None:
        if self.appender.waiting:
            self.on_room()

    def _is_hurried(self) -> bool:
        return self._flushes > 0 or self.appender.waiting > 0 or self.appender.is_closed

    def _end_flush(self) -> None:
        self._flushes -= 1


def _nothing() -> None:
    """The callback until one is set."""
