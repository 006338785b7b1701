"""The dev broker and real Kafka on share groups (KIP-932): heartbeats, sessions, records, offsets, words.

Left out of the comparison, with the reason:

- epochs of groups: Kafka counts one more, for its share coordinator hears of a topic after the group has subscribed to
  it; a first answer has no partitions for the same reason, and members ask until they have some;
- the cuts between ranges of offsets, which mean nothing: both answers are compared record by record;
- the start of a group, except after it has ended: Kafka writes a new start with the next change only;
- AlterShareGroupOffsets of topics that there are: Kafka 4.1.0 says that it has done so, and has not (its request's
  topics are put into a second collection, which refuses elements of another one);
- topic ids that do not exist in ShareFetch: Kafka 4.1.0 has an exception of its own then, UNKNOWN_SERVER_ERROR;
- acknowledgements of a ShareFetch that give records back, and those that the same request is to get: Kafka may read
  before it has written the former.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import iter_batches
from aiokafkapy.testing import ApacheKafka
from tests.clusters import started
from tests.kafka.agreement import (
    COORDINATOR_ERRORS,
    Scenario,
    answers_of_both,
    batch,
    create,
    describe,
    join_fields,
    patiently,
    produce,
    when_ready,
)
from tests.raw_client import RawClient
from tests.shared import SHARED

ACCEPT, RELEASE, REJECT = 1, 2, 3
CONCURRENT_TRANSACTIONS = 51
Range = tuple[int, int, list[int]]


@pytest.fixture
def share_kafka() -> ApacheKafka:
    """One real node that can have share groups; scenarios ask it for them."""
    config = {
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.share.min.record.lock.duration.ms": 1_000,
    }
    node = SHARED.enter("one node with share groups", lambda: started(ApacheKafka(config=config)))
    node.restore_blocking()
    return node


async def enable(client: RawClient) -> None:
    updates = [{"feature": "share.version", "max_version_level": 1, "upgrade_type": 1}]
    body = await client.call(ApiKey.UPDATE_FEATURES, 1, timeout=10_000, feature_updates=updates, validate_only=False)
    assert body.error_code == 0, body
    async with asyncio.timeout(20):
        while True:
            told = await client.call(ApiKey.API_VERSIONS, 3, client_software_name="raw", client_software_version="1")
            if ("share.version", 1) in [(each.name, each.max_version_level) for each in told.finalized_features]:
                return


def new_member(name: str) -> str:
    """Java's form of a UUID, as its clients have."""
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_OID, name).bytes).rstrip(b"=").decode()


async def configure(client: RawClient, group: str, **options: str) -> int:
    configs = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in options.items()
    ]
    resources = [{"resource_type": 32, "resource_name": group, "configs": configs}]
    body = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    return int(body.responses[0].error_code)


async def topic_id_of(client: RawClient, topic: str) -> Any:
    body = await client.call(ApiKey.METADATA, 12, topics=[{"name": topic}])
    return body.topics[0].topic_id


async def beat(client: RawClient, group: str, member: str, epoch: int, **fields: Any) -> Any:
    return await patiently(
        client, ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=group, member_id=member, member_epoch=epoch, **fields
    )


def told(body: Any, *, with_epoch: bool = False) -> Any:
    """An answer without epoch and id of the topic."""
    words = (int(body.error_code), body.error_message)
    return (*words, body.member_epoch) if with_epoch else words


def partitions_of(body: Any) -> list[int] | None:
    if body.assignment is None:
        return None
    return sorted(index for topic in body.assignment.topic_partitions for index in topic.partitions)


async def join(client: RawClient, group: str, member: str, *topics: str) -> tuple[int, list[int]]:
    """The member's epoch and its partitions, as soon as it has some."""
    body = await beat(client, group, member, 0, subscribed_topic_names=list(topics))
    assert body.error_code == 0, body
    async with asyncio.timeout(30):
        while not (found := partitions_of(body)):
            # Each is an event of the thread that is to make the group's state, and its topic, for the first member.
            await asyncio.sleep(0.05)
            epoch = body.member_epoch
            body = await beat(client, group, member, epoch, subscribed_topic_names=list(topics))
            assert body.error_code == 0, body
    return body.member_epoch, found


