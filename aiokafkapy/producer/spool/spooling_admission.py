"""``SpoolingAdmission``: an ``Admission`` with a spool for the records that it cannot admit.

Owns the choice between the accumulator and the spool. It knows neither files nor the sending of spooled records. Kafka
has no counterpart.

Rules:

- A topic whose policy is ``spool`` goes to the spool when there is no room for a record, or while its metadata is
  missing and brokers cannot be reached. From then on all its records go there, in the order of their calls, until the
  spool has none of them left: meanwhile the topic's queue is never None, so that no fast path bypasses it.
- With a full spool, or one that cannot be written, a record waits as with ``wait``: for room in the spool if the topic
  has records there, otherwise in the accumulator's line.
- Records sent out of the spool do not pass through here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from ...errors import BufferExhaustedError, KafkaError
from ..deliveries.delivery import Delivery
from ..intake.admission import Admission
from ..intake.pending_record import PendingRecord
from ..intake.topic_state import TopicState
from ..options.overflow_policy import SPOOL
from .spool import Spool

if TYPE_CHECKING:
    from .spool_runtime import SpoolRuntime

__all__ = ["SpoolingAdmission"]

OUTAGE_AFTER: Final = 1.0
"""Seconds without sending a batch of a full buffer after which brokers count as away, not as slow."""
RECHECK_AFTER: Final = 0.2
"""Seconds after which a record that waits for metadata is looked at again."""


class SpoolingAdmission(Admission):
    """Described above."""

    def __init__(self, runtime: SpoolRuntime, spool: Spool, is_connected: Callable[[], bool]) -> None:
        """``is_connected`` tells whether any broker is connected."""
        super().__init__(
            runtime.loop,
            runtime.metadata,
            runtime.accumulator,
            runtime.partitioner,
            runtime.teller,
            runtime.overflow,
            max_block=runtime.max_block,
            calls=runtime.calls,
        )
        self._policies = runtime.overflow
        self._accumulator = runtime.accumulator
        self._spool = spool
        self._is_connected = is_connected
        self._recheck_timer: asyncio.TimerHandle | None = None
        spool.on_room = self._on_spool_room
        spool.on_free = self._on_topic_free

    def refresh(self, topic: str, now: float) -> TopicState:
        """As ``Admission.refresh``; a topic with records in the spool lets no record pass."""
        state = super().refresh(topic, now)
        self._hold(state)
        return state

    def enter(self, record: PendingRecord, now: float) -> None:
        """As ``Admission.enter``."""
        super().enter(record, now)
        state = self.topics.get(record.topic)
        if state is not None and state.waiting and self._waits_in_an_outage(state):
            self.pump(state, now)  # brokers may have gone since the first of its queue came

    def append_at_once(self, record: PendingRecord) -> Delivery | None:
        """As ``Admission.append_at_once``; if the topic has a spool, a record without room goes there."""
        if not self.is_spooling(record.topic):
            return super().append_at_once(record)
        state = self.topics.get(record.topic)
        if state is None or not record.is_serialized or state.waiting:
            return None  # older records wait
        if self._is_astray(record):
            return None
        if not self._spool.has(record.topic):
            if not state.partition_count and not self._waits_in_an_outage(state):
                return None
            delivery = self._appended(record, self.loop.time()) if state.partition_count else None
            if delivery is not None:
                return delivery
            now = self.loop.time()
            self.appender.check_record(record, now)
            delivery = self._overflowing(record, now)
        else:
            delivery = self._spooled(record)
        self._hold(state)
        return delivery

    def takes_unknown(self, topic: str) -> bool:
        """As ``Admission.takes_unknown``: by the spool."""
        state = self.topics.get(topic)
        if state is None:
            state = TopicState(topic)
        self.look(state)
        if state.partition_count or not self.is_spooling(topic):
            return False
        return self._spool.has(topic) or self._waits_in_an_outage(state)

    def why_not_at_once(self, record: PendingRecord) -> KafkaError:
        """As ``Admission.why_not_at_once``, also of a spool that is full."""
        state = self.topics.get(record.topic)
        if self._spool.has(record.topic) and state is not None and not self._is_astray(record):
            self.calls.record_exhausted(self.loop.time())
            return self._full_error(record, "older records of it wait" if state.waiting else self._spool.why_full())
        return super().why_not_at_once(record)

    def expire(self, record: PendingRecord) -> None:
        """As ``Admission.expire``; the missing metadata may still come for the records in the spool."""
        if record.deadline == record.own_deadline or not self.spool_if_unanswered(record):
            super().expire(record)

    def spool_if_unanswered(self, record: PendingRecord) -> bool:
        """Take a record that is first in its topic's queue, when no broker has answered since it came."""
        if record.done() or not self._waits_for_brokers(record):
            return False
        if not self._accept_spooled(record):
            return False
        self.drop(record)
        return True

    def close(self, make_error: Callable[[str], BaseException]) -> None:
        """As ``Admission.close``."""
        if self._recheck_timer is not None:
            self._recheck_timer.cancel()
        super().close(make_error)

    def evacuate(self, topics: Collection[str], reason: str) -> None:
        """Move the unsent records in batches of these topics to the spool, in order, if it has room for all of a
        topic. The spool has no records of these topics yet.
        """
        in_line = self._topics_in_line()
        for topic in topics:
            batches = [
                batch
                for batch in self._accumulator.incomplete
                if batch.may_be_taken_back and batch.topic_partition.topic == topic
            ]
            size, count = sum(batch.builder.records_size for batch in batches), sum(b.record_count for b in batches)
            if not count or topic in in_line or not self._spool.has_room_for(size, count):
                continue
            self._accumulator.move_out(
                lambda topic_partition, topic=topic: topic_partition.topic == topic,  # type: ignore[misc]
                lambda batch: self._spool.adopt(
                    batch.topic_partition,
                    batch.builder.records,
                    batch.record_count,
                    batch.builder.records_size,
                    reason,
                ),
            )
            state = self.topics.get(topic)
            if state is not None:
                self._hold(state)
            in_line = self._topics_in_line()  # some of the topic's records got the room

    def is_spooling(self, topic: str) -> bool:
        """True when the topic's records may go to the spool for want of room, or go there already."""
        return self._policies.policy(topic) == SPOOL or self._spool.has(topic)

    @property
    def is_unreachable(self) -> bool:
        """True when no broker reports topics: the last one asked did not answer, or no broker can be connected to."""
        metadata = self.metadata
        if metadata.fatal_error is not None:
            return False
        return metadata.last_failure is not None or (metadata.has_unreachable_addresses and not self._is_connected())

    # steps of Admission, replaced

    def join(self, state: TopicState, record: PendingRecord) -> None:
        if not state.waiting:
            state.waiting = None  # the state may exist without a queue
        super().join(state, record)

    def pump(self, state: TopicState, now: float) -> None:
        super().pump(state, now)
        self._hold(state)

    def let_in(self, state: TopicState, record: PendingRecord, now: float) -> bool:
        topic = record.topic
        if self.is_spooling(topic) and not self._is_astray(record):
            if self._spool.has(topic):
                return self._accept_spooled(record)
            if self._waits_in_an_outage(state):
                if self._accept_spooled(record):
                    return True
            elif not state.partition_count and self._recheck_timer is None:
                # Nothing reports when brokers are gone.
                self._recheck_timer = self.loop.call_later(RECHECK_AFTER, self._on_recheck_timer)
        return super().let_in(state, record, now)

    def append(self, record: PendingRecord, now: float) -> None:
        if not self.is_spooling(record.topic):
            super().append(record, now)
            return
        delivery = self._appended(record, now)
        if record.done():
            return  # the user's partitioner took the record back
        if delivery is None:
            self.appender.check_record(record, now)  # a record that can never be accepted is not kept either
            delivery = self._overflowing(record, now)
        if delivery is None:
            delivery = self.appender.append_or_wait(record, now, self.metadata.cluster)
        self.appended_or_in_line(record, delivery, now)

    def timeout_error(self, record: PendingRecord, limit: str = "") -> KafkaError:
        is_in_line = self.appender.is_waiting(record) or self._is_astray(record)
        if record.is_serialized and self._spool.has(record.topic) and not is_in_line:
            limit = limit or f"max_block_ms={round(self.max_block * 1000)}"
            return self._full_error(record, f"within {limit}: {self._spool.why_full()}")
        return super().timeout_error(record, limit)

    # asyncio callbacks

    def _on_recheck_timer(self) -> None:
        self._recheck_timer = None
        self.pump_all()

    # called by the spool

    def _on_spool_room(self) -> None:
        self.pump_all()

    def _on_topic_free(self, topic: str) -> None:
        state = self.topics.get(topic)
        if state is None:
            return
        if state.waiting:
            self.pump(state, self.loop.time())
        else:
            state.waiting = None

    # internals

    def _appended(self, record: PendingRecord, now: float) -> Delivery | None:
        """Append the record to a batch; None without room."""
        self.choose_partition(record)
        if record.done() or self._spool.has(record.topic):  # the user's partitioner may have sent records itself
            return None
        return self._policies.append_if_room(record, now, self.metadata.cluster)

    def _overflowing(self, record: PendingRecord, now: float) -> Delivery | None:
        """Put the record into the spool, the first of its topic; in an outage after the records in memory."""
        topic = record.topic
        oldest = min(
            (
                b.created
                for b in self._accumulator.incomplete
                if b.may_be_taken_back and b.topic_partition.topic == topic
            ),
            default=now,
        )
        if now - oldest >= OUTAGE_AFTER or not self._is_connected():
            self.evacuate([topic], self.appender.describe_fullness())
        return self._spooled(record)

    def _accept_spooled(self, record: PendingRecord) -> bool:
        """Take a waiting record into the spool, or refuse it; False when the spool is full."""
        try:
            delivery = self._spooled(record)
        except Exception as error:  # it is raised where the record is awaited
            record.refuse(error)
            return True
        if delivery is not None:
            record.accept(delivery)
        return delivery is not None

    def _spooled(self, record: PendingRecord) -> Delivery | None:
        """Put the record into the spool; None if that is full. Raises for a record that no batch could take, as memory
        does.
        """
        self.appender.check_record(record, self.loop.time())
        if self._spool.has(record.topic):
            reason = "older records of the topic are in the spool"
        elif not self.metadata.cluster.partition_count(record.topic):
            reason = self.metadata.describe_failure(record.topic)
        else:
            reason = self.appender.describe_fullness()
        return self._spool.offer(record, reason)

    def _topics_in_line(self) -> set[str]:
        """The topics that have records in the line for room: these are younger than those in memory, and would come
        before them if those went to the spool.
        """
        if not self.appender.waiting:
            return set()
        return {one.topic for one in self.snapshot() if self.appender.is_waiting(one)}

    def _full_error(self, record: PendingRecord, why: str) -> KafkaError:
        return BufferExhaustedError(f"no room for a record of topic {record.topic!r}: {why}", topic=record.topic)

    def _is_astray(self, record: PendingRecord) -> bool:
        """True for a record of a missing partition: it waits, and is refused to its caller in the end."""
        count = self.metadata.cluster.partition_count(record.topic)
        return record.partition is not None and 0 < count <= record.partition

    def _waits_for_brokers(self, record: PendingRecord) -> bool:
        """True when no broker has answered since the record, the first of its topic's queue, came."""
        state = self.topics.get(record.topic)
        if state is None or not self.is_spooling(record.topic) or not record.is_serialized or state.partition_count:
            return False
        has_no_answer = self.metadata.last_successful_refresh <= record.deadline - self.max_block
        waiting = state.waiting
        is_first = waiting is not None and len(waiting) > 0 and waiting[0] is record
        return is_first and (has_no_answer or self.is_unreachable) and self.metadata_error(state) is None

    def _waits_in_an_outage(self, state: TopicState) -> bool:
        """True when the topic's metadata is missing, and no broker can be asked for it."""
        return not state.partition_count and self.is_unreachable and self.metadata_error(state) is None

    def _hold(self, state: TopicState) -> None:
        if state.waiting is None and self._spool.has(state.topic):
            state.waiting = deque()
