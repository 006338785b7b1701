"""Offsets as Spark's Kafka connector writes them, and sums over them.

Owns the JSON of offsets and of partitions, ranges of offsets, their division into tasks, and the limit of a
micro-batch. It knows no Spark and no connection. The connector's counterparts are ``JsonUtils``,
``KafkaOffsetRangeCalculator`` and ``KafkaMicroBatchStream.rateLimit``.

Rules:

- Offsets in JSON are ``{"topic": {"0": 23}}``, topics and partitions in order, as in the connector's checkpoints: a
  query may go on from a checkpoint that the connector wrote.
- A range's size counts offsets, not records: compaction and transactions leave gaps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias

from ...common import TopicPartition

__all__ = [
    "JsonOffsets",
    "OffsetRange",
    "PartitionOffsets",
    "count_new",
    "limit_rate",
    "offsets_from_json",
    "offsets_to_json",
    "pack_ranges",
    "parse_offsets",
    "parse_partitions",
    "split_ranges",
]

PartitionOffsets: TypeAlias = Mapping[TopicPartition, int]
JsonOffsets: TypeAlias = dict[str, dict[str, int]]


class OffsetRange(NamedTuple):
    """The offsets from ``start`` to before ``end`` of one partition. Java's ``KafkaOffsetRange``."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of its offsets; there may be fewer records."""
        return self.end - self.start


# JSON


def offsets_to_json(offsets: PartitionOffsets) -> JsonOffsets:
    """The offsets as Spark keeps them: by topic, then by the partition's number as a string, both in order."""
    found: JsonOffsets = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def offsets_from_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The offsets of a JSON object that ``offsets_to_json`` or Spark's connector made."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
    }


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Read ``{"topicA":{"0":23,"1":-1}}``. Raises ValueError with the reason."""
    found: dict[TopicPartition, int] = {}
    for topic, by_partition in _topics(text).items():
        if not isinstance(by_partition, dict):
            raise ValueError(f'the value of {topic!r} must be an object such as {{"0": 23}}')
        for partition, number in by_partition.items():
            if not (partition.isascii() and partition.isdigit()):
                raise ValueError(f"{partition!r} in {topic!r} is not the number of a partition")
            if not isinstance(number, int) or isinstance(number, bool):
                raise ValueError(f"{json.dumps(number)} for partition {partition} of {topic!r} is not a whole number")
            found[TopicPartition(topic, int(partition))] = number
    return found


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """Read ``{"topicA":[0,1]}``, in order. Raises ValueError with the reason."""
    found: set[TopicPartition] = set()
    for topic, partitions in _topics(text).items():
        if not isinstance(partitions, list):
            raise ValueError(f"the value of {topic!r} must be a list of partitions such as [0, 1]")
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                raise ValueError(f"{json.dumps(partition)} in {topic!r} is not the number of a partition")
            found.add(TopicPartition(topic, partition))
    return tuple(sorted(found))


def _topics(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


# ranges


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """One range for each task: no range is empty, or larger than ``max_records``, and if there would be fewer than
    ``min_partitions``, ranges are split into about so many, in proportion to their sizes. Without both options there
    is one for each partition with offsets to read.
    """
    found = [part for one in ranges if one.size > 0 for part in _divided(one, _parts_for(one.size, max_records))]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    # As in the connector: a range too small to be split must not count in the shares of the others.
    total = sum(one.size for one in found)
    whole = {one for one in found if _part_count(one.size, total, min_partitions) == 1}
    split_total = total - sum(one.size for one in whole)
    wanted = max(min_partitions - len(whole), 1)
    return [
        part
        for one in found
        for part in _divided(one, 1 if one in whole else _part_count(one.size, split_total, wanted))
    ]


def pack_ranges(ranges: Sequence[OffsetRange], max_partitions: int | None) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task: one, or with ``max_partitions`` several, so that there are no more tasks than that,
    with about the same number of offsets each.
    """
    if max_partitions is None or len(ranges) <= max_partitions:
        return [(one,) for one in ranges]
    # Largest first, each to the task with the fewest offsets.
    tasks: list[list[OffsetRange]] = [[] for _ in range(max_partitions)]
    loads = [(0, number) for number in range(max_partitions)]
    for one in sorted(ranges, key=lambda each: -each.size):
        load, number = heappop(loads)
        tasks[number].append(one)
        heappush(loads, (load + one.size, number))
    return [tuple(sorted(task)) for task in tasks]


def _parts_for(size: int, max_records: int | None) -> int:
    return 1 if max_records is None else -(-size // max_records)


def _part_count(size: int, total: int, wanted: int) -> int:
    # Rounded as Java does: a half goes up.
    return max(math.floor(size / total * wanted + 0.5), 1)


def _divided(one: OffsetRange, parts: int) -> list[OffsetRange]:
    found = []
    start, remaining = one.start, one.size
    for part in range(parts):
        size = remaining // (parts - part)
        remaining -= size
        if size:
            found.append(one._replace(start=start, end=start + size))
        start += size
    return found


# micro-batches


def count_new(start: PartitionOffsets, end: PartitionOffsets) -> int:
    """The number of offsets from ``start`` to ``end``; a partition that is missing in ``start`` counts from 0."""
    return sum(max(0, offset - start.get(tp, 0)) for tp, offset in end.items())


def limit_rate(limit: int, start: PartitionOffsets, end: PartitionOffsets) -> dict[TopicPartition, int]:
    """The offsets at which to stop so that about ``limit`` are read: each partition's share is in proportion to its
    backlog, at least one offset if it has any. A partition that is missing in ``start`` goes to its end.
    """
    sizes = {tp: offset - start[tp] for tp, offset in end.items() if tp in start and offset > start[tp]}
    total = sum(sizes.values())
    return {
        tp: start[tp] + min(sizes[tp], max(limit * sizes[tp] // total, 1)) if tp in sizes else offset
        for tp, offset in end.items()
    }
