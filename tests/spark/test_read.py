"""``spark.read.format("aiokafkapy")``: rows, columns and ranges; and the errors for bad options and failed reads."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.datasource import InputPartition

from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.spark.data_source import KafkaDataSource
from aiokafkapy.spark.source.reader import KafkaReader
from aiokafkapy.testing import ApacheKafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_MS = 1_700_000_000_000

Row = tuple[Any, ...]
Sent = Callable[..., None]


@pytest.fixture
def source(spark: SparkSession) -> Callable[..., DataFrameReader]:
    """``source(servers, subscribe=…, **options)``."""

    def made(bootstrap_servers: str, **options: str) -> DataFrameReader:
        reader = spark.read.format("aiokafkapy").option("kafka.bootstrap.servers", bootstrap_servers)
        return reader.options(**options)

    return made


@pytest.fixture
def send(loop_thread: Any) -> Sent:
    """``send(servers, topic, records, **options)``: records as arguments of ``KafkaProducer.enqueue``."""

    async def sent(servers: str, topic: str, records: list[dict[str, Any]], **options: Any) -> None:
        async with KafkaProducer(servers, **options) as producer:
            await asyncio.gather(*[await producer.enqueue(topic, **record) for record in records])

    return lambda servers, topic, records, **options: loop_thread.run(sent(servers, topic, records, **options))


def numbered(count: int, partitions: int = 1) -> list[dict[str, Any]]:
    """Records that are a second apart, in turn to each partition."""
    return [
        {"value": b"%d" % number, "partition": number % partitions, "timestamp_ms": FIRST_MS + number * 1_000}
        for number in range(count)
    ]


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_every_column_and_every_null_is_as_it_was_written(source: Any, send: Sent, broker: Any) -> None:
    broker.create_topic("t", partitions=3)
    broker.create_topic("appended", config={"message.timestamp.type": "LogAppendTime"})
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("a", None), ("ü", b"")], "timestamp_ms": FIRST_MS + 1},
        {"key": None, "value": b"\x00\xff", "headers": None, "timestamp_ms": 0},
        {"key": b"", "value": None, "headers": [], "timestamp_ms": FIRST_MS + 2},
        {"key": None, "value": b"", "headers": [("h", b"2")], "timestamp_ms": FIRST_MS + 3},
    ]
    send(broker.bootstrap_servers, "t", [one | {"partition": number % 2} for number, one in enumerate(records)])
    send(broker.bootstrap_servers, "appended", [{"value": b"now"}])
    frame = source(broker.bootstrap_servers, subscribe="t,appended", INCLUDEHEADERS="true").load()
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    found = {(row.topic, row.partition, row.offset): row for row in frame.collect()}
    assert len(found) == 5
    for number, one in enumerate(records):
        row = found["t", number % 2, number // 2]
        assert row.key == one["key"]
        assert row.value == one["value"]
        assert row.timestamp == datetime.fromtimestamp(one["timestamp_ms"] / 1000, UTC).replace(tzinfo=None)
        assert row.timestampType == 0
        assert (None if row.headers is None else [tuple(pair) for pair in row.headers]) == (one["headers"] or None)
    assert found["appended", 0, 0].timestampType == 1


def test_each_codec_and_partitions_without_records(source: Any, send: Sent, broker: Any) -> None:
    broker.create_topic("t", partitions=len(CODECS) + 2)
    for number, codec in enumerate(CODECS):
        records = [{"value": b"%d" % (number * 500 + each), "partition": number} for each in range(500)]
        send(broker.bootstrap_servers, "t", records, compression_type=codec)
    frame = source(broker.bootstrap_servers, subscribe="t").load()
    assert values(frame) == list(range(500 * len(CODECS)))
    assert frame.rdd.getNumPartitions() == len(CODECS)
    assert source(broker.bootstrap_servers, assign=json.dumps({"t": [len(CODECS)]})).load().collect() == []


def test_ranges_by_offset_and_by_time_and_in_as_many_tasks_as_wanted(source: Any, send: Sent, broker: Any) -> None:
    broker.create_topic("t", partitions=2)
    send(broker.bootstrap_servers, "t", numbered(100, partitions=2))

    def read(**options: str) -> DataFrame:
        frame: DataFrame = source(broker.bootstrap_servers, subscribePattern="t.*", **options).load()
        return frame

    by_offset = read(startingOffsets='{"t":{"0":10}}', endingOffsets='{"t":{"0":12,"1":3}}')
    assert values(by_offset) == [1, 3, 5, 20, 22]
    by_time = read(startingTimestamp=str(FIRST_MS + 5_000), endingTimestamp=str(FIRST_MS + 9_000), minPartitions="4")
    assert by_time.rdd.getNumPartitions() == 4
    assert values(by_time) == [5, 6, 7, 8]
    together = read(maxPartitions="1")
    assert together.rdd.getNumPartitions() == 1
    assert values(together) == list(range(100))
    assert read(maxRecordsPerPartition="20").rdd.getNumPartitions() == 6


def test_each_use_of_one_load_has_all_its_rows_whatever_other_uses_filter(
    spark: SparkSession, source: Any, send: Sent, broker: Any
) -> None:
    """With filter pushdown on: Spark keeps one list of partitions for all uses of a relation."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    broker.create_topic("t", partitions=2)
    send(broker.bootstrap_servers, "t", numbered(20, partitions=2))
    frame = source(broker.bootstrap_servers, subscribe="t").load()
    even, odd = frame.where("partition = 0 and offset < 5"), frame.where("partition = 1 and offset >= 5")
    counts = {"even": even.count(), "all": frame.count(), "odd": odd.count()}
    counts |= {"union": even.union(odd).count(), "with all": even.union(frame).count()}
    counts["join"] = even.alias("a").crossJoin(odd.alias("b")).count()
    assert counts == {"even": 5, "all": 20, "odd": 5, "union": 10, "with all": 25, "join": 25}
    frame.createOrReplaceTempView("shared")
    try:
        late, rest = ("select count(*) from shared where " + bound for bound in ("offset >= 5", "offset < 5"))
        old, young = (
            f"select count(*) from shared where timestamp {bound} timestamp'2023-11-14 22:13:30'"
            for bound in ("<", ">=")
        )
        queries = [late, "select count(*) from shared", rest, old, young, f"select ({late}) + ({rest})"]
        assert [spark.sql(query).collect()[0][0] for query in queries] == [10, 20, 10, 10, 10, 20]
    finally:
        spark.catalog.dropTempView("shared")


