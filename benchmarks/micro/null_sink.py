"""``python -m benchmarks.micro.null_sink``: the CPU time that a record costs the client, without a network or a broker.

Two groups of figures: ``producer`` is the whole ``KafkaProducer`` with answers faked in this process, on uvloop;
``accumulator`` its core alone. Both are measured in both forms, compiled and interpreted, each form in a process of its
own. Figures are microseconds of CPU for each record: the best of the rounds and their median.

Each timing is put between two of a fixed loop of pure Python, the calibration. The ratio of the two is the record's
cost in units of this machine at this moment; ``check`` compares it, since a shared machine, or one that changes its
clock, slows both alike. Still: run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import aiokafkapy

from . import accumulator_sink, producer_sink
from .accumulator_sink import AccumulatorSink

__all__ = ["FORMS", "Figure", "Measured", "calibrate", "figures", "measure", "measure_form", "print_table"]

FORMS = ("compiled", "interpreted")
ROUNDS = 7
INTERPRETED_SHARE = 4
"""Interpreted, a fourth of the records takes about as long."""
CALIBRATION_LOOPS = 40_000
CALIBRATION_PAGE = 4_096

SMALL, LARGE = b"x" * 100, b"x" * 1024

_MEMORY = bytearray(24 * 1024 * 1024)
"""More than the caches of one core."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: ``run(count)`` returns the CPU seconds that ``count`` records took."""

    group: str
    name: str
    records: int
    run: Callable[[int], float]

    @property
    def label(self) -> str:
        """Group and name."""
        return f"{self.group}: {self.name}"


@dataclass(frozen=True, slots=True)
class Measured:
    """The findings for one figure."""

    best_us: float
    median_us: float
    ratio: float
    """Median over the rounds of the time of a record in calibrations, in millionths."""
    records: int
    rounds: int


def figures() -> list[Figure]:
    """All figures, in the order of the table."""
    found = [
        _of_producer("lone await, 100 B", producer_sink.lone_await, SMALL, 4_000),
        _of_producer("1,000 workers, 100 B", producer_sink.workers, SMALL, 60_000),
        _of_producer("pipelined enqueue, 100 B", producer_sink.pipelined, SMALL, 100_000),
        _of_producer("send_nowait, 100 B, kept", producer_sink.send_nowait_kept, SMALL, 120_000),
        _of_producer("send_nowait, 100 B, not kept", producer_sink.send_nowait, SMALL, 160_000),
        _of_producer("send_many, 100 B", producer_sink.send_many, SMALL, 800_000),
        _of_producer("keyed enqueue, 6 partitions, 100 B", producer_sink.keyed, SMALL, 80_000),
        _of_producer("keyed enqueue, 10,000 partitions, 100 B", producer_sink.keyed, SMALL, 20_000, partitions=10_000),
        _of_producer("keyed by turns, 6 partitions, 100 B", producer_sink.keyed_by_turns, SMALL, 80_000),
        _of_producer(
            "keyed by turns, 10,000 partitions, 100 B", producer_sink.keyed_by_turns, SMALL, 40_000, partitions=10_000
        ),
        _of_producer("lone await, 1 KiB", producer_sink.lone_await, LARGE, 4_000),
        _of_producer("1,000 workers, 1 KiB", producer_sink.workers, LARGE, 60_000),
        _of_producer("pipelined enqueue, 1 KiB", producer_sink.pipelined, LARGE, 60_000),
        _of_producer("send_nowait, 1 KiB, kept", producer_sink.send_nowait_kept, LARGE, 80_000),
        _of_producer("send_nowait, 1 KiB, not kept", producer_sink.send_nowait, LARGE, 80_000),
        _of_producer("send_many, 1 KiB", producer_sink.send_many, LARGE, 200_000),
    ]
    if find_spec("pyarrow") is not None:
        found += [
            _of_producer("send_arrow, 100 B", producer_sink.send_arrow, SMALL, 1_000_000),
            _of_producer("send_arrow, 1 KiB", producer_sink.send_arrow, LARGE, 200_000),
        ]
    append, key = accumulator_sink.append, b"k" * 10
    return [
        *found,
        _of_accumulator("append, 100 B", append, SMALL, 200_000),
        _of_accumulator("append, 100 B, deliveries kept", partial(append, is_kept=True), SMALL, 200_000),
        _of_accumulator("append, 100 B, key of 10 B", partial(append, key=key), SMALL, 200_000),
        _of_accumulator("append, 1 KiB", append, LARGE, 100_000),
        _of_accumulator("append_many, 100 B", accumulator_sink.append_many, SMALL, 800_000),
        _of_accumulator("append_many, 1 KiB", accumulator_sink.append_many, LARGE, 200_000),
        _of_accumulator("lone record, 100 B", accumulator_sink.lone, SMALL, 10_000),
    ]


def calibrate() -> float:
    """CPU seconds of a fixed piece of pure Python: calls, dicts and small objects that stay in the caches, then copies
    and fresh objects that do not, since a busy neighbour slows those more. It must never change: recorded
    ratios would lose their meaning.
    """
    started = process_time()
    table: dict[int, tuple[int, bytes]] = {}
    data = bytes(range(256))
    for number in range(CALIBRATION_LOOPS):
        place = number * 7919 & 1023
        entry = table.get(place)
        table[place] = (number, data[place & 127 :] if entry is None or entry[0] & 1 else entry[1])
    view, page = memoryview(_MEMORY), bytes(CALIBRATION_PAGE)
    kept = []
    for start in range(0, len(_MEMORY), CALIBRATION_PAGE):
        view[start : start + CALIBRATION_PAGE] = page
        kept.append((start, bytes(view[start : start + 200])))
    sum(start + copy[0] for start, copy in kept)
    return process_time() - started


