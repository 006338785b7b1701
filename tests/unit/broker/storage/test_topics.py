"""Topics: created, led, altered, deleted, and there again after a restart."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError, read_checkpoint, write_checkpoint
from aiokafkapy.broker.storage.replica_placer import MAX_PARTITIONS_PER_TOPIC
from aiokafkapy.broker.storage.topics import Partition, TopicRegistry
from aiokafkapy.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaStorageError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from ..support import make_batch, topic_of
from .logs import OpenRegistry


@pytest.fixture
def registry(open_registry: OpenRegistry) -> TopicRegistry:
    return open_registry(in_memory=True)


# creating


def test_a_topic_is_found_by_name_and_by_id(registry: TopicRegistry) -> None:
    topic = registry.create("t", 2)
    assert registry.get("t") is registry.by_id(topic.topic_id) is topic
    assert registry.partition("t", 1) is topic.partitions[1]
    assert registry.partition("t", 2) is registry.partition("u", 0) is registry.partition("t", -1) is None
    assert registry.by_id(uuid.uuid4()) is registry.by_id(None) is registry.get("u") is None
    assert ("t" in registry, len(registry), [each.name for each in registry]) == (True, 1, ["t"])


def test_leaders_and_replicas_go_round(registry: TopicRegistry) -> None:
    topic = registry.create("t", 4, replication_factor=2)
    assert [(p.leader, p.replicas) for p in topic.partitions] == [(1, (1, 2)), (2, (2, 3)), (3, (3, 1)), (1, (1, 2))]
    assert {p.leader_epoch for p in topic.partitions} == {0}


def test_defaults_come_from_the_broker(open_registry: OpenRegistry) -> None:
    registry = open_registry(in_memory=True, num_partitions=5)
    assert [len(p.replicas) for p in registry.create("t").partitions] == [3] * 5
    one = open_registry(in_memory=True, default_replication_factor=1)
    assert len(one.create("t").partitions[0].replicas) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250, "a\x00"])
def test_names_kafka_does_not_take_are_refused(registry: TopicRegistry, name: str) -> None:
    with pytest.raises(InvalidTopicError):
        registry.create(name)


def test_names_that_collide_in_metrics_are_refused(registry: TopicRegistry) -> None:
    registry.create("a.b")
    with pytest.raises(InvalidTopicError, match=r"collides with existing topic: a\.b"):
        registry.create("a_b")


def test_a_name_is_taken_once(registry: TopicRegistry) -> None:
    registry.create("t")
    with pytest.raises(TopicAlreadyExistsError, match="Topic 't' already exists"):
        registry.create("t")


@pytest.mark.parametrize("count", [0, -2, MAX_PARTITIONS_PER_TOPIC + 1])
def test_a_senseless_number_of_partitions_is_refused(registry: TopicRegistry, count: int) -> None:
    with pytest.raises(InvalidPartitionsError):
        registry.create("t", count)


@pytest.mark.parametrize("factor", [0, -2, 4])
def test_a_replication_factor_without_the_nodes_is_refused(registry: TopicRegistry, factor: int) -> None:
    with pytest.raises(InvalidReplicationFactorError):
        registry.create("t", 1, replication_factor=factor)


@pytest.mark.parametrize(
    "assignments",
    [{0: [1], 2: [1]}, {0: [1, 1]}, {0: []}, {0: [9]}, {0: [1, 2], 1: [1]}, {1: [1]}],
)
def test_assignments_that_do_not_fit_are_refused(registry: TopicRegistry, assignments: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignmentError):
        registry.create("t", assignments=assignments)


def test_assignments_are_followed(registry: TopicRegistry) -> None:
    topic = registry.create("t", assignments={1: [2, 1], 0: [3, 2]})
    assert [p.replicas for p in topic.partitions] == [(3, 2), (2, 1)]


def test_validating_only_creates_nothing(open_registry: OpenRegistry, tmp_path: Path) -> None:
    registry = open_registry()
    assert len(registry.create("t", 3, validate_only=True).partitions) == 3
    assert "t" not in registry
    assert not list((tmp_path / "topics").iterdir())


def test_a_wrong_config_is_refused_and_nothing_is_made(registry: TopicRegistry) -> None:
    with pytest.raises(InvalidConfigError):
        registry.create("t", 1, {"max.message.bytes": "many"})
    assert "t" not in registry


# more partitions


def test_partitions_are_added_behind_the_others(registry: TopicRegistry) -> None:
    topic = registry.create("t", 2, replication_factor=1)
    registry.add_partitions("t", 4)
    assert [(p.index, p.replicas) for p in topic.partitions] == [(0, (1,)), (1, (2,)), (2, (3,)), (3, (1,))]
    registry.add_partitions("t", 5, [[2]])
    assert topic.partitions[4].replicas == (2,)


@pytest.mark.parametrize("count", [2, 1, 0])
def test_partitions_are_never_taken_away(registry: TopicRegistry, count: int) -> None:
    registry.create("t", 2)
    with pytest.raises(InvalidPartitionsError):
        registry.add_partitions("t", count)


def test_each_new_partition_needs_its_assignment(registry: TopicRegistry) -> None:
    registry.create("t", 2)
    with pytest.raises(InvalidReplicaAssignmentError):
        registry.add_partitions("t", 4, [[1]])


# leaders


def test_every_move_of_a_leader_raises_the_epoch(registry: TopicRegistry) -> None:
    partition = registry.create("t", 1, replication_factor=1).partitions[0]
    told: list[Partition] = []
    registry.on_change = told.append
    for node_id, epoch in ((2, 1), (None, 2), (1, 3)):
        registry.set_leader("t", 0, node_id)
        assert (partition.leader, partition.leader_epoch) == (node_id, epoch)
    assert partition.replicas == (1, 2)
    assert told == [partition] * 3


def test_a_partition_that_has_no_leader_on_purpose_gets_none_when_a_node_starts(registry: TopicRegistry) -> None:
    """Any node that came back undid this, also in a schedule."""
    partition = registry.create("t", 1, replication_factor=3).partitions[0]
    for give_leader in (
        lambda: registry.set_leader("t", 0, 2),
        lambda: registry.elect(partition, 2),
        lambda: registry.reassign("t", 0, [2, 3]),
    ):
        registry.set_leader("t", 0, None)
        registry.node_stopped(3)
        registry.node_started(3)
        leaders = [partition.leader]
        give_leader()
        leaders.append(partition.leader)
        for node_id in (1, 3, 2):
            registry.node_stopped(node_id)
        leaders.append(partition.leader)
        for node_id in (2, 3, 1):
            registry.node_started(node_id)
        leaders.append(partition.leader)
        assert leaders == [None, 2, None, 2]


def test_only_a_node_that_exists_can_lead(registry: TopicRegistry) -> None:
    registry.create("t", 1)
    with pytest.raises(InvalidReplicaAssignmentError):
        registry.set_leader("t", 0, 9)
    with pytest.raises(UnknownTopicOrPartitionError):
        registry.set_leader("t", 1, 1)


def test_when_a_node_stops_its_partitions_go_to_the_next_replica_that_runs(registry: TopicRegistry) -> None:
    topic = registry.create("t", 3, replication_factor=2)
    registry.node_stopped(2)
    registry.node_stopped(3)
    assert [(p.leader, p.leader_epoch) for p in topic.partitions] == [(1, 0), (None, 2), (1, 1)]
    registry.node_started(3)
    assert [(p.leader, p.leader_epoch) for p in topic.partitions] == [(1, 0), (3, 3), (1, 1)]


def test_a_topic_made_while_a_node_is_stopped_has_all_its_replicas(registry: TopicRegistry) -> None:
    registry.node_stopped(1)
    topic = registry.create("t", 2)
    assert [p.replicas for p in topic.partitions] == [(2, 3, 1), (3, 2, 1)]
    assert [p.leader for p in topic.partitions] == [2, 3]
    assert [p.replicas for p in registry.create("u", 2, replication_factor=2).partitions] == [(2, 3), (3, 2)]
    with pytest.raises(InvalidReplicationFactorError, match=r"only 3 broker\(s\) are registered"):
        registry.create("v", 1, replication_factor=4)


def test_new_partitions_have_as_many_replicas_as_the_first_while_a_node_is_stopped(registry: TopicRegistry) -> None:
    registry.create("t", 1, replication_factor=3)
    registry.node_stopped(3)
    topic = registry.add_partitions("t", 3)
    assert [(p.leader, p.replicas) for p in topic.partitions] == [(1, (1, 2, 3)), (2, (2, 1, 3)), (1, (1, 2, 3))]


def test_replicas_on_stopped_nodes_only_are_refused(registry: TopicRegistry) -> None:
    (partition,) = registry.create("t", 1, replication_factor=1).partitions
    registry.node_stopped(3)
    fenced = "are fenced or in controlled shutdown"
    with pytest.raises(InvalidReplicaAssignmentError, match=f"for partition 0 {fenced}"):
        registry.create("u", assignments={0: [3]})
    with pytest.raises(InvalidReplicaAssignmentError, match=f"for partition 1 {fenced}"):
        registry.add_partitions("t", 2, [[3]])
    with pytest.raises(InvalidReplicaAssignmentError, match=f"for partition 0 {fenced}"):
        registry.reassign("t", 0, [3])
    assert ("u" in registry, partition.leader, partition.replicas) == (False, 1, (1,))
    assert registry.reassign("t", 0, [3, 2]).leader == 2


# configuration


def test_altering_reaches_the_logs(registry: TopicRegistry) -> None:
    topic = registry.create("t", 2, {"max.message.bytes": "10"})
    registry.alter_config("t", {"max.message.bytes": "20"}, validate_only=True)
    assert topic.config.max_message_bytes == 10
    registry.alter_config("t", {"max.message.bytes": "20"})
    assert {p.log.config.max_message_bytes for p in topic.partitions} == {20}
    registry.alter_config("t", {"max.message.bytes": None})
    assert topic.config.overrides == {}


# deleting


def test_a_deleted_topic_is_gone_and_its_watchers_are_told(open_registry: OpenRegistry, tmp_path: Path) -> None:
    registry = open_registry()
    partition = registry.create("t", 1).partitions[0]
    partition.log.append(make_batch(), 0, 0)
    told: list[Partition] = []
    registry.on_change = told.append
    registry.delete("t")
    assert (partition.is_deleted, partition.leader, told) == (True, None, [partition])
    assert not list((tmp_path / "topics").iterdir())
    assert "t" not in open_registry()
    with pytest.raises(UnknownTopicOrPartitionError):
        registry.delete("t")


def test_a_topic_made_again_is_another_topic(open_registry: OpenRegistry) -> None:
    registry = open_registry()
    first = registry.create("t", 1)
    first.partitions[0].log.append(make_batch(), 0, 0)
    registry.delete("t")
    second = registry.create("t", 1)
    assert second.topic_id != first.topic_id
    assert second.partitions[0].log.end_offset == 0
    again = open_registry().get("t")
    assert again is not None
    assert again.topic_id == second.topic_id


# restarting


def test_everything_is_there_again_after_a_restart(open_registry: OpenRegistry) -> None:
    registry = open_registry()
    topic = registry.create("t", 2, {"min.insync.replicas": "2"}, replication_factor=2)
    registry.set_leader("t", 0, 2)
    topic.partitions[1].log.append(make_batch([b"kept"]), 0, 0)
    again = open_registry().get("t")
    assert again is not None
    assert (again.topic_id, again.config.overrides) == (topic.topic_id, {"min.insync.replicas": "2"})
    assert [(p.leader, p.leader_epoch, p.replicas) for p in again.partitions] == [(2, 2, (1, 2)), (2, 1, (2, 3))]
    assert [record.value for record in again.partitions[1].log.records()] == [b"kept"]


def test_options_that_are_refused_by_now_are_dropped_at_a_restart(
    open_registry: OpenRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version took them: a data folder of it stopped the start."""
    registry = open_registry()
    topic = registry.create("t", 1, {"min.insync.replicas": "2", "compression.gzip.level": "5"})
    assert topic.folder is not None
    path = topic.folder / "topic.json"
    content = read_checkpoint(path, "no remedy")
    assert content is not None
    write_checkpoint(path, content.replace(b'"compression.gzip.level": "5"', b'"compression.gzip.level": "0"'))
    again = open_registry().get("t")
    assert again is not None
    assert again.config.overrides == {"min.insync.replicas": "2"}
    assert "compression.gzip.level" in caplog.text