def test_filters_find_records_from_before_1970(spark: SparkSession, source: Any, write: Any, broker: Any) -> None:
    broker.create_topic("t")
    years = spark.sql(
        "select cast(y as string) as value, make_timestamp(y,1,2,0,0,0) as timestamp from values 1960,"
        " 1940, 1969, 2000 as t(y)"
    )
    write(years.coalesce(1), broker.bootstrap_servers, topic="t")
    frame = source(broker.bootstrap_servers, subscribe="t").load()
    assert values(frame.where("timestamp >= timestamp'1950-01-01'")) == [1960, 1969, 2000]
    assert values(frame.where("timestamp > timestamp'1970-01-01'")) == [2000]


def test_a_session_whose_timestamps_have_no_zone_reads_as_any_other(
    spark: SparkSession, source: Any, send: Sent, broker: Any, tmp_path: Path
) -> None:
    broker.create_topic("t")
    send(broker.bootstrap_servers, "t", numbered(3))
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        frame = source(broker.bootstrap_servers, subscribe="t").load()
        assert dict(frame.dtypes)["timestamp"] == "timestamp"
        assert frame.where(f"unix_millis(timestamp) = {FIRST_MS + 1_000}").count() == 1
        stream = spark.readStream.format("aiokafkapy").options(**options).load().selectExpr("timestamp", "value")
        query = stream.writeStream.format("memory").queryName("ntz").option("checkpointLocation", str(tmp_path))
        assert query.trigger(availableNow=True).start().awaitTermination(120)
        assert values(spark.table("ntz")) == [0, 1, 2]
    finally:
        spark.conf.unset("spark.sql.timestampType")


