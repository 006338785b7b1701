"""``TableQueue``: a task's tables on their way through its producer, and the report of their rows' outcomes.

Owns the bound (the share of ``buffer_memory`` that may be without an outcome), the sums of acknowledged rows, and the
error text for a failed row. The producer's ``open_table_send()`` keeps the order of tables. It lives on an event loop
and knows no Spark; Java has no counterpart.

Rules:

- A table is kept until its rows have their outcome, so that an error can show the row; it is then dropped, so that
  memory does not grow with the number of tables.
- The first row that fails ends the queue: it takes no more tables.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...common import TopicPartition
from ...errors import InvalidTimestampError
from ...producer.producer import KafkaProducer
from .messages import TopicPartitionRange

if TYPE_CHECKING:
    import pyarrow as pa

    from ...producer.tables.table_metadata import TableMetadata

__all__ = ["RowFailedError", "TableQueue"]

_NOT_THE_TIME: Final = "; column 'timestamp' is the record's time: drop or rename the column if it is another time"

SHOWN: Final = 80
"""Characters of a key or a value in a message."""


class RowFailedError(Exception):
    """A row could not be written."""


class TableQueue:
    """Tables on their way through one producer; ``put`` each, then ``finish``."""

    def __init__(
        self, producer: KafkaProducer[Any, Any], topic: str | None, most_bytes: int, *, has_timestamps: bool = True
    ) -> None:
        self._tables = producer.open_table_send(topic, timestamp_column="timestamp" if has_timestamps else None)
        self._topic = topic
        self._most_bytes = most_bytes
        # Tables on their way
        self._sent: deque[_SentTable] = deque()
        self._bytes_on_way = 0
        # Acknowledged rows
        self.rows = 0
        self.bytes = 0
        self._ranges: dict[TopicPartition, list[int]] = {}

    async def put(self, table: pa.RecordBatch) -> None:
        """Send a table's rows; returns when all are in batches. Raises RowFailedError for a row of any table."""
        size = table.nbytes
        while self._sent and (self._sent[0].outcome.done() or self._bytes_on_way + size > self._most_bytes):
            await self._take_first()
        self._sent.append(_SentTable(table, size, await self._tables.send(table)))
        self._bytes_on_way += size

    async def finish(self) -> None:
        """Wait until every row is acknowledged. Raises RowFailedError."""
        while self._sent:
            await self._take_first()

    def close(self) -> None:
        """Drop the tables on their way: their outcomes are not needed."""
        self._tables.abandon()
        self._sent.clear()

    @property
    def ranges(self) -> dict[tuple[str, int], TopicPartitionRange]:
        """The rows that each partition has got so far."""
        return {tuple(place): TopicPartitionRange(*found) for place, found in sorted(self._ranges.items())}  # type: ignore[misc]

    async def _take_first(self) -> None:
        """Wait for the outcome of the table that was sent first, and count it."""
        sent = self._sent[0]
        metadata = await sent.outcome
        del self._sent[0]
        self._bytes_on_way -= sent.size
        if metadata.failed:
            raise _row_failed(sent.table, metadata, self.rows, self._topic)
        self.rows += metadata.rows
        self.bytes += metadata.bytes
        for place, got in metadata.partitions.items():
            known = self._ranges.get(place)
            if known is None:
                self._ranges[place] = [got.count, got.first_offset, got.last_offset]
            else:
                known[0] += got.count
                known[1] = min(known[1], got.first_offset)
                known[2] = max(known[2], got.last_offset)


class _SentTable(NamedTuple):
    """A table whose rows are all in batches."""

    table: pa.RecordBatch
    size: int
    outcome: asyncio.Task[TableMetadata]


def _row_failed(table: pa.RecordBatch, metadata: TableMetadata, rows_before: int, topic: str | None) -> RowFailedError:
    """The first failed row of a table: its number, its contents, and the reason."""
    row = next(iter(metadata.failed))
    error = metadata.failed[row]
    reason = str(error.args[0] if error.args else error).removeprefix(f"row {row}: ")
    shown = [
        f"{name} {_shown(table, name, row)}" for name in ("key", "value", "partition") if name in table.schema.names
    ]
    remedy = _NOT_THE_TIME if isinstance(error, InvalidTimestampError) and "timestamp" in table.schema.names else ""
    where = topic if topic is not None else _python_value(table, "topic", row)
    failed = RowFailedError(
        f"row {rows_before + row} of this Spark partition, for topic {where!r}, was not written: "
        f"{type(error).__name__}: {reason}; the row has {', '.join(shown)}; of its {metadata.rows} rows sent together "
        f"{len(metadata.failed)} failed{remedy}"
    )
    failed.__cause__ = error
    return failed


def _shown(table: pa.RecordBatch, column: str, row: int) -> str:
    value = _python_value(table, column, row)
    if not isinstance(value, str | bytes) or len(value) <= SHOWN:
        return repr(value)
    unit = "characters" if isinstance(value, str) else "bytes"
    return f"{value[:SHOWN]!r}… ({len(value):,} {unit})"


def _python_value(table: pa.RecordBatch, column: str, row: int) -> Any:
    """The bytes of a string that is not UTF-8, as Spark's may be."""
    scalar = table.column(column)[row]
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes()
