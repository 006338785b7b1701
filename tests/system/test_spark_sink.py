"""A task's side of the Spark sink, without Spark: Arrow batches into ``send_partition``, against the dev broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from aiokafkapy import errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.spark.sink.batch_marker import BatchMarker, ExactlyOnceError, TaskPlace
from aiokafkapy.spark.sink.marker_topic import MarkerTopic
from aiokafkapy.spark.sink.messages import TopicPartitionRange, WrittenRows
from aiokafkapy.spark.sink.row_sender import send_partition
from aiokafkapy.spark.sink.sink_options import SinkOptions
from aiokafkapy.spark.sink.table_queue import RowFailedError
from aiokafkapy.spark.worker import worker_loop


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=3)
        broker.create_topic("one", partitions=1)
        yield broker
        await asyncio.to_thread(worker_loop.stop)


async def send(
    broker: DevBroker, batches: Iterator[Any] | Sequence[Any], topic: str | None = "t", **options: str
) -> Any:
    """A task's work, in a thread of its own."""
    properties = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    parsed = SinkOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers} | properties)
    parsed = SinkOptions(parsed.properties, topic)
    return await asyncio.to_thread(send_partition, parsed, iter(batches))


def batch(values: Sequence[Any], **columns: Any) -> Any:
    arrays = {"value": pa.array(values, pa.binary() if isinstance(values[0], bytes) else pa.string())}
    types = {"topic": pa.string(), "partition": pa.int32(), "key": pa.binary()}
    arrays |= {name: pa.array(column, types[name]) for name, column in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


async def test_batches_arrive_in_their_order_and_are_reported(broker: DevBroker) -> None:
    numbers = range(30_000)
    keys = [b"%d" % (n % 100) for n in numbers]
    cuts = [(start, min(start + 777, len(numbers))) for start in range(0, len(numbers), 777)]
    batches = [batch([b"%d" % n for n in numbers[a:b]], key=keys[a:b]) for a, b in cuts]
    # No room for all at once, and batches that are full all the time.
    written = await send(broker, batches, buffer_memory="65536", max_request_size="32768", batch_size="4096")
    assert isinstance(written, WrittenRows)
    assert (written.rows, written.retries, written.partition_id) == (30_000, 0, -1)
    assert written.bytes > sum(len(b"%d" % n) + len(keys[n]) for n in numbers)
    assert written.seconds > 0
    for partition in range(3):
        records = broker.records("t", partition)
        assert written.ranges["t", partition] == TopicPartitionRange(len(records), 0, len(records) - 1)
        values = [int(record.value or b"") for record in records]
        assert values == sorted(values)
    assert sorted(int(record.value or b"") for record in broker.records("t")) == list(numbers)


async def test_a_second_task_writes_through_the_same_connection(broker: DevBroker) -> None:
    first = await send(broker, [batch([b"1"])], "one")
    accepted = broker.metrics()["connections_accepted"]
    second = await send(broker, [batch([b"2"]), batch([b"3", b"4"])], "one")
    assert broker.metrics()["connections_accepted"] == accepted
    assert first.ranges["one", 0] == TopicPartitionRange(1, 0, 0)
    assert second.ranges["one", 0] == TopicPartitionRange(3, 1, 3)
    # Other options are another producer.
    await send(broker, [batch([b"5"])], "one", compression_type="lz4")
    assert broker.metrics()["connections_accepted"] > accepted
    assert [record.value for record in broker.records("one")] == [b"1", b"2", b"3", b"4", b"5"]


async def test_header_fields_are_taken_in_any_case_as_spark_takes_them(broker: DevBroker) -> None:
    kind = pa.list_(pa.struct([("Key", pa.string()), ("Value", pa.binary())]))
    headers = pa.array([[{"Key": "a", "Value": b"1"}], None], kind)
    value = pa.array([b"1", b"2"], pa.binary())
    await send(broker, [pa.RecordBatch.from_pydict({"value": value, "headers": headers})], "one")
    assert [list(record.headers) for record in broker.records("one")] == [[("a", b"1")], []]


async def test_a_column_of_times_with_another_type_is_left_out(broker: DevBroker) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"1"], pa.binary()), "timestamp": pa.array(["noon"])})
    options = SinkOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "one"})
    await asyncio.to_thread(send_partition, replace(options, has_timestamps=False), iter([rows]))
    assert len(broker.records("one")) == 1


