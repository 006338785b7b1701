"""``MetadataAnswer``: a Metadata response as ``TopicMetadata``, which separates changed topics from unchanged ones.

Owns the conversion from the protocol's message. ``Metadata`` decides which topics and leader epochs of it count.
Kafka's counterpart is ``MetadataResponse``.

Rules:

- ``read`` depends only on an immutable view, so it may run in a thread beside the loop.
- A broker without an address, an empty host or a negative port, is left out: nobody can connect to it.
- A topic whose bytes equal those of the known one becomes the very same object: when three of ten thousand topics have
  a new leader, three objects are created.
- Partitions with the same replicas share one tuple: there are few such sets, and a tuple for each of a hundred thousand
  partitions would be half of their memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..common import NO_LEADER, NO_LEADER_EPOCH, Node, PartitionInfo
from ..errors import make
from ..protocol.cursor import Cursor, FieldReader
from ..protocol.metadata import FIRST_FLEXIBLE, peek_topic_name, read_metadata_response
from ..protocol.metadata_topic import Lists, TopicColumns, read_topic_columns
from .cluster import NO_CONTROLLER, TopicMetadata, topic_of_columns
from .metadata_cache import MetadataCache

if TYPE_CHECKING:
    from uuid import UUID

    from ..protocol.codec import Struct

__all__ = ["MetadataAnswer", "Replicas", "node_of", "partition_of"]

# Brokers before 2.4 (Metadata v9) may give a stale epoch while a partition is being reassigned (KAFKA-9212).
_FIRST_VERSION_WITH_RELIABLE_EPOCHS: Final = 9

Replicas: TypeAlias = dict[tuple[int, ...], tuple[int, ...]]
"""Each set of replicas of an answer, once."""


def node_of(broker: Struct) -> Node:
    """A broker of a response: of Metadata, or of another response that names a leader's address."""
    return Node(broker.node_id, broker.host, broker.port, getattr(broker, "rack", None))


def partition_of(topic: str, partition: Struct, version: int, shared: Replicas) -> PartitionInfo:
    """A partition of a Metadata response of this version, without its leader epoch where that may be stale."""
    share = shared.setdefault
    return PartitionInfo(
        topic,
        partition.partition_index,
        partition.leader_id if partition.leader_id >= 0 else NO_LEADER,
        partition.leader_epoch if version >= _FIRST_VERSION_WITH_RELIABLE_EPOCHS else NO_LEADER_EPOCH,
        share(replicas := tuple(partition.replica_nodes), replicas),
        share(in_sync := tuple(partition.isr_nodes), in_sync),
        share(offline := tuple(getattr(partition, "offline_replicas", ())), offline),
    )


