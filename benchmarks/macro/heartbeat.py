"""The lateness of a 1 ms heartbeat on the loop beside a load, and its causes.

A process of its own (see ``measurement.figures_of``): a task sleeps for a millisecond, over and over, and notes how
much later than that it woke. The measurement's workload names the load beside it: ``bulk`` (``send_many``), ``flood``
(``enqueue``), ``arrow`` (``send_arrow``), ``large`` (1 MB messages, a few at a time; the option ``compression_type``
names the codec). With the client ``nobody`` there is no producer at all, for comparison: ``sleeping`` only has the
heartbeat, ``competitor`` has a loop kept busy in slices of a fraction of a millisecond beside another process that does
nothing but compute, as a broker on the same machine does.

A machine that has fewer cores than busy threads makes everybody late. So each beat also notes how long this thread was
ready to run and had no core (``/proc/self/task/…/schedstat``), the same of the process's other threads, which may have
had the GIL, and how much CPU this thread used since the beat before. Figures, in ms:

- ``lag_p50_ms`` ``lag_p99_ms`` ``lag_max_ms``: as an application sees it.
- ``own_p99_ms`` ``own_max_ms``: the lag without the scheduler's part: without the time for which this thread had no
  core, and, of the time for which it waited for something else, without that for which another thread had none. The
  rest is a blocked loop, or the GIL held by a running thread. The goal is about this rest.
- ``held_max_ms``: the part of that in which this thread was computing.
- ``gc_max_ms``: the longest collection of the garbage collector, part of the lag.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable
from itertools import repeat
from typing import Any, Final

import uvloop

from aiokafkapy.common import percentile
from benchmarks.macro.processes import print_figures
from benchmarks.measurement import Figures, Measurement, MeasurementError, SkippedError, Stopwatch

__all__ = ["Heartbeat", "json_like", "measure"]

BEAT: Final = 0.001
SPIN: Final = 0.0002
COMPETE: Final = "while True: pass"
LARGE_AT_ONCE: Final = 4
WARM_UP: Final = 200


class Heartbeat:
    """The task and its measurements."""

    def __init__(self) -> None:
        self._beats: list[tuple[float, float, float]] = []  # lag, the part that is our own, computed
        self._collections: list[float] = []
        self._collection_started = 0.0
        self._is_over = False
        self._thread = str(threading.get_native_id())

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Beat while the block runs."""
        task = asyncio.create_task(self._run())
        await asyncio.sleep(5 * BEAT)
        self._beats.clear()
        gc.callbacks.append(self._on_collection)
        try:
            yield
        finally:
            gc.callbacks.remove(self._on_collection)
            self._is_over = True
            await task

    @property
    def figures(self) -> Figures:
        """Percentiles and maxima, in milliseconds."""
        lags = sorted(lag for lag, _, _ in self._beats)
        own = sorted(part for _, part, _ in self._beats)
        held = max(min(part, computed) for _, part, computed in self._beats)
        return {
            "beats": float(len(lags)),
            "lag_p50_ms": percentile(lags, 0.5) * 1e3,
            "lag_p99_ms": percentile(lags, 0.99) * 1e3,
            "lag_max_ms": lags[-1] * 1e3,
            "own_p99_ms": percentile(own, 0.99) * 1e3,
            "own_max_ms": own[-1] * 1e3,
            "held_max_ms": held * 1e3,
            "gc_max_ms": max(self._collections, default=0.0) * 1e3,
        }

    # internals

    async def _run(self) -> None:
        clock, cpu = time.perf_counter, time.thread_time
        waited_before, others_before, computed_before = *self._waited(), cpu()
        while not self._is_over:
            before = clock()
            await asyncio.sleep(BEAT)
            lag = clock() - before - BEAT
            (waited, others), computed = self._waited(), cpu()
            used = computed - computed_before
            left = max(0.0, lag - (waited - waited_before))
            own = min(left, max(used, left - (others - others_before)))
            self._beats.append((lag, own, used))
            waited_before, others_before, computed_before = waited, others, computed

    def _waited(self) -> tuple[float, float]:
        """Seconds for which this thread, and all others of the process, were ready to run and had no core, so far."""
        mine = others = 0
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - quick
            try:
                with open(f"/proc/self/task/{thread}/schedstat", "rb") as schedstat:  # noqa: PTH123 - quick
                    nanoseconds = int(schedstat.read().split()[1])
            except OSError:
                continue  # it has ended
            if thread == self._thread:
                mine = nanoseconds
            else:
                others += nanoseconds
        return mine / 1e9, others / 1e9

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._collection_started = time.perf_counter()
        else:
            self._collections.append(time.perf_counter() - self._collection_started)