class Member:
    """One member at the one node: it keeps the epoch of its session, and counts offsets record by record."""

    def __init__(self, client: RawClient, group: str, topic_id: Any, name: str = "one") -> None:
        self.client = client
        self.group = group
        self.topic_id = topic_id
        self.member_id = new_member(name)
        self.epoch = 0

    def topics(self, acknowledged: list[Range], partition: int) -> list[dict[str, Any]]:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
            for first, last, types in acknowledged
        ]
        partitions = [{"partition_index": partition, "acknowledgement_batches": batches}]
        return [{"topic_id": self.topic_id, "partitions": partitions}]

    def _next_epoch(self, epoch: int | None) -> int:
        if epoch is None:
            epoch, self.epoch = self.epoch, self.epoch + 1
        return epoch

    async def fetch(self, *acknowledged: Range, partition: int = 0, epoch: int | None = None, **fields: Any) -> Any:
        fields = {"max_wait": 200, "min_bytes": 1, "max_records": 500, "batch_size": 500, **fields}
        fields = {"topics": self.topics(list(acknowledged), partition), **fields}
        body = await self.client.call(
            ApiKey.SHARE_FETCH,
            1,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._next_epoch(epoch),
            **fields,
        )
        if body.error_code:
            return int(body.error_code), body.error_message
        return [self._partition(each) for topic in body.responses for each in topic.partitions]

    async def has_fetched(self, wanted: int, **fields: Any) -> Any:
        """Fetch until there is an answer with so many records: Kafka reads a group's state first."""
        async with asyncio.timeout(20):
            while True:
                answer = await self.fetch(**fields)
                if isinstance(answer, tuple) or sum(len(each[3]) for each in answer) >= wanted:
                    return answer

    async def acknowledge(self, *acknowledged: Range, partition: int = 0, epoch: int | None = None) -> Any:
        body = await self.client.call(
            ApiKey.SHARE_ACKNOWLEDGE,
            1,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._next_epoch(epoch),
            topics=self.topics(list(acknowledged), partition) if acknowledged else [],
        )
        if body.error_code:
            return int(body.error_code), body.error_message
        return [
            (each.partition_index, int(each.error_code), each.error_message)
            for t in body.responses
            for each in t.partitions
        ]

    @staticmethod
    def _partition(answer: Any) -> Any:
        acquired = [
            (offset, each.delivery_count)
            for each in answer.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        ]
        offsets = {offset for offset, _ in acquired}
        batches = [each for each in iter_batches(bytes(answer.records or b"")) if not each.is_control]
        records = [record.value for each in batches for record in each.records("t", 0) if record.offset in offsets]
        error = (int(answer.error_code), answer.error_message)
        return (
            answer.partition_index,
            error,
            (answer.acknowledge_error_code, answer.acknowledge_error_message),
            acquired,
            records,
        )


async def a_group(client: RawClient, topic: str, partitions: int = 1, **options: str) -> Member:
    """A member of a group of the topic's name that reads it from the start."""
    await enable(client)
    await create(client, topic, partitions)
    assert await configure(client, topic, **{"share_auto_offset_reset": "earliest", **options}) == 0
    member = Member(client, topic, await topic_id_of(client, topic))
    await join(client, topic, member.member_id, topic)
    return member


async def offsets(client: RawClient, group: str, topics: Any = None, *, starts: bool = False) -> Any:
    (answer,) = (
        await client.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, groups=[{"group_id": group, "topics": topics}])
    ).groups
    return (
        int(answer.error_code),
        answer.error_message,
        [
            (
                each.partition_index,
                each.start_offset if starts else None,
                each.leader_epoch,
                int(each.error_code),
                each.error_message,
            )
            for found in answer.topics
            for each in sorted(found.partitions, key=lambda each: each.partition_index)
        ],
    )


async def described(client: RawClient, group: str) -> Any:
    (answer,) = (await client.call(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=[group])).groups
    members = [
        (
            each.client_id,
            each.client_host,
            each.rack_id,
            each.subscribed_topic_names,
            [(found.topic_name, sorted(found.partitions)) for found in each.assignment.topic_partitions],
        )
        for each in answer.members
    ]
    return int(answer.error_code), answer.error_message, answer.group_state, answer.assignor_name, members


