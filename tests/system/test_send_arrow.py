"""``send_arrow`` against the dev broker over real sockets: records that arrive, their order, and the results."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy import (
    KafkaProducer,
    PartitionMetadata,
    ProducerRecord,
    RoundRobinPartitioner,
    TopicPartition,
    errors,
    string_serializer,
)
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.producer.options.keywords import CompressionName
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.murmur2 import partition_for_key
from tests.inside import slices_of_tables
from tests.producers import assert_accounts, values
from tests.waiting import until

SHORT: dict[str, Any] = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1500,
    "max_block_ms": 1000,
    "retry_backoff_ms": 20,
}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=2) as broker:
        broker.create_topic("t", partitions=3)
        broker.create_topic("one", partitions=1)
        yield broker


class Stream:
    """Another library's data frame, as far as we know it."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [b"%08d" % number + b"x" * size for number in range(count)]


def assert_told_as_it_is(broker: DevBroker, metadata: Any, wanted: Sequence[bytes | None]) -> None:
    """Every row is at the place that the result tells; failed rows are nowhere; the sums are right."""
    places = {}
    for row, value in enumerate(wanted):
        if row not in metadata.failed:
            topic, partition = metadata.topic_partition(row)
            places[topic, partition, metadata.offset(row)] = value
    assert len(places) == metadata.rows - len(metadata.failed) == sum(p.count for p in metadata.partitions.values())
    logs = {pair: broker.records(*pair) for pair in {key[:2] for key in places}}
    assert {key: logs[key[:2]][key[2]].value for key in places} == places
    for (topic, partition), told in metadata.partitions.items():
        offsets = [offset for where, which, offset in places if (where, which) == (topic, partition)]
        assert told == PartitionMetadata(len(offsets), min(offsets), max(offsets))


