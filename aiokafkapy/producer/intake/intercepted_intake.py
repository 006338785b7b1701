"""``InterceptedIntake``: a ``RecordIntake`` whose records pass interceptors first.

Owns the order of the two: a record is shown to the chain, accepted as the chain leaves it, and its outcome told to the
chain. It knows neither the work of interceptors nor the acceptance of records. Kafka's counterpart is
``KafkaProducer.send``, which calls ``doSend`` with the record that its interceptors leave.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import KafkaError
from ..arguments import materialized
from ..deliveries.delivery import Delivery
from ..records import ProducerRecord, Unchecked
from ..serializers import PreparedSerializer
from .interceptors import ProducerInterceptors
from .partitioners import Partitioner
from .pending_record import PendingRecord
from .record_intake import RecordIntake

__all__ = ["InterceptedIntake"]


class InterceptedIntake(RecordIntake):
    """An intake with ``interceptors`` before it."""

    __slots__ = ("_interceptors",)

    def __init__(
        self,
        key_serializer: PreparedSerializer | None,
        value_serializer: PreparedSerializer | None,
        partitioner: Partitioner,
        why_unusable: Callable[[], KafkaError],
        interceptors: ProducerInterceptors,
    ) -> None:
        RecordIntake.__init__(self, key_serializer, value_serializer, partitioner, why_unusable)
        self._interceptors = interceptors

    @property
    def shows_each_record(self) -> bool:
        """True: the interceptors are shown every record."""
        return True

    def accept(
        self,
        topic: Unchecked,
        value: Unchecked,
        key: Unchecked,
        partition: Unchecked,
        timestamp_ms: Unchecked,
        headers: Unchecked,
    ) -> Delivery | PendingRecord:
        """As ``RecordIntake.accept``, with the chain called before, and told of the outcome."""
        self.accepting_runtime()  # interceptors see no record of a producer that cannot be used
        interceptors = self._interceptors
        if headers is not None:
            headers = materialized(topic, headers)
        record, told = interceptors.begin(ProducerRecord(topic, value, key, partition, timestamp_ms, headers))
        headers = record.headers
        try:
            if headers is not None:
                headers = materialized(record.topic, headers)
            accepted = self.accept_intercepted(record, headers)
        except Exception as error:
            interceptors.on_acknowledgement(None, error, headers, told)
            raise
        interceptors.watch(accepted, headers, told)
        return accepted

    def accept_intercepted(self, record: ProducerRecord, headers: Unchecked) -> Delivery | PendingRecord:
        """As ``RecordIntake.accept``, of a record as the chain leaves it; ``headers`` are its own, read already."""
        return RecordIntake.accept(
            self, record.topic, record.value, record.key, record.partition, record.timestamp_ms, headers
        )
