"""confluent-kafka (librdkafka): the Producer, polled in the loop, and the AIOProducer; acks=all and idempotent.

librdkafka's own batches (up to 1 MB, 10,000 messages) are better for it than 128 KiB; its linger of 5 ms is its default
and is 0 for a lone await. Its queue takes a million messages instead of 100,000, so that producing stops less often.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.aio import AIOProducer

from benchmarks.measurement import Measurement, MeasurementError

__all__ = ["AIOProducerClient", "ConfluentClient"]

POLL = 0.1
"""Seconds that AIOProducer's poll waits in its thread; it returns as soon as there is a delivery to tell."""


def _settings(bootstrap_servers: str, measurement: Measurement) -> dict[str, Any]:
    authority = measurement.options.get("ca")
    tls = {} if authority is None else {"security.protocol": "ssl", "ssl.ca.location": authority}
    return {
        "bootstrap.servers": bootstrap_servers,
        **tls,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        "partitioner": "murmur2_random",  # as every other client treats keys
        "log_level": 3,
        **measurement.options.get("producer", {}),
    }


class ConfluentClient:
    """The plain Producer. It blocks: ``send`` is produce and flush, as programs do that need the outcome at once."""

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        self.producer = Producer(_settings(bootstrap_servers, measurement))
        self._error: KafkaError | None = None
        if "transactional.id" in measurement.options.get("producer", {}):
            self.producer.init_transactions()

    async def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self.producer.produce(topic, value, key, on_delivery=self._on_delivery)
        self.producer.flush()
        if self._error is not None:
            raise MeasurementError(str(self._error))

    async def enqueue(self, topic: str, value: bytes, key: bytes | None = None) -> Any:
        raise NotImplementedError("it has no awaitables: see peer_workloads")

    async def flush(self) -> None:
        self.producer.flush()

    async def close(self) -> None:
        if left := self.producer.flush(60):
            raise MeasurementError(f"{left} messages were not delivered")

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        self._error = self._error or error


class AIOProducerClient:
    """The asyncio producer, with a task that polls beside it: by itself it tells of deliveries only when it hands over
    the next batch or its buffer timed out. ``options["batch"]`` is how many messages it gathers before that.
    """

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        batch = measurement.options.get("batch", 1000)
        settings = _settings(bootstrap_servers, measurement)
        self.producer = AIOProducer(settings, batch_size=batch, buffer_timeout=measurement.options.get("timeout", 0.1))
        self.enqueue = self.producer.produce
        self._poller = asyncio.create_task(self._poll())

    async def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        await (await self.producer.produce(topic, value, key))

    async def flush(self) -> None:
        await self.producer.flush()

    async def close(self) -> None:
        self._poller.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._poller
        await self.producer.close()

    async def _poll(self) -> None:
        while True:
            await self.producer.poll(POLL)
