"""A pipeline of ``pipeline_program`` on three real nodes, as the tests of crashes see it: ``Pipeline``.

Owns the topics of one query, their records, and runs a query in the session of all tests or in a driver of its own. The
kills, and their times, are the tests'.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from aiokafkapy import KafkaProducer
from aiokafkapy.testing import ApacheKafka
from aiokafkapy.testing.servers.watchdog import Watchdog

from .conftest import ROOT, LoopThread
from .pipeline_program import (
    IN_MICRO_BATCH,
    IN_TASK,
    PARTITIONS,
    PATIENCE,
    ROWS,
    Signals,
    once_options,
    start_pipeline,
)

__all__ = ["Pipeline", "driver", "running", "wait_until"]

SIZE = 1_000
"""Bytes of a value: an Arrow batch is more than stays in a buffer between Spark and its workers."""
MARK = "AIOKAFKAPY_TEST_PIPELINE"
"""The mark in the environment of every process of a driver that is killed, so that they can be found."""


class Pipeline:
    """The two topics, their records, and the signals of the task that halts; ``once``: with ``exactlyOnce``."""

    def __init__(
        self, kafka: ApacheKafka, loop_thread: LoopThread, read_back: Any, topic: str, folder: Path, *, once: bool
    ) -> None:
        self.kafka = kafka
        self.folder = folder
        self.source, self.sink = f"{topic}-source", f"{topic}-sink{'-once' if once else ''}"
        self.signals = Signals(folder)
        self._options = once_options(self.sink) if once else {}
        self._isolation = "read_committed" if once else "read_uncommitted"
        self._loop_thread = loop_thread
        self._read_back = read_back
        folder.mkdir(exist_ok=True)

    def fill(self) -> None:
        """Make the topic to read, and write its rows."""
        self._loop_thread.run(self._fill())

    def make_sink(self) -> None:
        """Make the topic to write."""
        self._loop_thread.run(self._make(self.sink))

    async def _make(self, topic: str) -> None:
        await self.kafka.create_topic(topic, PARTITIONS, config={"min.insync.replicas": 2})

    async def _fill(self) -> None:
        await self._make(self.source)
        async with KafkaProducer(self.kafka.bootstrap_servers) as producer:
            for number in range(ROWS):
                value = str(number).zfill(SIZE).encode()
                deliveries = [await producer.enqueue(self.source, value, partition=p) for p in range(PARTITIONS)]
            await asyncio.gather(*deliveries)

    def start(self, session: SparkSession) -> Any:
        """The query, in this process's session."""
        servers = self.kafka.bootstrap_servers
        return start_pipeline(session, servers, self.source, self.sink, self.folder, **self._options)

    def written(self, isolation: str = "read_uncommitted") -> dict[int, list[int]]:
        """The numbers in the sink, by partition."""
        found = self._read_back(self.kafka.bootstrap_servers, self.sink, isolation_level=isolation)
        return {partition: [int(record.value) for record in records] for partition, records in found.items()}

    def wait_until_halted(self) -> int:
        """The worker's id, when some of its rows are in the sink: one micro-batch and two tasks are less than that."""
        worker = self.signals.wait_until_halted()
        wait_until(lambda: self._count() > IN_MICRO_BATCH + (PARTITIONS - 1) * IN_TASK, "no row of the task came")
        return worker

    def kill_the_leader(self) -> int:
        """Kill the node that leads the partition which the halted task writes: the one that has the fewest rows."""
        written = self.written()
        return self._kill_leader(self.sink, min(written, key=lambda number: len(written[number])))

    def kill_the_coordinator(self) -> int:
        """Kill the node that coordinates all transactions, with those partitions that it leads."""
        return self._kill_leader("__transaction_state", 0)

    def _kill_leader(self, topic: str, partition: int) -> int:
        victim = self._loop_thread.run(self.kafka.leader_of(topic, partition))
        self.kafka.kill(victim)
        return victim

    def micro_batches(self) -> int:
        """The number of micro-batches that are committed by the checkpoint."""
        return len(list((self.folder / "checkpoint" / "commits").glob("[0-9]*")))

    def judge(self) -> int:
        """Every row is there, first appearances in order; returns how many are there once more."""
        written = self.written(self._isolation)
        for partition, numbers in written.items():
            assert list(dict.fromkeys(numbers)) == list(range(ROWS)), (
                f"partition {partition}: a row is lost, or too late"
            )
        return sum(map(len, written.values())) - PARTITIONS * ROWS

    def _count(self) -> int:
        return sum(map(len, self.written().values()))


@contextmanager
def running(session: SparkSession, pipeline: Pipeline) -> Iterator[Any]:
    """The query in the session of all tests, which leaves nothing behind."""
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
    """Look until it holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"after {PATIENCE} s: {what}"
        time.sleep(0.05)


@contextmanager
def driver(pipeline: Pipeline, once: Pipeline) -> Iterator[subprocess.Popen[bytes]]:
    """The program as a process group of its own, killed with -9 at the end if it still runs, its JVM too."""
    mark = f"{MARK}={pipeline.sink}"
    arguments = [pipeline.kafka.bootstrap_servers, pipeline.source]
    arguments += [pipeline.sink, str(pipeline.folder), once.sink, str(once.folder)]
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
    """The processes that have this in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found
