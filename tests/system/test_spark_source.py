"""The Spark source without Spark, against the dev broker: the driver's plan and a task's reading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import LATEST
from aiokafkapy.spark.options import OptionError
from aiokafkapy.spark.source.data_loss import DataLossError
from aiokafkapy.spark.source.offset_reader import KafkaOffsetReader
from aiokafkapy.spark.source.offsets import OffsetRange
from aiokafkapy.spark.source.range_reader import read_ranges
from aiokafkapy.spark.source.read_limits import HAS_READ_LIMITS, ReadAllAvailable, ReadMaxRows
from aiokafkapy.spark.source.reader import KafkaReader
from aiokafkapy.spark.source.source_options import SourceOptions
from aiokafkapy.spark.source.stream_reader import KafkaStreamReader, StreamDriver
from aiokafkapy.spark.worker import worker_loop

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
NEW = TopicPartition("new", 0)


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=3)
        yield broker
        await asyncio.to_thread(worker_loop.stop)


async def send(broker: DevBroker, partition: int, count: int, topic: str = "t", start_ms: int = 1_000) -> None:
    """Records that are a second apart."""
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        sent = [
            await producer.enqueue(topic, b"%d" % number, partition=partition, timestamp_ms=start_ms + number * 1_000)
            for number in range(count)
        ]
        await asyncio.gather(*sent)


def delete_before(broker: DevBroker, tp: TopicPartition, offset: int) -> None:
    partition = broker.state.topics.partition(*tp)
    assert partition is not None
    partition.log.delete_records(offset)


def options(broker: DevBroker, *, is_stream: bool = False, **given: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": broker.bootstrap_servers, "fetchOffset.retryIntervalMs": "1"}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "t"
    return SourceOptions.parse(base | given, is_stream=is_stream)


async def planned(broker: DevBroker, **given: Any) -> dict[int, tuple[int, int]]:
    """Start and end by partition, without empty ranges."""
    async with KafkaOffsetReader(options(broker, **given)) as offsets:
        ranges = await offsets.batch_ranges()
    return {one.partition: (one.start, one.end) for one in ranges if one.size}


async def read(given: SourceOptions, *ranges: OffsetRange) -> list[tuple[int, int]]:
    """Partition and offset of all rows, as a task of Spark reads them: from a thread."""

    def rows() -> list[tuple[int, int]]:
        return [
            row
            for batch in read_ranges(given, ranges)
            for row in zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
        ]

    return await asyncio.to_thread(rows)


def offsets_of(partition: int, offsets: Iterable[int]) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in offsets]


# the plan of a batch


async def test_a_batch_is_all_there_is_and_asks_each_broker_once(broker: DevBroker) -> None:
    await send(broker, 0, 5)
    await send(broker, 2, 7)
    broker.controls.clear()
    before = broker.controls.request_count(ApiKey.LIST_OFFSETS)
    assert await planned(broker) == {0: (0, 5), 2: (0, 7)}
    assert broker.controls.request_count(ApiKey.LIST_OFFSETS) == before + 2


async def test_a_batch_goes_from_named_offsets_to_named_offsets(broker: DevBroker) -> None:
    for number in range(3):
        await send(broker, number, 10)
    found = await planned(broker, startingOffsets='{"t":{"0":3,"1":-2}}', endingOffsets='{"t":{"0":8,"1":-1,"2":1}}')
    assert found == {0: (3, 8), 1: (0, 10), 2: (0, 1)}


async def test_a_batch_goes_from_time_to_time(broker: DevBroker) -> None:
    await send(broker, 0, 10)
    await send(broker, 1, 10, start_ms=4_000)
    times: dict[str, Any] = {"startingTimestamp": "5500", "endingTimestamp": "8000"}
    assert await planned(broker, assign='{"t":[0,1]}', **times) == {0: (5, 7), 1: (2, 4)}
    times = {"startingOffsetsByTimestamp": '{"t":{"0":9000}}', "endingOffsetsByTimestamp": '{"t":{"1":4001}}'}
    assert await planned(broker, **times) == {0: (8, 10), 1: (0, 1)}


async def test_a_time_that_no_record_has_is_an_error_or_the_end(broker: DevBroker) -> None:
    await send(broker, 0, 3)
    with pytest.raises(OptionError, match="a time that some record of t-0 has"):
        await planned(broker, assign='{"t":[0]}', startingTimestamp="100000")
    strategy: dict[str, Any] = {"startingOffsetsByTimestampStrategy": "latest"}
    assert await planned(broker, startingTimestamp="100000", **strategy) == {}


async def test_topics_are_found_by_a_pattern(broker: DevBroker) -> None:
    broker.create_topic("tt")
    broker.create_topic("xt")
    await send(broker, 0, 3)
    await send(broker, 0, 4, "tt")
    await send(broker, 0, 5, "xt")
    async with KafkaOffsetReader(options(broker, subscribePattern="t+")) as offsets:
        ranges = await offsets.batch_ranges()
    assert [(one.topic, one.end) for one in ranges if one.size] == [("t", 3), ("tt", 4)]


@pytest.mark.parametrize("given", [{"subscribe": "t,none"}, {"assign": '{"t":[0,9]}'}, {"assign": '{"none":[0]}'}])
async def test_named_topics_and_partitions_must_exist(broker: DevBroker, given: dict[str, Any]) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=r"there is no topic or partition (none|t-9): create it"):
        await planned(broker, **given)


async def test_offsets_of_a_partition_that_does_not_exist_are_refused(broker: DevBroker) -> None:
    with pytest.raises(OptionError, match="t-9"):
        await planned(broker, startingOffsets='{"t":{"9":1}}')


async def test_named_offsets_that_are_not_there_are_a_loss(broker: DevBroker) -> None:
    await send(broker, 0, 10)
    await send(broker, 1, 10)
    delete_before(broker, T0, 4)
    given: dict[str, Any] = {"startingOffsets": '{"t":{"0":2}}', "endingOffsets": '{"t":{"1":20}}'}
    with pytest.raises(DataLossError, match=r"t-0: offsets 2 to 10 were asked for.* 4 to 10.*failOnDataLoss='false'"):
        await planned(broker, **given)
    assert await planned(broker, failOnDataLoss="false", **given) == {0: (4, 10), 1: (0, 10)}


async def test_a_start_behind_the_end_is_refused(broker: DevBroker) -> None:
    await send(broker, 0, 10)
    with pytest.raises(OptionError, match="t-0 begins at 9 and ends at 5"):
        await planned(broker, startingOffsets='{"t":{"0":9}}', endingTimestamp="6000")


# the reading of a task


async def test_partitions_that_share_a_task_share_requests(broker: DevBroker) -> None:
    broker.create_topic("many", partitions=50)
    for number in range(50):
        await send(broker, number, 3, "many")
    before = broker.controls.request_count(ApiKey.FETCH)
    found = await read(options(broker), *(OffsetRange("many", number, 0, 3) for number in range(50)))
    assert sorted(found) == [(number, offset) for number in range(50) for offset in range(3)]
    assert broker.controls.request_count(ApiKey.FETCH) - before < 5


async def test_a_range_inside_a_batch_is_read_to_the_row(broker: DevBroker) -> None:
    await send(broker, 1, 100)
    assert await read(options(broker), OffsetRange("t", 1, 13, 87)) == offsets_of(1, range(13, 87))


async def test_the_next_task_finds_the_connections_open(broker: DevBroker) -> None:
    await send(broker, 0, 10)
    await read(options(broker), OffsetRange("t", 0, 0, 5))
    before = broker.controls.request_count(ApiKey.METADATA)
    assert await read(options(broker), OffsetRange("t", 0, 2, 9)) == offsets_of(0, range(2, 9))
    assert broker.controls.request_count(ApiKey.METADATA) == before


async def test_a_task_that_is_left_early_harms_no_later_one(broker: DevBroker) -> None:
    await send(broker, 0, 100)

    def first_batch() -> int:
        batches = read_ranges(options(broker), [OffsetRange("t", 0, 0, 200)])
        count: int = next(batches).num_rows
        batches.close()  # type: ignore[attr-defined]
        return count

    assert await asyncio.to_thread(first_batch) > 0
    assert await read(options(broker), OffsetRange("t", 0, 0, 100)) == offsets_of(0, range(100))


async def test_a_task_of_nothing_asks_nobody(broker: DevBroker) -> None:
    reader = KafkaReader({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"})
    assert list(reader.read(InputPartition(None))) == []
    assert await asyncio.to_thread(reader.partitions) == []


async def test_deleted_offsets_are_a_loss_to_the_task_that_finds_them_gone(broker: DevBroker) -> None:
    await send(broker, 0, 20)
    delete_before(broker, T0, 8)
    lost = r"t-0: offsets 3 to 15 were asked for, but the log goes from 8 to 20"
    with pytest.raises(DataLossError, match=rf"{lost}.*call load\(\) again, or create the view anew$"):
        await read(options(broker), OffsetRange("t", 0, 3, 15))
    with pytest.raises(DataLossError, match=rf"{lost}.*the topic's retention$"):
        await read(options(broker, is_stream=True), OffsetRange("t", 0, 3, 15))
    lenient = options(broker, failOnDataLoss="false")
    assert await read(lenient, OffsetRange("t", 0, 3, 15)) == offsets_of(0, range(8, 15))
    assert await read(lenient, OffsetRange("t", 0, 3, 6)) == []
    assert await read(lenient, OffsetRange("t", 0, 30, 36)) == []


async def test_an_end_that_never_comes_is_a_loss(broker: DevBroker) -> None:
    await send(broker, 0, 5)
    given: dict[str, Any] = {"kafkaConsumer.pollTimeoutMs": "1500", "kafka.fetch.max.wait.ms": "10"}
    with pytest.raises(DataLossError, match="t-0: offsets 5 to 9 were asked for, but the log goes from 0 to 5"):
        await read(options(broker, **given), OffsetRange("t", 0, 0, 9))
    lenient = options(broker, failOnDataLoss="false", **given)
    assert await read(lenient, OffsetRange("t", 0, 0, 9)) == offsets_of(0, range(5))


async def test_a_partition_without_a_leader_is_named(broker: DevBroker) -> None:
    await send(broker, 0, 5)
    broker.controls.set_leader("t", 0, None)
    given: dict[str, Any] = {"kafkaConsumer.pollTimeoutMs": "1500", "kafka.retry.backoff.ms": "5"}
    with pytest.raises(KafkaTimeoutError, match=r"t-0: nothing came from offset 2 on for 1.5 s \(kafkaConsumer"):
        await read(options(broker, **given), OffsetRange("t", 0, 2, 5))


async def test_a_missing_broker_is_reported_with_the_partition(broker: DevBroker) -> None:
    settings: dict[str, Any] = {"kafkaConsumer.pollTimeoutMs": "200"}
    given = options(broker, **settings)
    broker.controls.stop_node(broker.nodes[0].node_id)
    with pytest.raises(
        KafkaTimeoutError, match=r"t-0: nothing is known of topic 't' after 0\.2 s: no broker is reachable"
    ):
        await read(given, OffsetRange("t", 0, 2, 5))


async def test_a_topic_that_is_deleted_in_mid_read_is_a_loss(broker: DevBroker) -> None:
    broker.delete_topic("t")
    given: dict[str, Any] = {"kafkaConsumer.pollTimeoutMs": "1500", "kafka.retry.backoff.ms": "5"}
    with pytest.raises(DataLossError, match="t-0: the topic was deleted, offsets 2 to 5 were not read yet"):
        await read(options(broker, **given), OffsetRange("t", 0, 2, 5))
    assert await read(options(broker, failOnDataLoss="false", **given), OffsetRange("t", 0, 2, 5)) == []


async def test_a_broker_that_comes_back_in_mid_read_is_read_on(broker: DevBroker) -> None:
    await send(broker, 0, 50)
    broker.controls.stop_node(1)
    (node,) = broker.nodes
    reading = asyncio.create_task(read(options(broker), OffsetRange("t", 0, 0, 50)))
    broker.controls.start_node(node.node_id)
    assert await reading == offsets_of(0, range(50))


# the plan of a stream


async def plan(driver: StreamDriver, start: Any, end: Any) -> dict[TopicPartition, tuple[int, int]]:
    return {one.topic_partition: (one.start, one.end) for one in await driver.plan(start, end) if one.size}


UNLIMITED = 2**63 - 1


@pytest.fixture
async def driver_of(broker: DevBroker) -> AsyncIterator[Any]:
    made: list[StreamDriver] = []

    def make(**given: str) -> StreamDriver:
        made.append(StreamDriver(options(broker, is_stream=True, **given)))
        return made[-1]

    yield make
    for driver in made:
        await driver.close()


async def test_a_stream_is_planned_from_end_to_end(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 5)
    driver = driver_of(startingOffsets="earliest")
    start = await driver.begin()
    assert start == {T0: 0, T1: 0, T2: 0}
    end = await driver.advance(start, UNLIMITED, is_all_wanted=False)
    assert end == {T0: 5, T1: 0, T2: 0}
    assert await plan(driver, start, end) == {T0: (0, 5)}
    assert await driver.advance(end, UNLIMITED, is_all_wanted=False) == end
    await send(broker, 1, 2)
    assert await plan(driver, end, await driver.advance(end, UNLIMITED, is_all_wanted=False)) == {T1: (0, 2)}
    assert driver.latest == {T0: 5, T1: 2, T2: 0}


async def test_a_stream_of_new_records_has_its_start_in_the_checkpoint_before_any_row(
    broker: DevBroker, driver_of: Any
) -> None:
    await send(broker, 0, 5)
    driver = driver_of()
    start = await driver.begin()
    assert start[T0] == 5
    await send(broker, 0, 3)
    # The first micro-batch is empty, though records came meanwhile: Spark writes its end, which is the start, down.
    first = await driver.advance(start, UNLIMITED, is_all_wanted=False)
    assert first == start
    assert await plan(driver, start, first) == {}
    # The query dies in it, and is started again later: it begins where it began.
    await send(broker, 0, 4)
    again = driver_of()
    assert (await again.begin())[T0] == 12
    assert await plan(again, await again.begin(), first) == {}
    assert await plan(again, first, await again.advance(first, UNLIMITED, is_all_wanted=False)) == {T0: (5, 12)}


@pytest.mark.parametrize("is_once", [False, True])
@pytest.mark.parametrize(
    "starting",
    [
        {"startingOffsets": '{"t":{"0":2,"1":-1}}'},
        {"startingTimestamp": "3000", "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
async def test_a_first_micro_batch_has_all_but_partitions_that_start_at_their_end_and_is_the_same_again(
    broker: DevBroker, driver_of: Any, starting: dict[str, str], is_once: bool
) -> None:
    await send(broker, 0, 5)
    await send(broker, 1, 2)
    driver = driver_of(**starting)
    start = await driver.begin()
    assert start == {T0: 2, T1: 2, T2: 0}
    await send(broker, 1, 3, start_ms=100_000)
    first = await driver.advance(start, UNLIMITED, is_all_wanted=is_once)
    assert first == {T0: 5, T1: 2, T2: 0}
    assert await plan(driver, start, first) == {T0: (2, 5)}
    # It fails, and the query is started again: the start of partition 1 has moved, and a partition has come.
    async with TopicAdmin(broker.bootstrap_servers) as admin:
        await admin.create_partitions("t", 4)
    await send(broker, 3, 1)
    again = driver_of(**starting)
    assert await plan(again, await again.begin(), first) == {T0: (2, 5)}
    end = await again.advance(first, UNLIMITED, is_all_wanted=is_once)
    assert await plan(again, first, end) == {T1: (2, 5), TopicPartition("t", 3): (0, 1)}


async def test_all_that_is_available_is_taken_at_once(broker: DevBroker, driver_of: Any) -> None:
    driver = driver_of(maxOffsetsPerTrigger="1", startingOffsets="earliest")
    start = await driver.begin()
    await send(broker, 0, 5)
    assert (await driver.advance(start, UNLIMITED, is_all_wanted=True))[T0] == 5


async def test_a_first_micro_batch_that_the_connector_planned_is_read_again(broker: DevBroker, driver_of: Any) -> None:
    """The connector's has rows also with a start that may move."""
    await send(broker, 0, 10)
    driver = driver_of(startingTimestamp="1", startingOffsetsByTimestampStrategy="latest")
    assert await plan(driver, await driver.begin(), {T0: 10, T1: 0, T2: 0}) == {T0: (0, 10)}