# scenarios


async def the_life_of_a_group(client: RawClient, topic: str) -> Any:
    await enable(client)
    await create(client, topic, 3)
    one, two = new_member("one"), new_member("two")
    answers: list[Any] = [told(await beat(client, topic, one, 1)), told(await beat(client, topic, one, -1))]
    answers.append(await described(client, topic))
    epoch, found = await join(client, topic, one, topic)
    answers += [found, await described(client, topic)]
    answers.append(partitions_of(await beat(client, topic, one, epoch)))
    answers.append(partitions_of(await beat(client, topic, one, epoch, subscribed_topic_names=[topic])))
    _, second = await join(client, topic, two, topic)
    answers.append(len(second))
    async with asyncio.timeout(30):
        sizes: list[int] = []
        while sum(sizes) != 3:
            epoch = (await beat(client, topic, one, epoch)).member_epoch
            sizes = sorted(len(each[4][0][1]) for each in (await described(client, topic))[4])
    answers.append(sizes)
    answers.append(told(await beat(client, topic, one, epoch + 5))[0])
    answers.append(told(await beat(client, topic, "nobody", 3)))
    body = await client.call(ApiKey.LIST_GROUPS, 5, types_filter=["Share"])
    answers.append([(g.protocol_type, g.group_state, g.group_type.lower()) for g in body.groups if g.group_id == topic])
    answers.append(await describe(client, topic))
    body = await client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[topic])
    answers.append((int(body.groups[0].error_code), body.groups[0].error_message))
    body = await client.call(ApiKey.DELETE_GROUPS, 2, groups_names=[topic])
    answers.append(int(body.results[0].error_code))
    answers.append(told(await beat(client, topic, one, -1), with_epoch=True))
    answers.append(told(await beat(client, topic, two, -1), with_epoch=True))
    answers += [await described(client, topic), told(await beat(client, topic, two, -1))]
    body = await client.call(ApiKey.DELETE_GROUPS, 2, groups_names=[topic])
    answers.append(int(body.results[0].error_code))
    answers.append(await described(client, topic))
    return answers


async def versions(client: RawClient, topic: str) -> Any:
    await enable(client)
    body = await client.call(ApiKey.API_VERSIONS, 4, client_software_name="raw", client_software_version="1")
    ranges = {each.api_key: (each.min_version, each.max_version) for each in body.api_keys}
    features = {each.name: (each.min_version, each.max_version) for each in body.supported_features}
    keys = [api for api in ApiKey if "SHARE" in api.name]
    return [(api.name, ranges.get(api)) for api in keys] + [features["share.version"]]


async def heartbeats_that_cannot_be(client: RawClient, topic: str) -> Any:
    await enable(client)
    await create(client, topic)
    member = new_member("one")
    answers = []
    candidates: list[dict[str, Any]] = [
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"member_epoch": 7},
    ]
    for changes in candidates:
        fields: dict[str, Any] = {"group_id": topic, "member_id": member, "member_epoch": 0}
        fields |= {"subscribed_topic_names": [topic], **changes}
        answers.append((changes, told(await patiently(client, ApiKey.SHARE_GROUP_HEARTBEAT, 1, **fields))))
    return answers


