"""Spark for the tests: one session, two slots, and brokers that its tasks can reach.

The session is started when first asked for, and ends with the run, its JVM too. A run from a clone has
no ``pyspark_aiokafkapy`` installed: it is laid out beside, as ``setup.py`` lays it out, and Spark finds it by itself.

Rules: every test here is marked ``java``; without Java they are skipped with the reason, or fail under CI. A test makes
its own topics, and reads back by the broker's own records or by ``PartitionReader``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import DataFrame, SparkSession

from aiokafkapy.broker import DevBroker
from aiokafkapy.common import TopicPartition
from aiokafkapy.reader import PartitionReader
from benchmarks.spark.jvm_connector import connector_jars
from tests.shared import SHARED

from . import jvms

ROOT = Path(__file__).parents[2]

LONGEST_PROGRAM = 800
"""Seconds after which a program hangs: some start a whole Spark twice, minutes where half of a processor is left."""

T = TypeVar("T")

SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "3",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    # In local mode only this master repeats tasks that failed or were too slow.
    "spark.master": "local[2,3]",
    "spark.sql.streaming.stopTimeout": "60s",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.timeout(LONGEST_PROGRAM + 100))
            if "kafka" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def _spark_defaults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings of every Spark of these tests, also of those in programs that they start."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in jvms.environment(tmp_path_factory.mktemp("spark-conf")).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def _java(_spark_defaults: None) -> None:
    if shutil.which("java") is None:
        reason = "NO JAVA: Spark needs it"
        if os.environ.get("AIOKAFKAPY_REQUIRE_KAFKA") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def spark(_java: None, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The session of all these tests, which knows the format ``aiokafkapy`` without being told."""
    return SHARED.enter("spark", lambda: _session(tmp_path_factory.mktemp("spark")))


@contextlib.contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    # Spark's own connector is there too, to be compared with.
    session = start_session(folder, SESSION | {"spark.jars": ",".join(map(str, connector_jars()))})
    try:
        yield session
    finally:
        stop_session(session)


def start_session(folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """A session whose workers import this clone and, as if installed, ``pyspark_aiokafkapy``."""
    registered = folder / "registered" / "pyspark_aiokafkapy"
    registered.mkdir(parents=True)
    shutil.copy(ROOT / "aiokafkapy" / "spark" / "_register" / "__init__.py", registered)
    paths = [str(ROOT), str(registered.parent), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("aiokafkapy-tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.local.dir", str(folder / "local"))
        builder = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def stop_session(session: SparkSession, timeout: float = 60) -> None:
    """Stop it, and wait until its JVM, which outlives a stopped session, has ended."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    assert gateway is not None
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with it
    gateway.proc.wait(timeout)
    SparkContext._gateway = SparkContext._jvm = None


class LoopThread:
    """An event loop beside the test: its coroutines go on while the test waits for Spark."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-broker", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float = 120) -> T:
        """The result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def call(self, function: Callable[[], T]) -> T:
        """The result of a function that must be called on the loop."""

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    """The loop of the asynchronous parts of these tests."""
    thread = LoopThread()
    yield thread
    thread.close()


class Broker:
    """A dev broker as seen from a test that is not asynchronous."""

    def __init__(self, thread: LoopThread, **options: Any) -> None:
        self._thread = thread
        self.loop = thread.loop
        self.dev = DevBroker(**options)
        thread.run(self.dev.start())
        self.bootstrap_servers = self.dev.bootstrap_servers

    def call(self, function: Callable[[DevBroker], T]) -> T:
        """Call a function on the broker's own loop: ``broker.call(lambda dev: dev.controls.clear())``."""
        return self._thread.call(lambda: function(self.dev))

    def create_topic(self, name: str, partitions: int = 1, **options: Any) -> None:
        """Create a topic."""
        self.call(lambda dev: dev.create_topic(name, partitions=partitions, **options))

    def records(self, topic: str, partition: int | None = None) -> list[Any]:
        """The records of a topic."""
        return self.call(lambda dev: dev.records(topic, partition))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on the broker's loop."""
        return self._thread.run(coroutine)

    def close(self) -> None:
        """Stop it."""
        self._thread.run(self.dev.stop())


@pytest.fixture
def broker(loop_thread: LoopThread) -> Iterator[Broker]:
    """A dev broker of one node, empty, for this test alone; topics come into being when they are asked for."""
    started = Broker(loop_thread)
    yield started
    started.close()


@pytest.fixture
def read_back(loop_thread: LoopThread) -> Callable[..., dict[int, list[Any]]]:
    """``read_back(bootstrap_servers, topic, isolation_level=…)``: a topic's records by partition, by
    ``PartitionReader``.
    """

    async def read(bootstrap_servers: str, topic: str, **options: Any) -> dict[int, list[Any]]:
        async with PartitionReader(bootstrap_servers, **options) as reader:
            found: dict[int, list[Any]] = {}
            places = [TopicPartition(topic, info.partition) for info in await reader.partitions_for(topic)]
            ends = await reader.end_offsets(places)
            reader.assign(places)
            for place in places:
                found[place.partition] = []
                reader.seek(place, 0)
                reader.stop_at(place, ends[place])
            while not reader.is_finished:
                for record in await reader.fetch():
                    found[record.partition].append(record)
        return found

    return lambda servers, topic, **options: loop_thread.run(read(servers, topic, **options))


@pytest.fixture
def write() -> Callable[..., None]:
    """``write(frame, servers, topic=…, **options)``: ``df.write``, as a user writes it."""

    def written(frame: DataFrame, bootstrap_servers: str, **options: str) -> None:
        frame.write.format("aiokafkapy").option("kafka.bootstrap.servers", bootstrap_servers).options(**options).mode(
            "append"
        ).save()

    return written
