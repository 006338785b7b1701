"""aiokafka, acks=all and idempotent; linger 5 ms, none for a lone await; batches of 16 KiB (its default) or more."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context

from benchmarks.measurement import Measurement

__all__ = ["AiokafkaClient"]


class AiokafkaClient:
    """Its ``send`` is our ``enqueue``, its ``send_and_wait`` our ``send``."""

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        options: dict[str, Any] = {
            "acks": "all",
            "enable_idempotence": True,
            "linger_ms": 5,
            **measurement.options.get("producer", {}),
        }
        if (authority := measurement.options.get("ca")) is not None:
            options |= {"security_protocol": "SSL", "ssl_context": create_ssl_context(cafile=authority)}
        self.producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **options)
        await self.producer.start()
        self.send = self.producer.send_and_wait
        self.enqueue = self.producer.send

    async def flush(self) -> None:
        await self.producer.flush()

    async def close(self) -> None:
        await self.producer.stop()
