"""Options of single topics: their valid values, and their way into the producer's configuration."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy import ProducerConfig, TopicOptions
from aiokafkapy.errors import ConfigurationError


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="h:1", **options)


def test_a_topic_has_its_own_options_and_the_producers_others() -> None:
    topics = {"clicks": TopicOptions(linger_ms=50, batch_size=1000, compression_type="zstd", compression_level=7)}
    found = config(acks=1, linger_ms=5, topics=topics).for_topic("clicks")
    assert (found.linger_ms, found.batch_size, found.compression_type) == (50, 1000, "zstd")
    assert found.compression_level == 7
    assert found.acks == 1
    assert config(topics=topics).for_topic("orders").linger_ms is None


def test_dicts_and_json_are_understood_in_properties_and_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"clicks": {"linger_ms": 50, "overflow": "drop_oldest"}}'
    expected = config(topics={"clicks": TopicOptions(linger_ms=50, overflow="drop_oldest")})
    assert config(topics={"clicks": {"linger_ms": 50, "overflow": "drop_oldest"}}) == expected
    assert ProducerConfig.from_properties({"bootstrap.servers": "h:1", "topics": text}) == expected
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "h:1")
    monkeypatch.setenv("AIOKAFKAPY_TOPICS", text)
    assert ProducerConfig.from_env() == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks": 1}, "'acks' is not an option of a single topic: it is of a request"),
        ({"lingerms": 1}, "'lingerms' is not an option of a single topic: it is unknown; there are linger_ms"),
        ({"linger_ms": -1}, "linger_ms=-1: .*greater than or equal to 0"),
        ({"linger_ms": True}, "linger_ms=True: .*not a bool"),
        ({"batch_size": "many"}, "batch_size='many'"),
        ({"overflow": "spill"}, "overflow='spill'"),
        ({"priority": "urgent"}, "priority='urgent'"),
        ({"priority": True}, "priority=True"),
        ({"compression_level": 3}, "compression_level=3 needs a compression_type"),
        ({"compression_type": "snappy", "compression_level": 3}, "needs a compression_type that has levels"),
        ({"compression_type": "gzip", "compression_level": 12}, "compression_level=12 of gzip is out of range"),
        ({"compression_type": "gzip", "compression_level": 0}, "write 1 to 9, or -1 for the default"),
        ({"compression_type": "zstd", "compression_level": 10**5000}, "<a number of 16610 bits> of zstd is out of"),
        ({"compression_level": 10**5000}, "<a number of 16610 bits> needs a compression_type"),
        ({"batch_size": 10**5000}, "batch_size=<a number of 16610 bits>: .*less than or equal"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_the_reason(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        TopicOptions(**options)
    with pytest.raises(ConfigurationError, match=f"'clicks': .*{words}"):
        config(topics={"clicks": options})


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ([], "a mapping from topics to TopicOptions is needed, not list"),
        ({"clicks": 5}, "'clicks': TopicOptions\\(…\\) is needed, not int"),
        ({5: {}}, "the name of a topic is a int"),
        ("{", "write JSON"),
        ("[" * 200_000, "write JSON"),
        ({"clicks": {5: 6}}, "'clicks': the name of an option is a int"),
    ],
)
def test_an_object_that_is_not_a_mapping_of_options_is_refused(topics: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        config(topics=topics)


def test_a_topics_linger_must_leave_time_for_an_answer() -> None:
    with pytest.raises(ConfigurationError, match=r"of topic 'clicks'.*write delivery_timeout_ms=150000 or more"):
        config(topics={"clicks": {"linger_ms": 120_000}})
    longest = 2**31 - 1  # as for the producer's own
    assert config(topics={"clicks": {"linger_ms": longest}}, delivery_timeout_ms=longest).for_topic("clicks").linger_ms


def test_a_level_may_be_for_a_topics_codec_only() -> None:
    found = config(compression_gzip_level=3, topics={"clicks": {"compression_type": "gzip"}})
    assert found.for_topic("clicks").compression_level == 3


class TestOverflow:
    @pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
    @pytest.mark.parametrize("other", [{"transactional_id": "t"}, {"enable_gapless_guarantee": True}])
    @pytest.mark.parametrize("is_of_topic", [True, False])
    def test_a_producer_without_gaps_drops_nothing(self, policy: str, other: dict[str, Any], is_of_topic: bool) -> None:
        overflow: dict[str, Any] = {"topics": {"clicks": {"overflow": policy}}} if is_of_topic else {"overflow": policy}
        with pytest.raises(ConfigurationError, match=f"overflow='{policy}' contradicts {next(iter(other))}"):
            config(**overflow, **other)

    def test_with_manual_flush_no_call_waits(self) -> None:
        assert config(manual_flush=True).overflow == "raise"
        assert ProducerConfig.from_properties({"bootstrap.servers": "h:1", "manual.flush": "true"}).overflow == "raise"
        for options in ({"overflow": "wait"}, {"topics": {"clicks": {"overflow": "wait"}}}):
            with pytest.raises(ConfigurationError, match="overflow='wait' contradicts manual_flush=True"):
                config(manual_flush=True, **options)
        with pytest.raises(ConfigurationError, match="linger_ms=5 has no effect with manual_flush"):
            config(manual_flush=True, linger_ms=5)
        with pytest.raises(ConfigurationError, match="linger_ms=5 of topic 'clicks' has no effect"):
            config(manual_flush=True, topics={"clicks": {"linger_ms": 5}})


def test_a_topics_codec_may_be_chosen_as_it_goes() -> None:
    chosen = config(topics={"clicks": TopicOptions(compression_type="auto")})
    assert chosen.chooses_codecs
    assert config(compression_type="AUTO").chooses_codecs
    assert not config(compression_type="lz4").chooses_codecs
    assert chosen.for_topic("clicks").compression_level is None
    with pytest.raises(ConfigurationError, match="needs a compression_type that has levels"):
        TopicOptions(compression_type="auto", compression_level=3)
    with pytest.raises(ConfigurationError, match="compression_zstd_level=5 has no effect"):
        config(compression_type="auto", compression_zstd_level=5)


def test_priority_is_among_topics_and_leaves_the_producers_options_alone() -> None:
    found = config(topics={"alerts": {"priority": "high"}, "clicks": {"priority": "normal"}, "t": {"linger_ms": 1}})
    assert found.priority_topics == {"alerts"}
    assert found.for_topic("alerts") == found
    assert config().priority_topics == frozenset()


@pytest.mark.parametrize("percent", [-1, 91, True, 0.5])
def test_the_share_that_is_kept_is_a_whole_number_of_per_cent(percent: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"priority_reserve_percent={percent}"):
        config(priority_reserve_percent=percent, topics={"alerts": {"priority": "high"}})


def test_the_share_needs_a_topic() -> None:
    with pytest.raises(ConfigurationError, match="priority_reserve_percent=5 has no effect without a topic"):
        config(priority_reserve_percent=5, topics={"clicks": {"priority": "normal"}})
