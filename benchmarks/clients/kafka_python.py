"""kafka-python: pure Python, with a thread of its own; acks=all and idempotent (its defaults), batches of 128 KiB."""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer

from benchmarks.measurement import Measurement

__all__ = ["KafkaPythonClient"]


class KafkaPythonClient:
    """A client that blocks: ``send`` waits for the future of each record."""

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        options = {
            "acks": "all",
            "linger_ms": 5,
            "batch_size": 131_072,
            **measurement.options.get("producer", {}),
        }
        self.producer = KafkaProducer(bootstrap_servers=bootstrap_servers, **options)

    async def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self.producer.send(topic, value, key).get(60)

    async def enqueue(self, topic: str, value: bytes, key: bytes | None = None) -> Any:
        raise NotImplementedError("its futures cannot be awaited: see peer_workloads")

    async def flush(self) -> None:
        self.producer.flush()

    async def close(self) -> None:
        self.producer.close()