class TestTables:
    async def test_every_column_of_a_table_arrives_as_it_is(self, broker: DevBroker) -> None:
        headers = [[("a", b"1"), ("a", None)], None, []]
        table = pa.table(
            {
                "value": pa.array([b"v", None, b""], pa.binary()),
                "key": pa.array(["k", None, "ü"]),
                "headers": pa.array(headers, HEADERS),
                "partition": pa.array([2, 2, 2], pa.int32()),
                "timestamp": pa.array([1_700_000_000_000, 1, 0], pa.timestamp("ms", "UTC")),
            }
        )
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send_arrow("t", table)
        assert (metadata.rows, len(metadata)) == (3, 3)
        assert metadata.partitions == {TopicPartition("t", 2): PartitionMetadata(3, 0, 2)}
        assert [metadata.offset(row) for row in range(3)] == [0, 1, 2]
        assert not metadata.failed
        found = broker.records("t", 2)
        assert [record.value for record in found] == [b"v", None, b""]
        assert [record.key for record in found] == [b"k", None, "ü".encode()]
        assert [list(record.headers) for record in found] == [headers[0], [], []]
        assert [record.timestamp_ms for record in found] == [1_700_000_000_000, 1, 0]

    async def test_a_row_without_a_time_has_the_time_of_sending(self, broker: DevBroker) -> None:
        table = pa.table({"value": ["a", "b"], "timestamp": pa.array([None, 5], pa.int64())})
        before = int(time.time() * 1000)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send_arrow("one", table)
        first, second = broker.records("one")
        assert before <= first.timestamp_ms <= time.time() * 1000
        assert second.timestamp_ms == 5

    @pytest.mark.parametrize("make", [lambda t: t, lambda t: t.combine_chunks().to_batches()[0], Stream])
    async def test_tables_batches_and_streams_are_sent_alike(self, broker: DevBroker, make: Any) -> None:
        chunks = pa.chunked_array([numbered(7000)[:1000], [], numbered(7000)[1000:]])
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send_arrow("one", make(pa.table({"value": chunks})[10:6000]))
        assert metadata.rows == 5990
        assert values(broker, "one") == numbered(7000)[10:6000]
        assert metadata.bytes > 5990 * 8

    @pytest.mark.parametrize("name", ["polars", "pandas"])
    async def test_data_frames_are_sent_too(self, broker: DevBroker, name: str) -> None:
        library = pytest.importorskip(name)
        frame = library.DataFrame(
            {"value": ["short", "longer than fits into a view " * 2, None], "key": ["a", "b", None]}
        )
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send_arrow("t", frame)
        assert_told_as_it_is(broker, metadata, [b"short", b"longer than fits into a view " * 2, None])

    async def test_a_table_without_rows_is_sent_in_no_time(self, broker: DevBroker) -> None:
        empty = pa.table({"value": pa.array([], pa.binary())})
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            for table in (empty, Stream(empty), pa.Table.from_batches([], empty.schema)):
                metadata = await producer.send_arrow("unknown", table)
                assert (metadata.rows, metadata.bytes, dict(metadata.partitions), dict(metadata.failed)) == (
                    0,
                    0,
                    {},
                    {},
                )
                with pytest.raises(IndexError):
                    metadata.offset(0)

    async def test_keys_go_where_send_sends_them_and_rows_keep_their_order(self, broker: DevBroker) -> None:
        chance = random.Random(4)
        rows = [
            (b"%d" % n, chance.choice([None, b"a", b"b", b"c", b"%d" % n]), chance.choice([None, None, 0, 1, 2]))
            for n in range(5000)
        ]
        table = pa.table(
            {
                "value": [row[0] for row in rows],
                "key": pa.array([row[1] for row in rows]).dictionary_encode(),
                "partition": pa.array([row[2] for row in rows], pa.int32()),
            }
        )
        async with KafkaProducer(broker.bootstrap_servers, batch_size=2000) as producer:
            metadata = await producer.send_arrow("t", table)
        assert_told_as_it_is(broker, metadata, [row[0] for row in rows])
        found = {int(record.value or b""): (record.key, n) for n in range(3) for record in broker.records("t", n)}
        for number, (_, key, partition) in enumerate(rows):
            assert found[number][0] == key
            if partition is not None:
                assert found[number][1] == partition
            elif key is not None:
                assert found[number][1] == partition_for_key(key, 3)
        for partition in range(3):
            numbers = [int(value or b"") for value in values(broker, "t", partition)]
            assert numbers == sorted(numbers)
            assert len(numbers) > 1000  # those with neither went everywhere

    async def test_ignored_keys_do_not_choose_a_partition(self, broker: DevBroker) -> None:
        table = pa.table({"value": numbered(3000, 100), "key": [b"always the same"] * 3000})
        async with KafkaProducer(broker.bootstrap_servers, partitioner_ignore_keys=True, batch_size=2000) as producer:
            metadata = await producer.send_arrow("t", table)
        assert [told.count > 500 for told in metadata.partitions.values()] == [True] * 3

    async def test_topics_may_be_in_a_column(self, broker: DevBroker) -> None:
        broker.create_topic("u", partitions=2)
        topics = [("t", "u", "new")[n % 3] for n in range(999)]
        table = pa.table({"value": numbered(999), "topic": topics, "key": [b"%d" % (n % 7) for n in range(999)]})
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send_arrow(None, table)
            assert_told_as_it_is(broker, metadata, numbered(999))
            assert [metadata.topic_partition(row).topic for row in range(999)] == topics
            again = await producer.send_arrow("one", table)
        assert {place.topic for place in again.partitions} == {"one"}
        assert values(broker, "one") == numbered(999)

    async def test_a_topic_may_be_an_enums_member(self, broker: DevBroker) -> None:
        Topics = StrEnum("Topics", {"ONE": "one"})  # noqa: N806
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send_arrow(Topics.ONE, pa.table({"value": ["a"]}))
        assert values(broker, "one") == [b"a"]

    async def test_columns_may_have_other_names(self, broker: DevBroker) -> None:
        table = pa.table({"body": ["a"], "id": ["k"], "when": pa.array([7], pa.int64()), "value": [1], "headers": [1]})
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send_arrow(
                "one", table, value_column="body", key_column="id", timestamp_column="when", headers_column=None
            )
        (record,) = broker.records("one")
        assert (record.value, record.key, record.timestamp_ms) == (b"a", b"k", 7)

    @settings(max_examples=15)
    @given(st.data())
    def test_all_that_is_sent_is_read_back(self, data: st.DataObject) -> None:
        field = st.none() | st.binary(max_size=300)
        rows = data.draw(st.lists(st.tuples(field, field, st.none() | st.integers(0, 2)), max_size=300))
        options: dict[str, Any] = {"batch_size": data.draw(st.sampled_from([1, 200, 5000])), "linger_ms": 0}
        codec: CompressionName = data.draw(st.sampled_from(["none", "gzip", "lz4"]))
        table = pa.table(
            {
                "value": pa.array([row[0] for row in rows], pa.large_binary()),
                "key": pa.array([row[1] for row in rows], pa.binary_view()),
                "partition": pa.array([row[2] for row in rows], pa.int64()),
            }
        )

        async def send() -> None:
            async with DevBroker() as broker:
                broker.create_topic("t", partitions=3)
                async with KafkaProducer(broker.bootstrap_servers, compression_type=codec, **options) as producer:
                    metadata = await producer.send_arrow("t", table)
                    assert producer.statistics().delivered == len(rows)
                assert_told_as_it_is(broker, metadata, [row[0] for row in rows])

        asyncio.run(send())


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("columns", "problem"),
        [
            ({"key": ["a"]}, "no column 'value'"),
            ({"value": [1]}, "column 'value' .* is int64: expected binary or string"),
            ({"value": ["a"], "partition": [1.5]}, "column 'partition' .* is double: expected int32"),
        ],
    )
    async def test_a_wrong_table_is_refused_before_anything_is_sent(
        self, broker: DevBroker, columns: Any, problem: str
    ) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.SerializationError, match=problem):
                await producer.send_arrow("t", pa.table(columns))
            with pytest.raises(errors.SerializationError, match="no topic is given"):
                await producer.send_arrow(None, pa.table({"value": ["a"]}))
            with pytest.raises(errors.SerializationError, match="no column 'id'"):
                await producer.send_arrow("t", pa.table({"value": ["a"]}), key_column="id")
            with pytest.raises(TypeError, match="not a list"):
                await producer.send_arrow("t", cast(Any, [b"a"]))
            with pytest.raises(errors.InvalidTopicError):
                await producer.send_arrow("", pa.table({"value": ["a"]}))
            assert producer.statistics().accepted == 0

    async def test_rows_that_cannot_be_sent_are_named_and_the_others_are_sent(self, broker: DevBroker) -> None:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        table = pa.table(
            {
                "value": [b"0", b"1", b"x" * 2000, b"3", b"4", b"5", b"6", b"7"],
                "topic": ["t", None, "t", "t", "t", "t", "", "t"],
                "partition": pa.array([0, 0, 0, -1, 3, None, 0, 2], pa.int32()),
                "headers": pa.array([None, None, None, None, None, [(None, b"")], None, []], kind),
            }
        )
        async with KafkaProducer(broker.bootstrap_servers, max_request_size=1500) as producer:
            metadata = await producer.send_arrow(None, table, return_exceptions=True)
            with pytest.raises(errors.InvalidTopicError) as caught:
                await producer.send_arrow(None, table)
            assert_accounts(producer)
            assert producer.statistics().accepted == 4
        failed = {row: (type(error).__name__, str(error)) for row, error in metadata.failed.items()}
        assert list(failed) == [1, 2, 3, 4, 5, 6]
        assert failed[1] == (
            "InvalidTopicError",
            "row 1: column 'topic' is null or empty: expected the name of a topic",
        )
        assert failed[2][0] == "RecordTooLargeError"
        assert failed[2][1].startswith("row 2: a record for topic 't' has 20")
        assert failed[3] == (
            "SerializationError",
            "row 3: column 'partition' is -1: topic 't' has partitions 0 to 2; null has one chosen",
        )
        assert failed[4][0] == "UnknownTopicOrPartitionError"
        assert "row 4: column 'partition' is 3" in failed[4][1]
        assert failed[5] == ("SerializationError", "row 5: the key of header 0 is null: expected a string")
        assert failed[6][0] == "InvalidTopicError"
        assert 0 not in metadata.failed
        assert 2**70 not in metadata.failed
        with pytest.raises(errors.RecordTooLargeError, match="row 2"):
            metadata.offset(2)
        assert_told_as_it_is(broker, metadata, table["value"].to_pylist())
        assert "row 1" in str(caught.value)
        assert caught.value.__notes__ == [
            (
                "6 of 8 rows of send_arrow() failed, row 1 first; "
                "with return_exceptions=True the result has each error, and raise_all() raises all errors"
            ),
            f"what to do: {type(caught.value).remedy}",
        ]

    async def test_a_partition_that_has_come_meanwhile_is_found(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer, TopicAdmin(broker.bootstrap_servers) as admin:
            await producer.partitions_for("t")
            await admin.create_partitions("t", 5)
            partitions = pa.array([4, 0, 4], pa.int32())
            metadata = await producer.send_arrow("t", pa.table({"value": ["a", "b", "c"], "partition": partitions}))
        assert metadata.partitions[TopicPartition("t", 4)].count == 2

    async def test_many_rows_for_no_partition_fail_at_once(self, broker: DevBroker) -> None:
        table = pa.table({"value": numbered(50_000), "partition": pa.array([9] * 50_000, pa.int32())})
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send_arrow("t", table, return_exceptions=True)
            assert len(metadata.failed) == 50_000
            assert isinstance(metadata.failed[49_999], errors.UnknownTopicOrPartitionError)
            assert broker.controls.request_count(ApiKey.METADATA) < 10

    async def test_serializers_are_not_for_tables(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, value_serializer=string_serializer) as producer:
            with pytest.raises(errors.IllegalStateError, match="has a value_serializer"):
                await producer.send_arrow("t", pa.table({"value": ["a"]}))
        async with KafkaProducer(broker.bootstrap_servers, key_serializer=string_serializer) as other:
            await other.send_arrow("t", pa.table({"value": ["a"]}))
            with pytest.raises(errors.IllegalStateError, match="has a key_serializer"):
                await other.send_arrow("t", pa.table({"value": ["a"], "key": ["a"]}))

    async def test_a_producer_that_cannot_be_used_says_so(self, broker: DevBroker) -> None:
        producer = KafkaProducer(broker.bootstrap_servers)
        with pytest.raises(errors.ProducerNotStartedError):
            await producer.send_arrow("t", pa.table({"value": ["a"]}))
        async with producer:
            pass
        with pytest.raises(errors.ProducerClosedError):
            await producer.send_arrow("t", pa.table({"value": ["a"]}))

    async def test_an_exception_of_a_stream_is_raised_and_the_rows_read_are_sent(self, broker: DevBroker) -> None:
        schema = pa.schema([("value", pa.string())])

        def batches() -> Any:
            yield pa.record_batch({"value": ["a", "b"]})
            raise OSError("the disk is gone")

        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(OSError, match="the disk is gone"):
                await producer.send_arrow("one", pa.RecordBatchReader.from_batches(schema, batches()))
        assert values(broker, "one") == [b"a", b"b"]


class TestUsersParts:
    """Interceptors and partitioners see each row, one by one."""

    async def test_interceptors_see_every_row(self, broker: DevBroker) -> None:
        acknowledged = []

        class Stamping:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                headers = [*(record.headers or ()), ("seen", b"1")]
                return ProducerRecord(record.topic, record.value, record.key, record.partition, headers=headers)

            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                acknowledged.append(metadata)

        table = pa.table(
            {"value": numbered(100), "key": numbered(100), "headers": pa.array([[("a", None)]] * 100, HEADERS)}
        )
        async with KafkaProducer(broker.bootstrap_servers, interceptors=[Stamping()]) as producer:
            metadata = await producer.send_arrow("t", table)
            await until(lambda: len(acknowledged) == 100)
        assert_told_as_it_is(broker, metadata, numbered(100))
        for record in broker.records("t", partition_for_key(numbered(1)[0], 3)):
            assert list(record.headers) == [("a", None), ("seen", b"1")]

    async def test_a_partitioner_of_the_users_is_asked_for_each_row(self, broker: DevBroker) -> None:
        asked = []

        def choose(topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Any) -> int:
            asked.append((topic, key_bytes, value_bytes))
            return 2

        table = pa.table(
            {
                "value": ["a", "b", "c", "d"],
                "key": [None, "k", None, None],
                "partition": pa.array([None, None, 0, 7], pa.int32()),
            }
        )
        async with KafkaProducer(broker.bootstrap_servers, partitioner=choose, **SHORT) as producer:
            metadata = await producer.send_arrow("t", table, return_exceptions=True)
        assert asked == [("t", None, b"a"), ("t", b"k", b"b")]
        assert [metadata.topic_partition(row).partition for row in range(3)] == [2, 2, 0]
        assert list(metadata.failed) == [3]

    async def test_round_robin_goes_round(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, partitioner=RoundRobinPartitioner()) as producer:
            table = pa.table({"value": numbered(9), "topic": [None] + ["t"] * 8})
            metadata = await producer.send_arrow(None, table, return_exceptions=True)
        assert list(metadata.failed) == [0]
        assert sorted(told.count for told in metadata.partitions.values()) == [2, 3, 3]


class TestWaiting:
    async def test_a_table_larger_than_the_buffer_waits_for_room_and_stays_within(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"buffer_memory": 100_000, "max_request_size": 50_000, "batch_size": 20_000}
        wanted = numbered(20_000, 100)
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            most = 0

            async def watch() -> None:
                nonlocal most
                while True:
                    most = max(most, producer.statistics().buffered_bytes)
                    await asyncio.sleep(0)

            watching = asyncio.create_task(watch())
            metadata = await producer.send_arrow("one", pa.table({"value": wanted}))
            watching.cancel()
            keyed = await producer.send_arrow("t", pa.table({"value": wanted, "key": wanted}))
        assert values(broker, "one") == wanted
        assert [metadata.offset(row) for row in range(0, 20_000, 999)] == list(range(0, 20_000, 999))
        assert_told_as_it_is(broker, keyed, wanted)
        assert 0 < most <= 100_000

    async def test_a_table_at_its_bound_goes_on_by_the_slice_and_not_row_by_row(
        self, broker: DevBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Half of a power of two is filled to the byte by blocks: nothing is left, with room in the block."""
        slices = slices_of_tables(monkeypatch)
        options: dict[str, Any] = {"buffer_memory": 2**20, "max_request_size": 2**19, "batch_size": 2**17}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send_arrow("t", pa.table({"value": numbered(30_000, 100)}))
        assert 0 < len(slices) < 1_000

    async def test_others_that_wait_for_room_come_first(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"buffer_memory": 8_000, "max_request_size": 4_000, "batch_size": 2_000}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.partitions_for("one")
            broker.controls.stall_connections(True)
            early = [asyncio.create_task(producer.send("one", b"early %d" % n + b"x" * 1000)) for n in range(20)]
            await until(lambda: producer.statistics().waiters > 5)
            table = asyncio.create_task(producer.send_arrow("one", pa.table({"value": numbered(100)})))
            await asyncio.sleep(0)
            broker.controls.stall_connections(False)
            await table
            await asyncio.gather(*early)
        found = [(value or b"")[:8] for value in values(broker, "one")]
        assert found[:20] == [b"early %d" % n + b"x" * (n < 10) for n in range(20)]
        assert found[20:] == numbered(100)

    async def test_no_room_within_max_block_fails_the_rows_that_waited(self, broker: DevBroker) -> None:
        small: dict[str, Any] = {"buffer_memory": 8_000, "max_request_size": 4_000, "batch_size": 2_000}
        times: dict[str, Any] = {"max_block_ms": 1_000, "request_timeout_ms": 1_500, "delivery_timeout_ms": 3_000}
        async with KafkaProducer(broker.bootstrap_servers, **small, **times) as producer:
            await producer.partitions_for("one")
            broker.controls.stall_connections(True)
            metadata = await producer.send_arrow("one", pa.table({"value": numbered(60, 200)}), return_exceptions=True)
            broker.controls.stall_connections(False)
            assert_accounts(producer)
            kinds = {type(error) for error in metadata.failed.values()}
            assert errors.BufferExhaustedError in kinds
            assert producer.statistics().accepted < 60

    async def test_there_is_room_for_others_beside_a_table(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"buffer_memory": 200_000, "max_request_size": 50_000, "batch_size": 20_000}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.partitions_for("t")
            await producer.partitions_for("one")
            broker.controls.stall_connections(True)
            table = asyncio.create_task(producer.send_arrow("t", pa.table({"value": numbered(5_000, 100)})))
            await until(lambda: producer.statistics().buffered_bytes > 100_000)
            for _ in range(10):
                await asyncio.sleep(0)
                assert producer.statistics().buffered_bytes < 150_000
            beside = producer.send_nowait("one", b"x" * 10_000)
            broker.controls.stall_connections(False)
            await beside
            await table

    @pytest.mark.parametrize(
        "lingering", [{}, {"linger_ms": 0}, {"linger_ms": 60_000}, {"topics": {"many": {"linger_ms": 60_000}}}]
    )
    async def test_a_linger_is_not_waited_out_for_room(self, broker: DevBroker, lingering: dict[str, Any]) -> None:
        broker.create_topic("many", partitions=50)
        options: dict[str, Any] = {
            "buffer_memory": 50_000,
            "max_request_size": 20_000,
            "batch_size": 20_000,
            **lingering,
        }
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            sending = asyncio.create_task(
                producer.send_arrow("many", pa.table({"value": numbered(3_000, 100), "key": numbered(3_000)}))
            )
            await until(lambda: producer.statistics().accepted == 3_000)
            await producer.flush()
            assert (await sending).rows == 3_000

    async def test_with_manual_flush_rows_without_room_fail_at_once(self, broker: DevBroker) -> None:
        broker.create_topic("kept", partitions=1)
        options: dict[str, Any] = {"buffer_memory": 50_000, "max_request_size": 20_000, "batch_size": 20_000}
        async with KafkaProducer(broker.bootstrap_servers, manual_flush=True, **options) as producer:
            table = pa.table({"value": numbered(1_000, 100)})
            sending = asyncio.create_task(producer.send_arrow("kept", table, return_exceptions=True))
            await until(lambda: producer.statistics().buffered_bytes > 40_000)
            while not sending.done():  # it ends when all rows are accepted or refused, and those are sent
                await producer.flush()
                await asyncio.sleep(0)
            result = await sending
            assert producer.statistics().delivered == len(values(broker, "kept"))
            assert result.rows == 1_000

    async def test_a_topic_that_comes_to_be_is_waited_for(self, broker: DevBroker) -> None:
        async with DevBroker(auto_create_topics_enable=False) as other:
            async with KafkaProducer(other.bootstrap_servers, retry_backoff_ms=10) as producer:
                table = asyncio.create_task(producer.send_arrow("late", pa.table({"value": numbered(10)})))
                await until(lambda: other.controls.request_count(ApiKey.METADATA) > 3)
                other.create_topic("late", partitions=1)
                await table
            assert values(other, "late") == numbered(10)

    async def test_a_topic_that_does_not_come_fails_its_rows_after_one_wait(self, broker: DevBroker) -> None:
        async with DevBroker(auto_create_topics_enable=False) as other:
            other.create_topic("there", partitions=1)
            table = pa.table({"value": numbered(200), "topic": [("there", "missing")[n % 2] for n in range(200)]})
            async with KafkaProducer(other.bootstrap_servers, **SHORT) as producer:
                metadata = await producer.send_arrow(None, table, return_exceptions=True)
                with pytest.raises(errors.MetadataTimeoutError, match="row 0: topic 'missing'"):
                    await producer.send_arrow("missing", pa.table({"value": numbered(1000)}))
            assert list(metadata.failed) == list(range(1, 200, 2))
            assert isinstance(metadata.failed[1], errors.MetadataTimeoutError)
            assert values(other, "there") == numbered(200)[::2]

    async def test_others_run_between_two_slices(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("one", b"warm up")
            turns = 0

            async def count_turns() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count_turns())
            table = pa.table({"value": [b"x" * 1000] * 20_000})
            await producer.send_arrow("one", table)
            counting.cancel()
        assert turns > 20_000_000 / (1024 * 1024)

    async def test_the_buffers_of_a_table_are_let_go_before_the_answers_come(self, broker: DevBroker) -> None:
        piece = bytearray(b"0123456789" * 1000)
        values = pa.Array.from_buffers(pa.binary(10), 1000, [None, pa.py_buffer(piece)])
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("one", b"warm up")
            broker.controls.delay(ApiKey.PRODUCE, 0.5)
            send = producer.send_arrow("one", pa.table({"value": values}))
            del values
            sending = asyncio.create_task(send)
            await until(lambda: producer.statistics().accepted == 1001)
            gc.collect()
            piece.append(0)  # which raises BufferError while somebody looks at it
            assert not sending.done()
            await sending


class TestEnds:
    async def test_cancelling_stops_the_taking_and_accepted_records_are_delivered(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"buffer_memory": 20_000, "max_request_size": 10_000, "batch_size": 5_000}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.partitions_for("one")
            broker.controls.stall_connections(True)
            sending = asyncio.create_task(producer.send_arrow("one", pa.table({"value": numbered(5000, 100)})))
            await until(lambda: producer.statistics().buffered_bytes > 10_000)
            accepted = producer.statistics().accepted
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert producer.statistics().waiters == 0
            broker.controls.stall_connections(False)
            await producer.flush()
            assert producer.statistics().delivered == accepted == producer.statistics().accepted
        assert values(broker, "one") == numbered(5000, 100)[:accepted]

    async def test_cancelling_while_answers_are_awaited_harms_nothing(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("one", b"warm up")
            broker.controls.delay(ApiKey.PRODUCE, 0.2)
            sending = asyncio.create_task(producer.send_arrow("one", pa.table({"value": numbered(10)})))
            await until(lambda: producer.statistics().accepted == 11)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
        assert values(broker, "one")[1:] == numbered(10)
        assert_accounts(producer)

    @pytest.mark.parametrize("make", [lambda t: t, Stream])
    async def test_a_producer_that_is_closed_takes_no_more_rows(self, broker: DevBroker, make: Any) -> None:
        options: dict[str, Any] = {"buffer_memory": 20_000, "max_request_size": 10_000, "batch_size": 5_000}
        producer = KafkaProducer(broker.bootstrap_servers, **options)
        await producer.start()
        await producer.partitions_for("one")
        broker.controls.stall_connections(True)
        table = pa.table({"value": pa.chunked_array([numbered(500, 100)] * 3)})
        sending = asyncio.create_task(producer.send_arrow("one", make(table), return_exceptions=True))
        await until(lambda: producer.statistics().buffered_bytes > 10_000)
        await producer.close(timeout=0.1)
        metadata = await sending
        numbers = producer.statistics()
        assert numbers.accepted == numbers.delivered + numbers.failed
        assert metadata.rows == len(metadata.failed) == (1500 if make is not Stream else 500)
        kinds = {type(metadata.failed[row]).__name__ for row in (0, metadata.rows - 1)}
        assert kinds == {"CloseTimeoutError", "ProducerClosedError"}

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    async def test_compressed_batches_have_the_same_rows(self, broker: DevBroker, codec: Any) -> None:
        wanted = numbered(3000, 200)
        async with KafkaProducer(broker.bootstrap_servers, compression_type=codec) as producer:
            metadata = await producer.send_arrow("t", pa.table({"value": wanted, "key": wanted}))
        assert_told_as_it_is(broker, metadata, wanted)

    async def test_a_batch_that_fails_fails_its_rows_and_names_them(self, broker: DevBroker) -> None:
        table = pa.table({"value": numbered(300), "key": [b"%d" % n for n in range(300)]})
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=20) as producer:
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError, "t", 1)
            metadata = await producer.send_arrow("t", table, return_exceptions=True)
            assert_accounts(producer)
            assert list(metadata.failed) == [n for n in range(300) if partition_for_key(b"%d" % n, 3) == 1]
            assert all(isinstance(error, errors.TopicAuthorizationFailedError) for error in metadata.failed.values())
            assert producer.statistics().failed == len(metadata.failed)
            assert_told_as_it_is(broker, metadata, numbered(300))
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError, "t", 1)
            with pytest.raises(
                errors.TopicAuthorizationFailedError, match=f"row {next(iter(metadata.failed))}: "
            ) as caught:
                await producer.send_arrow("t", table)
        assert f"{len(metadata.failed)} of 300 rows" in caught.value.__notes__[0]

    async def test_retries_write_every_row_once_and_in_order(self, broker: DevBroker) -> None:
        wanted = numbered(5000, 50)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=5000, retry_backoff_ms=5) as producer:
            await producer.send("one", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.NotLeaderOrFollowerError, times=2)
            broker.controls.fail_next(ApiKey.PRODUCE, errors.RequestTimedOutError, after_append=True)
            metadata = await producer.send_arrow("one", pa.table({"value": wanted}))
        assert values(broker, "one") == [b"first", *wanted]
        assert metadata.partitions[TopicPartition("one", 0)].count == 5000

    async def test_rows_of_batches_that_were_split_are_found(self, broker: DevBroker) -> None:
        broker.create_topic("small", partitions=2, config={"max.message.bytes": "3000"})
        wanted = [*numbered(500, 100), b"x" * 5000]
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=20) as producer:
            metadata = await producer.send_arrow(
                "small",
                pa.table({"value": wanted, "key": [b"%d" % (n % 9) for n in range(501)]}),
                return_exceptions=True,
            )
        assert list(metadata.failed) == [500]
        assert isinstance(metadata.failed[500], errors.RecordTooLargeError)
        assert_told_as_it_is(broker, metadata, wanted)

    async def test_without_acknowledgements_there_are_no_offsets(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, acks=0, enable_idempotence=False) as producer:
            metadata = await producer.send_arrow("one", pa.table({"value": ["a", "b"]}))
            assert metadata.partitions == {TopicPartition("one", 0): PartitionMetadata(2, -1, -1)}
            assert (metadata.offset(1), metadata.topic_partition(1)) == (-1, TopicPartition("one", 0))
            await until(lambda: values(broker, "one") == [b"a", b"b"])

    async def test_calls_at_the_same_time_keep_their_own_order(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, batch_size=3000) as producer:
            tables = [
                pa.table({"value": [b"%d-%06d" % (call, n) for n in range(3000)], "key": numbered(3000)})
                for call in range(4)
            ]
            results = await asyncio.gather(*(producer.send_arrow("t", table) for table in tables))
        for table, metadata in zip(tables, results, strict=True):
            assert_told_as_it_is(broker, metadata, table["value"].to_pylist())
        for partition in range(3):
            found = values(broker, "t", partition)
            for call in range(4):
                mine = [value for value in found if value and value.startswith(b"%d-" % call)]
                assert mine == sorted(mine)
