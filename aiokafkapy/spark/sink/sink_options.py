"""The options of a write, and the columns it needs: ``SinkOptions``, ``check_columns``.

Owns which options a write knows and which columns of which types; Spark's counterparts are the checks of
``KafkaSourceProvider`` and ``KafkaWriter.validateQuery``, at the same moment. It knows neither tasks nor
producers.

Rule: a column that is no part of a record is left out, as by Spark's connector; one that is must have the very type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from ...producer.config import ProducerConfig
from ..options import KAFKA_PREFIX, Options, kafka_properties, used_properties, warn_ignored

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["ColumnError", "SinkOptions", "check_columns"]

DEFAULTS: Final[Mapping[str, str]] = {"batch.size": "524288"}
"""Kafka's options where a task's rows come in floods, unless the user says otherwise: a quarter of the requests."""

_KNOWN: Final = ("topic", "includeHeaders")
_MEANINGLESS: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxPartitions", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix", "commitGroup", "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "path",
)  # fmt: skip
"""The source's options, and a path: the connector's sink ignores them too."""
_REFUSED: Final[Mapping[str, str]] = {
    "key.serializer": "nothing: keys are sent as the bytes of their column",
    "value.serializer": "nothing: values are sent as the bytes of their column",
    "partitioner.class": "nothing for Kafka's default partitioner, or a column 'partition'",
    "transactional.id": "nothing: leave it out",
}
"""Options of Kafka's producer that would change what is written."""


class ColumnError(ValueError):
    """A column of what is to be written is missing or has another type than a record's part."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a write was told; checked when it is parsed, and pickled to the tasks."""

    properties: Mapping[str, str]
    """The options ``kafka.*`` under Kafka's names, and our defaults."""
    topic: str | None = None
    """For all rows, whatever their column says; None takes the column."""
    has_timestamps: bool = True
    """A column ``timestamp`` has the records' times."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check all options. Raises OptionError."""
        given = Options(options, _KNOWN, _MEANINGLESS)
        topic = given.text("topic")
        given.flag("includeHeaders")  # as in Spark's connector a column of headers is sent in any case
        properties = kafka_properties(given, _REFUSED)
        used = used_properties(ProducerConfig, properties)
        warn_ignored("write", [*given.ignored, *(KAFKA_PREFIX + name for name in properties if name not in used)])
        return cls({**DEFAULTS, **used}, topic)

    def for_columns(self, schema: StructType) -> Self:
        """The options for rows with these columns. Raises ColumnError.

        A column ``timestamp`` of another type is ignored with a warning: the connector writes no timestamps at all.
        """
        check_columns(schema, self.topic)
        of_times = [field for field in schema.fields if field.name == "timestamp"]
        if all(_plain(field.dataType) in _TIMES for field in of_times):
            return self
        warn_ignored("write", [f"column timestamp ({of_times[0].dataType.simpleString()})"])
        return replace(self, has_timestamps=False)


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ColumnError for the first column that is missing or has a type that a record's part cannot have."""
    columns = {field.name: field.dataType for field in schema.fields}
    there = ", ".join(f"{name} {kind.simpleString()}" for name, kind in columns.items()) or "none"
    if topic is None and "topic" not in columns:
        raise ColumnError(
            "no topic: expected the option 'topic', or a column 'topic' of type string; "
            f"there is neither, the columns are: {there}"
        )
    if "value" not in columns:
        raise ColumnError(f"no column 'value': expected one of type string or binary; the columns are: {there}")
    for part, expected in _TYPES.items():
        if part not in columns or (part == "topic" and topic is not None):
            continue
        found = _plain(columns[part])
        # The connector compares names of fields in any case.
        if (found.lower() if part == "headers" else found) not in expected:
            wanted = " or ".join(expected)
            raise ColumnError(f"column {part!r} is {columns[part].simpleString()}: expected {wanted}")


_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
_TIMES: Final = ("timestamp", "timestamp_ntz")


def _plain(kind: DataType) -> str:
    """A type's name without collation, which is no matter here."""
    name: str = kind.simpleString()
    return "string" if name.startswith("string collate") else name
