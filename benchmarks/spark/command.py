"""``python -m benchmarks spark``: our data source and Spark's own connector, interleaved, on the same real Kafka.

Every round measures everything once, every second one backwards; the first is not counted. The rows of a sink are read
back by librdkafka and counted; those of a source are summed up. ``--large-job`` measures a job of a hundred million
rows alone, without an uncounted round: its rows are counted by the broker's offsets and summed up by our own source.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import sys
import textwrap
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console

from .. import machine
from ..cluster import BenchmarkCluster
from ..goals import Answer, Goal, answers
from ..measurement import Figures, Measurement
from ..report import full_markdown, goals_text, put_into_page, table
from ..results import Results, Row
from ..suite import select
from .floors import FLOOR
from .jvm_connector import CONNECTOR_VERSION
from .workloads import (
    JVM,
    LARGE_GROUP,
    LARGE_TRIGGERS,
    LARGE_TRIGGERS_ONCE,
    OURS,
    PARTITIONS,
    ROWS,
    SparkWorkloads,
    large_job,
    measurements,
)

__all__ = ["main"]

T = TypeVar("T")

ROUNDS: Final = 5
QUICK_ROWS: Final = 200_000
LARGE_MILLIONS: Final = 100
QUICK_MILLIONS: Final = 2
REASON_LINES: Final = 4
FOOTNOTE: Final = """\
Medians of the rounds; ranges in parentheses. One Spark (local[2], 4 GB) and one node of a real Kafka for all, on the
same two cores; rows have a key of 8 and a value of 100 bytes, the topic six partitions, writing four tasks. CPU is that
of the whole machine (Spark, its Python workers, the broker), a row. tuned: linger.ms 20, batch.size 256 KiB,
buffer.memory 256 MiB. floor: a Python data source that drops its input, or hands out the same rows again and again: the
cost of Spark's Python API itself. A stream, of two tasks: p50 is the median trigger, p99 the longest, the rate the rows
of a trigger over its p50. Memory: ten million rows written into one partition and read again; RSS is the largest Python
worker's."""
LARGE_FOOTNOTE: Final = """\
One Spark (local[2], 4 GB) and one node of a real Kafka, on the same two cores; rows have a key of 8 and a value of 100
bytes, both their number, lz4, the topic six partitions, writing four tasks, reading six. Rate and CPU are of the way
there and back, CPU that of the whole machine, a row. RSS is the largest Python worker's, looked at ten times a second.
Growth: the most that a worker held in the last tenth of the time, over what the largest held at the end of the first;
each had ended a task before. The rows were counted by the broker's offsets and summed up by our own source."""


@dataclass(frozen=True)
class _Suite:
    """What is measured in one run, and how it is judged and kept."""

    name: str
    measurements: list[Measurement]
    rounds: int
    uncounted: int
    goals: Callable[[Sequence[Measurement]], tuple[Goal, ...]]
    footnote: str


