"""``Admission``: the records that cannot be appended yet, in call order.

A record may have to wait for three things: its serializer (an async one), metadata of its topic, room in the buffer.
This queue in front of the accumulator keeps its place meanwhile. It knows no sockets and no serializers: it is woken
when metadata changes, and told when a record is serialized. Java has no such class: there each calling thread waits by
itself, in ``waitOnMetadata`` and in ``BufferPool.allocate``.

Rules:

- Nothing overtakes: while records of a topic wait here, every later record of that topic waits after them. Records for
  a partition that does not exist (yet) wait by themselves, so that they hold up no others.
- A record for which there is no room moves on to the accumulator's line, first in, first out for all topics; the
  accumulator calls ``on_room`` when memory came back. For a topic with another policy ``Overflow`` decides.
- The partition is chosen once for each record, when its turn has come.
- A record that is cancelled before it is accepted is never sent, and the records behind it move up.
- Metadata of a topic that we were not authorized for is requested again before the next record for it is refused.
- Every record is gone after ``max_block_ms``, with an error that names the cause. One timer serves all records.
- An error of a record, or of the user's partitioner for it, is raised where the record is awaited: the callers here are
  the network's callbacks and the Sender, which must go on.
- A large queue is let in by slices, so that the event loop is never held long.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from ...common import TopicPartition
from ...errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
)
from ..accumulator.built_in_partitioner import UNKNOWN_PARTITION
from ..deliveries.delivery import Delivery
from ..deliveries.outcome_teller import COST_OF_ERROR, OutcomeTeller, step_by_step
from ..metrics import CallMetrics
from .overflow import Overflow
from .partitioners import Partitioner, choose_partition
from .pending_record import PendingRecord
from .topic_state import TopicState
from .waiting_errors import metadata_not_ready_error, serializer_timeout_error

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ..accumulator.record_accumulator import RecordAccumulator
    from ..producer_metadata import ProducerMetadata

__all__ = ["Admission"]

SLICE: Final = 512
"""Records let in before other callbacks of the loop get their turn; about half a millisecond of work."""


class Admission:
    """The queues, one for each topic that has records waiting.

    ``SpoolingAdmission`` extends it, and uses no name with an underscore: it may replace the methods of its section
    below, and calls ours from there.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        partitioner: Partitioner,
        teller: OutcomeTeller,
        overflow: Overflow,
        *,
        max_block: float,
        calls: CallMetrics,
    ) -> None:
        self.loop = loop
        self._teller = teller
        self.metadata = metadata
        self.appender = accumulator.appender
        self._partitioner = partitioner
        self.max_block = max_block
        self._overflow = overflow
        self.calls = calls
        self.on_refusal: Callable[[KafkaError], object] = lambda _: None
        """Called with the error of a record that waited and is refused, except for errors of user code."""
        self.on_use: Callable[[TopicState, float], object] | None = None
        """Called with a topic in use, at its first record and at intervals after."""
        # Every topic in use, where the fast path looks first; and the cluster view from which their counts are
        self.topics: dict[str, TopicState] = {}
        self._cluster: Cluster | None = None
        # Queues of records for partitions that do not exist; in their topic's queue they would hold it up.
        self._missing_partitions: dict[TopicPartition, TopicState] = {}
        # The states that have a queue.
        self._queues: dict[TopicState, None] = {}
        # All records that wait, here or in the line for room: oldest first, hence also in order of deadline, except
        # for records' own deadlines, which ``RecordDeadlines`` keeps.
        self._by_deadline: OrderedDict[PendingRecord, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._pump_handle: asyncio.Handle | None = None

    # entering and leaving

    def refresh(self, topic: str, now: float) -> TopicState:
        """The topic's state as of the newest metadata; the topic counts as used, and is requested if it is new."""
        state = self.topics.get(topic)
        if state is None:
            state = self.topics[topic] = TopicState(topic)
        if now >= state.renew_at:
            # Not at every record: a tenth of the idle time is precise enough, and costs one comparison.
            self.metadata.add(topic, now)
            state.renew_at = now + self.metadata.max_idle / 10
            if self.on_use is not None:
                self.on_use(state, now)
        self.look(state)
        if not state.partition_count and not self.metadata.contains_topic(topic):
            self.metadata.add(topic, now)  # it had expired
        return state

    def enter(self, record: PendingRecord, now: float) -> None:
        """Give a record its place in the queue; it is appended at once if it can be, and always settled in the end."""
        record.deadline = min(now + self.max_block, record.own_deadline)
        self._by_deadline[record] = None
        state = self._queue_for(record, now)
        if (record.partition or 0) >= state.partition_count:
            record.metadata_since = now
        if state.waiting is None and record.topic in self.metadata.cluster.unauthorized_topics:
            # The right may have been granted since: only a newer answer refuses the record.
            state.wait_beyond = self.metadata.request_update_for_topic(record.topic)
        self.join(state, record)
        if state.waiting is not None and len(state.waiting) == 1:
            self.pump(state, now)
        self._rearm()

    def why_not_at_once(self, record: PendingRecord) -> KafkaError:
        """The error for a serialized record that has no place and must not wait: there is no room, or no metadata."""
        topic, partition = record.topic, record.partition
        state = self.topics.get(topic)
        if state is not None and state.waiting is None and (partition or 0) < state.partition_count:
            self.calls.record_exhausted(self.loop.time())
            return self.appender.buffer_exhausted_error(topic, UNKNOWN_PARTITION if partition is None else partition)
        return metadata_not_ready_error(topic)

    def append_at_once(self, record: PendingRecord) -> Delivery | None:
        """Accept a record that has no place and must not wait, if records are dropped for want of room or its topic
        has priority; None without room, or if a serializer or metadata is missing. Raises as ``RecordAppender.append``
        does.
        """
        state = self.topics.get(record.topic)
        is_known = state is not None and state.waiting is None and (record.partition or 0) < state.partition_count
        if not record.is_serialized or not is_known:
            return None
        now, cluster = self.loop.time(), self.metadata.cluster
        if self._overflow.drops(record):
            return self._overflow.append(record, now, cluster)
        if self.appender.has_priority(record.topic):
            return self._overflow.append_if_room(record, now, cluster)
        return None

    def takes_unknown(self, topic: str) -> bool:
        """True when records of the topic are accepted without its metadata, which cannot be obtained now."""
        return False

    def proceed(self, record: PendingRecord, now: float) -> None:
        """``record`` has been serialized: admit it when its turn comes."""
        record.is_serialized = True
        self._pump_if_first(record, now)

    def settled(self, record: PendingRecord) -> None:
        """``record`` no longer waits."""
        self._by_deadline.pop(record, None)
        if record.room_since is not None:
            now = self.loop.time()
            self.calls.record_wait_for_room(now - record.room_since, now)
            record.room_since = None

    @property
    def waiting(self) -> int:
        """Records that wait to be accepted, here or in the line for room."""
        return len(self._by_deadline)

    def snapshot(self) -> list[PendingRecord]:
        """The records that wait now."""
        return list(self._by_deadline)

    # told by others

    def on_metadata_update(self) -> None:
        """Metadata changed, failed, or cannot be obtained: admit or refuse the records that waited for it."""
        if self._cluster is not self.metadata.cluster:
            self._cluster = self.metadata.cluster
            for state in self.topics.values():
                state.cluster = None  # so that the fast path checks one condition
        if not self._queues:
            return
        now = self.loop.time()
        for state in list(self._queues):
            self.look(state)
            self.pump(state, now)

    def on_room(self) -> None:
        """Memory came back: the records that the accumulator has taken since no longer wait."""
        for record, outcome in cast(
            list[tuple[PendingRecord, Delivery | Exception]], self.appender.grant(self.loop.time())
        ):
            if isinstance(outcome, Delivery):
                record.accept(outcome)
            else:
                record.refuse(outcome)
            self.settled(record)

    def refuse(self, record: PendingRecord, error: BaseException) -> None:
        """``record`` cannot be sent, for a reason found elsewhere: the next record gets its place."""
        record.refuse(error)
        self.drop(record)

    def expire(self, record: PendingRecord) -> None:
        """The time of ``record`` is over."""
        if record.deadline == record.own_deadline:
            self.expire_early(record)
        elif not record.done():
            error = self.timeout_error(record)
            self._note_exhaustion(error)
            record.refuse(error)
            self.on_refusal(error)
            self.drop(record)
            self.give_up_topic(record.topic)

    def expire_early(self, record: PendingRecord) -> None:
        """The time that the call gave its ``record`` is over."""
        if not record.done():
            cause = self.timeout_error(record, "the time of the call (delivery_timeout_ms, or deadline())")
            self._note_exhaustion(cause)
            error = DeliveryTimeoutError(str(cause), topic=record.topic, partition=cause.partition)
            error.__cause__ = cause
            self.refuse(record, error)
            self.on_refusal(error)
            self.give_up_topic(record.topic)

    def purge(self, is_meant: Callable[[PendingRecord], bool], make_error: Callable[[str], KafkaError]) -> int:
        """Refuse the waiting records that ``is_meant`` accepts; returns their number."""
        purged = [record for record in self._by_deadline if is_meant(record) and not record.done()]
        for record in purged:
            error = make_error(record.topic)
            self.appender.leave(record)  # first, for records in the line have their data
            record.refuse(error)
            self.settled(record)
            self.on_refusal(error)
        if purged:
            self.pump_all()
            self.on_room()
            for record in purged:
                self.give_up_topic(record.topic)
        return len(purged)

    def give_up_topic(self, topic: str) -> None:
        """Stop asking for a topic that was not found, once the last of those that waited for it is gone."""
        state = self.topics.get(topic)
        if state is None or state.waiting or state.askers or state.partition_count:
            return
        if not any(missing.topic == topic for missing in self._missing_partitions):
            del self.topics[topic]
            state.cluster = None
            self.metadata.forget(topic)

    def on_cancelled(self, record: PendingRecord) -> None:
        """The caller gave up before its record was accepted: the next record gets its place."""
        self.drop(record)

    def close(self, make_error: Callable[[str], BaseException]) -> None:
        """Refuse all records that still wait, each with an error for its topic."""
        refused = self.snapshot()
        self._by_deadline.clear()
        for state in self._queues:
            state.waiting = None
        self.appender.clear_line()  # not one by one, because each would try to admit the next one
        refusals = map(partial(_refuse, make_error), refused)
        if self._teller.may_tell_now(len(refused), COST_OF_ERROR):
            for _ in refusals:
                pass
        else:
            self._teller.tell_later(step_by_step(refusals), COST_OF_ERROR)
        for handle in (self._timer, self._pump_handle):
            if handle is not None:
                handle.cancel()
        self._timer = self._pump_handle = None
        self._queues.clear()
        for state in self.topics.values():
            state.cluster = None  # so that a holder of the state sees that it is gone
        self.topics.clear()
        self._missing_partitions.clear()

    # a subclass may replace these

    def join(self, state: TopicState, record: PendingRecord) -> None:
        """Give a record the last place in a queue."""
        if state.waiting is None:
            state.waiting = deque()
            self._queues[state] = None
        state.waiting.append(record)

    def pump(self, state: TopicState, now: float) -> None:
        """Admit records from the front of one queue as long as possible."""
        waiting = state.waiting
        budget = SLICE
        while waiting:
            record = waiting[0]
            if not record.done():
                if not record.is_serialized:
                    return
                if not budget:
                    if self._pump_handle is None:
                        self._pump_handle = self.loop.call_soon(self.pump_all)
                    return
                if not self.let_in(state, record, now):
                    return
                budget -= 1
            if waiting and waiting[0] is record:  # not when a user's partitioner took it back
                waiting.popleft()
            if record.done():
                self.settled(record)
        if waiting is not None:
            state.waiting = None
            self._queues.pop(state, None)
            if state is not self.topics.get(state.topic):
                self._forget_missing(state)

    def let_in(self, state: TopicState, record: PendingRecord, now: float) -> bool:
        """Append, or refuse, one record; False when it must go on waiting."""
        if not state.partition_count:
            error = self.metadata_error(state)
            if error is None:
                return False
            record.refuse(error)
            self.on_refusal(error)
            return True
        if record.partition is not None and record.partition >= state.partition_count:
            return self._move_aside(state, record, now)
        if record.metadata_since is not None:
            self.calls.record_time("metadata-wait", now - record.metadata_since)
            record.metadata_since = None
        try:
            self.append(record, now)
        except BaseException as error:  # an error of a user's partitioner is raised where the record is awaited
            self._note_exhaustion(error)
            record.refuse(error)
            if isinstance(error, BufferExhaustedError):
                self.on_refusal(error)
        return True

    def append(self, record: PendingRecord, now: float) -> None:
        """Append, or put the record into the line for room."""
        cluster = self.metadata.cluster
        self.choose_partition(record)
        if record.done():
            return  # taken back meanwhile
        delivery: Delivery | None
        if self._overflow.waits(record):
            delivery = self.appender.append_or_wait(record, now, cluster)
        else:
            delivery = self._overflow.append(record, now, cluster)
        self.appended_or_in_line(record, delivery, now)

    def timeout_error(self, record: PendingRecord, limit: str = "") -> KafkaError:
        """The error of a record whose time is over: it names the missing condition and the time waited."""
        limit = limit or f"max_block_ms={round(self.max_block * 1000)}"
        topic = record.topic
        if not record.is_serialized:
            return serializer_timeout_error(topic, limit)
        if self.appender.is_waiting(record):
            return BufferExhaustedError(
                f"no room within {limit}: {self.appender.buffer_exhausted_error(topic)}", topic=topic
            )
        count = self.metadata.cluster.partition_count(topic)
        if count and record.partition is not None and record.partition >= count:
            return MetadataTimeoutError(
                f"{topic}-{record.partition}: no such partition within {limit}: the topic has {count} partitions, "
                f"0 to {count - 1}",
                topic=topic,
                partition=record.partition,
            )
        if count:
            return MetadataTimeoutError(
                f"topic {topic!r}: an earlier record of the topic was still being serialized after {limit}", topic=topic
            )
        return MetadataTimeoutError(
            f"topic {topic!r}: no metadata within {limit}: {self.metadata.describe_failure(topic)}", topic=topic
        )

    # and call these

    def look(self, state: TopicState) -> None:
        """Bring the state up to the newest metadata."""
        cluster = self.metadata.cluster
        if state.cluster is not cluster:
            state.cluster = cluster
            state.partition_count = cluster.partition_count(state.topic)

    def pump_all(self) -> None:
        """Admit records from the front of each queue."""
        self._pump_handle = None
        now = self.loop.time()
        for state in list(self._queues):
            self.pump(state, now)

    def drop(self, record: PendingRecord) -> None:
        """A settled record leaves its queue or the line for room; the records after it move up."""
        self.settled(record)
        if self.appender.leave(record):
            self.on_room()
        else:
            self._pump_if_first(record, self.loop.time())

    def choose_partition(self, record: PendingRecord) -> None:
        """Choose the partition, once for each record; a user's partitioner may run arbitrary code."""
        if record.partition is None:
            record.partition = choose_partition(
                self._partitioner, record.topic, record.key, record.value, *record.original, self.metadata.cluster
            )

    def appended_or_in_line(self, record: PendingRecord, delivery: Delivery | None, now: float) -> None:
        """The record was appended, with its delivery; or it is in the line for room."""
        if delivery is None:
            record.room_since = now
        else:
            record.accept(delivery)

    def metadata_error(self, state: TopicState) -> KafkaError | None:
        """The reason why metadata of the topic will not come; None while it may."""
        # Read after each outcome of a request, so this is the newest outcome's.
        return self.metadata.refusal_of(state.topic, state.wait_beyond, "write to")

    # asyncio callbacks

    def _on_timer(self) -> None:
        self._timer = None
        now = self.loop.time()
        # One slice; the others follow in the next turns, because their time is already over.
        for record in list(islice(self._by_deadline, SLICE // COST_OF_ERROR)):
            if record.deadline > now:
                break
            self.expire(record)
        self._rearm()

    # internals

    def _queue_for(self, record: PendingRecord, now: float) -> TopicState:
        state = self.refresh(record.topic, now)
        partition = record.partition
        if partition is None or not state.partition_count or partition < state.partition_count:
            return state
        topic_partition = TopicPartition(record.topic, partition)
        missing = self._missing_partitions.get(topic_partition)
        if missing is None:
            missing = self._missing_partitions[topic_partition] = TopicState(record.topic)
            self.look(missing)
        self.metadata.request_update_for_topic(record.topic)
        return missing

    def _forget_missing(self, state: TopicState) -> None:
        for topic_partition, missing in list(self._missing_partitions.items()):
            if missing is state:
                del self._missing_partitions[topic_partition]

    def _pump_if_first(self, record: PendingRecord, now: float) -> None:
        state = self.topics.get(record.topic)
        if record.partition is not None and (state is None or not state.waiting or state.waiting[0] is not record):
            state = self._missing_partitions.get(TopicPartition(record.topic, record.partition))
        if state is not None and state.waiting and state.waiting[0] is record:
            self.pump(state, now)

    def _move_aside(self, state: TopicState, record: PendingRecord, now: float) -> bool:
        """A record that waited for its topic turns out to be for a missing partition."""
        other = self._queue_for(record, now)
        if other is state:
            return False
        self.join(other, record)
        return True

    def _note_exhaustion(self, error: BaseException) -> None:
        if isinstance(error, BufferExhaustedError):
            self.calls.record_exhausted(self.loop.time())

    def _rearm(self) -> None:
        if self._by_deadline and self._timer is None:
            self._timer = self.loop.call_at(next(iter(self._by_deadline)).deadline, self._on_timer)


def _refuse(make_error: Callable[[str], BaseException], record: PendingRecord) -> None:
    if not record.done():
        record.refuse(make_error(record.topic))
