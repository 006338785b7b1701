"""``send_partition``: one task's rows, from Arrow batches to acknowledged records.

Owns the task's side of a write: the producer that its process keeps, and what the task reports. It knows no sockets.
Spark's counterpart is ``KafkaRowWriter``.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from ..producer.config import ProducerConfig
from ..producer.producer import KafkaProducer
from ..producer.producer_state import ProducerState
from .messages import TopicPartitionRange, WrittenRows
from .sink_options import SinkOptions
from .worker_loop import lease, run

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["send_partition"]


def send_partition(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Send all rows and wait until they are acknowledged."""
    started = perf_counter()
    rows = size = 0
    ranges: dict[tuple[str, int], TopicPartitionRange] = {}
    for batch in batches:
        if batch.num_rows:
            run(_send(options, batch))
            rows += batch.num_rows
    return WrittenRows(rows, size, 0, perf_counter() - started, ranges)


async def _send(options: SinkOptions, batch: pa.RecordBatch) -> None:
    async def opened() -> KafkaProducer:
        producer: KafkaProducer = KafkaProducer(config=ProducerConfig.from_properties(options.properties))
        await producer.start()
        return producer

    key = tuple(sorted(options.properties.items()))
    async with lease(
        key, opened, lambda producer: producer.close(0), lambda producer: producer.state is ProducerState.RUNNING
    ) as producer:
        await producer.send_arrow(options.topic, batch)
