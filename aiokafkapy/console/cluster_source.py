"""``ClusterSource``: reads any cluster by requests: metadata, offsets, groups, transactions.

Owns the rate of each request, and the conversion of answers to ``model``; ``cluster_queries`` asks, ``cluster_feed``
reads records, a ``KafkaProducer`` writes them. Its client id is ``aiokafkapy-console``, so that the brokers' logs
identify it.

Rules:

- one Metadata request and one round of ListOffsets per tick, shared by all views; both only while a page is open;
- for groups of both consumer protocols the members are shown; for other groups only the offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from ..admin.topics import TopicAdmin, TopicDescription
from ..client.config import ClientConfig
from ..common import NO_LEADER, JsonLike, TopicPartition, milliseconds
from ..common import Node as Coordinator
from ..errors import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from ..producer.config import ProducerConfig
from ..producer.producer import KafkaProducer
from ..protocol.api import ApiKey
from ..protocol.codec import Struct
from ..reader import PartitionReader, ReaderConfig
from .assignments import read_assignment
from .cluster_feed import ClusterFeed
from .cluster_queries import TIMEOUT, ClusterQueries, Described, answers_of_some
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
from .source import Abilities, NewRecord, Start, Written

__all__ = ["ClusterSource", "offsets_of_leaders"]

CLIENT_ID: Final = "aiokafkapy-console"
MOST_GROUPS: Final = 200
"""The most groups whose offsets are requested, one request each."""
CLASSIC: Final = ("", "classic")
CONSUMER: Final = "consumer"
"""The type of groups of KIP-848."""
SHARE: Final = "share"
"""The type of groups of KIP-932."""
_KINDS: Final = {CONSUMER: KIP_848, SHARE: KIP_932}


class ClusterSource:
    """``Source`` over a cluster. ``options`` are a client's, by their names in Python."""

    abilities = Abilities()
    broker = None
    request_log = None
    samples_always = False
    tick = 2.0

    def __init__(self, bootstrap_servers: str | Sequence[str], **options: Any) -> None:
        """Does no I/O. Raises ConfigurationError for a wrong option."""
        given = {"client_id": CLIENT_ID, **options, "bootstrap_servers": bootstrap_servers}
        self._options = given
        config = ClientConfig(**given)
        self._reader_config = ReaderConfig(**given)
        self._queries = ClusterQueries(config)
        self._admin = TopicAdmin(config=config, timeout=TIMEOUT)
        self._reader: PartitionReader | None = None
        self._producer: KafkaProducer[bytes, bytes] | None = None
        self._is_making_producer = asyncio.Lock()
        self._described: Described | None = None
        self._first: dict[TopicPartition, int] = {}
        self._end: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        """Make the clients; the first request connects."""
        self._is_making_producer = asyncio.Lock()  # bound to this loop
        self._queries.start()
        await self._admin.__aenter__()
        self._reader = PartitionReader(config=self._reader_config)
        await self._reader.start()

    async def stop(self) -> None:
        """Close them."""
        await self._queries.close()
        await self._admin.close()
        if self._reader is not None:
            await self._reader.close()
        async with self._is_making_producer:
            producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(TIMEOUT)

    async def sample(self) -> Sample:
        """Request topics and offsets, for the totals and for the views until the next sample."""
        self._described = described = await self._queries.describe()
        topics = described.topics
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic in topics:
            for one in topic.partitions:
                by_leader.setdefault(one.leader, []).append(TopicPartition(topic.name, one.partition))
        by_leader.pop(NO_LEADER, None)
        assert self._reader is not None
        self._first, self._end = await asyncio.gather(
            offsets_of_leaders(self._reader.beginning_offsets, by_leader, self._first),
            offsets_of_leaders(self._reader.end_offsets, by_leader, self._end),
        )
        records = dict.fromkeys((topic.name for topic in topics), 0)
        for tp, end in self._end.items():
            records[tp.topic] += end
        return Sample(records, None, None, None, None, sum(len(topic.partitions) for topic in topics))

    async def cluster(self) -> Cluster:
        """The brokers that metadata names."""
        known = self._known()
        nodes = [Node(one.node_id, one.address) for one in known.nodes]
        return Cluster(known.cluster_id, "cluster", nodes, known.controller_id)

    # topics

    async def topics(self) -> list[Topic]:
        """All topics, as of the last sample."""
        return [self._topic(one) for one in self._known().topics]

    async def topic(self, name: str) -> TopicDetail:
        """One topic with its partitions, its own options, and the lags of groups that read it."""
        found = self._found(name)
        configs, lags = await asyncio.gather(self._admin.configs(name), self._lags(name))
        partitions = []
        for one in found.partitions:
            tp = TopicPartition(name, one.partition)
            partitions.append(
                Partition(
                    one.partition,
                    None if one.leader == NO_LEADER else one.leader,
                    one.leader_epoch,
                    one.replicas,
                    one.in_sync_replicas,
                    self._first.get(tp),
                    self._end.get(tp),
                    lags=lags.get(one.partition, []),
                )
            )
        return TopicDetail(self._topic(found), partitions, configs)

    def _topic(self, topic: TopicDescription) -> Topic:
        partitions = [TopicPartition(topic.name, one.partition) for one in topic.partitions]
        return Topic(
            name=topic.name,
            partitions=len(partitions),
            replicas=max((len(one.replicas) for one in topic.partitions), default=0),
            records=sum(self._end.get(tp, 0) - self._first.get(tp, 0) for tp in partitions),
            size=None,
            without_leader=sum(one.leader == NO_LEADER for one in topic.partitions),
            is_internal=topic.is_internal,
        )

    def _known(self) -> Described:
        if self._described is None:
            raise KafkaError("the cluster has not answered yet")
        return self._described

    def _found(self, name: str) -> TopicDescription:
        for topic in self._known().topics:
            if topic.name == name:
                return topic
        raise UnknownTopicOrPartitionError(f"there is no topic {name!r}", topic=name)

    async def _lags(self, topic: str) -> dict[int, list[Lag]]:
        found: dict[int, list[Lag]] = {}
        for group, offsets in (await self._groups_with_offsets())[:MOST_GROUPS]:
            for one in offsets:
                if one.topic == topic and one.lag is not None:
                    found.setdefault(one.partition, []).append(Lag(group.group_id, one.committed, one.lag))
        return found

    # groups and transactions

    async def groups(self) -> list[Group]:
        """All groups, by name, with lags."""
        return [group for group, _ in await self._groups_with_offsets()]

    async def _groups_with_offsets(self) -> list[tuple[Group, list[Committed]]]:
        listed = await self._queries.groups(self._known().nodes)
        by_node: dict[Coordinator, list[Struct]] = {}
        for node, group in listed:
            by_node.setdefault(node, []).append(group)
        found: list[tuple[Group, list[Committed]]] = []
        for node, groups in by_node.items():
            described = await self._with_members(node, groups)
            asked = groups[:MOST_GROUPS]
            offsets = await asyncio.gather(*(self._committed(node, one.group_id) for one in asked))
            for one, committed in zip(asked, offsets, strict=True):
                found.append((_group(one, described.get(one.group_id), committed, node.node_id), committed))
        return sorted(found, key=lambda each: each[0].group_id)

    async def group(self, group_id: str) -> GroupDetail:
        """One group. GroupIdNotFoundError."""
        node = await self._queries.coordinator(group_id)
        listed = [group for _, group in await self._queries.groups([node]) if group.group_id == group_id]
        if not listed:
            raise GroupIdNotFoundError(f"there is no group {group_id!r}")
        described = (await self._with_members(node, listed)).get(group_id)
        owners: dict[TopicPartition, str] = {}
        members = []
        for each in () if described is None else described.members:
            assigned = _assigned(each)
            owners |= dict.fromkeys(assigned, each.client_id)
            instance_id = getattr(each, "group_instance_id", None) or getattr(each, "instance_id", None)
            shown = [str(tp) for tp in sorted(assigned)]
            members.append(Member(each.member_id, each.client_id, each.client_host, instance_id, shown))
        committed = await self._committed(node, group_id, owners)
        return GroupDetail(_group(listed[0], described, committed, node.node_id), members, committed)

    async def _with_members(self, node: Coordinator, listed: Sequence[Struct]) -> dict[str, Struct]:
        """Groups of one coordinator with their members, by id, as far as a request tells them."""
        kinds = {one.group_id: getattr(one, "group_type", "") for one in listed}
        classic = [group_id for group_id, kind in kinds.items() if kind in CLASSIC]
        found = await self._queries.described_groups(node, classic)
        new = [group_id for group_id, kind in kinds.items() if kind == CONSUMER]
        found += await self._queries.described_new_groups(ApiKey.CONSUMER_GROUP_DESCRIBE, node, new)
        shared = [group_id for group_id, kind in kinds.items() if kind == SHARE]
        found += await self._queries.described_new_groups(ApiKey.SHARE_GROUP_DESCRIBE, node, shared)
        return {one.group_id: one for one in found}

    async def _committed(
        self, node: Coordinator, group_id: str, owners: dict[TopicPartition, str] | None = None
    ) -> list[Committed]:
        owners = owners or {}
        try:
            offsets = await self._queries.offsets(node, group_id)
        except KafkaError:
            offsets = {}  # the coordinator has just moved, or we may not see it
        found = []
        for tp in sorted(offsets.keys() | owners.keys()):
            committed, end = offsets.get(tp, -1), self._end.get(tp)
            end = None if end is None else max(end, committed)  # the end is of the last sample, and the offset is newer
            lag = None if end is None or committed < 0 else end - committed
            found.append(Committed(tp.topic, tp.partition, committed, end, lag, owners.get(tp)))
        return found

    async def transactions(self) -> list[Transaction]:
        """All transactional ids; those with an open transaction first."""
        found = [
            Transaction(
                one.transactional_id,
                one.transaction_state,
                one.producer_id,
                one.producer_epoch,
                milliseconds(one.transaction_timeout),
                _started_ms(one),
                [f"{topic.topic}-{index}" for topic in one.topics for index in topic.partitions],
                coordinator=node.node_id,
            )
            for node, one in await self._queries.transactions(self._known().nodes)
        ]
        return sorted(found, key=lambda one: (one.started_ms is None, one.transactional_id))

    async def clients(self) -> list[Client]:
        """Empty: no request tells the clients."""
        return []

    # records

    async def feed(self, topic: str, partition: int | None, start: Start, *, is_committed: bool = False) -> ClusterFeed:
        """Records of a topic from ``start`` on."""
        described = await self._admin.describe(topic)
        if partition is not None and partition not in {one.partition for one in described.partitions}:
            raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{partition}", topic=topic)
        describe = self._admin.describe
        feed = ClusterFeed(self._reader_config, described, partition, describe, is_committed=is_committed)
        await feed.start(start)
        return feed

    async def produce(self, record: NewRecord) -> Written:
        """Send the record, with a producer's default options."""
        async with self._is_making_producer:  # one for all: of several made at once only the last would be closed
            if self._producer is None:
                made: KafkaProducer[bytes, bytes] = KafkaProducer(config=ProducerConfig(**self._options))
                await made.start()
                self._producer = made
            producer = self._producer
        metadata = await producer.send(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            headers=record.headers,
        )
        return Written(metadata.partition, metadata.offset)

    def describe_faults(self) -> JsonLike:
        """None: only a dev broker has faults."""
        return None


