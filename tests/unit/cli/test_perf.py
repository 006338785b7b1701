"""The load of ``perf``: its pace, Ctrl-C, and its timings; the figures are in ``test_commands``."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aiokafkapy.cli import perf
from aiokafkapy.cli.perf import BLOCK, DISTINCT_VALUES, Figures, Pace
from aiokafkapy.cli.progress import progress
from aiokafkapy.cli.running import Stop
from aiokafkapy.errors import KafkaError
from tests.unit.virtual_time import elapsed, on_virtual_time


class Producer:
    """Notes when each record came; each is delivered at once, but for those that fail."""

    def __init__(self, fails: bool = False) -> None:
        self.times: list[float] = []
        self.fails = fails

    def send_nowait(self, topic: str, value: bytes) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        self.times.append(loop.time())
        delivery = loop.create_future()
        if self.fails:
            delivery.set_exception(KafkaError("no"))
        else:
            delivery.set_result(None)
        return delivery

    async def send(self, topic: str, value: bytes) -> None:
        await self.send_nowait(topic, value)


@pytest.fixture(autouse=True)
def _virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: asyncio.get_running_loop().time())


async def load(producer: Producer, count: int, rate: float, stop: Stop, tasks: int = 0) -> Figures:
    figures = Figures(1)
    pace = Pace(rate, asyncio.get_running_loop().time())
    given: Any = producer
    with progress("sending", None, is_shown=False) as bar:
        one = perf._Load(
            producer=given,
            topic="t",
            values=[b"a", b"b"],
            count=count,
            pace=pace,
            figures=figures,
            stop=stop,
            bar=bar,
        )
        await (one.send_with_tasks(tasks) if tasks else one.send())
    await asyncio.sleep(0)
    return figures


@pytest.mark.parametrize("tasks", [0, 3])
@on_virtual_time
async def test_records_are_spread_over_the_time_also_at_a_low_rate(tasks: int) -> None:
    producer = Producer()
    begun = time.perf_counter()
    figures = await load(producer, 100, 20, Stop(), tasks)
    assert [one - begun for one in producer.times] == pytest.approx([number / 20 for number in range(100)])
    assert len(figures.latencies) == 100


@pytest.mark.parametrize("tasks", [0, 3])
@pytest.mark.parametrize("rate", [0.01, 1e-300])
@on_virtual_time
async def test_a_request_to_stop_ends_the_wait_for_the_next_record(rate: float, tasks: int) -> None:
    producer, stop = Producer(), Stop()
    begun = time.perf_counter()
    loading = asyncio.create_task(load(producer, 100, rate, stop, tasks))
    await elapsed(5)
    stop.request()
    await loading
    assert time.perf_counter() - begun == pytest.approx(5)
    assert len(producer.times) == 1


def test_a_block_is_as_large_as_the_rate_allows() -> None:
    assert [Pace(rate, 0).block for rate in (-1, 0.5, 20, 1_000, 1e6, float("inf"))] == [BLOCK, 1, 1, 10, BLOCK, BLOCK]


@pytest.mark.parametrize("tasks", [0, 3])
@on_virtual_time
async def test_a_record_that_failed_has_no_latency(tasks: int) -> None:
    figures = await load(Producer(fails=True), 10, -1, Stop(), tasks)
    assert figures.latencies == []
    assert figures.first_error == "no"


def test_values_are_letters_and_differ() -> None:
    values = perf._values(100, DISTINCT_VALUES)
    assert len(set(values)) == DISTINCT_VALUES
    assert {len(value) for value in values} == {100}
    assert all(value.isalpha() and value.isupper() for value in values)
