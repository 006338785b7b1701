"""The immutable view of a cluster: nodes, topics, partitions and their leaders.

Owns the look-ups. Knows neither how responses are read (``metadata_answer``) and merged (``metadata_cache``), nor when
to request them (``metadata``), nor any protocol message. Kafka's counterpart is ``org.apache.kafka.common.Cluster``.

Rules: a view never changes, so it may be used across an ``await``; a look-up costs the same with one topic and with ten
thousand; the part that few callers need (partitions by node) is computed on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .. import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from .. import _form as cython

from ..common import NO_LEADER, Node, PartitionInfo, TopicPartition

if TYPE_CHECKING:
    from ..protocol.metadata_topic import PartitionColumns

__all__ = ["NO_CONTROLLER", "Cluster", "TopicMetadata", "topic_of_columns"]

NO_CONTROLLER: Final = -1


class Cluster:
    """One state of the cluster as the client saw it. Before the first answer it is ``Cluster.bootstrap(addresses)``.

    A user's partitioner is given it: it has the look-ups of Java's ``Cluster``, also those that the client does not use
    itself (``internal_topics``, ``partitions_for_node``).
    """

    __slots__ = (
        "_nodes_by_id",
        "_partitions_by_node",
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
        """The number of the topic's partitions; 0 when it is not known."""
        found = self._topics.get(topic)
        return 0 if found is None else found.partition_count

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
        return None if topic is None else self._nodes_by_id.get(topic.leader(topic_partition[1]))

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id, 16 bytes; None if the topic is not known or the broker has no ids (before Kafka 2.8)."""
        found = self._topics.get(topic)
        return None if found is None else found.topic_id

    def __repr__(self) -> str:
        kind = "bootstrap, " if self.is_bootstrap else ""
        return f"<Cluster {kind}id={self.cluster_id}, nodes={len(self.nodes)}, topics={len(self._topics)}>"

    # internals

    def _group_by_leader(self) -> dict[int, tuple[PartitionInfo, ...]]:
        grouped: dict[int, list[PartitionInfo]] = {}
        for topic in self._topics.values():
            for partition in topic.made_partitions():
                if partition.leader == NO_LEADER:
                    continue
                grouped.setdefault(partition.leader, []).append(partition)
        return {node_id: tuple(partitions) for node_id, partitions in grouped.items()}


# Not tracked by the cyclic garbage collector: there may be ten thousand, and none can be part of a cycle.
@cython.no_gc
@cython.final
@cython.cclass
class TopicMetadata:
    """One topic of a ``Cluster``: its id, its partitions in order of their numbers, and those with a leader.

    Immutable. There may be a hundred thousand partitions, of which few are used: they are kept as columns, and a
    ``PartitionInfo`` is made when it is asked for. ``wire`` holds the topic's bytes in a response of ``wire_version``,
    by which an unchanged topic is recognized; it is empty for a topic that must be read again every time.
    """

    __slots__ = (
        "_available", "_in_sync", "_leaders", "_numbers", "_offline", "_partitions", "_replicas", "is_internal",
        "leader_epochs", "name", "topic_id", "wire", "wire_version",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        partitions: Iterable[PartitionInfo],
        topic_id: bytes | None = None,
        *,
        is_internal: bool = False,
    ) -> None:
        rows = [(number, *rest) for _, number, *rest in sorted(partitions, key=_number)]
        numbers, leaders, epochs, replicas, in_sync, offline = zip(*rows, strict=True) if rows else ((),) * 6
        self._take(name, topic_id, is_internal, numbers, leaders, epochs, replicas, in_sync, offline)

    def _take(
        self, name: str, topic_id: bytes | None, is_internal: bool, numbers: tuple[int, ...], leaders: tuple[int, ...],
        leader_epochs: tuple[int, ...], replicas: tuple[tuple[int, ...], ...], in_sync: tuple[tuple[int, ...], ...],
        offline: tuple[tuple[int, ...], ...],
    ) -> None:  # fmt: skip
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self._numbers = _first(len(numbers)) if numbers == _first(len(numbers)) else numbers
        self._leaders = leaders
        self.leader_epochs = dict(zip(numbers, leader_epochs, strict=True))
        self._replicas = replicas
        self._in_sync = in_sync
        self._offline = offline if any(offline) else ()
        self._partitions: tuple[PartitionInfo, ...] | None = None
        self._available: tuple[PartitionInfo, ...] | None = None
        self.wire_version = -1
        self.wire = b""

    def remember(self, version: int, wire: bytes) -> None:
        """Set the bytes that the topic was read from; only before it is shared."""
        self.wire_version = version
        self.wire = wire

    @property
    def partition_count(self) -> int:
        """The number of known partitions."""
        return len(self._leaders)

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        """All partitions. They are kept from the first call on; ``made_partitions`` keeps nothing."""
        if self._partitions is None:
            self._partitions = tuple(self.made_partitions())
        return self._partitions

    @property
    def available(self) -> tuple[PartitionInfo, ...]:
        """The partitions with a leader, kept as all are."""
        if self._available is None:
            # Usually all partitions have a leader, and one tuple serves for both.
            has_all = NO_LEADER not in self._leaders
            partitions = self.partitions
            self._available = partitions if has_all else tuple([one for one in partitions if one.leader != NO_LEADER])
        return self._available

    def made_partitions(self) -> list[PartitionInfo]:
        """All partitions, made for the caller alone."""
        return [self._made(row) for row in range(len(self._leaders))]

    def partition(self, number: int) -> PartitionInfo | None:
        """The partition with this number, or None where it is not known."""
        row = self._row(number)
        if row < 0:
            return None
        return self._made(row) if self._partitions is None else self._partitions[row]

    def leader(self, number: int) -> int:
        """The node id of the partition's leader, NO_LEADER where none is known."""
        row = self._row(number)
        return NO_LEADER if row < 0 else self._leaders[row]

    def replace(self, changed: Iterable[PartitionInfo]) -> TopicMetadata:
        """This topic with some partitions replaced."""
        by_number = {partition.partition: partition for partition in (*self.made_partitions(), *changed)}
        return TopicMetadata(self.name, by_number.values(), self.topic_id, is_internal=self.is_internal)

    def __repr__(self) -> str:
        return (
            f"<TopicMetadata {self.name}, partitions={len(self._leaders)}, id={self.topic_id and self.topic_id.hex()}>"
        )

    # internals

    def _made(self, row: int) -> PartitionInfo:
        number = self._numbers[row]
        return PartitionInfo(
            self.name,
            number,
            self._leaders[row],
            self.leader_epochs[number],
            self._replicas[row],
            self._in_sync[row],
            self._offline[row] if self._offline else (),
        )

    def _row(self, number: int) -> int:
        """The partition's row in the columns; -1 when it is not known."""
        numbers = self._numbers
        if 0 <= number < len(numbers) and numbers[number] == number:
            return number
        # A partition number is missing, this one or one before it.
        return numbers.index(number) if number in self.leader_epochs else -1


def topic_of_columns(name: str, topic_id: bytes | None, is_internal: bool, columns: PartitionColumns) -> TopicMetadata:
    """From a response's columns, which are kept if they are in order, as is usual."""
    if columns.numbers != _first(len(columns.numbers)):
        rows = zip(*columns[:5], columns.offline or [()] * len(columns.numbers), strict=True)
        return TopicMetadata(name, [PartitionInfo(name, *row) for row in rows], topic_id, is_internal=is_internal)
    found = TopicMetadata.__new__(TopicMetadata)
    found._take(
        name, topic_id, is_internal, columns.numbers, columns.leaders, columns.leader_epochs, columns.replicas,
        columns.in_sync, columns.offline,
    )  # fmt: skip
    return found


def _number(partition: PartitionInfo) -> int:
    return partition.partition


@lru_cache(maxsize=256)
def _first(count: int) -> tuple[int, ...]:
    """The numbers of ``count`` partitions of which none is missing, one tuple for all topics with as many."""
    return tuple(range(count))
