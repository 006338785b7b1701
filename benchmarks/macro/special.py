"""The measurements that are more than one workload in one process, and the ways to run them.

Owns their rows (``measurements``) and the entries that the rows' workloads name. ``request`` is in ``web.load``; the
others are modules that run in processes of their own: ``heartbeat`` (group "loop"), ``memory``, ``flat``. The group
"round trip" is an ordinary workload behind a ``proxy``, and "processes" one in several workers at a time.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from statistics import fmean
from typing import Any, Final

from benchmarks.macro.processes import helper
from benchmarks.measurement import Figures, Measurement, entry, figures_of, run_in_process
from benchmarks.web.load import BATCHED, FROZEN, POLLED

__all__ = ["measurements"]

ONE_WAY_MS: Final = 25
SECONDS: Final = 5
MEGABYTE: Final = 1_000_000
CODECS: Final = ("gzip", "lz4", "zstd")


def measurements() -> list[Measurement]:
    """All rows, by group."""
    return [*_web(), *_round_trip(), *_processes(), *_flat(), *_memory(), *_loop()]


# measuring a row


@entry("50 ms")
async def over_a_long_line(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The workload ``pipelined`` with a proxy before the broker."""
    async with helper("benchmarks.macro.proxy", bootstrap_servers, ONE_WAY_MS) as proxy:
        pipelined = replace(measurement, workload="pipelined")
        return await run_in_process(pipelined, proxy.hello["bootstrap_servers"], topic)