class MetadataAnswer:
    """One response. ``base`` is the view it was compared with, ``changed`` the names of the topics that
    differ from it.
    """

    __slots__ = (
        "base", "changed", "cluster_id", "controller_id", "error_code", "errors", "has_news", "newer_epochs",
        "newer_than", "nodes", "stale", "throttle_time_ms", "topics",
    )  # fmt: skip

    def __init__(self, message: Any, base: MetadataCache | None = None, stale: Iterable[str] = ()) -> None:
        """From kio's message; its topics may already be ``TopicMetadata``."""
        self.base = base
        self.throttle_time_ms: float = _throttle_time_ms(message)
        self.error_code: int = getattr(message, "error_code", 0)
        self.cluster_id: str | None = getattr(message, "cluster_id", None)
        self.controller_id: int = getattr(message, "controller_id", NO_CONTROLLER)
        self.nodes = {node.node_id: node for node in map(node_of, message.brokers) if not node.is_empty}
        self.topics: dict[str, TopicMetadata] = {}
        self.errors: dict[str, int] = {}
        """Error codes by topic."""
        self.stale = set(stale)
        """Topics with a partition error that shows the broker's own view to be stale."""
        self.newer_than: dict[str, dict[int, int] | None] = {}
        """Topics whose leader epochs are all at least those in ``base``, with their epochs there by partition."""
        self.newer_epochs: dict[str, dict[int, int]] = {}
        """The same topics, with their epochs in this answer."""
        self.has_news = False
        """True when one of these has other epochs here than in ``base``."""
        self.changed: Collection[str] = self._take_topics(message, {} if base is None else base.topics)

    def _take_topics(self, message: Any, known: Mapping[str, TopicMetadata]) -> list[str]:
        """Sort the response's topics; returns the names of those that differ from the ``known`` ones."""
        changed = []
        replicas: Replicas = {}
        for topic in message.topics:
            if not isinstance(topic, TopicMetadata):
                if topic.name is None:
                    continue
                if topic.error_code:
                    self.errors[topic.name] = topic.error_code
                    continue
                topic = _topic_metadata(topic, message.__version__, self.stale, replicas)
            self.topics[topic.name] = topic
            before = known.get(topic.name)
            if before is not topic:
                changed.append(topic.name)
                if _is_newer(topic, before):
                    self.newer_than[topic.name] = epochs = None if before is None else before.leader_epochs
                    self.newer_epochs[topic.name] = topic.leader_epochs
                    self.has_news = self.has_news or topic.leader_epochs != epochs
        return changed

    @classmethod
    def read(cls, version: int, frame: bytes, base: MetadataCache) -> MetadataAnswer:
        """Decode a response frame, without its size; raises MalformedFrameError."""
        known, stale = base.topics, set[str]()
        replicas: Replicas = {}
        lists: Lists = {}

        def read_topic(read_message: FieldReader, cursor: Cursor) -> object:
            start = cursor.position
            topic = known.get(peek_topic_name(version, cursor) or "")
            # A topic's encoding is self-delimiting: no longer topic can begin with these bytes.
            if topic is not None and topic.wire_version == version and cursor.data.startswith(topic.wire, start):
                cursor.advance(len(topic.wire))
                return topic
            message: Any
            if version >= FIRST_FLEXIBLE:
                message = read_topic_columns(version, cursor, lists, _give_way)
            else:
                message = read_message(cursor)
            if message.error_code or message.name is None:
                return message
            if version >= FIRST_FLEXIBLE:
                found = _of_columns(message, stale)
            else:
                found = _topic_metadata(message, version, stale, replicas)
            # A topic with errors must be read every time, so it must not be recognized.
            if found.name not in stale and _has_epochs(found):
                found.remember(version, cursor.data[start : cursor.position])
            return found

        return cls(read_metadata_response(version, frame, read_topic), base, stale)


def _of_columns(topic: TopicColumns, stale: set[str]) -> TopicMetadata:
    columns, name = topic.partitions, str(topic.name)
    if any(make(code).invalid_metadata for code in columns.error_codes):
        stale.add(name)
    if min(columns.leaders, default=0) < NO_LEADER:
        leaders = tuple([leader if leader >= 0 else NO_LEADER for leader in columns.leaders])
        columns = columns._replace(leaders=leaders)
    return topic_of_columns(name, topic.topic_id, topic.is_internal, columns)


def _give_way() -> None:
    """Let other threads run, above all the event loop's: the call of an interpreted function lets a waiting one run."""


def _topic_metadata(topic: Struct, version: int, stale: set[str], shared: Replicas) -> TopicMetadata:
    name = topic.name
    partitions = []
    for partition in topic.partitions:
        if partition.error_code and make(partition.error_code).invalid_metadata:
            stale.add(name)
        partitions.append(partition_of(name, partition, version, shared))
    topic_id = _bytes_of(getattr(topic, "topic_id", None))
    return TopicMetadata(name, partitions, topic_id, is_internal=getattr(topic, "is_internal", False))


def _is_newer(topic: TopicMetadata, before: TopicMetadata | None) -> bool:
    if not _has_epochs(topic):
        return False
    # Epochs of a topic with another id cannot be compared.
    if before is None or (topic.topic_id is not None and topic.topic_id != before.topic_id):
        return True
    told = topic.leader_epochs
    return all(told.get(number, NO_LEADER_EPOCH) >= epoch for number, epoch in before.leader_epochs.items())


def _has_epochs(topic: TopicMetadata) -> bool:
    return min(topic.leader_epochs.values(), default=NO_LEADER_EPOCH) >= 0


def _throttle_time_ms(message: object) -> float:
    throttle_time = getattr(message, "throttle_time", None)  # kio's duration
    return getattr(message, "throttle_time_ms", 0) if throttle_time is None else throttle_time.total_seconds() * 1_000


def _bytes_of(topic_id: UUID | None) -> bytes | None:
    """None for the zero id, which the protocol writes for "none"."""
    return topic_id.bytes if topic_id is not None and topic_id.int else None
