"""The topics of the cluster: names, ids, configurations, and each partition's leader, epoch, replicas and log.

Owns the topics and the leaders of their partitions; ``topic_folders`` keeps them on disk. It must not know sockets nor
requests. Replicas share one log, so a replica is only an id: the leader moves by a new id and a higher
epoch. Kafka's counterparts are ``ReplicationControlManager`` and ``MetadataCache``.

Rules:

- every call that changes something either changes all of it and has it on disk, or raises and changes nothing;
- each move of a leader, to none as well, raises ``leader_epoch`` by one, and so does a restart;
- ``on_change`` is called with each partition whose leader, start or existence changed, so that waiting fetches look
  again;
- a topic made again under its old name is another topic: new id, new log, epoch 0.

Events: ``broker.topic_option_dropped`` (warning).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ...common import MAX_TOPIC_NAME_LENGTH, TOPIC_NAME_CHARACTERS
from ...errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidTopicError,
    KafkaStorageError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from ...observability import get_logger
from ..config import BrokerConfig
from .log import PartitionLog
from .replica_placer import Assignments, checked_assignments, place_replicas
from .topic_config import TopicConfig
from .topic_folders import SavedPartition, SavedTopic, TopicFolders

__all__ = [
    "Partition",
    "Topic",
    "TopicRegistry",
    "validate_topic_name",
]

logger = get_logger()

MOST_REPLICAS_BY_DEFAULT: Final = 3
"""As in real clusters: Metadata names every replica to every client, and a hundred replicas would be most of it."""


class Partition:
    """One partition: its leader, and its log. ``leader`` is None while there is none.

    ``is_held``: it has no leader on purpose, and gets none by itself until the broker ends. ``layout`` has its
    replicas as they were made, including those on nodes missing from this broker, which was opened with fewer.
    """

    __slots__ = ("index", "is_deleted", "is_held", "layout", "leader", "leader_epoch", "log", "replicas", "topic")

    def __init__(self, topic: Topic, index: int, replicas: Sequence[int], log: PartitionLog) -> None:
        self.topic = topic
        self.index = index
        self.replicas = self.layout = tuple(replicas)
        self.leader: int | None = self.replicas[0] if self.replicas else None
        self.leader_epoch = 0
        self.log = log
        self.is_deleted = False
        self.is_held = False

    @property
    def topic_name(self) -> str:
        """The topic's name."""
        return self.topic.name

    def __repr__(self) -> str:
        return f"<Partition {self.topic.name}-{self.index} leader={self.leader} epoch={self.leader_epoch}>"


