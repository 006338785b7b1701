"""``RecordIntake``: the fast path from a call to the accumulator.

Owns the steps that every record takes in its caller's turn: the check of its arguments, serializers, the choice of a
partition, the append. It knows neither sockets nor outcomes. Kafka's counterpart is
``KafkaProducer.doSend``.

Rules:

- The fast path (topic known, no record waiting, room) is one function: no task, lock, log line, exception or system
  call per record. A record that cannot go that way is given back as a ``PendingRecord``, which ``Admission`` takes in
  the same step, so that calls keep their order.
- One check tells whether the producer may be used: the loop it is bound to is the running one. A producer that is not
  started, closed, crashed or forked is bound to no loop; the difference matters only for the error.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, cast

from ...common import Buffer, Headers
from ...errors import IllegalStateError, KafkaError
from ...record.builder import murmur2
from ..accumulator.built_in_partitioner import UNKNOWN_PARTITION
from ..accumulator.record_appender import NO_TIME, RecordAppender
from ..arguments import check_data, headers_of, partition_of, plain_data, time_of, topic_name
from ..deliveries.delivery import Delivery
from ..deliveries.shortcuts import now_ms, running_loop
from ..records import BytesWithHeaders, Unchecked
from ..serializers import PreparedSerializer, discard, serialize, with_own_headers
from .partitioners import DefaultPartitioner, Partitioner, choose_partition
from .pending_record import PendingRecord
from .topic_state import TopicState

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from .intake_runtime import IntakeRuntime

__all__ = ["IntakeHolder", "RecordIntake"]

RECORD_COST: Final = 100
"""Bytes that a record counts for besides its value: tiny ones take their time too."""
STICKY: Final = UNKNOWN_PARTITION

_NO_LOOP: Final = object()
"""Stands for the event loop while the intake is bound to none."""
_NO_STATE: Final = TopicState("")
"""Stands for the last record's topic before the first record: it is never up to date."""


