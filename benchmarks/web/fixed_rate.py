"""Latency of the web service at a fixed rate of requests, as from many users who do not wait for each other.

Owns the rows of the group "web open loop" and their entry: ``service`` under vegeta's load, at the shares of
``macro.open_loop`` of aiokafka's capacity. That is the rate at which the service with aiokafka answers vegeta's workers
when each waits for its answer before it sends again (the entry ``unpaced request``), measured once for each cluster,
with the collector's heap frozen for the rows with theirs. It is not wrk's: vegeta takes more of the cores, and of 80 %
of wrk's rate aiokafka reached little more than half.

The peers are on the settings that suit them: with a linger aiokafka was slower at each share, and AIOProducer without
``BATCHED`` by seconds.

What is slowest here is Python's garbage collector, whatever the client: a full collection stops the service for 15 to
30 ms, and at the higher rates makes up to two hundred requests wait, whose hundred objects each bring the next one
near. So the rows are measured twice:

- With the heap frozen (see ``service``), where the collector does not count.
- As the service comes. The load of the warm-up has no schedule, so that the full collections that the start-up leaves
  are over; after it, at half the rate, there is one in 10 to 25 seconds.

The load lasts ``MILLISECONDS``: of a collection or two, or of one pause of the machine, in so many requests the p99.9
is not made.

``count`` is the time, in milliseconds. A request is due at its place in the schedule, and its latency counts from then
(no coordinated omission): no stall of the service, of a connection or of vegeta itself is spared.

vegeta, and not wrk2, which is in no package registry, nor oha: vegeta starts as many workers as it needs, so that no
request waits for another's answer, and opens a connection when none is idle. Its own latencies are of no use here: each
counts from the start of the request, so that a vegeta that comes late to its schedule, on two cores that it shares with
the service, looks quick (as does oha, whose latency correction begins where its timer has fired). But its results have
each request's number and start. From these the latencies are reckoned here: its pacer makes request k due k + 1
intervals after the beginning, of whole nanoseconds, and never starts one earlier, so the most punctual request tells
the beginning.

- It is vegeta as a library, for a pacer of our own: at a low rate its timers, of whole milliseconds, were most of a
  latency (see ``web/vegeta/main.go``).
- ``CONNECTIONS`` bounds the open ones; a request beyond them waits inside vegeta, and that counts.
- vegeta takes 150 µs of CPU per request at 1,000/s and 65 at 8,000/s, where the service by itself takes as much; wrk
  takes 13.
- Figures: as in ``macro.open_loop``. ``late_p50_ms`` and ``late_p99_ms`` are vegeta's own delay; it is the same for
  every client as far as the cores suffice.

vegeta is built from ``web/vegeta`` as kfake is; without Go, or without its modules, the rows are left out.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from benchmarks.go_programs import built
from benchmarks.macro.open_loop import SHARES, from_due, offered
from benchmarks.macro.processes import allow_descriptors
from benchmarks.measurement import Figures, Measurement, MeasurementError, completed, entry
from benchmarks.web.load import BATCHED, FROZEN, POLLED, Load, under_load

__all__ = ["GROUP", "WORKLOAD", "attack", "figures_of_results", "measurements"]

GROUP: Final = "web open loop"
WORKLOAD: Final = "paced request"
CAPACITY_WORKLOAD: Final = "unpaced request"
SOURCES: Final = Path(__file__).with_name("vegeta")
CONNECTIONS: Final = 2_000
WORKERS: Final = 64
"""As many wait for their answers at a time while the capacity is measured."""
CAPACITY_MS: Final = 5_000
MILLISECONDS: Final = 30_000
DRAIN_SECONDS: Final = 120
"""Seconds for answers after the last request: a service with less than the rate has all the others in hand by then."""
SECOND: Final = 1_000_000_000
"""A second in vegeta's nanoseconds."""
_FEWER_COLLECTIONS: Final = {"GOGC": "400"}
"""vegeta is to take less of the cores that the service needs."""


