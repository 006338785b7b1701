"""The broker that everything is measured against: one node of a real Kafka, its logs on tmpfs.

Owns topics (a fresh one for each measurement, deleted after; very large ones are kept, for they take long to make), and
the reading back: the records of a measurement are counted by librdkafka's consumer and by the broker's own offsets, not
by the client that wrote them. Knows nothing of workloads.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from aiokafkapy.testing import ApacheKafka, KafkaSecurity, TestCertificates

from .clients.java import KAFKA_VERSION, SCRIPT_JVM
from .macro.brokers import KAFKA
from .measurement import Measurement, MeasurementError

__all__ = ["BenchmarkCluster", "Offsets"]

BROKER_JVM: Final = ("-Xms1g", "-Xmx1g", *SCRIPT_JVM)
"""The options of ``kafka-server-start.sh``."""
CONFIG: Final = {
    # Kafka's defaults; a measurement's records stay until they are read.
    "log.segment.bytes": 1024**3,
    "log.retention.bytes": -1,
    "log.cleaner.enable": "false",
    # Fewer than Kafka's 3 and 8, for there are two cores.
    "num.network.threads": 2,
    "num.io.threads": 4,
}
TLS_LISTENER: Final = "SSL"
KEPT_FROM: Final = 100
"""Partitions; a topic with at least this number is made once."""
MOST_AT_ONCE: Final = 5000
"""Partitions; the controller refuses to make 10,000 in one step."""
BULK: Final = 10_000
READY_TIMEOUT: Final = 60.0
AGAIN: Final = 0.05
"""Seconds until it is looked again whether all markers are there."""
SILENCE: Final = 20.0
"""Seconds without a message after which reading gives up."""

Offsets = dict[int, int]
"""The offset of the next record, by partition."""


class BenchmarkCluster:
    """Use it in ``async with``; nothing of it is left after."""

    def __init__(self) -> None:
        self._certificates = TestCertificates()
        self._kafka = ApacheKafka(
            version=KAFKA_VERSION,
            config=CONFIG,
            jvm_options=BROKER_JVM,
            security=KafkaSecurity([TLS_LISTENER], certificates=self._certificates),
        )
        self._kept: set[str] = set()
        self._made = 0

    @property
    def bootstrap_servers(self) -> str:
        """The servers for clients without TLS."""
        return self._kafka.bootstrap_servers

    def place_of(self, measurement: Measurement) -> tuple[Measurement, str]:
        """The measurement as its client is to run it, and the servers to use: with ``options["tls"]`` those of the TLS
        listener, and then ``options["ca"]`` is the authority's file. Where the row is about the broker,
        ``options["kafka_pid"]`` is its process.
        """
        if measurement.client == KAFKA:
            options = {**measurement.options, "kafka_pid": self._kafka.process_ids[1]}
            return replace(measurement, options=options), self.bootstrap_servers
        if not measurement.options.get("tls"):
            return measurement, self.bootstrap_servers
        options = {**measurement.options, "ca": str(self._certificates.ca_file)}
        return replace(measurement, options=options), self._kafka.bootstrap_servers_of(TLS_LISTENER)

    async def __aenter__(self) -> Self:
        await self._kafka.__aenter__()
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._kafka.__aexit__(exc_type, exc, traceback)
        self._certificates.close()

    async def topic(self, partitions: int) -> tuple[str, Offsets]:
        """A topic with ``partitions`` partitions, a new one or the kept one, and its end now."""
        name = f"benchmark-{partitions}"
        if name in self._kept:
            return name, await self.offsets(name, partitions)
        if partitions < KEPT_FROM:
            self._made += 1
            name += f"-{self._made}"
        await self._kafka.create_topic(name, min(partitions, MOST_AT_ONCE))
        for total in range(2 * MOST_AT_ONCE, partitions + MOST_AT_ONCE, MOST_AT_ONCE):
            await self._kafka.add_partitions(name, min(total, partitions))
        if partitions >= KEPT_FROM:
            self._kept.add(name)
        # This also waits until the broker leads them all: nobody's first records shall meet a topic half made.
        return name, await self.offsets(name, partitions)

    async def discard(self, topic: str) -> None:
        """Delete a topic, unless it is kept."""
        if topic not in self._kept:
            await self._kafka.delete_topic(topic)

    async def offsets(self, topic: str, partitions: int, *, committed: bool = False) -> Offsets:
        """The topic's end now, or the end of its ``committed`` records."""
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return await asyncio.to_thread(self._offsets, topic, partitions, isolation)

    async def read_back(self, topic: str, start: Offsets, expected: int, *, has_markers: bool = False) -> None:
        """Raise MeasurementError unless exactly ``expected`` messages were written since ``start``, and committed; with
        ``has_markers`` there are some of transactions beside them.
        """
        end = await self.check_end(topic, start, expected, has_markers=has_markers)
        if has_markers:
            end = await self._all_committed(topic, len(start))
        count = await asyncio.to_thread(self._consume, topic, start, end, expected)
        if count != expected:
            raise MeasurementError(f"the broker has all {expected:,} messages, {count:,} were read")

    async def check_end(self, topic: str, start: Offsets, expected: int, *, has_markers: bool = False) -> Offsets:
        """The topic's end now. Raise MeasurementError unless by the broker's offsets exactly ``expected`` messages were
        written since ``start``; with ``has_markers`` at least so many.
        """
        end = await self.offsets(topic, len(start))
        written = sum(end.values()) - sum(start.values())
        if written < expected or (written > expected and not has_markers):
            raise MeasurementError(f"{expected:,} messages were to be written, the broker has {written:,}")
        return end

    def bytes_of(self, topic: str, partitions: int) -> int:
        """The size of the topic's segments on disk."""
        folders = (self._kafka.log_directory(1, topic, partition) for partition in range(partitions))
        return sum(path.stat().st_size for folder in folders for path in Path(folder).glob("*.log"))

    # internals

    async def _all_committed(self, topic: str, partitions: int) -> Offsets:
        """The markers of a transaction are written soon after its end was answered."""
        deadline = time.monotonic() + READY_TIMEOUT
        while True:
            end = await self.offsets(topic, partitions)
            if await self.offsets(topic, partitions, committed=True) == end:
                return end
            if time.monotonic() > deadline:
                raise MeasurementError(f"{topic}: a transaction is still open")
            await asyncio.sleep(AGAIN)

    def _offsets(self, topic: str, partitions: int, isolation: IsolationLevel) -> Offsets:
        """Ask again while there are partitions that the node does not lead yet, as after they were made."""
        found: Offsets = {}
        deadline = time.monotonic() + READY_TIMEOUT
        while len(found) < partitions:
            missing = (TopicPartition(topic, p) for p in range(partitions) if p not in found)
            ends = {place: OffsetSpec.latest() for place in missing}  # type: ignore[no-untyped-call]
            answers = self._admin.list_offsets(ends, isolation_level=isolation, request_timeout=30)
            for place, answer in answers.items():
                try:
                    found[place.partition] = answer.result().offset
                except KafkaException as error:
                    if time.monotonic() > deadline:
                        raise MeasurementError(f"{topic}: {error}") from error
        return found

    def _consume(self, topic: str, start: Offsets, end: Offsets, expected: int) -> int:
        """Read all messages between two states of a topic and return how many there are: soon, if they are as many as
        ``expected``.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "benchmarks",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 4 * 1024**2,
                "queued.min.messages": 1_000_000,  # it fetches ahead
                "queued.max.messages.kbytes": 64 * 1024,
                "log_level": 2,
            }
        )
        try:
            places = [TopicPartition(topic, p, start[p]) for p in start if end[p] > start[p]]
            consumer.assign(places)
            count, left = 0, {place.partition for place in places}
            events = expected + len(left)  # a call for more waits for them until its time is over
            while left and (messages := consumer.consume(min(BULK, max(1, events)), SILENCE)):
                events -= len(messages)
                for message in messages:
                    if (error := message.error()) is None:
                        count += 1
                    elif error.code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
                    else:
                        raise KafkaException(error)
            return count
        finally:
            consumer.close()
