"""A stream from Kafka to Kafka goes through a crash of a broker, of a Python worker and of the driver: no row is lost.

Each time the crash comes in the middle of the second of three micro-batches, when a task has sent rows and has more of
them. How many rows were written twice is reported with the test, as a property and in its log.

Rule: first appearances keep their order in a partition, since a task reads its partition in order, sends it in order,
and what is done again begins at or before the first row that is not there yet.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aiokafkapy import KafkaProducer
from aiokafkapy.testing import ApacheKafka
from aiokafkapy.testing.watchdog import Watchdog

from .conftest import ROOT, LoopThread
from .pipeline_program import (
    IN_ARROW_BATCH,
    IN_MICRO_BATCH,
    IN_TASK,
    PARTITIONS,
    PATIENCE,
    ROWS,
    Signals,
    start_pipeline,
)

SIZE = 1_000
"""Bytes of a value: an Arrow batch is more than what stays in a buffer between Spark and its workers."""
MARK = "AIOKAFKAPY_TEST_PIPELINE"
"""In the environment of every process of a driver that is killed, so that they can be found."""

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


class Pipeline:
    """The two topics, what is in them, and the signals of the task that halts."""

    def __init__(self, kafka: ApacheKafka, loop_thread: LoopThread, read_back: Any, topic: str, folder: Path) -> None:
        self.kafka = kafka
        self.folder = folder
        self.source, self.sink = f"{topic}-source", f"{topic}-sink"
        self.signals = Signals(folder)
        self._loop_thread = loop_thread
        self._read_back = read_back
        loop_thread.run(self._fill())

    async def _fill(self) -> None:
        for name in (self.source, self.sink):
            await self.kafka.create_topic(name, PARTITIONS, config={"min.insync.replicas": 2})
        async with KafkaProducer(self.kafka.bootstrap_servers) as producer:
            for number in range(ROWS):
                value = str(number).zfill(SIZE).encode()
                deliveries = [await producer.enqueue(self.source, value, partition=p) for p in range(PARTITIONS)]
            await asyncio.gather(*deliveries)

    def start(self, session: SparkSession) -> Any:
        """The query, in this process's session."""
        return start_pipeline(session, self.kafka.bootstrap_servers, self.source, self.sink, self.folder)

    def written(self) -> dict[int, list[int]]:
        """The numbers in the sink, by partition."""
        found = self._read_back(self.kafka.bootstrap_servers, self.sink)
        return {partition: [int(record.value) for record in records] for partition, records in found.items()}

    def wait_until_halted(self) -> int:
        """The worker's id, when some of its rows are in the sink: one micro-batch and two tasks are less than that."""
        worker = self.signals.wait_until_halted()
        wait_until(lambda: self._count() > IN_MICRO_BATCH + (PARTITIONS - 1) * IN_TASK, "no row of the task came")
        return worker

    def kill_the_leader(self) -> int:
        """Kill the node that leads the partition which the halted task writes: the one that has the fewest rows."""
        written = self.written()
        partition = min(written, key=lambda number: len(written[number]))
        victim = self._loop_thread.run(self.kafka.leader_of(self.sink, partition))
        self.kafka.kill(victim)
        return victim

    def judge(self) -> int:
        """Every row is there, first appearances in order; returns how many are there once more."""
        written = self.written()
        for partition, numbers in written.items():
            assert list(dict.fromkeys(numbers)) == list(range(ROWS)), (
                f"partition {partition}: a row is lost, or too late"
            )
        return sum(map(len, written.values())) - PARTITIONS * ROWS

    def _count(self) -> int:
        return sum(map(len, self.written().values()))


@pytest.fixture
def pipeline(kafka3: ApacheKafka, loop_thread: LoopThread, read_back: Any, topic: str, tmp_path: Path) -> Pipeline:
    return Pipeline(kafka3, loop_thread, read_back, topic, tmp_path)


@pytest.fixture
def report(record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Tell how many rows were repeated."""

    def told(repeated: int) -> None:
        record_property("repeated rows", repeated)
        line = f"{request.node.name}: {repeated} of {PARTITIONS * ROWS} rows are in the sink a second time"
        logging.getLogger(__name__).info(line)
        print(line)

    return told


@contextmanager
def running(session: SparkSession, pipeline: Pipeline) -> Iterator[Any]:
    """The query in the session of all tests, of which nothing is left afterwards."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = str(session.conf.get(name))
    query = pipeline.start(session)
    try:
        yield query
    finally:
        pipeline.signals.go_on()
        query.stop()
        session.conf.set(name, before)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"after {PATIENCE} s: {what}"
        time.sleep(0.05)


def test_a_broker_that_is_killed_in_mid_stream_costs_no_row(
    spark: SparkSession, pipeline: Pipeline, report: Callable[[int], None]
) -> None:
    with running(spark, pipeline) as query:
        pipeline.wait_until_halted()
        victim = pipeline.kill_the_leader()
        pipeline.signals.go_on()
        assert query.awaitTermination(PATIENCE)
        assert victim not in pipeline.kafka.running
    repeated = pipeline.judge()
    report(repeated)
    # No task had to be tried again, and the producer is idempotent.
    assert repeated == 0


def test_a_worker_that_is_killed_in_mid_stream_costs_no_row(
    spark: SparkSession, pipeline: Pipeline, report: Callable[[int], None]
) -> None:
    with running(spark, pipeline) as query:
        os.kill(pipeline.wait_until_halted(), signal.SIGKILL)
        pipeline.signals.go_on()
        assert query.awaitTermination(PATIENCE)
    repeated = pipeline.judge()
    report(repeated)
    # Its task is done again, and no other.
    assert 0 < repeated <= 2 * IN_ARROW_BATCH


@pytest.mark.usefixtures("_java")
def test_a_driver_that_is_killed_in_mid_stream_goes_on_from_its_checkpoint_and_costs_no_row(
    pipeline: Pipeline, report: Callable[[int], None]
) -> None:
    with driver(pipeline) as process:
        pipeline.wait_until_halted()
        assert process.poll() is None
    pipeline.signals.go_on()
    before = len(list((pipeline.folder / "checkpoint" / "commits").glob("[0-9]*")))
    assert before == 1, "the checkpoint is not that of a second micro-batch"
    with driver(pipeline) as process:
        assert process.wait(2 * PATIENCE) == 0, (pipeline.folder / "console").read_text()[-3000:]
    repeated = pipeline.judge()
    report(repeated)
    # The micro-batch is done again as a whole, of which one task had not sent its last rows.
    assert 0 < repeated <= IN_MICRO_BATCH - IN_ARROW_BATCH


@contextmanager
def driver(pipeline: Pipeline) -> Iterator[subprocess.Popen[bytes]]:
    """The program as a process group of its own, killed with -9 at the end if it still runs, its JVM too."""
    mark = f"{MARK}={pipeline.sink}"
    arguments = [pipeline.kafka.bootstrap_servers, pipeline.source, pipeline.sink, str(pipeline.folder)]
    with closing(Watchdog()) as watchdog, (pipeline.folder / "console").open("ab") as console:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.pipeline_program", *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), MARK: pipeline.sink},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
        watchdog.guard(process.pid)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE)
            watchdog.release(process.pid)
            # Spark's Python workers are in groups of their own, and end when they see that the driver is gone.
            wait_until(lambda: not processes_with(mark), f"processes of the driver are left: {processes_with(mark)}")


def processes_with(mark: str) -> list[int]:
    """The processes in whose environment this stands."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
