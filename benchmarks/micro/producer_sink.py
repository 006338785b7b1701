"""The cost of a record in the whole client: the real ``KafkaProducer``, with a broker faked in this process.

Each workload is a coroutine function that sends ``count`` values in its own way and returns once all have their
outcome. ``cpu_seconds`` runs one on a producer of its own on a uvloop loop and says how much CPU time this process
took, with start, warm-up and close left out. The broker's own part is in the figures, a few microseconds a request:
``null_broker`` does no more than find the partitions of a request.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from time import process_time
from typing import Any

import uvloop

from aiokafkapy import Delivery, KafkaProducer

from .null_broker import NullBroker, null_network

__all__ = [
    "TOPIC",
    "Workload",
    "cpu_seconds",
    "keyed",
    "keyed_by_turns",
    "lone_await",
    "of_seven",
    "pipelined",
    "pipelined_awaited",
    "send_arrow",
    "send_many",
    "send_nowait",
    "send_nowait_kept",
    "workers",
]

TOPIC = "null"
TASKS = 1_000
SLICE = 1_024
"""Records between two turns of the loop where the call itself never gives one; as many as ``enqueue`` takes at 100
bytes.
"""
ARROW_SLICE = 100_000
KEYS = 20_000
SEVEN = 7
"""Records in each batch of ``of_seven``."""
WARM_UP = 20
"""One record in this many is sent before the time is taken."""

Workload = Callable[[KafkaProducer[Any, Any], bytes, int], Awaitable[object]]


async def lone_await(producer: KafkaProducer, value: bytes, count: int) -> None:
    """``await send()``, one after the other: each record is a batch and a request."""
    for _ in range(count):
        await producer.send(TOPIC, value)


async def workers(producer: KafkaProducer, value: bytes, count: int) -> None:
    """A thousand tasks, each of them awaiting one ``send()`` after the other."""
    await asyncio.gather(*[lone_await(producer, value, count // TASKS) for _ in range(TASKS)])


async def pipelined(producer: KafkaProducer, value: bytes, count: int) -> list[Delivery]:
    """``await enqueue()``, every delivery kept until the end."""
    kept = [await producer.enqueue(TOPIC, value) for _ in range(count)]
    await producer.flush()
    return kept


async def pipelined_awaited(producer: KafkaProducer, value: bytes, count: int) -> None:
    """``await enqueue()``, and each delivery awaited when all have their outcome."""
    for delivery in await pipelined(producer, value, count):
        await delivery


async def send_nowait(producer: KafkaProducer, value: bytes, count: int) -> None:
    """``send_nowait()``, nothing kept."""
    send = producer.send_nowait
    for start in range(0, count, SLICE):
        for _ in range(start, min(count, start + SLICE)):
            send(TOPIC, value)
        await asyncio.sleep(0)
    await producer.flush()


async def send_nowait_kept(producer: KafkaProducer, value: bytes, count: int) -> object:
    """``send_nowait()``, every delivery kept until the end."""
    send = producer.send_nowait
    kept = []
    for start in range(0, count, SLICE):
        kept += [send(TOPIC, value) for _ in range(start, min(count, start + SLICE))]
        await asyncio.sleep(0)
    await producer.flush()
    return kept


async def of_seven(producer: KafkaProducer, value: bytes, count: int) -> None:
    """``send_nowait()`` to each partition in turn, and a flush after ``SEVEN`` rounds: the cost of a small batch."""
    send, partitions = producer.send_nowait, len(await producer.partitions_for(TOPIC))
    for _ in range(count // (SEVEN * partitions)):
        for _ in range(SEVEN):
            for number in range(partitions):
                send(TOPIC, value, partition=number)
        await producer.flush()


async def send_many(producer: KafkaProducer, value: bytes, count: int) -> object:
    """One ``send_many()`` of a list."""
    return await producer.send_many(TOPIC, [value] * count)


async def send_arrow(producer: KafkaProducer, value: bytes, count: int) -> object:
    """``send_arrow()`` of tables, made beforehand: the cost of making one is not the client's."""
    table = _arrow_table(value, min(ARROW_SLICE, count))
    for start in range(0, count, ARROW_SLICE):
        await producer.send_arrow(TOPIC, table.slice(0, min(ARROW_SLICE, count - start)))
    return table


async def keyed(producer: KafkaProducer, value: bytes, count: int) -> None:
    """``await enqueue()`` with keys of ten bytes, nothing kept."""
    await _enqueue_keyed(producer, value, count, _keys())


async def keyed_by_turns(producer: KafkaProducer, value: bytes, count: int) -> None:
    """``send_nowait()`` with keys, a turn of the loop only after each has come once: batches of several records even
    where there are thousands of partitions.
    """
    keys, send = _keys(), producer.send_nowait
    for start in range(0, count, KEYS):
        for key in keys[: count - start]:
            send(TOPIC, value, key=key)
        await asyncio.sleep(0)
        await producer.flush()


def cpu_seconds(workload: Workload, value: bytes, count: int, partitions: int = 6, **options: Any) -> float:
    """CPU seconds of this process for ``count`` values; raises RuntimeError when not all were delivered."""
    return uvloop.run(_measured(workload, value, count, partitions, options))


async def _measured(workload: Workload, value: bytes, count: int, partitions: int, options: dict[str, Any]) -> float:
    with null_network(NullBroker({TOPIC: partitions})):
        async with KafkaProducer("127.0.0.1:9092", **options) as producer:
            await producer.partitions_for(TOPIC)
            await workload(producer, value, max(TASKS, count // WARM_UP))
            before = producer.statistics().delivered
            gc.collect()
            started = process_time()
            result = await workload(producer, value, count)
            seconds = process_time() - started
            delivered = producer.statistics().delivered - before
            del result  # the workload keeps it: let go of it outside the measured time
            if delivered != count:
                raise RuntimeError(f"{delivered} of {count} records were delivered")
            return seconds


async def _enqueue_keyed(producer: KafkaProducer, value: bytes, count: int, keys: list[bytes]) -> None:
    for start in range(0, count, KEYS):
        for key in keys[: count - start]:
            await producer.enqueue(TOPIC, value, key=key)
    await producer.flush()


_KEYS_MADE: list[bytes] = []
_TABLES: dict[tuple[bytes, int], Any] = {}


def _keys() -> list[bytes]:
    if not _KEYS_MADE:
        _KEYS_MADE.extend(b"key-%06d" % number for number in range(KEYS))
    return _KEYS_MADE


def _arrow_table(value: bytes, rows: int) -> Any:
    if (value, rows) not in _TABLES:
        import pyarrow

        _TABLES[value, rows] = pyarrow.table({"value": pyarrow.array([value] * rows, pyarrow.binary())})
    return _TABLES[value, rows]
