"""``python -m benchmarks instructions``: the instructions that a record costs the client, counted, not timed.

Time on a machine that is shared swings by a quarter; the number of instructions hardly does. Valgrind's callgrind
counts them while the workloads of ``producer_sink`` run against its null broker, at two lengths: the difference of the
two is the cost of the longer run's records, without start, flush and close. One process measures all workloads of a
form; ``getpriority``, a system call that nobody else makes, is the mark at which callgrind writes down its count.

The recorded figures are in ``benchmarks/results/instructions.json``, by Python and form; a figure that is more than 3 %
above the recorded one is worse, and exit code 1; 2 says that it could not be counted. ``--record`` writes them. A
Python that is not in there has nothing to compare with: that is said, and is no failure. ``--keep`` leaves callgrind's
files, for ``callgrind_annotate``.

Beside them stand the turns of the loop, tasks and futures (see ``loop_work``), and the allocations: callgrind's calls
of ``malloc`` and its kin in a run in which Python takes all its memory from there. What it takes from its free lists
(small tuples, floats, frames) is not among them. Of these less than ``CHANCE`` more is no more work.

Not everything is a count: timers run on the real clock, and callgrind makes the program fifty times slower. So batches
may be divided otherwise than without it; for one length they come out alike to about a per cent.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import uvloop

import aiokafkapy
from aiokafkapy import KafkaProducer

from ..machine import python_is_optimized
from . import producer_sink
from .callgrind import read_calls
from .hot_functions import FILE, LoneRuns, write_hot_functions
from .loop_work import KINDS, measure
from .null_broker import NullBroker, null_network
from .null_server import serving
from .null_sink import FORMS, LARGE, SMALL

T = TypeVar("T")

__all__ = [
    "KINDS_OF_WORK",
    "LIMIT",
    "Workload",
    "count_form",
    "count_work",
    "main",
    "per_record",
    "read_counts",
    "recorded_counts",
    "run_marked",
    "workloads",
]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "instructions.json"
LIMIT = 1.03
"""A figure that is at more than this of the recorded one is worse."""
CHANCE = 0.05
"""So much of a turn, task, future or allocation a record more is no more work: where they are few, batches that were
divided otherwise make as much.
"""
LONGER = 3
"""The length of a workload's second run, in times of the first."""
INTERPRETED_SHARE = 4
MOST_INTERPRETED = 10_000
"""A workload that sends more records at once is not counted interpreted: it would take a quarter of an hour."""
FEW, MANY = 6, 10_000
"""Partitions that small batches are for: a batch must not cost twice as much among many."""
PATIENCE_MS = 600_000
MARKS = 3
"""The marks of a workload: after a run to warm up, after the shorter and after the longer one."""

Counts = Mapping[str, float]
"""Instructions for each record, by the workload's label."""
Work = Mapping[str, float]
"""Turns of the loop, tasks, futures and allocations for each record."""
KINDS_OF_WORK = (*KINDS, "allocations")
ALLOCATORS = ("malloc", "calloc", "realloc")


