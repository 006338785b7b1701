"""``GuardedIntake``: a ``RecordIntake`` that takes no records for topics to which deliveries keep failing.

Owns the order of the two: a circuit is asked first, and a record that is let through is accepted as any other. It knows
neither the rules of circuits nor the outcomes of records. Java has no counterpart.

Rule: while no circuit is open a record pays for one look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import CircuitOpenError, KafkaError
from ..arguments import topic_name
from ..deliveries.delivery import Delivery
from ..records import ProducerRecord, Unchecked
from ..serializers import PreparedSerializer
from .intercepted_intake import InterceptedIntake
from .interceptors import ProducerInterceptors
from .partitioners import Partitioner
from .pending_record import PendingRecord
from .record_intake import RecordIntake

if TYPE_CHECKING:
    from ..circuits.circuits import Circuits
    from .intake_runtime import IntakeRuntime

__all__ = ["GuardedIntake", "GuardedInterceptedIntake"]


class GuardedIntake(RecordIntake):
    """An intake behind the circuits of the runtime that it is bound to."""

    __slots__ = ("_circuits",)

    def __init__(
        self,
        key_serializer: PreparedSerializer | None,
        value_serializer: PreparedSerializer | None,
        partitioner: Partitioner,
        why_unusable: Callable[[], KafkaError],
    ) -> None:
        RecordIntake.__init__(self, key_serializer, value_serializer, partitioner, why_unusable)
        self._circuits: Circuits | None = None

    def bind(self, runtime: IntakeRuntime) -> None:
        """As ``RecordIntake.bind``."""
        self._circuits = runtime.circuits
        RecordIntake.bind(self, runtime)

    def lets_through(self, topic: str) -> bool:
        """False when the topic's records must go one by one, for some are refused."""
        return self._circuits is None or self._circuits.lets_through(topic)

    def accept(
        self, topic: object, value: object, key: object, partition: object, timestamp_ms: object, headers: object
    ) -> Delivery | PendingRecord:
        """As ``RecordIntake.accept``; raises CircuitOpenError too."""
        return _accept(self, self._circuits, topic, value, key, partition, timestamp_ms, headers)


class GuardedInterceptedIntake(InterceptedIntake):
    """A ``GuardedIntake`` behind interceptors, whose hooks are also called for refused records."""

    __slots__ = ("_circuits",)

    def __init__(
        self,
        key_serializer: PreparedSerializer | None,
        value_serializer: PreparedSerializer | None,
        partitioner: Partitioner,
        why_unusable: Callable[[], KafkaError],
        interceptors: ProducerInterceptors,
    ) -> None:
        InterceptedIntake.__init__(self, key_serializer, value_serializer, partitioner, why_unusable, interceptors)
        self._circuits: Circuits | None = None

    def bind(self, runtime: IntakeRuntime) -> None:
        """As ``RecordIntake.bind``."""
        self._circuits = runtime.circuits
        RecordIntake.bind(self, runtime)

    def accept_intercepted(self, record: ProducerRecord, headers: Unchecked) -> Delivery | PendingRecord:
        """As ``InterceptedIntake.accept_intercepted``; raises CircuitOpenError too."""
        return _accept(
            self,
            self._circuits,
            record.topic,
            record.value,
            record.key,
            record.partition,
            record.timestamp_ms,
            headers,
        )


def _accept(
    intake: RecordIntake,
    circuits: Circuits | None,
    topic: object,
    value: object,
    key: object,
    partition: object,
    timestamp_ms: object,
    headers: object,
) -> Delivery | PendingRecord:
    """As ``RecordIntake.accept``, when the topic's circuit lets the record through."""
    if circuits is None or not circuits.is_alert:
        return RecordIntake.accept(intake, topic, value, key, partition, timestamp_ms, headers)
    topic = _let_through(intake, circuits, topic)
    try:
        return RecordIntake.accept(intake, topic, value, key, partition, timestamp_ms, headers)
    except BaseException:
        circuits.give_back(topic)
        raise


def _let_through(intake: RecordIntake, circuits: Circuits, topic: object) -> str:
    """Ask the topic's circuit; returns the topic's name. Raises the error of a call that cannot be served."""
    runtime = intake.accepting_runtime()
    name = topic_name(topic)
    try:
        circuits.admit(name, runtime.now())
    except CircuitOpenError as error:
        runtime.accumulator.appender.on_refusal(error)
        raise
    return name