class Topic:
    """One topic; ``partitions[i].index == i``.

    ``descriptions`` caches the encoded description by version, each with the nodes that ran: it is emptied whenever the
    topic changes.
    """

    __slots__ = ("config", "descriptions", "folder", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: uuid.UUID, config: TopicConfig, folder: Path | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.folder = folder
        self.partitions: list[Partition] = []
        self.descriptions: dict[int, tuple[tuple[int, ...], bytes]] = {}

    @property
    def is_internal(self) -> bool:
        """Whether clients should leave the topic alone; only these two names are (Java's ``Topic.INTERNAL_TOPICS``)."""
        return self.name in ("__consumer_offsets", "__transaction_state")

    def __repr__(self) -> str:
        return f"<Topic {self.name} {self.topic_id} partitions={len(self.partitions)}>"


class TopicRegistry:
    """All topics, by name and by id; iterating gives the topics."""

    def __init__(
        self,
        config: BrokerConfig,
        node_ids: Sequence[int],
        *,
        data_dir: Path | str | None = None,
    ) -> None:
        """``node_ids`` are all nodes, and all run. With ``data_dir`` its topics are recovered at once
        (``PartitionLog``).

        Raises DamagedFileError, OSError when the folder cannot be read, KafkaStorageError when it cannot be written.
        """
        self._config = config
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._by_metric_name: dict[str, str] = {}
        # nodes
        self.node_ids = tuple(sorted(node_ids))
        self.running_node_ids = set(node_ids)
        # changes; ``version`` grows with each topic made or deleted, and with each that gets partitions
        self.version = 0
        self.on_change: Callable[[Partition], object] = _ignored
        # disk
        self.data_dir = None if data_dir is None else Path(data_dir)
        self._folders = TopicFolders(self.data_dir)
        try:
            for folder, saved in self._folders.load():
                self._restore(folder, saved)
        except BaseException:
            self.close()
            raise

    # looking up

    def get(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        return self._by_name.get(name)

    def by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """The topic of this id, or None. kio reads the zero id as None, and no topic has it."""
        return None if topic_id is None else self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition | None:
        """One partition, or None."""
        topic = self._by_name.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def __iter__(self) -> Iterator[Topic]:
        return iter(tuple(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    # changing

    def create(
        self,
        name: str,
        partitions: int = -1,
        config: Mapping[str, str | None] | None = None,
        *,
        replication_factor: int = -1,
        assignments: Assignments | None = None,
        validate_only: bool = False,
    ) -> Topic:
        """Make a topic and return it; -1 means the broker's default. With ``validate_only`` it is not kept.

        Raises InvalidTopicError, TopicAlreadyExistsError, InvalidPartitionsError, InvalidReplicationFactorError,
        InvalidReplicaAssignmentError or InvalidConfigError, with Kafka's message; KafkaStorageError when the disk does
        not take it.
        """
        validate_topic_name(name)
        self._check_not_there(name)
        placed = self._placement(0, partitions, replication_factor, assignments)
        topic = Topic(name, _new_topic_id(), TopicConfig(self._config, config), None)
        if not validate_only:
            topic.folder = self._folders.folder_of(name, topic.topic_id)
        for index, replicas in placed.items():
            self._add_partition(topic, index, replicas)
        if validate_only:
            return topic
        self._save(topic)
        self._keep(topic)
        return topic

    def delete(self, name: str) -> None:
        """Delete a topic and its data. Raises UnknownTopicOrPartitionError, KafkaStorageError."""
        topic = self._existing(name)
        # First of all: if this process dies now, the next start removes the folder.
        topic.folder = self._folders.discard(topic.folder)
        del self._by_name[name], self._by_id[topic.topic_id], self._by_metric_name[_metric_name(name)]
        for partition in topic.partitions:
            partition.is_deleted = True
            partition.leader = None
            partition.log.delete()
        self._folders.remove(topic.folder)
        self.version += 1
        self._tell(topic.partitions)

    def add_partitions(
        self,
        name: str,
        total_count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Raise the number of partitions to ``total_count``; ``assignments`` has the new ones' replicas, in order.

        Raises UnknownTopicOrPartitionError, InvalidPartitionsError or InvalidReplicaAssignmentError.
        """
        topic = self._existing(name)
        present = len(topic.partitions)
        if total_count == present:
            raise InvalidPartitionsError(f"Topic already has {present} partition(s).", topic=name)
        if total_count < present:
            raise InvalidPartitionsError(
                f"The topic {name} currently has {present} partition(s); {total_count} would not be an increase.",
                topic=name,
            )
        if assignments is not None and len(assignments) != total_count - present:
            raise InvalidReplicaAssignmentError(
                f"Attempted to add {total_count - present} additional partition(s), but only {len(assignments)} "
                f"assignment(s) were specified.",
                topic=name,
            )
        explicit = None if assignments is None else {present + i: nodes for i, nodes in enumerate(assignments)}
        factor = len(topic.partitions[0].replicas) if topic.partitions else -1
        placed = self._placement(present, total_count - present, min(factor, len(self.node_ids)), explicit)
        if validate_only:
            return topic
        for index, replicas in placed.items():
            self._add_partition(topic, index, replicas)
        try:
            self._save(topic)
        except KafkaStorageError:
            del topic.partitions[present:]
            raise
        self.version += 1
        return topic

    def alter_config(self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> TopicConfig:
        """Set options of a topic, None for back to the default.

        Raises UnknownTopicOrPartitionError, InvalidConfigError.
        """
        topic = self._existing(name)
        config = topic.config.altered(changes)
        if validate_only:
            return config
        before, topic.config = topic.config, config
        try:
            self._save(topic)
        except KafkaStorageError:
            topic.config = before
            raise
        for partition in topic.partitions:
            partition.log.config = config
        return config

    # leaders

    def set_leader(self, name: str, index: int, node_id: int | None) -> Partition:
        """Make a node lead a partition (it becomes a replica if it was not), or leave the partition without a leader
        until another call. The epoch rises by one.

        Raises UnknownTopicOrPartitionError, or InvalidReplicaAssignmentError for a node that does not exist.
        """
        partition = self.partition(name, index)
        if partition is None:
            raise UnknownTopicOrPartitionError(f"There is no partition {name}-{index}.", topic=name, partition=index)
        if node_id is not None and node_id not in self.node_ids:
            raise InvalidReplicaAssignmentError(f"There is no node {node_id}: the nodes are {list(self.node_ids)}.")
        replicas = partition.replicas
        if node_id is not None and node_id not in replicas:
            partition.replicas = (*replicas, node_id)
        try:
            self._lead(partition.topic, {partition: node_id})
        except KafkaStorageError:
            partition.replicas = replicas
            raise
        partition.is_held = node_id is None
        return partition

    def elect(self, partition: Partition, node_id: int) -> None:
        """Let a replica of a partition, which runs, lead it; the epoch rises by one."""
        self._lead(partition.topic, {partition: node_id})
        partition.is_held = False

    def reassign(self, name: str, index: int, replicas: Sequence[int]) -> Partition:
        """Give a partition other replicas. They share its log and lead at once, so one of them must run; a leader that
        is not among them is replaced.

        Raises UnknownTopicOrPartitionError or InvalidReplicaAssignmentError; then nothing has changed.
        """
        partition = self.partition(name, index)
        if partition is None:
            raise UnknownTopicOrPartitionError("The partition does not exist.", topic=name, partition=index)
        checked_assignments(index, {index: list(replicas)}, self.node_ids, self.running_node_ids)
        before = partition.replicas
        partition.replicas = tuple(replicas)
        try:
            leader = partition.leader if partition.leader in replicas else self._candidate(partition)
            self._lead(partition.topic, {partition: leader})
        except KafkaStorageError:
            partition.replicas = before
            raise
        partition.is_held = False
        return partition

    def node_stopped(self, node_id: int) -> None:
        """Move the leaders of a node that stopped: each to the first replica that runs, or to none."""
        self.running_node_ids.discard(node_id)
        self._elect(lambda partition: partition.leader == node_id)

    def node_started(self, node_id: int) -> None:
        """Make a node that runs again the leader of its partitions that have none, except for the held ones."""
        self.running_node_ids.add(node_id)
        self._elect(
            lambda partition: partition.leader is None and not partition.is_held and node_id in partition.replicas
        )

    def next_producer_id(self) -> int:
        """The producer id after the highest one that a log remembers."""
        logs = (partition.log for topic in self for partition in topic.partitions)
        return max((max(log.producers.producers, default=-1) for log in logs), default=-1) + 1

    def close(self) -> None:
        """Close all files; idempotent."""
        self._folders.close()

    # internals

    def _existing(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"This server does not host the topic {name}.", topic=name)
        return topic

    def _keep(self, topic: Topic) -> None:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self._by_metric_name[_metric_name(topic.name)] = topic.name
        self.version += 1

    def _check_not_there(self, name: str) -> None:
        if name in self._by_name:
            raise TopicAlreadyExistsError(f"Topic '{name}' already exists.", topic=name)
        other = self._by_metric_name.get(_metric_name(name))
        if other is not None:
            raise InvalidTopicError(f"Topic '{name}' collides with existing topic: {other}", topic=name)

    def _placement(
        self, first: int, count: int, replication_factor: int, assignments: Assignments | None
    ) -> dict[int, tuple[int, ...]]:
        if assignments:
            return checked_assignments(first, assignments, self.node_ids, self.running_node_ids)
        if count == -1:
            count = self._config.num_partitions
        if replication_factor == -1:
            configured = self._config.default_replication_factor
            replication_factor = min(MOST_REPLICAS_BY_DEFAULT if configured == -1 else configured, len(self.node_ids))
        stopped = [node_id for node_id in self.node_ids if node_id not in self.running_node_ids]
        return place_replicas(first, count, replication_factor, sorted(self.running_node_ids), stopped)

    def _add_partition(self, topic: Topic, index: int, replicas: Sequence[int], *, newest_epoch: int = 0) -> Partition:
        log = PartitionLog(
            topic.name,
            index,
            topic.config,
            self._folders.storage(topic.folder, index),
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
            newest_epoch=newest_epoch,
        )
        partition = Partition(topic, index, replicas, log)
        topic.partitions.append(partition)
        partition.leader = self._candidate(partition)
        return partition

    def _candidate(self, partition: Partition) -> int | None:
        return next((node_id for node_id in partition.replicas if node_id in self.running_node_ids), None)

    def _lead(self, topic: Topic, leaders: Mapping[Partition, int | None]) -> None:
        """Give partitions new leaders. No batch is written under an epoch that is not on disk."""
        before = [(partition, partition.leader) for partition in leaders]
        for partition, node_id in leaders.items():
            partition.leader = node_id
            partition.leader_epoch += 1
        try:
            self._save(topic)
        except KafkaStorageError:
            for partition, node_id in before:
                partition.leader = node_id
                partition.leader_epoch -= 1
            raise
        self._tell(leaders)

    def _elect(self, needs_leader: Callable[[Partition], bool]) -> None:
        for topic in self:
            moved = [partition for partition in topic.partitions if needs_leader(partition)]
            if moved:
                self._lead(topic, {partition: self._candidate(partition) for partition in moved})

    def _tell(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.on_change(partition)

    # disk

    def _save(self, topic: Topic) -> None:
        """Write a change to disk. Raises KafkaStorageError; then the caller undoes the change in memory."""
        topic.descriptions.clear()
        if topic.folder is None:
            return
        partitions = [self._saved(partition) for partition in topic.partitions]
        self._folders.save(topic.folder, SavedTopic(topic.name, topic.topic_id, topic.config.overrides, partitions))

    def _saved(self, partition: Partition) -> SavedPartition:
        leader, replicas = partition.leader, partition.replicas
        if partition.layout != replicas == self._known(partition.layout):
            # With all nodes again it is as it was, and led by the first replica unless another was chosen meanwhile.
            leader, replicas = None if leader == replicas[0] else leader, partition.layout
        return SavedPartition(leader, partition.leader_epoch, list(replicas))

    def _restore(self, folder: Path, saved: SavedTopic) -> None:
        topic = Topic(saved.name, saved.topic_id, self._restored_config(saved), folder)
        for index, (leader, epoch, replicas) in enumerate(saved.partitions):
            partition = self._add_partition(topic, index, self._known(replicas), newest_epoch=epoch)
            # Everything was down, so every leader is elected again, which is a new epoch; the old one leads again if
            # it can.
            partition.leader_epoch = epoch + 1
            partition.layout = tuple(replicas)
            if leader in self.running_node_ids:
                partition.leader = leader
        self._save(topic)
        self._keep(topic)

    def _restored_config(self, saved: SavedTopic) -> TopicConfig:
        """The saved options, without those that only an earlier version took."""
        config = TopicConfig(self._config)
        for name, value in saved.config.items():
            try:
                config = config.altered({name: value})
            except InvalidConfigError as error:
                logger.warning("broker.topic_option_dropped", topic=saved.name, option=name, error=str(error))
        return config

    def _known(self, replicas: Sequence[int]) -> tuple[int, ...]:
        # A data_dir may be opened with fewer nodes than it was written with.
        return tuple(node_id for node_id in replicas if node_id in self.node_ids) or self.node_ids[:1]


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicError unless the name is one that Kafka takes."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME_LENGTH}"
    elif not TOPIC_NAME_CHARACTERS.issuperset(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise InvalidTopicError(f"Topic name is invalid: {problem}", topic=name)


def _metric_name(name: str) -> str:
    # Kafka: topics that differ in . and _ only would share their metrics.
    return name.replace(".", "_")


def _new_topic_id() -> uuid.UUID:
    # Kafka's Uuid.randomUuid: its text form must not start with a dash, or tools take it for an option.
    while True:
        topic_id = uuid.UUID(bytes=os.urandom(16), version=4)
        if topic_id.bytes[0] >> 2 != 62:
            return topic_id


def _ignored(partition: Partition) -> None:
    """The default of ``on_change``."""
