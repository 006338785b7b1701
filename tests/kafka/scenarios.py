"""Scenarios of batches, offsets, topics and classic groups, in all that clients act upon."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from typing import Any

from aiokafkapy.protocol.api import ApiKey
from tests.kafka.agreement import (
    COORDINATOR_ERRORS,
    Scenario,
    batch,
    create,
    describe,
    fetch,
    join_fields,
    joined,
    list_offset,
    patched,
    patiently,
    produce,
)
from tests.raw_client import RawClient

__all__ = ["SCENARIOS"]


async def batches_that_are_wrong(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    broken = bytearray(batch())
    broken[-2] ^= 1
    candidates = {
        "empty": b"",
        "two batches": batch() + batch(),
        "flipped bit": bytes(broken),
        "base offset": patched(batch(), 0, ">q", 5),
        "control": patched(batch(), 21, ">h", 0x20),
        "no records": patched(batch(), 57, ">i", 0),
        "wrong count": patched(batch([b"a", b"b"]), 57, ">i", 3),
        "no sequence": batch(producer=(5, 0, -1)),
        "old format": patched(batch(), 16, ">b", 1),
        "unknown format": patched(batch(), 16, ">b", 3),
        "garbage": b"x" * 100,
        "cut": batch()[:-3],
        "cut in the header": batch()[:40],
        "with a piece behind": batch() + batch()[:30],
        "too large": batch([b"x" * 1_100_000]),
        "fine": batch(),
    }
    return {name: await produce(client, topic, records) for name, records in candidates.items()}


async def acknowledgements(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    return [await produce(client, topic, batch(), acks=acks) for acks in (-1, 1, 2)] + [
        await produce(client, f"{topic}-unknown", batch())
    ]


async def idempotence(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    producers = (
        (900, 0, 0),
        (900, 0, 1),
        (900, 0, 0),  # a duplicate
        (900, 0, 3),  # a gap
        (900, 1, 5),  # a new epoch that does not begin with 0
        (900, 1, 0),
        (900, 0, 2),  # fenced
        (901, 0, 77),  # somebody nobody has heard of
        (901, 0, 78),
        (902, 0, 2**31 - 1),
        (902, 0, 0),
    )
    batches = [batch(producer=producer) for producer in producers]
    # More than five, and then some of them again: the last, the fifth from the end, and the one before that.
    batches += [batch(producer=(900, 1, sequence)) for sequence in (*range(1, 8), 7, 3, 2)]
    return [await produce(client, topic, each) for each in batches]


async def record_errors(client: RawClient, topic: str) -> Any:
    await create(client, topic, cleanup_policy="compact", message_timestamp_after_max_ms="1000")
    future = 4_000_000_000_000
    return [
        await produce(client, topic, batch([b"a", b"b"], key=None)),
        await produce(client, topic, batch([b"a", b"b"], key=None, timestamps=[1, future])),
        await produce(client, topic, batch([b"a", b"b"], keys=[None, b"k"], timestamps=[future, future])),
        await produce(client, topic, batch([b"a", b"b"], keys=[None, b"k"], timestamps=[future, 1])),
        await produce(client, topic, batch([b"a", b"b", b"c"], timestamps=[1, future, 2])),
        await produce(client, topic, batch([b"a"])),
    ]


async def fetching(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    for value in (b"a", b"b" * 600, b"c" * 600):
        await produce(client, topic, batch([value]))
    return {
        "at the start": await fetch(client, topic, 0),
        "in the middle": await fetch(client, topic, 2),
        "at the end": await fetch(client, topic, 3),
        "behind the end": await fetch(client, topic, 4),
        "before the start": await fetch(client, topic, -1),
        "epoch 0": await fetch(client, topic, 3, epoch=0),
        "epoch 7": await fetch(client, topic, 3, epoch=7),
        "unknown": (await fetch(client, f"{topic}-unknown", 0))[:1],
        "unknown session": await fetch(client, topic, 0, session_id=12345, session_epoch=4),
        "waits": await fetch(client, topic, 3, max_wait=50),
    }


async def fetch_sessions(client: RawClient, topic: str) -> Any:
    await create(client, topic, 2)
    await produce(client, topic, batch([b"a"]))

    async def ask(session_id: int, epoch: int, *offsets: int, forgotten: Sequence[int] = ()) -> Any:
        wanted = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1_000}
            for index, offset in enumerate(offsets)
        ]
        fields: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 100_000, "replica_id": -1}
        fields |= {"session_id": session_id, "session_epoch": epoch, "topics": []}
        if wanted:
            fields["topics"] = [{"topic": topic, "partitions": wanted}]
        if forgotten:
            fields["forgotten_topics_data"] = [{"topic": topic, "partitions": list(forgotten)}]
        body = await client.call(ApiKey.FETCH, 12, **fields)
        told = sorted(
            (each.partition_index, int(each.error_code), each.high_watermark, len(each.records or b""))
            for found in body.responses
            for each in found.partitions
        )
        return body.session_id, (int(body.error_code), body.session_id in (0, session_id), told)

    session_id, first = await ask(0, 0, 0, 0)
    told = [first[0], first[2]]
    requests: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [
        (1, (), ()),  # the first partition's record again: its offset is still 0
        (2, (1,), ()),
        (3, (), ()),
        (3, (), ()),  # an epoch that was
        (4, (9,), ()),  # out of range
        (5, (), ()),
        (6, (1,), ()),
        (7, (), ()),
        (8, (), (1,)),
        (9, (1, 0), ()),  # back again
        (10, (), ()),
        (11, (), (0, 1)),  # nothing is left
        (12, (), ()),
    ]
    for epoch, offsets, forgotten in requests:
        told.append((await ask(session_id, epoch, *offsets, forgotten=forgotten))[1])
    told.append((await ask(0, -1, 0))[1])
    told.append((await ask(0, 0))[1])
    return told


async def offsets_by_time(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    empty = [await list_offset(client, topic, time) for time in (-1, -2, -3, -4, 0)]
    await produce(client, topic, batch([b"a", b"b"], timestamps=[100, 300]))
    await produce(client, topic, batch([b"c", b"d"], timestamps=[200, 250]))
    await produce(client, topic, batch([b"e", b"f"], timestamps=[400, 400]))
    times = (-1, -2, -3, -4, 0, 100, 101, 300, 301, 400, 401)
    return [
        *empty,
        *[await list_offset(client, topic, time) for time in times],
        await list_offset(client, topic, -3, version=6),
        await list_offset(client, topic, -4, version=7),
        await list_offset(client, topic, -5, version=9),
        await list_offset(client, topic, -1, epoch=0),
        await list_offset(client, topic, -1, epoch=5),
        (await list_offset(client, f"{topic}-unknown", -1))[0],
    ]


async def deleting_records(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    await produce(client, topic, batch([b"a"] * 3))
    await produce(client, topic, batch([b"b"] * 3))
    told = []
    for offset in (2, 1, 9, -2, -1):
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
        body = await client.call(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=10_000)
        answer = body.topics[0].partitions[0]
        told.append((int(answer.error_code), answer.low_watermark))
    told.append(await list_offset(client, topic, -2))
    told.append(await produce(client, topic, batch()))
    return told


async def leader_epochs(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    await produce(client, topic, batch([b"a"] * 3))
    told = []
    for current, epoch in ((-1, 0), (0, 0), (0, 1), (0, -1), (3, 0)):
        wanted = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": topic, "partitions": [wanted]}]
        body = await client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
        answer = body.topics[0].partitions[0]
        told.append((int(answer.error_code), answer.leader_epoch, answer.end_offset))
    return told


async def producer_ids(client: RawClient, topic: str) -> Any:
    told = []
    for fields in (
        {},
        {"producer_id": 5, "producer_epoch": 3},
        {"producer_id": 5, "producer_epoch": -1},
        {"producer_id": -1, "producer_epoch": 3},
    ):
        body = await patiently(
            client, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=2**31 - 1, **fields
        )
        told.append((int(body.error_code), body.producer_id >= 0, body.producer_epoch))
    return told


async def topics(client: RawClient, topic: str) -> Any:
    told: list[Any] = [
        await create(client, topic, 2),
        await create(client, topic),
        await create(client, f"{topic}!"),
        await create(client, f"{topic}-none", 0),
        await create(client, f"{topic}-config", max_message_bytes="many"),
        await create(client, f"{topic}-unknown", no_such_option="1"),
        await create(client, f"{topic}-many", 10_001),
    ]
    for count in (2, 1, 4):
        wanted = {"name": topic, "count": count, "assignments": None}
        body = await client.call(ApiKey.CREATE_PARTITIONS, 3, topics=[wanted], timeout=10_000)
        told.append(int(body.results[0].error_code))
    return told


NAMES = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "dots in it": "a..b",
    "249": "x" * 249,
    "250": "x" * 250,
    "32,767": "x" * 32_767,
    "32,768": "x" * 32_768,
    "40,000": "x" * 40_000,
    "space": "a b",
    "slash": "a/b",
    "NUL": "a\0b",
    "newline": "a\n",
    "not ASCII": "caf\u00e9",
    "not in the BMP": "\U0001f600",
    "16,383 of two bytes": "\u00e9" * 16_383,
    "16,384 of two bytes": "\u00e9" * 16_384,
}


def of_all_names(ask: Callable[[RawClient, int, str], Awaitable[Any]], *versions: int) -> Scenario:
    """Each name on a connection of its own: the answer, or that the connection was closed.

    The first version is the last one before the flexible ones.
    """

    async def scenario(client: RawClient, topic: str) -> Any:
        told: dict[tuple[int, str], Any] = {}
        for version, (kind, name) in product(versions, NAMES.items()):
            if len(name.encode()) > 0x7FFF and version == versions[0]:
                continue  # its int16 cannot say that
            async with RawClient(client.node) as another:
                try:
                    told[version, kind] = await ask(another, version, name)
                except (ConnectionError, asyncio.IncompleteReadError):
                    told[version, kind] = "closed"
        return told

    scenario.__name__ = ask.__name__
    return scenario


async def names_in_metadata(client: RawClient, version: int, name: str) -> Any:
    # Real Kafka would make those that may be made, which the other scenarios would then find.
    may_create = name not in (NAMES["249"], NAMES["dots in it"])
    body = await client.call(ApiKey.METADATA, version, topics=[{"name": name}], allow_auto_topic_creation=may_create)
    return [(int(each.error_code), each.name == name) for each in body.topics]


async def names_in_create_topics(client: RawClient, version: int, name: str) -> Any:
    wanted = {"name": name, "num_partitions": 1, "replication_factor": 1}
    body = await client.call(ApiKey.CREATE_TOPICS, version, topics=[wanted], timeout=10_000, validate_only=True)
    return [(int(each.error_code), each.name == name) for each in body.topics]


async def names_in_produce(client: RawClient, version: int, name: str) -> Any:
    return (await produce(client, name, batch(), version=version))[0]


# groups


async def one_member(client: RawClient, topic: str) -> Any:
    first = await patiently(client, ApiKey.JOIN_GROUP, 7, **join_fields(topic))
    member_id = first.member_id
    told: list[Any] = [int(first.error_code)]
    told.append(joined(await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic, member_id))))
    me = {"group_id": topic, "member_id": member_id}
    told.append(int((await client.call(ApiKey.HEARTBEAT, 4, **me, generation_id=1)).error_code))
    assignment = [{"member_id": member_id, "assignment": b"all"}]
    for generation_id, protocol in ((2, "range"), (1, "other"), (1, "range"), (1, "range")):
        fields = {**me, "protocol_type": "consumer", "protocol_name": protocol, "assignments": assignment}
        body = await client.call(ApiKey.SYNC_GROUP, 5, **fields, generation_id=generation_id)
        told.append((int(body.error_code), body.assignment, body.protocol_name))
    for generation_id, member in ((1, member_id), (0, member_id), (1, "nobody")):
        fields = {"group_id": topic, "generation_id": generation_id, "member_id": member}
        told.append(int((await client.call(ApiKey.HEARTBEAT, 4, **fields)).error_code))
    told.append(joined(await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic, "nobody"))))
    told.append(joined(await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic, protocol_type="connect"))))
    told.append(joined(await client.call(ApiKey.JOIN_GROUP, 7, **join_fields(topic, session_timeout=1))))
    told.append(joined(await client.call(ApiKey.JOIN_GROUP, 7, **join_fields("", session_timeout=10_000))))
    told.append(await describe(client, topic))
    members = [{"member_id": "nobody"}, {"member_id": member_id}, {"member_id": "", "group_instance_id": "i"}]
    body = await client.call(ApiKey.LEAVE_GROUP, 5, group_id=topic, members=members)
    told += [int(body.error_code), [int(each.error_code) for each in body.members]]
    told.append(await describe(client, topic))
    return told


async def a_static_member(client: RawClient, topic: str) -> Any:
    static = {"group_instance_id": "i"}
    first = await patiently(client, ApiKey.JOIN_GROUP, 9, **join_fields(topic, **static))
    me = {"group_id": topic, "member_id": first.member_id, "generation_id": 1, **static}
    assignment = [{"member_id": first.member_id, "assignment": b"all"}]
    nameless = await client.call(ApiKey.SYNC_GROUP, 5, **me, assignments=assignment)
    synced = await client.call(
        ApiKey.SYNC_GROUP, 5, **me, assignments=assignment, protocol_type="consumer", protocol_name="range"
    )
    again = await client.call(ApiKey.JOIN_GROUP, 9, **join_fields(topic, **static))
    old = await client.call(ApiKey.JOIN_GROUP, 8, **join_fields(topic, **static))
    told = [
        joined(first),
        int(nameless.error_code),
        synced.assignment,
        joined(again),
        again.skip_assignment,
        joined(old),
    ]
    told += [
        int((await client.call(ApiKey.HEARTBEAT, 4, **me)).error_code),
        int((await client.call(ApiKey.HEARTBEAT, 4, **{**me, "group_instance_id": "j"})).error_code),
        int((await client.call(ApiKey.HEARTBEAT, 4, **{**me, "member_id": old.member_id})).error_code),
    ]
    members = [{"member_id": "", "group_instance_id": "i"}]
    told.append(
        [
            int(each.error_code)
            for each in (await client.call(ApiKey.LEAVE_GROUP, 5, group_id=topic, members=members)).members
        ]
    )
    return told


async def committed_offsets(client: RawClient, topic: str) -> Any:
    await create(client, topic)

    async def commit(offset: int, partition: int = 0, metadata: str | None = "note", **fields: Any) -> int:
        wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        topics = [{"name": topic, "partitions": [wanted]}]
        async with asyncio.timeout(30):
            while True:
                body = await client.call(ApiKey.OFFSET_COMMIT, 8, **{"group_id": topic, "topics": topics, **fields})
                code = int(body.topics[0].partitions[0].error_code)
                if code not in COORDINATOR_ERRORS:
                    return code
                await client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[topic])
                await asyncio.sleep(0.1)

    async def fetched(partitions: list[int] | None) -> Any:
        topics = None if partitions is None else [{"name": topic, "partition_indexes": partitions}]
        body = await client.call(ApiKey.OFFSET_FETCH, 7, group_id=topic, topics=topics, require_stable=False)
        return int(body.error_code), [
            (
                each.partition_index,
                each.committed_offset,
                each.metadata,
                int(each.error_code),
                each.committed_leader_epoch,
            )
            for found in body.topics
            for each in found.partitions
        ]

    told: list[Any] = [await commit(5), await commit(6, 9), await commit(7, metadata="x" * 4_097)]
    told += [await fetched([0, 1]), await fetched(None)]
    told.append(await commit(8, metadata=None))
    told.append(await fetched([0]))
    told.append(await commit(9, generation_id_or_member_epoch=3, member_id="m"))
    told.append(await commit(9, generation_id_or_member_epoch=-1, member_id="m"))
    told.append(await commit(9, group_id=f"{topic}-other", generation_id_or_member_epoch=3, member_id="m"))
    told.append(await describe(client, topic))
    told.append(await describe(client, f"{topic}-none"))
    for group in (topic, topic, f"{topic}-none"):
        body = await client.call(ApiKey.DELETE_GROUPS, 2, groups_names=[group])
        told.append(int(body.results[0].error_code))
    told.append(await fetched([0]))
    return told


SCENARIOS: list[Scenario] = [
    batches_that_are_wrong,
    acknowledgements,
    idempotence,
    record_errors,
    fetching,
    fetch_sessions,
    offsets_by_time,
    deleting_records,
    leader_epochs,
    producer_ids,
    topics,
    of_all_names(names_in_metadata, 8, 12),
    of_all_names(names_in_create_topics, 4, 7),
    of_all_names(names_in_produce, 8, 12),
    one_member,
    a_static_member,
    committed_offsets,
]