class RecordIntake:
    """The way in of one producer: bound to a runtime while the producer can be used.

    ``why_unusable`` makes the error for a call while it cannot. ``unyielded`` counts the bytes that were accepted
    since ``enqueue`` let others run. ``opening`` counts the openings of the gate for a transaction: a call with many
    records adds none to a transaction that it did not begin in.
    """

    __slots__ = (
        "_appender",
        "_bound_loop",
        "_goes_by_key",
        "_has_serializers",
        "_is_sticky_without_key",
        "_key_serializer",
        "_last_state",
        "_last_topic",
        "_loop",
        "_now",
        "_runtime",
        "_topics",
        "_value_serializer",
        "_why_unusable",
        "opening",
        "partitioner",
        "unyielded",
    )

    def __init__(
        self,
        key_serializer: PreparedSerializer | None,
        value_serializer: PreparedSerializer | None,
        partitioner: Partitioner,
        why_unusable: Callable[[], KafkaError],
    ) -> None:
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._has_serializers = key_serializer is not None or value_serializer is not None
        self.partitioner = partitioner
        self._is_sticky_without_key = isinstance(partitioner, DefaultPartitioner)
        self._goes_by_key = type(partitioner) is DefaultPartitioner and not partitioner.ignore_keys
        self._why_unusable = why_unusable
        self.unyielded = 0
        self.opening = 0
        # Not looked at without a loop
        self._runtime: IntakeRuntime = None  # type: ignore[assignment]
        self._now: Callable[[], float] = None  # type: ignore[assignment]
        self._appender: RecordAppender = None  # type: ignore[assignment]
        # The topic of the last record, as it was given, and its state, whose cluster is None once it has left
        # ``topics``.
        self._last_topic = ""
        self._last_state = _NO_STATE
        self.unbind()

    def bind(self, runtime: IntakeRuntime) -> None:
        """Take records from now on, on the loop of ``runtime``, as long as that lives."""
        self._runtime = runtime
        self._loop: object = runtime.loop
        self._bound_loop: object = runtime.loop
        self._now = runtime.now
        # Empty once the runtime has ended, which tells the intake of the end.
        self._topics = runtime.topics
        self._last_state = _NO_STATE
        self._appender = runtime.accumulator.appender

    def unbind(self) -> None:
        """Take no more records."""
        # A record whose serializer or partitioner calls this finds the rest as it was.
        self._loop = self._bound_loop = _NO_LOOP
        self._topics = {}
        self._last_state = _NO_STATE

    def shut_gate(self) -> None:
        """Take no records until ``open_gate``: no transaction is open."""
        self._loop = _NO_LOOP

    def open_gate(self) -> None:
        """Take records of a new transaction."""
        self.reopen_gate()
        self.opening += 1

    def reopen_gate(self) -> None:
        """Take records again: the transaction that was open goes on."""
        self._loop = self._bound_loop

    def usable_runtime(self) -> IntakeRuntime:
        """The runtime, if the producer can be used here and now; else raises the error."""
        if running_loop() is not self._bound_loop or not self._runtime.is_bound:
            raise self._why_unusable()
        return self._runtime

    def accepting_runtime(self, opening: int | None = None) -> IntakeRuntime:
        """As ``usable_runtime``, if it takes records of a call begun at this ``opening``; else raises the error."""
        if opening is not None and opening != self.opening:
            # Checked before the gate: an event that shut it since concerns another transaction.
            self.usable_runtime()
            raise IllegalStateError("the transaction that this call began in has ended without this record")
        if running_loop() is not self._loop:
            raise self._why_unusable()
        return self.usable_runtime()

    def takes_records(self, opening: int) -> bool:
        """False once ``accept`` would refuse records, on the loop that it is bound to."""
        return self._loop is not _NO_LOOP and opening == self.opening and self._runtime.is_bound

    def lets_through(self, topic: str) -> bool:
        """False when the topic's records must go one by one, for some are refused."""
        return True

    @property
    def shows_each_record(self) -> bool:
        """True when user code, a partitioner for example, sees every record."""
        return not self._is_sticky_without_key

    @property
    def takes_plain_values(self) -> bool:
        """True when values without a key are sent as they are, and to the sticky partition."""
        return self._value_serializer is None and not self.shows_each_record

    def accept(
        self,
        topic: object,
        value: Unchecked,
        key: Unchecked,
        partition: object,
        timestamp_ms: object,
        headers: object,
    ) -> Delivery | PendingRecord:
        """Append the record. One that cannot be appended yet is returned, to be given its place in line or refused in
        the same step: see ``admitted`` and ``not_admitted``.

        Raises the error of a wrong argument, see ``arguments``, or of a producer that cannot be used here and now.
        """
        if running_loop() is not self._loop:
            raise self._why_unusable()
        state = self._last_state
        if topic is not self._last_topic or state.cluster is None:
            state = self._state_of(topic)
        if timestamp_ms is None:
            time_ms = now_ms()
        else:
            time_ms = time_of(state.topic, timestamp_ms)
            if state.check_time is not None:
                state.check_time(time_ms)
        chosen = STICKY if partition is None else partition_of(state.topic, partition)
        if headers is not None:
            headers = headers_of(state.topic, headers)
        original = None  # as they were given, if serializers changed them
        if self._has_serializers:
            original = (key, value)
            key, value = self._serialize(state.topic, key, value)
        if not ((value is None or type(value) is bytes) and (key is None or type(key) is bytes)):
            if isawaitable(key) or isawaitable(value):
                partition = None if partition is None else chosen
                return self._pending(state, partition, time_ms, key, value, headers, original)
            check_data(state.topic, key, value)
            if type(value) is BytesWithHeaders or type(key) is BytesWithHeaders:
                headers = with_own_headers(state.topic, headers, key, value)
        if state.waiting is None and state.partition_count and chosen < state.partition_count:
            if chosen < 0 and (key is not None or not self._is_sticky_without_key):
                chosen = self._partition_for(state, key, value, original)
                if state.waiting is not None:  # the user's partitioner has sent records, which have to wait
                    return self._pending(  # type: ignore[unreachable]
                        state, chosen, time_ms, key, value, headers, original
                    )
            delivery = self._appender.append(state.topic, chosen, time_ms, key, value, headers, NO_TIME, state.cluster)
            if delivery is None:
                delivery = self._append_with_time(state, chosen, time_ms, key, value, headers)
            if delivery is not None:
                self.unyielded += RECORD_COST if value is None else RECORD_COST + delivery.value_size
                return delivery
            partition = chosen  # once for each record: it is not chosen again when there is room
        else:
            partition = None if partition is None else chosen
        return self._pending(state, partition, time_ms, key, value, headers, original)

    # internals

    def _state_of(self, topic: object) -> TopicState:
        """The topic's state, up to date; the next record looks for its topic in the same place first."""
        name = topic if type(topic) is str else topic_name(topic)
        state = self._topics.get(name)
        if state is None or state.cluster is None:
            state = self.usable_runtime().admission.refresh(topic_name(name), self._now())
        self._last_topic, self._last_state = name, state
        return state

    def _append_with_time(
        self,
        state: TopicState,
        partition: int,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None,
    ) -> Delivery | None:
        """Append a record that no open batch took as it is: now the clock is read."""
        now = self._now()
        if now >= state.renew_at:
            self._runtime.admission.refresh(state.topic, now)  # the topic is in use
        return self._appender.append(state.topic, partition, timestamp_ms, key, value, headers, now, state.cluster)

    def _pending(
        self,
        state: TopicState,
        partition: int | None,
        timestamp_ms: int,
        key: Unchecked,
        value: Unchecked,
        headers: Headers | None,
        original: tuple[Unchecked, Unchecked] | None,
    ) -> PendingRecord:
        is_serialized = not (isawaitable(key) or isawaitable(value))
        original = original or (key, value)
        if is_serialized:
            key, value = plain_data(key), plain_data(value)
            self.unyielded += RECORD_COST if value is None else RECORD_COST + len(value)
        runtime = self._runtime
        record = PendingRecord(
            runtime.admission, state.topic, key, value, partition, timestamp_ms, headers, loop=runtime.loop
        )
        record.original = original
        record.is_serialized = is_serialized
        return record

    def _serialize(self, topic: str, key: object, value: object) -> tuple[Unchecked, Unchecked]:
        if key is not None and self._key_serializer is not None:
            key = serialize("key", self._key_serializer, topic, key)
        if value is not None and self._value_serializer is not None:
            try:
                value = serialize("value", self._value_serializer, topic, value)
            except BaseException:
                discard(key)  # an async serializer's coroutine that will not be awaited
                raise
        return key, value

    def _partition_for(
        self, state: TopicState, key: Any, value: object, original: tuple[Unchecked, Unchecked] | None
    ) -> int:
        if self._goes_by_key:
            return (murmur2(key) & 0x7FFFFFFF) % state.partition_count  # as ``partition_for_key``, without its call
        original_key, original_value = original or (key, value)
        return choose_partition(
            self.partitioner, state.topic, key, value, original_key, original_value, cast("Cluster", state.cluster)
        )


class IntakeHolder:
    """Has the intake where compiled code finds it without a look-up; a class of compiled code cannot be generic."""

    __slots__ = ("_intake",)

    def __init__(self, intake: RecordIntake) -> None:
        self._intake = intake
