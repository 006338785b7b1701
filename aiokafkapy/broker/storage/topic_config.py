"""A topic's configuration: Kafka's names, types, defaults and checks, and the few values that the log acts upon.

Knows no topic and no file. Kafka's counterparts are ``TopicConfig`` and ``LogConfig``.

Rules:

- every topic option of Kafka 4.1 is known by name, so that any tool can set and read it; those without a meaning
  for a dev broker (indexes, throttled replicas, tiers) are checked, kept and shown, and change nothing;
- a value that the broker cannot honour is refused instead of ignored: batches are kept as the producer compressed them,
  so ``compression.type`` is ``producer``, and there are no remote tiers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from ...common import MAX_INT, MAX_LONG
from ...errors import ConfigurationError, InvalidConfigError
from ..config import BrokerConfig

__all__ = ["TOPIC_OPTIONS", "ConfigType", "TopicConfig", "TopicOption", "check_defaults"]


Parse: TypeAlias = Callable[[str], str]
"""A value as Kafka shows it: trimmed, ``True`` as ``true``, ``+5`` as ``5``. Raises _Refused."""
_Number = TypeVar("_Number", int, float)


class ConfigType(IntEnum):
    """Kafka's ``ConfigEntry.ConfigType``: the types of options, as DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class TopicOption(NamedTuple):
    """One option: the parser of its values, its type, and its default, which is a text or an option of the broker."""

    name: str
    parse: Parse
    kind: ConfigType
    default: str = ""
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
        """Raises InvalidConfigError, naming option and value, for an unknown name, an invalid value, or two
        values that contradict each other.
        """
        self._broker = broker
        self.overrides = {name: _parsed(name, value) for name, value in (overrides or {}).items()}
        self.max_message_bytes = int(self.value("max.message.bytes"))
        self.uses_log_append_time = self.value("message.timestamp.type") == "LogAppendTime"
        self.timestamp_before_max_ms = int(self.value("message.timestamp.before.max.ms"))
        self.timestamp_after_max_ms = int(self.value("message.timestamp.after.max.ms"))
        self.min_insync_replicas = int(self.value("min.insync.replicas"))
        self.flush_messages = int(self.value("flush.messages"))
        self.segment_bytes = int(self.value("segment.bytes"))
        self.is_compacted = "compact" in self.value("cleanup.policy")
        least, most = (int(self.value(f"{bound}.compaction.lag.ms")) for bound in ("min", "max"))
        if least > most:
            raise InvalidConfigError(
                f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
            )

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
        """A copy with these changes; None sets an option back to its default, and is ignored for an unknown one. Raises
        InvalidConfigError.
        """
        merged: dict[str, str | None] = {**self.overrides, **changes}
        return TopicConfig(self._broker, {name: value for name, value in merged.items() if value is not None})


def check_defaults(broker: BrokerConfig) -> None:
    """Raise ConfigurationError for a broker's option that gives topics a default which no topic can have."""
    for option in TOPIC_OPTIONS.values():
        if option.broker_option is None:
            continue
        value = getattr(broker, option.broker_option)
        try:
            option.parse(str(value))
        except _Refused as error:
            raise ConfigurationError(f"{option.broker_option}={value!r}: {error.problem}") from None


def _parsed(name: str, value: str | None) -> str:
    option = TOPIC_OPTIONS.get(name)
    if option is None:
        raise InvalidConfigError(f"Unknown topic config name: {name}")
    if value is None:
        raise InvalidConfigError(f"Null value not supported for topic configs: {name}")
    try:
        return option.parse(value)
    except _Refused as error:
        raise InvalidConfigError(f"Invalid value {error.value} for configuration {name}: {error.problem}") from None


