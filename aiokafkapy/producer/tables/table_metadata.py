"""``TableMetadata``, the result of ``send_arrow``: the places of a table's rows.

Owns the view only: a single row is looked up in ``RowPlaces`` when it is read. Kafka's counterpart is
``RecordMetadata``, one for each row.

Rule: an offset of -1 means that no broker told it, as in ``RecordMetadata``.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import SupportsIndex, cast

from ...common import TopicPartition
from ...errors import KafkaError
from ..records import INVALID_OFFSET
from .row_places import RowPlaces

__all__ = ["PartitionMetadata", "TableMetadata"]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The number of a table's rows in one partition, and the offsets of the first and the last."""

    count: int
    first_offset: int = INVALID_OFFSET
    last_offset: int = INVALID_OFFSET


class FailedRows(Mapping[int, BaseException]):
    """Row number → its error, in the order of rows; errors are made when they are read."""

    def __init__(self, places: RowPlaces) -> None:
        self._places = places
        self._rows = places.failed

    def __getitem__(self, row: int) -> BaseException:
        if row not in self:
            raise KeyError(row)
        number = operator.index(row)
        result, index = self._places.locate(number)
        return at_row(result.error(index), number)

    def __contains__(self, row: object) -> bool:
        if not hasattr(type(row), "__index__"):
            return False
        number = operator.index(cast(SupportsIndex, row))
        index = bisect_left(self._rows, number)
        return index < len(self._rows) and self._rows[index] == number

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} failed rows>"


class TableMetadata:
    """The outcome of a table, by partition and row by row.

    ``rows`` counts all of them, ``bytes`` the size of the accepted ones: of their records as encoded, before
    compression.
    """

    def __init__(self, places: RowPlaces, encoded_bytes: int) -> None:
        self._places = places
        self.rows: int = places.row_count
        self.bytes = encoded_bytes

    @cached_property
    def failed(self) -> Mapping[int, BaseException]:
        """The rows that were not delivered: row number, counted from 0, → error."""
        return FailedRows(self._places)

    @cached_property
    def partitions(self) -> Mapping[TopicPartition, PartitionMetadata]:
        """The rows of each partition that got any: their number, their first and their last offset."""
        found: dict[TopicPartition, list[int]] = {}
        for result, first, count in self._places.delivered():
            entry = found.get(result.topic_partition)
            if entry is None:
                entry = found[result.topic_partition] = [0, INVALID_OFFSET, INVALID_OFFSET]
            entry[0] += count
            if result.base_offset >= 0:
                offset = result.base_offset + first
                entry[1] = offset if entry[1] < 0 else min(entry[1], offset)
                entry[2] = max(entry[2], offset + count - 1)
        return {topic_partition: PartitionMetadata(*found[topic_partition]) for topic_partition in sorted(found)}

    def topic_partition(self, row: int) -> TopicPartition:
        """The partition of a row; raises its error if it was not delivered, IndexError if there is no such row."""
        return self._located(row)[0]

    def offset(self, row: int) -> int:
        """The offset of a row; raises as ``topic_partition``."""
        return self._located(row)[1]

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"<TableMetadata of {self.rows} rows, {len(self.failed)} failed, in {len(self.partitions)} partitions>"

    def _located(self, row: int) -> tuple[TopicPartition, int]:
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        result, index = self._places.locate(row)
        if not result.has_succeeded:
            raise at_row(result.error(index), row)
        return result.topic_partition, result.base_offset + index if result.base_offset >= 0 else INVALID_OFFSET


def at_row(error: BaseException, row: int) -> BaseException:
    """``error`` with a note that names the row; it must be the caller's own copy."""
    text = f"row {row}: "
    if isinstance(error, KafkaError):
        error.args = (text + str(error), *error.args[1:])
    else:
        error.add_note(f"row {row} of the table")
    return error
