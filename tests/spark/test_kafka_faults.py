"""A leader of three real nodes is killed in the middle of a write and of a read: no row is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from aiokafkapy.testing import ApacheKafka

from .conftest import LoopThread

ROWS = 60_000
SIZE = 1_000
"""Bytes of a value: sixty megabytes are more than a source fetches ahead of Spark."""
LONGEST_WAIT = 120


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while not path.exists():
        assert time.monotonic() < deadline, f"there is no {path.name} after {LONGEST_WAIT} s"
        time.sleep(0.01)


def interrupted(frame: DataFrame, folder: Path) -> DataFrame:
    """The same rows; the first task says when it has handed out its first batch, and goes on when a node is dead."""
    reached, killed = folder / "reached", folder / "killed"

    def stop_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if not killed.exists():
                reached.touch()
                wait_for(killed)

    folder.mkdir()
    return frame.mapInArrow(stop_once, frame.schema)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_leader_that_is_killed_costs_no_row(
    spark: SparkSession, kafka3: ApacheKafka, loop_thread: LoopThread, topic: str, tmp_path: Path
) -> None:
    loop_thread.run(kafka3.create_topic(topic, 1, config={"min.insync.replicas": 2}))
    options = {"kafka.bootstrap.servers": kafka3.bootstrap_servers}

    def with_a_dead_leader(name: str, frame: DataFrame, act: Callable[[DataFrame], Any]) -> Any:
        folder = tmp_path / name

        def kill() -> None:
            wait_for(folder / "reached")
            kafka3.kill(loop_thread.run(kafka3.leader_of(topic)))
            (folder / "killed").touch()

        changed = interrupted(frame, folder)
        with ThreadPoolExecutor(1) as thread:
            killing = thread.submit(kill)
            found = act(changed)
            killing.result(LONGEST_WAIT)
        kafka3.restore_blocking()
        return found

    def write(frame: DataFrame) -> None:
        frame.write.format("aiokafkapy").options(**options, topic=topic).mode("append").save()

    def numbers(frame: DataFrame) -> list[int]:
        return sorted(row[0] for row in frame.selectExpr("cast(cast(value as string) as int)").collect())

    rows = spark.range(0, ROWS, 1, 1).selectExpr(f"lpad(cast(id as string), {SIZE}, '0') as value")
    with_a_dead_leader("write", rows, write)
    stored = spark.read.format("aiokafkapy").options(**options, subscribe=topic).load().select("value")
    # Once, too: no task had to be tried again, and the producer is idempotent.
    assert with_a_dead_leader("read", stored, numbers) == list(range(ROWS))
