"""The dev broker beside real Kafka and franz-go's kfake: rows of the group "dev broker", whose clients are the same.

Here a row's ``client`` names the broker. ``aiokafkapy broker`` and kfake are processes of their own, with one node and
logs in memory, started for each measurement and ended after it; real Kafka is the run's, whose logs are on tmpfs.

- "Java in" is Kafka's ``ProducerPerformance`` with its default batches of 16 KiB and a linger of 5 ms, or with batches
  of 128 KiB; "Java out" is ``ConsumerPerformance`` over as many records, by the rate that it says of its fetches;
- "lone produce" is our producer, one send after the other, for all three;
- "connections" opens them, has each ask ApiVersions and write a record, and keeps all open meanwhile;
  ``connection_kb`` is how much larger the broker's process was then, for each.

``cpu_us`` is the broker's process, not the client's: user and system time per record (of "connections": per
connection). The JVM of real Kafka does its housekeeping meanwhile. kfake is built from ``benchmarks/kfake`` into a
cache folder; without Go, or without its modules, its rows are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression
from aiokafkapy.testing.kafka.tools import KafkaTools
from benchmarks.clients.java import KAFKA_VERSION, producer_performance
from benchmarks.go_programs import built
from benchmarks.macro.processes import allow_descriptors, cpu_seconds_of, memory_of
from benchmarks.measurement import Figures, Measurement, MeasurementError, entry, run_in_process

__all__ = ["BROKERS", "GROUP", "KAFKA", "broker_of", "measurements"]

GROUP: Final = "dev broker"
OURS: Final = "aiokafkapy"
KAFKA: Final = "Apache Kafka"
KFAKE: Final = "kfake"
BROKERS: Final = (OURS, KAFKA, KFAKE)
CONNECTIONS: Final = 2_000
AT_ONCE: Final = 100
"""Connections that are being opened at a time; no backlog is to overflow."""
PRODUCE: Final = 9
API_VERSIONS: Final = 3
START_TIMEOUT: Final = 60.0
SOURCES: Final = Path(__file__).parents[1] / "kfake"
_JAVA_BATCHES: Final[dict[str, dict[str, Any]]] = {
    "16 KiB batches": {"batch.size": 16_384},
    "128 KiB batches": {"batch.size": 131_072},
}
_FETCHED: Final = re.compile(r"^\d{4}-.*", re.MULTILINE)


def measurements() -> list[Measurement]:
    """All rows, each workload's brokers beside each other."""
    found = []
    for broker in BROKERS:
        for variant, producer in _JAVA_BATCHES.items():
            found.append(_row("Java in", broker, 1_500_000, variant, producer=producer))
        found.append(_row("Java out", broker, 1_500_000))
        found.append(_row("lone produce", broker, 10_000))
        found.append(_row("connections", broker, CONNECTIONS))
    return sorted(found, key=lambda each: (each.workload, each.variant))


def _row(workload: str, broker: str, count: int, variant: str = "", **options: Any) -> Measurement:
    return Measurement(group=GROUP, workload=workload, client=broker, count=count, variant=variant, options=options)


