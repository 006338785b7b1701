from __future__ import annotations

import gc
import random
import tracemalloc
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.cluster.cluster import TopicMetadata
from aiokafkapy.cluster.leader_epochs import LeaderEpochs
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer, partition_of
from aiokafkapy.common import Node, PartitionInfo, TopicPartition
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_response
from aiokafkapy.protocol.messages import build_response
from tests.unit.metadata_options import METADATA_OPTIONS, PRODUCER_METADATA_OPTIONS

NEWEST = 13
LAST_WITH_UNRELIABLE_EPOCHS = 8
LEADER_NOT_AVAILABLE = 5
REPLICA_NOT_AVAILABLE = 9


def topic(name: str, *epochs: int, topic_id: int = 1, error: int = 0, of_partition: int = 0) -> dict[str, Any]:
    partitions = [
        {"partition_index": number, "leader_id": 1, "leader_epoch": epoch, "error_code": of_partition}
        for number, epoch in enumerate(epochs)
    ]
    return {"name": name, "topic_id": UUID(int=topic_id), "error_code": error, "partitions": partitions}


def message(*topics: dict[str, Any], version: int = NEWEST, cluster_id: str = "c") -> Any:
    fields = {"brokers": [{"node_id": 1, "host": "h", "port": 9}], "cluster_id": cluster_id, "controller_id": 1}
    return build_response(ApiKey.METADATA, version, topics=topics, **fields)


def frame(*topics: dict[str, Any], **more: Any) -> bytes:
    return encode_response(message(*topics, **more), 1)[4:]


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata(**METADATA_OPTIONS)
    metadata.bootstrap([("seed", 9)])
    return metadata


def update(metadata: Metadata, *topics: dict[str, Any], partial: bool = False, **more: Any) -> MetadataAnswer:
    answer = metadata.read_answer(more.get("version", NEWEST), frame(*topics, **more))
    metadata.update(metadata.request_version, answer, 0.0, is_partial=partial)
    return answer


