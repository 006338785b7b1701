"""``aiokafkapy perf``: measures produce throughput and latency, as Kafka's ``kafka-producer-perf-test`` does.

Owns the options, the load and the figures. Kafka's counterpart is ``org.apache.kafka.tools.ProducerPerformance``.

Rules:

- The load is that of a typical program: ``send_nowait`` while there is room, else ``enqueue``; or with ``--tasks`` so
  many tasks, each awaiting its ``send``, as in a web service.
- Latency is from the call to the acknowledgement. Only every n-th of many records is timed, so that reading the clock
  does not cost more than sending (Kafka's tool does the same); the output has their number.
- A failed record is counted and makes the exit code 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ..common import percentile
from ..errors import BufferExhaustedError, KafkaError, MetadataNotReadyError
from .options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT,
    AsJson,
    BootstrapServers,
    ConfigEntries,
    Timeout,
    client_options,
)
from .producing import started_producer
from .progress import Progress, progress
from .reporting import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, say
from .running import Stop, run

if TYPE_CHECKING:
    from ..producer.deliveries.delivery import Delivery
    from ..producer.producer import KafkaProducer

__all__ = ["Figures", "Pace", "perf"]

MAX_TIMED = 50_000
"""The most records that are timed; evenly spread."""
BLOCK = 256
"""The most records between checks of the clock, the pace and Ctrl-C."""
SHORTEST_PAUSE = 0.01
"""Seconds between two blocks, at a rate at which a full block would take longer."""
LONGEST_PAUSE = 3600.0
"""The most seconds of a timer: the loop refuses much longer ones."""
DISTINCT_VALUES = 64
"""Different values sent in turn, so that a codec does not see one value repeated."""


@dataclass(slots=True)
class Figures:
    """The results. Latencies are seconds, of the records that were timed."""

    record_size: int
    sent: int = 0
    delivered: int = 0
    failed: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    first_error: str | None = None

    def note(self, begun: float, delivery: Delivery) -> None:
        """Record the latency of a timed record, if it was delivered; its delivery's done callback."""
        error = delivery.exception()
        if error is None:
            self.latencies.append(time.perf_counter() - begun)
        else:
            self.first_error = self.first_error or str(error)

    def note_error(self, error: BaseException) -> None:
        """A record was refused."""
        self.failed += 1
        self.first_error = self.first_error or str(error)

    def as_json(self) -> dict[str, object]:
        """The figures for programs: rates per second, latencies in milliseconds."""
        ordered = sorted(self.latencies)
        rate = self.delivered / self.seconds if self.seconds > 0 else 0.0
        return {
            "records": self.delivered,
            "failed": self.failed,
            "seconds": round(self.seconds, 4),
            "records_per_second": round(rate, 1),
            "mb_per_second": round(rate * self.record_size / 1_048_576, 3),
            "timed_records": len(ordered),
            "average_latency_ms": _ms(sum(ordered) / len(ordered)) if ordered else None,
            "max_latency_ms": _ms(ordered[-1]) if ordered else None,
            **{name: _ms(percentile(ordered, share)) if ordered else None for name, share in _PERCENTILES.items()},
        }


_PERCENTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p99_9_ms": 0.999}


@dataclass(slots=True)
class Pace:
    """Limits the records per second; 0 or less is unlimited."""

    rate: float
    begun: float

    def delay(self, sent: int, now: float) -> float:
        """Seconds to wait before the next record."""
        return max(0.0, self.begun + sent / self.rate - now) if self.rate > 0 else 0.0

    @property
    def block(self) -> int:
        """The number of records that may be sent at once."""
        return max(1, int(min(BLOCK, self.rate * SHORTEST_PAUSE))) if self.rate > 0 else BLOCK


