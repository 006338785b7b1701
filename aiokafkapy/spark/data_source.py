"""``KafkaDataSource``: what Spark knows of us.

Owns the name of the format, the columns of what is read, and which class does what; Spark's counterpart is
``KafkaSourceProvider``. It knows no Kafka.

Rule: this module is imported wherever a data source of any kind is looked up. What moves rows is imported when it is
asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink.stream_writer import KafkaStreamWriter
    from .sink.writer import KafkaWriter
    from .source.reader import KafkaReader
    from .source.stream_reader import KafkaStreamReader

__all__ = ["HEADERS_TYPE", "SOURCE_COLUMNS", "KafkaDataSource"]

T = TypeVar("T")

HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
SOURCE_COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
"""The columns of Spark's own connector (``KafkaRecordToRowConverter.kafkaSchema``); headers come behind them."""


class KafkaDataSource(DataSource):
    """``format("aiokafkapy")``: Kafka's topics as tables and streams, with the columns and options of ``kafka``.

    Writing needs ``.mode("append")``, which Spark asks of every data source written in Python.
    """

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "aiokafkapy"

    def schema(self) -> str:
        """The columns of what is read, as DDL; ``headers`` only with ``includeHeaders``. Raises OptionError."""
        from .options import parse_flag

        if parse_flag("includeHeaders", self.options.get("includeHeaders", "false")):
            return f"{SOURCE_COLUMNS}, headers {HEADERS_TYPE}"
        return SOURCE_COLUMNS

    def writer(self, schema: StructType, overwrite: bool) -> KafkaWriter:
        """Checks columns and options, on the driver; raises OptionError and ColumnError, and for ``overwrite``."""
        from .sink.writer import KafkaWriter

        return _settled(KafkaWriter.plan(schema, self.options, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: N802
        """As ``writer``, for each micro-batch and its commit. ``overwrite``, the mode complete, is as any other."""
        from .sink.stream_writer import KafkaStreamWriter

        return _settled(KafkaStreamWriter.plan(schema, self.options, overwrite))

    def reader(self, schema: StructType) -> KafkaReader:
        """Checks the options, on the driver; raises OptionError."""
        from .source.reader import KafkaReader

        return _settled(KafkaReader(self.options))

    def streamReader(self, schema: StructType) -> KafkaStreamReader:  # noqa: N802
        """As ``reader``; lives on the driver as long as its query."""
        from .source.stream_reader import KafkaStreamReader

        return _settled(KafkaStreamReader(self.options))


def _settled(planned: T) -> T:
    from .worker.process import settle_in

    settle_in()
    return planned