class TestReading:
    def test_all_of_an_answer_is_there(self, metadata: Metadata) -> None:
        answer = metadata.read_answer(
            NEWEST,
            frame(
                topic("a", 3, 4),
                topic("b", error=LEADER_NOT_AVAILABLE),
                topic("c", 1, of_partition=REPLICA_NOT_AVAILABLE),
            ),
        )
        assert answer.nodes == {1: Node(1, "h", 9)}
        assert (answer.cluster_id, answer.controller_id, answer.error_code) == ("c", 1, 0)
        assert answer.topics["a"].partitions == (PartitionInfo("a", 0, 1, 3), PartitionInfo("a", 1, 1, 4))
        assert answer.topics["a"].topic_id == UUID(int=1).bytes
        assert answer.errors == {"b": LEADER_NOT_AVAILABLE}
        assert set(answer.topics) == set(answer.changed) == {"a", "c"}
        assert answer.stale == {"c"}

    def test_a_broker_without_an_address_is_left_out(self, metadata: Metadata) -> None:
        brokers = [{"node_id": 1, "host": "h", "port": 9}, {"node_id": 2, "host": "", "port": 9}]
        brokers.append({"node_id": 3, "host": "i", "port": -1})
        for version in range(NEWEST + 1):
            frame = encode_response(build_response(ApiKey.METADATA, version, brokers=brokers), 1)[4:]
            assert metadata.read_answer(version, frame).nodes == {1: Node(1, "h", 9)}

    def test_is_as_from_kios_message(self, metadata: Metadata) -> None:
        topics = (topic("a", 3, 4), topic("b", error=29), topic("c", 1, of_partition=REPLICA_NOT_AVAILABLE))
        for version in range(NEWEST + 1):
            read = metadata.read_answer(version, frame(*topics, version=version))
            other = MetadataAnswer(message(*topics, version=version))
            assert (read.nodes, read.errors, read.stale) == (other.nodes, other.errors, other.stale)
            assert read.cluster_id == other.cluster_id
            assert list(read.topics) == list(other.topics)
            for name, found in read.topics.items():
                assert found.partitions == other.topics[name].partitions
                assert found.topic_id == other.topics[name].topic_id

    def test_a_cut_frame_is_malformed_also_beside_known_topics(self, metadata: Metadata) -> None:
        whole = frame(topic("a", 1), topic("b", 1))
        update(metadata, topic("a", 1), topic("b", 1))
        for size in range(len(whole)):
            with pytest.raises(MalformedFrameError):
                metadata.read_answer(NEWEST, whole[:size])

    def test_partitions_with_the_same_replicas_share_one_tuple(self, metadata: Metadata) -> None:
        named = [topic("a", 3, 4), topic("b", 5)]
        for number, told in enumerate([part for each in named for part in each["partitions"]]):
            told |= {"replica_nodes": [1, 2 + number // 2], "isr_nodes": [1, 2]}
        for answer in metadata.read_answer(NEWEST, frame(*named)), MetadataAnswer(message(*named)):
            first, second, third = (part for each in answer.topics.values() for part in each.partitions)
            assert (first.replicas, third.replicas, third.in_sync_replicas) == ((1, 2), (1, 3), (1, 2))
            assert first.replicas is first.in_sync_replicas is second.replicas is third.in_sync_replicas


class TestKnownTopics:
    def test_one_with_the_same_bytes_stays_the_object_that_it_is(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 1), topic("b", 1))
        a, b = metadata.cluster.topic("a"), metadata.cluster.topic("b")
        answer = update(metadata, topic("b", 2), topic("a", 1))
        assert list(answer.changed) == ["b"]
        assert metadata.cluster.topic("a") is a
        assert metadata.cluster.topic("b") is not b
        assert metadata.cluster.partitions_for_topic("b")[0].leader_epoch == 2

    def test_one_that_is_longer_than_the_known_is_read(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 1))
        update(metadata, topic("a", 1, 1))
        assert metadata.cluster.partition_count("a") == 2

    def test_the_bytes_of_another_version_are_not_compared(self, metadata: Metadata) -> None:
        # Versions 12 and 13 write a topic alike.
        update(metadata, topic("a", 1), version=12)
        before = metadata.cluster.topic("a")
        update(metadata, topic("a", 1), version=13)
        assert metadata.cluster.topic("a") is not before

    def test_a_broken_partition_asks_for_an_update_every_time(self, metadata: Metadata) -> None:
        for _ in range(3):
            update(metadata, topic("a", 1, of_partition=LEADER_NOT_AVAILABLE))
            assert metadata.need_full_update

    def test_epochs_that_cannot_be_relied_on_are_new_every_time(self, metadata: Metadata) -> None:
        for _ in range(20):
            update(metadata, topic("a", 5), version=LAST_WITH_UNRELIABLE_EPOCHS)
            assert metadata.cluster.partitions_for_topic("a")[0].leader_epoch == -1
        metadata.request_update()
        assert metadata.time_to_next_update(0.0) <= 0.12, "answers without news slow the next requests down"

    def test_one_whose_id_has_changed_is_another_topic(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 5))
        update(metadata, topic("a", 1, topic_id=2))
        assert metadata.cluster.partitions_for_topic("a")[0].leader_epoch == 1

    def test_an_older_epoch_of_one_partition_keeps_its_known_state(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 5, 5))
        update(metadata, topic("a", 4, 6))
        assert [p.leader_epoch for p in metadata.cluster.partitions_for_topic("a")] == [5, 6]
        update(metadata, topic("a", 6, 6))
        assert [p.leader_epoch for p in metadata.cluster.partitions_for_topic("a")] == [6, 6]

    def test_the_newest_epoch_of_a_topic_lost_meanwhile_still_counts(self, metadata: Metadata) -> None:
        without_id = topic("a", 5) | {"topic_id": None}
        update(metadata, without_id)
        update(metadata, topic("a", error=LEADER_NOT_AVAILABLE))
        assert metadata.cluster.topic("a") is None
        update(metadata, topic("a", 4) | {"topic_id": None})
        assert metadata.cluster.partitions_for_topic("a")[0].leader == -1

    def test_an_answer_without_news_changes_no_object(self, metadata: Metadata) -> None:
        topics = [topic(f"t{number}", 1, 1, 1) for number in range(2_000)]
        update(metadata, *topics)
        before = dict(metadata.cluster.topics)
        answer = update(metadata, *topics)
        assert not answer.changed
        assert len(before) == 2_000
        assert all(metadata.cluster.topic(name) is known for name, known in before.items())

    def test_one_with_an_error_goes_from_the_view_of_a_partial_update_too(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 1), topic("b", 1))
        update(metadata, topic("a", error=LEADER_NOT_AVAILABLE), partial=True)
        assert set(metadata.cluster.topics) == {"b"}


