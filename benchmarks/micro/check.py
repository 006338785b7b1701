"""``python -m benchmarks check``: fails when a record costs the client 15 % more than was recorded on this machine.

It compares the figures of ``null_sink`` in both forms of the core, as ratios to its calibration loop, so that a slower
moment of the machine is no regression. A figure that looks bad is measured again, each time in a new process, and only
fails when it never comes out well: a disturbance makes a measurement slower, never faster.

Recorded figures are in ``benchmarks/results/null-sink.json``, by machine: processor, cores, Python and form.
``--record`` writes them, from several processes. A machine that is not in there has nothing to compare with: that is
said, and is no failure. Exit code 1 means worse, 0 everything else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import aiokafkapy

from .null_sink import FORMS, Measured, calibrate, measure_form

__all__ = ["LIMIT", "Comparison", "check", "compare", "confirm", "machine_key", "main", "record", "wait_for_quiet"]

RESULTS = Path(__file__).parents[1] / "results" / "null-sink.json"
LIMIT = 1.15
"""A figure that is at more than this of the recorded one is worse."""
ROUNDS = 5
REPEATS = 4
"""The number of times that a figure that looks bad is measured again before it counts as worse."""
RECORDED_RUNS = 3
"""Processes whose middle one is recorded: the placement of memory makes a few per cent between two."""

QUIET = 1.1
"""A machine that is quiet gives a process nearly all the time that it wants: so much time passes at most for its CPU
time.
"""
PATIENCE_SECONDS = 30.0
"""The longest wait for a quiet moment before something is measured again."""

MeasureForm = Callable[[str, Iterable[str] | None], Mapping[str, Measured]]
"""Measures a form: all its figures, or those with these labels."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure beside the recorded one, which is None when it was not recorded."""

    label: str
    recorded: Measured | None
    found: Measured

    @property
    def change(self) -> float:
        """The cost of the record now, relative to the recorded cost."""
        return 1.0 if self.recorded is None else self.found.ratio / self.recorded.ratio

    @property
    def is_worse(self) -> bool:
        """True when it costs more than ``LIMIT`` allows."""
        return self.change > LIMIT


def compare(recorded: Mapping[str, Measured], found: Mapping[str, Measured]) -> list[Comparison]:
    """Every figure that was found, beside the recorded one of its label."""
    return [Comparison(label, recorded.get(label), figure) for label, figure in found.items()]


def confirm(
    recorded: Mapping[str, Measured],
    found: Mapping[str, Measured],
    measure_again: Callable[[list[str]], Mapping[str, Measured]],
) -> list[Comparison]:
    """``compare``; figures that look worse are measured again, ``REPEATS`` times at most; the best of a figure
    counts.
    """
    best = dict(found)
    for _ in range(REPEATS):
        worse = [comparison.label for comparison in compare(recorded, best) if comparison.is_worse]
        if not worse:
            break
        for label, figure in measure_again(worse).items():
            best[label] = min(best[label], figure, key=lambda candidate: candidate.ratio)
    return compare(recorded, best)


def check(
    recorded: Mapping[str, Mapping[str, Measured]], forms: Sequence[str], measure: MeasureForm
) -> dict[str, list[Comparison]]:
    """Measure the ``forms`` and compare them with the ``recorded`` figures of each."""
    return {
        form: confirm(recorded[form], measure(form, None), lambda labels, form=form: measure(form, labels))  # type: ignore[misc]
        for form in forms
    }


def wait_for_quiet(
    patience: float = PATIENCE_SECONDS,
    *,
    work: Callable[[], float] = calibrate,
    clock: Callable[[], float] = perf_counter,
    sleep: Callable[[float], object] = sleep,
) -> bool:
    """Return once nobody else wants this machine's processors, or after ``patience`` seconds: False then.

    ``work`` returns its CPU seconds.
    """
    deadline = clock() + patience
    while True:
        started = clock()
        cpu = work()
        if clock() - started <= cpu * QUIET:
            return True
        if clock() >= deadline:
            return False
        sleep(1.0)


