"""``KafkaStreamWriter``: the sink of ``df.writeStream``.

Owns the difference between the calls of a micro-batch and of a batch: they have the number of the micro-batch.
``writer`` has the rest. Spark's counterparts are ``KafkaStreamingWrite`` and ``KafkaStreamDataWriter``.

Rules:

- Spark makes a new writer for each micro-batch and another one for its commit: no state is carried from one to another.
- A micro-batch that failed is written again with the same number, also after a restart from the checkpoint.
- In the output mode complete every micro-batch writes the whole result, and no record is removed, as with Spark's
  connector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from .messages import log_aborted, log_committed
from .sink_options import SinkOptions
from .writer import PartitionWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["KafkaStreamWriter"]


class KafkaStreamWriter(PartitionWriter, DataSourceStreamArrowWriter):
    """Writes a stream's rows to Kafka; made by ``plan`` on the driver and pickled to the tasks."""

    @classmethod
    def plan(cls, schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> Self:
        """Check everything that can be checked without rows. Raises OptionError, ColumnError."""
        return cls(SinkOptions.parse(options, is_stream=True).for_columns(schema))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log the rows that the micro-batch wrote."""
        log_committed(messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log the rows that were written although the micro-batch failed, or was stopped; Spark may not tell."""
        log_aborted(messages, batchId)
