"""The producer's options: Kafka's names and defaults; contradictions are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.given_config import make_config
from aiokafkapy.producer.options.topic_options import TopicOptions
from aiokafkapy.record.compression import Compression


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(**({"bootstrap_servers": "h:9092"} | options))


def test_the_defaults_are_kafkas_but_for_the_three_that_are_documented() -> None:
    found = config()
    assert (found.acks, found.enable_idempotence, found.retries) == ("all", True, 2**31 - 1)
    assert (found.delivery_timeout_ms, found.max_block_ms, found.request_timeout_ms) == (120_000, 60_000, 30_000)
    assert (found.buffer_memory, found.max_request_size) == (33_554_432, 1_048_576)
    assert found.max_in_flight_requests_per_connection == 5
    assert (found.compression_type, found.compression_gzip_level) == ("none", -1)
    assert (found.compression_lz4_level, found.compression_zstd_level) == (9, 3)
    assert (found.linger_ms, found.batch_size, found.connections_max_idle_ms) == (None, 131_072, 180_000)
    assert found.effective_linger_ms == 5


def test_requests_in_flight_are_a_number_or_adapt() -> None:
    found = config(max_in_flight_requests_per_connection="auto")
    assert (found.max_in_flight_requests_per_connection, found.most_in_flight) == ("auto", 5)
    assert not found.guarantee_message_order
    assert config(max_in_flight_requests_per_connection="auto", enable_idempotence=False).most_in_flight == 16
    assert config(max_in_flight_requests_per_connection=3).most_in_flight == 3
    properties = {"bootstrap.servers": "h:1", "max.in.flight.requests.per.connection": "auto"}
    assert ProducerConfig.from_properties(properties).max_in_flight_requests_per_connection == "auto"
    with pytest.raises(ConfigurationError, match="='auto' contradicts acks=0: there are no answers"):
        config(max_in_flight_requests_per_connection="auto", acks=0)
    for value in ("some", 0, True, "Auto"):
        with pytest.raises(ConfigurationError, match=f"max_in_flight_requests_per_connection='?{value}"):
            config(max_in_flight_requests_per_connection=value)


@pytest.mark.parametrize(
    ("given", "expected", "on_the_wire"),
    [("all", "all", -1), (-1, "all", -1), ("-1", "all", -1), (0, 0, 0), ("0", 0, 0), (1, 1, 1), ("1", 1, 1)],
)
def test_acks_in_every_spelling(given: Any, expected: Any, on_the_wire: int) -> None:
    found = config(acks=given, enable_idempotence=False)
    assert found.acks == expected
    assert found.required_acks == on_the_wire


@pytest.mark.parametrize("given", [2, "some", True, None])
def test_other_acks_are_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="acks"):
        config(acks=given)


def test_more_than_five_in_flight_take_a_word_on_idempotence() -> None:
    """Order and the absence of duplicates are not given up in silence, as in Kafka 4."""
    with pytest.raises(ConfigurationError, match=r"max_in_flight_requests_per_connection=6: write 5 or less"):
        config(max_in_flight_requests_per_connection=6)
    assert not config(max_in_flight_requests_per_connection=6, enable_idempotence=False).enable_idempotence
    assert not config(max_in_flight_requests_per_connection=6, acks=1).enable_idempotence


@pytest.mark.parametrize("option", [{"acks": 1}, {"acks": 0}, {"retries": 0}])
def test_idempotence_left_to_its_default_gives_way_and_asked_for_is_an_error(option: dict[str, Any]) -> None:
    assert not config(**option).enable_idempotence
    assert not config(enable_idempotence=False, **option).enable_idempotence
    with pytest.raises(ConfigurationError, match=next(iter(option))) as caught:
        config(enable_idempotence=True, **option)
    assert "enable_idempotence=False" in str(caught.value)


def test_a_delivery_timeout_too_short_for_one_answer_says_the_least() -> None:
    with pytest.raises(ConfigurationError, match="delivery_timeout_ms=30100 or more"):
        config(delivery_timeout_ms=20_000, linger_ms=100)
    assert config(delivery_timeout_ms=30_005).delivery_timeout_ms == 30_005


def test_a_delivery_timeout_that_was_not_given_grows_with_the_others() -> None:
    assert config(request_timeout_ms=200_000).delivery_timeout_ms == 200_005
    assert config(linger_ms=100_000).delivery_timeout_ms == 130_000
    assert config(linger_ms=1_000).delivery_timeout_ms == 120_000


def test_no_delivery_timeout_is_asked_for_that_cannot_be_given() -> None:
    """The sum of the two others ends at the largest int, as in Java."""
    assert config(linger_ms=2**31).delivery_timeout_ms == 2**31 - 1
    assert config(linger_ms=2**31 - 1, delivery_timeout_ms=2**31 - 1).linger_ms == 2**31 - 1
    with pytest.raises(ConfigurationError, match="write delivery_timeout_ms=2147483647 or more"):
        config(linger_ms=2**31, delivery_timeout_ms=120_000)


def test_a_producer_that_could_never_start_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"max_block_ms=0: start\(\) would not wait"):
        config(max_block_ms=0)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, field in ProducerConfig.model_fields.items()
        if field.annotation is int or "int" in str(field.annotation).partition("tuple")[0]
    ],
)
def test_no_number_is_taken_that_no_request_or_clock_has_room_for(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}=<a number of \d+ bits> is out of range: write at most \d+"):
        config(**{name: 10**5_000})


def test_a_level_without_its_codec_contradicts() -> None:
    with pytest.raises(ConfigurationError, match="compression_type='zstd'"):
        config(compression_zstd_level=9)
    with pytest.raises(ConfigurationError, match="compression_lz4_level"):
        config(compression_type="gzip", compression_lz4_level=3)
    found = config(compression_type="ZSTD", compression_zstd_level=9)
    assert found.compression is Compression.ZSTD
    assert found.compression_level == 9
    assert config(compression_type="snappy").compression_level is None


@pytest.mark.parametrize(
    "option",
    [
        {"compression_type": "brotli"}, {"compression_type": "gzip", "compression_gzip_level": 0},
        {"compression_type": "gzip", "compression_gzip_level": 10}, {"linger_ms": -1}, {"batch_size": -1},
        {"buffer_memory": 0}, {"max_request_size": 0}, {"retries": -1}, {"max_block_ms": -5},
        {"max_request_size": 50_000_000}, {"transactional_id": ""}, {"key_serializer": "org.apache.StringSerializer"},
        {"partitioner_ignore_keys": True, "partitioner": lambda *_: 0},
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        config(**option)
    assert any(name in str(caught.value) for name in option)


def test_gzip_has_no_level_0_in_text_either() -> None:
    properties = {"bootstrap.servers": "h:1", "compression.type": "gzip", "compression.gzip.level": "0"}
    with pytest.raises(ConfigurationError, match="compression_gzip_level='0': write 1 to 9, or -1 for the default"):
        ProducerConfig.from_properties(properties)


def test_unknown_options_are_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match="linger_ms"):
        config(lingerms=5)
    with pytest.raises(ConfigurationError, match="linger_ms"):
        config(**{"linger.ms": 5})


def test_from_properties_reads_kafkas_own_spelling() -> None:
    found = ProducerConfig.from_properties(
        {"bootstrap.servers": "h:9092", "linger.ms": "5", "acks": "1", "compression.type": "lz4", "batch.size": "1000"}
    )
    assert (found.linger_ms, found.acks, found.compression_type, found.batch_size) == (5, 1, "lz4", 1000)
    assert not found.enable_idempotence


def test_from_env_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "h:9092")
    monkeypatch.setenv("AIOKAFKAPY_LINGER_MS", "7")
    assert ProducerConfig.from_env().linger_ms == 7
    monkeypatch.setenv("AIOKAFKAPY_LINGER_MS", "adaptive")
    assert ProducerConfig.from_env().linger_ms is None


def test_a_configuration_never_changes() -> None:
    with pytest.raises(ValidationError):
        config().linger_ms = 5


def test_one_request_in_flight_guarantees_order() -> None:
    assert config(max_in_flight_requests_per_connection=1).guarantee_message_order
    assert not config().guarantee_message_order


def test_a_configuration_or_options_but_not_both() -> None:
    ready = config(linger_ms=3)
    assert make_config(None, ready, {"key_serializer": None}) is ready
    assert make_config("h:1", None, {"linger_ms": None, "value_serializer": None}).linger_ms is None
    with pytest.raises(ConfigurationError, match="linger_ms"):
        make_config(None, ready, {"linger_ms": 5})
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        make_config("h:1", ready, {})
    with pytest.raises(ConfigurationError, match="ProducerConfig"):
        make_config(None, {"linger_ms": 5}, {})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="bootstrap_servers is missing"):
        make_config(None, None, {})


@pytest.mark.parametrize("name", ["default", "crc32", "org.apache.kafka.RoundRobinPartitioner"])
def test_a_partitioner_given_by_name_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"partitioner='.*leave it out"):
        config(partitioner=name)


@pytest.mark.parametrize(("name", "kept"), [("murmur2", None), ("murmur2_random", None), ("fnv1a", "fnv1a")])
def test_a_partitioner_may_be_another_client_s_by_name(name: str, kept: str | None) -> None:
    assert config(partitioner=name).partitioner == kept
    assert ProducerConfig.from_properties({"bootstrap.servers": "h:1", "partitioner": name}).partitioner == kept


def test_a_partitioner_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="int is neither a function"):
        config(partitioner=5)


class TestSpool:
    def test_a_folder_is_enough(self, tmp_path: Path) -> None:
        config = ProducerConfig(bootstrap_servers="h:1", spool_dir=tmp_path)
        assert (config.spool_dir, config.overflow, config.spool_fsync) == (str(tmp_path), "spool", "always")
        assert ProducerConfig.from_properties({"bootstrap.servers": "h:1", "spool_dir": "/x"}).overflow == "spool"
        topics = {"t": TopicOptions(overflow="spool")}
        assert ProducerConfig(bootstrap_servers="h:1", spool_dir="/x", overflow="wait", topics=topics)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"overflow": "spool"}, "overflow='spool' needs a folder: write spool_dir="),
            ({"spool_max_bytes": 2**30}, "spool_max_bytes=1073741824 has no effect without spool_dir"),
            ({"spool_after_ms": 1}, "spool_after_ms=1 has no effect without spool_dir"),
            ({"spool_dir": ""}, "write the path of a folder"),
            ({"spool_dir": "/x", "overflow": "wait"}, "spool_dir='/x' has no effect with overflow='wait'"),
            ({"spool_dir": "/x", "transactional_id": "t"}, "contradicts transactional_id='t': a transaction ends"),
            ({"spool_dir": "/x", "enable_gapless_guarantee": True}, "contradicts enable_gapless_guarantee=True"),
            ({"cancel_takes_back": True, "enable_gapless_guarantee": True}, "records taken back would leave gaps"),
            ({"spool_dir": "/x", "manual_flush": True}, "contradicts manual_flush=True: nothing would be sent"),
            ({"spool_dir": "/x", "acks": 0}, "contradicts acks=0: without answers"),
            (
                {"spool_dir": "/x", "spool_max_bytes": 1000},
                "spool_max_bytes=1000 is less than max_request_size=1048576: .* write spool_max_bytes=1048576 or more",
            ),
        ],
    )
    def test_a_value_that_makes_no_sense_is_refused_in_words(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            ProducerConfig(bootstrap_servers="h:1", **options)


def test_linger_may_be_a_number_none_or_auto() -> None:
    for given in ("auto", "AUTO", " Auto "):
        assert config(linger_ms=given).linger_ms == "auto"
    found = ProducerConfig.from_properties({"bootstrap.servers": "h:1", "linger.ms": "auto"})
    assert (found.linger_ms, found.effective_linger_ms) == ("auto", 20)
    assert config(linger_ms="adaptive").linger_ms is None
    assert config(linger_ms="auto", request_timeout_ms=200_000).delivery_timeout_ms == 200_020
    for odd in ("automatic", 1.5, True, -1, [1]):
        with pytest.raises(ConfigurationError, match="linger_ms="):
            config(linger_ms=odd)
    with pytest.raises(ConfigurationError, match=r"linger_ms \+ request_timeout_ms = 20 \+ 1000"):
        config(linger_ms="auto", request_timeout_ms=1_000, delivery_timeout_ms=1_019)
    with pytest.raises(ConfigurationError, match="linger_ms=auto has no effect"):
        config(linger_ms="auto", manual_flush=True)
