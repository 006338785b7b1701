"""``df.writeStream.format("aiokafkapy")``: micro-batches, checkpoints, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from aiokafkapy import errors
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.spark.data_source import KafkaDataSource
from aiokafkapy.spark.sink.messages import WrittenRows
from aiokafkapy.spark.sink.stream_writer import KafkaStreamWriter
from aiokafkapy.testing import ApacheKafka

from .conftest import Broker
from .lines import Lines, run, values


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> Lines:
    return Lines(spark, tmp_path)


def test_a_stream_goes_on_from_its_checkpoint(
    lines: Lines, kafka: ApacheKafka, broker: Broker, read_back: Any, topic: str
) -> None:
    broker.run(kafka.create_topic(topic, partitions=2))
    lines.add("1", range(50))
    lines.add("2", range(50, 100))
    run(lines.frame(), lines.checkpoint, kafka.bootstrap_servers, topic=topic)
    lines.add("3", range(100, 150))
    run(lines.frame(), lines.checkpoint, kafka.bootstrap_servers, topic=topic)
    found = read_back(kafka.bootstrap_servers, topic)
    assert values([record for records in found.values() for record in records]) == list(range(150))


def test_a_micro_batch_that_failed_is_written_after_a_restart(lines: Lines, broker: Broker) -> None:
    broker.create_topic("t", 2)
    lines.add("1", range(50))
    run(lines.frame(), lines.checkpoint, broker.bootstrap_servers, topic="t")
    lines.add("2", range(50, 100))
    denied = errors.TopicAuthorizationFailedError
    broker.call(lambda dev: dev.controls.fail_next(ApiKey.PRODUCE, denied, topic="t", times=None))
    with pytest.raises(StreamingQueryException, match=r"row 0 of this Spark partition.*TopicAuthorizationFailedError"):
        run(lines.frame(), lines.checkpoint, broker.bootstrap_servers, topic="t")
    assert values(broker.records("t")) == list(range(50))
    broker.call(lambda dev: dev.controls.clear())
    run(lines.frame(), lines.checkpoint, broker.bootstrap_servers, topic="t")
    assert values(broker.records("t")) == list(range(100))


@pytest.mark.parametrize("once", [True, False], ids=["exactly once", "at least once"])
def test_a_committed_micro_batch_that_is_run_again_is_written_once(
    lines: Lines, kafka: ApacheKafka, broker: Broker, read_back: Any, topic: str, once: bool
) -> None:
    """A driver that dies between the sink's commit and the checkpoint's leaves this; without the option, rows come
    twice.
    """
    broker.run(kafka.create_topic(topic, partitions=2))
    options = {"exactlyOnce": "true", "exactlyOnceTopic": f"{topic}-markers"} if once else {}
    lines.add("1", range(50))
    lines.add("2", range(50, 100))
    run(lines.frame(), lines.checkpoint, kafka.bootstrap_servers, topic=topic, **options)
    for path in Path(lines.checkpoint, "commits").glob("*1*"):
        path.unlink()
    lines.add("3", range(100, 150))
    run(lines.frame(), lines.checkpoint, kafka.bootstrap_servers, topic=topic, **options)
    found = read_back(kafka.bootstrap_servers, topic)
    written = values([record for records in found.values() for record in records])
    assert set(written) == set(range(150))
    assert len(written) == (150 if once else 200)


def test_a_batch_with_a_job_s_name_is_written_once(
    spark: SparkSession, kafka: ApacheKafka, broker: Broker, read_back: Any, write: Any, topic: str
) -> None:
    broker.run(kafka.create_topic(topic, partitions=2))
    options = {"topic": topic, "exactlyOnce": "true", "exactlyOnceTopic": f"{topic}-markers", "jobId": "day 7"}
    for _ in range(2):
        write(spark.range(100).selectExpr("cast(id as string) as value"), kafka.bootstrap_servers, **options)
    with pytest.raises(PySparkException, match=r"ExactlyOnceError.*rows are committed; run again, it has"):
        write(spark.range(99).selectExpr("cast(id as string) as value"), kafka.bootstrap_servers, **options)
    found = read_back(kafka.bootstrap_servers, topic)
    assert values([record for records in found.values() for record in records]) == list(range(100))


class ToldWriter(KafkaStreamWriter):
    """Writes the driver's reports into a file."""

    told: Path

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        with self.told.open("a") as file:
            for message in filter(None, messages):
                assert isinstance(message, WrittenRows)
                assert isinstance(message, WriterCommitMessage)
                file.write(
                    f"{batchId} {message.batch_id} {message.rows} {len(message.query_id or '')} "
                    f"{sum(each.count for each in message.ranges.values())} {message.attempt_number}\n"
                )


