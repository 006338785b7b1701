"""A topic's configuration: Kafka's names, types, defaults and checks, and the few values that the log acts upon.

Knows no topic and no file. Kafka's counterparts are ``TopicConfig`` and ``LogConfig``.

Rules:

- every topic option of Kafka 4.1 is known by name, so that any tool can set and read it; those that a dev broker has no
  use for (indexes, throttled replicas, tiers) are checked, kept and shown, and change nothing;
- a value that the broker cannot honour is refused instead of ignored: batches are kept as the producer compressed them,
  so ``compression.type`` is ``producer``, and there are no remote tiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...errors import InvalidConfigError
from ..config import BrokerConfig

__all__ = ["TOPIC_OPTIONS", "TopicConfig", "TopicOption"]

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


class TopicOption(NamedTuple):
    """One option: its default, the check of a value, and its type as DescribeConfigs numbers it."""

    name: str
    default: str
    check: Callable[[str], object]
    type_code: int
    broker_option: str | None = None  # the field of BrokerConfig that the default is taken from


class TopicConfig:
    """One topic's options: the broker's defaults, and over them the topic's own. Replaced as a whole when altered.

    Options the log looks at for each batch are plain attributes, read once here.
    """

    __slots__ = (
        "_broker",
        "flush_messages",
        "is_compacted",
        "max_message_bytes",
        "min_insync_replicas",
        "overrides",
        "segment_bytes",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "uses_log_append_time",
    )

    def __init__(self, broker: BrokerConfig, overrides: Mapping[str, str | None] | None = None) -> None:
        """Raises InvalidConfigError, naming option and value, for an unknown name or a value it cannot have."""
        self._broker = broker
        self.overrides = {name: _checked(name, value) for name, value in (overrides or {}).items()}
        self.max_message_bytes = int(self.value("max.message.bytes"))
        self.uses_log_append_time = self.value("message.timestamp.type") == "LogAppendTime"
        self.timestamp_before_max_ms = int(self.value("message.timestamp.before.max.ms"))
        self.timestamp_after_max_ms = int(self.value("message.timestamp.after.max.ms"))
        self.min_insync_replicas = int(self.value("min.insync.replicas"))
        self.flush_messages = int(self.value("flush.messages"))
        self.segment_bytes = int(self.value("segment.bytes"))
        self.is_compacted = "compact" in self.value("cleanup.policy")

    def value(self, name: str) -> str:
        """The option's value as text: the topic's own, else the broker's default. KeyError for an unknown name."""
        if name in self.overrides:
            return self.overrides[name]
        option = TOPIC_OPTIONS[name]
        return option.default if option.broker_option is None else str(getattr(self._broker, option.broker_option))

    def is_default(self, name: str) -> bool:
        """Whether the option was not set on the topic."""
        return name not in self.overrides

    def altered(self, changes: Mapping[str, str | None]) -> TopicConfig:
        """A copy with these changes; None sets an option back to its default. Raises InvalidConfigError."""
        unknown = [name for name in changes if name not in TOPIC_OPTIONS]
        if unknown:
            raise InvalidConfigError(f"Unknown topic config name: {unknown[0]}")
        merged: dict[str, str | None] = {**self.overrides, **changes}
        return TopicConfig(self._broker, {name: value for name, value in merged.items() if value is not None})


def _checked(name: str, value: str | None) -> str:
    option = TOPIC_OPTIONS.get(name)
    if option is None:
        raise InvalidConfigError(f"Unknown topic config name: {name}")
    if value is None:
        raise InvalidConfigError(f"Null value not supported for topic configs: {name}")
    try:
        option.check(value)
    except ValueError as error:
        raise InvalidConfigError(f"Invalid value {value} for configuration {name}: {error}") from None
    return value.strip()


def _number(low: int, high: int) -> Callable[[str], object]:
    def check(value: str) -> object:
        try:
            number = int(value)
        except ValueError:
            raise ValueError("Not a number") from None
        if not low <= number <= high:
            raise ValueError(f"Value must be between {low} and {high}")
        return number

    return check


def _ratio(value: str) -> object:
    if not 0 <= float(value) <= 1:
        raise ValueError("Value must be between 0 and 1")
    return value


