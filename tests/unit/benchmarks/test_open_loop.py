"""benchmarks.macro.open_loop: latency counts from the time at which a record was due."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.testing import VirtualClock
from benchmarks.macro import open_loop
from benchmarks.measurement import Measurement

RATE = 10


class StallingClient:
    """Takes ``stall`` seconds for the first record, and no time for the others."""

    def __init__(self, clock: VirtualClock, stall: float) -> None:
        self.clock, self.stall = clock, stall
        self.sent: list[float] = []

    async def send(self, topic: str, value: bytes) -> None:
        self.sent.append(round(self.clock.time(), 6))
        self.clock.advance(self.stall)
        self.stall = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The module's time, which goes on where a task sleeps."""
    clock = VirtualClock()

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    monkeypatch.setattr(open_loop, "perf_counter", clock.time)
    monkeypatch.setattr(open_loop, "asyncio", SimpleNamespace(sleep=sleep, TaskGroup=asyncio.TaskGroup))
    return clock


async def _figures(client: Any, milliseconds: int) -> dict[str, float]:
    options = {"tasks": 1, "offered": RATE}
    row = Measurement(group="", workload="paced", client="", count=milliseconds, options=options)
    return await open_loop.paced(client, "topic", row)


async def test_records_go_at_their_times_and_not_before(clock: VirtualClock) -> None:
    client, began = StallingClient(clock, 0.0), clock.time()
    figures = await _figures(client, 500)
    assert [at - began for at in client.sent] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=0.002)
    assert all(at - began >= 0.1 * place - 1e-6 for place, at in enumerate(client.sent, 1))
    assert figures["messages"] == 5
    assert figures["p999_ms"] <= 2.0  # a timer's step


async def test_records_behind_one_that_stalls_are_charged_for_their_wait(clock: VirtualClock) -> None:
    figures = await _figures(StallingClient(clock, 1.0), 500)
    assert figures["p999_ms"] == pytest.approx(1000, abs=2)
    assert figures["p50_ms"] == pytest.approx(800, abs=2)
    assert figures["late_p50_ms"] == pytest.approx(700, abs=2)


async def test_the_capacity_is_measured_once_for_each_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, str]] = []

    async def measure(closed: Measurement, bootstrap_servers: str, topic: str) -> dict[str, float]:
        measured.append((bootstrap_servers, topic))
        return {"rate": 1_000.0 * len(measured), "written": 70.0}

    monkeypatch.setattr(open_loop, "find_entry", lambda closed: measure)
    monkeypatch.setattr(open_loop, "_capacities", {})
    closed = Measurement(group="", workload="closed", client="aiokafka", count=1)

    async def offered(share: float, bootstrap_servers: str, topic: str) -> dict[str, float]:
        row = Measurement(group="", workload="", client="", count=1, options={"share": share})
        return await open_loop.offered(row, closed, bootstrap_servers, topic)

    assert await offered(0.1, "a:1", "t1") == {"offered": 100.0, "capacity": 1_000.0, "written": 70.0}
    assert await offered(0.8, "a:1", "t2") == {"offered": 800.0, "capacity": 1_000.0, "written": 0.0}
    assert await offered(0.5, "b:1", "t3") == {"offered": 1_000.0, "capacity": 2_000.0, "written": 70.0}
    assert measured == [("a:1", "t1"), ("b:1", "t3")]
