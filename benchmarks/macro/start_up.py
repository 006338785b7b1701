"""Import, start and idle memory, of ours and of the peers: the costs of a process before its first record.

Owns the rows of the group "start-up", and the programs that are run for them, each in a process of its own, ``count``
times one after the other:

- ``import``: the import of the producer's class, and nothing else; "bare asyncio" is the floor.
- ``first record``: import, start, and one record delivered to a broker that is warm.
- ``idle producers``: as many started producers in one process, which then do nothing.
- ``broker``: ``python -m aiokafkapy broker`` until it has accepted a connection, and until it has answered there.

Figures: ``p50_ms`` is the wall time from the process's start until it says that it is ready, ``cpu_us`` the CPU of the
whole process, ``peak_rss_mb`` and ``pss_mb`` its memory when it is ready (medians), ``modules`` the number of imported
modules, ``kb_each`` the resident memory of one more idle producer, ``answer_ms`` the wall time until the broker's first
answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_request
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.testing.servers.ports import LOOPBACK, free_port
from benchmarks.measurement import Figures, Measurement, MeasurementError, entry

__all__ = ["measurements"]

PROCESSES: Final = 20
IDLE: Final = 1_000
IDLE_OF_PEERS: Final = 200
KILOBYTE: Final = 1_024
BROKER_TIMEOUT: Final = 30.0
BETWEEN_TRIES: Final = 0.000_5
"""Seconds from a refused connection to the next: the resolution of the broker's row."""

_TELL: Final = """
def tell(**more):
    import json, sys
    lines = [line.split() for line in open("/proc/self/smaps_rollup").read().splitlines()[1:]]
    kilobytes = {name[:-1].lower(): int(number) for name, number, *_ in lines if name in ("Rss:", "Pss:")}
    print(json.dumps({**kilobytes, "modules": len(sys.modules), **more}), flush=True)
"""

_IMPORTS: Final = {
    "aiokafkapy": "from aiokafkapy import KafkaProducer",
    "aiokafka": "from aiokafka import AIOKafkaProducer",
    "confluent-kafka": "from confluent_kafka import Producer",
    "bare asyncio": "import asyncio",
}

_FIRST_RECORDS: Final = {
    "aiokafkapy": """
import asyncio, sys
from aiokafkapy import KafkaProducer
async def main():
    async with KafkaProducer(sys.argv[1]) as producer:
        await producer.send(sys.argv[2], b"first")
        tell()
asyncio.run(main())
""",
    "aiokafka": """
import asyncio, sys
from aiokafka import AIOKafkaProducer
async def main():
    async with AIOKafkaProducer(bootstrap_servers=sys.argv[1], enable_idempotence=True) as producer:
        await producer.send_and_wait(sys.argv[2], b"first")
        tell()
asyncio.run(main())
""",
    "confluent-kafka": """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True})
producer.produce(sys.argv[2], b"first")
producer.flush()
tell()
""",
}

_RSS: Final = """
def rss():
    import gc
    gc.collect()
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
"""

_IDLE: Final = {
    "aiokafkapy": """
import asyncio, sys
from aiokafkapy import KafkaProducer as P
async def main():
    servers, topic, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    async with P(servers) as first:
        await first.send(topic, b"first")
        before, producers = rss(), []
        for _ in range(0, number, 50):
            producers += (more := [P(servers) for _ in range(50)])
            await asyncio.gather(*(producer.start() for producer in more))
        await asyncio.sleep(1)
        tell(kb_each=(rss() - before) / number)
        await asyncio.gather(*(producer.close() for producer in producers))
asyncio.run(main())
""",
    "aiokafka": """
import asyncio, sys
from aiokafka import AIOKafkaProducer
def new(servers):
    return AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
async def main():
    servers, topic, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    async with new(servers) as first:
        await first.send_and_wait(topic, b"first")
        before, producers = rss(), []
        for _ in range(0, number, 50):
            producers += (more := [new(servers) for _ in range(50)])
            await asyncio.gather(*(producer.start() for producer in more))
        await asyncio.sleep(1)
        tell(kb_each=(rss() - before) / number)
        await asyncio.gather(*(producer.stop() for producer in producers))
asyncio.run(main())
""",
    "confluent-kafka": """
import sys, time
from confluent_kafka import Producer
def new():
    producer = Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True})
    producer.list_topics(sys.argv[2], timeout=30)
    return producer
first = new()
first.produce(sys.argv[2], b"first")
first.flush()
before, number = rss(), int(sys.argv[3])
producers = [new() for _ in range(number)]
time.sleep(1)
tell(kb_each=(rss() - before) / number)
""",
}


