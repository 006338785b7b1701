"""Makes the next view of the cluster from a response, by replacing the view or merging into it.

Owns the merge rules only. ``Metadata`` decides which topics and partitions of a response count (expiry, leader epochs,
topic ids) and passes the result here. Kafka's counterpart is ``MetadataCache``, called ``MetadataSnapshot`` in 4.x.

Rules: a cache never changes; a full update replaces it; a partial update replaces the nodes and the topics it names
and keeps the other topics as long as they are retained; a leader hint (KIP-951) replaces single partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..common import Node, PartitionInfo
from .cluster import NO_CONTROLLER, Cluster, TopicMetadata

__all__ = ["MetadataCache"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCache:
    """The parts of a ``Cluster`` that are merged, and the ``cluster`` made of them."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    invalid_topics: frozenset[str] = frozenset()
    unauthorized_topics: frozenset[str] = frozenset()
    cluster: Cluster = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cluster = Cluster(
            self.nodes.values(),
            self.topics,
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            invalid_topics=self.invalid_topics,
            unauthorized_topics=self.unauthorized_topics,
        )
        object.__setattr__(self, "cluster", cluster)

    @classmethod
    def bootstrap(cls, addresses: Iterable[tuple[str, int]]) -> MetadataCache:
        """The cache before the first answer: only the addresses to start from."""
        cluster = Cluster.bootstrap(addresses)
        cache = cls(nodes={node.node_id: node for node in cluster.nodes})
        object.__setattr__(cache, "cluster", cluster)
        return cache

    def merge_with(
        self, update: MetadataCache, kept: Mapping[str, TopicMetadata], is_kept: Callable[[str], bool]
    ) -> MetadataCache:
        """This cache after a partial ``update``.

        The update's nodes replace all nodes; its topics replace or join those of this cache that are ``kept``. A
        topic's error stays if ``is_kept(topic)``.
        """
        # No Python loop over all topics: each new topic beside ten thousand may come in an update of its own.
        topics = dict(kept)
        topics.update(update.topics)
        return MetadataCache(
            nodes=update.nodes,
            topics=topics,
            cluster_id=update.cluster_id,
            controller_id=update.controller_id,
            invalid_topics=_merge_names(self.invalid_topics, update.invalid_topics, is_kept),
            unauthorized_topics=_merge_names(self.unauthorized_topics, update.unauthorized_topics, is_kept),
        )

    def with_partitions(self, partitions: Iterable[PartitionInfo], nodes: Mapping[int, Node]) -> MetadataCache:
        """This cache with single partitions replaced and ``nodes`` as its nodes (KIP-951). The topics must be known."""
        changed: dict[str, list[PartitionInfo]] = {}
        for partition in partitions:
            changed.setdefault(partition.topic, []).append(partition)
        topics = dict(self.topics)
        for name, replaced in changed.items():
            topics[name] = topics[name].replace(replaced)
        return MetadataCache(
            nodes=nodes,
            topics=topics,
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            invalid_topics=self.invalid_topics,
            unauthorized_topics=self.unauthorized_topics,
        )


def _merge_names(old: frozenset[str], new: frozenset[str], is_kept: Callable[[str], bool]) -> frozenset[str]:
    return new | {name for name in old if is_kept(name)}
