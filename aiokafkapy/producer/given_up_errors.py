"""The records that are given up, by ``purge()`` or because their producer ends, and their errors.

Owns the choice of the records that a purge applies to, and the error messages. It knows no producer. Java has no
counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..common import TopicPartition, counted
from ..errors import CloseTimeoutError, KafkaError, ProducerClosedError, PurgedError, SenderCrashedError
from .accumulator.producer_batch import ProducerBatch

__all__ = [
    "closed_error",
    "closed_waiting",
    "crashed_error",
    "dropped_error",
    "error_of_batch",
    "purged_batch",
    "purged_waiting",
    "purges",
]


def error_of_batch(errors: Mapping[TopicPartition, KafkaError], batch: ProducerBatch) -> KafkaError:
    """The error of the batch's partition, or a copy that says that a broker may have the batch."""
    error = errors[batch.topic_partition]
    if batch.has_been_sent:
        error = error.fresh()
        error.outcome_unknown = True
    return error


def purges(topic: str | None, partition: int | None) -> Callable[[tuple[str, int | None]], bool]:
    """True if ``purge(topic, partition)`` applies to a record's place; None means any."""

    def is_meant(place: tuple[str, int | None]) -> bool:
        return topic in (None, place[0]) and partition in (None, place[1])

    return is_meant


def purged_waiting(topic: str) -> PurgedError:
    """The error of a record that was not accepted yet."""
    return PurgedError(f"a record of topic {topic!r} was purged while it waited to be accepted", topic=topic)


def purged_batch(topic_partition: TopicPartition, count: int, *, outcome_unknown: bool) -> PurgedError:
    """The error of a batch whose ``count`` records were purged."""
    fate = "may or may not be written" if outcome_unknown else "not written"
    topic, partition = topic_partition
    return PurgedError(
        f"{topic_partition}: {counted(count, 'record')} purged, {fate}",
        topic=topic,
        partition=partition,
        outcome_unknown=outcome_unknown,
    )


def dropped_error(place: TopicPartition | str, count: int) -> KafkaError:
    """The error of a topic's or a partition's records, when their producer was garbage collected."""
    topic = place if isinstance(place, str) else place.topic
    return ProducerClosedError(f"{place}: the producer was dropped without close()", topic=topic)


def closed_waiting(topic: str) -> ProducerClosedError:
    """The error of a record that was not accepted when its producer ended."""
    return ProducerClosedError(
        f"the producer was closed while a record of topic {topic!r} waited to be accepted", topic=topic
    )


def closed_error(
    seconds: float,
    last_errors: Mapping[TopicPartition, KafkaError],
    describe_failure: Callable[[str], str],
    place: TopicPartition | str,
    count: int,
) -> KafkaError:
    """The error of a topic's or a partition's records, when ``close()`` ends after so many seconds.

    Its cause is the partition's in ``last_errors``; without one ``describe_failure`` gives the topic's.
    """
    if isinstance(place, str):
        return closed_waiting(place)
    cause = last_errors.get(place)
    reason = cause if cause is not None else describe_failure(place.topic)
    error = CloseTimeoutError(
        f"{place}: close() ended after {seconds:.3f} s with {counted(count, 'record')} of this "
        f"partition without an outcome; {reason}",
        topic=place.topic,
        partition=place.partition,
    )
    error.__cause__ = cause
    return error


def crashed_error(crash: SenderCrashedError, place: TopicPartition | str, count: int) -> KafkaError:
    """The error of a topic's or a partition's records, when the Sender has died of ``crash``."""
    topic = place if isinstance(place, str) else place.topic
    partition = None if isinstance(place, str) else place.partition
    error = SenderCrashedError(f"{place}: {crash}", topic=topic, partition=partition)
    error.__cause__ = crash.__cause__
    return error