async def groups_of_other_kinds(client: RawClient, topic: str) -> Any:
    await enable(client)
    await create(client, topic)
    share, consumer, classic = topic, f"{topic}-consumer", f"{topic}-classic"
    await join(client, share, new_member("one"), topic)
    fields = {"rebalance_timeout": 10_000, "subscribed_topic_names": [topic], "topic_partitions": []}
    beat_fields = {"member_id": "m", "member_epoch": 0, **fields}
    body = await client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=consumer, **beat_fields)
    answers: list[Any] = [int(body.error_code)]
    body = await client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=share, **beat_fields)
    answers.append((int(body.error_code), body.error_message))
    answers.append(int((await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(classic))).error_code))
    answers.append(int((await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(share))).error_code))
    commit = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    # A group without written state is not always visible to Kafka's readers: that depends on other groups of its shard.
    body = await client.call(ApiKey.OFFSET_COMMIT, 8, group_id=classic, generation_id_or_member_epoch=-1, topics=commit)
    answers.append(int(body.topics[0].partitions[0].error_code))
    for group in (consumer, classic):
        answers.append(told(await beat(client, group, new_member("two"), 0, subscribed_topic_names=[topic])))
        answers.append(await described(client, group))
        answers.append(await offsets(client, group))
    for version in (8, 9):
        body = await client.call(
            ApiKey.OFFSET_COMMIT, version, group_id=share, generation_id_or_member_epoch=-1, topics=commit
        )
        answers.append(int(body.topics[0].partitions[0].error_code))
    wanted = {"group_id": share, "member_epoch": -1, "topics": None}
    body = await client.call(ApiKey.OFFSET_FETCH, 9, groups=[wanted], require_stable=True)
    answers.append((int(body.groups[0].error_code), len(body.groups[0].topics)))
    answers.append(
        int((await client.call(ApiKey.HEARTBEAT, 4, group_id=share, generation_id=1, member_id="m")).error_code)
    )
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    body = await client.call(ApiKey.OFFSET_DELETE, 0, group_id=share, topics=topics)
    answers.append((int(body.error_code), [int(each.error_code) for t in body.topics for each in t.partitions]))
    return answers


async def records_are_acknowledged(client: RawClient, topic: str) -> Any:
    member = await a_group(client, topic)
    await produce(client, topic, batch([b"0", b"1", b"2", b"3"]))
    answers: list[Any] = [await offsets(client, topic), await member.has_fetched(4)]
    answers.append(await member.acknowledge((0, 0, [ACCEPT])))
    answers.append(await offsets(client, topic))
    answers.append(await member.acknowledge((1, 3, [RELEASE, REJECT, ACCEPT])))
    answers.append(await offsets(client, topic))
    answers.append(await member.fetch())
    answers.append(await member.acknowledge((0, 0, [ACCEPT])))
    answers.append(await member.acknowledge((1, 3, [ACCEPT])))
    answers.append(await member.acknowledge((1, 2, [ACCEPT])))
    answers.append(await member.acknowledge((1, 9, [ACCEPT])))
    answers.append(await member.acknowledge((9, 9, [ACCEPT])))
    answers.append(await member.fetch((1, 1, [ACCEPT])))
    answers.append(await offsets(client, topic))
    await produce(client, topic, batch([b"4"]))
    answers.append(await member.fetch((1, 1, [ACCEPT])))
    answers.append(await member.fetch((4, 4, [ACCEPT]), max_records=1))
    answers.append(await offsets(client, topic))
    answers.append(await offsets(client, topic, [{"topic_name": topic, "partitions": [0, 3]}]))
    answers.append(await offsets(client, topic, [{"topic_name": f"{topic}-none", "partitions": [0]}]))
    return answers


async def acknowledgements_that_cannot_be(client: RawClient, topic: str) -> Any:
    member = await a_group(client, topic)
    await produce(client, topic, batch([b"0", b"1", b"2", b"3"]))
    answers: list[Any] = [await member.has_fetched(4)]
    candidates: list[list[Range]] = [
        [(1, 0, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 1, [7])],
        [(0, 1, [-1])],
        [(2, 3, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 0, [ACCEPT]), (0, 0, [ACCEPT])],
        [(0, 1, [ACCEPT]), (9, 9, [ACCEPT])],
    ]
    answers += [(ranges, await member.acknowledge(*ranges)) for ranges in candidates]
    answers.append(await member.acknowledge((0, 0, [ACCEPT]), partition=7))
    answers.append(await member.acknowledge((0, 3, [0])))
    answers.append(await offsets(client, topic))
    return answers


async def records_are_delivered_five_times(client: RawClient, topic: str) -> Any:
    member = await a_group(client, topic)
    await produce(client, topic, batch([b"0"]))
    answers: list[Any] = [await member.has_fetched(1)]
    for count in range(2, 6):
        answers.append(await member.acknowledge((0, 0, [RELEASE])))
        answers.append((count, await member.has_fetched(1)))
    answers += [await member.acknowledge((0, 0, [RELEASE])), await member.fetch()]
    answers.append(await offsets(client, topic))
    return answers


