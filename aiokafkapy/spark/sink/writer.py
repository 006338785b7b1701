"""``KafkaWriter``: the sink of ``df.write``.

Owns the calls that Spark makes: on the driver ``plan``, ``commit`` and ``abort``, in a task ``write``. ``row_sender``
sends the rows. Spark's counterparts are ``KafkaBatchWrite`` and ``KafkaDataWriter``.

Rules:

- A fault that can be known early is an error when the query is planned, before a task runs.
- A task succeeds when a broker has acknowledged every row of its partition, and fails otherwise. Rows that it wrote
  before it failed stay in Kafka, and its retry writes them again: at least once, as with Spark's connector.
- No producer is opened for a partition without rows.

Events: ``spark.committed`` (info) and ``spark.aborted`` (warning); rows, bytes, retries, seconds, topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..options import OptionError
from .messages import WrittenRows, log_aborted, log_committed
from .sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["KafkaWriter", "PartitionWriter"]


class PartitionWriter:
    """The part of a writer that is pickled to the tasks; a stream's is the same."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Send a partition's rows and wait until all are acknowledged. Runs in a task."""
        from .row_sender import send_partition

        once = self._options.exactly_once
        if once is None:
            return send_partition(self._options, iterator)
        from .exactly_once import send_partition_once

        return send_partition_once(self._options, once, iterator)


class KafkaWriter(PartitionWriter, DataSourceArrowWriter):
    """Writes a DataFrame's rows to Kafka; made by ``plan`` on the driver and pickled to the tasks."""

    @classmethod
    def plan(cls, schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> Self:
        """Check everything that can be checked without rows. Raises OptionError, ColumnError."""
        if overwrite:
            raise OptionError("mode", "overwrite", "'append': records in Kafka cannot be overwritten, .mode('append')")
        return cls(SinkOptions.parse(options).for_columns(schema))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the rows that were written: all tasks succeeded, and every row is already on the brokers."""
        log_committed(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the rows that were written although the job failed: Kafka keeps them."""
        log_aborted(messages)
