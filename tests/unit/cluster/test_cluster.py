from __future__ import annotations

import pytest

from aiokafkapy.cluster.cluster import Cluster, TopicMetadata, topic_of_columns
from aiokafkapy.common import Node, PartitionInfo, TopicPartition
from aiokafkapy.protocol.metadata_topic import PartitionColumns

NODES = [Node(1, "one", 1, "a"), Node(2, "two", 2)]
TOPIC_ID = bytes(15) + b"\7"


@pytest.fixture
def cluster() -> Cluster:
    partitions = [PartitionInfo("t", 2), PartitionInfo("t", 0, 1, 5), PartitionInfo("t", 1, 2, 6)]
    topics = {
        "t": TopicMetadata("t", partitions, TOPIC_ID),
        "__x": TopicMetadata("__x", [PartitionInfo("__x", 0, 9)], is_internal=True),
    }
    return Cluster(NODES, topics, cluster_id="c", controller_id=2, invalid_topics=frozenset({"a b"}))


def test_partitions_are_in_order_of_their_numbers(cluster: Cluster) -> None:
    assert [partition.partition for partition in cluster.partitions_for_topic("t")] == [0, 1, 2]
    assert cluster.partition_count("t") == 3


def test_available_partitions_have_a_leader(cluster: Cluster) -> None:
    assert [partition.partition for partition in cluster.available_partitions_for_topic("t")] == [0, 1]


def test_partitions_by_node(cluster: Cluster) -> None:
    assert [partition.partition for partition in cluster.partitions_for_node(1)] == [0]
    assert cluster.partitions_for_node(3) == ()


def test_a_leader_without_address_does_not_count(cluster: Cluster) -> None:
    assert cluster.leader_for(TopicPartition("__x", 0)) is None
    assert cluster.leader_for(TopicPartition("t", 2)) is None
    assert cluster.leader_for(TopicPartition("t", 1)) == NODES[1]


def test_unknown_values_are_empty(cluster: Cluster) -> None:
    assert cluster.partition(TopicPartition("t", 3)) is None
    assert cluster.partition(TopicPartition("u", 0)) is None
    assert cluster.leader_for(TopicPartition("u", 0)) is None
    assert cluster.partitions_for_topic("u") == ()
    assert cluster.available_partitions_for_topic("u") == ()
    assert cluster.partition_count("u") == 0
    assert cluster.topic_id("u") is None
    assert cluster.node_by_id(3) is None


def test_ids_and_names(cluster: Cluster) -> None:
    assert cluster.topic_id("t") == TOPIC_ID
    assert cluster.controller == NODES[1]
    assert cluster.internal_topics == {"__x"}
    assert cluster.invalid_topics == {"a b"}
    assert set(cluster.topics) == {"t", "__x"}


def test_bootstrap_nodes_count_down_from_minus_one() -> None:
    cluster = Cluster.bootstrap([("h", 1), ("i", 2)])
    assert cluster.is_bootstrap
    assert cluster.nodes == (Node(-1, "h", 1), Node(-2, "i", 2))


def test_topics_cannot_be_changed_through_the_view(cluster: Cluster) -> None:
    with pytest.raises(TypeError):
        cluster.topics["u"] = cluster.topics["t"]  # type: ignore[index]


def test_replacing_partitions_leaves_the_old_topic_as_it_was(cluster: Cluster) -> None:
    topic = cluster.topics["t"]
    changed = topic.replace([PartitionInfo("t", 2, 1, 9)])
    assert [partition.leader for partition in changed.partitions] == [1, 2, 1]
    assert changed.topic_id == TOPIC_ID
    partition = topic.partition(2)
    assert partition is not None
    assert partition.leader == -1


def test_partitions_that_a_caller_asked_for_once_are_kept_and_made_ones_are_not(cluster: Cluster) -> None:
    topic = cluster.topics["t"]
    assert topic.made_partitions() == list(topic.partitions)
    assert topic.made_partitions()[0] is not topic.partitions[0]
    assert topic.partitions is topic.partitions
    assert topic.available is topic.available
    assert topic.partition(1) is topic.partitions[1]


def test_the_leader_of_a_partition_is_found_by_its_number(cluster: Cluster) -> None:
    topic = cluster.topics["t"]
    assert [topic.leader(number) for number in (-1, 0, 1, 2, 3)] == [-1, 1, 2, -1, -1]


def test_partitions_whose_numbers_have_gaps_are_found() -> None:
    topic = TopicMetadata("t", [PartitionInfo("t", 5, 2, 8), PartitionInfo("t", 1, 1, 7)])
    assert [one.partition for one in topic.partitions] == [1, 5]
    assert [topic.leader(number) for number in range(6)] == [-1, 1, -1, -1, -1, 2]
    assert topic.partition(5) == PartitionInfo("t", 5, 2, 8)
    assert topic.partition(0) is topic.partition(2) is None


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (3, 1)])
def test_a_topic_of_columns_is_that_of_its_partitions(numbers: tuple[int, ...]) -> None:
    columns = PartitionColumns(numbers, (1, 2), (5, 6), ((1, 2), (2, 1)), ((1,), (2,)), ((2,), ()), frozenset())
    found = topic_of_columns("t", TOPIC_ID, True, columns)
    partitions = [
        PartitionInfo("t", numbers[0], 1, 5, (1, 2), (1,), (2,)),
        PartitionInfo("t", numbers[1], 2, 6, (2, 1), (2,), ()),
    ]
    wanted = TopicMetadata("t", partitions, TOPIC_ID, is_internal=True)
    assert found.partitions == wanted.partitions == tuple(sorted(partitions, key=lambda one: one.partition))
    assert found.leader_epochs == wanted.leader_epochs == dict(zip(numbers, (5, 6), strict=True))
    assert (found.name, found.topic_id, found.is_internal) == ("t", TOPIC_ID, True)