async def sessions(client: RawClient, topic: str) -> Any:
    member = await a_group(client, topic, 3)
    answers: list[Any] = [await member.fetch(epoch=1), await member.acknowledge(epoch=1)]
    answers += [await member.fetch(epoch=-1), await member.acknowledge(epoch=-1), await member.acknowledge(epoch=0)]
    answers.append(await member.fetch((0, 0, [ACCEPT]), epoch=0))
    await produce(client, topic, batch([b"0", b"1"]))
    answers.append(await member.has_fetched(2))
    answers += [await member.fetch(epoch=77), await member.acknowledge(epoch=77), await member.acknowledge(epoch=0)]
    answers.append(await member.fetch(topics=[]))
    await produce(client, topic, batch([b"2"]), partition=1)
    answers.append(await member.fetch(topics=[]))
    answers.append(await member.fetch(partition=1, topics=member.topics([], 1)))
    answers += [await member.fetch(partition=2), await member.fetch(partition=2)]
    forgotten = [{"topic_id": member.topic_id, "partitions": [1]}]
    answers.append(await member.fetch(topics=[], forgotten_topics_data=forgotten, max_wait=0))
    answers.append(await member.fetch(partition=7))
    answers.append(await member.acknowledge(epoch=-1))
    answers.append(await member.acknowledge(epoch=-1))
    member.epoch = 0
    answers.append(await member.has_fetched(2))
    return answers


async def members_come_and_go(client: RawClient, topic: str) -> Any:
    one = await a_group(client, topic)
    two = Member(client, topic, one.topic_id, "two")
    await join(client, topic, two.member_id, topic)
    await produce(client, topic, batch([b"0", b"1"]))
    answers: list[Any] = [await one.has_fetched(2), await two.fetch()]
    await produce(client, topic, batch([b"2"]))
    answers += [await two.fetch(), await two.acknowledge((0, 0, [ACCEPT])), await one.acknowledge((2, 2, [ACCEPT]))]
    answers.append(await one.acknowledge((0, 0, [ACCEPT]), epoch=-1))
    answers.append(await two.has_fetched(1))
    async with RawClient(client.node) as other:
        three = Member(other, topic, one.topic_id, "three")
        await two.acknowledge((1, 2, [RELEASE]))
        answers.append(await three.has_fetched(2))
    # Its connection has ended, and with it its session.
    answers.append(await two.has_fetched(2))
    return answers


async def locks_run_out(client: RawClient, topic: str) -> Any:
    one = await a_group(client, topic, share_record_lock_duration_ms="1000")
    two = Member(client, topic, one.topic_id, "two")
    await produce(client, topic, batch([b"0", b"1"]))
    answers: list[Any] = [await one.has_fetched(2), await two.has_fetched(2)]
    answers += [await one.acknowledge((1, 1, [ACCEPT])), await two.acknowledge((1, 1, [ACCEPT]))]
    return answers


