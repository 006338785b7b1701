"""Records that were called in but cannot be appended yet, in call order.

A record may have to wait for three things: its serializer (an async one), metadata of its topic, room in the buffer.
Here is the queue in front of the accumulator that keeps its place meanwhile. It knows no sockets and no serializers; it
is told the time, woken when metadata changes, and appends through a function it is given. Java has no such class: there
each calling thread waits by itself, in ``waitOnMetadata`` and in ``BufferPool.allocate``.

Rules:

* Nothing overtakes: while records of a topic wait here, every later record of that topic waits behind them. Records
  for a partition that does not exist (yet) wait by themselves, so that they hold up nobody else.
* Waiting for room happens in the accumulator's own first-in-first-out line; a record enters it in turn.
* A record that was cancelled before it was accepted is never sent, and what waited behind it moves up.
* Every record is gone after ``max_block_ms``, with an error that names the cause. One timer serves all.
* A large queue is let in by slices, so that the event loop is never held long.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from ..common import Headers, TopicPartition
from ..errors import (
    BufferExhaustedError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    SerializationError,
    TopicAuthorizationFailedError,
)
from .delivery import Delivery
from .producer_metadata import ProducerMetadata

__all__ = ["Admission", "AppendTicket", "PendingRecord", "TopicState"]

SLICE: Final = 512
"""Records let in before other callbacks of the loop get their turn; about half a millisecond of work."""


class AppendTicket(Protocol):
    """A place in the accumulator's line for room."""

    def cancel(self) -> object:
        """Leave the line."""


class TopicState:
    """What the fast path needs to know of a topic: one look-up, no allocation.

    ``waiting`` is the topic's queue while it has one. Dropped as a whole when metadata changes and nobody waits.
    """

    __slots__ = ("partition_count", "renew_at", "topic", "topic_partitions", "waiting")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partition_count = 0
        self.topic_partitions: list[TopicPartition] = []
        # When the topic's expiry in the metadata must be moved on.
        self.renew_at = 0.0
        self.waiting: deque[PendingRecord] | None = None

    def resize(self, count: int) -> None:
        """The topic has ``count`` partitions now."""
        if count != self.partition_count:
            self.topic_partitions = [TopicPartition(self.topic, number) for number in range(count)]
            self.partition_count = count


class PendingRecord(asyncio.Future[Delivery]):
    """One record on its way in, and the future of its Delivery or of the error that kept it out.

    Cancelling it, as cancelling a task that awaits it does, takes it back in the same step: it can no longer be sent.
    """

    def __init__(
        self,
        admission: Admission,
        topic: str,
        key: Any,
        value: Any,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers | None,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop=loop)
        self.admission = admission
        # The record
        self.topic = topic
        self.key = key
        self.value = value
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.headers = headers
        # Its place
        self.is_serialized = True
        self.deadline = 0.0
        self.state: TopicState | None = None
        self.ticket: AppendTicket | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        """Take the record back; False when it was accepted or refused already."""
        if not super().cancel(msg):
            return False
        self.admission.on_cancelled(self)
        return True

    def accept(self, delivery: Delivery) -> None:
        """The accumulator took the record."""
        self._forget_data()
        if not self.done():
            self.set_result(delivery)

    def refuse(self, error: BaseException) -> None:
        """The record will not be sent."""
        self._forget_data()
        if not self.done():
            self.set_exception(error)
            self.exception()  # its caller may be gone already; then it is nobody's loss

    def _forget_data(self) -> None:
        self.key = self.value = self.headers = None


class Appender(Protocol):
    """How a record enters the accumulator; the producer provides it."""

    def append(self, state: TopicState, record: PendingRecord, now: float) -> bool:
        """Append ``record`` or put it into the line for room (setting its ticket); False: no such partition yet.

        Raises when the record can never be appended.
        """


