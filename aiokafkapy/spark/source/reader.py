"""``KafkaReader``: a batch read, planned on the driver and carried out on the executors.

Owns the calls of Spark's API for a reader. ``KafkaOffsetReader`` finds the ranges and ``range_reader`` reads them.
Spark's counterparts are ``KafkaBatch`` and ``KafkaScan``.

Rules:

- A task reads one partition, or a part of one with ``minPartitions`` or ``maxRecordsPerPartition``, as in the
  connector; with ``maxPartitions`` it reads several.
- No filter is pushed down: Spark 4.3 keeps one list of partitions for each ``load()`` and uses it for all its scans.
  Partitions that are left out for one filter would be missing in every other query of that DataFrame or view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..worker import worker_loop
from ..worker.worker_log import show_warnings
from .offsets import OffsetRange, pack_ranges, split_ranges
from .source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KafkaReader", "TaskReader", "input_partitions"]


class TaskReader:
    """The part of a reader that runs in a task; a stream's is the same."""

    _options: SourceOptions

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of one of the partitions, as Arrow batches."""
        from .range_reader import read_ranges

        # Without anything to read Spark makes a task with None; before PySpark 4.2 the task has no partition at all.
        return read_ranges(self._options, (partition and partition.value) or ())


class KafkaReader(TaskReader, DataSourceReader):
    """Reads the topics of a query once. Raises OptionError when it is made."""

    def __init__(self, options: Mapping[str, str]) -> None:
        show_warnings()
        self._options = SourceOptions.parse(options, is_stream=False)

    def partitions(self) -> list[InputPartition]:
        """The ranges of offsets to read, looked up now. Raises OptionError, DataLossError and errors of Kafka."""
        return input_partitions(self._options, worker_loop.run(self._ranges()))

    # internals

    async def _ranges(self) -> list[OffsetRange]:
        # Imported here: a task, which gets this reader, does not plan.
        from .offset_reader import KafkaOffsetReader

        async with KafkaOffsetReader(self._options) as offsets:
            return await offsets.batch_ranges()


def input_partitions(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[InputPartition]:
    """The tasks that read these ranges."""
    parts = split_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return [InputPartition(task) for task in pack_ranges(parts, options.max_partitions)]
