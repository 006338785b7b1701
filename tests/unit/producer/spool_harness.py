"""An admission with a spool on disk, without a network or a Sender."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.outcome_teller import OutcomeTeller
from aiokafkapy.producer.intake.overflow import Overflow
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.metrics import CallMetrics, SenderMetrics
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.producer.spool.spool import Spool
from aiokafkapy.producer.spool.spool_runtime import SpoolRuntime
from aiokafkapy.producer.spool.spooling_admission import SpoolingAdmission
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS

from .sender_fakes import cluster_of

__all__ = ["Harness"]


class Harness:
    """A runtime on the running loop, as far as a spool uses it; the buffer has room for two records."""

    def __init__(self, folder: Path, **options: Any) -> None:
        given: dict[str, Any] = {"buffer_records": 2, "max_request_size": 1_000, "linger_ms": 0, **options}
        self.config = ProducerConfig(bootstrap_servers="h:1", spool_dir=str(folder), **given)
        self.loop = asyncio.get_running_loop()
        self.max_block = 0.2
        self.is_connected = True
        self.metadata = ProducerMetadata(**PRODUCER_METADATA_OPTIONS)
        self.metadata.bootstrap([("h", 1)])
        self.metadata.last_successful_refresh = self.loop.time() + 1_000  # a broker answers all the time
        self.teller = OutcomeTeller(self.loop)
        self.accumulator = RecordAccumulator(self.config)
        self.spool = Spool(self.config, self.loop, self.teller)
        self.overflow = Overflow(self.config, self.accumulator, SenderMetrics(self.loop.time()))
        self.calls = CallMetrics(self.loop.time())
        self.partitioner: Any = DefaultPartitioner()
        self.admission = SpoolingAdmission(cast(SpoolRuntime, self), self.spool, lambda: self.is_connected)
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
        for batch in self.accumulator.take_queued(lambda _: True, also_sent=True):
            batch.complete(0)
            self.accumulator.deallocate(batch)