class TestWhileAnAnswerIsRead:
    def test_a_leader_hint_stays(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 1), topic("b", 1))
        answer = metadata.read_answer(NEWEST, frame(topic("a", 1), topic("b", 1)))
        metadata.update_partition_leaderships({TopicPartition("a", 0): (2, 7)}, [Node(2, "i", 9)])
        metadata.update(metadata.request_version, answer, 0.0, is_partial=False)
        assert metadata.cluster.partitions_for_topic("a")[0].leader_epoch == 7

    def test_only_topics_that_a_hint_has_changed_are_looked_at_again(
        self, metadata: Metadata, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With ten thousand topics, to look at each partition of them would hold the loop for a tenth of a second."""
        known = [topic(f"t{number}", 3, 3) for number in range(50)]
        update(metadata, *known)
        changed = topic("t9", 4, 4)
        answer = metadata.read_answer(NEWEST, frame(*(changed if one["name"] == "t9" else one for one in known)))
        metadata.update_partition_leaderships({TopicPartition("t7", 0): (1, 5)}, [])
        looked_at = []
        newest = LeaderEpochs._newest

        def noted(epochs: LeaderEpochs, one: TopicMetadata, known: TopicMetadata | None) -> TopicMetadata:
            looked_at.append(one.name)
            return newest(epochs, one, known)

        monkeypatch.setattr(LeaderEpochs, "_newest", noted)
        metadata.update(metadata.request_version, answer, 0.0, is_partial=False)
        assert looked_at == ["t7"]
        assert metadata.current_leader(TopicPartition("t7", 0))[1] == 5
        assert metadata.current_leader(TopicPartition("t9", 1))[1] == 4

    def test_a_hint_older_than_the_answer_goes(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 1))
        answer = metadata.read_answer(NEWEST, frame(topic("a", 9)))
        metadata.update_partition_leaderships({TopicPartition("a", 0): (2, 7)}, [Node(2, "i", 9)])
        metadata.update(metadata.request_version, answer, 0.0, is_partial=False)
        assert metadata.cluster.partitions_for_topic("a")[0] == PartitionInfo("a", 0, 1, 9)

    def test_forgetting_the_cluster_makes_its_epochs_void(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 5))
        answer = metadata.read_answer(NEWEST, frame(topic("a", 5)))
        metadata.rebootstrap()
        metadata.update(metadata.request_version, answer, 0.0, is_partial=False)
        assert metadata.cluster.partitions_for_topic("a")[0].leader_epoch == 5
        assert metadata.cluster.nodes == (Node(1, "h", 9),)

    def test_epochs_of_another_cluster_start_over(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 5))
        update(metadata, topic("a", 2), cluster_id="d")
        assert metadata.cluster.partitions_for_topic("a")[0].leader_epoch == 2

    def test_the_same_words_of_another_cluster_are_its_own(self, metadata: Metadata) -> None:
        update(metadata, topic("a", 5))
        update(metadata, topic("a", 5), cluster_id="d")
        update(metadata, topic("a", 4), cluster_id="d")
        assert metadata.cluster.partitions_for_topic("a")[0].leader_epoch == 5


class TestBothWays:
    """Reading beside the loop, with known metadata, has the same result as kio's messages alone."""

    @pytest.mark.slow
    def test_after_any_answers_and_hints(self) -> None:
        for seed in range(100):
            self.check(seed)

    def check(self, seed: int) -> None:
        chance = random.Random(seed)
        options = PRODUCER_METADATA_OPTIONS.copy()
        options["metadata_max_idle_ms"] = 5_000
        ways = [ProducerMetadata(**options), ProducerMetadata(**options)]
        for metadata in ways:
            metadata.bootstrap([("seed", 9)])
        for now in range(25):
            names = [f"t{number}" for number in range(8) if chance.random() < 0.6]
            for metadata in ways:
                for name in names:
                    metadata.add(name, now)
            topics = [self.any_topic(chance, name) for name in names if chance.random() < 0.9]
            version, is_partial = chance.choice((8, 12, 13, 13, 13)), chance.random() < 0.4
            cluster_id = "d" if chance.random() < 0.05 else "c"
            answer = ways[0].read_answer(version, frame(*topics, version=version, cluster_id=cluster_id))
            hint = {TopicPartition(f"t{chance.randrange(8)}", chance.randrange(3)): (2, chance.randrange(8))}
            is_hinted, is_restarted = chance.random() < 0.3, chance.random() < 0.05
            for metadata, found in (
                (ways[0], answer),
                (ways[1], MetadataAnswer(message(*topics, version=version, cluster_id=cluster_id))),
            ):
                if is_hinted:
                    metadata.update_partition_leaderships(hint, [Node(2, "i", 9)])
                if is_restarted:
                    metadata.rebootstrap()
                metadata.update(metadata.request_version, found, now, is_partial=is_partial)
            assert self.state(ways[0]) == self.state(ways[1]), seed

    def any_topic(self, chance: random.Random, name: str) -> dict[str, Any]:
        epochs = [chance.choice((-1, 3, 3, 3, 4, 5, 6)) for _ in range(chance.randrange(1, 4))]
        return topic(
            name,
            *epochs,
            topic_id=chance.choice((0, 1, 1, 1, 1, 2)),
            error=chance.choice((0, 0, 0, 0, 0, 0, LEADER_NOT_AVAILABLE, 17, 29)),
            of_partition=chance.choice((0, 0, 0, 0, 0, REPLICA_NOT_AVAILABLE)),
        )

    def state(self, metadata: ProducerMetadata) -> object:
        cluster = metadata.cluster
        topics = {name: (found.partitions, found.available, found.topic_id) for name, found in cluster.topics.items()}
        asks = (metadata.need_full_update, metadata.need_partial_update, metadata._equivalent_answers)
        errors = {name: error.code for name, error in metadata._topic_errors.items()}
        known = {name: epochs for name, epochs in metadata._leader_epochs.by_topic.items() if epochs}
        in_use = set(metadata.topics_to_request(partial=False) or ())
        noted = (cluster.invalid_topics, cluster.unauthorized_topics, in_use)
        return topics, cluster.nodes, cluster.controller, asks, errors, known, noted


def test_a_partition_that_is_not_used_takes_less_than_two_hundred_bytes(metadata: Metadata) -> None:
    topics, partitions = 300, 10
    names = [f"a topic of an ordinary length, {number}" for number in range(topics)]
    data = frame(*(topic(name, *[3] * partitions, topic_id=number + 1) for number, name in enumerate(names)))
    metadata.read_answer(NEWEST, data)  # objects that are kept once are made now
    gc.collect()
    tracemalloc.start()
    try:
        metadata.update(metadata.request_version, metadata.read_answer(NEWEST, data), 0.0, is_partial=False)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(metadata.cluster.topics) == topics
    assert taken / (topics * partitions) < 200


def test_reading_and_taking_an_answer_makes_no_object_for_a_partition(metadata: Metadata) -> None:
    data = frame(topic("t", *[3] * 5_000))
    gc.collect()
    answer = metadata.read_answer(NEWEST, data)
    metadata.update(metadata.request_version, answer, 0.0, is_partial=False)
    kinds = Counter(type(one) for one in gc.get_objects())
    assert kinds[PartitionInfo] < 100  # of others
    assert metadata.cluster.partition_count("t") == 5_000
    assert metadata.cluster.partition(TopicPartition("t", 4_999)) == PartitionInfo("t", 4_999, 1, 3)


def test_a_leader_epoch_of_a_version_before_9_does_not_count() -> None:
    for version, epoch in ((8, -1), (9, 7)):
        fields = {"partition_index": 0, "leader_id": 1, "leader_epoch": 7, "replica_nodes": (1, 2), "isr_nodes": (1,)}
        message = build_response(ApiKey.METADATA, version, topics=[{"name": "t", "partitions": [fields]}])
        (partition,) = message.topics[0].partitions
        assert partition_of("t", partition, version, {}) == PartitionInfo("t", 0, 1, epoch, (1, 2), (1,), ())
