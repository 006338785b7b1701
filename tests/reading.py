"""The records for readers of committed records, by our own reader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from aiokafkapy.common import TopicPartition
from aiokafkapy.reader import PartitionReader

__all__ = ["committed_values"]

SECONDS = 60


async def committed_values(
    servers: str | Sequence[str],
    topic: str,
    partitions: int = 1,
    *,
    up_to: Literal["the end", "the open transaction"] = "the end",
) -> list[bytes | None]:
    """In order per partition, up to the end of the log, or to the first transaction that is open.

    Raises TimeoutError where a transaction is open that keeps the reader from the end.
    """
    places = [TopicPartition(topic, number) for number in range(partitions)]
    isolation = "read_uncommitted" if up_to == "the end" else "read_committed"
    async with PartitionReader(servers, isolation_level=isolation) as reader:
        ends = await reader.end_offsets(places)
    async with PartitionReader(servers, isolation_level="read_committed") as reader:
        reader.assign(places)
        for place, end in ends.items():
            reader.stop_at(place, end)
        async with asyncio.timeout(SECONDS):
            return [record.value async for record in reader]
