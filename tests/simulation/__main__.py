"""``python -m tests.simulation``: run seeds of the simulation, for a number of them or for a time, and report.

Each seed is a cluster, producers, users and faults of its own, in virtual time; see ``scenario``. A seed that finds a
broken promise is printed with its schedule, and ``--seed N`` replays it exactly.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

from .run import KINDS, Kind, left_in_memory, run
from .scenario import Report

PROGRESS_SECONDS = 10.0
MOST_SHOWN = 10
SEEDS_BETWEEN_COLLECTIONS = 50


def main() -> int:
    """0 when nothing was found, 1 otherwise, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--seed", type=int, help="replay one seed, with its schedule and everything that happened")
    what.add_argument("--seeds", type=int, default=1_000, help="how many seeds (default: 1000)")
    what.add_argument("--minutes", type=float, help="run seeds for so long instead")
    what.add_argument("--cpu-seconds", type=float, help="run seeds until they have used so much of a processor")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--kind", choices=KINDS, help="of all seeds, which choose their kind otherwise")
    parser.add_argument("--stop-after", type=int, default=5, metavar="N", help="seeds with findings (default: 5)")
    arguments = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order in sets of strings is part of the course of events: the same seed must give the same run.
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], _environment())
    logging.disable(logging.CRITICAL)
    if arguments.seed is not None:
        return _replay(arguments.seed, arguments.kind)
    if arguments.minutes is not None:
        return _run_many(_seeds_for(arguments.minutes * 60, arguments.first), arguments)
    if arguments.cpu_seconds is not None:
        seeds = _seeds_for(arguments.cpu_seconds, arguments.first, time.process_time)
        return _run_many(seeds, arguments)
    return _run_many(iter(range(arguments.first, arguments.first + arguments.seeds)), arguments)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "0"}


def _seeds_for(seconds: float, first: int, clock: Callable[[], float] = time.perf_counter) -> Iterator[int]:
    end = clock() + seconds
    for seed in itertools.count(first):
        if clock() > end:
            return
        yield seed


def _run_many(seeds: Iterator[int], arguments: argparse.Namespace) -> int:
    started = last_shown = time.perf_counter()
    counts: Counter[str] = Counter()
    virtual_seconds, bad, done = 0.0, 0, 0
    for seed in seeds:
        report = run(seed, kind=arguments.kind)
        done += 1
        counts.update(report.counts)
        virtual_seconds += report.virtual_seconds
        if report.findings:
            bad += 1
            _show(report, arguments.kind)
            if bad >= arguments.stop_after:
                break
        if done % SEEDS_BETWEEN_COLLECTIONS == 0:
            bad += _show_leftovers()
        if time.perf_counter() - last_shown > PROGRESS_SECONDS:
            last_shown = time.perf_counter()
            print(f"{done} seeds, up to {seed}, {counts['records']:,} records, {bad} with findings", flush=True)
    bad += _show_leftovers()
    elapsed = time.perf_counter() - started
    print(f"{done} seeds in {elapsed:.1f} s, {virtual_seconds / 3600:.1f} hours of virtual time: {bad} with findings")
    print(", ".join(f"{count:,} {name}" for name, count in counts.most_common()))
    return 1 if bad else 0


def _show_leftovers() -> int:
    """The number of findings that belong to no single seed."""
    findings = left_in_memory()
    for finding in findings:
        print(f"  FOUND {finding}", flush=True)
    return len(findings)


def _replay(seed: int, kind: Kind | None) -> int:
    report = run(seed, keep_trace=True, kind=kind)
    print("\n".join(report.trace))
    _show(report, kind)
    print(f"seed {seed}: {len(report.findings)} findings, fingerprint {report.fingerprint}")
    return 1 if report.findings else 0


def _show(report: Report, kind: Kind | None) -> None:
    of_kind = f" --kind {kind}" if kind else ""
    print(f"seed {report.seed}: replay it with python -m tests.simulation --seed {report.seed}{of_kind}")
    for number, options in enumerate(report.options):
        print(f"  producer {number}: " + " ".join(f"{name}={value}" for name, value in options.items()))
    for fault in report.schedule:
        print(f"  {fault}")
    for finding in report.findings[:MOST_SHOWN]:
        print(f"  FOUND {finding}", flush=True)
    if len(report.findings) > MOST_SHOWN:
        print(f"  and {len(report.findings) - MOST_SHOWN} more", flush=True)


if __name__ == "__main__":
    sys.exit(main())
