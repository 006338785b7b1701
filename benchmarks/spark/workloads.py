"""Spark's jobs, and their times: writing, reading, and a stream of small micro-batches.

Owns the session that all share, the rows, and the clocks. A measurement is told from others by its client, which is a
format and its options. CPU is that of the whole machine while it lasts: Spark, its Python workers, and the broker.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..measurement import Figures, Measurement, MeasurementError
from .floors import FLOOR, FloorDataSource
from .jvm_connector import connector_jars
from .worker_memory import WorkerMemory, growth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "LARGE_TRIGGERS",
    "LARGE_TRIGGERS_ONCE",
    "LATENCY_ROWS",
    "ROWS",
    "VALUE_SIZE",
    "SparkWorkloads",
    "large_job",
    "measurements",
]

ROWS: Final = 2_000_000
KEY_SIZE: Final = 8
VALUE_SIZE: Final = 100
ROW_SIZE: Final = KEY_SIZE + VALUE_SIZE
PARTITIONS: Final = 6
WRITING_TASKS: Final = 4
MEMORY_FACTOR: Final = 5
"""Times the rows of the other measurements: ten million."""
MILLION: Final = 1_000_000
LARGE_GROUP: Final = "spark large job"
LATENCY_ROWS: Final = 100
LARGE_ROWS: Final = 100_000
"""The rows of a micro-batch that compares writing each row once with writing it at least once."""
STREAM_TASKS: Final = 2
UNCOUNTED_TRIGGERS: Final = 5
TRIGGERS: Final = 20

OURS: Final = "aiokafkapy"
JVM: Final = "spark-sql-kafka"
FORMATS: Final = {OURS: "aiokafkapy", JVM: "kafka", FLOOR: FLOOR}
TUNED: Final = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 * 1024),
    "kafka.buffer.memory": str(256 * 1024**2),
}
LZ4: Final = {"kafka.compression.type": "lz4"}
ONCE: Final = {"exactlyOnce": "true"}
LARGE_TRIGGERS: Final = f"{LARGE_ROWS:,} rows a trigger"
LARGE_TRIGGERS_ONCE: Final = f"{LARGE_TRIGGERS}, exactly once"


def measurements(rows: int) -> list[Measurement]:
    """All of them, the peers beside one another."""

    def one(group: str, workload: str, client: str, variant: str = "", count: int = rows, **more: Any) -> Measurement:
        return Measurement(
            group=group,
            workload=workload,
            client=client,
            variant=variant,
            count=count,
            size=ROW_SIZE,
            partitions=PARTITIONS,
            options=more,
        )

    return [
        one("spark write", "plain", OURS),
        one("spark write", "plain", JVM),
        one("spark write", "plain", JVM, "tuned", options=TUNED),
        one("spark write", "plain", FLOOR),
        one("spark write", "lz4", OURS, options=LZ4),
        one("spark write", "lz4", JVM, options=LZ4),
        one("spark write", "lz4", JVM, "tuned", options=TUNED | LZ4),
        one("spark read", "all columns", OURS),
        one("spark read", "all columns", JVM),
        one("spark read", "all columns", FLOOR),
        one("spark read", "sum of lengths", OURS),
        one("spark read", "sum of lengths", JVM),
        one("spark read", "sum of lengths", FLOOR),
        *(one("spark stream", f"{LATENCY_ROWS} rows a trigger", client, count=LATENCY_ROWS) for client in FORMATS),
        one("spark stream", LARGE_TRIGGERS, OURS, count=LARGE_ROWS),
        one("spark stream", LARGE_TRIGGERS_ONCE, OURS, count=LARGE_ROWS, options=ONCE),
        one("spark stream", LARGE_TRIGGERS, JVM, count=LARGE_ROWS),
        replace(one("spark memory", "into one partition and back", OURS, count=MEMORY_FACTOR * rows), partitions=1),
    ]


def large_job(millions: int) -> list[Measurement]:
    """``millions`` of rows there and back: whether a worker's memory is flat. It takes minutes and is apart."""
    return [
        Measurement(
            group=LARGE_GROUP,
            workload=f"{millions} million rows",
            client=OURS,
            count=millions * MILLION,
            size=ROW_SIZE,
            partitions=PARTITIONS,
            options={"options": LZ4},
        )
    ]


