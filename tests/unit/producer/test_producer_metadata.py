"""Topics in use, new topics, and topics that are not used any more."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.cluster.cluster import TopicMetadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.errors import InvalidTopicError, KafkaError
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS


@pytest.fixture
def metadata() -> ProducerMetadata:
    options = PRODUCER_METADATA_OPTIONS.copy()
    options["metadata_max_idle_ms"] = 10_000
    metadata = ProducerMetadata(**options)
    metadata.bootstrap([("h", 1)])
    answer(metadata, now=0.0)
    return metadata


def answer(metadata: ProducerMetadata, now: float, topics: dict[str, int] | None = None) -> Any:
    """Send the request that is due and answer it; topics with their error codes, 0 with one partition."""
    request = metadata.new_request(now)
    partition = {
        "error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 1, "replica_nodes": [1],
        "isr_nodes": [1], "offline_replicas": [],
    }  # fmt: skip
    body = build_response(
        ApiKey.METADATA,
        9,
        brokers=[{"node_id": 1, "host": "h", "port": 1, "rack": None}],
        topics=[
            {"error_code": code, "name": name, "partitions": [] if code else [partition]}
            for name, code in (topics or {}).items()
        ],
    )
    metadata.update(request.request_version, MetadataAnswer(body), now, is_partial=request.is_partial)
    return request


def test_a_new_topic_is_asked_for_at_once_and_alone(metadata: ProducerMetadata) -> None:
    assert metadata.time_to_next_update(0.0) > 1
    metadata.add("a", 0.0)
    assert metadata.time_to_next_update(0.0) == 0
    assert metadata.topics_to_request(partial=True) == {"a"}
    assert answer(metadata, 0.0, {"a": 0}).is_partial
    assert metadata.topics_to_request(partial=True) == set()
    assert metadata.topics_to_request(partial=False) == {"a"}
    assert metadata.cluster.partition_count("a") == 1
    metadata.add("a", 1.0)
    assert metadata.time_to_next_update(1.0) > 1


def test_a_topic_in_use_is_kept_and_an_idle_one_dropped(metadata: ProducerMetadata) -> None:
    metadata.add("a", 0.0)
    metadata.add("b", 0.0)
    answer(metadata, 0.0, {"a": 0, "b": 0})
    metadata.add("a", 9.0)
    metadata.request_update()
    answer(metadata, 10.0, {"a": 0, "b": 0})
    assert metadata.contains_topic("a")
    assert not metadata.contains_topic("b")
    assert metadata.cluster.partition_count("b") == 0
    assert metadata.topics_to_request(partial=False) == {"a"}


def test_a_new_topic_is_kept_at_any_age(metadata: ProducerMetadata) -> None:
    metadata.add("a", 0.0)
    assert metadata.retain_topic("a", is_internal=False, now=100.0)
    assert not metadata.retain_topic("never used", is_internal=False, now=0.0)


def test_many_are_kept_as_each_is(metadata: ProducerMetadata) -> None:
    for topic, now in (("old", 0.0), ("young", 5.0)):
        metadata.add(topic, now)
        answer(metadata, now, {topic: 0})
    metadata.add("new", 0.0)
    topics = {name: TopicMetadata(name, []) for name in ("old", "young", "new", "never used")}
    assert metadata.retain_topics(topics, 14.0) == {name: topics[name] for name in ("young", "new")}
    assert set(metadata.topics_to_request(partial=False) or ()) == {"young", "new"}
    assert metadata.retain_topics(topics, 15.0) == {"new": topics["new"]}


def test_an_unknown_topic_is_asked_for_again_with_all_others(metadata: ProducerMetadata) -> None:
    metadata.add("a", 0.0)
    answer(metadata, 0.0, {"a": 3})
    assert metadata.need_full_update
    assert metadata.topics_to_request(partial=True) == set()
    assert "a" in (metadata.topics_to_request(partial=False) or ())


def test_an_update_for_one_topic_is_partial_only_while_it_is_new(metadata: ProducerMetadata) -> None:
    metadata.add("a", 0.0)
    metadata.request_update_for_topic("a")
    assert metadata.need_partial_update
    assert not metadata.need_full_update
    answer(metadata, 0.0, {"a": 0})
    metadata.request_update_for_topic("a")
    assert metadata.need_full_update


def test_a_topic_that_was_not_found_can_be_forgotten_and_a_known_one_not(metadata: ProducerMetadata) -> None:
    metadata.add("a", 0.0)
    metadata.add("typo", 0.0)
    answer(metadata, 0.0, {"a": 0, "typo": 3})
    metadata.forget("typo")
    metadata.forget("a")
    assert set(metadata.topics_to_request(partial=False) or ()) == {"a"}


@pytest.mark.parametrize("name", ["", "..", "\ud800", "x" * 250, None])
def test_a_name_that_no_broker_takes_is_not_used(metadata: ProducerMetadata, name: Any) -> None:
    with pytest.raises(InvalidTopicError):
        metadata.add(name, 0.0)
    assert not metadata.topics_to_request(partial=False)
    assert not metadata.is_update_requested


def test_a_topic_that_is_asked_for_apart_delays_no_other_and_ends_when_it_is_forgotten(
    metadata: ProducerMetadata,
) -> None:
    metadata.add("bad", 0.0)
    metadata.suspect_topics(metadata.new_request(0.0), 0.0)
    metadata.failed_update(0.0, KafkaError("closed"))
    metadata.add("good", 0.1)
    assert answer(metadata, 0.2, {"good": 0}).topics == ["good"]
    assert not metadata.need_partial_update, "for the one apart has a time of its own"
    assert metadata.new_request(1.0).topics == ["bad"]
    metadata.forget("bad")
    assert metadata.new_request(1.0).topics == []
    assert answer(metadata, 1.0).topics == []
    assert metadata.time_to_next_update(1.0) > 100


UNKNOWN, NO_LEADER_YET = 3, 5


def told(caplog: pytest.LogCaptureFixture) -> list[list[str]]:
    return [record.fields["topics"] for record in caplog.records if record.event == "metadata.topics_unknown"]  # type: ignore[attr-defined]


def test_a_topic_that_does_not_exist_is_logged_once_after_two_seconds(
    metadata: ProducerMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    metadata.add("typo", 0.0)
    metadata.add("made", 0.0)
    for now in (0.0, 1.9):
        answer(metadata, now, {"typo": UNKNOWN, "made": UNKNOWN, "of somebody else": UNKNOWN})
    assert told(caplog) == []
    for now in (2.0, 3.0, 50.0):
        answer(metadata, now, {"typo": UNKNOWN, "made": NO_LEADER_YET})
    assert told(caplog) == [["typo"]]
    assert "max_block_ms" in caplog.text


def test_a_topic_that_was_found_or_given_up_is_logged_anew(
    metadata: ProducerMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    metadata.add("t", 0.0)
    for now, code in ((0.0, UNKNOWN), (1.0, 0), (2.5, UNKNOWN), (4.0, UNKNOWN)):
        answer(metadata, now, {"t": code})
    assert told(caplog) == []
    answer(metadata, 4.5, {"t": UNKNOWN})
    metadata.forget("t")
    metadata.add("t", 5.0)
    for now in (5.0, 7.0):
        answer(metadata, now, {"t": UNKNOWN})
    assert told(caplog) == [["t"], ["t"]]


def test_many_topics_that_do_not_exist_are_one_event(
    metadata: ProducerMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"t{number:02}" for number in range(30)]
    for name in names:
        metadata.add(name, 0.0)
    for now in (0.0, 2.0):
        answer(metadata, now, dict.fromkeys(names, UNKNOWN))
    assert told(caplog) == [names[:10]]
    assert "count=30" in caplog.text
