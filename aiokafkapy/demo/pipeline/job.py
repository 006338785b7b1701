"""The Spark program: the flights' topic in, four results out, to Kafka and to Parquet, and both read back.

Owns the Spark session and the order of its work; the results are in ``results``. Runs as a separate process, ``python
-m aiokafkapy.demo.pipeline.job JOB_JSON FD``, and writes its events to that file descriptor, one JSON object per line:
``step`` when one begins, ``progress`` with its rows so far, and in the end ``done`` with the ``Outcome``, or
``failed`` with the reason.

Rules:

- the batch results are written by the batch sink; the rolling one is a stream to the streaming sink, and a second
  stream takes it from its topic to Parquet;
- results are read back, as committed, from the ends of their topics before the run: a topic may have existed;
- every sink has ``exactlyOnce``: a repeated task writes no row twice. A row that still occurs twice is counted, and
  fails a check.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ...spark.shipping import shipping_conf
from .results import (
    BATCH_RESULTS,
    RESULTS,
    ROLLING,
    Result,
    from_records,
    parse_flights,
    rolling,
    summary,
    to_records,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

    Writer = TypeVar("Writer", DataFrameWriter, DataStreamWriter)

T = TypeVar("T")

__all__ = ["FORMAT", "Job", "Outcome", "follow", "run_job", "tried_again"]

FORMAT: Final = "aiokafkapy"
FLIGHTS_A_TRIGGER: Final = 100_000
REASON_LINES: Final = 30
TRIES: Final = 3
NO_WORKER: Final = "Python worker failed to connect back"
"""A text in Spark's error (PythonWorkerFactory.createSimpleWorker)."""
MARKERS: Final = "batches"
"""The topic of the sinks' markers, beside that of the flights."""
TRANSACTION_TIMEOUT_MS: Final = 60_000
"""Short, since results are small and a transaction that a killed run left open hides the next one's from readers for
so long.
"""