class Admission:
    """The queues, one per topic that has records waiting."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metadata: ProducerMetadata,
        appender: Appender,
        *,
        max_block: float,
        wakeup: Callable[[], None],
        describe_buffer: Callable[[], str],
    ) -> None:
        self._loop = loop
        self._metadata = metadata
        self._appender = appender
        self._max_block = max_block
        self._wakeup = wakeup
        self._describe_buffer = describe_buffer
        # Every topic in use, by name; the fast path looks here first.
        self.topics: dict[str, TopicState] = {}
        # Queues of records for partitions that do not exist; in ``topics`` they would hold up their whole topic.
        self._missing_partitions: dict[TopicPartition, TopicState] = {}
        # All that wait, here or in the line for room: oldest first, hence also in order of deadline.
        self._by_deadline: OrderedDict[PendingRecord, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._pump_handle: asyncio.Handle | None = None
        self._on_empty: list[asyncio.Future[None]] = []

    # --- entering and leaving ---

    def state_of(self, topic: str, now: float) -> TopicState:
        """The topic's state, made and its metadata asked for when it is new."""
        state = self.topics.get(topic)
        if state is None:
            state = self.topics[topic] = TopicState(topic)
            state.resize(self._metadata.cluster.partition_count(topic))
        if now >= state.renew_at:
            # Not at every record: a tenth of the idle time is fine enough, and costs one comparison.
            self._metadata.add(topic, now)
            state.renew_at = now + self._metadata.max_idle / 10
        return state

    def enter(self, record: PendingRecord, now: float) -> None:
        """Take a place in the queue; what can be appended at once is. The record is settled in the end, always."""
        record.deadline = now + self._max_block
        state = self._queue_for(record, now)
        record.state = state
        if state.waiting is None:
            state.waiting = deque()
        state.waiting.append(record)
        self._by_deadline[record] = None
        if len(state.waiting) == 1:
            self._pump(state, now)
        if self._timer is None:
            self._rearm()

    def proceed(self, record: PendingRecord, now: float) -> None:
        """``record`` has been serialized: let it in when it is its turn."""
        record.is_serialized = True
        self._pump_if_first(record, now)

    def settled(self, record: PendingRecord) -> None:
        """``record`` waits no longer."""
        record.ticket = None
        self._by_deadline.pop(record, None)
        if not self._by_deadline:
            self._tell_empty()

    @property
    def waiting(self) -> int:
        """Records that wait to be accepted, here or in the line for room."""
        return len(self._by_deadline)

    # --- told by others ---

    def on_metadata_update(self) -> None:
        """Metadata changed, failed, or cannot be had: let in, or refuse, whoever waited for it."""
        now = self._loop.time()
        cluster = self._metadata.cluster
        for topic in list(self.topics):
            state = self.topics[topic]
            count = cluster.partition_count(topic)
            if not count and not state.waiting:
                del self.topics[topic]  # deleted or expired: the next record asks again
                continue
            state.resize(count)
            if state.waiting:
                self._pump(state, now)
        for topic_partition in list(self._missing_partitions):
            state = self._missing_partitions[topic_partition]
            state.resize(cluster.partition_count(topic_partition.topic))
            self._pump(state, now)
            if not state.waiting:
                del self._missing_partitions[topic_partition]

    def on_cancelled(self, record: PendingRecord) -> None:
        """The caller gave up before its record was accepted: its place goes to the next."""
        record._forget_data()
        self._drop(record)

    async def wait_until_empty(self) -> None:
        """Return when nobody waits, here or in the line for room."""
        while self._by_deadline:
            future: asyncio.Future[None] = self._loop.create_future()
            self._on_empty.append(future)
            await future

    def close(self, make_error: Callable[[str], BaseException] | None = None) -> int:
        """Refuse everybody who still waits; returns how many that were."""
        refused = list(self._by_deadline)
        for record in refused:
            if record.ticket is not None:
                record.ticket.cancel()
            record.refuse(make_error(record.topic) if make_error else _closed_error(record.topic))
        self._by_deadline.clear()
        for handle in (self._timer, self._pump_handle):
            if handle is not None:
                handle.cancel()
        self._timer = self._pump_handle = None
        self.topics.clear()
        self._missing_partitions.clear()
        self._tell_empty()
        return len(refused)

    # --- asyncio callbacks ---

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._by_deadline:
            record = next(iter(self._by_deadline))
            if record.deadline > now:
                break
            record.refuse(self._timeout_error(record))
            self._drop(record)
            self._give_up_topic(record)
        self._rearm()

    def _on_pump_again(self) -> None:
        self._pump_handle = None
        now = self._loop.time()
        for state in [*self.topics.values(), *self._missing_partitions.values()]:
            if state.waiting:
                self._pump(state, now)

    # --- internals ---

    def _queue_for(self, record: PendingRecord, now: float) -> TopicState:
        state = self.state_of(record.topic, now)
        partition = record.partition
        if partition is None or not state.partition_count or partition < state.partition_count:
            return state
        topic_partition = TopicPartition(record.topic, partition)
        missing = self._missing_partitions.get(topic_partition)
        if missing is None:
            missing = self._missing_partitions[topic_partition] = TopicState(record.topic)
            missing.resize(state.partition_count)
            self._metadata.request_update_for_topic(record.topic)
        return missing

    def _pump(self, state: TopicState, now: float) -> None:
        """Let in from the front of one queue for as long as that works."""
        waiting = state.waiting
        budget = SLICE
        while waiting:
            record = waiting[0]
            if not record.done():
                if not record.is_serialized:
                    return
                if not budget:
                    if self._pump_handle is None:
                        self._pump_handle = self._loop.call_soon(self._on_pump_again)
                    return
                if not self._let_in(state, record, now):
                    return
                budget -= 1
            waiting.popleft()
            if record.done():
                self.settled(record)
        state.waiting = None

    def _pump_if_first(self, record: PendingRecord, now: float) -> None:
        state = record.state
        if state is not None and state.waiting and state.waiting[0] is record:
            self._pump(state, now)

    def _let_in(self, state: TopicState, record: PendingRecord, now: float) -> bool:
        """Append, or refuse, one record; False when it must go on waiting."""
        if not state.partition_count:
            error = self._metadata_error(record.topic)
            if error is None:
                return False
            record.refuse(error)
            return True
        if record.partition is not None and record.partition >= state.partition_count:
            return self._move_aside(state, record, now)
        try:
            return self._appender.append(state, record, now)
        except (KafkaError, TypeError, ValueError, OverflowError) as error:
            record.refuse(error)
            return True

    def _move_aside(self, state: TopicState, record: PendingRecord, now: float) -> bool:
        """A record that waited for its topic turns out to be for a partition that is not there."""
        other = self._queue_for(record, now)
        if other is state:
            # Already aside; keep asking while it waits, as fast as the back-off allows.
            self._metadata.request_update_for_topic(record.topic)
            return False
        record.state = other
        if other.waiting is None:
            other.waiting = deque()
        other.waiting.append(record)
        return True

    def _metadata_error(self, topic: str) -> KafkaError | None:
        """Why metadata of ``topic`` will not come; None while it may."""
        cluster = self._metadata.cluster
        if topic in cluster.invalid_topics:
            return InvalidTopicError(f"{topic!r} is not a valid topic name", topic=topic)
        if topic in cluster.unauthorized_topics:
            return TopicAuthorizationFailedError(f"not authorized to write to topic {topic!r}", topic=topic)
        if self._metadata.fatal_error is not None:
            return self._metadata.fatal_error.fresh()
        return None

    def _timeout_error(self, record: PendingRecord) -> KafkaError:
        limit = f"max_block_ms={round(self._max_block * 1000)}"
        topic = record.topic
        if not record.is_serialized:
            return SerializationError(f"topic {topic!r}: the serializer did not answer within {limit}", topic=topic)
        if record.ticket is not None:
            return BufferExhaustedError(
                f"topic {topic!r}: no room for the record within {limit}: {self._describe_buffer()}", topic=topic
            )
        count = self._metadata.cluster.partition_count(topic)
        if count and record.partition is not None and record.partition >= count:
            return MetadataTimeoutError(
                f"{topic}-{record.partition}: no such partition within {limit}: topic {topic!r} has {count} partitions: "
                f"0 to {count - 1}",
                topic=topic,
                partition=record.partition,
            )
        if count:
            return MetadataTimeoutError(
                f"topic {topic!r}: an earlier record of the topic was still being serialized after {limit}", topic=topic
            )
        return MetadataTimeoutError(
            f"topic {topic!r}: no metadata within {limit}: {self._metadata.describe_failure(topic)}", topic=topic
        )

    def _drop(self, record: PendingRecord) -> None:
        """A settled record leaves its queue or the line for room; what stood behind it moves up."""
        ticket = record.ticket
        self.settled(record)
        if ticket is not None:
            ticket.cancel()
        else:
            self._pump_if_first(record, self._loop.time())

    def _give_up_topic(self, record: PendingRecord) -> None:
        """Stop asking for a topic that was not found once the last who waited for it has gone."""
        state = self.topics.get(record.topic)
        if state is not None and not state.waiting and not state.partition_count:
            del self.topics[record.topic]
            self._metadata.forget(record.topic)

    def _tell_empty(self) -> None:
        waiters, self._on_empty = self._on_empty, []
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def _rearm(self) -> None:
        if self._by_deadline and self._timer is None:
            self._timer = self._loop.call_at(next(iter(self._by_deadline)).deadline, self._on_timer)


def _closed_error(topic: str) -> ProducerClosedError:
    return ProducerClosedError(
        f"the producer was closed while a record of topic {topic!r} waited to be accepted", topic=topic
    )
