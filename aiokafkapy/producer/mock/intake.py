"""``MockIntake``: the way into a ``MockProducer``; checks, serializers and partitioner are the producer's.

Owns the order of these, which is ``RecordIntake.accept``'s without its short cuts. It knows no outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import isawaitable
from typing import TYPE_CHECKING, cast

from ...errors import KafkaError
from ..arguments import (
    check_data,
    headers_of,
    materialized,
    partition_of,
    plain_data,
    time_of,
    topic_name,
)
from ..deliveries.delivery import Delivery
from ..deliveries.shortcuts import now_ms
from ..intake.intercepted_intake import InterceptedIntake
from ..intake.interceptors import ProducerInterceptors
from ..intake.new_intake import new_partitioner, new_serializers
from ..intake.pending_record import PendingRecord
from ..records import ProducerRecord, Unchecked
from ..serializers import discard, serialize, with_own_headers

if TYPE_CHECKING:
    from ..config import ProducerConfig
    from .runtime import MockRuntime

__all__ = ["MockIntake"]


class MockIntake(InterceptedIntake):
    """Gives records to a ``MockRuntime``, one by one, also those of ``send_many`` and of tables."""

    def __init__(
        self, config: ProducerConfig, interceptors: ProducerInterceptors, why_unusable: Callable[[], KafkaError]
    ) -> None:
        # Under separate names: the fields of a compiled base cannot be read from here.
        self.serializers = dict(zip(("key", "value"), new_serializers(config), strict=True))
        self.interceptors = interceptors
        InterceptedIntake.__init__(
            self,
            self.serializers["key"],
            self.serializers["value"],
            new_partitioner(config),
            why_unusable,
            interceptors,
        )

    def accept(
        self,
        topic: Unchecked,
        value: Unchecked,
        key: Unchecked,
        partition: Unchecked,
        timestamp_ms: Unchecked,
        headers: Unchecked,
    ) -> Delivery | PendingRecord:
        """As ``RecordIntake.accept``, interceptors included."""
        if self.interceptors:
            return InterceptedIntake.accept(self, topic, value, key, partition, timestamp_ms, headers)
        self.accepting_runtime()
        if isinstance(headers, Iterator):
            headers = materialized(topic, headers)  # it is read here, so that its error is the record's
        return self.accept_intercepted(ProducerRecord(topic, value, key, partition, timestamp_ms, headers), headers)

    def accept_intercepted(self, record: ProducerRecord, headers: Unchecked) -> Delivery | PendingRecord:
        """As ``RecordIntake.accept``, of a record as the chain leaves it."""
        runtime = cast("MockRuntime", self.accepting_runtime())
        runtime.failures.raise_for("send")
        topic = topic_name(record.topic)
        time_ms = now_ms() if record.timestamp_ms is None else time_of(topic, record.timestamp_ms)
        partition = None if record.partition is None else partition_of(topic, record.partition)
        headers = None if headers is None else headers_of(topic, headers)
        key, value = self._serialized(topic, record)
        is_serialized = not (isawaitable(key) or isawaitable(value))
        if is_serialized:
            check_data(topic, key, value)
            headers = with_own_headers(topic, headers, key, value)
            key, value = plain_data(key), plain_data(value)
        pending = PendingRecord(runtime.admission, topic, key, value, partition, time_ms, headers, loop=runtime.loop)
        pending.original = record.key, record.value
        pending.is_serialized = is_serialized
        runtime.admission.given[pending] = record
        delivery = runtime.admission.append_now(pending)
        return pending if delivery is None else delivery

    # internals

    def _serialized(self, topic: str, record: ProducerRecord) -> tuple[Unchecked, Unchecked]:
        key, value = record.key, record.value
        if key is not None and self.serializers["key"] is not None:
            key = serialize("key", self.serializers["key"], topic, key)
        if value is not None and self.serializers["value"] is not None:
            try:
                value = serialize("value", self.serializers["value"], topic, value)
            except BaseException:
                discard(key)  # an async serializer's coroutine that will not be awaited
                raise
        return key, value
