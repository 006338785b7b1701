from __future__ import annotations

from aiokafkapy.cluster.cluster import TopicMetadata
from aiokafkapy.cluster.metadata_cache import MetadataCache
from aiokafkapy.common import Node, PartitionInfo, TopicPartition


def cache(*names: str, leader: int = 1, **fields: object) -> MetadataCache:
    topics = {name: TopicMetadata(name, [PartitionInfo(name, 0, leader, 1)]) for name in names}
    nodes = {leader: Node(leader, "h", leader)}
    return MetadataCache(nodes=nodes, topics=topics, **fields)  # type: ignore[arg-type]


def test_a_partial_update_replaces_its_topics_and_keeps_the_others() -> None:
    merged = cache("a", "b").merge_with(cache("b", "c", leader=2), cache("a").topics, lambda topic: topic != "b")
    assert set(merged.cluster.topics) == {"a", "b", "c"}
    assert merged.cluster.partitions_for_topic("b")[0].leader == 2
    assert merged.cluster.partitions_for_topic("a")[0].leader == 1
    assert merged.cluster.nodes == (Node(2, "h", 2),)


def test_topics_that_are_not_kept_go() -> None:
    merged = cache("a", "b").merge_with(cache("c"), cache("b").topics, lambda topic: topic != "a")
    assert set(merged.cluster.topics) == {"b", "c"}


def test_invalid_and_unauthorized_topics_are_merged_alike() -> None:
    old = cache("a", invalid_topics=frozenset({"x", "y"}), unauthorized_topics=frozenset({"u"}))
    new = cache("b", invalid_topics=frozenset({"z"}))
    merged = old.merge_with(new, old.topics, lambda topic: topic != "y")
    assert merged.cluster.invalid_topics == {"x", "z"}
    assert merged.cluster.unauthorized_topics == {"u"}


def test_single_partitions_can_be_replaced_without_touching_the_old_cache() -> None:
    old = cache("a", "b", cluster_id="c")
    new = old.with_partitions([PartitionInfo("a", 0, 3, 9)], {**old.nodes, 3: Node(3, "h", 3)})
    assert new.cluster.leader_for(TopicPartition("a", 0)) == Node(3, "h", 3)
    assert new.cluster.leader_for(TopicPartition("b", 0)) == Node(1, "h", 1)
    assert new.cluster.cluster_id == "c"
    assert old.cluster.leader_for(TopicPartition("a", 0)) == Node(1, "h", 1)


def test_a_bootstrap_cache_gives_a_bootstrap_cluster() -> None:
    assert MetadataCache.bootstrap([("h", 1)]).cluster.is_bootstrap
    assert not cache("a").merge_with(cache("b"), {}, lambda topic: True).cluster.is_bootstrap
