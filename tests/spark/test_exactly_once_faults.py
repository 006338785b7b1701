"""A stream with ``exactlyOnce`` goes through crashes: readers with ``read_committed`` see each row once, counted.

Held here: a Python worker killed at each step of a write, a task that fails and is tried again, a query that is stopped
in the middle of a micro-batch, and a node of Kafka that is killed. Elsewhere, because they share something expensive: a
driver that is killed with its JVM (``test_stream_faults``), speculation (``test_write``), and a committed micro-batch
that is run again (``test_write_stream``). A task's side of it without Spark is in ``tests/kafka``.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import ApacheKafka

from .conftest import Broker, LoopThread
from .killed_attempts import ASKED, STEPS, killed_source
from .lines import Lines, run, start
from .pipeline_program import IN_MICRO_BATCH, PATIENCE, Signals, halting_source
from .pipelines import Pipeline, running, wait_until

IN_FILE = 100

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> Lines:
    return Lines(spark, tmp_path)


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[int]:
    """Rows of an Arrow batch: a file is several of them."""
    name, rows = "spark.sql.execution.arrow.maxRecordsPerBatch", 10
    before = str(spark.conf.get(name))
    spark.conf.set(name, rows)
    yield rows
    spark.conf.set(name, before)


@pytest.fixture
def once(
    kafka3: ApacheKafka, spark: SparkSession, loop_thread: LoopThread, read_back: Any, topic: str, tmp_path: Path
) -> Pipeline:
    made = Pipeline(kafka3, loop_thread, read_back, topic, tmp_path / "once", once=True)
    made.fill()
    made.make_sink()
    return made


def in_two(lines: Lines) -> DataFrame:
    """The lines in two Spark partitions, which they keep when they are written again."""
    return lines.frame().repartition(2, "value")


def committed(read_back: Any, broker: Broker, topic: str = "t") -> Counter[int]:
    """The number of times that a reader with ``read_committed`` sees each line."""
    found = read_back(broker.bootstrap_servers, topic, isolation_level="read_committed")
    return Counter(int(record.value) for records in found.values() for record in records)


def each_once(count: int) -> Counter[int]:
    return Counter(range(count))


def test_a_worker_that_is_killed_at_any_step_writes_each_row_once(
    spark: SparkSession, lines: Lines, broker: Broker, read_back: Any, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    told.mkdir()

    def kill(_: object, request: Any) -> None:
        """The task that asks dies before it is answered; the broker commits."""
        is_of_partition_0 = request.transactional_id.endswith("-0")
        if is_of_partition_0 and (asked := told / ASKED).exists() and not (told / "killed").exists():
            os.kill(int(asked.read_text()), signal.SIGKILL)
            (told / "killed").touch()

    broker.create_topic("t", 2)
    broker.call(lambda dev: dev.controls.on_request(ApiKey.END_TXN, kill))
    spark.dataSource.register(killed_source(told))
    for number in range(len(STEPS)):
        lines.add(str(number), range(number * IN_FILE, (number + 1) * IN_FILE))
    run(in_two(lines), lines.checkpoint, broker.bootstrap_servers, "killed", topic="t", exactlyOnce="true")
    assert {path.name for path in told.iterdir() if path.name != "killed"} == set(STEPS)
    assert (told / "killed").exists()
    assert committed(read_back, broker) == each_once(len(STEPS) * IN_FILE)
    # Three attempts ended between their rows and their commit: those rows are there, and never seen.
    again = Counter(int(record.value) for record in broker.records("t")) - each_once(len(STEPS) * IN_FILE)
    assert set(again.values()) == {1}
    assert len({number // IN_FILE for number in again}) in (2, 3), "an exception may come before its rows were sent"


def test_a_query_that_is_stopped_in_mid_batch_writes_each_row_once(
    spark: SparkSession, lines: Lines, broker: Broker, read_back: Any, small_batches: int, tmp_path: Path
) -> None:
    folder = tmp_path / "signals"
    folder.mkdir()
    signals, source = Signals(folder), halting_source(folder)
    spark.dataSource.register(source)
    broker.create_topic("t", 2)
    options = {"topic": "t", "exactlyOnce": "true"}
    for number in range(3):
        lines.add(str(number), range(number * IN_FILE, (number + 1) * IN_FILE))
    query = start(in_two(lines), lines.checkpoint, broker.bootstrap_servers, source.name(), **options)
    try:
        worker = signals.wait_until_halted()
        wait_until(lambda: len(broker.records("t")) > IN_FILE + small_batches, "no row of the task came")
    finally:
        query.stop()
    assert query.exception() is None
    seen = committed(read_back, broker)
    assert set(seen.values()) == {1}
    assert len(seen) < 2 * IN_FILE, "a transaction was open"
    run(in_two(lines), lines.checkpoint, broker.bootstrap_servers, source.name(), **options)
    assert committed(read_back, broker) == each_once(3 * IN_FILE)
    # The worker that halted, if Spark has not ended it yet, goes on with the rows that it has.
    signals.go_on()
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the worker of a stopped query lives on")
    assert committed(read_back, broker) == each_once(3 * IN_FILE)


def test_a_node_that_is_killed_in_mid_stream_writes_each_row_once(spark: SparkSession, once: Pipeline) -> None:
    """The node coordinates the transaction that is open, and leads a partition of the rows."""
    with running(spark, once) as query:
        once.wait_until_halted()
        victim = once.kill_the_coordinator()
        assert sum(map(len, once.written("read_committed").values())) < IN_MICRO_BATCH + IN_MICRO_BATCH
        once.signals.go_on()
        assert query.awaitTermination(PATIENCE)
        assert victim not in once.kafka.running
    assert once.judge() == 0