def measurements() -> list[Measurement]:
    """Each client at each share, as the service comes and with the heap frozen."""

    def row(share: float, client: str, variant: str = "", *, freeze: bool = False, **producer: Any) -> Measurement:
        words = ([FROZEN] if freeze else []) + ([variant] if variant else []) + [f"{share:.0%}"]
        return Measurement(
            group=GROUP,
            workload=WORKLOAD,
            client=client,
            count=MILLISECONDS,
            variant=", ".join(words),
            options={"share": share, "freeze": freeze, "producer": producer},
        )

    found = []
    for share in SHARES:
        for freeze in (False, True):
            found += [
                row(share, "aiokafkapy", freeze=freeze),
                row(share, "aiokafka", freeze=freeze),
                row(share, "AIOProducer", POLLED, freeze=freeze, **BATCHED),
            ]
        found.append(row(share, "nobody", "no Kafka at all"))
    return found


@entry(WORKLOAD)
async def paced_request(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """One service, one load, at a share of its rate with aiokafka."""
    freeze = measurement.options["freeze"]
    closed = Measurement(
        group=GROUP,
        workload=CAPACITY_WORKLOAD,
        client="aiokafka",
        variant=FROZEN if freeze else "",
        count=min(CAPACITY_MS, 2 * measurement.count),
        options={"freeze": freeze},
    )
    rate = await offered(measurement, closed, bootstrap_servers, topic)
    figures = await _measured(measurement, bootstrap_servers, topic, max(1, round(rate["offered"])))
    return figures | rate | {"written": rate["written"] + figures["written"]}


@entry(CAPACITY_WORKLOAD)
async def unpaced_request(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """One service, one load without a schedule, by ``WORKERS`` that wait for their answers."""
    return await _measured(measurement, bootstrap_servers, topic, None)


async def attack(program: Path, url: str, rate: int | None, milliseconds: int, size: int) -> dict[str, Any]:
    """Figures of requests of ``size`` bytes by vegeta, the compiled ``program``: at a rate per second, or by
    ``WORKERS`` as fast as they are answered. Raises MeasurementError when vegeta fails or does not end, or when an
    answer is not 200.
    """
    pace = f"-workers={WORKERS}" if rate is None else f"-rate={rate}"
    options = [f"-url={url}", f"-size={size}", f"-duration={milliseconds}ms", f"-connections={CONNECTIONS}", pace]
    limit = milliseconds / 1000 + DRAIN_SECONDS
    try:
        status, output, errors = await completed([str(program), *options], limit, env=os.environ | _FEWER_COLLECTIONS)
    except TimeoutError:
        raise MeasurementError(f"vegeta: no end within {limit:.0f} s") from None
    if status != 0:
        raise MeasurementError(f"vegeta: {errors.decode(errors='replace')}")
    return figures_of_results(output.decode().splitlines(), rate)


def figures_of_results(lines: Iterable[str], rate: int | None) -> dict[str, Any]:
    """The figures that ``under_load`` asks for, from vegeta's lines. At a ``rate`` a latency counts from the time at
    which the request was due; without one there are no latencies.
    """
    hits: list[tuple[int, int, int]] = []  # place in the schedule, sent, answered
    errors: list[str] = []
    for place, sent, latency, code, error in csv.reader(lines):
        hits.append((int(place), int(sent), int(sent) + int(latency)))
        if code != "200":
            errors.append(error)
    if errors:
        raise MeasurementError(f"{len(errors)} of {len(hits)} requests failed: {errors[0]}")
    if not hits:
        raise MeasurementError("vegeta sent nothing")
    interval = 0 if rate is None else SECOND // rate
    first = min(sent - place * interval for place, sent, _ in hits)
    figures = {
        "requests": len(hits),
        "seconds": (max(answered for _, _, answered in hits) - first) / SECOND,
    }
    if rate is None:
        return figures
    return figures | from_due(
        ((answered - first - place * interval) / SECOND for place, _, answered in hits),
        ((sent - first - place * interval) / SECOND for place, sent, _ in hits),
    )


# internals


async def _measured(measurement: Measurement, bootstrap_servers: str, topic: str, rate: int | None) -> Figures:
    """One service under vegeta's load, at so many requests per second or as fast as its workers get answers."""
    program = await built("vegeta", SOURCES)
    allow_descriptors(CONNECTIONS)

    def load_at(rate: int | None) -> Load:
        async def load(url: str, milliseconds: int) -> dict[str, Any]:
            return await attack(program, url, rate, milliseconds, measurement.size)

        return load

    load, warm_up = load_at(rate), load_at(None)
    return await under_load(measurement, bootstrap_servers, topic, load, measurement.count, warm_up=warm_up)
