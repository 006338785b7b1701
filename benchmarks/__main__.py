"""``python -m benchmarks [--rounds N] [--quick]``: the core's figures, interleaved with aiokafka's on one real
Kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiokafkapy
from aiokafkapy.testing import ApacheKafka

RESULTS = Path(__file__).parent / "results"
# workload, client, messages, bytes of a value
MEASUREMENTS = [
    ("lone_await", "aiokafkapy", 3_000, 100),
    ("lone_await", "aiokafka", 3_000, 100),
    ("gather", "aiokafkapy", 1_000, 1_000),
    ("gather", "aiokafkapy", 32_000, 1_000),
    ("gather", "aiokafka", 1_000, 1_000),
]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "",
    )
    packages = ("uvloop", "aiokafka", "kio", "cramjam")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "compiled": aiokafkapy.compiled,
        **{name: importlib.metadata.version(name) for name in packages},
    }


def run_one(measurement: tuple[str, str, int, int], bootstrap_servers: str, topic: str) -> dict[str, Any]:
    """One measurement in a process of its own."""
    workload, client, count, size = measurement
    command = [
        sys.executable,
        "-m",
        "benchmarks.macro.worker",
        workload,
        client,
        bootstrap_servers,
        topic,
        str(count),
        str(size),
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    figures: dict[str, Any] = json.loads(printed)
    return figures


def label(measurement: tuple[str, str, int, int]) -> str:
    """A row's name."""
    workload, client, count, size = measurement
    return f"{workload} {count:,} of {size} B · {client}"


def summarise(rounds: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Median and range of each figure of each row."""
    return {
        row: {
            name: {
                "median": statistics.median(run[name] for run in runs),
                "min": min(run[name] for run in runs),
                "max": max(run[name] for run in runs),
            }
            for name in runs[0]
        }
        for row, runs in rounds.items()
    }


def print_table(summary: dict[str, dict[str, Any]]) -> None:
    """The rows with medians and ranges."""
    columns = {
        "rate /s": "rate",
        "µs/msg": "us_per_message",
        "CPU µs": "cpu_us_per_message",
        "p50 ms": "p50_ms",
        "p99 ms": "p99_ms",
    }
    print(f"{'workload · client':44}" + "".join(f"{name:>12}" for name in columns) + "   range of the rate")
    for row, figures in summary.items():
        cells = "".join(
            f"{figures[name]['median']:12,.3f}" if name in figures else " " * 12 for name in columns.values()
        )
        print(f"{row:44}{cells}   {figures['rate']['min']:,.0f} to {figures['rate']['max']:,.0f}")


def ratios(summary: dict[str, dict[str, Any]]) -> dict[str, float]:
    """What is claimed, as ratios of medians of one run."""

    def median(row: int, figure: str) -> float:
        return float(summary[label(MEASUREMENTS[row])][figure]["median"])

    return {
        "lone await, p50: ours / aiokafka's": median(0, "p50_ms") / median(1, "p50_ms"),
        "gather, time per record: 32,000 sends / 1,000 sends": median(3, "us_per_message")
        / median(2, "us_per_message"),
        "gather of 1,000, time per record: ours / aiokafka's": median(2, "us_per_message")
        / median(4, "us_per_message"),
    }


async def run(rounds: int) -> dict[str, list[dict[str, Any]]]:
    """All measurements in turn, ``rounds`` times, after one round that is not counted."""
    found: dict[str, list[dict[str, Any]]] = {label(m): [] for m in MEASUREMENTS}
    async with ApacheKafka() as kafka:
        await kafka.create_topic("benchmark", partitions=6)
        for number in range(rounds + 1):
            for measurement in MEASUREMENTS:
                figures = await asyncio.to_thread(run_one, measurement, kafka.bootstrap_servers, "benchmark")
                if number:
                    found[label(measurement)].append(figures)
            print(f"round {number} of {rounds}" if number else "warm-up done", file=sys.stderr)
    return found


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds, interleaved (default 5)")
    parser.add_argument("--quick", action="store_true", help="one round, nothing kept")
    arguments = parser.parse_args()
    summary = summarise(asyncio.run(run(1 if arguments.quick else arguments.rounds)))
    print_table(summary)
    claims = ratios(summary)
    for name, ratio in claims.items():
        print(f"{name}: {ratio:.2f}")
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        kept = {"date": day, "machine": machine(), "ratios": claims, "figures": summary}
        (RESULTS / f"{day}-core.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
