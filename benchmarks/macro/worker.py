"""One measurement in a process of its own: ``python -m benchmarks.macro.worker WORKLOAD CLIENT BOOTSTRAP TOPIC
COUNT SIZE``.

Prints one line of JSON: messages, seconds, rate, CPU microseconds per message (user and system, all threads), latency
percentiles in milliseconds where single sends are awaited, peak resident memory. Warm-up is not counted.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

WARM_UP = 200


def percentile(ordered: list[float], share: float) -> float:
    """The value below which ``share`` of the ordered values lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Ours:
    """aiokafkapy on its defaults."""

    async def open(self, bootstrap_servers: str) -> None:
        from aiokafkapy import KafkaProducer

        self.producer = KafkaProducer(bootstrap_servers)
        await self.producer.start()

    async def send(self, topic: str, value: bytes) -> None:
        await self.producer.send(topic, value)

    async def close(self) -> None:
        await self.producer.close()


class Aiokafka:
    """aiokafka, idempotent and acks=all as ours is by default."""

    async def open(self, bootstrap_servers: str) -> None:
        from aiokafka import AIOKafkaProducer

        self.producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True)
        await self.producer.start()

    async def send(self, topic: str, value: bytes) -> None:
        await self.producer.send_and_wait(topic, value)

    async def close(self) -> None:
        await self.producer.stop()


CLIENTS: dict[str, Callable[[], Any]] = {"aiokafkapy": Ours, "aiokafka": Aiokafka}


async def lone_await(client: Any, topic: str, count: int, value: bytes) -> list[float]:
    """One awaited send after the other."""
    latencies = []
    for _ in range(count):
        before = time.perf_counter()
        await client.send(topic, value)
        latencies.append(time.perf_counter() - before)
    return latencies


async def gather(client: Any, topic: str, count: int, value: bytes) -> list[float]:
    """``count`` sends at once."""
    await asyncio.gather(*[client.send(topic, value) for _ in range(count)])
    return []


WORKLOADS: dict[str, Callable[[Any, str, int, bytes], Awaitable[list[float]]]] = {
    "lone_await": lone_await,
    "gather": gather,
}


def cpu_seconds() -> float:
    """User and system time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def measure(
    workload: str, client_name: str, bootstrap_servers: str, topic: str, count: int, size: int
) -> dict[str, Any]:
    """Run one workload and return its figures."""
    client, value = CLIENTS[client_name](), b"x" * size
    await client.open(bootstrap_servers)
    try:
        await lone_await(client, topic, WARM_UP, value)
        await gather(client, topic, WARM_UP, value)
        cpu, start = cpu_seconds(), time.perf_counter()
        latencies = sorted(await WORKLOADS[workload](client, topic, count, value))
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    finally:
        await client.close()
    figures: dict[str, Any] = {
        "messages": count,
        "seconds": seconds,
        "rate": count / seconds,
        "us_per_message": seconds / count * 1e6,
        "cpu_us_per_message": cpu / count * 1e6,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999)):
        if latencies:
            figures[name] = percentile(latencies, share) * 1e3
    return figures


def main() -> None:
    """Read the arguments, run on uvloop where it is installed, print the figures."""
    workload, client, bootstrap_servers, topic, count, size = sys.argv[1:]
    try:
        import uvloop

        run: Any = uvloop.run
    except ImportError:
        run = asyncio.run
    print(json.dumps(run(measure(workload, client, bootstrap_servers, topic, int(count), int(size)))))


if __name__ == "__main__":
    main()