def test_a_restart_with_fewer_nodes_leads_with_those_there_are(open_registry: OpenRegistry) -> None:
    open_registry().create("t", 3, replication_factor=1)
    topic = open_registry(nodes=1).get("t")
    assert topic is not None
    assert [(p.leader, p.replicas) for p in topic.partitions] == [(1, (1,))] * 3


def test_with_all_nodes_again_replicas_and_leaders_are_where_they_were(open_registry: OpenRegistry) -> None:
    first = open_registry()
    first.create("t", 3, replication_factor=2)
    first.create("u", 2, replication_factor=1)
    fewer = open_registry(nodes=2)
    fewer.set_leader("u", 1, 1)
    fewer.add_partitions("u", 3)
    assert [p.replicas for p in topic_of(fewer, "t").partitions] == [(1, 2), (2,), (1,)]
    open_registry(nodes=1)
    again = open_registry()
    assert [(p.leader, p.replicas) for p in topic_of(again, "t").partitions] == [(1, (1, 2)), (2, (2, 3)), (3, (3, 1))]
    assert [(p.leader, p.replicas) for p in topic_of(again, "u").partitions] == [(1, (1,)), (2, (2, 1)), (1, (1,))]


def test_a_record_of_an_epoch_that_never_was_is_damage(open_registry: OpenRegistry) -> None:
    registry = open_registry()
    registry.create("t", 1).partitions[0].log.append(make_batch(), 1, 0)
    with pytest.raises(DamagedFileError, match="leader epoch 1, which is not from 0 to 0"):
        open_registry()


