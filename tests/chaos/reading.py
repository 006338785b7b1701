"""The records that readers with ``read_committed`` see, and their end: by a client that is not ours, librdkafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from .copies import Ends

__all__ = ["Committed", "committed_offsets", "ends_of", "read_committed"]

SECONDS = 30.0
"""The time-out of one request."""
READING = 120.0
"""The time-out for reading a topic."""


class Committed(NamedTuple):
    """One record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@contextmanager
def _consumer(servers: str, group: str, isolation: str = "read_committed") -> Iterator[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


async def read_committed(servers: str, topic: str, partitions: int) -> Mapping[int, Sequence[Committed]]:
    """The records of a topic by partition, up to the first transaction that is open. Raises TimeoutError."""
    return await asyncio.to_thread(_read_committed, servers, topic, partitions)


def _read_committed(servers: str, topic: str, partitions: int) -> Mapping[int, Sequence[Committed]]:
    found: dict[int, list[Committed]] = {number: [] for number in range(partitions)}
    unfinished = set(found)
    deadline = time.monotonic() + READING
    with _consumer(servers, f"reads-{topic}") as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        while unfinished:
            if time.monotonic() > deadline:
                raise TimeoutError(f"partitions {unfinished} of {topic} were not read within {READING:.0f} s")
            for message in consumer.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    record = Committed(message.partition(), message.offset(), message.key(), message.value())
                    found[record.partition].append(record)
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
                else:
                    raise RuntimeError(str(error))
    return found


async def ends_of(servers: str, topic: str, partitions: int) -> Mapping[int, Ends]:
    """The ends of each partition: for readers with ``read_committed``, and of the log."""
    return await asyncio.to_thread(_ends_of, servers, topic, partitions)


def _ends_of(servers: str, topic: str, partitions: int) -> Mapping[int, Ends]:
    group = f"reads-{topic}"
    places = [TopicPartition(topic, number) for number in range(partitions)]
    # In this order, so that a transaction committed meanwhile does not look open.
    with _consumer(servers, group, "read_uncommitted") as consumer:
        ends = [consumer.get_watermark_offsets(place, SECONDS)[1] for place in places]
    with _consumer(servers, group) as consumer:
        stable = [consumer.get_watermark_offsets(place, SECONDS)[1] for place in places]
    return {number: Ends(*pair) for number, pair in enumerate(zip(stable, ends, strict=True))}


async def committed_offsets(servers: str, group: str, topic: str, partitions: int) -> Mapping[int, int]:
    """The group's offset of each partition, -1 without one; empty when the cluster does not say just now."""

    def ask() -> Mapping[int, int]:
        with _consumer(servers, group) as consumer:
            places = [TopicPartition(topic, number) for number in range(partitions)]
            try:
                return {one.partition: max(one.offset, -1) for one in consumer.committed(places, timeout=SECONDS)}
            except KafkaException:
                return {}

    return await asyncio.to_thread(ask)