class _Refused(Exception):
    """A value that an option cannot have, or the part of it that is wrong."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(value, problem)
        self.value = value
        self.problem = problem


# types of options, parsed and written as by Kafka's ``ConfigDef``

_INTEGER: Final = re.compile(r"[+-]?\d{1,99}")
_DECIMAL: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)


def _number(kind: str, most: int, low: int, high: int | None = None) -> Parse:
    def parse(value: str) -> str:
        # Not int() alone, which takes 1_000.
        if not _INTEGER.fullmatch(value.strip()) or not -most - 1 <= int(value) <= most:
            raise _Refused(value, f"Not a number of type {kind}")
        return str(_bounded(int(value), low, high))

    return parse


def _bounded(number: _Number, low: int, high: int | None) -> _Number:
    if number < low:
        raise _Refused(number, f"Value must be at least {low}")
    if high is not None and number > high:
        raise _Refused(number, f"Value must be no more than {high}")
    return number


def _int(low: int, high: int | None = None) -> Parse:
    return _number("INT", MAX_INT, low, high)


def _long(low: int) -> Parse:
    return _number("LONG", MAX_LONG, low)


def _gzip_level(value: str) -> str:
    level = _int(-MAX_INT)(value)
    if level != "-1" and not 1 <= int(level) <= 9:
        raise _Refused(level, "Value must be between 1 and 9 or equal to -1")
    return level


def _ratio(value: str) -> str:
    found = _DECIMAL.fullmatch(value.strip())
    if found is None:
        raise _Refused(value, "Not a number of type DOUBLE")
    return str(_bounded(float(found[1]), 0, 1))


def _flag(value: str) -> str:
    text = value.strip().lower()
    if text not in ("true", "false"):
        raise _Refused(value, "Expected value to be either true or false")
    return text


def _off(value: str) -> str:
    text = _flag(value)
    if text != "false":
        raise _Refused(value, "there are no remote tiers")
    return text


def _one_of(*choices: str) -> Parse:
    def parse(value: str) -> str:
        text = value.strip()
        if text not in choices:
            raise _Refused(text, f"String must be one of: {', '.join(choices)}")
        return text

    return parse


def _some_of(*choices: str) -> Parse:
    parse_one = _one_of(*choices)
    return lambda value: ",".join(map(parse_one, _parts(value)))


def _replicas(value: str) -> str:
    parts = _parts(value)
    if parts != ["*"] and not all(re.fullmatch(r"([0-9]+:[0-9]+)?", part) for part in parts):
        problem = "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],…"
        raise _Refused(f"[{', '.join(parts)}]", problem)
    return ",".join(parts)


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")] if value.strip() else []


TOPIC_OPTIONS: Final[Mapping[str, TopicOption]] = {
    option.name: option
    for option in (
        TopicOption("cleanup.policy", _some_of("compact", "delete"), ConfigType.LIST, broker_option="cleanup_policy"),
        TopicOption("compression.gzip.level", _gzip_level, ConfigType.INT, "-1"),
        TopicOption("compression.lz4.level", _int(1, 17), ConfigType.INT, "9"),
        TopicOption("compression.type", _one_of("producer"), ConfigType.STRING, broker_option="compression_type"),
        TopicOption("compression.zstd.level", _int(-131072, 22), ConfigType.INT, "3"),
        TopicOption("delete.retention.ms", _long(0), ConfigType.LONG, "86400000"),
        TopicOption("file.delete.delay.ms", _long(0), ConfigType.LONG, "60000"),
        TopicOption("flush.messages", _long(1), ConfigType.LONG, str(MAX_LONG)),
        TopicOption("flush.ms", _long(0), ConfigType.LONG, str(MAX_LONG)),
        TopicOption("follower.replication.throttled.replicas", _replicas, ConfigType.LIST, ""),
        TopicOption("index.interval.bytes", _int(0), ConfigType.INT, "4096"),
        TopicOption("leader.replication.throttled.replicas", _replicas, ConfigType.LIST, ""),
        TopicOption("local.retention.bytes", _long(-2), ConfigType.LONG, "-2"),
        TopicOption("local.retention.ms", _long(-2), ConfigType.LONG, "-2"),
        TopicOption("max.compaction.lag.ms", _long(1), ConfigType.LONG, str(MAX_LONG)),
        TopicOption("max.message.bytes", _int(0), ConfigType.INT, broker_option="message_max_bytes"),
        TopicOption(
            "message.timestamp.after.max.ms", _long(0), ConfigType.LONG, broker_option="message_timestamp_after_max_ms"
        ),
        TopicOption(
            "message.timestamp.before.max.ms",
            _long(0),
            ConfigType.LONG,
            broker_option="message_timestamp_before_max_ms",
        ),
        TopicOption(
            "message.timestamp.type",
            _one_of("CreateTime", "LogAppendTime"),
            ConfigType.STRING,
            broker_option="message_timestamp_type",
        ),
        TopicOption("min.cleanable.dirty.ratio", _ratio, ConfigType.DOUBLE, "0.5"),
        TopicOption("min.compaction.lag.ms", _long(0), ConfigType.LONG, "0"),
        TopicOption("min.insync.replicas", _int(1), ConfigType.INT, broker_option="min_insync_replicas"),
        TopicOption("preallocate", _flag, ConfigType.BOOLEAN, "false"),
        TopicOption("remote.log.copy.disable", _off, ConfigType.BOOLEAN, "false"),
        TopicOption("remote.log.delete.on.disable", _off, ConfigType.BOOLEAN, "false"),
        TopicOption("remote.storage.enable", _off, ConfigType.BOOLEAN, "false"),
        TopicOption("retention.bytes", _long(-1), ConfigType.LONG, broker_option="retention_bytes"),
        TopicOption("retention.ms", _long(-1), ConfigType.LONG, broker_option="retention_ms"),
        # Kafka asks for 1 MiB at least; a small segment lets a test see one roll.
        TopicOption("segment.bytes", _int(14), ConfigType.INT, broker_option="segment_bytes"),
        TopicOption("segment.index.bytes", _int(4), ConfigType.INT, "10485760"),
        TopicOption("segment.jitter.ms", _long(0), ConfigType.LONG, "0"),
        TopicOption("segment.ms", _long(1), ConfigType.LONG, "604800000"),
        TopicOption("unclean.leader.election.enable", _flag, ConfigType.BOOLEAN, "false"),
    )
}
