"""The options of a write, and the columns it needs: ``SinkOptions``, ``check_columns``.

Owns which options a write knows and which columns of which types; Spark's counterparts are the checks of
``KafkaSourceProvider`` and ``KafkaWriter.validateQuery``, which refuse the same at the same moment. It knows neither
tasks nor producers.

Rule: a column that is no part of a record is left out, as Spark's connector does; one that is has the very type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from ...producer.config import ProducerConfig
from ..options import OptionError, Options, check_properties, kafka_properties

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["ColumnError", "SinkOptions", "check_columns"]

DEFAULTS: Final[Mapping[str, str]] = {"batch.size": "524288"}
"""Kafka's options where a task's rows come in floods, unless the user says otherwise: a quarter of the requests."""

_KNOWN: Final = ("topic", "includeHeaders")
_OF_READING: Final = "it where a topic is read: leave it out of a write"
_ELSEWHERE: Final = dict.fromkeys(
    (
        "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
        "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition",
        "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix", "commitGroup",
        "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    ),
    _OF_READING,
) | {"path": "no path: the topic is the option 'topic', or a column of that name"}  # fmt: skip


class ColumnError(ValueError):
    """A column of what is to be written is missing or has another type than a record's part."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a write was told; checked when it is parsed, and pickled to the tasks."""

    properties: Mapping[str, str]
    """The options ``kafka.*`` under Kafka's names, and our defaults."""
    topic: str | None = None
    """For all rows, whatever their column says; None takes the column."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check all options. Raises OptionError."""
        given = Options(options, _KNOWN, _ELSEWHERE)
        topic = given.text("topic")
        given.flag("includeHeaders")  # as in Spark's connector a column of headers is sent in any case
        properties = kafka_properties(given)
        if "transactional.id" in properties:
            raise OptionError("kafka.transactional.id", properties["transactional.id"], "nothing: leave it out")
        check_properties(ProducerConfig, properties)
        return cls({**DEFAULTS, **properties}, topic)


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
        if _plain(columns[part]) not in expected:
            wanted = " or ".join(expected)
            raise ColumnError(f"column {part!r} is {columns[part].simpleString()}: expected {wanted}")


_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}


def _plain(kind: DataType) -> str:
    """A type's name without collation, which is no matter here."""
    name: str = kind.simpleString()
    return "string" if name.startswith("string collate") else name