def _one_of(*choices: str) -> Callable[[str], object]:
    def check(value: str) -> object:
        if value.strip() not in choices:
            raise ValueError(f"String must be one of: {', '.join(choices)}")
        return value

    return check


def _some_of(*choices: str) -> Callable[[str], object]:
    def check(value: str) -> object:
        for part in value.split(","):
            if part.strip() not in choices:
                raise ValueError(f"String must be one of: {', '.join(choices)}")
        return value

    return check


def _anything(value: str) -> object:
    return value


_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7  # ConfigEntry.ConfigType
_flag = _one_of("true", "false")
_non_negative_int = _number(0, MAX_INT)
_non_negative_long = _number(0, MAX_LONG)
_any_long = _number(-1, MAX_LONG)

TOPIC_OPTIONS: Final[Mapping[str, TopicOption]] = {
    option.name: option
    for option in (
        TopicOption("cleanup.policy", "delete", _some_of("delete", "compact"), _LIST, "cleanup_policy"),
        TopicOption("compression.gzip.level", "-1", _number(-1, 9), _INT),
        TopicOption("compression.lz4.level", "9", _number(1, 17), _INT),
        TopicOption("compression.type", "producer", _one_of("producer"), _STRING, "compression_type"),
        TopicOption("compression.zstd.level", "3", _number(-131072, 22), _INT),
        TopicOption("delete.retention.ms", "86400000", _non_negative_long, _LONG),
        TopicOption("file.delete.delay.ms", "60000", _non_negative_long, _LONG),
        TopicOption("flush.messages", str(MAX_LONG), _number(1, MAX_LONG), _LONG),
        TopicOption("flush.ms", str(MAX_LONG), _non_negative_long, _LONG),
        TopicOption("follower.replication.throttled.replicas", "", _anything, _LIST),
        TopicOption("index.interval.bytes", "4096", _non_negative_int, _INT),
        TopicOption("leader.replication.throttled.replicas", "", _anything, _LIST),
        TopicOption("local.retention.bytes", "-2", _number(-2, MAX_LONG), _LONG),
        TopicOption("local.retention.ms", "-2", _number(-2, MAX_LONG), _LONG),
        TopicOption("max.compaction.lag.ms", str(MAX_LONG), _number(1, MAX_LONG), _LONG),
        TopicOption("max.message.bytes", "1048588", _non_negative_int, _INT, "message_max_bytes"),
        TopicOption(
            "message.timestamp.after.max.ms", "3600000", _non_negative_long, _LONG, "message_timestamp_after_max_ms"
        ),
        TopicOption(
            "message.timestamp.before.max.ms",
            str(MAX_LONG),
            _non_negative_long,
            _LONG,
            "message_timestamp_before_max_ms",
        ),
        TopicOption(
            "message.timestamp.type",
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            _STRING,
            "message_timestamp_type",
        ),
        TopicOption("min.cleanable.dirty.ratio", "0.5", _ratio, _DOUBLE),
        TopicOption("min.compaction.lag.ms", "0", _non_negative_long, _LONG),
        TopicOption("min.insync.replicas", "1", _number(1, MAX_INT), _INT, "min_insync_replicas"),
        TopicOption("preallocate", "false", _flag, _BOOLEAN),
        TopicOption("remote.log.copy.disable", "false", _one_of("false"), _BOOLEAN),
        TopicOption("remote.log.delete.on.disable", "false", _one_of("false"), _BOOLEAN),
        TopicOption("remote.storage.enable", "false", _one_of("false"), _BOOLEAN),
        TopicOption("retention.bytes", "-1", _any_long, _LONG, "retention_bytes"),
        TopicOption("retention.ms", "604800000", _any_long, _LONG, "retention_ms"),
        # Kafka asks for 1 MiB at least; a small segment lets a test see one roll.
        TopicOption("segment.bytes", "1073741824", _number(14, MAX_INT), _INT, "segment_bytes"),
        TopicOption("segment.index.bytes", "10485760", _number(4, MAX_INT), _INT),
        TopicOption("segment.jitter.ms", "0", _non_negative_long, _LONG),
        TopicOption("segment.ms", "604800000", _number(1, MAX_LONG), _LONG),
        TopicOption("unclean.leader.election.enable", "false", _flag, _BOOLEAN),
    )
}
