"""``RecordIntake``: the fast path from a call to the accumulator.

Owns what is done to every record in its caller's step: interceptors, serializers, the choice of a partition, the
append. It knows no sockets, and not what becomes of a record. Kafka's counterpart is ``KafkaProducer.doSend``.

Rules:

* The fast path (topic known, nobody waiting, room) is one function: no task, lock, log line, exception or system call
  per record. What cannot go that way goes through ``Admission``, in the same step, so that calls keep their order.
* One check tells whether the producer may be used: the loop it is bound to is the running one. A producer that is not
  started, closed, crashed or forked is bound to none.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, cast

from ...common import Headers
from ...errors import IllegalStateError, MetadataNotReadyError
from ...record.builder import murmur2
from ..accumulator.built_in_partitioner import UNKNOWN_PARTITION
from ..accumulator.record_appender import NO_TIME, RecordAppender
from ..deliveries.delivery import Delivery
from ..deliveries.shortcuts import now_ms, running_loop
from ..records import ProducerRecord
from .arguments import check_data, headers_of, materialized, partition_of, plain_data, time_of, topic_name
from .interceptors import ProducerInterceptors
from .partitioners import DefaultPartitioner, Partitioner, choose_partition
from .pending_record import PendingRecord
from .serializers import SyncSerializer, discard, serialize
from .topic_state import TopicState

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ..runtime import ProducerRuntime

__all__ = ["RecordIntake"]

RECORD_COST: Final = 100
"""What a record counts for besides its value: tiny ones take their time too."""
STICKY: Final = UNKNOWN_PARTITION

_NOWHERE: Final = object()
"""Stands for the event loop of whoever has none."""


class RecordIntake:
    """The way in of one producer: bound to a runtime while the producer can be used.

    ``unyielded`` counts the bytes that were accepted since whoever minds it has let others run.
    """

    __slots__ = (
        "_appender",
        "_goes_by_key",
        "_has_serializers",
        "_is_sticky_without_key",
        "_key_serializer",
        "_loop",
        "_now",
        "_runtime",
        "_topics",
        "_value_serializer",
        "interceptors",
        "partitioner",
        "unyielded",
    )

    def __init__(
        self,
        key_serializer: SyncSerializer | None,
        value_serializer: SyncSerializer | None,
        partitioner: Partitioner,
        interceptors: ProducerInterceptors | None,
    ) -> None:
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._has_serializers = key_serializer is not None or value_serializer is not None
        self.partitioner = partitioner
        self._is_sticky_without_key = isinstance(partitioner, DefaultPartitioner)
        self._goes_by_key = type(partitioner) is DefaultPartitioner and not partitioner.ignore_keys
        self.interceptors = interceptors
        self.unyielded = 0
        self.unbind()

    def bind(self, runtime: ProducerRuntime) -> None:
        """Take records from now on, on the loop of ``runtime``, as long as that lives."""
        self._runtime: Any = runtime
        self._loop: Any = runtime.loop
        self._now: Any = runtime.now
        # Empty once the runtime has come to its end, which is how its end is seen.
        self._topics = runtime.topics
        self._appender: RecordAppender = runtime.accumulator.appender

    def unbind(self) -> None:
        """Take no more records."""
        self._runtime = self._now = self._appender = None  # type: ignore[assignment]
        self._loop = _NOWHERE
        self._topics = {}

    @property
    def takes_plain_values(self) -> bool:
        """True when values without a key are sent as they are, and to the sticky partition."""
        return self.interceptors is None and self._value_serializer is None and self._is_sticky_without_key

    def accept(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Any,
        may_wait: bool = True,
        is_intercepted: bool = False,
        from_table: bool = False,
    ) -> Delivery | PendingRecord | None:
        """Append the record, or give it its place in the queue when that is not possible yet. None when the producer
        cannot be used here and now.

        Without ``may_wait`` it never gets a place, and what it would have waited for is raised. Whatever is wrong with
        an argument is raised here, see ``arguments``.
        """
        if running_loop() is not self._loop:
            return None
        if self.interceptors is not None and not is_intercepted:
            return self._accept_intercepted(topic, value, key, partition, timestamp_ms, headers, may_wait, from_table)
        if type(topic) is not str:
            topic = topic_name(topic)
        state = self._topics.get(topic)
        if state is None or state.cluster is None:
            if not self._runtime.is_bound:
                return None
            state = self._runtime.admission.refresh(topic_name(topic), self._now())
        timestamp = now_ms() if timestamp_ms is None else time_of(topic, timestamp_ms, from_table)
        chosen = STICKY if partition is None else partition_of(topic, partition)
        place = None if partition is None else chosen
        if headers is not None:
            headers = headers_of(topic, headers)
        original_key, original_value = key, value
        if self._has_serializers:
            key, value = self._serialize(topic, key, value)
        if (value is None or type(value) is bytes) and (key is None or type(key) is bytes):
            self.unyielded += RECORD_COST if value is None else RECORD_COST + len(value)
        elif isawaitable(key) or isawaitable(value):
            record = (key, value, place, timestamp, headers)
            return _admit(self._runtime, record, (original_key, original_value), state, self._now(), may_wait)
        else:
            self.unyielded += RECORD_COST + check_data(topic, key, value)
        if state.waiting is None and state.partition_count and chosen < state.partition_count:
            if chosen < 0 and (key is not None or not self._is_sticky_without_key):
                chosen = self._partition_for(state, key, value, original_key, original_value)
            delivery = self._appender.append(
                state.topic, chosen, timestamp, key, value, headers, NO_TIME, state.cluster
            )
            if delivery is None:
                delivery = self._append_with_time(state, chosen, timestamp, key, value, headers)
            if delivery is not None:
                return delivery
            place = chosen  # once for each record: it is not chosen again when there is room
        record = (plain_data(key), plain_data(value), place, timestamp, headers)
        return _admit(self._runtime, record, (original_key, original_value), state, self._now(), may_wait)

    # internals

    def _append_with_time(
        self, state: TopicState, partition: int, timestamp: int, key: Any, value: Any, headers: Headers | None
    ) -> Delivery | None:
        """Append a record that no open batch took as it is, and so is worth a look at the clock."""
        now = self._now()
        if now >= state.renew_at:
            self._runtime.admission.refresh(state.topic, now)  # the topic is in use
        return self._appender.append(state.topic, partition, timestamp, key, value, headers, now, state.cluster)

    def _serialize(self, topic: str, key: Any, value: Any) -> tuple[Any, Any]:
        if key is not None and self._key_serializer is not None:
            key = serialize("key", self._key_serializer, topic, key)
        if value is not None and self._value_serializer is not None:
            try:
                value = serialize("value", self._value_serializer, topic, value)
            except BaseException:
                discard(key)  # an async serializer's, which nobody will await
                raise
        return key, value

    def _partition_for(self, state: TopicState, key: Any, value: Any, original_key: Any, original_value: Any) -> int:
        if self._goes_by_key:
            return (murmur2(key) & 0x7FFFFFFF) % state.partition_count  # as `partition_for_key`, without its call
        return choose_partition(
            self.partitioner, state.topic, key, value, original_key, original_value, cast("Cluster", state.cluster)
        )

    def _accept_intercepted(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Any,
        may_wait: bool,
        from_table: bool,
    ) -> Delivery | PendingRecord | None:
        """As ``accept``, with interceptors before and, where one wants it, told of the outcome."""
        interceptors = cast(ProducerInterceptors, self.interceptors)
        if not self._runtime.is_bound:
            return None  # of a record that they were shown they would have to be told
        if headers is not None:
            headers = materialized(topic, headers)
        record = interceptors.on_send(ProducerRecord(topic, value, key, partition, timestamp_ms, headers))
        headers = record.headers
        try:
            if headers is not None:
                headers = materialized(record.topic, headers)
            accepted = self.accept(
                record.topic, record.value, record.key, record.partition, record.timestamp_ms, headers,
                may_wait, True, from_table,
            )  # fmt: skip
        except Exception as error:
            interceptors.on_acknowledgement(None, error, headers)
            raise
        if accepted is not None:
            interceptors.watch(accepted, headers)
        return accepted


def _admit(
    runtime: ProducerRuntime,
    parts: tuple[Any, Any, int | None, int, Headers | None],
    original: tuple[Any, Any],
    state: TopicState,
    now: float,
    may_wait: bool,
) -> PendingRecord:
    """Give a record of these parts its place in the queue, or say why it cannot have one."""
    record = PendingRecord(runtime.admission, state.topic, *parts, loop=runtime.loop)
    record.original = original
    topic, partition = record.topic, record.partition
    record.is_serialized = not (isawaitable(record.key) or isawaitable(record.value))
    if may_wait:
        runtime.admission.enter(record, now)
        return record
    if not record.is_serialized:
        discard(record.key, record.value)
        raise IllegalStateError("send_nowait() cannot wait for an async serializer: await enqueue() or send()")
    if state.waiting is None and state.partition_count and (partition or 0) < state.partition_count:
        raise runtime.accumulator.appender.buffer_exhausted_error(
            topic, UNKNOWN_PARTITION if partition is None else partition
        )
    text = f"topic {topic!r}: send_nowait() cannot wait for metadata: await producer.partitions_for({topic!r}) first"
    raise MetadataNotReadyError(text, topic=topic)
