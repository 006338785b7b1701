"""The options of a read: its partitions, its start and end, and its portions.

Owns names, defaults and checks of the source's options. Spark's counterparts are ``KafkaSourceProvider`` and
``KafkaOffsetRangeLimit``: names, defaults and refusals are the connector's, unless a line below says otherwise. It
knows no connection.

Rules:

- Among several options for one end of the read, a time for all partitions counts before times by partition, and these
  before offsets, as in the connector.
- Offsets and times in JSON need not name every partition, as they must with the connector: an unnamed one is read from
  its first offset to its last.
- ``subscribePattern`` is a regular expression of Python's ``re`` (the connector's are Java's) for the whole name.
- A batch ignores options of triggers, and both ignore those of consumer groups and of writing; a stream refuses options
  of the end, as the connector does.
- Only we have ``commitGroup`` and ``maxPartitions``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ...common import TopicPartition
from ...reader.config import ReaderConfig
from ...reader.offsets import EARLIEST, LATEST
from ..options import KAFKA_PREFIX, OptionError, Options, kafka_properties, used_properties, warn_ignored
from .data_loss import DataLoss
from .offsets import PartitionOffsets, parse_offsets, parse_partitions

__all__ = ["REFUSED", "OffsetLimit", "SourceOptions", "Subscription", "parse_duration_ms"]

T = TypeVar("T")

_STRATEGIES: Final = ("subscribe", "subscribePattern", "assign")
_STARTS: Final = (
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "startingOffsetsByTimestampStrategy",
)
_ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_PARTITIONING: Final = ("minPartitions", "maxRecordsPerPartition", "maxPartitions")
_TRIGGERS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_PATIENCE: Final = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs")
_KNOWN: Final = (
    *_STRATEGIES,
    *_STARTS,
    *_ENDS,
    *_PARTITIONING,
    *_TRIGGERS,
    *_PATIENCE,
    "failOnDataLoss",
    "includeHeaders",
    "commitGroup",
)
_MEANINGLESS: Final = (
    *("topic", "path", "groupIdPrefix"),
    *("exactlyOnce", "exactlyOnceTopic", "transactionalIdPrefix", "jobId"),
)
"""Options that a read ignores: the connector's for consumer groups, which are not used here, and those of writes, with
which it may share a dictionary.
"""
_IN_CHECKPOINT: Final = "it to be left out: Spark's checkpoint has the offsets; see also 'commitGroup'"
REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "it to be left out: write 'startingOffsets' for where a new query begins; one that goes on "
    "begins where it stopped",
    "enable.auto.commit": _IN_CHECKPOINT,
    "key.deserializer": "nothing: keys are read as bytes, cast the column instead",
    "value.deserializer": "nothing: values are read as bytes, cast the column instead",
}
"""Options of Kafka's consumer that would change the result; the connector refuses them too."""
_BULK: Final[Mapping[str, str]] = {
    # A task usually reads a single partition: one answer may have as much of it as of all.
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    # The system's buffer: it grows with the distance to the broker, which a fixed one does not.
    "receive.buffer.bytes": "-1",
}
"""Our defaults in place of Kafka's."""

