"""Conditions that must not make a send dearer: many sends at once, many topics, many partitions, an hour of metadata
ages.

A process of its own (see ``measurement.figures_of``). Workloads, with their option:

- ``gathered``, ``at_once``: that many sends gathered, over and over, ``count`` in all, on the real cluster. With the
  client ``bare asyncio`` nothing is sent: each coroutine awaits a future that the loop resolves later, all of them
  together: the cost of the tasks by themselves.
- ``topics``, ``topics`` and ``known``: single sends, then gathered ones, all to one of the topics. ``one``: the
  producer has only ever heard of this one; ``all``: it knows all; ``used``: it has sent to all.
- ``partitions``, ``topics``, ``partitions`` and ``nodes``: batches of seven records to each partition of each
  topic, on that many nodes, a thousand batches and a flush at a time; as many to one topic of a thousand partitions.
- ``ages``, ``hours``: the same after some hours in which one topic was sent to all the time and the others once. The
  loop's clock jumps, so an hour takes no time.

All but ``gathered`` run against the dev broker in a process of its own (this module again, as a helper): a real
Kafka takes minutes to make ten thousand topics, and only the client's own CPU is looked at. Figures: ``cpu_us`` per
gathered send, ``no_gc_cpu_us`` the same with Python's cyclic garbage collector off, ``lone_cpu_us`` per single send,
``learn_seconds`` until all topics were known, ``refresh_held_ms`` for which a metadata answer held the loop. Of
``partitions``: ``cpu_us`` per record over all of them, when each has had its first, ``one_topic_cpu_us`` and
``first_cpu_us``; ``idle_bytes`` in use for a partition that is known, and resident ``used_bytes`` more when it has had
records.

The collector walks over everything that is alive whenever that has grown by a quarter: the cost of a task grows with
the number of tasks, in ``bare asyncio`` too. The figure with the collector off shows whether the cost of a send grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvloop

from aiokafkapy import KafkaProducer
from aiokafkapy.cluster.metadata import Metadata
from benchmarks.macro.processes import commands, helper, print_figures
from benchmarks.measurement import Figures, Measurement, Stopwatch
from tests.inside import runtime_of

__all__ = ["JumpingLoop", "measure"]

TOPIC: Final = "topic-{}"
LONE: Final = 2_000
LONE_SLICES: Final = 10
"""Slices of which the median counts: all of them take a tenth of a second, which anything else on the machine may
spoil.
"""
GATHERED: Final = 1_000
METADATA_AGE: Final = 300.0
"""Seconds, of both ``metadata_max_age_ms`` and ``metadata_max_idle_ms`` on their defaults."""
BATCH_OF_TASKS: Final = 1_000
REFRESHES: Final = 5
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
ONE: Final = "one"
BATCHES: Final = 1_000
"""Batches of ``partitions`` between two flushes, and the number of partitions of the one topic."""
BATCH: Final = 7
LONG_LINGER_MS: Final = 60_000
ROOM: Final = 256 * 1024 * 1024
"""The buffer for all records between two flushes, so that no batch leaves before it has all of its own."""
AGE_TIMEOUT: Final = 10.0


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    jumped = 0.0

    def time(self) -> float:
        """Seconds, with all jumps."""
        return super().time() + self.jumped


async def measure(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The load that the measurement names."""
    if measurement.workload == "gathered":
        if measurement.client == "bare asyncio":
            return await _gathered_futures(measurement)
        return await _gathered(measurement, bootstrap_servers, topic)
    topics = int(measurement.options["topics"])
    partitions, nodes = int(measurement.options.get("partitions", 1)), int(measurement.options.get("nodes", 1))
    work = {"ages": _ages, "topics": _topics, "partitions": _partitions}[measurement.workload]
    options: Any = {"buffer_memory": ROOM, "linger_ms": LONG_LINGER_MS} if work is _partitions else {}
    async with (
        helper("benchmarks.macro.flat", topics, partitions, nodes) as broker,
        KafkaProducer(broker.hello["bootstrap_servers"], **options) as producer,
    ):
        figures = await work(producer, measurement, topics)
    # Nothing was written to the cluster that is read back.
    return figures | {"messages": float(measurement.count), "written": 0.0}


# many at once