@dataclass(frozen=True, slots=True)
class Workload:
    """``records`` is the shorter length, compiled; it is run with a multiple of ``at_once`` in any form."""

    label: str
    run: producer_sink.Workload
    records: int
    at_once: int = 1
    partitions: int = FEW
    value: bytes = SMALL
    is_over_tls: bool = False

    def is_counted(self, form: str) -> bool:
        """False in a form in which it takes too long."""
        return form == "compiled" or self.at_once <= MOST_INTERPRETED

    def lengths(self, form: str) -> tuple[int, int]:
        """The two numbers of records that it is run with."""
        records = self.records if form == "compiled" else self.records // INTERPRETED_SHARE
        records = max(1, records // self.at_once) * self.at_once
        return records, LONGER * records


def workloads() -> list[Workload]:
    """All of them, in the order of the table; values have 100 bytes."""
    found = [
        Workload("lone await", producer_sink.lone_await, 400),
        Workload("1,000 tasks", producer_sink.workers, 4_000, producer_sink.TASKS),
        Workload("pipelined enqueue", producer_sink.pipelined, 10_000),
        Workload("pipelined enqueue, awaited", producer_sink.pipelined_awaited, 10_000),
        Workload("send_nowait", producer_sink.send_nowait, 20_000),
        Workload("send_many", producer_sink.send_many, 100_000),
        Workload("lone await, TLS", producer_sink.lone_await, 400, is_over_tls=True),
        Workload("send_many of 1 KiB, TLS", producer_sink.send_many, 20_000, value=LARGE, is_over_tls=True),
    ]
    if find_spec("pyarrow") is not None:
        found.append(Workload("send_arrow", producer_sink.send_arrow, 100_000))
    for partitions, records in (FEW, 8_400), (MANY, 70_000):
        at_once = producer_sink.SEVEN * partitions
        label = f"7 records a batch, {partitions:,} partitions"
        found.append(Workload(label, producer_sink.of_seven, records, at_once, partitions))
    return found


def run_marked(
    wanted: Sequence[Workload], form: str, mark: Callable[[], object], run: Callable[..., None] = uvloop.run
) -> None:
    """Run each workload at its two lengths, with a ``mark`` before and behind each; raises RuntimeError when a
    record was not delivered.
    """
    for workload in wanted:
        run(_run_marked(workload, form, mark))


def parts_of(directory: Path, prefix: str) -> list[Path]:
    """The files that callgrind wrote there, one for each mark, in their order."""
    return sorted(directory.glob(f"{prefix}.*"), key=lambda path: int(path.suffix[1:]))


def read_counts(directory: Path, prefix: str) -> list[int]:
    """Callgrind's counts between neighbouring marks, from the files that it wrote there."""
    counts = []
    for path in parts_of(directory, prefix):
        lines = (line.partition(":") for line in path.read_text().splitlines())
        counts.append(next(int(rest) for name, _, rest in lines if name == "totals"))
    return counts


def read_allocations(directory: Path, prefix: str) -> list[int]:
    """The allocations between neighbouring marks."""
    calls = (read_calls(path) for path in parts_of(directory, prefix))
    return [sum(of_part[name] for name in ALLOCATORS) for of_part in calls]


def per_record(wanted: Sequence[Workload], form: str, counts: Sequence[int]) -> dict[str, float]:
    """What each record takes, from the counts up to each mark; raises RuntimeError when marks are missing."""
    if len(counts) != MARKS * len(wanted):
        raise RuntimeError(f"callgrind wrote {len(counts)} files for {len(wanted)} workloads with {MARKS} marks each")
    found = {}
    for position, workload in enumerate(wanted):
        short, long = workload.lengths(form)
        in_short, in_long = _of_two_lengths(counts, position)
        found[workload.label] = (in_long - in_short) / (long - short)
    return found


def count_form(form: str, wanted: Sequence[Workload], keep: Path | None = None) -> dict[str, float]:
    """Count in a process of its own, with the core in ``form``; raises RuntimeError when that cannot be done."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) if keep is None else keep
        directory.mkdir(exist_ok=True)
        _run_callgrind(form, wanted, directory)
        return per_record(wanted, form, read_counts(directory, form))


def count_work(form: str, wanted: Sequence[Workload]) -> dict[str, Work]:
    """Turns, tasks, futures and allocations, likewise."""
    with tempfile.TemporaryDirectory() as temporary:
        _run_callgrind(form, wanted, Path(temporary), PYTHONMALLOC="malloc")
        allocations = per_record(wanted, form, read_allocations(Path(temporary), form))
    marked = json.loads(_said(form, wanted, "--turns"))
    by_kind = {kind: per_record(wanted, form, [of_mark[kind] for of_mark in marked]) for kind in KINDS}
    by_kind["allocations"] = allocations
    return {label: {kind: by_kind[kind][label] for kind in KINDS_OF_WORK} for label in allocations}


def python_key(form: str) -> str:
    """The surroundings in which figures are comparable: architecture, Python and how it was built, form."""
    build = "optimized" if python_is_optimized() else "not optimized"
    return f"{platform.machine()}, Python {platform.python_version()} ({build}), {form}"


def recorded_counts(form: str, file: Path = RESULTS) -> Counts:
    """The recorded instructions of this Python in a form, by label; none when there are none."""
    found: Counts = _read(file).get(python_key(form), {}).get("figures", {})
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks instructions", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the figures instead of comparing")
    parser.add_argument("--form", choices=FORMS, help="only this form (default: both)")
    parser.add_argument("--only", action="append", metavar="LABEL", help="only this workload; may be given again")
    parser.add_argument("--file", type=Path, default=RESULTS, help="file of the recorded figures")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave callgrind's files there")
    parser.add_argument("--hot", action="store_true", help=f"write the functions that a lone await runs to {FILE.name}")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    wanted = [workload for workload in workloads() if options.only is None or workload.label in options.only]
    if not wanted:
        parser.error(f"no workload is called {options.only}: there are {[known.label for known in workloads()]}")
    here = "compiled" if aiokafkapy.compiled else "interpreted"
    if options.here:
        print(here)
        run_marked(wanted, here, _mark)
        return 0
    if options.turns:
        print(json.dumps(measure(lambda mark, run: run_marked(wanted, here, mark, run))))
        return 0
    if options.hot:
        return _write_hot()
    forms: tuple[str, ...] = FORMS if options.form is None else (options.form,)
    if not aiokafkapy.compiled:
        forms = tuple(form for form in forms if form == "interpreted")
    found = {}
    for form in forms:
        counted = [workload for workload in wanted if workload.is_counted(form)]
        if not counted:
            continue
        print(f"counting in the {form} form", file=sys.stderr, flush=True)
        try:
            found[form] = count_form(form, counted, options.keep), count_work(form, counted)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 2
    if options.record:
        _write(options.file, found)
        return 0
    worse = sum(_print_compared(form, *counts, options.file) for form, counts in found.items())
    return int(worse > 0)


# internals


async def _run_marked(workload: Workload, form: str, mark: Callable[[], object]) -> None:
    short, long = workload.lengths(form)
    with _network(workload) as options:
        # The metadata of 10,000 partitions takes longer here than a client waits at its first attempts.
        async with KafkaProducer[Any, Any](**options, max_block_ms=PATIENCE_MS) as producer:
            await producer.partitions_for(producer_sink.TOPIC)
            for count in (short, short, long):  # the first one's warm-up, imports for example, is not counted
                before = producer.statistics().delivered
                result = await workload.run(producer, workload.value, count)
                del result  # releasing its objects is a part of its cost
                gc.collect()
                delivered = producer.statistics().delivered - before
                if delivered != count:
                    raise RuntimeError(f"{delivered} of {count} records were delivered")
                mark()


@contextmanager
def _network(workload: Workload) -> Iterator[dict[str, Any]]:
    """The options of a producer for the workload's broker: in this process, or with TLS in one of its own."""
    topics = {producer_sink.TOPIC: workload.partitions}
    if workload.is_over_tls:
        with serving(topics) as options:
            yield options
    else:
        with null_network(NullBroker(topics)):
            yield {"bootstrap_servers": "127.0.0.1:9092"}


def _run_callgrind(form: str, wanted: Sequence[Workload], directory: Path, **environment: str) -> None:
    """Leave callgrind's files in the directory, one for each mark, under the form's name."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise RuntimeError("there is no valgrind, which counts the instructions: apt-get install valgrind")
    callgrind = [valgrind, "--tool=callgrind", "--dump-before=getpriority", "--dump-instr=no"]
    callgrind.append(f"--callgrind-out-file={directory / form}")
    if _said(form, wanted, "--here", callgrind, environment).strip() != form:
        raise RuntimeError("the core is not compiled here: build it, or count --form interpreted")


def _said(
    form: str,
    wanted: Sequence[Workload],
    option: str,
    under: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> str:
    """The output of this module in a process of its own, with the core in ``form``, ``under`` another program."""
    command = [
        *under,
        sys.executable,
        "-m",
        __spec__.name,
        option,
        *(f"--only={workload.label}" for workload in wanted),
    ]
    environment = {
        **os.environ,
        "AIOKAFKAPY_INTERPRETED": "1" if form == "interpreted" else "0",
        "PYTHONHASHSEED": "0",  # the order in sets and the shape of dicts are then the same each time
        **(more or {}),
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"counting in the {form} form failed:\n{done.stderr}")
    return done.stdout


def _of_two_lengths(marked: Sequence[T], position: int) -> tuple[T, T]:
    """The items of the shorter and of the longer run of the workload at a position, from a list with one item for each
    mark.
    """
    short, long = marked[MARKS * position + 1 : MARKS * (position + 1)]
    return short, long


def _write_hot() -> int:
    """Write the list of the functions that a lone await runs, in clear and over TLS; returns the exit code."""
    lone = [workload for workload in workloads() if workload.run is producer_sink.lone_await]
    runs = []
    with tempfile.TemporaryDirectory() as temporary:
        try:
            count_form("compiled", lone, Path(temporary))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 2
        parts = parts_of(Path(temporary), "compiled")
        for position, workload in enumerate(lone):
            short, long = workload.lengths("compiled")
            runs.append(LoneRuns(*_of_two_lengths(parts, position), long - short))
        functions = write_hot_functions(runs)
    print(f"{len(functions)} functions in {FILE}")
    return 0


def _mark() -> None:
    os.getpriority(os.PRIO_PROCESS, 0)


def _print_compared(form: str, found: Counts, work: Mapping[str, Work], file: Path) -> int:
    """Print a form's figures beside the recorded ones; returns how many got worse."""
    entry = _read(file).get(python_key(form))
    recorded: Counts = {} if entry is None else entry["figures"]
    recorded_work: Mapping[str, Work] = {} if entry is None else entry.get("work", {})
    if entry is None:
        print(f"*** NOTHING IS RECORDED FOR: {python_key(form)}")
        print("*** Nothing was compared. To record: python -m benchmarks instructions --record")
    print(f"\n{form + ', instructions for each record':40}{'recorded':>12}{'now':>12}{'change':>9}")
    worse = 0
    for label, count in found.items():
        before = recorded.get(label)
        if before is None:
            print(f"{label:40}{'':12}{count:12,.0f}{'':9}  not recorded yet")
            continue
        change = count / before
        worse += change > LIMIT
        print(f"{label:40}{before:12,.0f}{count:12,.0f}{change - 1:+9.1%}{'  WORSE' if change > LIMIT else ''}")
    print(f"\n{form + ', of the loop and the allocator':40}" + "".join(f"{kind:>18}" for kind in KINDS_OF_WORK))
    for label, now in work.items():
        cells = []
        for kind in KINDS_OF_WORK:
            known = recorded_work.get(label, {}).get(kind)
            is_worse = known is not None and now[kind] > known * LIMIT + CHANCE
            worse += is_worse
            cells.append(f"{now[kind]:.3f}" + (f", was {known:.3f}" if is_worse else ""))
        print(f"{label:40}" + "".join(f"{cell:>18}" for cell in cells))
    if worse:
        print(f"{worse} figures are more than {LIMIT - 1:.0%} worse.")
    return worse


def _read(file: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return kept


def _write(file: Path, found: Mapping[str, tuple[Counts, Mapping[str, Work]]]) -> None:
    """Put the figures into the file; figures of other Pythons, and of workloads that were not run, stay."""
    kept = _read(file)
    for form, (counts, work) in found.items():
        key = python_key(form)
        entry = kept.setdefault(key, {"figures": {}})
        entry["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        entry["figures"] |= {label: round(count, 1) for label, count in counts.items()}
        entry["work"] = entry.get("work", {}) | {
            label: {name: round(figure, 3) for name, figure in figures.items()} for label, figures in work.items()
        }
        print(f"recorded {len(counts)} figures for: {key}")
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
