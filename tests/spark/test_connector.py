"""Spark's own connector, ``spark-sql-kafka-0-10``, reads our records and writes records for us, on real Kafka; and its
streams read and write the dev broker, as ``test_security`` has it for tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from aiokafkapy.spark.kafka_options import KAFKA_OPTIONS
from aiokafkapy.testing import ApacheKafka

from .conftest import Broker, LoopThread

JVM, OURS = "kafka", "aiokafkapy"
SCHEMA = (
    "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>, n int"
)


def rows_of(spark: SparkSession, topic: str) -> DataFrame:
    """Every null and every shape that both take; the partition is given, so that both write to the same."""
    headers = [("a", b"1"), ("a", None), ("", b"")]
    rows = [
        (None, None, topic, 0, None, 0),
        (b"", b"", topic, 1, [], 1),
        (b"key", bytes(range(256)), topic, 2, headers, 2),
        (b"\xff\x00", b"x" * 20_000, topic, 0, headers[:1], 3),
        *((b"%d" % n, b"value %d" % n, topic, n % 3, None, n) for n in range(4, 500)),
    ]
    return spark.createDataFrame(rows, SCHEMA).repartitionByRange(3, "partition").sortWithinPartitions("n").drop("n")


def read(spark: SparkSession, kind: str, kafka: ApacheKafka, topic: str) -> list[dict[str, Any]]:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}
    frame = spark.read.format(kind).options(**options).load()
    assert frame.dtypes == spark.read.format(JVM).options(**options).load().dtypes
    return [row.asDict(recursive=True) for row in frame.orderBy("partition", "offset").collect()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("writer", [OURS, JVM])
def test_both_read_the_same_from_either_writer(
    spark: SparkSession, kafka: ApacheKafka, topic: str, loop_thread: LoopThread, writer: str, codec: str
) -> None:
    loop_thread.run(kafka.create_topic(topic, 3))
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "includeHeaders": "true"}
    frame = rows_of(spark, topic)
    (
        frame.write.format(writer)
        .options(**options)
        .option("kafka.compression.type", codec)
        .option("kafka.retries", "5")
        .mode("append")
        .save()
    )
    theirs, ours = read(spark, JVM, kafka, topic), read(spark, OURS, kafka, topic)
    assert ours == theirs
    assert [row["offset"] for row in ours if row["partition"] == 0] == list(
        range(sum(r["partition"] == 0 for r in ours))
    )
    sent = [row.asDict(recursive=True) for row in frame.collect()]
    columns = ("key", "value", "partition")
    assert [[row[name] for name in columns] for row in ours] == [[row[name] for name in columns] for row in sent]
    assert [row["headers"] or None for row in ours] == [row["headers"] or None for row in sent]


def test_keyed_rows_go_to_the_same_partitions(
    spark: SparkSession, kafka: ApacheKafka, topic: str, loop_thread: LoopThread
) -> None:
    frame = spark.range(2_000).selectExpr("cast(id as string) key", "cast(id as string) value")
    places = {}
    for writer in (OURS, JVM):
        name = f"{topic}-{writer}"
        loop_thread.run(kafka.create_topic(name, 7))
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": name}
        frame.write.format(writer).options(**options).mode("append").save()
        places[writer] = {row["key"]: row["partition"] for row in read(spark, OURS, kafka, name)}
    assert len(places[OURS]) == 2_000
    assert places[OURS] == places[JVM]


def test_its_streams_read_and_write_the_dev_broker(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Two runs, of which the second goes on where the first ended."""
    broker.create_topic("in", 2)
    broker.create_topic("out", 2)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "checkpointLocation": str(tmp_path)}
    for run in range(2):
        rows = spark.range(run * 50, run * 50 + 50).selectExpr(
            "cast(id as string) value", "cast(id % 2 as int) partition"
        )
        rows.write.format(OURS).options(**options).option("topic", "in").mode("append").save()
        read = spark.readStream.format(JVM).options(**options)
        frame = read.option("subscribe", "in").option("startingOffsets", "earliest").load().select("key", "value")
        query = (
            frame.writeStream.format(JVM).options(**options).option("topic", "out").trigger(availableNow=True).start()
        )
        assert query.awaitTermination(60)
        assert sorted(int(record.value) for record in broker.records("out")) == list(range(run * 50 + 50))


def test_the_names_of_kafkas_options_are_those_of_its_clients(spark: SparkSession) -> None:
    clients = spark._jvm.org.apache.kafka.clients  # type: ignore[union-attr]
    names = {*clients.consumer.ConsumerConfig.configNames(), *clients.producer.ProducerConfig.configNames()}
    assert len(names) > 100
    assert {name for name in names if not name.startswith("internal.")} <= KAFKA_OPTIONS