def perf(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to; made when it is not there.")],
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    num_records: Annotated[int, typer.Option("--num-records", "-n", min=1, help="How many records.")] = 1_000_000,
    record_size: Annotated[int, typer.Option("--record-size", "-s", min=0, help="Bytes of each value.")] = 100,
    throughput: Annotated[float, typer.Option("--throughput", help="Most records per second; -1: no limit.")] = -1,
    tasks: Annotated[
        int, typer.Option("--tasks", min=0, help="Number of tasks that await send(); 0: one that does not wait.")
    ] = 0,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions, when the topic is made.")] = 6,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Measure how fast records go in: rate, and the latency from send to acknowledgement."""
    options = client_options(bootstrap_servers, config, is_producer=True)
    values = _values(record_size, min(num_records, DISTINCT_VALUES))

    async def command(stop: Stop) -> int:
        with stop.ends_at_once():
            await _make_topic(topic, partitions, options, timeout)
        figures = Figures(record_size)
        async with started_producer(options, timeout, stop) as producer:
            await producer.partitions_for(topic)
            before = producer.statistics()
            begun = time.perf_counter()
            with progress("sending", num_records) as bar:
                load = _Load(
                    producer=producer,
                    topic=topic,
                    values=values,
                    count=num_records,
                    pace=Pace(throughput, begun),
                    figures=figures,
                    stop=stop,
                    bar=bar,
                )
                await (load.send_with_tasks(tasks) if tasks else load.send())
                await producer.flush()
            figures.seconds = time.perf_counter() - begun
            after = producer.statistics()
            # From the producer's metrics, which count every record, not only the timed ones.
            figures.delivered = after.delivered - before.delivered
            figures.failed += after.failed - before.failed
        _print(figures, as_json=as_json)
        if stop.is_requested:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if figures.failed else EXIT_OK

    run(command)


# internals


def _values(size: int, count: int) -> list[bytes]:
    """Random letters, as Kafka's tool sends: neither constant nor impossible to compress."""
    letter_of_byte = bytes(65 + byte % 26 for byte in range(256))
    source = random.Random(size)
    return [source.randbytes(size).translate(letter_of_byte) for _ in range(count)]


async def _make_topic(topic: str, partitions: int, options: Mapping[str, object], timeout: float) -> None:
    from ..admin import TopicAdmin
    from ..errors import TopicAlreadyExistsError, TopicAuthorizationFailedError
    from ..producer.config import ProducerConfig

    async with TopicAdmin(config=ProducerConfig.from_properties(options), timeout=timeout) as admin:
        try:
            await admin.create(topic, partitions=partitions)
        except (TopicAlreadyExistsError, TopicAuthorizationFailedError):
            return  # a user without the right to make topics may still write to an existing one
        say(f"made topic {topic} with {partitions} partitions")


@dataclass(slots=True, kw_only=True)
class _Load:
    """The records to send, their rate, and the report."""

    producer: KafkaProducer
    topic: str
    values: list[bytes]
    count: int
    pace: Pace
    figures: Figures
    stop: Stop
    bar: Progress

    async def send(self) -> None:
        """One task that does not wait for outcomes."""
        figures = self.figures
        every = -(-self.count // MAX_TIMED)
        while self._goes_on():
            end = min(figures.sent + self.pace.block, self.count)
            for number in range(figures.sent, end):
                begun = time.perf_counter()
                value = self.values[number % len(self.values)]
                try:
                    delivery = self.producer.send_nowait(self.topic, value)
                except (BufferExhaustedError, MetadataNotReadyError):
                    try:
                        delivery = await self.producer.enqueue(self.topic, value)
                    except KafkaError as error:
                        figures.note_error(error)
                        continue
                if number % every == 0:
                    delivery.add_done_callback(partial(figures.note, begun))
            figures.sent = end
            self.bar.update(end)
            await asyncio.sleep(0)
            await self._keep_pace(end)

    async def send_with_tasks(self, tasks: int) -> None:
        """Send with so many tasks, each awaiting the outcome of its record."""
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(self._send_one_by_one())

    async def _send_one_by_one(self) -> None:
        figures = self.figures
        while self._goes_on():
            number = figures.sent
            figures.sent += 1
            await self._keep_pace(number)
            if self.stop.is_requested:
                return
            begun = time.perf_counter()
            try:
                await self.producer.send(self.topic, self.values[number % len(self.values)])
            except KafkaError as error:
                figures.first_error = figures.first_error or str(error)
            else:
                figures.latencies.append(time.perf_counter() - begun)
            if number % BLOCK == 0:
                self.bar.update(number)

    async def _keep_pace(self, sent: int) -> None:
        """Wait until the next record may be sent, or the user asks to stop."""
        while (delay := self.pace.delay(sent, time.perf_counter())) and not self.stop.is_requested:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(delay, LONGEST_PAUSE)):
                    await self.stop.wait()

    def _goes_on(self) -> bool:
        return self.figures.sent < self.count and not self.stop.is_requested


def _print(figures: Figures, *, as_json: bool) -> None:
    found = figures.as_json()
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(
        f"{found['records']:,} records sent, {found['records_per_second']:,.1f} records/sec"
        f" ({found['mb_per_second']:,.2f} MB/sec)"
        + (
            f", {found['average_latency_ms']} ms avg latency, {found['max_latency_ms']} ms max latency,"
            f" {found['p50_ms']} ms 50th, {found['p95_ms']} ms 95th, {found['p99_ms']} ms 99th,"
            f" {found['p99_9_ms']} ms 99.9th."
            if figures.latencies
            else ""
        )
    )
    if 0 < len(figures.latencies) < figures.delivered:
        say(f"latency is that of {len(figures.latencies):,} records, evenly spread")
    if figures.failed:
        say(f"{figures.failed:,} records failed; the first: {figures.first_error or 'see the log'}")


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
