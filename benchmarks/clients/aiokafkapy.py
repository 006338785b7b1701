"""aiokafkapy, on its defaults: acks=all, idempotent, adaptive linger, batches of 128 KiB, 32 MiB of memory.

But for ``send_many`` and ``send_arrow``, which have ``send_buffer_bytes=-1``, as is advised for bulk loads.
"""

from __future__ import annotations

from aiokafkapy import KafkaProducer, compiled
from benchmarks.measurement import Measurement, MeasurementError

__all__ = ["AiokafkapyClient"]


class AiokafkapyClient:
    """``options["interpreted"]`` asks for the pure Python form, which the worker's environment has chosen."""

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        if compiled == bool(measurement.options.get("interpreted")):
            raise MeasurementError(f"the core is {'compiled' if compiled else 'interpreted'}: `make set-up` builds it")
        options = {"linger_ms": None, **measurement.options.get("producer", {})}
        if (authority := measurement.options.get("ca")) is not None:
            options |= {"security_protocol": "SSL", "ssl_truststore_location": authority}
        self.producer: KafkaProducer = KafkaProducer(bootstrap_servers, **options)
        await self.producer.start()
        self.send = self.producer.send
        self.enqueue = self.producer.enqueue

    async def flush(self) -> None:
        await self.producer.flush()

    async def close(self) -> None:
        await self.producer.close()
