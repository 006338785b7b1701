"""``KafkaDataSource``: the face to Spark.

Owns the name of the format, the columns of a read, and the classes of each kind of query; Spark's counterpart is
``KafkaSourceProvider``. It knows no Kafka.

Rule: this module is imported whenever a data source of any kind is looked up. The modules that move rows are imported
with a reader or writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

try:
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the data source needs {error.name}: pip install 'aiokafkapy[spark]'", name=error.name
    ) from error

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink.stream_writer import KafkaStreamWriter
    from .sink.writer import KafkaWriter
    from .source.reader import KafkaReader
    from .source.stream_reader import KafkaStreamReader

__all__ = ["KafkaDataSource", "SchemaError", "source_schema"]

T = TypeVar("T")


def source_schema(include_headers: bool = False) -> StructType:
    """The columns of Spark's own connector (``KafkaRecordToRowConverter.kafkaSchema``); headers come behind them.

    It is not DDL, in which ``spark.sql.timestampType`` decides the meaning of ``timestamp``.
    """
    from pyspark.sql import types

    schema = types.StructType()
    schema.add("key", types.BinaryType()).add("value", types.BinaryType()).add("topic", types.StringType())
    schema.add("partition", types.IntegerType()).add("offset", types.LongType())
    schema.add("timestamp", types.TimestampType()).add("timestampType", types.IntegerType())
    if include_headers:
        header = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
        schema.add("headers", types.ArrayType(header))
    return schema


class SchemaError(ValueError):
    """A read was given columns that a topic does not have."""


class KafkaDataSource(DataSource):
    """``format("aiokafkapy")``: Kafka's topics as tables and streams, with the columns and options of ``kafka``.

    Writing needs ``.mode("append")``, which Spark asks of every data source written in Python.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "aiokafkapy"

    def schema(self) -> StructType:
        """The columns that a read has; ``headers`` only with ``includeHeaders``. Raises OptionError."""
        from .options import parse_flag

        return source_schema(parse_flag("includeHeaders", self.options.get("includeHeaders", "false")))

    def writer(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        """Checks columns and options, on the driver; raises OptionError, also for ``overwrite``, and ColumnError."""
        from .sink.writer import KafkaWriter

        return _settled(KafkaWriter.plan(schema, self.options, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: N802
        """As ``writer``, for each micro-batch and its commit. ``overwrite``, the mode complete, is like any other
        mode.
        """
        from .sink.stream_writer import KafkaStreamWriter

        return _settled(KafkaStreamWriter.plan(schema, self.options, overwrite=overwrite))

    def reader(self, schema: StructType) -> KafkaReader:
        """Checks options and columns, on the driver; raises OptionError and SchemaError."""
        from .source.reader import KafkaReader

        self._check_schema(schema)
        return _settled(KafkaReader(self.options))

    def streamReader(self, schema: StructType) -> KafkaStreamReader:  # noqa: N802
        """As ``reader``; lives on the driver as long as its query."""
        from .source.stream_reader import KafkaStreamReader

        self._check_schema(schema)
        return _settled(KafkaStreamReader(self.options))

    def _check_schema(self, schema: StructType) -> None:
        """Refuse a user's schema, which Spark hands over in place of ours, as the connector does."""
        given, ours = (
            [(field.name, field.dataType.simpleString()) for field in each.fields] for each in (schema, self.schema())
        )
        if given != ours:
            raise SchemaError(
                f"the schema is {schema.simpleString()}: expected none, the columns of a topic are fixed: leave out "
                f".schema(...) and the columns of CREATE TABLE, and cast the columns, which are "
                f"{self.schema().simpleString()}; a column 'headers' needs the option includeHeaders"
            )


def _settled(planned: T) -> T:
    from .worker.process import settle_in

    settle_in()
    return planned
