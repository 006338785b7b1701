"""The errors of records that are given up, by ``purge()`` or because their producer ends.

Owns their words. It knows no producer. Java has no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..common import TopicPartition
from ..errors import KafkaError, ProducerClosedError, PurgedError
from .accumulator.producer_batch import ProducerBatch

__all__ = ["dropped_error", "error_of_batch", "purged_batch", "purged_waiting"]


def error_of_batch(errors: Mapping[TopicPartition, KafkaError], batch: ProducerBatch) -> KafkaError:
    """Its partition's error, or a copy that says that a broker may have the batch."""
    error = errors[batch.topic_partition]
    if batch.has_been_sent:
        error = error.fresh()
        error.outcome_unknown = True
    return error


def purged_waiting(topic: str) -> PurgedError:
    """Of a record that was not accepted yet."""
    return PurgedError(f"a record of topic {topic!r} was purged while it waited to be accepted", topic=topic)


def purged_batch(topic_partition: TopicPartition, count: int, outcome_unknown: bool) -> PurgedError:
    """Of so many records of a batch."""
    fate = "may or may not be written" if outcome_unknown else "not written"
    topic, partition = topic_partition
    return PurgedError(
        f"{topic_partition}: {count} record{'' if count == 1 else 's'} purged, {fate}",
        topic=topic,
        partition=partition,
        outcome_unknown=outcome_unknown,
    )


def dropped_error(place: TopicPartition | str, count: int) -> KafkaError:
    """Of a topic's or a partition's records, when nobody holds their producer any more."""
    topic = place if isinstance(place, str) else place.topic
    return ProducerClosedError(f"{place}: the producer was dropped without close()", topic=topic)