class SparkWorkloads:
    """One Spark for a whole run, ``local[2]``; ``stop`` it in the end.

    To be made and used by one thread: Spark finds a Python data source in the session that is the thread's own.
    """

    def __init__(self, rows: int) -> None:
        from pyspark.sql import SparkSession

        self._rows = rows
        self._scratch = tempfile.mkdtemp(prefix="benchmarks-spark-")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # by default Spark takes the python3 of the path
        jars = [str(path) for path in connector_jars()]
        settings = {
            "spark.master": "local[2]",
            "spark.driver.memory": "4g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.jars": ",".join(jars),
            "spark.driver.extraClassPath": ":".join(jars),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": self._scratch,
            "spark.sql.warehouse.dir": self._scratch,
        }
        builder = SparkSession.builder.appName("benchmarks")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark: SparkSession = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.dataSource.register(FloorDataSource)

    def stop(self) -> None:
        """Leave nothing behind."""
        self.spark.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def measure(self, measurement: Measurement, servers: str, topic: str) -> Figures:
        """Blocks until it is done. ``written``: the number of records that it added to the topic."""
        return {
            "spark write": self._write,
            "spark read": self._read,
            "spark stream": self._stream,
            "spark memory": self._memory,
            LARGE_GROUP: self._large_job,
        }[measurement.group](measurement, servers, topic)

    def fill(self, servers: str, topic: str) -> None:
        """The rows into the topic that is read from."""
        options = {"kafka.bootstrap.servers": servers, "topic": topic}
        self._frame.write.format(FORMATS[JVM]).options(**options).mode("append").save()

    # internals

    @cached_property
    def _frame(self) -> DataFrame:
        frame = self._computed(self._rows).cache()
        frame.write.format("noop").mode("overwrite").save()  # materialised
        return frame

    def _computed(self, rows: int) -> DataFrame:
        from pyspark.sql import functions as f

        key = f.lpad(f.col("id").cast("string"), 8, "0").cast("binary")
        value = f.substring(f.sha2(f.col("id").cast("string"), 512), 1, VALUE_SIZE).cast("binary")
        return self.spark.range(0, rows, 1, WRITING_TASKS).select(key.alias("key"), value.alias("value"))

    def _write(self, measurement: Measurement, servers: str, topic: str) -> Figures:
        frame = self._frame if measurement.count == self._rows else self._frame.limit(measurement.count)
        options = {"kafka.bootstrap.servers": servers, "topic": topic, **measurement.options.get("options", {})}
        writer = frame.write.format(FORMATS[measurement.client]).options(**options).mode("append")
        written = 0 if measurement.client == FLOOR else measurement.count
        return _timed(writer.save, measurement.count) | {"written": written}

    def _read(self, measurement: Measurement, servers: str, topic: str) -> Figures:
        from pyspark.sql import functions as f

        options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
        if measurement.client == FLOOR:
            options = {"rows": str(self._rows), "partitions": str(PARTITIONS), "valueSize": str(VALUE_SIZE)}
        frame = self.spark.read.format(FORMATS[measurement.client]).options(**options).load()
        if measurement.workload == "all columns":
            return _timed(frame.write.format("noop").mode("overwrite").save, self._rows) | {"written": 0}
        found: list[Any] = []
        length = f.sum(f.octet_length("value"))
        figures = _timed(lambda: found.extend(frame.agg(length, f.count("*")).collect()), self._rows)
        rows = self._rows // PARTITIONS * PARTITIONS if measurement.client == FLOOR else self._rows
        if tuple(found[0]) != (rows * VALUE_SIZE, rows):
            raise MeasurementError(f"{rows:,} rows of {VALUE_SIZE} bytes were to be read: {tuple(found[0])}")
        return figures | {"written": 0}

    def _memory(self, measurement: Measurement, servers: str, topic: str) -> Figures:
        from pyspark.sql import functions as f

        rows, memory = measurement.count, WorkerMemory()
        options = {"kafka.bootstrap.servers": servers}

        def there_and_back() -> None:
            sink = self._computed(rows).write.format(FORMATS[OURS]).options(**options, topic=topic)
            sink.mode("append").save()
            source = self.spark.read.format(FORMATS[OURS]).options(**options, subscribe=topic).load()
            found = source.agg(f.sum(f.octet_length("value")), f.count("*"), f.max("offset")).first()
            if found is None or tuple(found) != (rows * VALUE_SIZE, rows, rows - 1):
                raise MeasurementError(f"{rows:,} rows of {VALUE_SIZE} bytes were to come back: {found}")

        try:
            figures = _timed(there_and_back, rows)
        finally:
            peak = memory.stop()
        return figures | {"written": rows, "peak_rss_mb": peak}

    def _large_job(self, measurement: Measurement, servers: str, topic: str) -> Figures:
        """Rows whose key and value are their number, written and read again by our source; it tells all numbers' sum,
        so librdkafka does not count them, which would take longer than the job.
        """
        from pyspark.sql import functions as f

        rows, options = measurement.count, {"kafka.bootstrap.servers": servers}
        to_topic = options | measurement.options["options"] | {"topic": topic}
        # At the end of its first task a worker loads pandas, 40 MB, for PySpark: that is not the job's growth.
        nothing = self._numbered(MILLION).where("length(key) = 0")
        nothing.write.format(FORMATS[OURS]).options(**to_topic).mode("append").save()
        sink = self._numbered(rows).write.format(FORMATS[OURS]).options(**to_topic).mode("append")
        written = self._watched("writing", sink.save, rows)
        source = self.spark.read.format(FORMATS[OURS]).options(**options, subscribe=topic).load()
        found: list[Any] = []
        length = f.sum(f.octet_length("key") + f.octet_length("value"))
        number = f.substring("value", VALUE_SIZE - KEY_SIZE + 1, KEY_SIZE).cast("string").cast("long")
        sums = source.agg(length, f.count("*"), f.sum(number))
        read = self._watched("reading", lambda: found.extend(sums.collect()), rows)
        if tuple(found[0]) != (rows * ROW_SIZE, rows, rows * (rows - 1) // 2):
            raise MeasurementError(f"{rows:,} rows of {ROW_SIZE} bytes were to come back: {tuple(found[0])}")
        seconds, busy = (written[name] + read[name] for name in ("seconds", "cpu_seconds"))
        return {
            "messages": float(rows),
            "written": rows,
            "seconds": seconds,
            "rate": rows / seconds,
            "cpu_seconds": busy,
            "cpu_us": busy / rows * 1e6,
            "peak_rss_mb": max(written["peak_rss_mb"], read["peak_rss_mb"]),
            **{f"write_{name}": written[name] for name in ("rate", "growth", "peak_rss_mb")},
            **{f"read_{name}": read[name] for name in ("rate", "growth", "peak_rss_mb")},
        }

    def _numbered(self, rows: int) -> DataFrame:
        from pyspark.sql import functions as f

        key = f.lpad(f.col("id").cast("string"), KEY_SIZE, "0")
        value = f.concat(f.lit("0" * (VALUE_SIZE - KEY_SIZE)), key)  # lpad to a hundred takes longer than the writing
        columns = key.cast("binary").alias("key"), value.cast("binary").alias("value")
        return self.spark.range(0, rows, 1, WRITING_TASKS).select(*columns)

    def _watched(self, name: str, work: Callable[[], Any], rows: int) -> Figures:
        """With the workers' memory, and progress on standard error."""
        tracker = self.spark.sparkContext.statusTracker()

        def tell(seconds: float, megabytes: float) -> None:
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
            done, tasks = (sum(getattr(s, field) for s in stages) for field in ("numCompletedTasks", "numTasks"))
            words = f"{name} for {seconds:.0f} s, {done} of {tasks} tasks, the largest worker has {megabytes:.0f} MB"
            print(words, file=sys.stderr)

        memory = WorkerMemory(tell)
        try:
            figures = _timed(work, rows)
        finally:
            peak = memory.stop()
        return figures | {"peak_rss_mb": peak, "growth": growth(memory.samples)}

    def _stream(self, measurement: Measurement, servers: str, topic: str) -> Figures:
        rows = self.spark.readStream.format("rate-micro-batch").options(
            rowsPerBatch=measurement.count, numPartitions=STREAM_TASKS
        )
        frame = rows.load().selectExpr(
            "cast(cast(value as string) as binary) key", f"cast(repeat('x', {VALUE_SIZE}) as binary) value"
        )
        checkpoint = tempfile.mkdtemp(dir=self._scratch)
        options = {"kafka.bootstrap.servers": servers, "topic": topic, **measurement.options.get("options", {})}
        options["checkpointLocation"] = checkpoint
        writer = frame.writeStream.format(FORMATS[measurement.client]).options(**options)
        cpu, began = _machine_cpu_seconds(), time.perf_counter()
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            while len(query.recentProgress) < UNCOUNTED_TRIGGERS + TRIGGERS:
                if query.awaitTermination(0.2):  # type: ignore[arg-type]  # fractions are fine
                    raise MeasurementError("the stream ended by itself")
            seconds, busy = time.perf_counter() - began, _machine_cpu_seconds() - cpu
        finally:
            query.stop()
        triggers = [progress.durationMs["triggerExecution"] for progress in query.recentProgress]
        rows_written = sum(progress.numInputRows for progress in query.recentProgress)
        shutil.rmtree(checkpoint, ignore_errors=True)
        figures: Figures = {
            "messages": float(rows_written),
            "seconds": seconds,
            "cpu_seconds": busy,
            "p50_ms": statistics.median(triggers[UNCOUNTED_TRIGGERS:]),
            "p99_ms": max(triggers[UNCOUNTED_TRIGGERS:]),
            "written": 0,
        }
        if measurement.count >= LARGE_ROWS:
            figures |= {"rate": measurement.count / figures["p50_ms"] * 1000, "cpu_us": busy / rows_written * 1e6}
        return figures


def _timed(work: Callable[[], Any], rows: int) -> Figures:
    cpu, began = _machine_cpu_seconds(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    busy = _machine_cpu_seconds() - cpu
    return {
        "messages": float(rows),
        "seconds": seconds,
        "rate": rows / seconds,
        "cpu_seconds": busy,
        "cpu_us": busy / rows * 1e6,
    }


def _machine_cpu_seconds() -> float:
    """The CPU time of all cores since the machine's start: /proc/stat's first line, without idle time."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, _ = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