@entry("side by side")
async def side_by_side(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """The workload ``pipelined`` in several processes at a time, each with its part of the records; the rate is that of
    all until the slowest has ended.
    """
    processes = int(measurement.options["processes"])
    options = {name: value for name, value in measurement.options.items() if name != "processes"}
    part = replace(measurement, workload="pipelined", count=measurement.count // processes, options=options)
    parts = await asyncio.gather(*[run_in_process(part, bootstrap_servers, topic) for _ in range(processes)])
    sums = {name: sum(figures[name] for figures in parts) for name in ("messages", "written", "peak_rss_mb")}
    return {
        **sums,
        "seconds": max(figures["seconds"] for figures in parts),
        "cpu_us": fmean(figures["cpu_us"] for figures in parts),
    }


@entry("bulk")
@entry("flood")
@entry("arrow")
@entry("large")
@entry("sleeping")
@entry("competitor")
async def heartbeat(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """A heartbeat beside a load."""
    return _with_rate(await figures_of("benchmarks.macro.heartbeat", measurement, bootstrap_servers, topic))


@entry("stalled broker")
async def memory(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """Memory with a full buffer."""
    return await figures_of("benchmarks.macro.memory", measurement, bootstrap_servers, topic)


@entry("gathered")
@entry("topics")
@entry("partitions")
@entry("ages")
async def flat(measurement: Measurement, bootstrap_servers: str, topic: str) -> Figures:
    """Conditions that must not make a send dearer."""
    return _with_rate(await figures_of("benchmarks.macro.flat", measurement, bootstrap_servers, topic))


def _with_rate(figures: Figures) -> Figures:
    messages = figures["messages"]
    return {
        "rate": messages / figures["seconds"],
        "cpu_us": figures["cpu_seconds"] / messages * 1e6,
        **figures,
    }


# the rows


def _web() -> list[Measurement]:
    """Each client on its defaults, and the peers on the settings that did best with 64 connections; ours did best on
    its own.
    """

    def row(client: str, variant: str = "", *, freeze: bool = False, **producer: Any) -> Measurement:
        options = {"seconds": SECONDS, "connections": 64, "freeze": freeze, "producer": producer}
        # The load ends by the clock: the count only says that there is one.
        return Measurement(group="web", workload="request", client=client, count=1, variant=variant, options=options)

    return [
        row("aiokafkapy"),
        row("aiokafkapy", FROZEN, freeze=True),
        row("aiokafka"),
        row("aiokafka", "linger 1 ms", linger_ms=1),
        row("aiokafka", FROZEN, freeze=True),
        row("AIOProducer"),
        row("AIOProducer", POLLED, **BATCHED),
        row("AIOProducer", f"{FROZEN}, {POLLED}", freeze=True, **BATCHED),
        row("nobody", "no Kafka at all"),
    ]


def _round_trip() -> list[Measurement]:
    """One partition, 25 ms each way."""

    def row(client: str, count: int, variant: str, **producer: Any) -> Measurement:
        return Measurement(
            group="round trip",
            workload="50 ms",
            client=client,
            count=count,
            partitions=1,
            variant=variant,
            options={"producer": producer},
        )

    in_flight = "max_in_flight_requests_per_connection"
    return [
        row("aiokafkapy", 300_000, "5 in flight", **{in_flight: 5}),
        row("aiokafkapy", 60_000, "1 in flight", **{in_flight: 1}),
        row("aiokafkapy", 600_000, "5 in flight, 1 MB batches", **{in_flight: 5, "batch_size": MEGABYTE}),
        row("aiokafka", 6_000, "16 KiB batches"),
        row("aiokafka", 40_000, "128 KiB batches", max_batch_size=131_072),
        row("confluent-kafka", 600_000, "1 MB batches"),
        row("confluent-kafka", 300_000, "128 KiB batches", **{"batch.size": 131_072}),
    ]


def _processes() -> list[Measurement]:
    def row(processes: int, client: str, count: int, **options: Any) -> Measurement:
        return Measurement(
            group="processes",
            workload="side by side",
            client=client,
            count=count * processes,
            variant=f"{processes} of them",
            options={"processes": processes, **options},
        )

    found = []
    for number in (1, 2, 4):
        found += [
            row(number, "aiokafkapy", 1_500_000),
            row(number, "aiokafka", 150_000, producer={"max_batch_size": 131_072}),
            row(number, "confluent-kafka", 800_000),
        ]
    return found


def _flat() -> list[Measurement]:
    def row(workload: str, client: str, count: int, variant: str, **options: Any) -> Measurement:
        return Measurement(
            group="flat", workload=workload, client=client, count=count, variant=variant, options=options
        )

    found = [
        row("gathered", client, 128_000, f"{at_once:,} at once", at_once=at_once)
        for at_once in (1_000, 4_000, 16_000, 64_000)
        for client in ("aiokafkapy", "bare asyncio")
    ]
    found += [
        replace(row("gathered", "aiokafkapy", 128_000, f"{n:,} at once", at_once=n), size=1024) for n in (1_000, 32_000)
    ]
    # Its waits are quadratic: more at once than this take minutes.
    found += [row("gathered", "aiokafka", 16_000, f"{n:,} at once", at_once=n) for n in (1_000, 4_000)]
    found += [
        row("topics", "aiokafkapy", 100_000, f"{topics:,} topics, {known} known", topics=topics, known=known)
        for topics, known in ((10, "one"), (10_000, "one"), (10, "all"), (1_000, "all"), (10_000, "all"))
    ]
    found.append(row("topics", "aiokafkapy", 100_000, "10,000 topics, all used", topics=10_000, known="used"))
    found += [
        row("partitions", "aiokafkapy", 7 * topics * 10, f"{topics * 10:,} of {topics:,} topics, {nodes} nodes",
            topics=topics, partitions=10, nodes=nodes)
        for topics, nodes in ((100, 1), (10_000, 100))
    ]  # fmt: skip
    found += [
        row("ages", "aiokafkapy", 100_000, "fresh", topics=100, hours=0),
        row("ages", "aiokafkapy", 100_000, "after an hour", topics=100, hours=1),
    ]
    return found


def _memory() -> list[Measurement]:
    def row(size: int, variant: str, how: str = "enqueue", **producer: Any) -> Measurement:
        return Measurement(
            group="memory",
            workload="stalled broker",
            client="aiokafkapy",
            count=1,  # as many as the buffer takes
            size=size,
            variant=variant,
            options={"how": how, "producer": producer},
        )

    found = []
    for size in (100, 1024, 100 * 1024):
        found += [row(size, "enqueue"), row(size, "send_many", "send_many")]
    return [*found, row(1024, "enqueue, zstd", compression_type="zstd"), row(100, "deliveries kept", "enqueue kept")]


def _loop() -> list[Measurement]:
    def row(workload: str, client: str, count: int, variant: str = "", size: int = 100, **producer: Any) -> Measurement:
        return Measurement(
            group="loop",
            workload=workload,
            client=client,
            count=count,
            size=size,
            variant=variant,
            options={"producer": producer},
        )

    found = [
        row("sleeping", "nobody", 3_000),
        row("competitor", "nobody", 3_000),
        row("bulk", "aiokafkapy", 4_000_000),
        row("flood", "aiokafkapy", 2_000_000),
        row("flood", "aiokafka", 100_000, max_batch_size=131_072),
        row("arrow", "aiokafkapy", 4_000_000),
        row("large", "aiokafkapy", 600, "none", MEGABYTE),
    ]
    for codec in CODECS:
        count = 100 if codec == "gzip" else 300
        found.append(row("large", "aiokafkapy", count, codec, MEGABYTE, compression_type=codec))
        found.append(row("large", "aiokafka", 15, codec, MEGABYTE, compression_type=codec))
    return found
