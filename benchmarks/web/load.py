"""Load for the web service, and its results; by ``wrk`` in the entry ``request``.

Owns ``under_load``: starts ``service``, warms it up, has a load sent to it, and returns requests per second, latencies
as the web's clients see them, and the CPU of the service's process per request (for the option ``freeze`` see
``service``). Any error, or an answer that is not 200, is a MeasurementError. ``written`` counts every request that the
service answered with 200, warm-up included: as many records must be in the topic.

In ``request`` the load is wrk's for ``seconds`` over ``connections`` (options of the measurement): a closed loop, in
which each connection waits for its answer before it sends again. At a fixed rate it is ``fixed_rate``'s. Without wrk
the measurement is skipped.

uvloop accepts one connection at a turn of the loop, so the first answers of wrk's connections are late, by 10 to 200
ms on a busy machine. There are as many of them as connections: the load must last until they are well below one in a
hundred, or they are the p99. They are in ``max_ms``, and often in ``p999_ms``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.macro.processes import Helper, cpu_seconds_of, helper, memory_of
from benchmarks.measurement import Figures, Measurement, MeasurementError, SkippedError, completed, entry

__all__ = ["BATCHED", "FROZEN", "POLLED", "Load", "request", "under_load"]

SCRIPT: Final = Path(__file__).with_name("post.lua")
WARM_UP_MS: Final = 1_000
REQUEST_TIMEOUT: Final = 20
"""Seconds; wrk's own two would count AIOProducer's answers on its defaults as lost."""
_ERRORS: Final = ("connect_errors", "read_errors", "write_errors", "timeouts", "bad_statuses")


FROZEN: Final = "heap frozen"
"""The name in rows for the option ``freeze``."""
POLLED: Final = "polled, batches of 16"
BATCHED: Final[dict[str, Any]] = {"batch_size": 16, "buffer_timeout": 0.1, "linger.ms": 0, "poll": True}
"""AIOProducer's settings that did best with 64 connections, and their names in rows."""

Load = Callable[[str, int], Awaitable[dict[str, Any]]]
"""Sends requests to a URL for some milliseconds. Returns the ``requests`` that were answered, the ``seconds`` that
they took, and latencies, by the names of figures. Raises MeasurementError for any that was not answered with 200.
"""


@entry("request")
async def request(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """One service, one load."""
    options = measurement.options
    milliseconds, connections = 1000 * int(options.get("seconds", 5)), int(options.get("connections", 64))

    async def load(url: str, milliseconds: int) -> dict[str, Any]:
        return await _wrk(url, milliseconds // 1000, connections, measurement.size)

    # wrk leaves without the last answer of each connection.
    return await under_load(measurement, bootstrap_servers, topic, load, milliseconds, unread=connections)


async def under_load(
    measurement: Measurement,
    bootstrap_servers: str,
    topic: str,
    load: Load,
    milliseconds: int,
    *,
    warm_up: Load | None = None,
    unread: int = 0,
) -> Figures:
    """The figures of one service under one load, which may leave some last answers ``unread``. It is warmed up by the
    load itself unless another is given.
    """
    arguments = [measurement.client, bootstrap_servers, topic, json.dumps(measurement.options.get("producer", {}))]
    if measurement.options.get("freeze"):
        arguments.append("freeze")
    async with helper("benchmarks.web.service", *arguments) as service:
        url = service.hello["url"]
        await (warm_up or load)(url, WARM_UP_MS)
        before, cpu_before = await _settled(service), cpu_seconds_of(service.pid)
        loaded = await load(url, milliseconds)
        cpu = cpu_seconds_of(service.pid) - cpu_before
        counted = await _settled(service)
        peak = memory_of(service.pid, "VmHWM") / 1024**2
    served = counted["answered"] - before["answered"]
    if counted["failed"]:
        raise MeasurementError(f"errors under load: {loaded}, the service counted {counted}")
    if not 0 <= served - loaded["requests"] <= unread:
        raise MeasurementError(f"{loaded['requests']} answers came, the service counted {served}")
    return {
        "messages": float(served),
        "written": float(counted["answered"]) if measurement.client != "nobody" else 0.0,
        "rate": loaded["requests"] / loaded["seconds"],
        "cpu_seconds": cpu,
        "cpu_us": cpu / served * 1e6,
        "peak_rss_mb": peak,
        **{name: figure for name, figure in loaded.items() if name != "requests"},
    }


async def _wrk(url: str, seconds: int, connections: int, size: int) -> dict[str, Any]:
    program = shutil.which("wrk")
    if program is None:
        raise SkippedError("wrk is not installed: apt-get install wrk")
    command = [program, "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={REQUEST_TIMEOUT}s"]
    command += ["--latency", "-s", str(SCRIPT), url, str(size)]
    status, output, errors = await completed(command, None)
    if status != 0:
        raise MeasurementError(f"wrk: {errors.decode(errors='replace')}{output.decode(errors='replace')}")
    figures: dict[str, Any] = json.loads(output.decode().strip().splitlines()[-1])
    if any(figures.pop(name) for name in _ERRORS):
        raise MeasurementError(f"errors under load: {output.decode()}")
    return figures


async def _settled(service: Helper) -> dict[str, Any]:
    """The service's count when it has nothing in hand."""
    deadline = time.monotonic() + REQUEST_TIMEOUT
    while (counted := await service.ask("count"))["in_progress"]:
        if time.monotonic() > deadline:
            raise MeasurementError(f"requests without an answer: {counted}")
        await asyncio.sleep(0.05)
    return counted