# measuring a row


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs."""

    bootstrap_servers: str
    pid: int


_Measure = Callable[[Measurement, Broker, str], Awaitable[Figures]]


def _on_each_broker(name: str) -> Callable[[_Measure], _Measure]:
    """Register a measurement for the three brokers; ``written`` counts the records in the run's own Kafka."""

    def register(measure: _Measure) -> _Measure:
        @entry(name, *BROKERS)
        async def run(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
            async with broker_of(measurement, bootstrap_servers, topic) as broker:
                before = cpu_seconds_of(broker.pid)
                figures = await measure(measurement, broker, topic)
                spent = figures.pop("broker_cpu", cpu_seconds_of(broker.pid) - before)
                records = figures.pop("served", measurement.count)
                resident = memory_of(broker.pid, "VmRSS") / 1024**2
            figures |= {"cpu_us": spent / records * 1e6, "peak_rss_mb": resident}
            return figures if measurement.client == KAFKA else figures | {"written": 0.0}

        return measure

    return register


@_on_each_broker("Java in")
async def _java_in(measurement: Measurement, broker: Broker, topic: str) -> Figures:
    figures = await producer_performance(measurement, broker.bootstrap_servers, topic)
    return figures | {"served": figures["written"]}


@_on_each_broker("Java out")
async def _java_out(measurement: Measurement, broker: Broker, topic: str) -> Figures:
    filling = replace(measurement, count=measurement.count * 3 // 4)  # and its warm-up
    written = (await producer_performance(filling, broker.bootstrap_servers, topic))["written"]
    tools = await asyncio.to_thread(KafkaTools, KAFKA_VERSION)
    before = cpu_seconds_of(broker.pid)
    output = await tools.run(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", topic),
        *("--num-records", int(written), "--timeout", 60_000),
    )
    spent = cpu_seconds_of(broker.pid) - before
    found = _FETCHED.search(output)
    if found is None:
        raise MeasurementError(f"the tool printed no result:\n{output}")
    columns = [column.strip() for column in found[0].split(",")]
    read, fetch_ms = float(columns[4]), float(columns[7])
    if read < written:
        raise MeasurementError(f"{written:,.0f} records were written, {read:,.0f} were read")
    return {"messages": read, "written": written, "seconds": fetch_ms / 1e3, "served": read, "broker_cpu": spent}


@_on_each_broker("lone produce")
async def _lone_produce(measurement: Measurement, broker: Broker, topic: str) -> Figures:
    figures = await run_in_process(
        replace(measurement, workload="lone await", client=OURS), broker.bootstrap_servers, topic
    )
    return figures | {"served": figures["written"]}


@_on_each_broker("connections")
async def _connections(measurement: Measurement, broker: Broker, topic: str) -> Figures:
    count = measurement.count
    allow_descriptors(count)
    host, _, port = broker.bootstrap_servers.split(",")[0].rpartition(":")
    gate = asyncio.Semaphore(AT_ONCE)
    size_before, started = memory_of(broker.pid, "VmRSS"), perf_counter()
    async with contextlib.AsyncExitStack() as open_ones:

        async def one() -> None:
            async with gate:
                reader, writer = await asyncio.open_connection(host, int(port))
                open_ones.callback(_abort, writer)
                await _call(reader, writer, ApiKey.API_VERSIONS, API_VERSIONS, **_SOFTWARE)
                answer = await _call(reader, writer, ApiKey.PRODUCE, PRODUCE, **_one_record(topic, measurement.size))
                (partition,) = answer.responses[0].partition_responses
                if partition.error_code:
                    raise MeasurementError(f"a record was answered with {partition.error_code!r}")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one())
        seconds = perf_counter() - started
        grown = (memory_of(broker.pid, "VmRSS") - size_before) / 1024
    return {"seconds": seconds, "written": count, "connection_kb": max(0.0, grown) / count}


def _abort(writer: asyncio.StreamWriter) -> None:
    # The writer itself is kept: a writer without references would close its connection.
    writer.transport.abort()


_SOFTWARE: Final = {"client_software_name": "benchmarks", "client_software_version": "1"}


def _one_record(topic: str, size: int) -> dict[str, Any]:
    builder = RecordBatchBuilder(2 * size + 1024)
    builder.try_append(0, None, bytes(size), ())
    builder.seal(Compression.NONE, None)
    builder.stamp(-1, -1, -1)
    partition = {"index": 0, "records": b"".join(builder.buffers())}
    return {"acks": 1, "timeout": 30_000, "topic_data": [{"name": topic, "partition_data": [partition]}]}


async def _call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, api_key: ApiKey, version: int, **fields: Any
) -> Any:
    writer.write(encode_request(build_request(api_key, version, **fields), 1, "benchmarks"))
    size = int.from_bytes(await reader.readexactly(4))
    return decode_response(api_key, version, await reader.readexactly(size))[1]


# the brokers


@asynccontextmanager
async def broker_of(measurement: Measurement, bootstrap_servers: str, topic: str) -> AsyncIterator[Broker]:
    """The broker that the row is about, with the topic; the run's own is the one at ``bootstrap_servers``."""
    if measurement.client == KAFKA:
        yield Broker(bootstrap_servers, measurement.options["kafka_pid"])
        return
    if measurement.client == OURS:
        name = f"{topic}:{measurement.partitions}"
        command = [sys.executable, "-m", "aiokafkapy", "broker", "--port", "0", "--topic", name]
    else:
        command = [str(await built("kfake", SOURCES)), topic, str(measurement.partitions)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    try:
        assert process.stdout is not None  # asked for just above
        line = await asyncio.wait_for(process.stdout.readline(), START_TIMEOUT)
        if not line:
            raise MeasurementError(f"{measurement.client} did not start")
        yield Broker(line.decode().strip(), process.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # its logs are in memory
        await process.wait()
