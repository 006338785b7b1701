"""The measurements, and the phases whose rows share a cluster.

Counts are chosen so that a measurement takes one to four seconds on two cores; the quick form takes a part of the rows
and of the counts. Rows of one phase are interleaved on one broker; a phase with very many partitions has a broker of
its own.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from .macro import brokers, open_loop, special, start_up, transactions
from .measurement import Measurement
from .web import fixed_rate

__all__ = ["CODECS", "OUR_LEVELS", "THEIR_LEVELS", "everything", "phases", "quick", "select"]

DEFAULT_BATCH: Final = "16 KiB batches"
LARGE_BATCH: Final = "128 KiB batches"
_LARGE: Final[dict[str, Any]] = {"producer": {"max_batch_size": 131_072}}
_NO_LINGER: Final[dict[str, Any]] = {"producer": {"linger_ms": 0}}
_NO_LINGER_RDKAFKA: Final[dict[str, Any]] = {"producer": {"linger.ms": 0}}
_SYSTEMS_BUFFER: Final[dict[str, Any]] = {"producer": {"send_buffer_bytes": -1}}
"""The socket's buffer as the system makes it, which is librdkafka's default; ours is Kafka's, of 128 KiB."""

APART: Final = {"keyed partitions": "many partitions", brokers.GROUP: brokers.GROUP}
"""Groups that are not measured on the broker of all others."""

CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
OUR_LEVELS: Final = {"gzip": (None,), "snappy": (None,), "lz4": (None, 1, 3), "zstd": (None,)}
THEIR_LEVELS: Final = {"gzip": (None,), "snappy": (None,), "lz4": (None, 3), "zstd": (None,)}
"""The levels of each codec, ours and librdkafka's; None is the default. Java's levels of lz4, which are ours, take the
fast compressor at 9, the default, and the high one at any other; librdkafka takes the fast one below 3. So no level of
librdkafka's has the ratio of our level 1, which is between its default and its level 3. aiokafka has no such option.
"""


def everything() -> list[Measurement]:
    """The full suite."""
    groups = (_awaited, _pipelined, _bulk, _kibibyte, _tls, _codecs, _keyed)
    found = [measurement for group in groups for measurement in group()]
    return [
        *found,
        *transactions.measurements(),
        *open_loop.measurements(),
        *special.measurements(),
        *fixed_rate.measurements(),
        *start_up.measurements(),
        *brokers.measurements(),
    ]