def test_a_schema_of_the_user_is_refused_on_the_driver(
    spark: SparkSession, source: Any, broker: Any, tmp_path: Path
) -> None:
    broker.create_topic("t")
    reader = source(broker.bootstrap_servers, subscribe="t")
    with pytest.raises(PySparkException, match=r"the schema is struct<key:string,value:string>: expected none"):
        reader.schema("key string, value string").load().collect()
    stream = spark.readStream.format("aiokafkapy").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame = stream.option("subscribe", "t").schema("value string").load()
    with pytest.raises(PySparkException, match=r"the schema is struct<value:string>: expected none"):
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
        query.awaitTermination(60)


def test_in_sql_views_and_options_of_a_query_work_and_tables_say_so(
    spark: SparkSession, source: Any, send: Sent, broker: Any
) -> None:
    broker.create_topic("t")
    send(broker.bootstrap_servers, "t", numbered(3))
    given = f"'kafka.bootstrap.servers' '{broker.bootstrap_servers}', subscribe 't', topic 't'"
    spark.sql(f"create temporary view kafka_view using aiokafkapy options ({given})")
    assert values(spark.table("kafka_view")) == [0, 1, 2]
    spark.sql(f"create table kafka_table using aiokafkapy options ({given})")
    try:
        with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
            spark.table("kafka_table").collect()
        with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
            spark.sql("insert into kafka_table (value) values (binary('3'))")
        told = ", ".join(f"{pair.split()[0]} = {pair.split()[1]}" for pair in given.split(", "))
        assert values(spark.sql(f"select * from kafka_table with ({told})")) == [0, 1, 2]
    finally:
        spark.sql("drop table kafka_table")
        spark.catalog.dropTempView("kafka_view")


def test_a_dictionary_shared_with_the_connector_and_with_writes_is_taken(
    spark: SparkSession, write: Any, broker: Any, source: Any
) -> None:
    broker.create_topic("t")
    shared = {
        "topic": "t", "subscribe": "t", "startingOffsets": "earliest", "groupIdPrefix": "g", "kafka.group.id": "g",
        "kafka.session.timeout.ms": "45000", "kafka.acks": "all", "kafka.client.rack": "r",
        "kafka.ssl.endpoint.identification.algorithm": "", "kafka.metrics.recording.level": "INFO",
    }  # fmt: skip
    frame = spark.sql(
        "select '1' as value, 'noon' as timestamp, array(struct('a' as Key, binary('1') as Value)) as headers"
    )
    write(frame, broker.bootstrap_servers, **shared)
    assert values(source(broker.bootstrap_servers, **shared).load("/x")) == [1]
    assert [list(record.headers) for record in broker.records("t")] == [[("a", b"1")]]


def test_errors_are_raised_on_the_driver(source: Any, send: Sent, broker: Any) -> None:
    broker.create_topic("t")
    send(broker.bootstrap_servers, "t", numbered(10))
    broker.call(lambda dev: dev.state.topics.partition("t", 0).log.delete_records(4))
    with pytest.raises(PySparkException, match="did you mean 'startingOffsets'"):
        source(broker.bootstrap_servers, subscribe="t", startingOffset="earliest").load().collect()
    with pytest.raises(PySparkException, match="there is no topic or partition none"):
        source(broker.bootstrap_servers, subscribe="none").load().collect()
    lost = {"subscribe": "t", "startingOffsets": '{"t":{"0":2}}'}
    with pytest.raises(PySparkException, match="t-0: offsets 2 to 10 were asked for, but the log goes from 4 to 10"):
        source(broker.bootstrap_servers, **lost).load().collect()
    assert values(source(broker.bootstrap_servers, failOnDataLoss="false", **lost).load()) == list(range(4, 10))


