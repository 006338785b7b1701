"""A stream from Kafka to Kafka goes through a crash of a broker, of a Python worker and of the driver: no row is lost.

Each time the crash comes in the middle of the second of three micro-batches, when a task has sent rows and has more of
them. How many rows were written twice is reported with the test, as a property and in its log. The driver that is
killed runs a second query, with ``exactlyOnce``, which writes none twice; other crashes of such a query are in
``test_exactly_once_faults``.

Rule: first appearances keep their order in a partition, since a task reads its partition in order, sends it in order,
and a batch that is done again begins at or before the first row that is not there yet.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aiokafkapy.testing import ApacheKafka

from .conftest import LoopThread
from .pipeline_program import IN_ARROW_BATCH, IN_MICRO_BATCH, IN_TASK, PARTITIONS, PATIENCE, ROWS
from .pipelines import Pipeline, driver, running

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def pipeline(kafka3: ApacheKafka, loop_thread: LoopThread, read_back: Any, topic: str, tmp_path: Path) -> Pipeline:
    made = Pipeline(kafka3, loop_thread, read_back, topic, tmp_path / "pipeline", once=False)
    made.fill()
    made.make_sink()
    return made


@pytest.fixture
def once(pipeline: Pipeline, loop_thread: LoopThread, read_back: Any, topic: str, tmp_path: Path) -> Pipeline:
    """The same with ``exactlyOnce``, from the same source to another topic."""
    made = Pipeline(pipeline.kafka, loop_thread, read_back, topic, tmp_path / "once", once=True)
    made.make_sink()
    return made


@pytest.fixture
def report(record_property: Callable[[str, object], None], request: pytest.FixtureRequest) -> Callable[[int], None]:
    """Tell how many rows were repeated."""

    def told(repeated: int) -> None:
        record_property("repeated rows", repeated)
        line = f"{request.node.name}: {repeated} of {PARTITIONS * ROWS} rows are in the sink a second time"
        logging.getLogger(__name__).info(line)
        print(line)

    return told


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
    pipeline: Pipeline, once: Pipeline, report: Callable[[int], None]
) -> None:
    both = (pipeline, once)
    with driver(*both) as process:
        for each in both:
            each.wait_until_halted()
        assert process.poll() is None
    for each in both:
        each.signals.go_on()
        assert each.micro_batches() == 1, "the checkpoint is not that of a second micro-batch"
    with driver(*both) as process:
        assert process.wait(2 * PATIENCE) == 0, (pipeline.folder / "console").read_text()[-3000:]
    repeated = pipeline.judge()
    report(repeated)
    # One task had not sent its last rows, and the micro-batch is repeated as a whole.
    assert 0 < repeated <= IN_MICRO_BATCH - IN_ARROW_BATCH
    assert once.judge() == 0
    # The open transaction's rows are there, and never seen; the tasks that had committed wrote nothing again.
    aborted = sum(map(len, once.written().values())) - PARTITIONS * ROWS
    assert 0 < aborted < IN_TASK
