"""``KafkaDurations``: measures the duration of sending, by the semantic conventions for messaging metrics.

    producer = KafkaProducer("kafka:9092", observers=[KafkaDurations()])

Owns the histogram ``messaging.client.operation.duration``, the counter ``messaging.client.sent.messages``, and their
attributes. It gets the outcomes of batches, as an ``Observer``; the producer's own metrics are in ``metrics``.

Rules: an operation is a batch, from its first record to its outcome, so that it does no work per record; records that
fail apart from their batch are a separate operation. Attributes are few, and bounded: topics beyond ``topics_max``
share ``*``.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import MeterProvider, get_meter

from ... import Observer, __version__
from ...observability.observer import BatchDone
from .conventions import CLIENT_ID, DESTINATION, ERROR_TYPE, OPERATION_NAME, OPERATION_TYPE, SCHEMA_URL, SYSTEM

__all__ = ["KafkaDurations"]

BOUNDARIES: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Seconds, as the conventions advise."""
OTHER_TOPICS: Final = "*"


class KafkaDurations(Observer):
    """An observer of any number of producers. ``meter_provider`` is by default the application's global one.

    ``client_id``, if given, is an attribute of each measurement; the first ``topics_max`` topics have their
    name as an attribute. Raises ValueError for fewer than one.
    """

    def __init__(
        self, meter_provider: MeterProvider | None = None, *, client_id: str | None = None, topics_max: int = 100
    ) -> None:
        if topics_max < 1:
            raise ValueError(f"topics_max={topics_max}: write 1 or more")
        meter = get_meter("aiokafkapy", __version__, meter_provider, SCHEMA_URL)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BOUNDARIES,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            "{message}",
            "Number of messages producer attempted to send to the broker.",
        )
        self._common = {
            SYSTEM: "kafka",
            OPERATION_NAME: "send",
            OPERATION_TYPE: "send",
        }
        if client_id is not None:
            self._common[CLIENT_ID] = client_id
        self._topics_max = topics_max
        self._topics: set[str] = set()
        self._attributes: dict[tuple[str, str | None], dict[str, str]] = {}

    def batch_done(self, event: BatchDone) -> None:
        """Measure a batch."""
        attributes = self._attributes_of(event.topic, None if event.error is None else type(event.error).__name__)
        self._duration.record(event.queued + event.in_flight, attributes)
        self._sent.add(event.records, attributes)

    # internals

    def _attributes_of(self, topic: str, error: str | None) -> dict[str, str]:
        if topic not in self._topics:
            if len(self._topics) < self._topics_max:
                self._topics.add(topic)
            else:
                topic = OTHER_TOPICS
        found = self._attributes.get((topic, error))
        if found is None:
            found = self._attributes[topic, error] = {**self._common, DESTINATION: topic}
            if error is not None:
                found[ERROR_TYPE] = error
        return found
