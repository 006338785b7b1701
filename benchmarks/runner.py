"""One run: the measurements of each phase in turn, round after round, on one broker.

The first round is not counted. Every second round goes backwards, so that nobody is always measured after the same
neighbour. A measurement that fails is reported at once, and the run goes on without it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import machine
from .cluster import BenchmarkCluster
from .measurement import Figures, Measurement, MeasurementError, SkippedError, find_entry, run_in_process
from .results import Results, Row
from .suite import phases

__all__ = ["Runner"]

WARM_UP: Final = Measurement(group="", workload="pipelined", client="confluent-kafka", count=500_000)
"""A warm-up, so that the JVM has compiled the broker's code."""
UNCOUNTED_PART: Final = 4
"""A round that is not counted has a quarter of the records."""
TRIES: Final = 2
"""Failures of a measurement after which it is left out."""


class Runner:
    """Use ``run`` once."""

    def __init__(self, measurements: Sequence[Measurement], rounds: int, *, uncounted: int = 1) -> None:
        self._phases = phases(measurements)
        self._rounds = rounds
        self._uncounted = uncounted
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        self.results = Results(date, machine.describe(), {m.label: Row(m) for m in measurements})
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description:64.64}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            refresh_per_second=2,  # this process is to do nothing meanwhile
        )
        total = len(measurements) * (rounds + uncounted)
        self._task = self._progress.add_task("starting Kafka", total=total)

    async def run(self) -> Results:
        """Measure everything."""
        if (load := machine.load_average()) > 1.0:
            self._console.print(f"[yellow]The load average is {load:.1f}: these figures will not be worth much.")
        if not machine.python_is_optimized():
            self._console.print(
                "[yellow]This Python was built without the compiler's optimizations (pyenv does so by default, Debian "
                "and Docker's images do not): clients written in Python look slower than they are for most users."
            )
        with self._progress:
            for phase in self._phases:
                self._progress.update(self._task, description="starting Kafka")
                async with BenchmarkCluster() as cluster:
                    await self._run_phase(cluster, phase)
        return self.results

    # internals

    async def _run_phase(self, cluster: BenchmarkCluster, phase: Sequence[Measurement]) -> None:
        topic, _ = await cluster.topic(WARM_UP.partitions)
        await run_in_process(WARM_UP, cluster.bootstrap_servers, topic)
        await cluster.discard(topic)
        for number in range(self._rounds + self._uncounted):
            is_counted = number >= self._uncounted
            words = f"round {number - self._uncounted + 1}" if is_counted else "warm-up"
            if not self._console.is_terminal:  # no bar moves there, so say now and then that the run goes on
                self._console.print(f"{time.strftime('%H:%M')} {words}, {len(phase)} measurements")
            for measurement in phase[::-1] if number % 2 else phase:
                row = self.results.rows[measurement.label]
                self._progress.update(self._task, description=f"{words} · {measurement.label}")
                if not is_counted:
                    measurement = replace(measurement, count=max(1, measurement.count // UNCOUNTED_PART))
                if not row.skipped and len(row.failures) < TRIES:
                    await self._measure(cluster, row, measurement, is_counted=is_counted)
                self._progress.advance(self._task)

    async def _measure(
        self, cluster: BenchmarkCluster, row: Row, measurement: Measurement, *, is_counted: bool
    ) -> None:
        try:
            figures = await self._figures(cluster, measurement)
        except SkippedError as error:
            row.skipped = str(error)
            self._console.print(f"[yellow]skipped[/] {row.measurement.label}: {error}")
        except Exception as error:
            row.failures.append(f"{type(error).__name__}: {error}")
            self._console.print(f"[red]failed[/] {row.measurement.label}: ", end="")
            self._console.print(str(error) or repr(error), markup=False)
        else:
            if is_counted:
                row.rounds.append(figures)

    async def _figures(self, cluster: BenchmarkCluster, measurement: Measurement) -> Figures:
        started = time.perf_counter()
        topic, start = await cluster.topic(measurement.partitions)
        try:
            figures = await find_entry(measurement)(*cluster.place_of(measurement), topic)
            written = int(figures["written"])
            await cluster.read_back(topic, start, written, has_markers=bool(measurement.options.get("transactions")))
            if written and not any(start.values()):
                size = cluster.bytes_of(topic, measurement.partitions)
                figures["bytes_per_message"] = size / written
        finally:
            await cluster.discard(topic)
        return _completed(figures, measurement) | {"all_seconds": time.perf_counter() - started}


def _completed(figures: Figures, measurement: Measurement) -> Figures:
    """The figures, with those that follow from others."""
    figures.setdefault("messages", measurement.count)
    if "rate" not in figures and figures.get("seconds"):
        figures["rate"] = figures["messages"] / figures["seconds"]
    if "cpu_us" not in figures and "cpu_seconds" in figures:
        figures["cpu_us"] = figures["cpu_seconds"] / figures["messages"] * 1e6
    if measurement.group == "codecs" and "bytes_per_message" in figures:
        figures["ratio"] = measurement.size / figures["bytes_per_message"]
    if missing := {"seconds", "written"} - figures.keys():
        raise MeasurementError(f"no figure {', '.join(sorted(missing))}")
    return figures