async def measure(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The heartbeat beside the load that the measurement names."""
    if measurement.client == "nobody":
        figures = await _beside_nobody(measurement)
    else:
        figures = await _beside(_CLIENTS[measurement.client](bootstrap_servers, measurement), measurement, topic)
    return figures | {"messages": float(measurement.count)}


async def _beside(client: Any, measurement: Measurement, topic: str) -> Figures:
    count = measurement.count
    value = json_like(measurement.size)
    load = getattr(client, measurement.workload, None)
    if load is None:
        raise MeasurementError(f"{measurement.client} has no load {measurement.workload!r}")
    await client.start()
    try:
        await asyncio.gather(*(client.send(topic, b"warm-up") for _ in range(WARM_UP)))
        prepared = client.prepare(measurement.workload, value, count)
        warm_up = max(LARGE_AT_ONCE, count // 20)
        await load(topic, value, warm_up)
        gc.collect()
        heartbeat, watch = Heartbeat(), Stopwatch()
        async with heartbeat.beating():
            with watch:
                await load(topic, value, count, prepared)
    finally:
        await client.stop()
    return heartbeat.figures | watch.figures | {"written": float(WARM_UP + warm_up + count)}


async def _beside_nobody(measurement: Measurement) -> Figures:
    """The heartbeat for ``count`` milliseconds: alone, or with a busy loop and a busy process."""
    seconds = measurement.count / 1000
    heartbeat, watch = Heartbeat(), Stopwatch()
    competitor = None
    if measurement.workload == "competitor":
        competitor = await asyncio.create_subprocess_exec(sys.executable, "-c", COMPETE)
    try:
        async with heartbeat.beating():
            with watch:
                if competitor is None:
                    await asyncio.sleep(seconds)
                else:
                    await _spin(seconds)
    finally:
        if competitor is not None:
            competitor.kill()
            await competitor.wait()
    return heartbeat.figures | watch.figures | {"written": 0.0}


async def _spin(seconds: float) -> None:
    clock = time.perf_counter
    end = clock() + seconds
    while (now := clock()) < end:
        while clock() - now < SPIN:
            pass
        await asyncio.sleep(0)


class _Ours:
    """aiokafkapy's loads."""

    def __init__(self, bootstrap_servers: str, measurement: Measurement) -> None:
        from aiokafkapy import KafkaProducer

        self._producer = KafkaProducer(bootstrap_servers, **measurement.options.get("producer", {}))
        self.start, self.stop, self.send = self._producer.start, self._producer.close, self._producer.send

    def prepare(self, load: str, value: bytes, count: int) -> Any:
        """The objects that are made before the clock runs."""
        if load == "arrow" and not hasattr(self._producer, "send_arrow"):
            raise SkippedError("KafkaProducer has no send_arrow")
        return _table(value, count) if load == "arrow" else None

    async def bulk(self, topic: str, value: bytes, count: int, prepared: Any = None) -> None:
        await self._producer.send_many(topic, repeat(value, count))

    async def arrow(self, topic: str, value: bytes, count: int, prepared: Any = None) -> None:
        send_arrow: Any = self._producer.send_arrow  # type: ignore[attr-defined, unused-ignore]
        await send_arrow(topic, prepared or _table(value, count))

    async def flood(self, topic: str, value: bytes, count: int, prepared: Any = None) -> None:
        for _ in range(count):
            await self._producer.enqueue(topic, value)
        await self._producer.flush()

    async def large(self, topic: str, value: bytes, count: int, prepared: Any = None) -> None:
        await _at_once(lambda: self._producer.send(topic, value), count)


class _Aiokafka:
    """aiokafka's, for the loads that it has."""

    def __init__(self, bootstrap_servers: str, measurement: Measurement) -> None:
        from aiokafka import AIOKafkaProducer

        options = {"acks": "all", "enable_idempotence": True, **measurement.options.get("producer", {})}
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **options)
        self.start, self.stop, self.send = self._producer.start, self._producer.stop, self._producer.send_and_wait

    def prepare(self, load: str, value: bytes, count: int) -> Any:
        """Nothing is made before the clock runs."""

    async def flood(self, topic: str, value: bytes, count: int, prepared: Any = None) -> None:
        for _ in range(count):
            await self._producer.send(topic, value)
        await self._producer.flush()

    async def large(self, topic: str, value: bytes, count: int, prepared: Any = None) -> None:
        await _at_once(lambda: self._producer.send_and_wait(topic, value), count)


_CLIENTS: Final[dict[str, Any]] = {"aiokafkapy": _Ours, "aiokafka": _Aiokafka}


def json_like(size: int) -> bytes:
    """Text that compresses about as a web service's JSON does; the same in every process."""
    source = random.Random(size)
    words = [f"{source.randrange(10**6):x}" for _ in range(2_000)]
    rows: list[str] = []
    length = 0
    while length < size:
        row = f'{{"id":{source.randrange(10**6)},"name":"{source.choice(words)}","tags":["{source.choice(words)}"]}},'
        rows.append(row)
        length += len(row)
    return "".join(rows).encode()[:size]


async def _at_once(send: Any, count: int) -> None:
    """``count`` awaited sends, a few at a time."""
    left = iter(range(count))

    async def work(numbers: Iterable[int]) -> None:
        for _ in numbers:
            await send()

    await asyncio.gather(*(work(left) for _ in range(LARGE_AT_ONCE)))


def _table(value: bytes, count: int) -> Any:
    import pyarrow

    return pyarrow.table({"value": pyarrow.array([value] * count, pyarrow.binary())})


if __name__ == "__main__":
    print_figures(measure, uvloop.run)
