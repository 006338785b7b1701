"""The immutable view of a cluster: nodes, topics, partitions and their leaders.

Owns the look-ups. Knows neither how responses are read (``metadata_answer``) and merged (``metadata_cache``), nor when
to request them (``metadata``), nor any protocol message. Kafka's counterpart is ``org.apache.kafka.common.Cluster``.

Rules: a view never changes, so it may be used across an ``await``; a look-up costs the same with one topic and with ten
thousand; the part that few callers need (partitions by node) is computed on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from uuid import UUID

from ..common import NO_LEADER, Node, PartitionInfo, TopicPartition

__all__ = ["NO_CONTROLLER", "Cluster", "TopicMetadata"]

NO_CONTROLLER: Final = -1


class Cluster:
    """One state of the cluster as the client saw it. Before the first answer it is ``Cluster.bootstrap(addresses)``."""

    __slots__ = (
        "_nodes_by_id",
        "_partitions_by_node",
        "_topic_names",
        "_topics",
        "cluster_id",
        "controller",
        "invalid_topics",
        "is_bootstrap",
        "nodes",
        "unauthorized_topics",
    )

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        topics: Mapping[str, TopicMetadata] | None = None,
        *,
        cluster_id: str | None = None,
        controller_id: int = NO_CONTROLLER,
        invalid_topics: frozenset[str] = frozenset(),
        unauthorized_topics: frozenset[str] = frozenset(),
        is_bootstrap: bool = False,
    ) -> None:
        self._nodes_by_id = {node.node_id: node for node in nodes}
        # A dict is not copied: the caller hands it over. Copying it for each leader hint would be O(topics).
        self._topics: dict[str, TopicMetadata] = topics if type(topics) is dict else dict(topics or {})
        self.nodes: tuple[Node, ...] = tuple(self._nodes_by_id.values())
        self.cluster_id = cluster_id
        self.controller = self._nodes_by_id.get(controller_id)
        self.invalid_topics = invalid_topics
        self.unauthorized_topics = unauthorized_topics
        self.is_bootstrap = is_bootstrap
        # Computed on first use.
        self._partitions_by_node: dict[int, tuple[PartitionInfo, ...]] | None = None
        self._topic_names: dict[UUID, str] | None = None

    @classmethod
    def bootstrap(cls, addresses: Iterable[tuple[str, int]]) -> Cluster:
        """The view before the first answer: the given addresses, with node ids -1, -2, … as in Java."""
        nodes = [Node(-1 - index, host, port) for index, (host, port) in enumerate(addresses)]
        return cls(nodes, is_bootstrap=True)

    @property
    def topics(self) -> Mapping[str, TopicMetadata]:
        """Every topic with partitions in this view, by name; read-only."""
        return MappingProxyType(self._topics)

    @property
    def internal_topics(self) -> frozenset[str]:
        """Kafka's own topics. O(topics)."""
        return frozenset(name for name, topic in self._topics.items() if topic.is_internal)

    def topic(self, name: str) -> TopicMetadata | None:
        """All that is known of one topic, or None."""
        return self._topics.get(name)

    def node_by_id(self, node_id: int) -> Node | None:
        """The node with this id, or None."""
        return self._nodes_by_id.get(node_id)

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """The partition, or None where it is not known."""
        topic = self._topics.get(topic_partition[0])
        return None if topic is None else topic.partition(topic_partition[1])

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; 0 when it is not known."""
        found = self._topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions in order of their numbers; empty when it is not known."""
        found = self._topics.get(topic)
        return () if found is None else found.partitions

    def available_partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The topic's partitions that have a leader."""
        found = self._topics.get(topic)
        return () if found is None else found.available

    def partitions_for_node(self, node_id: int) -> tuple[PartitionInfo, ...]:
        """The partitions that this node leads. The first call on a view is O(partitions)."""
        if self._partitions_by_node is None:
            self._partitions_by_node = self._group_by_leader()
        return self._partitions_by_node.get(node_id, ())

    def leader_for(self, topic_partition: TopicPartition) -> Node | None:
        """The node that leads the partition, or None when there is no leader or its address is not known."""
        topic = self._topics.get(topic_partition[0])
        if topic is None:
            return None
        partition = topic.partition(topic_partition[1])
        return None if partition is None else self._nodes_by_id.get(partition.leader)

    def topic_id(self, topic: str) -> UUID | None:
        """The topic's id, or None if the topic is not known or the broker has no topic ids (before Kafka 2.8)."""
        found = self._topics.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of the topic with this id, or None."""
        if self._topic_names is None:
            self._topic_names = {
                topic.topic_id: name for name, topic in self._topics.items() if topic.topic_id is not None
            }
        return self._topic_names.get(topic_id)

    def __repr__(self) -> str:
        kind = "bootstrap, " if self.is_bootstrap else ""
        return f"<Cluster {kind}id={self.cluster_id}, nodes={len(self.nodes)}, topics={len(self._topics)}>"

    # internals

    def _group_by_leader(self) -> dict[int, tuple[PartitionInfo, ...]]:
        grouped: dict[int, list[PartitionInfo]] = {}
        for topic in self._topics.values():
            for partition in topic.available:
                grouped.setdefault(partition.leader, []).append(partition)
        return {node_id: tuple(partitions) for node_id, partitions in grouped.items()}


class TopicMetadata:
    """One topic of a ``Cluster``: its id, its partitions in order of their numbers, and those with a leader.

    Immutable. There may be ten thousand of them, so each has as few objects for the garbage collector as possible.
    ``wire`` holds its bytes in a response of ``wire_version``, by which an unchanged topic is recognized; it is empty
    for a topic that must be read again every time.
    """

    __slots__ = (
        "available", "is_internal", "leader_epochs", "name", "partitions", "topic_id", "wire", "wire_version",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        partitions: Iterable[PartitionInfo],
        topic_id: UUID | None = None,
        is_internal: bool = False,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = tuple(sorted(partitions, key=_number))
        available = tuple(partition for partition in self.partitions if partition.leader != NO_LEADER)
        # Usually all partitions have a leader, and one tuple serves for both: that saves memory with many topics.
        self.available = self.partitions if len(available) == len(self.partitions) else available
        self.leader_epochs = {partition.partition: partition.leader_epoch for partition in self.partitions}
        self.wire_version = -1
        self.wire = b""

    def remember(self, version: int, wire: bytes) -> None:
        """Set the bytes that the topic was read from; only before it is shared."""
        self.wire_version = version
        self.wire = wire

    def partition(self, number: int) -> PartitionInfo | None:
        """The partition with this number, or None where it is not known."""
        if 0 <= number < len(self.partitions):
            found = self.partitions[number]
            if found.partition == number:
                return found
        for found in self.partitions:  # a partition number is missing, this one or one before it
            if found.partition == number:
                return found
        return None

    def replace(self, changed: Iterable[PartitionInfo]) -> TopicMetadata:
        """This topic with some partitions replaced."""
        by_number = {partition.partition: partition for partition in (*self.partitions, *changed)}
        return TopicMetadata(self.name, by_number.values(), self.topic_id, self.is_internal)

    def __repr__(self) -> str:
        return f"<TopicMetadata {self.name}, partitions={len(self.partitions)}, id={self.topic_id}>"


def _number(partition: PartitionInfo) -> int:
    return partition.partition