def record(forms: Sequence[str], measure: MeasureForm) -> dict[str, dict[str, Measured]]:
    """Measure the ``forms`` some times; of each figure the run with the middle ratio."""
    found: dict[str, dict[str, Measured]] = {}
    for form in forms:
        runs = [measure(form, None) for _ in range(RECORDED_RUNS)]
        found[form] = {label: _middle([run[label] for run in runs]) for label in runs[0]}
    return found


def machine_key(form: str) -> str:
    """The surroundings in which figures are comparable: processor, cores, Python, form."""
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {form}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks check", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write this machine's figures instead of comparing")
    parser.add_argument("--form", choices=FORMS, help="only this form (default: both)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of a measurement (default {ROUNDS})")
    parser.add_argument("--file", type=Path, default=RESULTS, help="file of the recorded figures")
    options = parser.parse_args(arguments)
    forms: tuple[str, ...] = FORMS if options.form is None else (options.form,)
    if not aiokafkapy.compiled:
        forms = tuple(form for form in forms if form == "interpreted")

    def measure(form: str, labels: Iterable[str] | None) -> Mapping[str, Measured]:
        again = "" if labels is None else f" again: {', '.join(labels)}"
        if labels is not None and not wait_for_quiet():
            print("*** this machine is busy: do not trust the result", file=sys.stderr)
        print(f"measuring the {form} form{again}", file=sys.stderr, flush=True)
        return measure_form(form, rounds=options.rounds, labels=labels)

    if options.record:
        _write(options.file, record(forms, measure))
        return 0
    recorded = _read(options.file)
    known = [form for form in forms if form in recorded]
    for form in forms:
        if form not in recorded:
            print(f"*** NOTHING IS RECORDED FOR: {machine_key(form)}")
            print("*** Nothing was compared. On a quiet machine: python -m benchmarks check --record")
    comparisons = check(recorded, known, measure)
    _print(comparisons, recorded)
    return int(any(comparison.is_worse for found in comparisons.values() for comparison in found))


# internals


def _print(comparisons: Mapping[str, list[Comparison]], recorded: Mapping[str, Mapping[str, Measured]]) -> None:
    for form, found in comparisons.items():
        print(f"\n{form + ', CPU µs for each record':52}{'recorded':>10}{'now':>10}{'change':>9}")
        for comparison in found:
            before = "" if comparison.recorded is None else f"{comparison.recorded.median_us:.3f}"
            remark = "  WORSE" if comparison.is_worse else "" if before else "  not recorded yet"
            change = f"{comparison.change - 1:+.1%}" if before else ""
            print(f"{comparison.label:52}{before:>10}{comparison.found.median_us:10.3f}{change:>9}{remark}")
        for label in sorted(recorded[form].keys() - {comparison.label for comparison in found}):
            print(f"{label:52}{recorded[form][label].median_us:10.3f}{'':>19}  not measured any more")
    if not comparisons:
        return
    worse = sum(comparison.is_worse for found in comparisons.values() for comparison in found)
    print("\nThe change is that of the ratio to a calibration loop, so it may differ from that of the microseconds.")
    print(f"{worse} figures are more than {LIMIT - 1:.0%} worse." if worse else "No figure got worse.")


def _middle(figures: Sequence[Measured]) -> Measured:
    middle = statistics.median_low(figure.ratio for figure in figures)
    return next(figure for figure in figures if figure.ratio == middle)


def _read(path: Path) -> dict[str, dict[str, Measured]]:
    """The recorded figures of this machine, by form."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return {
        form: {label: Measured(**figure) for label, figure in kept[machine_key(form)]["figures"].items()}
        for form in FORMS
        if machine_key(form) in kept
    }


def _write(path: Path, found: Mapping[str, Mapping[str, Measured]]) -> None:
    """Put this machine's figures into the file; other machines' stay."""
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for form, figures in found.items():
        kept[machine_key(form)] = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "figures": {label: _as_json(figure) for label, figure in figures.items()},
        }
        print(f"recorded {len(figures)} figures for: {machine_key(form)}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _as_json(figure: Measured) -> dict[str, float]:
    return {
        "best_us": round(figure.best_us, 4),
        "median_us": round(figure.median_us, 4),
        "ratio": round(figure.ratio, 4),
        "records": figure.records,
        "rounds": figure.rounds,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


if __name__ == "__main__":
    sys.exit(main())