Tell = Callable[[dict[str, object]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The work to do. ``starting_offsets`` is Spark's JSON, or earliest; ``result_offsets``, in the same form, are the
    ends of the results' topics before the run.
    """

    bootstrap_servers: str
    topic: str
    out: str
    master: str
    starting_offsets: str
    result_offsets: dict[str, str]
    conf: dict[str, str]
    """Settings of Spark, over ours."""


@dataclass(slots=True)
class Outcome:
    """The report of the job; times are seconds."""

    spark_version: str = ""
    master: str = ""
    flights: int = 0
    distinct_flights: int = 0
    repeated: dict[str, int] = field(default_factory=dict)
    """Repeated records in a result's topic, by result."""
    micro_batches: int = 0
    rows_dropped_as_late: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    executor_packages: list[str] = field(default_factory=list)
    """The place from which the executors import aiokafkapy."""


def run_job(job: Job, tell: Tell) -> Outcome:
    """Do the whole job. The rows read back are in ``out/read-back/*.parquet``, by result and by its way."""
    import pyspark

    outcome = Outcome()
    steps = _Steps(tell, outcome)
    with steps.step("starting Spark"):
        spark = _session(job)
    try:
        outcome.spark_version, outcome.master = spark.version, job.master
        outcome.executor_packages = _executor_packages(spark)
        _batch(spark, job, steps, outcome)
        _stream(spark, job, steps, outcome)
        _read_back(spark, job, steps, outcome)
    finally:
        application = spark.sparkContext.applicationId
        spark.stop()
        if job.master.startswith("local-cluster"):
            # Its executors' directories are beside Spark's own jars, with all that was unpacked there.
            home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
            shutil.rmtree(Path(home, "work", application), ignore_errors=True)
    return outcome


class _Steps:
    def __init__(self, tell: Tell, outcome: Outcome) -> None:
        self.tell = tell
        self._outcome = outcome
        self._text = ""
        self._began = 0.0

    def step(self, text: str) -> _Steps:
        self._text = text
        return self

    def __enter__(self) -> None:
        self._began = time.monotonic()
        self.tell({"step": self._text})

    def __exit__(self, *exception: object) -> None:
        self._outcome.seconds[self._text] = round(time.monotonic() - self._began, 3)


def _session(job: Job) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's own choice is the python3 on the path
    ours = {
        "spark.master": job.master,
        "spark.app.name": "aiokafkapy pipeline",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Results are small: more partitions would be more tasks without more speed.
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.compression.codec": "zstd",
        # The first of several executors would otherwise do the first job alone, which asks each for its package.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    # Threads of this process have the package; executors that are processes of their own may not.
    shipped = {} if re.match(r"local(\[|$)", job.master) else shipping_conf(Path(job.out, "shipped"))
    builder = SparkSession.builder
    for name, value in {**ours, **shipped, **job.conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def _executor_packages(spark: SparkSession) -> list[str]:
    def where(_: int) -> str:
        import aiokafkapy

        return str(Path(aiokafkapy.__file__ or "").parent)

    slots = spark.sparkContext.defaultParallelism
    return sorted(set(spark.sparkContext.parallelize(range(slots), slots).map(where).collect()))


def _source(
    job: Job, steps: _Steps, reader: DataFrameReader | DataStreamReader, topic: str, starting_offsets: str
) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": job.bootstrap_servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
    }
    return tried_again(reader.format(FORMAT).options(**options, startingOffsets=starting_offsets).load, steps.tell)


def _sink(job: Job, writer: Writer, topic: str) -> Writer:
    options = {
        "kafka.bootstrap.servers": job.bootstrap_servers,
        "kafka.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
        "topic": topic,
        "exactlyOnce": "true",
        "exactlyOnceTopic": f"{job.topic}.{MARKERS}",
    }
    return writer.format(FORMAT).options(**options)


def _parquet(job: Job, result: Result) -> str:
    return str(Path(job.out, "parquet", result.name))


def _batch(spark: SparkSession, job: Job, steps: _Steps, outcome: Outcome) -> None:
    from pyspark.sql import functions as f

    with steps.step("reading the flights"):
        flights = parse_flights(_source(job, steps, spark.read, job.topic, job.starting_offsets)).cache()
        counted = tried_again(flights.agg(f.count("*"), f.count_distinct("row")).first, steps.tell)
        assert counted is not None
        outcome.flights, outcome.distinct_flights = int(counted[0]), int(counted[1])
        steps.tell({"progress": outcome.flights})
    run = uuid.uuid4().hex  # another run of the pipeline writes its results again
    for result in BATCH_RESULTS:
        with steps.step(f"{result.name}: to Kafka and Parquet"):
            rows = summary(result, flights).coalesce(1).cache()
            tried_again(partial(rows.write.mode("overwrite").parquet, _parquet(job, result)), steps.tell)
            sink = _sink(job, to_records(result, rows).write, result.topic(job.topic))
            # Its jobId prevents that a row is written twice.
            tried_again(sink.option("jobId", f"{result.name}-{run}").mode("append").save, steps.tell)
            rows.unpersist()
    flights.unpersist()


def _stream(spark: SparkSession, job: Job, steps: _Steps, outcome: Outcome) -> None:
    from ...spark.source.read_limits import HAS_READ_LIMITS

    checkpoints = Path(job.out, "checkpoints")
    topic = ROLLING.topic(job.topic)
    with steps.step(f"{ROLLING.name}: a stream to Kafka"):
        reader = spark.readStream
        if HAS_READ_LIMITS:
            reader = reader.option("maxOffsetsPerTrigger", FLIGHTS_A_TRIGGER)
        rows = rolling(parse_flights(_source(job, steps, reader, job.topic, job.starting_offsets)))
        writer = _sink(job, to_records(ROLLING, rows).writeStream.outputMode("append"), topic)
        writer = writer.option("checkpointLocation", str(checkpoints / "rolling")).trigger(availableNow=True)
        for progress in follow(writer.start, steps.tell):
            outcome.micro_batches += progress.numInputRows > 0
            for state in progress.stateOperators:
                outcome.rows_dropped_as_late += state.numRowsDroppedByWatermark
    with steps.step(f"{ROLLING.name}: a stream from Kafka to Parquet"):
        start = job.result_offsets.get(ROLLING.name, "earliest")
        found = from_records(ROLLING, _source(job, steps, spark.readStream, topic, start))
        # The streaming file sink only adds: files of an earlier run would be found again.
        copied = found.writeStream.format("parquet").outputMode("append").option("path", _parquet(job, ROLLING))
        copied = copied.option("checkpointLocation", str(checkpoints / "copy")).trigger(availableNow=True)
        follow(copied.start, steps.tell)


def follow(start: Callable[[], StreamingQuery], tell: Tell) -> list[StreamingQueryProgress]:
    """Start a stream, wait for its end, and report its progress after each micro-batch.

    Raises the stream's error. Started again, as by ``tried_again``, it goes on from its checkpoint.
    """
    queries: list[StreamingQuery] = []
    told = -1

    def done() -> list[StreamingQueryProgress]:
        return [progress for query in queries for progress in query.recentProgress]

    def followed() -> None:
        nonlocal told
        queries.append(start())
        # Half a second: pyspark takes it, though its types allow only whole seconds.
        while not queries[-1].awaitTermination(0.5):  # type: ignore[arg-type]
            rows = sum(progress.numInputRows for progress in done())
            if rows != told:
                told = rows
                tell({"progress": rows})

    tried_again(followed, tell)
    return done()


def tried_again(work: Callable[[], T], tell: Tell) -> T:
    """The result of the work, which is repeated if Spark could not start a Python worker: Spark gives a worker ten
    seconds to connect, which no setting changes, however busy the machine is. Raises the work's error.
    """
    for _ in range(TRIES - 1):
        try:
            return work()
        except Exception as error:
            if NO_WORKER not in str(error):
                raise
            tell({"step": "the same again: a Python worker of Spark did not start in time"})
    return work()


def _read_back(spark: SparkSession, job: Job, steps: _Steps, outcome: Outcome) -> None:
    target = Path(job.out, "read-back")
    target.mkdir(parents=True, exist_ok=True)
    for result in RESULTS:
        with steps.step(f"{result.name}: reading both back"):
            start = job.result_offsets.get(result.name, "earliest")
            found = from_records(result, _source(job, steps, spark.read, result.topic(job.topic), start))
            rows: pd.DataFrame = tried_again(found.toPandas, steps.tell)
            unique = rows.drop_duplicates(ignore_index=True)
            outcome.repeated[result.name] = len(rows) - len(unique)
            unique.to_parquet(target / f"{result.name}.kafka.parquet")
            stored: pd.DataFrame = spark.read.parquet(_parquet(job, result)).select(*result.columns).toPandas()
            stored.drop_duplicates(ignore_index=True).to_parquet(target / f"{result.name}.parquet.parquet")


def main() -> None:
    """The body of the process."""
    job = Job(**json.loads(sys.argv[1]))
    with os.fdopen(int(sys.argv[2]), "w", buffering=1) as events:

        def tell(event: dict[str, object]) -> None:
            events.write(json.dumps(event) + "\n")

        try:
            outcome = run_job(job, tell)
        except Exception as error:
            tell({"failed": _reason(error)})
            raise
        tell({"done": asdict(outcome)})


def _reason(error: Exception) -> str:
    """Spark's error, and the innermost cause, without its Java stack, which is in the log."""
    text = str(error)
    lines = [line for line in text.partition("JVM stacktrace:")[0].splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("\tat ", "Caused by:"))]
    causes = [line for line in text.splitlines() if line.startswith("Caused by:")]
    return "\n".join([*said[:REASON_LINES], *causes[-1:]])


if __name__ == "__main__":
    main()