_DURATION: Final = re.compile(r"(\d+)\s*([a-z]*)")
_MICROSECONDS: Final[Mapping[str, int]] = {
    "us": 1,
    "ms": 1_000,
    "": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read: exactly one of ``topics``, a ``pattern`` for their names, and ``partitions``."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def has_topic(self, name: str) -> bool:
        """True if a topic that appears belongs to the read."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name) is not None
        return name in self.topic_names

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The named topics."""
        return self.topics or tuple(sorted({tp.topic for tp in self.partitions}))


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """One end of a read: ``timestamp_ms`` for all partitions, or ``timestamps`` or ``offsets`` by partition, where
    EARLIEST and LATEST may stand too; ``default`` is for the others.
    """

    default: int
    offsets: PartitionOffsets = field(default_factory=dict)
    timestamps: PartitionOffsets = field(default_factory=dict)
    timestamp_ms: int | None = None
    latest_when_none: bool = True
    """The result if no record is young enough for the start: the latest offset, or an error."""

    def may_move(self, topic_partition: TopicPartition) -> bool:
        """True if a partition's offset may be further on when it is looked up again, though no record was deleted."""
        if self.time_of(topic_partition) is not None:
            return self.latest_when_none
        return self.offsets.get(topic_partition, self.default) == LATEST

    def time_of(self, topic_partition: TopicPartition) -> int | None:
        """The time for a partition; None without one."""
        return self.timestamps.get(topic_partition) if self.timestamp_ms is None else self.timestamp_ms


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The checked options of a read; they go to the executors."""

    properties: Mapping[str, str]
    """Kafka's own options, for ``ReaderConfig.from_properties``."""
    subscription: Subscription
    starting: OffsetLimit
    ending: OffsetLimit
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_partitions: int | None = None
    """The most tasks: small partitions share a task, and are fetched in one request for each broker."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    fail_on_data_loss: bool = True
    is_stream: bool = False
    include_headers: bool = False
    commit_group: str | None = None
    offset_retries: int = 3
    offset_retry_interval_ms: int = 1_000
    poll_timeout_ms: int = 120_000

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
        """Read the options of a query, in any case. Raises OptionError."""
        options = Options(given, _KNOWN, _MEANINGLESS)
        properties = _properties(options, is_stream=is_stream)
        subscription = _subscription(options)
        starting = _limit(options, "starting", LATEST if is_stream else EARLIEST)
        ending = _limit(options, "ending", LATEST)
        if is_stream:
            # The start counts for a new query only, and is checked against its partitions, as in the connector.
            _check_stream(options)
        else:
            _check_assigned(options, subscription, starting, ending)
            _check_batch(options, starting, ending)
        found = cls(
            properties=properties,
            subscription=subscription,
            starting=starting,
            ending=ending,
            min_partitions=options.number("minPartitions", minimum=1),
            max_records_per_partition=options.number("maxRecordsPerPartition", minimum=1),
            max_partitions=options.number("maxPartitions", minimum=1),
            max_offsets_per_trigger=options.number("maxOffsetsPerTrigger", minimum=1),
            min_offsets_per_trigger=options.number("minOffsetsPerTrigger", minimum=1),
            max_trigger_delay_ms=parse_duration_ms("maxTriggerDelay", options.text("maxTriggerDelay") or "15m"),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            is_stream=is_stream,
            include_headers=options.flag("includeHeaders"),
            commit_group=options.text("commitGroup"),
            offset_retries=options.number("fetchOffset.numRetries", 3, 1) or 3,
            offset_retry_interval_ms=options.number("fetchOffset.retryIntervalMs", 1_000) or 0,
            poll_timeout_ms=options.number("kafkaConsumer.pollTimeoutMs", 120_000, 1) or 120_000,
        )
        _check_portions(options, found)
        return found

    @property
    def config(self) -> ReaderConfig:
        """The reader's configuration. A missing offset is an error, and never skipped."""
        return ReaderConfig.from_properties(self.properties, auto_offset_reset="none")

    def data_loss(self) -> DataLoss:
        """The handler of a data loss of this read."""
        return DataLoss(is_fatal=self.fail_on_data_loss, is_stream=self.is_stream)


def parse_duration_ms(option: str, text: str) -> int:
    """A duration as Spark writes it, in milliseconds: ``15m``, ``90s``, ``500ms``; without a unit it is milliseconds.
    Raises OptionError.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _MICROSECONDS:
        raise OptionError(option, text, "a duration such as '15m': a whole number and one of us, ms, s, m, h, d")
    return int(match[1]) * _MICROSECONDS[match[2]] // 1_000


# internals


def _subscription(options: Options) -> Subscription:
    given = [name for name in _STRATEGIES if name in options]
    if len(given) != 1:
        told = " and ".join(given) if given else None
        raise OptionError("subscribe", told, "exactly one of 'subscribe', 'subscribePattern' and 'assign'")
    name = given[0]
    text = options.text(name) or ""
    if name == "assign":
        partitions = _parsed(name, text, parse_partitions, '{"topicA":[0,1],"topicB":[2]}')
        if not partitions:
            raise OptionError(name, text, 'at least one partition, {"topicA":[0,1],"topicB":[2]}')
        return Subscription(partitions=partitions)
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(name, text, f"a regular expression of Python's re: {error}") from None
        return Subscription(pattern=text)
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise OptionError(name, text, "names of topics, with commas between them")
    return Subscription(topics=topics)


def _limit(options: Options, side: str, default: int) -> OffsetLimit:
    """The start or the end of the read; ``default`` counts without an option for it."""
    unnamed = EARLIEST if side == "starting" else LATEST
    latest_when_none = side == "ending" or _is_latest_strategy(options)
    by_time, by_partition, by_offset = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if by_time in options:
        return OffsetLimit(unnamed, timestamp_ms=options.number(by_time), latest_when_none=latest_when_none)
    text = options.text(by_partition)
    if text is not None:
        times = _parsed(by_partition, text, parse_offsets, '{"topicA":{"0":1700000000000}}, in milliseconds')
        _check_least(by_partition, text, times, 0, "a time in milliseconds since the epoch")
        return OffsetLimit(unnamed, timestamps=times, latest_when_none=latest_when_none)
    text = options.text(by_offset)
    if text is None:
        return OffsetLimit(default)
    if text.lower() in ("earliest", "latest"):
        return OffsetLimit(EARLIEST if text.lower() == "earliest" else LATEST)
    shape = '\'earliest\', \'latest\', or {"topicA":{"0":23,"1":-2}}'
    offsets = _parsed(by_offset, text, parse_offsets, shape)
    _check_least(by_offset, text, offsets, EARLIEST, "an offset, -1 for latest or -2 for earliest")
    return OffsetLimit(unnamed, offsets=offsets)


def _is_latest_strategy(options: Options) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = options.text(name) or "error"
    if text.lower() not in ("error", "latest"):
        raise OptionError(name, text, "'error' or 'latest', for partitions without a record of that time or later")
    return text.lower() == "latest"


def _parsed(option: str, text: str, parse: Callable[[str], T], expected: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise OptionError(option, text, f"{expected} ({error})") from None


def _check_least(option: str, text: str, numbers: PartitionOffsets, least: int, what: str) -> None:
    for tp, number in numbers.items():
        if number < least:
            raise OptionError(option, text, f"{what} for {tp}, not {number}")


def _check_assigned(options: Options, subscription: Subscription, *limits: OffsetLimit) -> None:
    """Offsets and times must be for partitions that are read; those of a pattern are not known yet."""
    for side, limit in zip(("starting", "ending"), limits, strict=True):
        name = f"{side}OffsetsByTimestamp" if limit.timestamps else f"{side}Offsets"
        for tp in (*limit.offsets, *limit.timestamps):
            is_read = tp in subscription.partitions if subscription.partitions else subscription.has_topic(tp.topic)
            if not is_read:
                raise OptionError(name, options[name], f"partitions that are read: {tp} is not")


def _check_stream(options: Options) -> None:
    for name in _ENDS:
        if name in options:
            raise OptionError(name, options[name], "it to be left out: a stream has no end")


def _check_batch(options: Options, starting: OffsetLimit, ending: OffsetLimit) -> None:
    if starting.default == LATEST or LATEST in starting.offsets.values():
        expected = "where to begin: a batch that begins at the latest offset has nothing"
        raise OptionError("startingOffsets", options["startingOffsets"], expected)
    if ending.default == EARLIEST or EARLIEST in ending.offsets.values():
        expected = "where to end: a batch that ends at the earliest offset has nothing"
        raise OptionError("endingOffsets", options["endingOffsets"], expected)
    if "commitGroup" in options:
        expected = "it to be left out: nothing tells a source in Python when a batch is done; a stream has it"
        raise OptionError("commitGroup", options["commitGroup"], expected)
    for tp, offset in starting.offsets.items():
        if 0 <= ending.offsets.get(tp, offset) < offset:
            expected = f"offsets that are not behind endingOffsets: {tp} begins at {offset}"
            raise OptionError(
                "startingOffsets", options["startingOffsets"], f"{expected}, ends at {ending.offsets[tp]}"
            )
    for tp, time in starting.timestamps.items():
        last = ending.time_of(tp)
        if last is not None and last < time:
            expected = f"times that are not later than the ending ones: {tp} begins at {time}, ends at {last}"
            raise OptionError("startingOffsetsByTimestamp", options["startingOffsetsByTimestamp"], expected)
    first, last = starting.timestamp_ms, ending.timestamp_ms
    if first is not None and last is not None and last < first:
        expected = f"a time that is not later than endingTimestamp, {ending.timestamp_ms}"
        raise OptionError("startingTimestamp", options["startingTimestamp"], expected)


def _check_portions(options: Options, found: SourceOptions) -> None:
    least, most = found.min_offsets_per_trigger, found.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        expected = f"no more than maxOffsetsPerTrigger, {most}"
        raise OptionError("minOffsetsPerTrigger", options["minOffsetsPerTrigger"], expected)
    if found.max_partitions is not None and (found.min_partitions or found.max_records_per_partition):
        expected = "it to be left out with minPartitions or maxRecordsPerPartition, which divide ranges"
        raise OptionError("maxPartitions", options["maxPartitions"], expected)


def _properties(options: Options, *, is_stream: bool) -> dict[str, str]:
    properties = kafka_properties(options, REFUSED)
    used = used_properties(ReaderConfig, properties)
    triggers = () if is_stream else (name for name in _TRIGGERS if name in options)
    unused = (KAFKA_PREFIX + name for name in properties if name not in used)
    warn_ignored("read", [*options.ignored, *triggers, *unused])
    return {**_BULK, **used}
