"""Load for the web service, by ``wrk``, and its results.

Owns the entry ``request``: starts ``service``, warms it up, lets wrk load it for ``seconds`` over ``connections``
(options of the measurement; for ``freeze`` see ``service``), and returns requests per second, latencies as the web's
clients see them, and the CPU of the service's process per request. Any error, or an answer that is not 200, is a
MeasurementError; without wrk the measurement is skipped. ``written`` counts every request that the service answered
with 200, warm-up included: as many records must be in the topic.

uvloop accepts one connection at a turn of the loop, so the first answers of a load's connections are late, by 10 to 200
ms on a busy machine. There are as many of them as connections: the load must last until they are well below one in a
hundred, or they are the p99. They are in ``max_ms``, and often in ``p999_ms``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.macro.processes import Helper, cpu_seconds_of, helper, memory_of
from benchmarks.measurement import Figures, Measurement, MeasurementError, SkippedError, entry

__all__ = ["request"]

SCRIPT: Final = Path(__file__).with_name("post.lua")
WARM_UP_SECONDS: Final = 1
REQUEST_TIMEOUT: Final = 20
"""Seconds; wrk's own two would count AIOProducer's answers on its defaults as lost."""
_ERRORS: Final = ("connect_errors", "read_errors", "write_errors", "timeouts", "bad_statuses")


@entry("request")
async def request(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """One service, one load."""
    options = measurement.options
    seconds, connections = int(options.get("seconds", 5)), int(options.get("connections", 64))
    arguments = [measurement.client, bootstrap_servers, topic, json.dumps(options.get("producer", {}))]
    if options.get("freeze"):
        arguments.append("freeze")
    async with helper("benchmarks.web.service", *arguments) as service:
        url = service.hello["url"]
        await _wrk(url, WARM_UP_SECONDS, connections, measurement.size)
        before, cpu_before = await _settled(service), cpu_seconds_of(service.pid)
        loaded = await _wrk(url, seconds, connections, measurement.size)
        cpu = cpu_seconds_of(service.pid) - cpu_before
        counted = await _settled(service)
        peak = memory_of(service.pid, "VmHWM") / 1024**2
    served = counted["answered"] - before["answered"]
    errors = sum(loaded[name] for name in _ERRORS)
    if errors or counted["failed"]:
        raise MeasurementError(f"errors under load: {loaded}, the service counted {counted}")
    if not 0 <= served - loaded["requests"] <= connections:
        raise MeasurementError(f"wrk counted {loaded['requests']} answers, the service {served}")
    return {
        "messages": float(served),
        "written": float(counted["answered"]) if measurement.client != "nobody" else 0.0,
        "seconds": loaded["seconds"],
        "rate": loaded["requests"] / loaded["seconds"],
        "cpu_seconds": cpu,
        "cpu_us": cpu / served * 1e6,
        "peak_rss_mb": peak,
        "errors": float(errors),
        **{name: loaded[name] for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")},
    }


async def _wrk(url: str, seconds: int, connections: int, size: int) -> dict[str, Any]:
    program = shutil.which("wrk")
    if program is None:
        raise SkippedError("wrk is not installed: apt-get install wrk")
    command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={REQUEST_TIMEOUT}s"]
    command += ["--latency", "-s", str(SCRIPT), url, str(size)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    output, errors = await process.communicate()
    if process.returncode != 0:
        raise MeasurementError(f"wrk: {errors.decode(errors='replace')}{output.decode(errors='replace')}")
    figures: dict[str, Any] = json.loads(output.decode().strip().splitlines()[-1])
    return figures


async def _settled(service: Helper) -> dict[str, Any]:
    """The service's count when it has nothing in hand: wrk leaves without the last answer of each connection."""
    deadline = time.monotonic() + REQUEST_TIMEOUT
    while (counted := await service.ask("count"))["in_progress"]:
        if time.monotonic() > deadline:
            raise MeasurementError(f"requests without an answer: {counted}")
        await asyncio.sleep(0.05)
    return counted
