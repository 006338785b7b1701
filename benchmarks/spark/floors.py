"""Data sources that do nothing: the cost of Spark's Python API itself, the lower bound of every Python source and sink.

The writers take Arrow batches and drop them; the reader hands out rows made once, the same buffers again and again. No
broker is asked. Spark's workers import this module from the working directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)

from aiokafkapy.spark.data_source import source_schema

__all__ = ["FLOOR", "FloorDataSource"]

FLOOR: Final = "floor"
"""The short name. Options of the reader: ``rows``, ``partitions``, ``valueSize``."""
BATCH_ROWS: Final = 10_000


class FloorDataSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FLOOR

    def schema(self) -> Any:
        """The schema, the same as our source's."""
        return source_schema()

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Drops its input."""
        return DroppingWriter()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Drops its input."""
        return DroppingStreamWriter()

    def reader(self, schema: Any) -> DataSourceReader:
        """Makes rows up."""
        return MadeUpReader(*(int(self.options[name]) for name in ("rows", "partitions", "valueSize")))


@dataclass
class Written(WriterCommitMessage):
    """The number of dropped rows."""

    rows: int


class DroppingWriter(DataSourceArrowWriter):
    """Counts."""

    def write(self, iterator: Iterator[Any]) -> Written:
        """All of a task's batches."""
        return Written(sum(batch.num_rows for batch in iterator))


class DroppingStreamWriter(DataSourceStreamArrowWriter):
    """Counts."""

    def write(self, iterator: Iterator[Any]) -> Written:
        """All of a task's batches."""
        return Written(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Nothing."""

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """Nothing."""


@dataclass
class Share(InputPartition):
    """The rows of one task."""

    number: int
    rows: int


class MadeUpReader(DataSourceReader):
    """The same rows over and over."""

    def __init__(self, rows: int, partitions: int, value_size: int) -> None:
        self._rows = rows
        self._partitions = partitions
        self._value_size = value_size

    def partitions(self) -> list[InputPartition]:
        """One for each of the topic's."""
        return [Share(number, self._rows // self._partitions) for number in range(self._partitions)]

    def read(self, partition: Any) -> Iterator[Any]:
        """Arrow batches of the columns that a Kafka source has."""
        import pyarrow as pa

        from aiokafkapy.record.arrow_columns import schema

        count = BATCH_ROWS
        columns = [
            pa.array([b"%08d" % row for row in range(count)]),
            pa.array([b"x" * self._value_size] * count),
            pa.array(["made-up"] * count),
            pa.array([partition.number] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
            pa.array(range(count), pa.timestamp("us", "UTC")),
            pa.array([0] * count, pa.int32()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema(with_headers=False))
        for start in range(0, partition.rows, count):
            yield batch if partition.rows - start >= count else batch.slice(0, partition.rows - start)