async def test_without_rows_nothing_is_opened(broker: DevBroker) -> None:
    assert await send(broker, []) == WrittenRows()
    assert await send(broker, [batch([b"1"]).slice(0, 0)]) == WrittenRows()
    assert broker.metrics()["connections_accepted"] == 0


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"topic": [None]},
            (
                r"row 3 of this Spark partition, for topic None, was not written: InvalidTopicError: column 'topic' is "
                r"null or empty: expected the name of a topic; the row has value 'x'; of its 1 rows sent together 1 fai"
            ),
        ),
        (
            {"topic": ["t"], "partition": [3]},
            r"for topic 't'.*column 'partition' is 3: topic 't' has partitions 0 to 2",
        ),
        ({"topic": ["t"], "partition": [-1]}, r"for topic 't'.*column 'partition' is -1"),
        ({"topic": ["a b"]}, r"for topic 'a b'.*InvalidTopic"),
        (
            {"topic": ["t"], "partition": [3], "values": pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())},
            r"for topic 't'.*column 'partition' is 3.*the row has value b'\\xff\\xfe', partition 3",
        ),
        (
            {"topic": ["t"], "key": [b"k" * 100], "values": ["x" * 2_000_000]},
            (
                r"for topic 't'.*RecordTooLargeError.*1048576.*"
                r"the row has key b'k{80}'… \(100 bytes\), value 'x{80}'… \(2,000,000 characters\);"
            ),
        ),
    ],
)
async def test_a_row_that_cannot_be_sent_fails_the_task_and_is_shown(
    broker: DevBroker, row: dict[str, Any], sentence: str
) -> None:
    good = batch(["a", "b", "c"], topic=["t", "t", "t"])
    bad = batch(row.pop("values", ["x"]), **row)
    with pytest.raises(RowFailedError, match=sentence):
        await send(broker, [good, bad], None)
    # The earlier rows are there, and the next task of the process is independent of this one.
    assert (await send(broker, [good], None)).rows == 3
    assert len(broker.records("t")) == 6


async def test_a_column_of_times_that_a_broker_refuses_is_named_with_the_remedy(broker: DevBroker) -> None:
    broker.create_topic("young", config={"message.timestamp.after.max.ms": "1000"})
    times = pa.array([4_000_000_000_000], pa.timestamp("ms", "UTC"))
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"x"]), "timestamp": times})
    with pytest.raises(RowFailedError, match=r"InvalidTimestampError.*column 'timestamp'.*: drop or rename the column"):
        await send(broker, [rows], "young")


async def test_a_row_that_fails_is_found_before_the_partition_has_been_read(broker: DevBroker) -> None:
    taken = 0

    def endless() -> Iterator[Any]:
        nonlocal taken
        yield batch(["x"], topic=[None])
        while True:
            taken += 1
            yield batch(["y"], topic=["t"])

    with pytest.raises(RowFailedError, match="row 0 of this Spark partition"):
        await send(broker, endless(), None)
    assert taken < 1000


async def test_a_broker_that_stands_still_holds_spark_back(broker: DevBroker) -> None:
    taken = 0
    done = threading.Event()

    def many() -> Iterator[Any]:
        nonlocal taken
        for _ in range(500):
            taken += 1
            yield batch([b"x" * 1000] * 100)

    await send(broker, [batch([b"0"])], buffer_memory="2097152")
    broker.controls.stall_connections(True)
    task = asyncio.create_task(send(broker, many(), buffer_memory="2097152"))
    task.add_done_callback(lambda _: done.set())
    seen = -1
    while seen < taken or seen < 5:
        seen = taken
        await asyncio.wait([task], timeout=0.3)
    # 50 MB in all; 2 MiB may be on their way, and as much is held for Spark's side.
    assert taken < 40
    assert not done.is_set()
    broker.controls.stall_connections(False)
    assert (await task).rows == 50_000
    assert len(broker.records("t")) == 50_001


