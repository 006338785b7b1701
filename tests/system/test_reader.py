"""PartitionReader against the dev broker: real sockets, leaders that move, ends that come."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.common import ConsumedRecord, TopicPartition
from aiokafkapy.errors import (
    CorruptMessageError,
    IllegalStateError,
    InvalidConfigError,
    InvalidTopicError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import EARLIEST, LATEST, PartitionReader

TOPIC = "t"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(6)]


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic(TOPIC, partitions=6)
        yield broker


async def send(broker: DevBroker, values: list[bytes], partition: int | None = None, **options: Any) -> None:
    async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
        sent = [
            await producer.enqueue(TOPIC, value, partition=partition, timestamp_ms=1_000 + number)
            for number, value in enumerate(values)
        ]
        await asyncio.gather(*sent)


async def read(reader: PartitionReader, count: int) -> list[ConsumedRecord]:
    """The next ``count`` records; a test that waits for more than there are fails by its time-out."""
    found: list[ConsumedRecord] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await reader.fetch()
    assert len(found) == count
    return found


async def until_position(reader: PartitionReader, tp: TopicPartition, position: int) -> None:
    """Fetch until reading stands there, without any record coming."""
    async with asyncio.timeout(10):
        while reader.position(tp) != position:
            assert await reader.fetch(0.05) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_record_of_every_partition_is_read_in_order(broker: DevBroker, codec: Any) -> None:
    values = [b"%d" % number * 20 for number in range(5_000)]
    async with KafkaProducer(broker.bootstrap_servers, compression_type=codec) as producer:
        await producer.send_many(TOPIC, values)
        for number in range(60):
            await producer.enqueue(TOPIC, b"x", key=b"%d" % number, headers=[("h", b"1"), ("h", None)])
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        found = await read(reader, 5_060)
    assert sorted(record.value or b"" for record in found if record.key is None) == sorted(values)
    for tp in PARTITIONS:
        offsets = [record.offset for record in found if record.partition == tp.partition]
        assert offsets == list(range(len(offsets)))
    assert {record.headers for record in found if record.key is not None} == {(("h", b"1"), ("h", None))}


async def test_a_record_that_comes_later_ends_the_wait(broker: DevBroker) -> None:
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        assert await reader.fetch(0.0) == []
        waiting = asyncio.ensure_future(reader.fetch(20.0))
        await send(broker, [b"late"])
        (record,) = await asyncio.wait_for(waiting, 10)
        assert record.value == b"late"


async def test_reading_goes_on_when_leaders_move_and_nodes_stop(broker: DevBroker) -> None:
    values = [b"%d" % number for number in range(300)]
    async with PartitionReader(broker.bootstrap_servers, retry_backoff_ms=10) as reader:
        reader.assign([PARTITIONS[0]])
        await send(broker, values[:100], 0)
        found = await read(reader, 100)
        broker.controls.set_leader(TOPIC, 0, 3)
        await send(broker, values[100:200], 0)
        found += await read(reader, 100)
        broker.controls.stop_node(3)
        await send(broker, values[200:], 0)
        found += await read(reader, 100)
    assert [record.value for record in found] == values


async def test_reading_goes_on_when_connections_are_dropped(broker: DevBroker) -> None:
    async with PartitionReader(broker.bootstrap_servers, retry_backoff_ms=10, reconnect_backoff_ms=10) as reader:
        reader.assign(PARTITIONS)
        found = []
        for number in range(5):
            await send(broker, [b"%d-%d" % (number, index) for index in range(50)])
            found += await read(reader, 50)
            broker.controls.drop_connections()
    assert len({record.value for record in found}) == 250


async def test_offsets_are_found_by_start_end_and_time(broker: DevBroker) -> None:
    await send(broker, [b"%d" % number for number in range(10)], 2)
    tp, empty = PARTITIONS[2], PARTITIONS[3]
    async with PartitionReader(broker.bootstrap_servers) as reader:
        assert await reader.beginning_offsets([tp, empty]) == {tp: 0, empty: 0}
        assert await reader.end_offsets([tp, empty]) == {tp: 10, empty: 0}
        found = await reader.list_offsets({tp: 1_004, empty: 1_004})
        at = found[tp]
        assert at is not None
        assert (at.offset, at.timestamp_ms) == (4, 1_004)
        assert found[empty] is None
        assert (await reader.list_offsets({tp: 99_999}))[tp] is None
        before_1970 = (await reader.list_offsets({tp: -62_135_596_800_000}))[tp]
        assert before_1970 is not None
        assert before_1970.offset == 0


async def test_reading_starts_where_it_is_told_to(broker: DevBroker) -> None:
    await send(broker, [b"%d" % number for number in range(10)], 2)
    tp = PARTITIONS[2]
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign([tp])
        reader.seek(tp, 7)
        assert [record.offset for record in await read(reader, 3)] == [7, 8, 9]
        reader.seek_to_time(tp, 1_005)
        assert [record.offset for record in await read(reader, 5)] == [5, 6, 7, 8, 9]
        reader.seek_to_time(tp, EARLIEST)
        assert len(await read(reader, 10)) == 10
        reader.seek_to_time(tp, LATEST)
        await until_position(reader, tp, 10)


async def test_an_offset_that_is_not_in_the_log_is_reset_or_an_error(broker: DevBroker) -> None:
    await send(broker, [b"0", b"1"], 0)
    for policy, position in (("earliest", 0), ("latest", 2)):
        async with PartitionReader(broker.bootstrap_servers, auto_offset_reset=policy) as reader:
            reader.assign([PARTITIONS[0]])
            reader.seek(PARTITIONS[0], 500)
            if policy == "earliest":
                assert len(await read(reader, 2)) == 2
                continue
            await until_position(reader, PARTITIONS[0], position)
    async with PartitionReader(broker.bootstrap_servers, auto_offset_reset="none") as reader:
        reader.assign([PARTITIONS[0]])
        reader.seek(PARTITIONS[0], 500)
        with pytest.raises(OffsetOutOfRangeError, match="t-0: offset 500"):
            await reader.fetch(10)


async def test_a_partition_that_cannot_be_looked_up_does_not_stop_the_others(broker: DevBroker) -> None:
    await send(broker, [b"0", b"1"], 0)
    await send(broker, [b"2"], 1)
    broker.controls.set_leader(TOPIC, 2, None)
    missing = TopicPartition(TOPIC, 77)
    errors: list[str] = []
    async with PartitionReader(broker.bootstrap_servers, default_api_timeout_ms=1_000, fetch_max_wait_ms=50) as reader:
        reader.assign([PARTITIONS[2], missing, *PARTITIONS[:2]])
        assert {record.value for record in await read(reader, 3)} == {b"0", b"1", b"2"}
        reader.seek_to_time(PARTITIONS[0], 1_001)
        assert [record.value for record in await read(reader, 1)] == [b"1"]
        async with asyncio.timeout(20):
            while len(errors) < 2:
                try:
                    await reader.fetch()
                except KafkaTimeoutError as error:
                    errors.append(str(error))
    assert "the offset of t-2 was not found within 1 s: partition 2 has no leader" in errors
    assert "the offset of t-77 was not found within 1 s: no such partition; the topic has 0 to 5" in errors


async def test_a_topic_that_may_not_be_read_does_not_stop_the_others(broker: DevBroker) -> None:
    await send(broker, [b"0"], 0)
    broker.create_topic("secret", partitions=1)
    broker.controls.fail_next(ApiKey.LIST_OFFSETS, TopicAuthorizationFailedError, topic="secret", times=None)
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign([TopicPartition("secret", 0), PARTITIONS[0]])
        found: list[ConsumedRecord] = []
        errors: list[str] = []
        async with asyncio.timeout(20):
            while not found or not errors:
                try:
                    found += await reader.fetch()
                except TopicAuthorizationFailedError as error:
                    errors.append(str(error))
    assert [record.value for record in found] == [b"0"]
    assert "secret-0" in errors[0]


async def test_an_error_of_the_broker_that_may_pass_is_tried_again(broker: DevBroker) -> None:
    await send(broker, [b"good"], 0)
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign([PARTITIONS[0]])
        broker.controls.fail_next(ApiKey.FETCH, CorruptMessageError, topic=TOPIC, times=1)
        assert [record.value for record in await read(reader, 1)] == [b"good"]


@pytest.mark.parametrize("wrong", [math.nan, "1", True])
async def test_a_time_out_that_is_not_one_is_refused_at_once(broker: DevBroker, wrong: Any) -> None:
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        for call in (reader.fetch, reader.fetch_partition, reader.fetch_arrow):
            with pytest.raises((TypeError, ValueError), match=r"^fetch\(\): max_wait is "):
                await call(wrong)
        with pytest.raises((TypeError, ValueError), match=r"timeout is "):
            await reader.end_offsets(PARTITIONS, wrong)


async def test_a_fetch_without_a_limit_waits_for_the_next_record(broker: DevBroker) -> None:
    async with PartitionReader(broker.bootstrap_servers, auto_offset_reset="latest") as reader:
        reader.assign(PARTITIONS)
        assert await reader.fetch(0.1) == []
        fetch = asyncio.create_task(reader.fetch(None))
        await asyncio.sleep(0)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send(TOPIC, b"late")
        assert [record.value for record in await fetch] == [b"late"]


async def test_cancelling_a_fetch_loses_nothing(broker: DevBroker) -> None:
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        waiting = asyncio.ensure_future(reader.fetch(20))
        await send(broker, [b"%d" % number for number in range(100)])
        waiting.cancel()
        found = [] if waiting.cancelled() else (await asyncio.gather(waiting, return_exceptions=True))[0]
        already = found if isinstance(found, list) else []
        rest = await read(reader, 100 - len(already))
    assert len({record.value for record in [*already, *rest]}) == 100


async def test_iterating_gives_records_without_end(broker: DevBroker) -> None:
    await send(broker, [b"%d" % number for number in range(10)], 1)
    seen: list[bytes | None] = []
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        async with asyncio.timeout(10):
            async for record in reader:
                seen.append(record.value)
                if len(seen) == 10:
                    break
    assert seen == [b"%d" % number for number in range(10)]


async def test_a_topic_that_is_not_there_is_named_when_the_time_is_over(broker: DevBroker) -> None:
    async with PartitionReader(broker.bootstrap_servers) as reader:
        with pytest.raises(UnknownTopicOrPartitionError):
            await reader.partitions_for("nothing", timeout=0.3)


async def test_without_a_broker_the_time_out_says_why() -> None:
    async with PartitionReader("127.0.0.1:1", reconnect_backoff_ms=10) as reader:
        with pytest.raises(KafkaTimeoutError, match=r"(?s)t-0 was not found within 0.3 s: .*127.0.0.1:1"):
            await reader.end_offsets([PARTITIONS[0]], timeout=0.3)
        with pytest.raises(KafkaTimeoutError, match=r"127.0.0.1:1"):
            await reader.partitions_for(TOPIC, timeout=0.2)


async def test_closing_leaves_no_task_and_may_be_repeated(broker: DevBroker) -> None:
    before = len(asyncio.all_tasks())
    reader = PartitionReader(broker.bootstrap_servers)
    await reader.close()
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        await reader.fetch(0.05)
        await reader.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await reader.fetch()
    with pytest.raises(IllegalStateError, match="make a new one"):
        await reader.start()
    assert len(asyncio.all_tasks()) <= before


async def test_topics_are_made_listed_described_grown_and_deleted(broker: DevBroker) -> None:
    async with TopicAdmin(broker.bootstrap_servers) as admin:
        made = await admin.create("new", partitions=2, replication_factor=2, configs={"retention.ms": "-1"})
        assert [one.leader > 0 for one in made.partitions] == [True, True]
        assert [one.name for one in await admin.list_topics()] == ["new", TOPIC]
        assert await admin.configs("new") == {"retention.ms": "-1"}
        assert len((await admin.create_partitions("new", 5)).partitions) == 5
        await admin.delete("new")
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.describe("new")


async def test_options_are_changed_records_deleted_and_the_cluster_described(broker: DevBroker) -> None:
    servers = broker.bootstrap_servers
    async with KafkaProducer(servers) as producer, TopicAdmin(servers) as admin:
        await admin.create("new", partitions=3)
        await admin.alter_configs("new", set={"retention.ms": 1_000, "cleanup.policy": ["compact", "delete"]})
        await admin.alter_configs("new", delete=["retention.ms"], subtract={"cleanup.policy": "compact"})
        assert await admin.configs("new") == {"cleanup.policy": "delete"}
        with pytest.raises(InvalidConfigError):
            await admin.alter_configs("new", set={"no.such.option": 1})
        for partition in (0, 1, 2, 2):
            await producer.send("new", b"x", partition=partition)
        offsets = {TopicPartition("new", 0): -1, TopicPartition("new", 1): 0, TopicPartition("new", 2): 1}
        assert list((await admin.delete_records(offsets)).values()) == [1, 0, 1]
        with pytest.raises(OffsetOutOfRangeError, match="new-0"):
            await admin.delete_records({TopicPartition("new", 0): 9})
        described = await admin.describe_cluster()
        assert ",".join(node.address for node in described.nodes) == servers
        assert described.controller in described.nodes


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("with_headers", [False, True])
async def test_columns_are_the_records(broker: DevBroker, codec: Any, with_headers: bool) -> None:
    pa = pytest.importorskip("pyarrow")
    async with KafkaProducer(broker.bootstrap_servers, compression_type=codec, batch_size=2_000) as producer:
        for number in range(500):
            headers = None if number % 3 else (("number", str(number).encode()), ("ünï", None))
            value = None if number % 7 == 0 else b"value %d " % number * (number % 20)
            key = None if number % 5 == 0 else b"%d" % number
            await producer.enqueue(TOPIC, value, key=key, headers=headers, timestamp_ms=1_000 + number)
        await producer.flush()
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        records = await read(reader, 500)
    batches: list[Any] = []
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        async with asyncio.timeout(20):
            while sum(batch.num_rows for batch in batches) < 500:
                if (batch := await reader.fetch_arrow(with_headers=with_headers)) is not None:
                    batch.validate(full=True)
                    batches.append(batch)
    rows = pa.Table.from_batches(batches).to_pylist()
    assert ("headers" in rows[0]) is with_headers
    expected = {
        (record.partition, record.offset): {
            "key": record.key,
            "value": record.value,
            "topic": TOPIC,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": datetime.fromtimestamp(record.timestamp_ms / 1000, tz=UTC),
            "timestampType": record.timestamp_type,
        }
        | ({"headers": [{"key": k, "value": v} for k, v in record.headers] or None} if with_headers else {})
        for record in records
    }
    assert {(row["partition"], row["offset"]): row for row in rows} == expected


async def test_reading_ends_where_it_stops(broker: DevBroker) -> None:
    pytest.importorskip("pyarrow")
    await send(broker, [b"%d" % number for number in range(100)], partition=2, batch_size=300)
    tp = PARTITIONS[2]
    for stop in (0, 1, 57, 100):
        async with PartitionReader(broker.bootstrap_servers) as reader:
            reader.assign([tp])
            reader.seek(tp, 0)
            reader.stop_at(tp, stop)
            async with asyncio.timeout(10):
                assert [record.value async for record in reader] == [b"%d" % number for number in range(stop)]
            all_read = reader.is_finished
            assert all_read
            reader.seek(tp, min(stop, 40))
            values: list[bytes] = []
            async with asyncio.timeout(10):
                while not reader.is_finished:
                    if (batch := await reader.fetch_arrow()) is not None:
                        values += batch.column("value").to_pylist()
            assert values == [b"%d" % number for number in range(min(stop, 40), stop)]
            assert await reader.fetch_arrow(60) is None, "it does not wait for records that will not come"
            reader.stop_at(tp, None)
            assert not reader.is_finished


@pytest.mark.parametrize("name", ["a b", "\ud800", "x" * 40_000, None])
async def test_a_name_that_no_broker_takes_is_refused_at_the_call(broker: DevBroker, name: Any) -> None:
    async with PartitionReader(broker.bootstrap_servers) as reader:
        reader.assign(PARTITIONS)
        with pytest.raises(InvalidTopicError, match="name of a topic"):
            await reader.partitions_for(name)
        with pytest.raises(InvalidTopicError, match="name of a topic"):
            reader.assign([TopicPartition(name, 0)])
        with pytest.raises(InvalidTopicError, match="name of a topic"):
            await reader.end_offsets([TopicPartition(name, 0)])
        assert reader.assignment == frozenset(PARTITIONS)
        assert len(await reader.partitions_for(TOPIC, timeout=5)) == len(PARTITIONS)
