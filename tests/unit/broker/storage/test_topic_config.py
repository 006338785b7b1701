"""Topic options: known by Kafka's names, checked, and as the log sees them."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.storage.topic_config import TOPIC_OPTIONS, TopicConfig, check_defaults
from aiokafkapy.errors import ConfigurationError, InvalidConfigError


def test_every_default_is_a_value_the_option_takes() -> None:
    config = TopicConfig(BrokerConfig())
    again = TopicConfig(BrokerConfig(), {name: config.value(name) for name in TOPIC_OPTIONS})
    assert all(again.value(name) == config.value(name) for name in TOPIC_OPTIONS)


def test_defaults_are_the_brokers() -> None:
    config = TopicConfig(BrokerConfig.of(message_max_bytes=123, message_timestamp_type="LogAppendTime"))
    assert (config.max_message_bytes, config.uses_log_append_time) == (123, True)
    assert config.is_default("max.message.bytes")


def test_a_default_that_no_topic_can_have_is_refused_by_the_brokers_name_of_it() -> None:
    check_defaults(BrokerConfig.of(cleanup_policy="compact, delete", retention_ms=-1))
    with pytest.raises(ConfigurationError, match="cleanup_policy='archive': String must be one of: compact, delete"):
        check_defaults(BrokerConfig.of(cleanup_policy="archive"))
    with pytest.raises(ConfigurationError, match="compression_type='gzip': String must be one of: producer"):
        check_defaults(BrokerConfig.of(compression_type="gzip"))
    with pytest.raises(ConfigurationError, match="retention_ms=-2: Value must be at least -1"):
        check_defaults(BrokerConfig.of(retention_ms=-2))


def test_a_topics_own_value_comes_first() -> None:
    config = TopicConfig(BrokerConfig(), {"max.message.bytes": " 77 ", "cleanup.policy": "compact,delete"})
    assert (config.max_message_bytes, config.is_compacted) == (77, True)
    assert not config.is_default("max.message.bytes")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "big"),
        ("message.timestamp.type", "createtime"),
        ("cleanup.policy", "archive"),
        ("min.insync.replicas", "0"),
        ("compression.type", "lz4"),
        ("remote.storage.enable", "true"),
        ("retention.ms", "-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "1e3"),
        ("retention.ms", ""),
        ("retention.ms", "9223372036854775808"),
        ("retention.ms", "9" * 5_000),
        ("max.message.bytes", "2147483648"),
        ("compression.gzip.level", "0"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "nan"),
    ],
)
def test_a_value_the_option_cannot_have_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"Invalid value {value} for configuration {name}"):
        TopicConfig(BrokerConfig(), {name: value})


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("preallocate", str(True), "true"),
        ("remote.storage.enable", "FALSE", "false"),
        ("retention.ms", "+5", "5"),
        ("retention.ms", " 007 ", "7"),
        ("min.cleanable.dirty.ratio", "0.5d", "0.5"),
        ("cleanup.policy", " compact , delete", "compact,delete"),
        ("cleanup.policy", "", ""),
        ("compression.gzip.level", "-1", "-1"),
        ("follower.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"),
    ],
)
def test_a_value_is_taken_and_shown_as_kafka_does(name: str, value: str, shown: str) -> None:
    assert TopicConfig(BrokerConfig(), {name: value}).value(name) == shown


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("cleanup.policy", "compact,", "Invalid value  for configuration"),
        ("cleanup.policy", "delete,archive", "Invalid value archive for configuration"),
        ("min.cleanable.dirty.ratio", "2", "Invalid value 2.0 .* no more than 1"),
        ("follower.replication.throttled.replicas", "0:1,bad", r"Invalid value \[0:1, bad\] for .* literal '\*'"),
    ],
)
def test_the_part_of_a_value_that_is_wrong_is_named(name: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        TopicConfig(BrokerConfig(), {name: value})


def test_two_options_may_not_contradict_each_other() -> None:
    config = TopicConfig(BrokerConfig(), {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "100"})
    with pytest.raises(InvalidConfigError, match=r"min\.compaction\.lag\.ms \(100\) > max\.compaction\.lag\.ms \(50\)"):
        config.altered({"max.compaction.lag.ms": "50"})


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(InvalidConfigError, match=r"Unknown topic config name: retention\.days"):
        TopicConfig(BrokerConfig(), {"retention.days": "1"})
    with pytest.raises(InvalidConfigError, match=r"Unknown topic config name: retention\.days"):
        TopicConfig(BrokerConfig()).altered({"retention.days": "1"})
    assert not TopicConfig(BrokerConfig()).altered({"retention.days": None}).overrides


def test_null_is_not_a_value() -> None:
    with pytest.raises(InvalidConfigError, match="Null value"):
        TopicConfig(BrokerConfig(), {"retention.ms": None})


def test_altering_makes_a_new_one() -> None:
    config = TopicConfig(BrokerConfig(), {"retention.ms": "1", "segment.bytes": "100"})
    altered = config.altered({"retention.ms": None, "max.message.bytes": "5"})
    assert altered.overrides == {"segment.bytes": "100", "max.message.bytes": "5"}
    assert config.overrides == {"retention.ms": "1", "segment.bytes": "100"}
