"""``spark.readStream.format("aiokafkapy")``: micro-batches, checkpoints, and topics that change while a query runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from aiokafkapy.admin import TopicAdmin
from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.spark.source.read_limits import HAS_READ_LIMITS
from aiokafkapy.testing import ApacheKafka

Batches = dict[int, list[int]]


class Query:
    """A query with a checkpoint, whose sink keeps the rows of each micro-batch; a batch that is done again replaces
    its earlier rows, as an idempotent sink does.
    """

    def __init__(self, spark: SparkSession, servers: str, checkpoint: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._checkpoint = checkpoint
        self.batches: Batches = {}

    def start(self, fail_in: int | None = None, trigger: dict[str, Any] | None = None, **options: str) -> Any:
        """Start it. In micro-batch ``fail_in`` it fails, after its rows have come."""

        def keep(frame: DataFrame, batch_id: int) -> None:
            self.batches[batch_id] = [int(row.value) for row in frame.select("value").collect()]
            if batch_id == fail_in:
                raise RuntimeError("the sink failed")

        stream = self._spark.readStream.format("aiokafkapy").option("kafka.bootstrap.servers", self._servers)
        writer = stream.options(**options).load().writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, fail_in: int | None = None, **options: Any) -> Any:
        """All there is now; returns the query when it has ended."""
        query = self.start(fail_in, **options)
        assert query.awaitTermination(120)
        return query

    @property
    def values(self) -> list[int]:
        """All that came, in order of their numbers."""
        return sorted(value for batch in self.batches.values() for value in batch)

    def checkpointed(self, batch_id: int) -> Any:
        """The offsets in the checkpoint."""
        return json.loads((self._checkpoint / "offsets" / str(batch_id)).read_text().splitlines()[-1])


@pytest.fixture
def send(loop_thread: Any) -> Callable[..., None]:
    """``send(servers, topic, numbers, partitions)``: each number as a record, in turn to each partition."""

    async def sent(servers: str, topic: str, numbers: range, partitions: int) -> None:
        async with KafkaProducer(servers) as producer:
            records = [
                await producer.enqueue(topic, b"%d" % number, partition=number % partitions) for number in numbers
            ]
            await asyncio.gather(*records)

    return lambda servers, topic, numbers, partitions=1: loop_thread.run(sent(servers, topic, numbers, partitions))


@pytest.fixture(params=["dev", "kafka"])
def servers(request: pytest.FixtureRequest, loop_thread: Any, topic: str) -> str:
    """Bootstrap servers of the dev broker and of real Kafka, each with a topic of two partitions."""
    if request.param == "kafka":
        kafka: ApacheKafka = request.getfixturevalue("kafka")
        loop_thread.run(kafka.create_topic(topic, partitions=2))
        return kafka.bootstrap_servers
    broker = request.getfixturevalue("broker")
    broker.create_topic(topic, partitions=2)
    return str(broker.bootstrap_servers)


def committed(servers: str, group: str, topic: str, partitions: int) -> list[int]:
    """A group as a stock client sees it."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        return [place.offset for place in consumer.committed([Place(topic, n) for n in range(partitions)], timeout=30)]
    finally:
        consumer.close()


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark before 4.2")
def test_a_query_goes_on_where_it_failed_and_a_group_sees_it(
    spark: SparkSession, send: Any, servers: str, topic: str, tmp_path: Path
) -> None:
    send(servers, topic, range(100), 2)
    query = Query(spark, servers, tmp_path / "checkpoint")
    options: dict[str, Any] = {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "30",
        "commitGroup": f"{topic}-watched",
    }
    with pytest.raises(StreamingQueryException, match="the sink failed"):
        query.run(fail_in=1, **options)
    assert [len(query.batches[batch]) for batch in sorted(query.batches)] == [30, 30]
    assert query.checkpointed(1) == {topic: {"0": 30, "1": 30}}
    assert committed(servers, f"{topic}-watched", topic, 2) == [15, 15]
    send(servers, topic, range(100, 110), 2)
    ended = query.run(**options)
    assert query.values == list(range(110))
    assert max(len(batch) for batch in query.batches.values()) <= 30
    assert json.loads(ended.lastProgress.sources[0].latestOffset) == {topic: {"0": 55, "1": 55}}
    assert committed(servers, f"{topic}-watched", topic, 2) == [55, 55]
    # Nothing is new, so nothing comes.
    query.run(**options)
    assert query.values == list(range(110))


def test_a_query_of_new_records_loses_nothing_when_its_first_batches_fail(
    spark: SparkSession, send: Any, broker: Any, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic("t")
    send(servers, "t", range(100))
    query = Query(spark, servers, tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match="the sink failed"):
        query.run(fail_in=0, subscribe="t")
    send(servers, "t", range(100, 110))
    query.run(subscribe="t")
    if not HAS_READ_LIMITS:  # there it is a single micro-batch, which was the one that had failed
        query.run(subscribe="t")
    assert query.values == list(range(100, 110))


def test_a_first_batch_of_a_query_that_runs_once_is_read_again(
    spark: SparkSession, send: Any, broker: Any, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic("t", 2)
    send(servers, "t", range(10), 2)
    query = Query(spark, servers, tmp_path / "checkpoint")
    options: dict[str, Any] = {
        "subscribe": "t",
        "startingOffsets": '{"t":{"0":0,"1":-1}}',
        "trigger": {"once": True},
    }
    with pytest.raises(StreamingQueryException, match="the sink failed"):
        query.run(fail_in=0, **options)
    assert query.values == [0, 2, 4, 6, 8]
    send(servers, "t", range(10, 14), 2)
    query.run(**options)
    query.run(**options)
    assert query.values == [0, 2, 4, 6, 8, 10, 11, 12, 13]


def test_new_partitions_and_topics_are_read_while_a_query_runs(
    spark: SparkSession, send: Any, broker: Any, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic("t1")
    send(servers, "t1", range(10))
    query = Query(spark, servers, tmp_path / "checkpoint")
    options: dict[str, Any] = {"subscribePattern": "t[0-9]", "startingOffsets": "earliest"}
    running = query.start(trigger={"processingTime": "0 seconds"}, **options)
    try:
        running.processAllAvailable()
        assert query.values == list(range(10))

        async def grow() -> None:
            async with TopicAdmin(servers) as admin:
                await admin.create_partitions("t1", 3)

        broker.run(grow())
        broker.create_topic("t2")
        send(servers, "t1", range(10, 40), 3)
        send(servers, "t2", range(40, 50))
        running.processAllAvailable()
        assert query.values == list(range(50))
    finally:
        running.stop()


def test_records_that_are_deleted_between_two_runs_fail_the_query_or_are_passed_over(
    spark: SparkSession, send: Any, broker: Any, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    broker.create_topic("t")
    send(servers, "t", range(10))
    query = Query(spark, servers, tmp_path / "checkpoint")
    options: dict[str, Any] = {"subscribe": "t", "startingOffsets": "earliest"}
    query.run(**options)
    send(servers, "t", range(10, 30))
    broker.call(lambda dev: dev.state.topics.partition("t", 0).log.delete_records(20))
    with pytest.raises(StreamingQueryException, match="t-0: offsets 10 to 30 were asked for, but the log goes from 20"):
        query.run(**options)
    query.run(failOnDataLoss="false", **options)
    assert query.values == [*range(10), *range(20, 30)]


def test_a_stream_refuses_an_end(spark: SparkSession, broker: Any, tmp_path: Path) -> None:
    query = Query(spark, broker.bootstrap_servers, tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        query.run(subscribe="t", endingOffsets="latest")
