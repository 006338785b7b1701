"""Kafka's own Java client, by its own measuring tool, ``ProducerPerformance``; transactions by a program of ours, for
the tool ends them by the clock, not by the record.

Its rate is the tool's: without the start of the JVM and without the warm-up, by which the code is compiled. CPU is of
the whole JVM over all messages, warm-up included, for the tool does not say more; so the JVM's start and its compilers
are in it. The JVM is set up as Kafka's own scripts do it. Idempotence and acks=all are the client's defaults.
Of transactions both figures are without start and warm-up; that program is run from its source, which needs a JDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from aiokafkapy.testing.kafka.tools import KafkaTools
from benchmarks.macro.transactions import transactions_of
from benchmarks.measurement import Figures, Measurement, MeasurementError, SkippedError, entry

__all__ = ["KAFKA_VERSION", "SCRIPT_JVM"]

KAFKA_VERSION: Final = "4.3.1"
"""The version of broker and tool; from 4.2 on the tool can leave a warm-up out of its figures (KIP-1052)."""
SCRIPT_JVM: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""The options that ``kafka-run-class.sh`` gives every JVM; ``kafka-producer-perf-test.sh`` adds a heap of 512 MB."""
TIMEOUT: Final = 120.0
BATCH_SIZE: Final = 131_072
TRANSACTIONS: Final = Path(__file__).with_name("transactions.java")

_RESULT: Final = re.compile(
    r"([\d.]+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency.*?([\d.]+) ms max latency, "
    r"([\d.]+) ms 50th, ([\d.]+) ms 95th, ([\d.]+) ms 99th, ([\d.]+) ms 99.9th"
)


@entry("pipelined", "Java")
async def producer_performance(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The tool, run to its end."""
    warm_up = measurement.count // 3
    total = measurement.count + warm_up
    settings = {"linger.ms": 5, "batch.size": BATCH_SIZE, **measurement.options.get("producer", {})}
    tools = await asyncio.to_thread(KafkaTools, KAFKA_VERSION)
    command = [
        *_java(tools),
        *("org.apache.kafka.tools.ProducerPerformance", "--bootstrap-server", bootstrap_servers, "--topic", topic),
        *("--num-records", str(total), "--warmup-records", str(warm_up), "--record-size", str(measurement.size)),
        *("--throughput", "-1", "--command-property", *(f"{name}={value}" for name, value in settings.items())),
    ]
    output, usage = await _run(command)
    found = _RESULT.findall(output)
    if not found:
        raise MeasurementError(f"the tool printed no result:\n{output}")
    # The last line is the one without the warm-up.
    rate = float(found[-1][1])
    return {
        "messages": measurement.count,
        "written": total,
        "seconds": measurement.count / rate,
        "rate": rate,
        "cpu_us": (usage.ru_utime + usage.ru_stime) / total * 1e6,
        "peak_rss_mb": usage.ru_maxrss / 1024,
    }


@entry("1 record", "Java")
@entry("100 records", "Java")
@entry("10,000 records", "Java")
async def transactions(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The program, run to its end."""
    tools = await asyncio.to_thread(KafkaTools, KAFKA_VERSION)
    modules, _ = await _run(["java", "--list-modules"])
    if "jdk.compiler" not in modules:
        raise SkippedError("there is a Java without a compiler")
    number = transactions_of(measurement)
    warm_up = max(1, number // 3)
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "linger.ms": 5,
        "batch.size": BATCH_SIZE,
        **measurement.options["producer"],
    }
    records = measurement.options["records"]
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.writelines(f"{name}={value}\n" for name, value in settings.items())
        file.flush()
        arguments = (file.name, topic, measurement.size, records, warm_up, number)
        output, usage = await _run([*_java(tools), str(TRANSACTIONS), *map(str, arguments)])
    try:
        figures: Figures = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        raise MeasurementError(f"the program printed no figures:\n{output}") from None
    messages = number * records
    cpu = figures.pop("cpu_seconds")
    return figures | {
        "messages": messages,
        "written": messages + warm_up * records,
        "rate": messages / figures["seconds"],
        "cpu_us": cpu / messages * 1e6,
        "peak_rss_mb": usage.ru_maxrss / 1024,
        "commits_rate": number / figures["seconds"],
        "transaction_cpu_us": cpu / number * 1e6,
    }


def _java(tools: KafkaTools) -> list[str]:
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx512m", *SCRIPT_JVM, logging, "-cp", tools.classpath]


async def _run(command: list[str]) -> tuple[str, resource.struct_rusage]:
    """Run to the end; returns its output, and the CPU time of all its threads."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: ASYNC220 - quick, and here no cancellation can lose it
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT
    )
    ending = asyncio.ensure_future(asyncio.to_thread(_wait, process))
    try:
        output, usage = await asyncio.wait_for(asyncio.shield(ending), TIMEOUT)
    except BaseException:
        process.kill()
        with contextlib.suppress(asyncio.CancelledError):
            await ending
        raise
    if process.returncode != 0:
        raise MeasurementError(f"the tool ended with {process.returncode}:\n{output}")
    return output, usage


def _wait(process: subprocess.Popen[bytes]) -> tuple[str, resource.struct_rusage]:
    assert process.stdout is not None
    with process.stdout:
        output = process.stdout.read().decode(errors="replace")
    # Not wait(), which would throw the figures away.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return output, usage