def quick() -> list[Measurement]:
    """The measurements of about a minute in all."""
    groups = ("await", "tasks", "pipelined", "send_nowait", "bulk", "arrow", "open loop")
    left_out = ("10,000 tasks", "kafka-python", "1 KiB", "10%", "80%")
    found = []
    for measurement in everything():
        if measurement.group in groups and not any(words in measurement.label for words in left_out):
            share = 4 if measurement.workload == "lone await" else 10
            found.append(replace(measurement, count=max(500, measurement.count // share)))
    return found


def select(measurements: Iterable[Measurement], pattern: str | None) -> list[Measurement]:
    """The measurements whose label contains ``pattern``, or matches it when it has wildcards."""
    if pattern is None:
        return list(measurements)
    if not set("*?[") & set(pattern):
        pattern = f"*{pattern}*"
    return [m for m in measurements if fnmatch.fnmatch(m.label.lower(), pattern.lower())]


def phases(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    """The measurements by the broker that they share."""
    found: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        found.setdefault(APART.get(measurement.group, ""), []).append(measurement)
    return list(found.values())


# the groups


def _awaited() -> list[Measurement]:
    def lone(client: str, count: int, **options: Any) -> Measurement:
        return Measurement(group="await", workload="lone await", client=client, count=count, options=options)

    def tasks(number: int, client: str, count: int, variant: str = "", **options: Any) -> Measurement:
        return Measurement(
            group="tasks",
            workload=f"{number:,} tasks",
            client=client,
            count=count,
            variant=variant,
            options={"tasks": number, **options},
        )

    found = [
        lone("aiokafkapy", 10_000),
        lone("aiokafka", 6_000, **_NO_LINGER),
        lone("confluent-kafka", 10_000, **_NO_LINGER_RDKAFKA),
        lone("AIOProducer", 2_000, **_NO_LINGER_RDKAFKA, batch=1),
        lone("kafka-python", 3_000, **_NO_LINGER),
    ]
    for number in (1_000, 10_000):
        found += [
            tasks(number, "aiokafkapy", 600_000),
            # With small batches its waits for room are quadratic in the tasks.
            tasks(number, "aiokafka", 120_000 if number == 1_000 else 20_000, DEFAULT_BATCH),
            tasks(number, "aiokafka", 120_000, LARGE_BATCH, **_LARGE),
            tasks(number, "AIOProducer", 100_000, batch=min(1000, number // 4)),
        ]
    return found


def _pipelined() -> list[Measurement]:
    def row(client: str, count: int, variant: str = "", **options: Any) -> Measurement:
        return Measurement(
            group="pipelined", workload="pipelined", client=client, count=count, variant=variant, options=options
        )

    return [
        row("aiokafkapy", 1_500_000),
        row("aiokafkapy", 600_000, "pure Python", interpreted=True),
        row("aiokafka", 200_000, DEFAULT_BATCH),
        row("aiokafka", 200_000, LARGE_BATCH, **_LARGE),
        row("confluent-kafka", 1_000_000),
        row("confluent-kafka", 1_500_000, "no callback", callback=False),
        row("AIOProducer", 200_000),
        row("kafka-python", 60_000),
        row("Java", 2_000_000),
    ]


def _bulk() -> list[Measurement]:
    return [
        Measurement(group="send_nowait", workload="send_nowait", client="aiokafkapy", count=2_000_000),
        Measurement(group="bulk", workload="send_many", client="aiokafkapy", count=4_000_000, options=_SYSTEMS_BUFFER),
        Measurement(group="bulk", workload="encoded beforehand", client="plain socket", count=4_000_000),
        Measurement(group="bulk", workload="produce_batch", client="confluent-kafka", count=1_500_000),
        Measurement(
            group="arrow", workload="send_arrow", client="aiokafkapy", count=4_000_000, options=_SYSTEMS_BUFFER
        ),
    ]


def _kibibyte() -> list[Measurement]:
    def row(workload: str, client: str, count: int, variant: str = "", **options: Any) -> Measurement:
        return Measurement(
            group="1 KiB",
            workload=workload,
            client=client,
            count=count,
            size=1024,
            variant=variant,
            options=options,
        )

    return [
        row("lone await", "aiokafkapy", 10_000),
        row("lone await", "aiokafka", 6_000, **_NO_LINGER),
        row("lone await", "confluent-kafka", 10_000, **_NO_LINGER_RDKAFKA),
        row("1,000 tasks", "aiokafkapy", 300_000, tasks=1000),
        row("1,000 tasks", "aiokafka", 60_000, LARGE_BATCH, **_LARGE, tasks=1000),
        row("pipelined", "aiokafkapy", 400_000),
        row("pipelined", "aiokafka", 80_000, LARGE_BATCH, **_LARGE),
        row("pipelined", "confluent-kafka", 400_000),
        row("pipelined", "confluent-kafka", 400_000, "no callback", callback=False),
        row("pipelined", "Java", 600_000),
        row("send_nowait", "aiokafkapy", 400_000),
        row("send_many", "aiokafkapy", 500_000, **_SYSTEMS_BUFFER),
        row("produce_batch", "confluent-kafka", 400_000),
        row("send_arrow", "aiokafkapy", 500_000, **_SYSTEMS_BUFFER),
    ]


def _tls() -> list[Measurement]:
    def row(workload: str, client: str, count: int, size: int = 100, variant: str = "", **options: Any) -> Measurement:
        return Measurement(
            group="TLS",
            workload=workload,
            client=client,
            count=count,
            size=size,
            variant=variant,
            options={"tls": True, **options},
        )

    found = [
        row("lone await", "aiokafkapy", 10_000),
        row("lone await", "aiokafka", 6_000, **_NO_LINGER),
        row("lone await", "confluent-kafka", 10_000, **_NO_LINGER_RDKAFKA),
    ]
    for size, share in ((100, 1), (1024, 4)):
        found += [
            row("pipelined", "aiokafkapy", 1_200_000 // share, size),
            row("pipelined", "aiokafka", 200_000 // share, size, LARGE_BATCH, **_LARGE),
            row("pipelined", "confluent-kafka", 1_000_000 // share, size),
        ]
    return found


def _codecs() -> list[Measurement]:
    def row(client: str, count: int, codec: str, level: int | None, **producer: Any) -> Measurement:
        return Measurement(
            group="codecs",
            workload=codec,
            client=client,
            count=count,
            size=1024,
            variant="" if level is None else f"level {level}",
            options={"json": True, "producer": producer},
        )

    found = []
    for codec in CODECS:
        count = 60_000 if codec == "gzip" else 150_000
        for level in OUR_LEVELS[codec]:
            ours = {} if level is None else {f"compression_{codec}_level": level}
            found.append(row("aiokafkapy", count, codec, level, compression_type=codec, **ours))
        found.append(row("aiokafka", count // 2, codec, None, compression_type=codec, max_batch_size=131_072))
        for level in THEIR_LEVELS[codec]:
            theirs = {} if level is None else {"compression.level": level}
            found.append(row("confluent-kafka", count, codec, level, **{"compression.type": codec}, **theirs))
    return found


def _keyed() -> list[Measurement]:
    found = []
    # The peers' costs grow with the partitions.
    for partitions, aiokafka, confluent in ((6, 200_000, 600_000), (1_000, 40_000, 300_000), (10_000, 5_000, 30_000)):
        for client, count, options in (
            ("aiokafkapy", 500_000, {}),
            ("aiokafka", aiokafka, _LARGE),
            ("confluent-kafka", confluent, {}),
        ):
            found.append(
                Measurement(
                    group="keyed partitions",
                    workload="keyed",
                    client=client,
                    count=count,
                    partitions=partitions,
                    variant=f"{partitions:,} partitions",
                    options=options,
                )
            )
    return found
