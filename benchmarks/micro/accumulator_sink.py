"""The cost of a record in the producer's core: the accumulator, with a sink in the place of the Sender.

The sink drains and completes each batch at once, so nothing is measured here but encoding, batches and queues. Each
function does one kind of work on a fresh ``AccumulatorSink`` and is timed by ``null_sink``.
"""

from __future__ import annotations

from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.common import Node, PartitionInfo
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList

__all__ = ["AccumulatorSink", "append", "append_many", "lone"]

SLICE = 2048
TIMESTAMP_MS = 1_700_000_000_000


class AccumulatorSink:
    """An accumulator, and the Sender's part of the work."""

    def __init__(self) -> None:
        self.accumulator = RecordAccumulator(ProducerConfig(bootstrap_servers="h:1", linger_ms=0))
        self.appender = self.accumulator.appender
        partitions = [PartitionInfo("t", number, 1, 1) for number in range(6)]
        self.cluster = Cluster([Node(1, "h", 1)], {"t": TopicMetadata("t", partitions)})

    def send(self) -> None:
        """Drain and complete everything."""
        accumulator = self.accumulator
        while accumulator.ready(self.cluster, 1.0, {}).ready_nodes:
            for batch in accumulator.drain(self.cluster, [1], 1024 * 1024, 1.0)[1]:
                batch.buffers()
                batch.complete(0)
                accumulator.deallocate(batch)


def append(sink: AccumulatorSink, value: bytes, count: int, *, key: bytes | None = None, is_kept: bool = False) -> None:
    """One record a call, as ``send_nowait`` does it."""
    append_one, cluster = sink.appender.append, sink.cluster
    kept = []
    for start in range(0, count, SLICE):
        for _ in range(start, min(count, start + SLICE)):
            delivery = append_one("t", -1 if key is None else 3, TIMESTAMP_MS, key, value, None, 1.0, cluster)
            if is_kept:
                kept.append(delivery)
        sink.send()


def append_many(sink: AccumulatorSink, value: bytes, count: int) -> None:
    """A slice of records a call, as ``send_many`` does it."""
    values: list[bytes | None] = [value] * SLICE
    for start in range(0, count, SLICE):
        if count - start < SLICE:
            values = values[: count - start]
        deliveries = DeliveryList(values, 1)
        sink.appender.append_many(deliveries, "t", TIMESTAMP_MS, values, 0, len(values), 1.0, sink.cluster)
        sink.send()


def lone(sink: AccumulatorSink, value: bytes, count: int) -> None:
    """One record, one batch, one request: the accumulator's part of a lone ``await send()``."""
    for _ in range(count):
        sink.appender.append("t", -1, TIMESTAMP_MS, None, value, None, 1.0, sink.cluster)
        sink.send()
