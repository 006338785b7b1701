"""Records that go to disk while brokers are away, against the dev broker: order, restarts, bounds, disks that fail."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import BlockingProducer, KafkaProducer, ProducerRecord, TopicOptions, deadline
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import (
    BufferExhaustedError,
    ConfigurationError,
    DeliveryTimeoutError,
    InvalidRecordError,
    MetadataTimeoutError,
    SpoolError,
)
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.spool import spool_segment
from aiokafkapy.producer.spool.spooling_admission import SpoolingAdmission
from aiokafkapy.protocol.api import ApiKey
from tests.inside import spool_of

FEW = 5
"""Records that memory takes in these tests."""


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("orders", partitions=1)
        broker.create_topic("clicks", partitions=3)
        yield broker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def producer_of(broker: DevBroker, folder: Path, **options: Any) -> KafkaProducer[Any, Any]:
    given = {"buffer_records": FEW, "max_block_ms": 5_000, "reconnect_backoff_max_ms": 100, **options}
    return KafkaProducer(broker.bootstrap_servers, spool_dir=str(folder), **given)


def values(broker: DevBroker, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return [record.value for record in broker.records(topic, partition)]


def numbers(*spans: int) -> list[bytes]:
    return [b"%d" % number for number in range(*spans)]


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.spool"))


async def drained(producer: KafkaProducer[Any, Any]) -> None:
    """Wait until the spool is empty."""
    async with asyncio.timeout(20):
        while producer.statistics().spool_records:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.005)


async def disconnected(producer: KafkaProducer[Any, Any]) -> None:
    """Wait until the producer has seen that the broker is gone: earlier records may be in a request, and in doubt."""
    async with asyncio.timeout(10):
        while producer.statistics().connected_nodes:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def sent_in_an_outage(
    producer: KafkaProducer[Any, Any], broker: DevBroker, *span: int, topic: str = "orders"
) -> list[asyncio.Task[Any]]:
    """Send while the broker is down; returns the sends that wait for it. The others are in the spool."""
    await producer.send(topic, b"before")
    broker.controls.stop_node(1)
    tasks = [asyncio.create_task(producer.send(topic, value)) for value in numbers(*span)]
    async with asyncio.timeout(10):
        while sum(not task.done() for task in tasks) > FEW:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return [task for task in tasks if not task.done()]


async def test_all_is_there_in_order_and_once_when_the_broker_is_back(
    broker: DevBroker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with producer_of(broker, folder) as producer:
        waiting = await sent_in_an_outage(producer, broker, 1_000)
        now = producer.statistics()
        assert (now.spooled, now.spool_records, len(waiting)) == (1_000 - FEW, 1_000 - FEW, FEW)
        health = producer.health
        assert health.is_spooling
        assert producer.metrics()["spool-bytes"] == now.spool_bytes > 0
        metadata = await producer.send("orders", b"1000", key=b"key")
        assert (metadata.is_spooled, metadata.has_offset, metadata.topic) == (True, False, "orders")
        assert (metadata.serialized_key_size, metadata.serialized_value_size) == (3, 4)
        broker.controls.start_node(1)
        for metadata in await asyncio.gather(*waiting):
            assert not metadata.is_spooled
        await drained(producer)
        assert (await producer.send("orders", b"1001")).offset == 1_002
        now = producer.statistics()
        assert (now.spool_replayed, now.spool_repeated, now.spool_refused) == (1_001 - FEW, 0, 0)
        assert now.accepted == now.delivered == 1_003
        assert not producer.health.is_spooling
    assert values(broker) == [b"before", *numbers(1_002)]
    assert segments(folder) == []
    assert "producer.spooling" in caplog.text
    assert "buffer_records is full" in caplog.text


async def test_in_an_outage_records_in_memory_are_spooled_too_though_there_is_room(
    broker: DevBroker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    options = {"buffer_records": None, "spool_after_ms": 100, "linger_ms": 0, "compression_type": "gzip"}
    async with producer_of(broker, folder, **options) as producer:
        await producer.send("orders", b"before")
        await producer.send("clicks", b"before", partition=0)
        broker.controls.stop_node(1)
        await disconnected(producer)
        sends = [asyncio.create_task(producer.send("orders", value, key=b"k")) for value in numbers(100)]
        many = asyncio.create_task(producer.send_many("orders", numbers(100, 150)))
        await asyncio.sleep(0.01)
        table = asyncio.create_task(producer.send_arrow("orders", pyarrow.table({"value": numbers(150, 200)})))
        click = await producer.enqueue("clicks", b"click", partition=0, delivery_timeout_ms=60_000)
        await producer.flush()
        for metadata in [*await asyncio.gather(*sends), await click, *await many]:
            assert not isinstance(metadata, BaseException)
            assert metadata.is_spooled
            assert metadata.partition == 0, "it was chosen"
        assert len(await table) == 50
        now = producer.statistics()
        assert (now.spooled, now.buffered_bytes, now.pending) == (201, 0, 0)
        assert now.accepted == now.delivered == 2, "records in the spool are not accepted yet"
        assert "not sent for 0.1 s" in caplog.text
        assert (await producer.send("orders", b"200")).is_spooled
        broker.controls.start_node(1)
        await drained(producer)
        now = producer.statistics()
        assert now.accepted == now.delivered == 204
        assert not (await producer.send("orders", b"201")).is_spooled
    assert values(broker) == [b"before", *numbers(202)]
    assert values(broker, "clicks") == [b"before", b"click"]


async def test_in_an_outage_neither_flush_nor_close_waits_for_brokers(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder, spool_after_ms=50) as producer:
        await producer.send("orders", b"before")
        broker.controls.stop_node(1)
        await disconnected(producer)
        assert (await producer.send("orders", b"0")).is_spooled
        async with asyncio.timeout(5):
            await producer.flush()
            # A window that is in memory when brokers go is given back.
            broker.controls.start_node(1)
            broker.controls.set_leader("orders", 0, None)
            while not producer.statistics().pending:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await producer.close()
        now = producer.statistics()
        assert (now.spool_records, now.accepted, now.delivered, now.failed) == (1, 1, 1, 0)
    broker.controls.set_leader("orders", 0, 1)
    async with producer_of(broker, folder) as producer:
        await drained(producer)
    assert values(broker) == [b"before", b"0"]


async def test_a_service_that_ends_in_an_outage_leaves_its_memory_on_disk(broker: DevBroker, folder: Path) -> None:
    producer = producer_of(broker, folder, buffer_records=None)
    await producer.start()
    await producer.send("orders", b"before")
    broker.controls.stop_node(1)
    await disconnected(producer)
    sends = [asyncio.create_task(producer.send("orders", value)) for value in numbers(50)]
    await asyncio.sleep(0)
    await producer.close(timeout=0.05)
    assert all(metadata.is_spooled for metadata in await asyncio.gather(*sends))
    now = producer.statistics()
    assert (now.spool_records, now.accepted, now.delivered, now.failed) == (50, 1, 1, 0)
    broker.controls.start_node(1)
    async with producer_of(broker, folder) as producer:
        await drained(producer)
    assert values(broker) == [b"before", *numbers(50)]


async def test_a_record_that_a_broker_may_have_is_not_spooled(broker: DevBroker, folder: Path) -> None:
    options = {"spool_after_ms": 50, "request_timeout_ms": 300, "delivery_timeout_ms": 600, "linger_ms": 0}
    async with producer_of(broker, folder, **options) as producer:
        await producer.send("orders", b"before")
        broker.controls.stall_connections(True)
        sent = await producer.enqueue("orders", b"sent")
        while not producer.statistics().in_flight_batches:  # noqa: ASYNC110
            await asyncio.sleep(0)
        with pytest.raises(DeliveryTimeoutError) as caught:
            await sent
        assert caught.value.outcome_unknown
        assert producer.statistics().spooled == 0
        broker.controls.clear()


async def test_lingering_is_not_an_outage(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder, linger_ms=300, spool_after_ms=50) as producer:
        assert (await producer.send("orders", b"x")).offset == 0
        assert producer.statistics().spooled == 0


async def test_a_full_buffer_goes_along_when_brokers_are_gone(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder, spool_after_ms=None) as producer:
        await producer.send("orders", b"before")
        broker.controls.stop_node(1)
        await disconnected(producer)
        found = await asyncio.gather(*(producer.send("orders", value) for value in numbers(2 * FEW)))
        assert all(metadata.is_spooled for metadata in found)
        broker.controls.start_node(1)
        await drained(producer)
    assert values(broker) == [b"before", *numbers(2 * FEW)]


async def test_newer_records_go_behind_those_of_the_spool_by_every_call(broker: DevBroker, folder: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    async with producer_of(broker, folder) as producer:
        waiting = await sent_in_an_outage(producer, broker, 10)
        await producer.enqueue("orders", b"10")
        producer.send_nowait("orders", b"11")
        found = await producer.send_many("orders", [*numbers(12, 14), ProducerRecord("orders", b"14", key=b"k")])
        assert all(not isinstance(one, BaseException) and one.is_spooled for one in found)
        await producer.send_arrow("orders", pyarrow.table({"value": numbers(15, 20)}))
        sent = producer.send_from_thread("orders", b"20", headers=[("h", None)], timestamp_ms=7)
        assert (await asyncio.wrap_future(sent)).is_spooled
        broker.controls.start_node(1)
        last = [producer.send_nowait("orders", value) for value in numbers(21, 30)]
        await asyncio.gather(*waiting, *last)
        await drained(producer)
    assert values(broker) == [b"before", *numbers(30)]
    record = broker.records("orders")[21]
    assert (list(record.headers), record.timestamp_ms) == ([("h", None)], 7)


async def test_tables_of_topics_with_unreachable_brokers_are_spooled_as_single_records_are(
    broker: DevBroker, folder: Path
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    broker.controls.stop_node(1)
    async with producer_of(broker, folder, max_block_ms=500) as producer:
        await producer.send("orders", b"0")
        await producer.send_arrow("orders", pyarrow.table({"value": numbers(1, 5)}))
        topics = ["clicks", "orders", None, "clicks"]
        table = pyarrow.table({"value": numbers(5, 9), "topic": topics, "partition": [2, None, None, None]})
        found = await producer.send_arrow(None, table, return_exceptions=True)
        assert list(found.failed) == [2]
        assert found.topic_partition(0) == ("clicks", 2)
        assert producer.statistics().spool_records == 8
        broker.controls.start_node(1)
        await drained(producer)
        await producer.send_arrow("orders", pyarrow.table({"value": numbers(9, 10)}))
    assert values(broker) == [*numbers(5), b"6", b"9"]
    assert sorted(record.value or b"" for record in broker.records("clicks", None)) == [b"5", b"8"]


@pytest.mark.parametrize("is_full", [False, True])
async def test_a_table_waits_once_for_a_topic_that_nobody_takes_in_an_outage(
    broker: DevBroker, folder: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """It waits for metadata if the topic has no spool, for room if the spool is full."""
    pyarrow = pytest.importorskip("pyarrow")
    expired: list[str] = []
    expire = SpoolingAdmission.expire

    def noted(admission: SpoolingAdmission, record: PendingRecord) -> None:
        expired.append(record.topic)
        expire(admission, record)

    monkeypatch.setattr(SpoolingAdmission, "expire", noted)
    broker.controls.stop_node(1)
    topics = {"clicks": TopicOptions(overflow="spool" if is_full else "wait")}
    async with producer_of(broker, folder, max_block_ms=100, topics=topics) as producer:
        await producer.send("orders", b"0")
        await producer.send_arrow("orders", pyarrow.table({"value": numbers(1, 3)}))
        if is_full:
            spool_of(producer).max_bytes = 0
        table = pyarrow.table({"value": numbers(3, 9), "topic": ["orders", *["clicks"] * 5]})
        found = await producer.send_arrow(None, table, return_exceptions=True)
        assert list(found.failed) == [0, 1, 2, 3, 4, 5][not is_full :]
        assert expired.count("clicks") == is_full
    assert producer.statistics().spool_records == 3 + (not is_full)


async def test_a_call_with_little_time_returns_before_it_is_over(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder, buffer_records=None, spool_after_ms=60_000) as producer:
        await producer.send("orders", b"before")
        broker.controls.stop_node(1)
        await disconnected(producer)
        async with deadline(1):
            first = await producer.send("orders", b"0")
        second = await producer.send("clicks", b"1", partition=0, delivery_timeout_ms=1_000)
        assert (first.is_spooled, second.is_spooled) == (True, True)
        broker.controls.start_node(1)
        await drained(producer)
    assert (values(broker), values(broker, "clicks")) == ([b"before", b"0"], [b"1"])


async def test_keys_keep_their_partition_and_order(broker: DevBroker, folder: Path) -> None:
    count = 700  # each FEW of them are a request and an fsync, which takes 30 ms on a disk that is busy
    async with producer_of(broker, folder) as producer:
        await producer.send("clicks", b"", key=b"0")
        broker.controls.stop_node(1)
        sends = [
            asyncio.create_task(producer.send("clicks", b"%d" % number, key=b"%d" % (number % 7)))
            for number in range(count)
        ]
        await asyncio.sleep(0)
        broker.controls.start_node(1)
        await asyncio.gather(*sends)
        await drained(producer)
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in broker.records("clicks"):
        found.setdefault(record.key, []).append(record.value)
    found[b"0"] = found[b"0"][1:]
    assert found == {b"%d" % key: [b"%d" % number for number in range(key, count, 7)] for key in range(7)}


async def test_records_left_are_sent_by_the_next_producer_before_newer_ones(
    broker: DevBroker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    producer = producer_of(broker, folder)
    await producer.start()
    waiting = await sent_in_an_outage(producer, broker, 100)
    await producer.close(timeout=0.1)
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, Exception), "records in memory fail, as ever"
    assert producer.statistics().spool_records == 100 - FEW
    assert "producer.spool_kept" in caplog.text
    broker.controls.start_node(1)
    async with producer_of(broker, folder) as producer:
        assert producer.statistics().spool_records == 100 - FEW
        sent = [await producer.enqueue("orders", value) for value in numbers(100, 120)]
        await asyncio.gather(*sent)
        await drained(producer)
        assert producer.statistics().spool_repeated == 0
    assert values(broker) == [b"before", *numbers(FEW, 120)]


async def test_a_service_that_starts_while_brokers_are_away_spools(
    broker: DevBroker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.controls.stop_node(1)
    async with producer_of(broker, folder, max_block_ms=200) as producer:
        assert "producer.started_on_spool" in caplog.text
        for value in numbers(20):
            assert (await producer.send("orders", value)).is_spooled
        assert producer.send_nowait("orders", b"20") is not None
        await producer.flush()
        assert producer.statistics().spooled == 21, "flush() waits for the disk"
        assert not producer.health.is_healthy
        broker.controls.start_node(1)
        await drained(producer)
    assert values(broker) == numbers(21)


async def test_a_new_topic_is_spooled_while_nobody_can_be_asked_for_it(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder, max_block_ms=500, request_timeout_ms=300) as producer:
        await producer.send("orders", b"x")
        broker.controls.stall_connections(True)
        found = await asyncio.gather(*(producer.send("clicks", value, partition=1) for value in numbers(10)))
        assert all(one.is_spooled for one in found)
        assert {one.partition for one in found} == {1}
        broker.controls.clear()
        await drained(producer)
        with pytest.raises(MetadataTimeoutError, match="no such partition"):
            await producer.send("clicks", b"x", partition=9)
    assert values(broker, "clicks", 1) == numbers(10)


async def test_a_full_spool_waits_as_without_one_and_says_the_bound(broker: DevBroker, folder: Path) -> None:
    options = {"spool_max_bytes": 8_000, "max_request_size": 8_000, "max_block_ms": 300}
    async with producer_of(broker, folder, **options) as producer:
        await producer.send("orders", b"before")
        broker.controls.stop_node(1)
        sends = [asyncio.create_task(producer.send("orders", value)) for value in numbers(200)]
        await asyncio.wait(sends[-1:])
        count = producer.statistics().spooled
        assert 50 < count < 200
        with pytest.raises(BufferExhaustedError, match=r"max_block_ms=300: spool_max_bytes is full \(\d+ of 8000 byte"):
            await sends[-1]
        with pytest.raises(BufferExhaustedError, match="spool_max_bytes is full"):
            producer.send_nowait("orders", b"x")
        assert producer.statistics().spool_bytes <= 8_000
        broker.controls.start_node(1)
        await drained(producer)
        done = [send for send in sends if not isinstance(await _outcome(send), BufferExhaustedError)]
        assert len(done) == count + FEW
        await producer.send("orders", b"after")
    assert values(broker) == [b"before", *numbers(count + FEW), b"after"]


async def test_callers_that_wait_for_a_full_spool_go_on_in_order(broker: DevBroker, folder: Path) -> None:
    options = {"spool_max_bytes": 8_000, "max_request_size": 8_000, "max_block_ms": 20_000}
    async with producer_of(broker, folder, **options) as producer:
        await producer.send("orders", b"before")
        broker.controls.stop_node(1)
        sends = [asyncio.create_task(producer.send("orders", value)) for value in numbers(1_000)]
        while producer.statistics().waiters < 500:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        sends[700].cancel()
        broker.controls.start_node(1)
        await asyncio.wait(sends)
        await drained(producer)
    assert sends[700].cancelled()
    assert values(broker) == [b"before", *numbers(700), *numbers(701, 1_000)]


async def test_a_topic_of_another_policy_keeps_to_its_own(broker: DevBroker, folder: Path) -> None:
    topics = {"clicks": TopicOptions(overflow="raise")}
    async with producer_of(broker, folder, topics=topics) as producer:
        await producer.partitions_for("clicks")
        waiting = await sent_in_an_outage(producer, broker, 10)
        with pytest.raises(BufferExhaustedError, match="buffer_records is full"):
            await producer.send("clicks", b"x")
        with pytest.raises(BufferExhaustedError):
            producer.send_nowait("clicks", b"x")
        broker.controls.start_node(1)
        await asyncio.gather(*waiting)
        await drained(producer)
    with pytest.raises(ConfigurationError, match="overflow='spool' needs a folder"):
        KafkaProducer("h:1", topics={"t": TopicOptions(overflow="spool")})


@pytest.mark.parametrize("fsync", ["always", "every_second", "never"])
async def test_a_full_disk_fails_the_records_it_refuses_and_the_producer_goes_on(
    broker: DevBroker, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fsync: str
) -> None:
    async with producer_of(broker, folder, spool_fsync=fsync, max_block_ms=300) as producer:
        waiting = await sent_in_an_outage(producer, broker, 10)

        def full(*_: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(spool_segment, "write_at", full)
        with pytest.raises(SpoolError, match="No space left on device") as caught:
            await producer.send("orders", b"refused")
        assert not caught.value.outcome_unknown
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(BufferExhaustedError, match=r"could not be written: .*No space left"):
            await producer.send("orders", b"waits in vain")
        monkeypatch.undo()
        assert "producer.spool_failed" in caplog.text
        async with asyncio.timeout(5):
            while not (await _outcome(asyncio.create_task(producer.send("orders", b"10")))):
                pass
        broker.controls.start_node(1)
        await asyncio.gather(*waiting)
        await drained(producer)
        await producer.send("orders", b"last")
    found = values(broker)
    assert found[:11] == [b"before", *numbers(10)]
    assert found[-1] == b"last"
    assert b"refused" not in found


async def test_a_folder_in_use_is_refused_and_its_owner_goes_on(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder) as producer:
        other = producer_of(broker, folder)
        with pytest.raises(SpoolError, match="in use by another producer"):
            await other.start()
        await producer.send("orders", b"x")
    await other.start()  # the folder is free
    await other.close()


async def test_a_start_that_was_cancelled_gives_the_folder_back(broker: DevBroker, folder: Path) -> None:
    broker.controls.stop_node(1)
    producer = producer_of(broker, folder)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await producer.start()
    broker.controls.start_node(1)
    await producer.start()
    await producer.send("orders", b"x")
    await producer.close()


async def test_a_forked_child_does_not_keep_the_folder(broker: DevBroker, folder: Path) -> None:
    reading, writing = os.pipe()
    hearing, saying = os.pipe()
    async with producer_of(broker, folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(writing)
            os.write(saying, b"x")  # it runs, and has let go
            os.read(reading, 1)
            os._exit(0)
        await asyncio.to_thread(os.read, hearing, 1)
    async with producer_of(broker, folder):
        pass
    os.write(writing, b"x")
    await asyncio.to_thread(os.waitpid, child, 0)
    for end in (reading, writing, hearing, saying):
        os.close(end)


async def test_records_that_brokers_refuse_are_set_aside_and_can_be_resumed(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder, batch_size=0) as producer:
        waiting = await sent_in_an_outage(producer, broker, 10)
        await producer.enqueue("gone", b"\xff")  # is not known, nor can be
        broker.controls.start_node(1)
        await asyncio.gather(*waiting)
        broker.controls.fail_next(ApiKey.PRODUCE, InvalidRecordError, topic="orders")
        await drained(producer)
        assert producer.statistics().spool_refused >= 1
        await producer.send("orders", b"10")
    path = folder / "refused.jsonl"
    refused = [json.loads(line) for line in path.read_text().splitlines()]
    assert "InvalidRecordError" in refused[0]["error"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiokafkapy", "produce", "--resume", str(path), "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"AIOKAFKAPY_BOOTSTRAP_SERVERS": broker.bootstrap_servers},
    )
    output, _ = await process.communicate()
    assert json.loads(output) == {"file": str(path), "sent": len(refused), "failed": 0}
    assert sorted(filter(None, values(broker))) == sorted([b"before", *numbers(11)])


async def test_a_record_spooled_by_a_cancelled_caller_is_still_sent(broker: DevBroker, folder: Path) -> None:
    async with producer_of(broker, folder) as producer:
        waiting = await sent_in_an_outage(producer, broker, FEW)
        send = asyncio.create_task(producer.send("orders", b"%d" % FEW))
        await asyncio.sleep(0)
        send.cancel()
        await asyncio.wait([send])
        assert send.cancelled()
        broker.controls.start_node(1)
        await asyncio.gather(*waiting)
        await producer.flush()
        await drained(producer)
    assert values(broker) == [b"before", *numbers(FEW + 1)]


async def test_spooled_records_have_no_delivery_timeout_and_keep_their_order(
    broker: DevBroker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"request_timeout_ms": 200, "delivery_timeout_ms": 400, "max_block_ms": 300}
    async with producer_of(broker, folder, **options) as producer:
        waiting = await sent_in_an_outage(producer, broker, 100)
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, DeliveryTimeoutError), "memory is as ever"
        broker.controls.start_node(1)
        broker.controls.set_leader("orders", 0, None)
        async with asyncio.timeout(10):
            while "producer.spool_retries" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        broker.controls.set_leader("orders", 0, 1)
        await drained(producer)
    assert values(broker) == [b"before", *numbers(FEW, 100)]


async def test_interceptors_and_threads_are_told_that_it_is_spooled(broker: DevBroker, folder: Path) -> None:
    told: list[Any] = []

    class Watch:
        def on_acknowledgement(self, metadata: Any, error: Any, *_: Any) -> None:
            told.append((metadata.is_spooled, error))

    broker.controls.stop_node(1)

    def work() -> bool:
        with BlockingProducer(
            broker.bootstrap_servers, spool_dir=str(folder), max_block_ms=200, interceptors=[Watch()]
        ) as producer:
            return producer.send("orders", b"x").result(10).is_spooled

    assert await asyncio.to_thread(work)
    assert told == [(True, None)]


async def test_an_async_serializer_keeps_the_order_of_the_calls(broker: DevBroker, folder: Path) -> None:
    async def slow(value: bytes) -> bytes:
        await asyncio.sleep(0.001 * (len(value) % 2))
        return value

    async with producer_of(broker, folder, value_serializer=slow) as producer:
        waiting = await sent_in_an_outage(producer, broker, 50)
        broker.controls.start_node(1)
        await asyncio.gather(*waiting)
        await drained(producer)
    assert values(broker) == [b"before", *numbers(50)]


def test_a_loop_that_ends_without_close_gives_the_folder_back(folder: Path) -> None:
    async def leave() -> None:
        async with DevBroker() as broker:
            producer = producer_of(broker, folder)
            await producer.start()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(leave())
        gc.collect()

    async def again() -> None:
        async with DevBroker() as broker, producer_of(broker, folder):
            pass

    asyncio.run(again())


async def _outcome(task: asyncio.Task[Any]) -> Any:
    await asyncio.wait([task])
    return task.exception()
