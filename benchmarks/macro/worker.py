"""One measurement in a process of its own: ``python -m benchmarks.macro.worker MEASUREMENT BOOTSTRAP TOPIC``.

Opens the client, runs the workload with a share of the count as a warm-up, runs it in full, closes, and prints one line
of JSON: the figures that ``measurement`` describes. Everything runs on uvloop.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.clients import make_client
from benchmarks.measurement import SKIPPED, SKIPPED_STATUS, Figures, Measurement, SkippedError, find_workload

__all__ = ["measure"]

WARM_UP_SHARE: Final = 0.1
"""The warm-up's share of the count, unless ``options["warm_up"]`` gives another."""


async def measure(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """Open, warm up, measure, close."""
    run = find_workload(measurement)
    share = float(measurement.options.get("warm_up", WARM_UP_SHARE))
    first = replace(measurement, count=int(measurement.count * share))
    client = make_client(measurement.client)
    await client.open(bootstrap_servers, measurement)
    try:
        written = 0.0
        if first.count:
            written = _messages(await run(client, topic, first), first)
            gc.collect()
        figures = await run(client, topic, measurement)
    finally:
        await client.close()
    messages = _messages(figures, measurement)
    return {
        "messages": messages,
        "written": written + messages,
        "rate": messages / figures["seconds"],
        "cpu_us": figures.pop("cpu_seconds") / messages * 1e6,
        "peak_rss_mb": _peak_resident_mb(),
        **figures,
    }


def main() -> None:
    """Measure and print; exit status 3 when there is nothing to measure."""
    text, bootstrap_servers, topic = sys.argv[1:]
    try:
        figures = uvloop.run(measure(Measurement.from_json(text), bootstrap_servers, topic))
    except SkippedError as error:
        print(f"{SKIPPED}{error}", file=sys.stderr)
        sys.exit(SKIPPED_STATUS)
    print(json.dumps(figures))


def _messages(figures: Figures, measurement: Measurement) -> float:
    return figures.get("messages", measurement.count)


def _peak_resident_mb() -> float:
    """The peak of this program alone: getrusage's starts with the parent's memory before this program was executed."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    main()
