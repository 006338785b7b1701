"""``run(seed)``: one seed in virtual time, from its start to its findings.

It is a function of the seed (in a process with PYTHONHASHSEED=0, see ``__main__``): the same calls, the same bytes, the
same virtual times; ``Report.fingerprint`` says whether two runs were the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, Final, Literal
from unittest import mock

import aiokafkapy.observability.rendering  # noqa: F401  # with the first event logged: some modules draw as they begin
from aiokafkapy.producer.deliveries.shortcuts import now_ms

from .scenario import Report, Scenario
from .simulated_loop import Deadlock, SimulatedLoop
from .spooling_scenario import SpoolingScenario
from .transactional_scenario import TransactionalScenario

__all__ = ["KINDS", "Kind", "left_in_memory", "run"]

EPOCH = 1_700_000_000.0
"""The wall-clock time at loop time zero."""
SHARE_WITH_TRANSACTIONS = 0.4
SHARE_WITH_SPOOL = 0.3
"""Of the others."""

Kind = Literal["plain", "transactions", "spool"]
KINDS: Final[dict[Kind, type[Scenario]]] = {
    "plain": Scenario,
    "transactions": TransactionalScenario,
    "spool": SpoolingScenario,
}

_loops: list[tuple[int, weakref.ref[SimulatedLoop]]] = []
"""Of the seeds that ``left_in_memory`` was not asked about yet."""


def run(seed: int, *, keep_trace: bool = False, kind: Kind | None = None) -> Report:
    """Run one seed to its end, of a kind that the seed chooses. Raises nothing: a failure is a finding."""
    scenario = KINDS[kind or _kind_of(seed)](seed, keep_trace)
    loop = scenario.loop
    with _virtual_world(scenario, seed), warnings.catch_warnings(record=True) as caught:
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

    The last seed does not count: the interpreter keeps its loop until there is another one.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):  # what has a finalizer, as a coroutine has, may be freed a collection later
            gc.collect()
    findings = [f"seed {seed} is still in memory" for seed, loop in _loops[:-1] if loop() is not None]
    del _loops[:-1]
    return findings + [f"a late warning: {warning.message}" for warning in caught]


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


@contextlib.contextmanager
def _virtual_world(scenario: Scenario, seed: int) -> Iterator[None]:
    """Clocks, chance and listening sockets of the machine are replaced, for as long as this lasts."""
    loop, network = scenario.loop, scenario.network
    entropy = random.Random(f"{seed}/entropy")
    random.seed(f"{seed}/global")

    def wall_time() -> float:
        return EPOCH + loop.time()

    class SeededRandom(random.Random):
        def __init__(self, x: Any = None) -> None:
            super().__init__(entropy.random() if x is None else x)

    with contextlib.ExitStack() as stack:
        for place, stand_in in (
            ("time.monotonic", loop.time),
            ("time.time", wall_time),
            ("time.thread_time", loop.time),  # no codec is chosen by the machine's speed
            (f"{now_ms.__module__}.time", wall_time),
            ("os.urandom", entropy.randbytes),
            ("random.Random", SeededRandom),
            ("aiokafkapy.broker.network.socket_server._listening_socket", network.listener),
            ("aiokafkapy.broker.network.held_ports.HeldPorts.hold", lambda *_: None),  # no port is the machine's
            ("aiokafkapy.client.transport.connector.speaks_tls", network.speaks_tls),
            ("aiokafkapy.client.transport.connector.sasl_mechanisms", network.sasl_mechanisms),
            *scenario.stand_ins(),
        ):
            stack.enter_context(mock.patch(place, stand_in))
        yield
