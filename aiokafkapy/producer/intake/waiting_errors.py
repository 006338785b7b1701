"""The errors of records that wait to be accepted, or must not wait: for ``Admission``, and for the line of
``MockProducer``.

Owns the messages. It knows neither queues nor metadata. Kafka's counterpart is ``KafkaProducer.waitOnMetadata``, which
raises them.
"""

from __future__ import annotations

from ...errors import KafkaTimeoutError, MetadataNotReadyError

__all__ = ["metadata_not_ready_error", "serializer_timeout_error"]


def metadata_not_ready_error(topic: str) -> MetadataNotReadyError:
    """The error of a record that would have to wait for metadata, and must not wait."""
    return MetadataNotReadyError(
        f"topic {topic!r}: send_nowait() cannot wait for metadata: await producer.partitions_for({topic!r}) first",
        topic=topic,
    )


def serializer_timeout_error(topic: str, limit: str) -> KafkaTimeoutError:
    """The error of a record whose serializer takes longer than ``limit``, an option with its value."""
    return KafkaTimeoutError(f"topic {topic!r}: the serializer did not answer within {limit}", topic=topic)