def test_a_broker_that_goes_and_comes_back_in_mid_read_loses_nothing(source: Any, send: Sent, broker: Any) -> None:
    broker.create_topic("t")
    send(broker.bootstrap_servers, "t", numbered(2_000), batch_size=500)
    fetches: Iterator[int] = iter(range(1_000_000))

    def stop_once(context: Any, body: Any) -> None:
        if next(fetches) == 5:
            running = asyncio.get_running_loop()
            running.call_soon(broker.dev.controls.stop_node, 1)
            running.call_later(1.0, broker.dev.controls.start_node, 1)

    broker.call(lambda dev: dev.controls.on_request(ApiKey.FETCH, stop_once))
    small = {"kafka.max.partition.fetch.bytes": "2000"}
    assert values(source(broker.bootstrap_servers, subscribe="t", **small).load()) == list(range(2_000))
    assert next(fetches) > 6


def test_transactions_are_read_as_the_isolation_level_says(
    source: Any, kafka: ApacheKafka, loop_thread: Any, topic: str
) -> None:
    loop_thread.run(kafka.create_topic(topic, partitions=1))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    ends = {0: producer.commit_transaction, 100: producer.abort_transaction, 200: producer.commit_transaction}
    for first, end in ends.items():
        producer.begin_transaction()
        for number in range(first, first + 10):
            producer.produce(topic, str(number))
        producer.flush(30)
        end(30)
    committed = [*range(10), *range(200, 210)]
    frame = source(kafka.bootstrap_servers, subscribe=topic, **{"kafka.isolation.level": "read_committed"}).load()
    assert values(frame) == committed
    frame = source(kafka.bootstrap_servers, subscribe=topic).load()
    assert values(frame) == [*range(10), *range(100, 110), *range(200, 210)]
    # Each end of a transaction has an offset and no record.
    assert [row.offset for row in frame.select("offset").orderBy("offset").collect()] == [
        *range(10),
        *range(11, 21),
        *range(22, 32),
    ]


def test_a_compacted_topic_has_gaps_and_no_losses(
    source: Any, send: Sent, kafka: ApacheKafka, loop_thread: Any, topic: str
) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "100",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": "100",
    }
    loop_thread.run(kafka.create_topic(topic, partitions=1, config=config))
    records = [{"key": b"%d" % (number % 3), "value": b"%d" % number} for number in range(300)]
    send(kafka.bootstrap_servers, topic, records, batch_size=100)

    def read() -> list[int]:
        return values(
            source(kafka.bootstrap_servers, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":1}}}}').load()
        )

    deadline = time.monotonic() + 120
    while len(found := read()) > 100:
        assert time.monotonic() < deadline, "Kafka compacted nothing"
        # A segment is closed by a record that comes after its time.
        send(kafka.bootstrap_servers, topic, [{"key": b"x", "value": b"1000"}])
    assert {297, 298, 299} <= set(found)


def test_a_worker_that_is_killed_in_mid_read_loses_no_row(
    spark: SparkSession, send: Sent, broker: Any, tmp_path: Path
) -> None:
    broker.create_topic("t", partitions=2)
    send(broker.bootstrap_servers, "t", numbered(2_000, partitions=2), batch_size=500)

    # Classes of a function go to the workers by value: they cannot import this file.
    class DyingReader(KafkaReader):
        def read(self, partition: InputPartition | None) -> Iterator[Any]:
            for batch in super().read(partition):
                yield batch
                if not (tmp_path / "killed").exists():
                    (tmp_path / "killed").touch()
                    os.kill(os.getpid(), signal.SIGKILL)

    class DyingSource(KafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def reader(self, schema: Any) -> KafkaReader:
            return DyingReader(self.options)

    spark.dataSource.register(DyingSource)
    stream = spark.read.format("dying").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame = stream.options(**{"subscribe": "t", "kafka.max.partition.fetch.bytes": "20000"}).load()
    assert values(frame) == list(range(2_000))
    assert (tmp_path / "killed").exists()
