"""Memory of a client whose broker has stalled: its growth over the idle client until ``buffer_memory`` is full.

A process of its own (see ``measurement.figures_of``). Between it and the broker stands ``proxy``, which stops reading
while records are sent until one has to wait for room. The broker then goes on, and everything must arrive. The option
``how`` names the way the records are sent:

- ``enqueue``: one by one, deliveries not kept. ``enqueue kept``: the same, every delivery kept by the caller.
- ``send_many``: one call with an endless iterable.
- ``send``: as many tasks as there are records, each awaiting its own; the tasks' memory is the caller's.

Each way is cancelled when a record waits for room, and each value is an object of its own, as a program has them.

Figures: ``growth_mb`` over idle at its highest, ``growth_ratio`` of that to ``buffer_memory``, ``held_mb`` by the
producer's own account, ``records_held``. Memory is resident memory as the kernel sees it (VmHWM, reset when idle).
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import uvloop

from aiokafkapy import KafkaProducer
from benchmarks.macro.processes import Helper, helper, memory_of, print_figures
from benchmarks.measurement import Figures, Measurement, MeasurementError

__all__ = ["measure"]

Filler = Callable[[KafkaProducer[bytes, bytes], str, Iterator[bytes]], Coroutine[Any, Any, None]]
"""Sends records of a topic until it is cancelled."""
WARM_UP: Final = 2_000
WARM_UP_BYTES: Final = 256 * 1024
"""Little, or the memory that is idle after it would not count as growth."""
STALLED_FOR: Final = 1.0
"""Seconds that the client is left with a full buffer: its work in that time counts too."""
FILL_TIMEOUT: Final = 60.0
TASKS_A_TURN: Final = 20


async def measure(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """Fill, wait, look, let go, count."""
    how = measurement.options.get("how", "enqueue")
    options = measurement.options.get("producer", {})
    value = bytes(measurement.size) if "compression_type" not in options else _text(measurement.size)
    async with helper("benchmarks.macro.proxy", bootstrap_servers, 0) as proxy:
        producer = KafkaProducer(proxy.hello["bootstrap_servers"], **options)
        async with producer:
            warm_up = max(1, min(WARM_UP, WARM_UP_BYTES // measurement.size))
            await asyncio.gather(*(producer.send(topic, value) for _ in range(warm_up)))
            figures = await _fill(producer, topic, value, how, proxy)
        counters = producer.statistics()
    if counters.failed or counters.delivered != counters.accepted:
        raise MeasurementError(f"records were lost: {counters}")
    return figures | {"messages": float(counters.delivered), "written": float(counters.delivered)}


async def _fill(producer: KafkaProducer[bytes, bytes], topic: str, value: bytes, how: str, proxy: Helper) -> Figures:
    await proxy.ask("stall")
    idle = _reset_peak()
    started = time.perf_counter()
    filling = asyncio.create_task(_FILLERS[how](producer, topic, _copies(value)))
    while not producer.statistics().waiters:
        if filling.done() or time.perf_counter() - started > FILL_TIMEOUT:
            raise MeasurementError(f"the buffer was never full: {producer.statistics()}")
        await asyncio.sleep(0.01)
    await asyncio.sleep(STALLED_FOR)
    counters, peak = producer.statistics(), memory_of("self", "VmHWM")
    seconds = time.perf_counter() - started
    filling.cancel()
    await proxy.ask("resume")
    await asyncio.wait([filling])
    await producer.flush()
    growth, buffer_memory = peak - idle, counters.buffer_memory
    return {
        "seconds": seconds,
        "idle_mb": idle / 1e6,
        "growth_mb": growth / 1e6,
        "growth_ratio": growth / buffer_memory,
        "held_mb": counters.buffered_bytes / 1e6,
        "buffer_mb": buffer_memory / 1e6,
        "records_held": float(counters.pending),
        "after_mb": memory_of("self", "VmRSS") / 1e6,
    }


# how records are sent


async def _enqueue(producer: KafkaProducer[bytes, bytes], topic: str, values: Iterator[bytes]) -> None:
    for value in values:
        await producer.enqueue(topic, value)


async def _enqueue_kept(producer: KafkaProducer[bytes, bytes], topic: str, values: Iterator[bytes]) -> None:
    kept = []
    for value in values:
        kept.append(await producer.enqueue(topic, value))  # noqa: PERF401 - never comes to an end


async def _send_many(producer: KafkaProducer[bytes, bytes], topic: str, values: Iterator[bytes]) -> None:
    await producer.send_many(topic, values)


async def _send(producer: KafkaProducer[bytes, bytes], topic: str, values: Iterator[bytes]) -> None:
    tasks = []
    try:
        while not producer.statistics().waiters:
            tasks += [asyncio.create_task(producer.send(topic, value)) for value in islice(values, TASKS_A_TURN)]
            await asyncio.sleep(0)
        await asyncio.sleep(FILL_TIMEOUT)
    finally:
        await asyncio.wait(tasks)


_FILLERS: Final[dict[str, Filler]] = {
    "enqueue": _enqueue,
    "enqueue kept": _enqueue_kept,
    "send_many": _send_many,
    "send": _send,
}


# internals


def _reset_peak() -> int:
    """Make this the moment from which the peak counts; returns the resident memory now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return memory_of("self", "VmRSS")


def _copies(value: bytes) -> Iterator[bytes]:
    source = memoryview(value)
    while True:
        yield bytes(source)


def _text(size: int) -> bytes:
    """A value that compresses about as JSON does."""
    from benchmarks.macro.heartbeat import json_like

    return json_like(size)


if __name__ == "__main__":
    print_figures(measure, uvloop.run)