async def offsets_of_leaders(
    look_up: Callable[[list[TopicPartition], float], Awaitable[dict[TopicPartition, int]]],
    by_leader: Mapping[int, list[TopicPartition]],
    before: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offsets of each leader's partitions; those of ``before`` for a leader that does not answer, unless none
    answers.
    """
    answers = await answers_of_some(look_up(each, TIMEOUT) for each in by_leader.values())
    found: dict[TopicPartition, int] = {}
    for partitions, answer in zip(by_leader.values(), answers, strict=True):
        if isinstance(answer, BaseException):
            found |= {tp: before[tp] for tp in partitions if tp in before}
        else:
            found |= answer
    return found


def _started_ms(transaction: Struct) -> int | None:
    """The time at which the open transaction began; Kafka also tells the time of an ended one."""
    started = milliseconds(transaction.transaction_start_time)
    is_open = transaction.transaction_state == "Ongoing" or transaction.transaction_state.startswith("Prepare")
    return started if is_open and started >= 0 else None


def _assigned(member: Struct) -> list[TopicPartition]:
    """The partitions of a member, of either protocol."""
    if hasattr(member, "member_assignment"):
        return read_assignment(member.member_assignment)
    topics = member.assignment.topic_partitions
    return [TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions]


def _group(listed: Struct, described: Struct | None, offsets: list[Committed], coordinator: int) -> Group:
    state = getattr(listed, "group_state", "") or getattr(described, "group_state", "")
    kind = getattr(listed, "group_type", "")
    return Group(
        listed.group_id,
        state or "unknown",
        _KINDS.get(kind, kind) if kind not in CLASSIC else listed.protocol_type,
        getattr(described, "protocol_data", "") or getattr(described, "assignor_name", ""),
        None if described is None else len(described.members),
        sum(one.lag or 0 for one in offsets) if offsets else None,
        sorted({one.topic for one in offsets}),
        coordinator,
    )
