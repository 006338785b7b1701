"""Latency at a fixed rate, independent of the client's speed: an open loop, measured from the intended time.

Owns the rows of the group "open loop", their entry, and the workload ``paced``; and, for every row at a fixed rate (see
``web.fixed_rate``), the ``SHARES``, the rate (``offered``) and the figures (``from_due``). A thousand tasks send one
record at a time, at a share of aiokafka's capacity (the option ``share``): the entry measures that once for each
cluster, by a thousand tasks without pauses. A record's latency counts from the time at which it was due, though its
task was still busy with the one before it: a client that stalls is charged for every record that should have been sent
meanwhile (no coordinated omission).

Figures: ``p50_ms`` ``p99_ms`` ``p999_ms`` from the due time; ``late_p50_ms`` ``late_p99_ms`` from there until the
record was handed to the client, which is the loop's timers (a millisecond, on uvloop) and the task's own backlog;
``offered`` records/s, and ``capacity``, whose share it is. ``count`` is the time, in milliseconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from benchmarks.clients import Client
from benchmarks.measurement import (
    Figures,
    Measurement,
    Stopwatch,
    entry,
    find_entry,
    percentiles,
    run_in_process,
    workload,
)

__all__ = ["SHARES", "from_due", "measurements", "offered"]

TASKS: Final = 1_000
CAPACITY_RECORDS: Final = 120_000
SHARES: Final = (0.1, 0.5, 0.8)
MILLISECONDS: Final = 10_000

_capacities: dict[tuple[str, str], float] = {}
"""aiokafka's records per second, by the row that measured them and the cluster's addresses."""


def measurements() -> list[Measurement]:
    """Each client at each share, on its defaults and on the settings that may suit it better."""

    def row(share: float, client: str, variant: str = "", **options: Any) -> Measurement:
        return Measurement(
            group="open loop",
            workload="open loop",
            client=client,
            count=MILLISECONDS,
            variant=f"{variant}, {share:.0%}" if variant else f"{share:.0%}",
            options={"share": share, "tasks": TASKS, **options},
        )

    found = []
    for share in SHARES:
        found += [
            row(share, "aiokafkapy"),
            row(share, "aiokafka", "no linger", producer={"linger_ms": 0}),
            row(share, "aiokafka", "linger 5 ms", producer={"linger_ms": 5, "max_batch_size": 131_072}),
            row(share, "AIOProducer"),
            row(share, "AIOProducer", "batches of 16, no linger", batch=16, producer={"linger.ms": 0}),
        ]
    return found


@entry("open loop")
async def open_loop(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """A share of aiokafka's capacity."""
    closed = Measurement(
        group="open loop",
        workload="1,000 tasks",
        client="aiokafka",
        count=min(CAPACITY_RECORDS, 12 * measurement.count),
        options={"tasks": TASKS, "producer": {"max_batch_size": 131_072}},
    )
    rate = await offered(measurement, closed, bootstrap_servers, topic)
    paced = replace(measurement, workload="paced", options={**measurement.options, "offered": rate["offered"]})
    figures = await run_in_process(paced, bootstrap_servers, topic)
    return figures | rate | {"written": rate["written"] + figures["written"]}


async def offered(measurement: Measurement, closed: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The rate of a row: its ``share`` of the capacity, which the row ``closed`` measures before the first.

    ``written`` is the number of records that this wrote.
    """
    known, written = (closed.label, bootstrap_servers), 0.0
    if known not in _capacities:
        figures = await find_entry(closed)(closed, bootstrap_servers, topic)
        _capacities[known], written = figures["rate"], figures["written"]
    capacity = _capacities[known]
    return {"offered": capacity * measurement.options["share"], "capacity": capacity, "written": written}


def from_due(latencies: Iterable[float], late: Iterable[float]) -> Figures:
    """The figures of latencies, in seconds from the time at which each record was due, and of the delays of their
    sending.
    """
    lateness = {f"late_{name}": figure for name, figure in percentiles(late).items() if name != "p999_ms"}
    return percentiles(latencies) | lateness


@workload("paced")
async def paced(client: Client, topic: str, measurement: Measurement) -> Figures:
    """``options["offered"]`` records/s by ``options["tasks"]`` tasks, each at its own times, for ``count`` ms."""
    send, value = client.send, bytes(measurement.size)
    number, rate = int(measurement.options["tasks"]), float(measurement.options["offered"])
    each = max(1, round(measurement.count / 1000 * rate / number))
    latencies: list[float] = []
    late: list[float] = []

    async def task(place: int) -> None:
        for turn in range(each):
            due = start + (place + turn * number) / rate
            # In whole milliseconds, as uvloop's timers are: rounded down there, it would come early or spin.
            if (early := due - perf_counter()) > 0:
                await asyncio.sleep(math.ceil(early * 1000) / 1000)
            late.append(perf_counter() - due)
            await send(topic, value)
            latencies.append(perf_counter() - due)

    with Stopwatch() as watch:
        start = perf_counter() + 0.1  # when every task has been made
        async with asyncio.TaskGroup() as group:
            for place in range(number):
                group.create_task(task(place))
    return watch.figures | from_due(latencies, late) | {"messages": float(each * number)}
