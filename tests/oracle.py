"""The records on the brokers, read by a client that is not ours: librdkafka through confluent-kafka.

Tests compare the producer's outcomes with these.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

__all__ = ["ReadBack", "read_back"]


@dataclass(frozen=True)
class ReadBack:
    """One record, as librdkafka gives it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int


async def read_back(bootstrap_servers: str, topic: str, *, timeout: float = 60) -> Mapping[int, list[ReadBack]]:
    """Every record of a topic by partition, in the order of offsets; raises TimeoutError when they do not all come."""
    return await asyncio.to_thread(_read_back, bootstrap_servers, topic, timeout)


def _read_back(bootstrap_servers: str, topic: str, timeout: float) -> Mapping[int, list[ReadBack]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"read-back-{topic}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=timeout).topics[topic].partitions)
        ends = {p: _watermarks(consumer, TopicPartition(topic, p), timeout) for p in partitions}
        consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in ends.items()])
        found: dict[int, list[ReadBack]] = {p: [] for p in partitions}
        missing = sum(high - low for low, high in ends.values())
        while missing > 0:
            messages = consumer.consume(min(missing, 10_000), timeout=timeout)
            if not messages:
                raise TimeoutError(f"{missing} records of {topic} did not come within {timeout} s")
            for message in messages:
                if message.error():
                    raise RuntimeError(str(message.error()))
                found[_known(message.partition())].append(
                    ReadBack(
                        _known(message.partition()),
                        _known(message.offset()),
                        message.key(),
                        message.value(),
                        tuple(_pairs(message.headers())),
                        message.timestamp()[1],
                    )
                )
            missing -= len(messages)
        return found
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, partition: TopicPartition, timeout: float) -> tuple[int, int]:
    """First and last offset; a leader that has just been elected does not know them at once."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=timeout)
        except KafkaException as error:
            if not error.args[0].retriable() and error.args[0].name() != "OFFSET_NOT_AVAILABLE":
                raise
            if time.monotonic() > deadline:
                raise
        else:
            return low, high


def _known(number: int | None) -> int:
    """The partition or offset of a message that was read, which librdkafka always knows."""
    assert number is not None
    return number


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    return list(headers or ())