def measure(wanted: Sequence[Figure], rounds: int = ROUNDS) -> dict[str, Measured]:
    """Measure figures by label: interleaved, after one round that is not counted."""
    share = 1 if aiokafkapy.compiled else INTERPRETED_SHARE
    counts = {figure.label: max(1_000, figure.records // share // 1_000 * 1_000) for figure in wanted}
    times: dict[str, list[float]] = {figure.label: [] for figure in wanted}
    ratios: dict[str, list[float]] = {figure.label: [] for figure in wanted}
    for number in range(rounds + 1):
        before = calibrate()
        for figure in wanted:
            gc.collect()
            seconds = figure.run(counts[figure.label]) / counts[figure.label]
            after = calibrate()
            if number:
                times[figure.label].append(seconds)
                ratios[figure.label].append(seconds / ((before + after) / 2))
            before = after
    return {
        label: Measured(
            best_us=min(found) * 1e6,
            median_us=statistics.median(found) * 1e6,
            ratio=statistics.median(ratios[label]) * 1e6,
            records=counts[label],
            rounds=rounds,
        )
        for label, found in times.items()
    }


def measure_form(
    form: str, *, rounds: int = ROUNDS, only: str | None = None, labels: Iterable[str] | None = None
) -> dict[str, Measured]:
    """Measure in a process of its own, with the core in ``form``; raises RuntimeError when it cannot be had.

    ``only`` is a regular expression that a figure's label must contain, ``labels`` names figures outright.
    """
    command = [sys.executable, "-m", __spec__.name, "--here", "--rounds", str(rounds)]
    command += ["--only", only] if only is not None else []
    command += [f"--label={label}" for label in labels] if labels is not None else []
    environment = os.environ | {
        "AIOKAFKAPY_INTERPRETED": "1" if form == "interpreted" else "0",
        "PYTHONHASHSEED": "0",  # the order in sets and the shape of dicts are then the same each time
    }
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the measurement of the {form} form failed:\n{done.stderr}")
    printed = json.loads(done.stdout)
    if printed["form"] != form:
        raise RuntimeError("the core is not compiled here: build it, or measure --form interpreted")
    return {label: Measured(**found) for label, found in printed["figures"].items()}


def print_table(found: Mapping[str, Mapping[str, Measured]]) -> None:
    """Figures by form and label, a row for each figure."""
    forms = list(found)
    print(f"{'CPU µs for each record':52}" + "".join(f"{form + ' best':>18}{'median':>10}" for form in forms))
    for label in dict.fromkeys(label for measured in found.values() for label in measured):
        cells = [
            f"{found[form][label].best_us:18.3f}{found[form][label].median_us:10.3f}"
            if label in found[form]
            else " " * 28
            for form in forms
        ]
        print(f"{label:52}" + "".join(cells))


def _of_producer(name: str, workload: Any, value: bytes, records: int, **options: Any) -> Figure:
    return Figure("producer", name, records, lambda count: producer_sink.cpu_seconds(workload, value, count, **options))


def _of_accumulator(name: str, work: Callable[..., object], value: bytes, records: int) -> Figure:
    def run(count: int) -> float:
        sink = AccumulatorSink()
        started = process_time()
        work(sink, value, count)
        return process_time() - started

    return Figure("accumulator", name, records, run)


def _selected(only: str | None, labels: Sequence[str] | None) -> list[Figure]:
    return [
        figure
        for figure in figures()
        if (only is None or re.search(only, figure.label)) and (not labels or figure.label in labels)
    ]


def main() -> None:
    """Measure the forms asked for, print a table, write JSON where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro.null_sink", description=__doc__)
    parser.add_argument("--form", choices=(*FORMS, "both"), default="both" if aiokafkapy.compiled else "interpreted")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"counted rounds (default {ROUNDS})")
    parser.add_argument("--only", metavar="PATTERN", help="figures whose label matches this regular expression")
    parser.add_argument("--label", action="append", help="one figure by its whole label; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--list", action="store_true", help="only name the figures")
    parser.add_argument("--here", action="store_true", help="in this process, in its form; JSON on standard output")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(figure.label for figure in figures()))
        return
    if arguments.here:
        measured = measure(_selected(arguments.only, arguments.label), arguments.rounds)
        form = "compiled" if aiokafkapy.compiled else "interpreted"
        print(json.dumps({"form": form, "figures": {label: asdict(found) for label, found in measured.items()}}))
        return
    forms = FORMS if arguments.form == "both" else (arguments.form,)
    found = {
        form: measure_form(form, rounds=arguments.rounds, only=arguments.only, labels=arguments.label) for form in forms
    }
    print_table(found)
    if arguments.json is not None:
        as_dicts = {
            form: {label: asdict(figure) for label, figure in measured.items()} for form, measured in found.items()
        }
        arguments.json.write_text(json.dumps(as_dicts, indent=1) + "\n")


if __name__ == "__main__":
    main()