def main(arguments: Sequence[str]) -> int:
    """Run the command line's choice; 1 when a measurement failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows, one round")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds (default {ROUNDS}, quick 1)")
    parser.add_argument("--only", metavar="PATTERN", help="measurements whose name contains or matches this")
    parser.add_argument("--readme", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results (a part of it: only if given)")
    parser.add_argument("--large-job", action="store_true", help="a job of 100 million rows alone, once: some minutes")
    given = parser.parse_args(arguments)
    is_whole = not given.quick and given.only is None and not given.large_job
    if given.readme and (not is_whole or given.out):
        parser.error("--readme is for the whole, whose results are in benchmarks/results")
    rows = QUICK_ROWS if given.quick else ROWS
    suite = _large_job(QUICK_MILLIONS if given.quick else LARGE_MILLIONS) if given.large_job else _sources(rows)
    wanted = select(suite.measurements, given.only)
    if not wanted:
        parser.error(f"no measurement is called {given.only!r}")
    rounds = given.rounds or (1 if given.quick else suite.rounds)
    try:
        results = asyncio.run(_run(wanted, rows, rounds, suite.uncounted))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    found = answers(results, suite.goals(wanted))
    print(table(results, suite.footnote), goals_text(found), sep="\n\n")
    if is_whole or given.out:
        _keep(suite, results, found, given.out)
    if given.readme:
        root = Path(__file__).parents[2]
        put_into_page(root / "docs" / "benchmarks.md", _page_section(results, found), "spark benchmarks")
    for label, failures in results.failures.items():
        print(f"\nFAILED {label}\n" + "\n".join(failures), file=sys.stderr)
    return 1 if results.failures else 0


def _sources(rows: int) -> _Suite:
    return _Suite("spark", measurements(rows), ROUNDS, uncounted=1, goals=_goals, footnote=FOOTNOTE)


def _large_job(millions: int) -> _Suite:
    goals, footnote = _large_job_goals, LARGE_FOOTNOTE
    return _Suite("spark-large-job", large_job(millions), rounds=1, uncounted=0, goals=goals, footnote=footnote)


async def _run(wanted: Sequence[Measurement], rows: int, rounds: int, uncounted: int) -> Results:
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    results = Results(date, _machine(), {m.label: Row(m) for m in wanted})
    console = Console(stderr=True, highlight=False)
    with ThreadPoolExecutor(1) as thread:
        async with BenchmarkCluster() as cluster:
            console.print("starting Spark")
            spark = await _in(thread, SparkWorkloads, rows)
            try:
                source, _ = await cluster.topic(PARTITIONS)
                if any(measurement.group == "spark read" for measurement in wanted):
                    await _in(thread, spark.fill, cluster.bootstrap_servers, source)
                for number in range(1 - uncounted, rounds + 1):
                    for measurement in wanted[::-1] if number % 2 else wanted:
                        topic = source if measurement.group == "spark read" else None
                        measure = partial(_in, thread, spark.measure, measurement, cluster.bootstrap_servers)
                        await _note(
                            results.rows[measurement.label],
                            number,
                            console,
                            _measured(cluster, measurement, measure, topic),
                        )
            finally:
                await _in(thread, spark.stop)
    return results


async def _in(thread: ThreadPoolExecutor, function: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, function, *arguments)


async def _note(row: Row, number: int, console: Console, measured: Coroutine[Any, Any, Figures]) -> None:
    """Round 0 is not counted."""
    label = row.measurement.label
    try:
        figures = await measured
    except Exception as error:
        reason = "\n".join(str(error).splitlines()[:REASON_LINES])  # without Java's stack
        row.failures.append(f"{type(error).__name__}: {reason}")
        console.print(f"failed {label}: {reason}", markup=False)
        return
    shown = f"{figures['rate']:,.0f} rows/s" if "rate" in figures else f"{figures['p50_ms']:.0f} ms"
    console.print(f"{f'round {number}' if number else 'warm-up'}  {label}  {shown}")
    if number:
        row.rounds.append(figures)


async def _measured(
    cluster: BenchmarkCluster,
    measurement: Measurement,
    measure: Callable[[str], Coroutine[Any, Any, Figures]],
    source: str | None,
) -> Figures:
    """Measure on the topic that is there, or on one of its own, whose new records are counted."""
    if source is not None:
        return await measure(source)
    topic, start = await cluster.topic(measurement.partitions)
    try:
        figures = await measure(topic)
        written = int(figures["written"])
        if measurement.group == LARGE_GROUP:
            await cluster.check_end(topic, start, written)
            figures["log_mb"] = cluster.bytes_of(topic, measurement.partitions) / 1e6
        elif written:
            await cluster.read_back(topic, start, written)
    finally:
        await cluster.discard(topic)
    return figures


def _goals(wanted: Sequence[Measurement]) -> tuple[Goal, ...]:
    labels = {(m.group, m.workload, m.client, m.variant): m.label for m in wanted}

    def goal(
        text: str, figure: str, workload: tuple[str, str], peer: tuple[str, str], sense: Any, limit: float
    ) -> Goal:
        ours, theirs = labels.get((*workload, OURS, ""), ""), labels.get((*workload, *peer), "")
        return Goal(text, figure, ours, (theirs,), sense, limit)

    found = []
    for codec, untuned, tuned in (("plain", 2.0, 1.6), ("lz4", 1.7, 1.5)):
        write = ("spark write", codec)
        found.append(goal(f"write, {codec}: rate against the connector", "rate", write, (JVM, ""), "at least", untuned))
        peer = (JVM, "tuned")
        found.append(goal(f"write, {codec}: rate against it tuned", "rate", write, peer, "at least", tuned))
        found.append(goal(f"write, {codec}: CPU against the connector", "cpu_us", write, (JVM, ""), "at most", 1.0))
    for columns in ("all columns", "sum of lengths"):
        read = ("spark read", columns)
        found.append(goal(f"read, {columns}: rate against the connector", "rate", read, (JVM, ""), "at least", 4.0))
    each_once, at_least_once = (
        labels.get(("spark stream", workload, OURS, ""), "") for workload in (LARGE_TRIGGERS_ONCE, LARGE_TRIGGERS)
    )
    found.append(
        Goal(
            f"stream, {LARGE_TRIGGERS}: exactly once, rate against at least once",
            "rate",
            each_once,
            (at_least_once,),
            "at least",
            0.8,
        )
    )
    memory = labels.get(("spark memory", "into one partition and back", OURS, ""), "")
    found.append(Goal("memory: the largest Python worker's MB", "peak_rss_mb", memory, (), "at most", 400))
    # The possible gain within the API is reported, and is not a goal.
    plain, every_column = ("spark write", "plain"), ("spark read", "all columns")
    found.append(goal("write: rate against the floor", "rate", plain, (FLOOR, ""), "at most", 1.0))
    found.append(goal("read: rate against the floor", "rate", every_column, (FLOOR, ""), "at most", 1.0))
    return tuple(found)


def _large_job_goals(wanted: Sequence[Measurement]) -> tuple[Goal, ...]:
    label = wanted[0].label
    return (
        Goal("large job: growth of the largest Python worker, writing", "write_growth", label, (), "at most", 1.2),
        Goal("large job: growth of the largest Python worker, reading", "read_growth", label, (), "at most", 1.2),
        Goal("large job: the largest Python worker's MB", "peak_rss_mb", label, (), "at most", 400),
    )


def _machine() -> dict[str, Any]:
    import pyspark

    return machine.describe() | {"pyspark": pyspark.__version__, "spark-sql-kafka": CONNECTOR_VERSION}


def _keep(suite: _Suite, results: Results, found: Sequence[Answer], directory: Path | None) -> None:
    directory = directory or Path(__file__).parents[1] / "results"
    stem = f"{results.date}-{suite.name}"
    results.write(directory / f"{stem}.json", [answer.to_dict() for answer in found])
    (directory / f"{stem}.md").write_text(full_markdown(results, found, suite.footnote))


def _page_section(results: Results, found: Sequence[Answer]) -> str:
    about = results.machine
    head = textwrap.fill(
        f"One run of `python -m benchmarks spark`, {results.rounds} interleaved rounds of {ROWS:,} rows, PySpark "
        f"{about['pyspark']} on `local[2]`, against `spark-sql-kafka-0-10` {about['spark-sql-kafka']}; "
        f"{machine.in_words(about)}. Medians of rows/s and of the whole machine's CPU per row:",
        width=120,
        break_on_hyphens=False,
    )
    lines = [
        head,
        "",
        "| | aiokafkapy | spark-sql-kafka | tuned | floor |",
        "|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for row in results.rows.values():
        if row.measurement.group == "spark memory":
            continue
        place = row.measurement.variant or row.measurement.client
        rows.setdefault((row.measurement.group, row.measurement.workload), {})[place] = _cell(row)
    for (group, workload), cells in rows.items():
        places = (cells.get(place, "") for place in (OURS, JVM, "tuned", FLOOR))
        lines.append(f"| {group.removeprefix('spark ')}, {workload} | " + " | ".join(places) + " |")
    ratios = [
        f"{one.goal.text} {one.value:.2f}"
        for one in found
        if one.value is not None and one.goal.theirs and one.goal.limit != 1
    ]
    kept = f"benchmarks/results/{results.date}-spark"
    floor = "floor is a source, or a sink, that does nothing: the cost of Spark's Python API"
    tail = f"Ratios: {'; '.join(ratios)}. {floor}."
    lines += [
        "",
        textwrap.fill(tail, width=120, break_on_hyphens=False),
        f"All rows and ranges: [{kept}.md](../{kept}.md).",
    ]
    return "\n".join(lines)


def _cell(row: Row) -> str:
    rate, p50 = row.median("rate"), row.median("p50_ms")
    if rate is not None:
        return f"{rate / 1e6:.2f} M/s · {row.median('cpu_us') or 0.0:.2f} µs"
    return f"{p50:.0f} ms" if p50 is not None else ""