async def transactions(client: RawClient, topic: str) -> Any:
    member = await a_group(client, topic, share_isolation_level="read_committed")
    named = {"transactional_id": topic, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    begun = await patiently(client, ApiKey.INIT_PRODUCER_ID, 4, **named)
    me = {"transactional_id": topic, "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    topics = [{"name": topic, "partitions": [0]}]
    adding = {f"v3_and_below_{name}": value for name, value in {**me, "topics": topics}.items()}
    answers: list[Any] = []
    await produce(client, topic, batch([b"plain"]))
    for number, is_committed in enumerate((False, True)):
        await when_ready(
            client,
            lambda: client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, **adding),
            lambda body: int(body.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code),
            COORDINATOR_ERRORS | {CONCURRENT_TRANSACTIONS},
        )
        records = batch([b"a", b"b"], (begun.producer_id, begun.producer_epoch, 2 * number), is_transactional=True)
        answers.append((await produce(client, topic, records, transactional_id=topic))[0])
        if not is_committed:
            answers.append(await member.has_fetched(1))
        answers.append(int((await client.call(ApiKey.END_TXN, 3, **me, committed=is_committed)).error_code))
    await produce(client, topic, batch([b"last"]))
    values: list[bytes] = []
    async with asyncio.timeout(30):
        while b"last" not in values:
            values += [value for each in await member.fetch() for value in each[4]]
    return [*answers, values]


async def limits(client: RawClient, topic: str) -> Any:
    member = await a_group(client, topic)
    for _ in range(4):
        await produce(client, topic, batch([b"a", b"b", b"c"]))
    answers: list[Any] = [await member.has_fetched(1, max_records=1)]
    answers.append(await member.fetch(max_records=4))
    answers.append(await member.acknowledge((0, 2, [RELEASE, RELEASE, ACCEPT])))
    answers.append(await member.fetch(max_records=1))
    answers.append(await member.fetch(max_records=100, max_bytes=1))
    answers.append(await member.fetch(max_records=100))
    return answers


async def offsets_are_changed(client: RawClient, topic: str) -> Any:
    idle = await a_group(client, topic, 2)
    await produce(client, topic, batch([b"0", b"1", b"2"]))

    async def alter(group: str, name: str, *places: tuple[int, int]) -> Any:
        partitions = [{"partition_index": index, "start_offset": offset} for index, offset in places]
        topics = [{"topic_name": name, "partitions": partitions}]
        body = await client.call(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=topics)
        found = [(p.partition_index, int(p.error_code), p.error_message) for t in body.responses for p in t.partitions]
        return int(body.error_code), body.error_message, found

    async def delete(group: str, name: str) -> Any:
        topics = [{"topic_name": name}]
        body = await client.call(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id=group, topics=topics)
        return int(body.error_code), body.error_message, [(int(t.error_code), t.error_message) for t in body.responses]

    none = f"{topic}-none"
    answers: list[Any] = [await delete(topic, topic), await delete(none, topic), await offsets(client, none)]
    async with RawClient(client.node) as other:
        member = Member(other, topic, idle.topic_id)
        answers += [await member.has_fetched(3), await member.acknowledge((0, 1, [ACCEPT]))]
        answers.append(await member.acknowledge(epoch=-1))
    await beat(client, topic, idle.member_id, -1)
    answers += [await offsets(client, topic, starts=True), await alter(topic, none, (0, 1))]
    answers += [await delete(topic, topic), await delete(topic, none), await offsets(client, topic)]
    answers.append(await delete(topic, topic))
    await join(client, topic, idle.member_id, topic)
    answers += [await offsets(client, topic, starts=True), await idle.has_fetched(1)]
    return answers


async def places_to_begin_at(client: RawClient, topic: str) -> Any:
    await enable(client)
    await create(client, topic)
    await produce(client, topic, batch([b"0", b"1"]))
    answers: list[Any] = []
    for reset in ("earliest", "by_duration:P1D", "by_duration:P9999D", "by_duration:x", "none", "latest"):
        group = f"{topic}-{reset.replace(':', '-')}"
        code = await configure(client, group, share_auto_offset_reset=reset)
        answers.append((reset, code))
        if code:
            continue
        member = Member(client, group, await topic_id_of(client, topic))
        await join(client, group, member.member_id, topic)
        wanted = 2 if reset in ("earliest", "by_duration:P9999D") else 0
        answers.append(await member.has_fetched(wanted))
    for option, value in (
        ("share_isolation_level", "read_committed"),
        ("share_isolation_level", "serializable"),
        ("share_record_lock_duration_ms", "20000"),
        ("share_record_lock_duration_ms", "0"),
        ("share_heartbeat_interval_ms", "5000"),
        ("share_session_timeout_ms", "45000"),
        ("share_unknown", "1"),
    ):
        answers.append((option, value, await configure(client, f"{topic}-o", **{option: value})))
    return answers


SCENARIOS: list[Scenario] = [
    versions,
    the_life_of_a_group,
    heartbeats_that_cannot_be,
    groups_of_other_kinds,
    records_are_acknowledged,
    acknowledgements_that_cannot_be,
    records_are_delivered_five_times,
    sessions,
    members_come_and_go,
    locks_run_out,
    transactions,
    limits,
    offsets_are_changed,
    places_to_begin_at,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_dev_broker_answers_as_kafka_does(share_kafka: ApacheKafka, topic: str, scenario: Scenario) -> None:
    ours, kafkas = await answers_of_both(share_kafka, topic, scenario)
    assert ours == kafkas
