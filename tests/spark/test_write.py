"""``df.write.format("aiokafkapy")``: the records in the topics, and the rows and options that are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.murmur2 import partition_for_key
from aiokafkapy.spark.data_source import KafkaDataSource
from aiokafkapy.spark.sink.messages import WrittenRows
from aiokafkapy.spark.sink.writer import KafkaWriter
from aiokafkapy.testing import ApacheKafka

from .conftest import LONGEST_PROGRAM, ROOT, Broker

Write = Callable[..., None]
ReadBack = Callable[[str, str], dict[int, list[Any]]]

HEADERS = "array<struct<key: string, value: binary>>"
WHEN = datetime(2026, 5, 4, 3, 2, 1, 234000, tzinfo=UTC)
MILLISECONDS = int(WHEN.timestamp() * 1000)
ROWS: list[tuple[Any, ...]] = [
    (b"k1", "all parts", "{topic}", 2, [("a", b"1"), ("a", None), ("b", b"")], WHEN),
    (b"", "", "{topic}", 0, [], WHEN),
    (None, None, "{topic}", 1, None, WHEN),
    (b"k2", "chosen by its key", "{topic}", None, None, None),
]


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as value")


def values(records: list[Any]) -> list[int]:
    return sorted(int(record.value) for record in records)


def test_every_part_of_a_record_is_read_back(
    spark: SparkSession, kafka: ApacheKafka, broker: Broker, write: Write, read_back: ReadBack, topic: str
) -> None:
    for servers in (kafka.bootstrap_servers, broker.bootstrap_servers):
        write(numbers(spark, 1), servers, topic=f"{topic}-other")  # and so both make topics when they are asked for
    broker.create_topic(topic, 4)
    broker.run(kafka.create_topic(topic, partitions=4))
    rows = [(*row[:2], row[2].format(topic=topic), *row[3:]) for row in ROWS]
    columns = f"key binary, value string, topic string, partition int, headers {HEADERS}, timestamp timestamp, id int"
    frame = spark.createDataFrame([(*row, number) for number, row in enumerate(rows)], columns).coalesce(1)
    begun = datetime.now(UTC).timestamp() * 1000
    for servers in (kafka.bootstrap_servers, broker.bootstrap_servers):
        write(frame, servers)
        found = read_back(servers, topic)
        by_key = partition_for_key(b"k2", 4)
        for number, (key, value, _, partition, headers, when) in enumerate(rows):
            encoded = None if value is None else value.encode()
            (record,) = [each for each in found[by_key if partition is None else partition] if each.value == encoded]
            assert record.key == key, number
            assert list(record.headers) == (headers or [])
            if when is None:
                assert begun - 1000 <= record.timestamp_ms <= begun + 600_000
            else:
                assert record.timestamp_ms == MILLISECONDS
        assert sum(map(len, found.values())) == len(rows)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_choose_the_partition_under_each_codec(
    spark: SparkSession, kafka: ApacheKafka, broker: Broker, write: Write, read_back: ReadBack, topic: str, codec: str
) -> None:
    broker.run(kafka.create_topic(topic, partitions=5))
    frame = spark.range(0, 3000, 1, 2).selectExpr(
        "cast(id % 300 as string) as key", "cast(cast(id as string) as binary) as value", "'nowhere' as topic"
    )
    options = {"kafka.compression.type": codec, "topic": topic, "includeHeaders": "true"}
    write(frame, kafka.bootstrap_servers, **options)
    found = read_back(kafka.bootstrap_servers, topic)
    assert values([record for records in found.values() for record in records]) == list(range(3000))
    for partition, records in found.items():
        for record in records:
            assert int(record.key) == int(record.value) % 300
            assert partition_for_key(record.key, 5) == partition


def test_rows_keep_the_order_that_they_have_in_a_partition_of_spark(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    broker.create_topic("t", 3)
    frame = spark.range(0, 45_000, 1, 1).selectExpr("cast(id % 7 as string) key", "cast(id as string) value")
    write(frame, broker.bootstrap_servers, topic="t", **{"kafka.batch.size": "2000"})
    assert values(broker.records("t")) == list(range(45_000))
    for partition in range(3):
        found = [int(record.value) for record in broker.records("t", partition)]
        assert found == sorted(found)


def test_without_rows_nothing_is_opened_and_a_second_job_opens_nothing_new(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    def accepted() -> float:
        return broker.call(lambda dev: dev.metrics())["connections_accepted"]

    broker.create_topic("t", 2)
    write(numbers(spark, 0), broker.bootstrap_servers, topic="t")
    assert accepted() == 0
    write(numbers(spark, 10, 1), broker.bootstrap_servers, topic="t")
    of_one_job = accepted()
    for _ in range(4):
        write(numbers(spark, 10, 1), broker.bootstrap_servers, topic="t")
    # There is one process for each of two slots.
    assert 0 < accepted() <= 2 * of_one_job
    assert len(broker.records("t")) == 50


def refused(frame: DataFrame, mode: str | None, **options: str) -> str:
    writer = frame.write.format("aiokafkapy").options(**options)
    with pytest.raises(PySparkException) as caught:
        (writer if mode is None else writer.mode(mode)).save()
    return str(caught.value)


def test_a_value_that_makes_no_sense_is_refused_before_a_task_runs(spark: SparkSession, broker: Broker) -> None:
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    ok = servers | {"topic": "t"}
    frame = numbers(spark, 3)
    assert "expected 'append': records in Kafka cannot be overwritten" in refused(frame, "overwrite", **ok)
    assert "UNSUPPORTED_DATA_SOURCE_SAVE_MODE" in refused(frame, None, **ok)  # Spark's own words
    assert "no topic: expected the option 'topic', or a column 'topic'" in refused(frame, "append", **servers)
    assert "'kafka.bootstrap.servers' is missing: expected" in refused(frame, "append", topic="t")
    assert "did you mean 'topic'?" in refused(frame, "append", **servers, topics="t")
    assert "did you mean kafka.linger.ms?" in refused(frame, "append", **ok, **{"kafka.lingerms": "5"})
    secured = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    assert "sasl_username is missing" in refused(frame, "append", **ok, **secured)
    wrong = {
        "id": "no column 'value'",
        "id as value": "column 'value' is bigint: expected string or binary",
        "'x' as value, id as partition": "column 'partition' is bigint: expected int",
        "'x' as value, map('a', binary('b')) as headers": "column 'headers' is map<string,binary>: expected array<str",
    }
    for expressions, sentence in wrong.items():
        assert sentence in refused(spark.sql(f"select {expressions} from range(2)"), "append", **ok)
    assert broker.call(lambda dev: dev.metrics())["connections_accepted"] == 0


def test_a_row_that_cannot_be_written_fails_the_job_and_is_shown(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    broker.create_topic("t", 2)
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    wrong = {
        "if(id = 1, null, 't') as topic, 'v' as value": "column 'topic' is null or empty",
        "'t' as topic, 'v' as value, int(id + 1) as partition": "column 'partition' is 2: topic 't' has partitions 0",
        "'t' as topic, repeat('v', 2000000) as value": "RecordTooLargeError",
    }
    for expressions, sentence in wrong.items():
        told = refused(spark.sql(f"select {expressions} from range(0, 2, 1, 1)"), "append", **servers)
        assert sentence in told
        assert f"the row has value '{'v' * 80 if 'repeat' in expressions else 'v'}'" in told
        assert "Spark partition, for topic" in told
    write(numbers(spark, 10), broker.bootstrap_servers, topic="t")
    found = [record.value for record in broker.records("t") if record.value != b"v"]
    assert sorted(map(int, found)) == list(range(10))


class TornWriter(KafkaWriter):
    """Ends its process, in the first attempt, when some rows have been sent; and tells so in a file."""

    told: Path

    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        def torn() -> Iterator[Any]:
            for number, batch in enumerate(iterator):
                yield batch
                context = TaskContext.get()
                if number == 2 and context is not None and context.attemptNumber() == 0:
                    self.told.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        return super().write(torn())


def test_a_worker_that_is_killed_loses_no_row(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    class Torn(KafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "torn"

        def writer(self, schema: StructType, overwrite: bool) -> KafkaWriter:
            planned = TornWriter.plan(schema, self.options, overwrite=overwrite)
            planned.told = tmp_path / "killed"
            return planned

    broker.create_topic("t", 2)
    spark.dataSource.register(Torn)
    writer = numbers(spark, 80_000).write.format("torn").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer.option("topic", "t").mode("append").save()
    assert (tmp_path / "killed").exists()
    assert sorted({int(record.value) for record in broker.records("t")}) == list(range(80_000))


def test_a_broker_that_goes_and_comes_back_in_mid_job_loses_no_row(
    spark: SparkSession, broker: Broker, write: Write
) -> None:
    broker.create_topic("t", 2)
    seen = 0

    def restarted(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 5:
            broker.dev.controls.stop_node(1)
            broker.loop.call_later(0.5, broker.dev.controls.start_node, 1)

    broker.call(lambda dev: dev.controls.on_request(ApiKey.PRODUCE, restarted))
    write(numbers(spark, 60_000), broker.bootstrap_servers, topic="t", **{"kafka.batch.size": "10000"})
    assert seen > 5
    assert values(broker.records("t")) == list(range(60_000))


@pytest.mark.usefixtures("_java")
@pytest.mark.skipif(sys.platform != "linux", reason="needs two addresses of this machine")
def test_a_task_that_is_run_twice_at_once_loses_no_row(broker: Broker, read_back: Any, tmp_path: Path) -> None:
    """Nor, with ``exactlyOnce``, does a reader with ``read_committed`` see one twice."""
    for name in ("t", "t-once"):
        broker.create_topic(name, 2)
    arguments = [broker.bootstrap_servers, "t", "60000", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.speculation_program", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONGEST_PROGRAM,
        check=False,
    )
    for name in ("batch", "stream"):
        assert f"attempts of the {name}: 2" in done.stdout, done.stdout + done.stderr
    assert sorted({int(record.value) for record in broker.records("t")}) == list(range(60_000))
    seen = read_back(broker.bootstrap_servers, "t-once", isolation_level="read_committed")
    assert values([record for records in seen.values() for record in records]) == list(range(60_000))


def test_a_job_that_is_cancelled_leaves_nothing_to_the_next(spark: SparkSession, broker: Broker, write: Write) -> None:
    broker.create_topic("t", 2)
    write(numbers(spark, 2), broker.bootstrap_servers, topic="t")
    asked = threading.Event()
    broker.call(lambda dev: dev.controls.delay(ApiKey.PRODUCE, 3600))
    broker.call(lambda dev: dev.controls.on_request(ApiKey.PRODUCE, lambda *_: asked.set()))

    def cancel() -> None:
        if asked.wait(60):
            spark.sparkContext.cancelAllJobs()

    # In a thread beside the write: Spark finds a data source that was not registered by hand only on a thread with an
    # active session.
    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Exception, match=r"(?i)cancelled"):
        write(numbers(spark, 50_000), broker.bootstrap_servers, topic="t")
    thread.join()
    broker.call(lambda dev: dev.controls.clear())
    marked = numbers(spark, 30_000).selectExpr("concat('x', value) as value")
    write(marked, broker.bootstrap_servers, topic="t")
    found = [record.value.decode() for record in broker.records("t")]
    assert sorted(value for value in found if value.startswith("x")) == sorted(f"x{number}" for number in range(30_000))
