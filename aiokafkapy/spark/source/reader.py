"""``KafkaReader``: a batch read, planned on the driver and carried out on the executors.

Owns the calls of Spark's API for a reader. Ranges are found by ``KafkaOffsetReader`` and read by ``range_reader``.
Spark's counterparts are ``KafkaBatch`` and ``KafkaScan``, which push no filters down.

Rules:

- A task reads one partition, or a part of one with ``minPartitions`` or ``maxRecordsPerPartition``, as in the
  connector; with ``maxPartitions`` it reads several.
- Filters only spare reading: all of them go back to Spark, which applies them to the rows that were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ..worker import worker_loop
from ..worker.worker_log import show_warnings
from .filters import Pruning
from .offsets import OffsetRange, pack_ranges, split_ranges
from .source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaReader", "input_partitions", "ranges_of"]


class KafkaReader(DataSourceReader):
    """Reads the topics of a query once. Raises OptionError when it is made."""

    def __init__(self, options: Mapping[str, str]) -> None:
        show_warnings()
        self._options = SourceOptions.parse(options, is_stream=False)
        self._pruning = Pruning()

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:  # noqa: N802
        """Takes filters down and gives all of them back."""
        return _PushFilters(self)

    def partitions(self) -> list[InputPartition]:
        """The ranges of offsets to read, looked up now. Raises OptionError, DataLossError and errors of Kafka."""
        return input_partitions(self._options, worker_loop.run(self._ranges()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one of the partitions, as Arrow batches."""
        from .range_reader import read_ranges

        return read_ranges(self._options, ranges_of(partition))

    def prune(self, filters: Iterable[Filter]) -> None:
        """Leave out the ranges that these filters leave out for certain."""
        self._pruning = Pruning.of(filters)

    # internals

    async def _ranges(self) -> list[OffsetRange]:
        # Here: a task, which is given this reader, plans nothing.
        from .offset_reader import KafkaOffsetReader

        async with KafkaOffsetReader(self._options) as offsets:
            return await offsets.batch_ranges(self._pruning)


class _PushFilters:
    """The method ``pushFilters`` of a reader.

    Spark refuses a reader that has its own ``pushFilters`` while ``spark.sql.python.filterPushdown.enabled`` is off,
    and tells a reader nothing of its configuration. It asks for the method's function; that of the base class stands
    here, so that the reader counts as having none where none would be called.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.prune(filters)
        return filters


def input_partitions(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[InputPartition]:
    """The tasks that read these ranges."""
    parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return [InputPartition(task) for task in pack_ranges(parts, options.max_partitions)]


def ranges_of(partition: InputPartition) -> tuple[OffsetRange, ...]:
    """The ranges of a task; none for the task that Spark makes where there is nothing to read."""
    return tuple(partition.value or ())
