"""One transaction after another: begin, the same number of records each time, commit. Rows and workloads.

``count`` is of records, ``options["records"]`` how many a transaction has. How a client is given the records of one is
its ``Fill``; a record that fails fails the commit, so no outcome is looked at by itself. ``p50_ms`` and the like are of
whole transactions, from before begin until after commit: some clients send at once, others leave all to the commit. The
commit alone is ``commit_p50_ms``. Java is an entry of its own: ``clients.java``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import perf_counter
from typing import Any, Final

from benchmarks.clients import Client
from benchmarks.measurement import Figures, Measurement, MeasurementError, Stopwatch, percentiles, workload

__all__ = ["measurements", "transactions_of"]

COUNTS: Final = {1: 1_000, 100: 50_000, 10_000: 500_000}
"""The number of all records, by the number of records of a transaction."""
AIOKAFKA_COUNTS: Final = {1: 300, 100: 10_000, 10_000: 100_000}
COMMIT_TIMEOUT: Final = 60.0

Fill = Callable[[], Awaitable[Any]]
"""Gives the producer the records of one transaction."""


def measurements() -> list[Measurement]:
    """The rows. A commit sends the gathered records and does not wait for the linger, except aiokafka's: it has none up
    to 100 records. The others have theirs of 5 ms, by which a batch of a large transaction fills up.
    """
    found = []
    for records, count in COUNTS.items():
        linger = 5 if records > 100 else 0
        large: dict[str, Any] = {"linger_ms": linger, "max_batch_size": 131_072}
        found += [
            *(
                _row("aiokafkapy", records, count, how, transactional_id=f"aiokafkapy-{how}-{records}")
                for how in (("send",) if records == 1 else ("send_many", "enqueue"))
            ),
            _row("aiokafka", records, AIOKAFKA_COUNTS[records], transactional_id=f"aiokafka-{records}", **large),
            _row("confluent-kafka", records, count, **{"transactional.id": f"confluent-{records}"}),
            _row("Java", records, count, **{"transactional.id": f"java-{records}"}),
        ]
    return found


def _row(client: str, records: int, count: int, how: str = "", **producer: Any) -> Measurement:
    options = {"records": records, "how": how, "transactions": True, "producer": producer}
    return Measurement(
        group="transactions",
        workload=f"{records:,} {'record' if records == 1 else 'records'}",
        client=client,
        count=count,
        variant=how,
        options=options,
    )


def transactions_of(measurement: Measurement) -> int:
    """The number of transactions; one at least."""
    return max(1, measurement.count // int(measurement.options["records"]))


# the workloads


@workload("1 record", "aiokafkapy")
@workload("100 records", "aiokafkapy")
@workload("10,000 records", "aiokafkapy")
async def aiokafkapy(client: Client, topic: str, measurement: Measurement) -> Figures:
    """``options["how"]`` says by which call the records are sent."""
    producer, records, value = client.producer, measurement.options["records"], bytes(measurement.size)
    fills: dict[str, Fill] = {
        "send": partial(_each, client.send, topic, value, records),
        "send_many": partial(producer.send_many, topic, [value] * records),
        "enqueue": partial(_each, client.enqueue, topic, value, records),
    }
    return await _measured(producer.transaction, fills[measurement.options["how"]], measurement)


@workload("1 record", "aiokafka")
@workload("100 records", "aiokafka")
@workload("10,000 records", "aiokafka")
async def aiokafka(client: Client, topic: str, measurement: Measurement) -> Figures:
    """Its ``send`` only accepts a record."""
    fill = partial(_each, client.enqueue, topic, bytes(measurement.size), measurement.options["records"])
    return await _measured(client.producer.transaction, fill, measurement)


@workload("1 record", "confluent-kafka")
@workload("100 records", "confluent-kafka")
@workload("10,000 records", "confluent-kafka")
async def confluent(client: Client, topic: str, measurement: Measurement) -> Figures:
    """Without callbacks: the queue has room for every transaction, and the commit flushes."""
    producer, records, value = client.producer, measurement.options["records"], bytes(measurement.size)

    @asynccontextmanager
    async def transaction() -> AsyncIterator[None]:
        producer.begin_transaction()
        yield
        producer.commit_transaction(COMMIT_TIMEOUT)

    async def fill() -> None:
        produce = producer.produce
        for _ in range(records):
            produce(topic, value)

    return await _measured(transaction, fill, measurement)


# internals


async def _measured(
    transaction: Callable[[], AbstractAsyncContextManager[None]], fill: Fill, measurement: Measurement
) -> Figures:
    number = transactions_of(measurement)
    whole, commits = [], []
    with Stopwatch() as watch:
        for _ in range(number):
            began = perf_counter()
            async with transaction():
                await fill()
                filled = perf_counter()
            ended = perf_counter()
            whole.append(ended - began)
            commits.append(ended - filled)
    if len(commits) != number:
        raise MeasurementError(f"{len(commits)} of {number} transactions were committed")
    return (
        watch.figures
        | percentiles(whole)
        | {
            "messages": number * measurement.options["records"],
            "commits_rate": number / watch.figures["seconds"],
            "commit_p50_ms": percentiles(commits)["p50_ms"],
            "transaction_cpu_us": watch.figures["cpu_seconds"] / number * 1e6,
        }
    )


async def _each(send: Callable[..., Awaitable[Any]], topic: str, value: bytes, records: int) -> None:
    for _ in range(records):
        await send(topic, value)
