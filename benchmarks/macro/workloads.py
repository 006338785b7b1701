"""The workloads, the same code for every client that has an event loop; ``peer_workloads`` has the others' form.

Every record's outcome is looked at, and a record that failed ends the measurement. Values and keys are made before the
clock starts. A pipelined workload keeps a window of deliveries: while one chunk is sent, the one before it is on its
way, and is awaited before the next begins.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable, Iterator
from itertools import cycle, islice, repeat
from time import perf_counter
from typing import Any, Final

from aiokafkapy.errors import BufferExhaustedError
from benchmarks.clients import Client
from benchmarks.measurement import (
    Figures,
    Measurement,
    MeasurementError,
    SkippedError,
    Stopwatch,
    percentiles,
    workload,
)

__all__ = ["CHUNK", "chunks", "json_values", "keys", "values"]

CHUNK: Final = 100_000
"""Records: two chunks of 100 B fit into ``buffer_memory``, of 1 KiB they do not, and then it is the limit."""
BURST: Final = 1000
"""Calls of ``send_nowait`` between two turns of the loop, which it does not take by itself."""
DISTINCT: Final = 1000
"""Different values where they are to be compressed."""
KEYS: Final = 100_000


@workload("lone await")
async def lone_await(client: Client, topic: str, measurement: Measurement) -> Figures:
    """One awaited send after the other."""
    send, value = client.send, bytes(measurement.size)
    latencies = []
    with Stopwatch() as watch:
        for _ in range(measurement.count):
            before = perf_counter()
            await send(topic, value)
            latencies.append(perf_counter() - before)
    return watch.figures | percentiles(latencies)


@workload("1,000 tasks")
@workload("10,000 tasks")
async def tasks(client: Client, topic: str, measurement: Measurement) -> Figures:
    """``options["tasks"]`` tasks that each await one send after the other, as a web service's handlers do."""
    send, value = client.send, bytes(measurement.size)
    number = measurement.options["tasks"]
    share = max(1, measurement.count // number)
    latencies: list[float] = []

    async def task() -> None:
        for _ in range(share):
            before = perf_counter()
            await send(topic, value)
            latencies.append(perf_counter() - before)

    with Stopwatch() as watch:
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(task())
    return watch.figures | percentiles(latencies) | {"messages": share * number}


@workload("pipelined")
@workload("gzip")
@workload("snappy")
@workload("lz4")
@workload("zstd")
async def pipelined(client: Client, topic: str, measurement: Measurement) -> Figures:
    """Accepted one by one; outcomes are awaited a chunk later."""
    enqueue = client.enqueue
    before: list[Awaitable[Any]] = []
    with Stopwatch() as watch:
        for chunk in chunks(values(measurement), measurement.count):
            deliveries = [await enqueue(topic, value) for value in chunk]
            await _all(before)
            before = deliveries
        await client.flush()
        await _all(before)
    return watch.figures


@workload("keyed")
async def keyed(client: Client, topic: str, measurement: Measurement) -> Figures:
    """As ``pipelined``, with keys that spread over all partitions."""
    enqueue, value = client.enqueue, bytes(measurement.size)
    before: list[Awaitable[Any]] = []
    with Stopwatch() as watch:
        for chunk in chunks(keys(), measurement.count):
            deliveries = [await enqueue(topic, value, key=key) for key in chunk]
            await _all(before)
            before = deliveries
        await client.flush()
        await _all(before)
    return watch.figures


@workload("send_nowait", "aiokafkapy")
async def send_nowait(client: Client, topic: str, measurement: Measurement) -> Figures:
    """No call waits; a turn of the loop after each burst; without room, the oldest deliveries are awaited."""
    send, value = client.producer.send_nowait, bytes(measurement.size)
    await client.producer.partitions_for(topic)
    before: list[Awaitable[Any]] = []
    with Stopwatch() as watch:
        for chunk in chunks(repeat(value), measurement.count):
            deliveries: list[Awaitable[Any]] = []
            append = deliveries.append
            for burst in chunks(chunk, len(chunk), BURST):
                for value in burst:
                    try:
                        append(send(topic, value))
                    except BufferExhaustedError:
                        await _all(before or deliveries)
                        before = []
                        append(send(topic, value))
                await asyncio.sleep(0)
            await _all(before)
            before = deliveries
        await _all(before)
    return watch.figures


@workload("send_many", "aiokafkapy")
async def send_many(client: Client, topic: str, measurement: Measurement) -> Figures:
    """One call with everything."""
    everything = [bytes(measurement.size)] * measurement.count
    with Stopwatch() as watch:
        outcomes = await client.producer.send_many(topic, everything)
    _check(len(outcomes), measurement.count)
    return watch.figures


@workload("send_arrow", "aiokafkapy")
async def send_arrow(client: Client, topic: str, measurement: Measurement) -> Figures:
    """One call with a table of one column."""
    send = getattr(client.producer, "send_arrow", None)
    if send is None:
        raise SkippedError("this version has no send_arrow()")
    import pyarrow

    value = pyarrow.scalar(bytes(measurement.size), pyarrow.binary())
    table = pyarrow.table({"value": pyarrow.repeat(value, measurement.count)})
    with Stopwatch() as watch:
        await send(topic, table)
    return watch.figures


# the records


def values(measurement: Measurement) -> Iterator[bytes]:
    """Values without end: always the same zeros, or JSON with ``options["json"]``."""
    if measurement.options.get("json"):
        return cycle(json_values(measurement.size))
    return repeat(bytes(measurement.size))


def json_values(size: int) -> list[bytes]:
    """Events as a web service writes them, cut to ``size`` bytes each, which compress about fourfold."""
    found = []
    for number in range(DISTINCT):
        seed = number * 2_654_435_761 % 2**32
        items = []
        for _ in range(size // 40):
            seed = (seed * 1_103_515_245 + 12_345) % 2**31
            items.append({"sku": f"{seed:08x}", "quantity": seed % 7 + 1, "price": seed % 10_000 / 100})
        event = {"type": "order.placed", "id": f"{number:08d}", "customer": f"customer-{seed % 5000}", "items": items}
        found.append(json.dumps(event).encode()[:size])
    return found


def keys() -> Iterator[bytes]:
    """Keys without end: enough different ones to reach every partition."""
    return cycle([b"key-%d" % number for number in range(KEYS)])


def chunks(items: Iterable[Any], count: int, size: int = CHUNK) -> Iterator[list[Any]]:
    """The first ``count`` of ``items``, in lists of ``size``."""
    iterator = iter(items)
    for start in range(0, count, size):
        yield list(islice(iterator, min(size, count - start)))


# internals


async def _all(deliveries: list[Awaitable[Any]]) -> None:
    """Every outcome; raises the first that is an error."""
    for delivery in deliveries:
        await delivery


def _check(outcomes: int, count: int) -> None:
    if outcomes != count:
        raise MeasurementError(f"{outcomes} outcomes for {count} records")
