"""The options of a write, and the columns it needs: ``SinkOptions``, ``check_columns``.

Owns a write's options, and its columns with their types; Spark's counterparts are the checks of
``KafkaSourceProvider`` and ``KafkaWriter.validateQuery``, at the same moment. It knows neither tasks nor
producers.

Rule: a column that is not part of a record is left out, as by Spark's connector; a column that is must have the exact
type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ...common import MAX_TOPIC_NAME_LENGTH, check_topic_name
from ...errors import InvalidTopicError
from ...producer.config import ProducerConfig
from ...reader.config import ReaderConfig
from ..options import KAFKA_PREFIX, OptionError, Options, kafka_properties, used_properties, warn_ignored

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "OF_EXACTLY_ONCE",
    "REFUSED",
    "TRANSACTION_TIMEOUT",
    "ColumnError",
    "ExactlyOnce",
    "SinkOptions",
    "check_columns",
]

DEFAULTS: Final[Mapping[str, str]] = {"batch.size": "524288"}
"""Kafka's options for a task's floods of rows, unless the user sets others: they need a quarter of the requests."""

TRANSACTION_TIMEOUT: Final[Mapping[str, str]] = {"transaction.timeout.ms": "300000"}
"""The time-out with ``exactlyOnce``: a task's rows are one transaction, and a task may take longer than Kafka's
minute.
"""

OF_EXACTLY_ONCE: Final = ("exactlyOnceTopic", "transactionalIdPrefix", "jobId")
_KNOWN: Final = ("topic", "includeHeaders", "exactlyOnce", *OF_EXACTLY_ONCE)
_MEANINGLESS: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxPartitions", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix", "commitGroup", "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "path",
)  # fmt: skip
"""Ignored names: the source's options, and a path; the connector's sink ignores them too."""
REFUSED: Final[Mapping[str, str]] = {
    "key.serializer": "nothing: keys are sent as the bytes of their column",
    "value.serializer": "nothing: values are sent as the bytes of their column",
    "partitioner.class": "nothing for Kafka's default partitioner, or a column 'partition'",
    "transactional.id": "nothing: with option 'exactlyOnce' each Spark partition has its own",
}
"""Options of Kafka's producer that would change the records written."""


class ColumnError(ValueError):
    """A column of the rows to write is missing or has another type than a record's part."""


class ExactlyOnce(NamedTuple):
    """The options of ``exactlyOnce``."""

    topic: str
    """The topic that remembers commits."""
    transactional_id_prefix: str
    job_id: str | None
    """The name that tells a batch write from others; None in a stream, whose query has an id."""
    reader_properties: Mapping[str, str]
    """The properties with which that topic is read."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write; checked when they are parsed, and pickled to the tasks."""

    properties: Mapping[str, str]
    """The options ``kafka.*`` under Kafka's names, and our defaults."""
    topic: str | None = None
    """The topic of all rows, in place of their column; None takes the column."""
    has_timestamps: bool = True
    """True when a column ``timestamp`` has the records' times."""
    exactly_once: ExactlyOnce | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool = False) -> Self:
        """Check all options. Raises OptionError."""
        given = Options(options, _KNOWN, _MEANINGLESS)
        topic = _topic(given, "topic")
        given.flag("includeHeaders")  # as in Spark's connector, a column of headers is always sent
        properties = kafka_properties(given, REFUSED)
        once = _exactly_once(given, properties, is_stream=is_stream)
        used = used_properties(ProducerConfig, properties)
        for name in ("spool_dir", "spool.dir"):
            if name in properties:
                expected = "nothing: Spark writes a task's rows again, and a spool would go with its executor"
                raise OptionError(KAFKA_PREFIX + name, properties[name], expected)
        if once is not None:
            # Refuses options that a transactional producer cannot have; the ids of tasks begin like this one.
            used_properties(ProducerConfig, properties | {"transactional.id": once.transactional_id_prefix})
            used = {**TRANSACTION_TIMEOUT, **used}
        warn_ignored("write", [*given.ignored, *(KAFKA_PREFIX + name for name in properties if name not in used)])
        return cls({**DEFAULTS, **used}, topic, exactly_once=once)

    def for_columns(self, schema: StructType) -> Self:
        """The options for rows with these columns. Raises ColumnError.

        A column ``timestamp`` of another type is ignored with a warning: the connector writes no timestamps at all. A
        column without a time zone is refused: only Spark's session knows which moment it means.
        """
        check_columns(schema, self.topic)
        of_times = [field.dataType.simpleString() for field in schema.fields if field.name == "timestamp"]
        if "timestamp_ntz" in of_times:
            raise ColumnError(
                "column 'timestamp' is timestamp_ntz, a time without a zone: expected timestamp, the record's time: "
                "cast it, which takes spark.sql.session.timeZone, or drop or rename the column"
            )
        if all(name == "timestamp" for name in of_times):
            return self
        warn_ignored("write", [f"column timestamp ({of_times[0]})"])
        return replace(self, has_timestamps=False)


def _topic(given: Options, name: str) -> str | None:
    """The topic that this option names. Raises OptionError."""
    topic = given.text(name)
    if topic is not None:
        try:
            check_topic_name(topic)
        except InvalidTopicError as error:
            expected = f"a valid topic: 1 to {MAX_TOPIC_NAME_LENGTH} of a-z, A-Z, 0-9, '.', '_' and '-'"
            raise OptionError(name, topic, expected) from error
    return topic


def _exactly_once(given: Options, properties: Mapping[str, str], *, is_stream: bool) -> ExactlyOnce | None:
    """The options of ``exactlyOnce``; None without it. Raises OptionError."""
    if not given.flag("exactlyOnce"):
        for name in OF_EXACTLY_ONCE:
            if given.text(name) is not None and given.text("exactlyOnce") is None:
                raise OptionError(
                    name, given.text(name), "option 'exactlyOnce' beside it, without which it has no effect"
                )
        return None
    job_id = given.text("jobId")
    if is_stream and job_id is not None:
        raise OptionError("jobId", job_id, "nothing: in a stream the id of the query, kept in its checkpoint, is taken")
    if not is_stream and job_id is None:
        expected = "a name for this write, the same when it is run again, as a batch has no checkpoint to tell that"
        raise OptionError("jobId", None, expected)
    return ExactlyOnce(
        _topic(given, "exactlyOnceTopic") or "aiokafkapy-batches",
        given.text("transactionalIdPrefix") or "aiokafkapy",
        job_id,
        used_properties(ReaderConfig, properties),
    )


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise ColumnError for the first column that is missing, or whose type a record's part cannot have."""
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


def _plain(kind: DataType) -> str:
    """The name of a type without its collation, which does not matter here."""
    name: str = kind.simpleString()
    return "string" if name.startswith("string collate") else name
