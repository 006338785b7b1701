"""``simulate``: runs a coroutine in the worlds of many seeds, until one fails, and tells how to run that seed again.

Owns the choice of the seeds, and ``SimulationFailure``, whose message has the seed, the command, the smallest set of
faults and the end of the timeline. ``run_seed`` makes one run.

Rule: with ``AIOKAFKAPY_SIMULATION_SEED`` in the environment, which the pytest plugin's ``--kafka-seed`` sets, that seed
is the only one.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from .faults import Fault, Faults
from .guard import SimulationError
from .shrinking import smallest
from .simulation import Report, Scenario, Settings, run_seed

__all__ = ["SEED_VARIABLE", "SimulationFailure", "simulate"]

SEED_VARIABLE: Final = "AIOKAFKAPY_SIMULATION_SEED"
MOST_LINES: Final = 30
"""Lines of the timeline in a message."""
TIME_LIMIT: Final = 4_000.0
"""Seconds: an hour, and the time for the end of the run."""


class SimulationFailure(AssertionError):  # as pytest and hypothesis name theirs
    """A seed failed; its error is the cause. ``report`` has the whole timeline of the run with the fewest faults."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report
        self.seed = report.seed


def simulate(
    scenario: Scenario,
    seeds: int | Iterable[int] = 100,
    *,
    faults: Faults | None = Faults(),  # noqa: B008  # frozen
    nodes: int = 3,
    broker: Mapping[str, Any] | None = None,
    threads: Literal["refused", "simulated"] = "refused",
    time_limit: float = TIME_LIMIT,
    shrink: bool = True,
) -> list[Report]:
    """Run ``await scenario(world)`` in virtual time, once for each seed; returns the reports if no seed failed.

    ``seeds`` is their number, from 0 on, or the seeds, whole numbers. ``broker`` has options of the ``DevBroker`` of
    ``nodes`` nodes, ``faults`` are the faults (None: none). ``threads="simulated"`` runs a thread's work as one step
    of the loop. After ``time_limit`` virtual seconds a run counts as hung. With ``shrink`` a failing seed is run again
    with fewer faults.

    Raises SimulationFailure for the first seed that fails: the coroutine raised, it waits for an event that will never
    happen, or it used something that a simulation lacks, which is a SimulationError. Raises ValueError for arguments
    out of their limits, and SimulationError if a loop is running.
    """
    if asyncio._get_running_loop() is not None:
        raise SimulationError("simulate() runs a loop of its own: call it from a plain function, `def test_…`")
    if nodes < 1:
        raise ValueError(f"nodes={nodes}: a cluster has at least one node")
    if threads not in ("refused", "simulated"):
        raise ValueError(f"threads={threads!r}: write 'refused' or 'simulated'")
    if not time_limit > 0:
        raise ValueError(f"time_limit={time_limit}: write more than 0 seconds")
    chosen = _chosen(seeds)
    settings = Settings(faults, nodes, dict(broker or {}), threads, time_limit)
    reports = []
    for number, seed in enumerate(chosen):
        report = run_seed(scenario, seed, settings)
        if report.error is not None:
            if type(report.error).__name__ == "Skipped":  # pytest's variable
                raise report.error
            drawn = report.schedule
            if shrink:
                report = _shrunk(scenario, settings, report)
            message = _message(report, drawn, f"seed {seed} failed, after {number} that did not")
            raise SimulationFailure(message, report) from report.error
        reports.append(report)
    return reports


def _chosen(seeds: int | Iterable[int]) -> Sequence[int]:
    given = os.environ.get(SEED_VARIABLE)
    if given is not None:
        try:
            return [int(given)]
        except ValueError:
            raise ValueError(f"{SEED_VARIABLE}={given!r}: a seed is a whole number") from None
    chosen = range(seeds) if isinstance(seeds, int) else list(seeds)
    if isinstance(seeds, str | bytes) or not all(isinstance(each, int) for each in chosen):
        raise ValueError(f"seeds={seeds!r}: write their number, or the seeds, which are whole numbers")
    if not chosen:
        raise ValueError(f"seeds={seeds!r}: without a seed nothing is tested")
    return chosen


def _shrunk(scenario: Scenario, settings: Settings, failed: Report) -> Report:
    """The report with the fewest faults."""
    best = failed

    def fails(faults: Sequence[Fault]) -> bool:
        nonlocal best
        report = run_seed(scenario, failed.seed, settings, faults)
        if type(report.error) is not type(failed.error):
            return False
        best = report
        return True

    smallest(failed.schedule, fails)
    return best


def _message(report: Report, drawn: Sequence[Fault], headline: str) -> str:
    error = report.error
    lines = [f"{headline}: {type(error).__name__}: {error}", f"run it again: {_command(report.seed)}"]
    count = len(report.schedule)
    if not drawn:
        lines.append("no faults")
    elif not count:
        lines.append(f"no faults are needed; {len(drawn)} were drawn")
    elif count < len(drawn):
        lines.append(f"{count} of {len(drawn)} faults {'is' if count == 1 else 'are'} enough:")
    else:
        lines.append(f"{count} fault{'' if count == 1 else 's'}:")
    lines += [f"  {fault}" for fault in report.schedule]
    lines += _end_of(report.timeline)
    return "\n".join(lines)


def _end_of(timeline: Sequence[str]) -> list[str]:
    """The last lines, and the earlier ones about faults."""
    earlier, last = timeline[:-MOST_LINES], timeline[-MOST_LINES:]
    told = [line for line in earlier if " fault " in line]
    if len(earlier) > len(told):
        told.append(f"... {len(earlier) - len(told)} more lines before these, in .report.timeline")
    return ["what happened:", *(f"  {line}" for line in (*told, *last))]


def _command(seed: int) -> str:
    hash_seed = os.environ.get("PYTHONHASHSEED", "")
    prefix = f"PYTHONHASHSEED={hash_seed} " if hash_seed.isdigit() else ""
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test is not None:
        return f"{prefix}pytest {shlex.quote(test.rpartition(' ')[0])} --kafka-seed {seed}"
    return f"{prefix}{SEED_VARIABLE}={seed} {shlex.join(['python', *sys.argv])}"