async def test_a_task_that_breaks_off_leaves_nothing_to_the_next(broker: DevBroker) -> None:
    broker.controls.delay(ApiKey.PRODUCE, 3600)

    def torn() -> Iterator[Any]:
        yield batch([b"torn"] * 1000)
        raise EOFError("Spark closed the socket")

    with pytest.raises(EOFError, match="Spark closed"):
        await send(broker, torn(), "one")
    broker.controls.clear()
    written = await send(broker, [batch([b"whole"])], "one")
    assert written.rows == 1
    assert [record.value for record in broker.records("one")][-1] == b"whole"


async def test_an_error_of_the_broker_fails_the_task_and_the_next_one_works(broker: DevBroker) -> None:
    broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError, topic="one")
    with pytest.raises(RowFailedError, match=r"TopicAuthorizationFailedError.*value 'x'"):
        await send(broker, [batch(["x"])], "one")
    assert (await send(broker, [batch(["x"])], "one")).rows == 1


async def test_retries_are_counted(broker: DevBroker) -> None:
    await send(broker, [batch(["x"])], "one")
    broker.controls.fail_next(ApiKey.PRODUCE, errors.NotLeaderOrFollowerError, topic="one")
    written = await send(broker, [batch(["y"] * 5)], "one")
    assert (written.rows, written.retries) == (5, 5)
    assert len(broker.records("one")) == 6


async def test_a_broker_that_goes_and_comes_back_loses_nothing(broker: DevBroker) -> None:
    went = threading.Event()

    def slow() -> Iterator[Any]:
        for number in range(60):
            if number == 20:
                asyncio.run_coroutine_threadsafe(restart(), loop).result()
            yield batch([b"%d" % (number * 100 + n) for n in range(100)])

    async def restart() -> None:
        broker.controls.stop_node(1)
        went.set()
        loop.call_later(0.3, broker.controls.start_node, 1)

    loop = asyncio.get_running_loop()
    written = await send(broker, slow())
    assert went.is_set()
    assert written.rows == 6000
    assert sorted(int(record.value or b"") for record in broker.records("t")) == list(range(6000))


async def test_a_cluster_that_cannot_be_reached_is_named(broker: DevBroker) -> None:
    await broker.stop()
    address = "127.0.0.1:1"
    parsed = SinkOptions.parse({"kafka.bootstrap.servers": address, "kafka.max.block.ms": "300", "topic": "t"})
    with pytest.raises(errors.KafkaError, match=address):
        await asyncio.to_thread(send_partition, parsed, iter([batch(["x"])]))


async def test_a_foreign_record_among_the_markers_harms_only_the_place_of_its_key(broker: DevBroker) -> None:
    broker.create_topic("markers", config={"cleanup.policy": "compact"})
    place, other = TaskPlace("q", 1, 0), TaskPlace("other", 1, 0)
    marker = BatchMarker(1, 10, 5)
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("markers", marker.encode(), key=place.key)
        await producer.send("markers", b"hello", key=other.key)
    markers = MarkerTopic({"bootstrap.servers": broker.bootstrap_servers}, "markers", 5)
    await markers.open(place)
    try:
        assert await markers.find(place) == marker
        with pytest.raises(ExactlyOnceError, match="a record in the topic of markers is not a marker: b'hello'"):
            await markers.find(other)
    finally:
        await markers.close()


async def test_a_transaction_that_stays_open_among_the_markers_is_reported_with_the_remedy(broker: DevBroker) -> None:
    broker.create_topic("markers", config={"cleanup.policy": "compact"})
    place = TaskPlace("q", 1, 0)
    markers = MarkerTopic({"bootstrap.servers": broker.bootstrap_servers}, "markers", 0.5)
    async with KafkaProducer(broker.bootstrap_servers, transactional_id="dead") as dead:
        await dead.begin_transaction()
        await dead.send("markers", b"{}", key=b"another query's")
        await markers.open(place)
        try:
            with pytest.raises(ExactlyOnceError, match=r"topic 'markers'.*within 0.5 s.*option 'exactlyOnceTopic'"):
                await markers.find(place)
        finally:
            await markers.close()
        await dead.abort_transaction()
