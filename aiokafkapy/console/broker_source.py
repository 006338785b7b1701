"""``BrokerSource``: reads a dev broker in this process from inside, without requests.

Owns the reading of the broker's state into ``model``; ``client_log`` has the requests and clients, ``fault_view`` the
faults, ``broker_feed`` the records. Its only change is ``produce``, which appends to a log as the Produce handler
does; users, ACLs and faults, which are for clients, do not apply to it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from ..broker.coordination.classic_group import ClassicGroup as BrokerGroup
from ..broker.coordination.consumer_group import ConsumerGroup
from ..broker.coordination.group_directory import AnyGroup
from ..broker.coordination.group_offsets import CommittedOffset
from ..broker.coordination.share_group import SHARE_ASSIGNOR, ShareGroup
from ..broker.coordination.share_partition_manager import NO_OFFSET
from ..broker.coordination.transaction import NEVER_MS, TransactionState
from ..broker.storage.topics import Partition as BrokerPartition
from ..broker.storage.topics import Topic as BrokerTopic
from ..common import JsonLike, TopicPartition
from ..errors import GroupIdNotFoundError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from ..record.builder import RecordBatchBuilder
from ..record.murmur2 import partition_for_key
from .assignments import read_assignment
from .broker_feed import BrokerFeed
from .client_log import ClientLog
from .fault_view import faults_in_force
from .model import (
    KIP_848,
    KIP_932,
    Client,
    Cluster,
    Committed,
    Group,
    GroupDetail,
    Lag,
    Member,
    Node,
    Partition,
    Sample,
    Topic,
    TopicDetail,
    Transaction,
)
from .request_log import RequestLog
from .shown_broker import ShownBroker
from .source import Abilities, NewRecord, Start, Written

__all__ = ["BrokerSource"]


class BrokerSource:
    """``Source`` over a ``DevBroker``."""

    abilities = Abilities(faults=True, requests=True, clients=True)
    samples_always = True
    tick = 1.0

    def __init__(self, broker: ShownBroker) -> None:
        self.broker = broker
        self.request_log = RequestLog()
        self._clients = ClientLog(self.request_log)

    async def start(self) -> None:
        """Watch the requests from now on."""
        self.broker.watch_requests(self._clients.note)

    async def stop(self) -> None:
        """Stop watching."""
        self.broker.watch_requests(None)

    async def sample(self) -> Sample:
        """The totals of the cluster and of each topic. It takes a microsecond for each partition."""
        records: dict[str, int] = {}
        sizes: dict[str, int] = {}
        partitions = 0
        for topic in self.broker.state.topics:
            logs = [each.log for each in topic.partitions]
            partitions += len(logs)
            records[topic.name] = sum(log.end_offset for log in logs)
            sizes[topic.name] = sum(log.size for log in logs)
        connections = self.broker.connections()
        self._clients.forget_all_but({each.info.connection_id for _, each in connections})
        log = self.request_log
        return Sample(records, sizes, log.requests, log.errors, len(connections), partitions)

    async def cluster(self) -> Cluster:
        """The nodes, running or not."""
        broker = self.broker
        running = {node.node_id for node in broker.running_nodes}
        nodes = [
            Node(
                one.node_id,
                one.address,
                is_running=one.node_id in running,
                is_stalled=one.node_id in broker.stalled_nodes,
            )
            for one in broker.nodes
        ]
        controller = broker.state.controller_id
        kind = "dev broker" if broker.emulation is None else f"dev broker as {broker.emulation.name}"
        return Cluster(broker.cluster_id, kind, nodes, None if controller < 0 else controller)

    # topics

    async def topics(self) -> list[Topic]:
        """All topics, by name; rates are added by the watch."""
        return sorted((_topic(each) for each in self.broker.state.topics), key=lambda topic: topic.name)

    async def topic(self, name: str) -> TopicDetail:
        """One topic. UnknownTopicOrPartitionError."""
        topic = self._existing(name)
        lags = self._lags(topic)
        partitions = [self._partition(each, lags.get(each.index, [])) for each in topic.partitions]
        return TopicDetail(_topic(topic), partitions, dict(topic.config.overrides))

    def _existing(self, name: str) -> BrokerTopic:
        topic = self.broker.state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"there is no topic {name!r}", topic=name)
        return topic

    def _partition(self, partition: BrokerPartition, lags: list[Lag]) -> Partition:
        log = partition.log
        return Partition(
            partition.index,
            partition.leader,
            partition.leader_epoch,
            partition.replicas,
            self.broker.state.in_sync_replicas(partition),
            log.start_offset,
            log.end_offset,
            log.last_stable_offset,
            log.size,
            lags=lags,
        )

    def _lags(self, topic: BrokerTopic) -> dict[int, list[Lag]]:
        groups = self.broker.state.groups
        found: dict[int, list[Lag]] = {}
        for group_id in groups.offsets.groups():
            for tp, committed in groups.offsets.get(group_id).items():
                index = tp.partition
                if tp.topic == topic.name and committed.topic_id == topic.topic_id and index < len(topic.partitions):
                    lag = max(0, topic.partitions[index].log.end_offset - committed.offset)
                    found.setdefault(index, []).append(Lag(group_id, committed.offset, lag))
        return found

    # groups and transactions

    async def groups(self) -> list[Group]:
        """All groups, by name."""
        return sorted((self._group(each) for each in self.broker.state.groups), key=lambda group: group.group_id)

    async def group(self, group_id: str) -> GroupDetail:
        """One group. GroupIdNotFoundError."""
        group = self.broker.state.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"there is no group {group_id!r}")
        owners: dict[TopicPartition, str] = {}
        members = []
        for each, assigned in self._members(group):
            owners |= dict.fromkeys(assigned, each.client_id)
            members.append(each)
        return GroupDetail(self._group(group), members, self._committed(group_id, owners))

    def _members(self, group: AnyGroup) -> Iterator[tuple[Member, list[TopicPartition]]]:
        """Each member with its partitions, of any protocol."""
        if not isinstance(group, BrokerGroup):
            for new in group.members.values():
                topics = [(self.broker.state.topics.by_id(each.topic_id), each.partition) for each in new.assigned]
                assigned = sorted(TopicPartition(topic.name, index) for topic, index in topics if topic is not None)
                instance_id = getattr(new, "instance_id", None)
                shown = [str(tp) for tp in assigned]
                yield Member(new.member_id, new.client_id, new.client_host, instance_id, shown), assigned
            return
        for old in group.members.values():
            assigned = sorted(read_assignment(old.assignment)) if group.protocol_type == "consumer" else []
            shown = [str(tp) for tp in assigned]
            member = Member(
                old.member_id,
                old.client_id,
                old.client_host,
                old.group_instance_id,
                shown,
                is_leader=old.member_id == group.leader,
            )
            yield member, assigned

    def _group(self, group: AnyGroup) -> Group:
        kind, protocol = _protocol(group)
        offsets = self._committed(group.group_id, {})
        coordinator = self.broker.state.coordinator_for(group.group_id)
        return Group(
            group.group_id,
            group.state.value,
            kind,
            protocol,
            len(group.members),
            sum(each.lag or 0 for each in offsets) if offsets else None,
            sorted({each.topic for each in offsets}),
            None if coordinator is None else coordinator.node_id,
        )

    def _committed(self, group_id: str, owners: dict[TopicPartition, str]) -> list[Committed]:
        state, found = self.broker.state, []
        offsets = state.groups.offsets.get(group_id) | self._share_starts(group_id)
        for tp in sorted(offsets.keys() | owners.keys()):
            partition = state.topics.partition(tp.topic, tp.partition)
            committed = offsets.get(tp)
            if partition is None or (committed is not None and committed.topic_id != partition.topic.topic_id):
                continue
            end = partition.log.end_offset
            if committed is None:
                found.append(Committed(tp.topic, tp.partition, -1, end, None, owners[tp]))
            else:
                lag = max(0, end - committed.offset)
                found.append(Committed(tp.topic, tp.partition, committed.offset, end, lag, owners.get(tp)))
        return found

    def _share_starts(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """The offsets at which a share group begins in its partitions, since it commits none."""
        topics, found = self.broker.state.topics, {}
        for key, state in self.broker.state.groups.share_partitions.offsets(group_id).items():
            topic = topics.by_id(key.topic_id)
            if topic is not None and state.start_offset != NO_OFFSET:
                committed = CommittedOffset(state.start_offset, topic_id=topic.topic_id)
                found[TopicPartition(topic.name, key.partition)] = committed
        return found

    async def transactions(self) -> list[Transaction]:
        """All transactional ids; those with an open transaction first."""
        found = []
        for each in self.broker.state.transactions:
            coordinator = self.broker.state.coordinator_for(each.transactional_id)
            is_open = each.state is TransactionState.ONGOING or each.is_ending
            found.append(
                Transaction(
                    each.transactional_id,
                    each.state.value,
                    each.producer_id,
                    each.producer_epoch,
                    None if each.timeout_ms == NEVER_MS else each.timeout_ms,
                    each.started_ms if is_open and each.started_ms >= 0 else None,
                    [str(tp) for tp in sorted(each.partitions)],
                    sorted(each.groups),
                    None if coordinator is None else coordinator.node_id,
                )
            )
        return sorted(found, key=lambda one: (one.started_ms is None, one.transactional_id))

    async def clients(self) -> list[Client]:
        """The open connections."""
        return self._clients.clients(self.broker.connections())

    # records

    async def feed(self, topic: str, partition: int | None, start: Start, *, is_committed: bool = False) -> BrokerFeed:
        """Records of a topic from ``start`` on. UnknownTopicOrPartitionError."""
        found = self._existing(topic)
        if partition is not None and partition >= len(found.partitions):
            raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{partition}", topic=topic)
        return BrokerFeed(found, partition, start, self.broker.state.topics.get, is_committed=is_committed)

    async def produce(self, record: NewRecord) -> Written:
        """Append the record. Raises UnknownTopicOrPartitionError, LeaderNotAvailableError, and the errors of a log's
        ``append``.
        """
        topic, state = self._existing(record.topic), self.broker.state
        index = record.partition
        if index is None and record.key is not None:
            index = partition_for_key(record.key, len(topic.partitions))
        elif index is None:
            index = random.choice([each.index for each in topic.partitions if each.leader is not None] or [0])
        if index >= len(topic.partitions):
            raise UnknownTopicOrPartitionError(f"there is no partition {record.topic}-{index}", topic=record.topic)
        partition = topic.partitions[index]
        if partition.leader is None:
            raise LeaderNotAvailableError(f"partition {record.topic}-{index} has no leader", topic=record.topic)
        now_ms = state.timestamp_ms()
        builder = RecordBatchBuilder(2**30)
        builder.try_append(now_ms, record.key, record.value, record.headers)
        builder.seal(0)
        info = partition.log.append(b"".join(builder.buffers()), partition.leader_epoch, now_ms)
        state.purgatory.check(partition)
        return Written(index, info.base_offset)

    def describe_faults(self) -> JsonLike:
        """The faults in force."""
        return faults_in_force(self.broker)


def _topic(topic: BrokerTopic) -> Topic:
    logs = [each.log for each in topic.partitions]
    return Topic(
        name=topic.name,
        partitions=len(logs),
        replicas=max((len(each.replicas) for each in topic.partitions), default=0),
        records=sum(log.end_offset - log.start_offset for log in logs),
        size=sum(log.size for log in logs),
        without_leader=sum(each.leader is None for each in topic.partitions),
        is_internal=topic.is_internal,
    )


def _protocol(group: AnyGroup) -> tuple[str, str]:
    """The kind of a group, and its assignor."""
    if isinstance(group, ConsumerGroup):
        return KIP_848, group.assignor
    if isinstance(group, ShareGroup):
        return KIP_932, SHARE_ASSIGNOR
    return group.protocol_type or "", group.protocol_name or ""