def test_the_driver_is_told_of_each_micro_batch(
    spark: SparkSession, lines: Lines, broker: Broker, tmp_path: Path
) -> None:
    class Told(KafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "told"

        def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: N802
            planned = ToldWriter.plan(schema, self.options, overwrite=overwrite)
            planned.told = tmp_path / "told"
            return planned

    spark.dataSource.register(Told)
    broker.create_topic("t", 2)
    lines.add("1", range(50))
    lines.add("2", range(50, 70))
    run(lines.frame(), lines.checkpoint, broker.bootstrap_servers, "told", topic="t")
    told = [tuple(map(int, line.split())) for line in (tmp_path / "told").read_text().splitlines()]
    assert [batch_id for batch_id, *_ in told] == [0, 1]
    assert sorted(rows for _, _, rows, *_ in told) == [20, 50]  # files of the same moment come in any order
    for batch_id, of_message, rows, length, counted, attempt in told:
        assert (of_message, length, counted, attempt) == (batch_id, 36, rows, 0)


def test_complete_writes_the_whole_result_each_time_as_the_connector_does(lines: Lines, broker: Broker) -> None:
    counts = lines.frame().groupBy("value").count()
    frame = counts.selectExpr("value key", "cast(count as string) value")
    for name in ("1", "2"):
        lines.add(name, range(3))
        run(frame, lines.checkpoint, broker.bootstrap_servers, mode="complete", topic="t")
    found = [(int(record.key), int(record.value)) for record in broker.records("t")]
    assert sorted(found) == [(n, count) for n in range(3) for count in (1, 2)]


@pytest.fixture
def rates(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 1000).option("numPartitions", 2).load()


def test_a_stream_runs_until_it_is_stopped(rates: DataFrame, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("t", 2)
    frame = rates.selectExpr("cast(value as string) as value", "timestamp", "cast(value % 9 as string) as key")
    writer = frame.writeStream.format("aiokafkapy").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    query = writer.option("topic", "t").option("checkpointLocation", str(tmp_path)).start()
    try:
        while sum(progress["numInputRows"] for progress in query.recentProgress) < 1500:
            query.processAllAvailable()
            assert query.exception() is None
    finally:
        query.stop()
    # Stopped between two micro-batches or in one: reported rows are there, once.
    reported = sum(progress["numInputRows"] for progress in query.recentProgress)
    found = {int(record.value) for record in broker.records("t")}
    assert found >= set(range(reported))
    assert broker.call(lambda dev: dev.metrics())["connections_accepted"] <= 8


def test_a_value_that_makes_no_sense_is_refused(
    spark: SparkSession, rates: DataFrame, broker: Broker, tmp_path: Path
) -> None:
    def refused(frame: DataFrame, mode: str = "append", **options: str) -> str:
        writer = frame.writeStream.format("aiokafkapy").options(**options).outputMode(mode)
        with pytest.raises(PySparkException) as caught:
            query = writer.option("checkpointLocation", str(tmp_path / mode)).start()
            try:
                query.awaitTermination(60)
            finally:
                query.stop()
        return str(caught.value)

    ok = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t"}
    assert "column 'value' is bigint: expected string or binary" in refused(rates, **ok)
