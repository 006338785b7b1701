"""What a record costs the client: the producer's core with a sink in the place of the network.

Run it with ``python -m benchmarks.micro.null_sink``, once more with ``AIOKAFKAPY_INTERPRETED=1``. Every figure is the
best of several rounds, in microseconds of this process's CPU for each record; the sink completes each batch at once, as
a broker without a network would. Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from time import process_time

import aiokafkapy
from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.common import Node, PartitionInfo
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.delivery_list import DeliveryList
from aiokafkapy.producer.record_accumulator import RecordAccumulator

RECORDS = 200_000
SLICE = 2048
ROUNDS = 5


class NullSink:
    """An accumulator, and the Sender's part of the work."""

    def __init__(self) -> None:
        self.accumulator = RecordAccumulator(ProducerConfig(bootstrap_servers="h:1", linger_ms=0))
        partitions = [PartitionInfo("t", number, 1, 1) for number in range(6)]
        self.cluster = Cluster([Node(1, "h", 1)], {"t": TopicMetadata("t", partitions)})

    def send(self) -> None:
        """Drain and complete everything."""
        accumulator = self.accumulator
        while accumulator.ready(self.cluster, 1.0, lambda _: 0).ready_nodes:
            for batch in accumulator.drain(self.cluster, [1], 1024 * 1024, 1.0)[1]:
                batch.buffers()
                batch.complete(0)
                accumulator.deallocate(batch, 1.0)


def append(sink: NullSink, value: bytes, key: bytes | None = None, *, is_kept: bool = False) -> None:
    """One record a call, as ``send_nowait`` does it."""
    append_one, cluster = sink.accumulator.append, sink.cluster
    kept = []
    for start in range(0, RECORDS, SLICE):
        for _ in range(start, min(RECORDS, start + SLICE)):
            delivery = append_one("t", -1 if key is None else 3, 1_700_000_000_000, key, value, None, 1.0, cluster)
            if is_kept:
                kept.append(delivery)
        sink.send()


def append_many(sink: NullSink, value: bytes) -> None:
    """A slice of records a call, as ``send_many`` does it."""
    values = [value] * SLICE
    for _ in range(0, RECORDS, SLICE):
        deliveries = DeliveryList(values, None, 1)
        sink.accumulator.append_many(
            deliveries, "t", -1, 1_700_000_000_000, values, None, 0, SLICE, 1.0, sink.cluster
        )
        sink.send()


def lone(sink: NullSink, value: bytes) -> None:
    """One record, one batch, one request: the accumulator's part of a lone ``await send()``."""
    for _ in range(RECORDS // 20):
        sink.accumulator.append("t", -1, 1_700_000_000_000, None, value, None, 1.0, sink.cluster)
        sink.send()


def measure(work: Callable[[NullSink], None], records: int = RECORDS) -> float:
    """Microseconds of CPU for each record, the best of some rounds."""
    times = []
    for _ in range(ROUNDS):
        sink = NullSink()
        gc.collect()
        started = process_time()
        work(sink)
        times.append(process_time() - started)
    return min(times) / records * 1e6


def main() -> None:
    """Print a table."""
    small, large = b"x" * 100, b"x" * 1024
    rows: list[tuple[str, float]] = [
        ("append, 100 B", measure(lambda sink: append(sink, small))),
        ("append, 100 B, deliveries kept", measure(lambda sink: append(sink, small, is_kept=True))),
        ("append, 100 B, key of 10 B", measure(lambda sink: append(sink, small, b"k" * 10))),
        ("append, 1 KiB", measure(lambda sink: append(sink, large))),
        ("append_many, 100 B", measure(lambda sink: append_many(sink, small))),
        ("append_many, 1 KiB", measure(lambda sink: append_many(sink, large))),
        ("lone record, 100 B", measure(lambda sink: lone(sink, small), RECORDS // 20)),
    ]
    sys.stdout.write(f"core {'compiled' if aiokafkapy.compiled else 'interpreted'}, Python {sys.version.split()[0]}\n")
    for name, microseconds in rows:
        sys.stdout.write(f"{name:32} {microseconds:8.3f} us\n")


if __name__ == "__main__":
    main()
