"""``run(seed)``: one seed in virtual time, from its start to its findings.

It is a function of the seed (in a process with PYTHONHASHSEED=0, see ``__main__``): the same calls, the same bytes, the
same virtual times; ``Report.fingerprint`` says whether two runs were the same.
"""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
import weakref
from typing import Final, Literal

import aiokafkapy.observability.rendering  # noqa: F401  # with the first event logged: some modules draw as they begin
from aiokafkapy.producer.deliveries.shortcuts import running_loop
from aiokafkapy.testing.simulation.simulated_loop import Deadlock, SimulatedLoop
from aiokafkapy.testing.simulation.virtual_world import virtual_world

from .scenario import Report, Scenario
from .spooling_scenario import SpoolingScenario
from .transactional_scenario import TransactionalScenario

__all__ = ["KINDS", "Kind", "left_in_memory", "run"]

SHARE_WITH_TRANSACTIONS = 0.4
SHARE_WITH_SPOOL = 0.3
"""The share of the other seeds."""

Kind = Literal["plain", "transactions", "spool"]
KINDS: Final[dict[Kind, type[Scenario]]] = {
    "plain": Scenario,
    "transactions": TransactionalScenario,
    "spool": SpoolingScenario,
}

_loops: list[tuple[int, weakref.ref[SimulatedLoop]]] = []
"""The loops of the seeds that ``left_in_memory`` was not asked about yet."""


def run(seed: int, *, keep_trace: bool = False, kind: Kind | None = None) -> Report:
    """Run one seed to its end, of a kind that the seed chooses. Raises nothing: a failure is a finding."""
    scenario = KINDS[kind or _kind_of(seed)](seed, keep_trace=keep_trace)
    loop = scenario.loop
    with virtual_world(loop, seed, scenario.stand_ins()), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.set_event_loop(loop)
        try:
            if not _has_played(scenario):
                scenario.abandon()
                gc.collect()  # so that warnings about unclosed objects are this seed's, not the next one's
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            scenario.remove()
    report = scenario.report
    report.findings += [f"a warning: {warning.message}" for warning in caught]
    report.findings += [f"asyncio complained: {complaint}" for complaint in loop.complaints]
    _loops.append((seed, weakref.ref(loop)))
    report.virtual_seconds = loop.time()
    report.fingerprint = scenario.digest.hexdigest()[:16]
    return report


def left_in_memory() -> list[str]:
    """A finding for each seed that something still refers to, and for each warning that came late.

    The last seed does not count: its report may still be at hand.
    """
    with asyncio.Runner() as runner:
        runner.run(_forget_the_last_loop())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):  # an object with a finalizer, such as a coroutine, may be freed a collection later
            gc.collect()
    findings = [f"seed {seed} is still in memory" for seed, loop in _loops[:-1] if loop() is not None]
    del _loops[:-1]
    return findings + [f"a late warning: {warning.message}" for warning in caught]


async def _forget_the_last_loop() -> None:
    """Ask for the running loop: asyncio and ``shortcuts`` keep the last loop that they gave."""
    running_loop()


def _kind_of(seed: int) -> Kind:
    if random.Random(f"{seed}/transactions").random() < SHARE_WITH_TRANSACTIONS:
        return "transactions"
    return "spool" if random.Random(f"{seed}/spool").random() < SHARE_WITH_SPOOL else "plain"


def _has_played(scenario: Scenario) -> bool:
    # A function of its own, since the error's traceback keeps all frames alive.
    try:
        scenario.loop.run_until_complete(scenario.play())
    except (Deadlock, Exception) as error:
        scenario.find(f"{type(error).__name__}: {error}")
        return False
    return True