def measurements() -> list[Measurement]:
    """All rows."""

    def row(workload: str, client: str, variant: str = "", count: int = PROCESSES, **options: Any) -> Measurement:
        return Measurement(
            group="start-up", workload=workload, client=client, count=count, variant=variant, options=options
        )

    found = [row("import", client) for client in _IMPORTS]
    found += [row("first record", client) for client in _FIRST_RECORDS]
    for client in _IDLE:
        number = IDLE if client == "aiokafkapy" else IDLE_OF_PEERS
        found.append(row("idle producers", client, f"{number:,} of them", 1, producers=number))
    return [*found, row("broker", "aiokafkapy")]


@entry("import")
async def importing(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The import of a producer's class."""
    program = f"{_TELL}{_IMPORTS[measurement.client]}\ntell()\n"
    return await _repeated(measurement, [sys.executable, "-c", program], written=0)


@entry("first record")
async def first_record(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """A process from its start to a delivered record."""
    program = _TELL + _FIRST_RECORDS[measurement.client]
    arguments = [sys.executable, "-c", program, bootstrap_servers, topic]
    return await _repeated(measurement, arguments, written=measurement.count)


@entry("idle producers")
async def idle_producers(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """Memory of many producers in one process."""
    program = _TELL + _RSS + _IDLE[measurement.client]
    number = str(measurement.options["producers"])
    arguments = [sys.executable, "-c", program, bootstrap_servers, topic, number]
    return await _repeated(measurement, arguments, written=measurement.count)


@entry("broker")
async def broker(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The dev broker until it has accepted a connection, and has answered there."""
    arguments = [sys.executable, "-m", "aiokafkapy", "broker"]
    return await _repeated(measurement, arguments, written=0)


# internals


@dataclass(frozen=True, slots=True)
class _Run:
    """One process: until it was ready, and as a whole."""

    seconds: float
    cpu_seconds: float
    said: dict[str, Any]


async def _repeated(measurement: Measurement, arguments: list[str], *, written: int) -> Figures:
    run = _run_broker if measurement.workload == "broker" else _run
    runs = [await asyncio.to_thread(run, arguments) for _ in range(measurement.count)]
    figures = {
        "seconds": sum(each.seconds for each in runs),
        "written": float(written),
        "messages": float(len(runs)),
        "p50_ms": statistics.median(each.seconds for each in runs) * 1e3,
        "cpu_us": statistics.median(each.cpu_seconds for each in runs) * 1e6,
        "peak_rss_mb": statistics.median(each.said["rss"] for each in runs) * KILOBYTE / 1e6,
        "pss_mb": statistics.median(each.said["pss"] for each in runs) * KILOBYTE / 1e6,
    }
    for name in ("modules", "kb_each", "answer_ms"):
        if name in runs[0].said:
            figures[name] = statistics.median(each.said[name] for each in runs)
    return figures


def _run(arguments: list[str]) -> _Run:
    """A program that says when it is ready, and ends by itself."""
    started = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        line = output.readline()
        seconds = time.perf_counter() - started
        cpu_seconds = _ended(process)
    return _Run(seconds, cpu_seconds, json.loads(line))


def _run_broker(arguments: list[str]) -> _Run:
    port = free_port()
    request = encode_request(build_request(ApiKey.API_VERSIONS, 0), 1, None)
    started = time.perf_counter()
    process = subprocess.Popen(
        [*arguments, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    try:
        with _connected(port, until=started + BROKER_TIMEOUT) as client:
            seconds = time.perf_counter() - started
            client.sendall(request)
            if not client.recv(1):
                raise MeasurementError("the broker closed the connection without an answer")
            answer_ms = (time.perf_counter() - started) * 1e3
            said = {**_memory_of(process.pid), "answer_ms": answer_ms}
    finally:
        process.send_signal(signal.SIGINT)
        cpu_seconds = _ended(process)
    return _Run(seconds, cpu_seconds, said)


def _connected(port: int, until: float) -> socket.socket:
    """A connection, asked for again and again, as by a program that waits for a broker."""
    while True:
        try:
            return socket.create_connection((LOOPBACK, port), timeout=BROKER_TIMEOUT)
        except ConnectionRefusedError:
            if time.perf_counter() > until:
                raise MeasurementError(f"no broker accepts connections after {BROKER_TIMEOUT:g} s") from None
            time.sleep(BETWEEN_TRIES)


def _ended(process: subprocess.Popen[str]) -> float:
    """The CPU of the process, which has ended then. MeasurementError when it failed."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise MeasurementError(f"exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _memory_of(pid: int) -> dict[str, Any]:
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]]
    return {name[:-1].lower(): int(number) for name, number, *_ in lines if name in ("Rss:", "Pss:")}
