"""An admission with a spool on disk, without a network or a Sender."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.outcome_teller import OutcomeTeller
from aiokafkapy.producer.intake.overflow import Overflow
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.metrics import SenderMetrics
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.producer.spool.spool import Spool
from aiokafkapy.producer.spool.spooling_admission import SpoolingAdmission

from .sender_fakes import cluster_of

__all__ = ["Harness"]


class Harness:
    """On the running loop; the buffer has room for two records."""

    def __init__(self, folder: Path, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        given: dict[str, Any] = {"buffer_records": 2, "max_request_size": 1_000, "linger_ms": 0, **options}
        config = ProducerConfig(bootstrap_servers="h:1", spool_dir=str(folder), **given)
        self.loop = loop
        self.is_connected = True
        self.metadata = ProducerMetadata()
        self.metadata.bootstrap([("h", 1)])
        self.metadata.last_successful_refresh = loop.time() + 1_000  # a broker answers all the time
        teller = OutcomeTeller(loop)
        self.accumulator = RecordAccumulator(config)
        self.spool = Spool(config, loop, teller)
        overflow = Overflow(config, self.accumulator, SenderMetrics(loop.time()))
        self.admission = SpoolingAdmission(
            loop, self.metadata, self.accumulator, DefaultPartitioner(), teller, overflow, self.spool,
            lambda: self.is_connected, max_block=0.2,
        )  # fmt: skip
        self.accumulator.on_room = self.admission.on_room

    def learn(self, **topics: int) -> None:
        self.metadata.cluster = cluster_of({topic: [-1] * count for topic, count in topics.items()})
        self.admission.on_metadata_update()

    def enter(self, value: bytes = b"x", topic: str = "t", partition: int | None = 0) -> PendingRecord:
        record = self.record(value, topic, partition)
        self.admission.enter(record, self.loop.time())
        return record

    def record(self, value: bytes = b"x", topic: str = "t", partition: int | None = 0) -> PendingRecord:
        return PendingRecord(self.admission, topic, None, value, partition, 1, None, loop=self.loop)

    def in_memory(self) -> list[bytes | None]:
        return [value for batch in self.accumulator.incomplete for _, _, value, _ in batch.builder.records()]

    async def on_disk(self) -> list[bytes | None]:
        await self.spool.written()
        found = await self.spool.read(2**30, 2**30)
        self.spool.settle(found)
        return [record.value for record in found]

    def deliver_all(self) -> None:
        for batch in self.accumulator.incomplete:
            batch.close()
            batch.complete(0)
            self.accumulator._queues.queue(batch.topic_partition).remove(batch)
            self.accumulator.deallocate(batch)