async def test_a_first_micro_batch_whose_start_is_unknown_is_reported(
    broker: DevBroker, driver_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The micro-batch was planned with ``startingOffsets='earliest'``, which the query that goes on does not have."""
    await send(broker, 0, 10)
    await send(broker, 1, 3)
    driver = driver_of()
    assert await plan(driver, await driver.begin(), {T0: 10, T1: 2, T2: 0}) == {}
    (told,) = [one.getMessage() for one in caplog.records if "source.start_unknown" in one.getMessage()]
    assert "t-0, t-1" in told
    assert "startingOffsets was another one" in told


async def test_a_first_micro_batch_whose_records_were_deleted_is_a_loss(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 20)
    delete_before(broker, T0, 15)
    first = {T0: 10, T1: 0, T2: 0}
    driver = driver_of(startingOffsets="earliest")
    with pytest.raises(DataLossError, match="t-0: micro-batch 0, run again, goes to 10, but its start is now 15"):
        await driver.plan(await driver.begin(), first)
    lenient = driver_of(startingOffsets="earliest", failOnDataLoss="false")
    assert await plan(lenient, await lenient.begin(), first) == {}


async def test_a_limit_is_shared_also_by_partitions_that_are_new(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 30)
    await send(broker, 1, 10)
    driver = driver_of(startingOffsets="earliest")
    assert await driver.advance({T0: 0, T2: 0}, 20, is_all_wanted=False) == {T0: 15, T1: 5, T2: 0}


async def test_new_partitions_and_topics_are_read_from_their_first_record(broker: DevBroker, driver_of: Any) -> None:
    driver = driver_of(subscribePattern="t|new")
    start = await driver.begin()
    broker.create_topic("new")
    async with TopicAdmin(broker.bootstrap_servers) as admin:
        await admin.create_partitions("t", 4)
    await send(broker, 0, 3, "new")
    await send(broker, 3, 4)
    start = await driver.advance(start, UNLIMITED, is_all_wanted=False)
    end = await driver.advance(start, UNLIMITED, is_all_wanted=False)
    assert await plan(driver, start, end) == {NEW: (0, 3), TopicPartition("t", 3): (0, 4)}


async def test_a_new_partition_that_has_lost_its_first_records_is_a_loss(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 2, 10)
    delete_before(broker, T2, 6)
    with pytest.raises(DataLossError, match="t-2: is new, but begins at 6"):
        await driver_of().advance({T0: 0, T1: 0}, UNLIMITED, is_all_wanted=False)
    lenient = driver_of(failOnDataLoss="false")
    end = await lenient.advance({T0: 0, T1: 0}, UNLIMITED, is_all_wanted=False)
    assert await plan(lenient, {T0: 0, T1: 0}, end) == {T2: (6, 10)}


async def test_a_partition_that_is_gone_is_a_loss(broker: DevBroker, driver_of: Any) -> None:
    start = {T0: 0, T1: 0, T2: 0, NEW: 7}
    with pytest.raises(
        DataLossError, match="new-0: there is no such partition any more, or it is no longer subscribed; read to 7"
    ):
        await driver_of(subscribePattern="t|new").advance(start, UNLIMITED, is_all_wanted=False)
    lenient = driver_of(subscribe="t,new", failOnDataLoss="false")
    end = await lenient.advance(start, UNLIMITED, is_all_wanted=False)
    assert end == {T0: 0, T1: 0, T2: 0}
    assert await plan(lenient, start, end) == {}
    assert await lenient.advance(end, UNLIMITED, is_all_wanted=False) == end


async def test_a_log_that_ends_before_the_offset_it_was_read_to_is_a_loss(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 5)
    start = {T0: 100, T1: 0, T2: 0}
    with pytest.raises(DataLossError, match="t-0: was read to 100, but the log ends at 5"):
        await driver_of().advance(start, UNLIMITED, is_all_wanted=False)


@pytest.mark.parametrize("count", [3, 5, 9])
async def test_a_recreated_topic_is_read_from_its_first_record_however_long_it_is(
    broker: DevBroker, driver_of: Any, count: int
) -> None:
    await send(broker, 0, 5)
    strict, lenient = driver_of(startingOffsets="earliest"), driver_of(failOnDataLoss="false")
    end = {T0: 5, T1: 0, T2: 0}
    for driver in (strict, lenient):
        assert await driver.advance(await driver.begin(), UNLIMITED, is_all_wanted=True) == end
    broker.delete_topic("t")
    broker.create_topic("t", partitions=3)
    await send(broker, 0, count)
    with pytest.raises(DataLossError, match="t-0: was read to 5, then the topic was deleted and created again"):
        await strict.advance(end, UNLIMITED, is_all_wanted=False)
    anew = await lenient.advance(end, UNLIMITED, is_all_wanted=False)
    assert anew != end
    assert await plan(lenient, end, anew) == {}
    after = await lenient.advance(anew, UNLIMITED, is_all_wanted=False)
    assert await plan(lenient, anew, after) == {T0: (0, count)}
    assert await lenient.advance(after, UNLIMITED, is_all_wanted=False) == after


async def test_a_log_that_ends_before_the_offset_it_was_read_to_is_not_read_again(
    broker: DevBroker, driver_of: Any
) -> None:
    """Nothing says that it is another topic: its end was cut, or is not committed yet."""
    await send(broker, 0, 5)
    driver = driver_of(failOnDataLoss="false")
    start = {T0: 100, T1: 0, T2: 0}
    end = await driver.advance(start, UNLIMITED, is_all_wanted=False)
    assert end == {T0: 5, T1: 0, T2: 0}
    assert await plan(driver, start, end) == {}
    await send(broker, 0, 2)
    assert await plan(driver, end, await driver.advance(end, UNLIMITED, is_all_wanted=False)) == {T0: (5, 7)}


def answer_once_that_it_ends_at(broker: DevBroker, end: int) -> None:
    def stale(context: Any, body: Any) -> Any:
        if body.topics[0].partitions[0].timestamp != LATEST:
            return None
        broker.controls.clear()
        place = {"error_code": 0, "timestamp": -1, "offset": end, "leader_epoch": 0}
        (topic,) = body.topics
        partitions = [place | {"partition_index": one.partition_index} for one in topic.partitions]
        return context.respond(topics=[{"name": topic.name, "partitions": partitions}])

    broker.controls.on_request(ApiKey.LIST_OFFSETS, stale)


@pytest.mark.parametrize("is_loss_fatal", ["true", "false"])
async def test_one_answer_that_knows_less_is_not_believed(
    broker: DevBroker, driver_of: Any, is_loss_fatal: str
) -> None:
    await send(broker, 0, 5)
    driver = driver_of(startingOffsets="earliest", failOnDataLoss=is_loss_fatal)
    end = await driver.advance(await driver.begin(), UNLIMITED, is_all_wanted=True)
    assert end == {T0: 5, T1: 0, T2: 0}
    broker.controls.fail_next(ApiKey.METADATA, UnknownTopicOrPartitionError, "t")
    assert await driver.advance(end, UNLIMITED, is_all_wanted=False) == end
    answer_once_that_it_ends_at(broker, 0)
    assert await driver.advance(end, UNLIMITED, is_all_wanted=False) == end
    # A restarted query, which holds a micro-batch of its checkpoint against the log.
    again = driver_of(failOnDataLoss=is_loss_fatal)
    broker.controls.fail_next(ApiKey.METADATA, UnknownTopicOrPartitionError, "t")
    answer_once_that_it_ends_at(broker, 0)
    assert await plan(again, {T0: 2, T1: 0, T2: 0}, end) == {T0: (2, 5)}


async def test_available_now_reads_a_topic_that_one_answer_lacked(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 5)
    driver = driver_of(startingOffsets="earliest")
    broker.controls.fail_next(ApiKey.METADATA, UnknownTopicOrPartitionError, "t")
    await driver.set_target()
    start = await driver.begin()
    assert await driver.advance(start, UNLIMITED, is_all_wanted=False) == {T0: 5, T1: 0, T2: 0}


async def test_a_micro_batch_of_a_checkpoint_is_held_against_the_log(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 5)
    start, end = {T0: 2, T1: 0, T2: 0}, {T0: 9, T1: 0, T2: 0}
    with pytest.raises(DataLossError, match="t-0: offsets 2 to 9 were asked for, but the log goes from 0 to 5"):
        await driver_of().plan(start, end)
    assert await plan(driver_of(failOnDataLoss="false"), start, end) == {T0: (2, 5)}


@pytest.mark.parametrize("given", [{"subscribe": "t,new"}, {"subscribePattern": "t|new"}, {"subscribe": "t"}])
async def test_a_micro_batch_of_a_checkpoint_is_read_without_the_topics_that_are_gone(
    broker: DevBroker, driver_of: Any, given: dict[str, str]
) -> None:
    if given == {"subscribe": "t"}:
        broker.create_topic("new")
        await send(broker, 0, 9, "new")
    await send(broker, 0, 5)
    start, end = {T0: 2, T1: 0, T2: 0, NEW: 3}, {T0: 5, T1: 0, T2: 0, NEW: 9}
    with pytest.raises(
        DataLossError, match=r"new-0: there is no such .* subscribed; offsets 3 to 9 of.*failOnDataLoss"
    ):
        await driver_of(**given).plan(start, end)
    lenient = driver_of(failOnDataLoss="false", **given)
    assert await plan(lenient, start, end) == {T0: (2, 5)}
    after = await lenient.advance(end, UNLIMITED, is_all_wanted=False)
    assert after == {T0: 5, T1: 0, T2: 0}
    assert await plan(lenient, end, after) == {}


async def test_a_named_start_of_a_topic_that_is_subscribed_no_more_matters_only_to_a_new_query(
    broker: DevBroker, driver_of: Any
) -> None:
    driver = driver_of(startingOffsets='{"t":{"0":0},"new":{"0":0}}', failOnDataLoss="false")
    with pytest.raises(OptionError, match="new-0': expected partitions that exist and are read"):
        await driver.begin()
    await send(broker, 0, 5)
    start = {T0: 2, T1: 0, T2: 0, NEW: 3}
    end = await driver.advance(start, UNLIMITED, is_all_wanted=False)
    assert await plan(driver, start, end) == {T0: (2, 5)}


async def test_a_micro_batch_waits_for_enough_or_for_long_enough(broker: DevBroker, driver_of: Any) -> None:
    driver = driver_of(startingOffsets="earliest", minOffsetsPerTrigger="5")
    start = await driver.begin()
    # The first goes at once, as with the connector: nothing was ever triggered.
    assert await driver.advance(start, UNLIMITED, is_all_wanted=False) == start
    await send(broker, 0, 4)
    assert await driver.advance(start, UNLIMITED, is_all_wanted=False) == start
    await send(broker, 0, 1)
    assert (await driver.advance(start, UNLIMITED, is_all_wanted=False))[T0] == 5
    hasty = driver_of(startingOffsets="earliest", minOffsetsPerTrigger="50", maxTriggerDelay="0s")
    assert (await hasty.advance(start, UNLIMITED, is_all_wanted=False))[T0] == 5


async def test_available_now_reads_to_the_ends_at_the_start(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 10)
    driver = driver_of(startingOffsets="earliest", minOffsetsPerTrigger="1000")
    await driver.set_target()
    await send(broker, 0, 10)
    start = await driver.begin()
    ends = [start]
    while len(ends) < 2 or ends[-1] != ends[-2]:
        ends.append(await driver.advance(ends[-1], 4, is_all_wanted=False))
    assert [end[T0] for end in ends] == [0, 4, 8, 10, 10]


async def test_available_now_may_begin_behind_its_end(broker: DevBroker, driver_of: Any) -> None:
    driver = driver_of(subscribePattern="t|new")
    await driver.set_target()
    await send(broker, 0, 10)
    broker.create_topic("new")
    start = await driver.begin()
    assert start == {T0: 10, T1: 0, T2: 0, NEW: 0}
    assert await driver.advance(start, UNLIMITED, is_all_wanted=False) == start
    assert await driver.advance(start, UNLIMITED, is_all_wanted=False) == start


async def committed(broker: DevBroker, group: str) -> list[int]:
    """The offsets of the partitions of t, as a stock client sees them."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    def ask() -> list[int]:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        try:
            found = consumer.committed([Place("t", number) for number in range(3)], timeout=10)
            return [place.offset for place in found]
        finally:
            consumer.close()

    return await asyncio.to_thread(ask)


async def test_a_group_sees_how_far_the_query_is(broker: DevBroker, driver_of: Any) -> None:
    await send(broker, 0, 5)
    driver = driver_of(commitGroup="watched", startingOffsets="earliest")
    for done in (0, 2, 3):
        await driver.advance({T0: done, T1: 0, T2: 0}, UNLIMITED, is_all_wanted=False)
    await driver.close()
    assert await committed(broker, "watched") == [3, 0, 0]


async def test_a_commit_that_fails_does_not_fail_the_query(
    broker: DevBroker, driver_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from aiokafkapy.errors import GroupAuthorizationFailedError

    driver = driver_of(commitGroup="watched")
    broker.controls.fail_next(ApiKey.OFFSET_COMMIT, GroupAuthorizationFailedError)
    end = await driver.advance({T0: 0, T1: 0, T2: 0}, UNLIMITED, is_all_wanted=False)
    assert end == {T0: 0, T1: 0, T2: 0}
    await driver.close()
    assert "source.commit_failed" in caplog.text


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark before 4.2")
async def test_spark_asks_a_stream_as_it_asks_any(broker: DevBroker) -> None:
    """The methods that Spark calls, one after the other, with JSON between them."""
    await send(broker, 0, 5)
    given: dict[str, Any] = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "commitGroup": "g"}
    reader = KafkaStreamReader(given | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"})

    def asked() -> list[Any]:
        start = reader.initialOffset()
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(3)
        end = reader.latestOffset(start, limit)
        (task,) = reader.partitions(start, end)
        rows = [row for batch in reader.read(task) for row in batch["offset"].to_pylist()]
        reader.commit(end)
        found = [start, end, rows, reader.reportLatestOffset(), reader.latestOffset(end, ReadAllAvailable())]
        reader.stop()
        return found

    end = {"t": {"0": 5, "1": 0, "2": 0}}
    first = {"t": {"0": 3, "1": 0, "2": 0}}
    assert await asyncio.to_thread(asked) == [{"t": {"0": 0, "1": 0, "2": 0}}, first, [0, 1, 2], end, end]


async def test_an_older_spark_asks_for_the_end_alone(broker: DevBroker) -> None:
    """A Spark before PySpark 4.2 gives neither a start nor a limit."""
    await send(broker, 0, 5)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "commitGroup": "g"}
    reader = KafkaStreamReader(given | {"startingOffsets": "earliest"})

    def ends(offset: int) -> Any:
        return {"t": {"0": offset, "1": 0, "2": 0}}

    def read(start: Any, end: Any) -> list[int]:
        tasks = reader.partitions(start, end)
        return [row for task in tasks for batch in reader.read(task) for row in batch["offset"].to_pylist()]

    assert await asyncio.to_thread(reader.initialOffset) == ends(0)
    assert await asyncio.to_thread(reader.latestOffset) == ends(5)
    assert await asyncio.to_thread(read, ends(0), ends(5)) == [0, 1, 2, 3, 4]
    await send(broker, 0, 1)
    assert await asyncio.to_thread(reader.latestOffset) == ends(6)
    assert await asyncio.to_thread(read, ends(5), ends(6)) == [5]
    await asyncio.to_thread(reader.latestOffset)
    await asyncio.to_thread(reader.stop)
    assert await committed(broker, "g") == [6, 0, 0]


async def test_a_restarted_query_of_an_older_spark_goes_on_where_its_checkpoint_ends(broker: DevBroker) -> None:
    await send(broker, 0, 5)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "startingOffsets": "latest"}
    reader = KafkaStreamReader(given)
    end = await asyncio.to_thread(reader.latestOffset)
    assert end == {"t": {"0": 5, "1": 0, "2": 0}}
    tasks = await asyncio.to_thread(reader.partitions, {"t": {"0": 3, "1": 0, "2": 0}}, end)
    assert [(one.start, one.end) for task in tasks for one in task.value] == [(3, 5)]
    await asyncio.to_thread(reader.stop)


async def test_a_query_from_the_end_begins_at_the_end_that_was_told_before(broker: DevBroker) -> None:
    """An older Spark may ask where a query with Trigger.AvailableNow ends before it asks where it begins."""
    await send(broker, 0, 5)
    reader = KafkaStreamReader({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t"})
    end = await asyncio.to_thread(reader.latestOffset)
    await send(broker, 0, 5)
    start = await asyncio.to_thread(reader.initialOffset)
    assert start == end == {"t": {"0": 5, "1": 0, "2": 0}}
    assert await asyncio.to_thread(reader.partitions, start, end) == []
    await asyncio.to_thread(reader.stop)


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_a_limit_that_an_older_spark_does_not_have_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafkapy.spark.source.stream_reader.HAS_READ_LIMITS", False)
    with pytest.raises(OptionError, match=rf"{name}' is '?9'?: .*4\.2"):
        KafkaStreamReader({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", name: "9"})