def test_no_leader_moves_when_the_disk_does_not_take_it(
    open_registry: OpenRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = open_registry()
    (partition,) = registry.create("t", 1, replication_factor=1).partitions
    told: list[Partition] = []
    registry.on_change = told.append

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(KafkaStorageError, match="No space"):
            registry.set_leader("t", 0, 2)
    assert (partition.leader, partition.leader_epoch, partition.replicas, told) == (1, 0, (1,), [])


def test_a_topic_is_neither_made_nor_deleted_when_the_disk_does_not_take_it(
    open_registry: OpenRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = open_registry()
    registry.create("t", 1)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        patched.setattr(Path, "rename", fail)
        with pytest.raises(KafkaStorageError, match="No space"):
            registry.create("u", 1)
        with pytest.raises(KafkaStorageError, match="No space"):
            registry.delete("t")
    for each in (registry, open_registry()):
        assert [topic.name for topic in each] == ["t"]
    registry.create("u", 1)


def test_producer_ids_go_on_after_those_in_the_logs(open_registry: OpenRegistry) -> None:
    registry = open_registry()
    assert registry.next_producer_id() == 0
    topic = registry.create("t", 2)
    topic.partitions[0].log.append(make_batch(producer=(41, 0, 0)), 0, 0)
    topic.partitions[1].log.append(make_batch(), 0, 0)
    assert registry.next_producer_id() == open_registry().next_producer_id() == 42