async def _gathered(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    at_once, count, value = int(measurement.options["at_once"]), measurement.count, bytes(measurement.size)
    async with _sender(measurement.client, bootstrap_servers) as send:

        async def gather(number: int) -> None:
            await asyncio.gather(*[send(topic, value) for _ in range(number)])

        await gather(at_once)
        await gather(1_000)
        rounds = max(1, count // at_once)

        async def all_rounds() -> None:
            for _ in range(rounds):
                await gather(at_once)
                await asyncio.sleep(0)  # until then the loop holds this round's tasks, beside those of the next

        figures = await _with_and_without_gc(all_rounds, rounds * at_once)
    return figures | {"written": float((2 * rounds + 1) * at_once + 1_000)}


async def _gathered_futures(measurement: Measurement) -> Figures:
    at_once = int(measurement.options["at_once"])
    loop = asyncio.get_running_loop()

    async def gather() -> None:
        futures = [loop.create_future() for _ in range(at_once)]

        async def wait(future: asyncio.Future[None]) -> None:
            await future

        def resolve() -> None:
            for future in futures:
                future.set_result(None)

        loop.call_later(0.005, resolve)
        await asyncio.gather(*[wait(future) for future in futures])

    rounds = max(1, measurement.count // at_once)

    async def all_rounds() -> None:
        for _ in range(rounds):
            await gather()
            await asyncio.sleep(0)  # as above

    await gather()
    return await _with_and_without_gc(all_rounds, rounds * at_once) | {"written": 0.0}


@contextlib.asynccontextmanager
async def _sender(client: str, bootstrap_servers: str) -> AsyncIterator[Any]:
    """The client's method that sends one record and waits for its outcome."""
    if client == "aiokafkapy":
        async with KafkaProducer(bootstrap_servers) as ours:
            yield ours.send
    else:
        from aiokafka import AIOKafkaProducer

        theirs = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True)
        async with theirs:
            yield theirs.send_and_wait


# many topics


async def _topics(producer: KafkaProducer[bytes, bytes], measurement: Measurement, topics: int) -> Figures:
    known = measurement.options["known"]
    await producer.send(TOPIC.format(0), b"first")
    with (learning := Stopwatch()):
        if known in ("all", "used"):
            await _use_all(producer, topics, is_sent_to=known == "used")
    figures = await _send_cost(producer, measurement)
    return figures | {
        "learn_seconds": learning.figures["seconds"],
        "learn_cpu_seconds": learning.figures["cpu_seconds"],
        "refresh_held_ms": await _refresh_cost(producer) * 1e3,
    }


async def _use_all(producer: KafkaProducer[bytes, bytes], topics: int, *, is_sent_to: bool) -> None:
    """Ask for, or send to, every topic but the first."""
    names = [TOPIC.format(number) for number in range(1, topics)]
    for start in range(0, len(names), BATCH_OF_TASKS):
        some = names[start : start + BATCH_OF_TASKS]
        if is_sent_to:
            await asyncio.gather(*(producer.send(name, b"once") for name in some))
        else:
            await asyncio.gather(*(producer.partitions_for(name) for name in some))


def _metadata_of(producer: KafkaProducer[bytes, bytes]) -> Metadata:
    found: Metadata = runtime_of(producer).metadata  # there is no public way to ask for all of it
    return found


async def _refresh_cost(producer: KafkaProducer[bytes, bytes]) -> float:
    """Seconds of this thread's CPU for the longest callback while all metadata is asked for again."""
    metadata = _metadata_of(producer)
    longest = 0.0
    for _ in range(REFRESHES):
        version = metadata.request_update()
        while metadata.update_version <= version:
            before = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)
    return longest


async def _send_cost(producer: KafkaProducer[bytes, bytes], measurement: Measurement) -> Figures:
    """CPU per record of single sends and of gathered ones, to the first topic."""
    topic, value = TOPIC.format(0), bytes(measurement.size)
    gathers = max(1, measurement.count // GATHERED)

    async def single(count: int) -> None:
        for _ in range(count):
            await producer.send(topic, value)

    async def gathered(count: int) -> None:
        for _ in range(count):
            await asyncio.gather(*[producer.send(topic, value) for _ in range(GATHERED)])

    await single(LONE // 4)
    await gathered(max(1, gathers // 4))
    gc.collect()
    lone = []
    for _ in range(LONE_SLICES):
        with (watch := Stopwatch()):
            await single(LONE // LONE_SLICES)
        lone.append(watch.figures["cpu_seconds"] / (LONE // LONE_SLICES) * 1e6)
    figures = await _with_and_without_gc(partial(gathered, gathers), gathers * GATHERED)
    return figures | {"lone_cpu_us": statistics.median(lone)}


# many partitions


async def _partitions(producer: KafkaProducer[bytes, bytes], measurement: Measurement, topics: int) -> Figures:
    each, value = int(measurement.options["partitions"]), bytes(measurement.size)
    names = [TOPIC.format(number) for number in range(topics)]
    everything = [(name, number) for name in names for number in range(each)]
    one_topic = [(ONE, number) for number in range(BATCHES)]
    await producer.partitions_for(ONE)
    producer.send_nowait(ONE, value)
    await producer.flush()
    idle = await _learned_bytes(producer, topics)
    known = _resident()
    rounds = max(1, len(everything) // BATCHES)
    one_topic_cpu = await _batches_cost(producer, one_topic * rounds, value)
    first_cpu = await _batches_cost(producer, everything, value)
    used = _resident()
    with (again := Stopwatch()):
        cpu = await _batches_cost(producer, everything, value)
    return again.figures | {
        "cpu_us": cpu * 1e6,
        "first_cpu_us": first_cpu * 1e6,
        "one_topic_cpu_us": one_topic_cpu * 1e6,
        "idle_bytes": idle / len(everything),
        "used_bytes": (used - known) / len(everything),
        "refresh_held_ms": await _refresh_cost(producer) * 1e3,
    }


async def _learned_bytes(producer: KafkaProducer[bytes, bytes], topics: int) -> int:
    """Bytes that are in use for the metadata of all topics: resident ones include the remains of decoding."""
    gc.collect()
    tracemalloc.start()
    try:
        await producer.partitions_for(TOPIC.format(0))
        await _use_all(producer, topics, is_sent_to=False)
        await asyncio.sleep(0)  # until then the loop holds the last thousand tasks, and the partitions that they got
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


async def _batches_cost(
    producer: KafkaProducer[bytes, bytes], places: Sequence[tuple[str, int]], value: bytes
) -> float:
    """CPU seconds per record of a batch for each of the places."""
    gc.collect()
    with (watch := Stopwatch()):
        for start in range(0, len(places), BATCHES):
            for topic, number in places[start : start + BATCHES]:
                for _ in range(BATCH):
                    producer.send_nowait(topic, value, partition=number)
            await producer.flush()
    return watch.figures["cpu_seconds"] / (len(places) * BATCH)


def _resident() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


# an hour


async def _ages(producer: KafkaProducer[bytes, bytes], measurement: Measurement, topics: int) -> Figures:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    metadata = _metadata_of(producer)
    await producer.send(TOPIC.format(0), b"first")
    await _use_all(producer, topics, is_sent_to=True)
    ages = int(measurement.options["hours"] * 3600 // METADATA_AGE)
    for _ in range(ages):
        version = metadata.update_version
        # In four steps, none longer than a topic may be unused.
        for _ in range(4):
            loop.jumped += METADATA_AGE / 4 + 0.1
            await asyncio.gather(*(producer.send(TOPIC.format(0), b"now and then") for _ in range(10)))
        deadline = time.monotonic() + AGE_TIMEOUT
        while metadata.update_version == version and time.monotonic() < deadline:  # noqa: ASYNC110 - only told of here
            await asyncio.sleep(0.001)
    figures = await _send_cost(producer, measurement)
    return figures | {"ages": float(ages), "topics_known": float(len(metadata.cluster.topics))}


# internals


async def _with_and_without_gc(work: Callable[[], Awaitable[None]], messages: int) -> Figures:
    """The figures of ``work``, which sends ``messages`` messages, and its CPU once more with the collector off."""
    gc.collect()
    with (watch := Stopwatch()):
        await work()
    gc.collect()
    gc.disable()
    try:
        with (without := Stopwatch()):
            await work()
    finally:
        gc.enable()
    return watch.figures | {
        "messages": float(messages),
        "cpu_us": watch.figures["cpu_seconds"] / messages * 1e6,
        "no_gc_cpu_us": without.figures["cpu_seconds"] / messages * 1e6,
    }


async def _dev_broker(topics: int, partitions: int, nodes: int) -> None:
    """The helper: a dev broker with ``topics`` topics of ``partitions`` partitions each, and with ``ONE``."""
    from aiokafkapy.broker import DevBroker

    async with DevBroker(nodes=nodes) as broker:
        broker.create_topic(ONE, partitions=BATCHES)
        for number in range(topics):
            broker.create_topic(TOPIC.format(number), partitions=partitions)
        await commands({"bootstrap_servers": broker.bootstrap_servers}, lambda word: {})


def _run(main: Coroutine[Any, Any, Figures]) -> Figures:
    """Run it on uvloop, except the measurement that needs a clock that jumps."""
    if Measurement.from_json(sys.argv[1]).workload != "ages":
        return uvloop.run(main)
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


if __name__ == "__main__":
    if sys.argv[1].isdecimal():
        uvloop.run(_dev_broker(*map(int, sys.argv[1:])))
    else:
        print_figures(measure, _run)
