"""``MetadataAnswer``: an answer as the cluster's own words, with the topics that are as they were told apart.

Owns the way from the protocol's message to ``TopicMetadata``. Which topics count, and which leader epochs, is
``Metadata``'s to say, when it takes the answer. Kafka's counterpart is ``MetadataResponse``.

Rules:

- ``read`` needs only a view that never changes, so it may run in a thread while the loop goes on.
- A topic whose bytes are those of the known one *is* the known one: ten thousand topics of which three have a new
  leader make three new objects, and the garbage collector has nothing to look at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from ..common import NO_LEADER, NO_LEADER_EPOCH, Node, PartitionInfo
from ..errors import make
from ..protocol.metadata import peek_topic_name, read_metadata_response
from ..protocol.reader import Cursor, FieldReader
from .cluster import NO_CONTROLLER, TopicMetadata
from .metadata_cache import MetadataCache

__all__ = ["MetadataAnswer"]

# Brokers before 2.4 (Metadata v9) may give a stale epoch while a partition is being reassigned (KAFKA-9212).
_FIRST_VERSION_WITH_RELIABLE_EPOCHS: Final = 9


class MetadataAnswer:
    """What one answer says. ``base`` is the view that it was compared with, and ``changed`` the names of the topics
    that are not as they are there.
    """

    __slots__ = (
        "base", "changed", "cluster_id", "controller_id", "error_code", "errors", "newer_than", "nodes", "stale",
        "throttle_time", "topics",
    )  # fmt: skip

    def __init__(self, message: Any, base: MetadataCache | None = None, stale: Iterable[str] = ()) -> None:
        """Of kio's message; those of its topics that are ``TopicMetadata`` already are taken as they are."""
        self.base = base
        self.throttle_time = getattr(message, "throttle_time", None)
        self.error_code: int = getattr(message, "error_code", 0)
        self.cluster_id: str | None = getattr(message, "cluster_id", None)
        self.controller_id: int = getattr(message, "controller_id", NO_CONTROLLER)
        self.nodes = {broker.node_id: _read_node(broker) for broker in message.brokers}
        self.topics: dict[str, TopicMetadata] = {}
        self.errors: dict[str, int] = {}
        """Error codes of topics."""
        self.stale = set(stale)
        """Topics of which a partition's error says that the broker itself does not know enough."""
        self.newer_than: dict[str, dict[int, int] | None] = {}
        """Topics of which every partition has a leader epoch not older than in ``base``, with the epochs there."""
        self.changed: Collection[str] = self._take_topics(message, {} if base is None else base.topics)

    def _take_topics(self, message: Any, known: Mapping[str, TopicMetadata]) -> list[str]:
        """Sort the answer's topics; returns the names of those that are not the ``known`` ones."""
        changed = []
        for topic in message.topics:
            if not isinstance(topic, TopicMetadata):
                if topic.name is None:
                    continue
                if topic.error_code:
                    self.errors[topic.name] = topic.error_code
                    continue
                topic = _topic_metadata(topic, message.__version__, self.stale)
            self.topics[topic.name] = topic
            before = known.get(topic.name)
            if before is not topic:
                changed.append(topic.name)
                if _is_newer(topic, before):
                    self.newer_than[topic.name] = None if before is None else before.leader_epochs
        return changed

    @classmethod
    def of(cls, answer: Any) -> MetadataAnswer:
        """``answer``, which may be kio's message as well."""
        return answer if isinstance(answer, cls) else cls(answer)

    @classmethod
    def read(cls, version: int, frame: bytes, base: MetadataCache) -> MetadataAnswer:
        """From an answer's frame, without its size; raises MalformedFrameError."""
        known, stale = base.topics, set[str]()

        def read_topic(read_message: FieldReader, cursor: Cursor) -> object:
            start = cursor.position
            topic = known.get(peek_topic_name(version, cursor) or "")
            # What a topic's bytes are says where they end, so no longer topic begins with them.
            if topic is not None and topic.wire_version == version and cursor.data.startswith(topic.wire, start):
                cursor.advance(len(topic.wire))
                return topic
            message = read_message(cursor)
            if message.error_code or message.name is None:
                return message
            found = _topic_metadata(message, version, stale)
            # What has to be looked at every time must not be known again.
            if found.name not in stale and _has_epochs(found):
                found.remember(version, cursor.data[start : cursor.position])
            return found

        return cls(read_metadata_response(version, frame, read_topic), base, stale)


def _topic_metadata(topic: Any, version: int, stale: set[str]) -> TopicMetadata:
    name = topic.name
    has_reliable_epochs = version >= _FIRST_VERSION_WITH_RELIABLE_EPOCHS
    partitions = []
    for partition in topic.partitions:
        if partition.error_code and make(partition.error_code).invalid_metadata:
            stale.add(name)
        partitions.append(
            PartitionInfo(
                name,
                partition.partition_index,
                partition.leader_id if partition.leader_id >= 0 else NO_LEADER,
                partition.leader_epoch if has_reliable_epochs else NO_LEADER_EPOCH,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(getattr(partition, "offline_replicas", ())),
            )
        )
    topic_id = _usable_id(getattr(topic, "topic_id", None))
    return TopicMetadata(name, partitions, topic_id, getattr(topic, "is_internal", False))


def _is_newer(topic: TopicMetadata, before: TopicMetadata | None) -> bool:
    if not _has_epochs(topic):
        return False
    # Of a topic with another id, older epochs say nothing.
    if before is None or (topic.topic_id is not None and topic.topic_id != before.topic_id):
        return True
    told = topic.leader_epochs
    return all(told.get(number, NO_LEADER_EPOCH) >= epoch for number, epoch in before.leader_epochs.items())


def _has_epochs(topic: TopicMetadata) -> bool:
    return min(topic.leader_epochs.values(), default=NO_LEADER_EPOCH) >= 0


def _read_node(broker: Any) -> Node:
    return Node(broker.node_id, broker.host, broker.port, getattr(broker, "rack", None))


def _usable_id(topic_id: UUID | None) -> UUID | None:
    """None for the zero id, which the protocol writes for "none"."""
    return topic_id if topic_id is not None and topic_id.int else None
