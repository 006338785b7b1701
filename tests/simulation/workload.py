"""The users of a producer, drawn from one ``random.Random``: every way of sending, many tasks, cancelled
anywhere, with some calls whose arguments are odd, and through hooks, some of them hostile.

Each record has a unique value, and a ``Sent`` with the time and order of its call and the reported outcome. A cancelled
call reports none.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow

from aiokafkapy import CircuitBreaker, KafkaProducer, ProducerRecord, RecordMetadata, TopicOptions, deadline
from aiokafkapy.common import Headers
from aiokafkapy.errors import (
    BufferExhaustedError,
    GaplessGuaranteeError,
    KafkaError,
    MetadataNotReadyError,
)
from aiokafkapy.producer.intake.record_deadlines import enclosing_deadline
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.producer.tables.table_metadata import TableMetadata

from .checked_cluster import TOPIC
from .hooks import Hooks
from .odd_arguments import ODD_ARGUMENTS

__all__ = ["Sent", "Workload", "producer_options"]


@dataclass(eq=False)
class Sent:
    """One record. ``outcome`` is None until something was told; ``bulk`` is the ``send_many`` that it was in, 0 for
    none.

    A record that is ``refused``, by an error of a hook or by error types, must fail with it. ``headers`` None: any.
    """

    producer: int
    order: int
    value: bytes
    began: float
    bulk: int = 0
    outcome: RecordMetadata | BaseException | None = None
    ended: float = 0.0
    is_cancelled: bool = False
    # Its process was killed before anything was told
    is_lost: bool = False
    # Its process has come to its end, and had no answer: a request may still be on its way
    may_be_late: bool = False
    # The effect of hooks and odd arguments
    is_calm: bool = False
    refused: BaseException | tuple[type[BaseException], ...] | None = None
    chosen: int | None = None
    # The time of its own, in milliseconds
    delivery_timeout_ms: int | None = None
    is_in_deadline: bool = False
    is_row: bool = False
    headers: Headers | None = None
    task: asyncio.Task[Any] | None = field(default=None, repr=False)


def producer_options(chance: random.Random) -> dict[str, Any]:
    """Options that let things happen within seconds."""
    options: dict[str, Any] = {
        "request_timeout_ms": chance.choice((300, 1_000, 3_000)),
        "max_block_ms": chance.choice((200, 2_000, 10_000)),
        "linger_ms": chance.choice((None, None, 0, 5, 100)),
        "batch_size": chance.choice((0, 200, 2_000, 131_072)),
        "buffer_memory": chance.choice((3_000, 20_000, 33_554_432)),
        "compression_type": chance.choice(("none", "none", "none", "gzip", "snappy", "lz4", "zstd")),
        "retry_backoff_ms": chance.choice((10, 100)),
        "reconnect_backoff_ms": chance.choice((10, 50)),
        "metadata_max_age_ms": chance.choice((200, 5_000, 300_000)),
        "connections_max_idle_ms": chance.choice((300, 180_000, 180_000)),
        "socket_connection_setup_timeout_ms": 500,
        "socket_connection_setup_timeout_max_ms": 2_000,
        "max_in_flight_requests_per_connection": chance.choice((1, 2, 5, 5, 5)),
        "metadata_recovery_rebootstrap_trigger_ms": chance.choice((1_000, 300_000)),
        "partitioner_availability_timeout_ms": chance.choice((0, 0, 100)),
    }
    options["max_request_size"] = min(options["buffer_memory"], chance.choice((1_000, 1_048_576)))
    least = (options["linger_ms"] or 5) + options["request_timeout_ms"]
    options["delivery_timeout_ms"] = least + chance.choice((0, 500, 5_000, 20_000))
    if chance.random() < 0.2:
        options["enable_idempotence"] = False
        options["acks"] = chance.choice(("all", 1, 0))
    elif chance.random() < 0.2:
        options["enable_gapless_guarantee"] = True
    options["buffer_records"] = chance.choice((None, None, 1, 40))
    policies = ("wait", "wait", "raise", "drop_newest", "drop_oldest")
    options["overflow"] = chance.choice(policies[:3] if "enable_gapless_guarantee" in options else policies)
    return options | _adaptive_options(options)


def _adaptive_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options by which a producer adapts; for half of the producers, and drawn from earlier draws, so that the seeds of
    all others stay as they are.
    """
    chance = random.Random(repr(options))
    if chance.random() < 0.5:
        return {}
    found: dict[str, Any] = {"topic_limits": chance.random() < 0.5}
    if chance.random() < 0.3:
        found["linger_ms"] = "auto"
        found["delivery_timeout_ms"] = max(options["delivery_timeout_ms"], 20 + options["request_timeout_ms"])
    if chance.random() < 0.3:
        found["compression_type"] = "auto"
    if chance.random() < 0.4:
        found["circuit_breaker"] = CircuitBreaker(
            failures=chance.choice((1, 3)),
            open_ms=chance.choice((10, 500)),
            probes=chance.choice((1, 3)),
            scope=chance.choice(("topic", "producer")),
        )
    found["cancel_takes_back"] = chance.random() < 0.3 and "enable_gapless_guarantee" not in options
    found["record_timing"] = chance.random() < 0.3
    if chance.random() < 0.4 and options.get("acks") != 0:
        found["max_in_flight_requests_per_connection"] = "auto"
    if chance.random() < 0.3:  # all records are of one topic: this tests the share that is kept for the topic
        found["topics"] = {TOPIC: TopicOptions(priority="high")}
        found["priority_reserve_percent"] = chance.choice((0, 10, 90))
    return found


class Workload:
    """The users of one producer."""

    def __init__(
        self,
        number: int,
        producer: KafkaProducer[Any, Any],
        chance: random.Random,
        partitions: int,
        duration: float,
        hooks: Hooks,
    ) -> None:
        """Users that are at it for about ``duration`` seconds, or are done at once."""
        self.sent: list[Sent] = []
        # The times at which each partition was resumed
        self.resumed: dict[int, list[float]] = defaultdict(list)
        self.producer = producer
        self._number = number
        self._chance = chance
        self._partitions = partitions
        self._hooks = hooks
        self._loop = asyncio.get_running_loop()
        self._bulks = 0
        self._children: set[asyncio.Task[None]] = set()
        self._way = chance.choice(("mixed", "mixed", "mixed", "send", "enqueue", "many", "arrow"))
        self._can_send_tables = not (hooks.key_serializer or hooks.value_serializer)
        self._oddness = chance.choice((0.0, 0.0, 0.1, 0.5))
        self._operations = chance.choice((5, 20, 60))
        self._pause = chance.choice((0.0, 0.001, duration, duration, duration)) / self._operations
        self._is_cancelling = chance.random() < 0.4
        self._padding = chance.choice((0, 50, 600))
        self._hastiness = chance.choice((0.0, 0.0, 0.3))
        self._purges = chance.choice((0.0, 0.0, 0.05))
        self._places = chance.choice(("partition", "key", "sticky", "mixed"))
        # Drawn apart, so that the seeds of all else stay as they are
        self._late = random.Random(f"{number} {self._operations} {self._pause} {self._padding} {self._places}")
        self._lateness = self._late.choice((0.0, 0.0, 0.3))
        self._choice = self._late.choice((0.0, 0.0, 0.3))
        hooks.attach(self)

    async def run(self) -> None:
        """Start all users, and wait for the last of them and for all that they began."""
        users = self._chance.randint(1, 5)
        await asyncio.gather(*(self._user(self._chance.randint(1, self._operations)) for _ in range(users)))
        while self._children:
            await asyncio.wait(self._children)

    async def recover(self, partitions: int, deadline: float) -> KafkaError | None:
        """Send a record, ``calm`` and alone, to each partition, until it is there; the error that lasts too long."""
        self._hooks.is_calm = True
        for partition in range(partitions):
            error: KafkaError | None = KafkaError()
            while error is not None and self.producer.state is ProducerState.RUNNING:
                error = await self._deliver_one(partition)
                if error is not None:
                    await asyncio.sleep(0.05)
                if self._loop.time() > deadline:
                    return error
        return None

    async def close(self, timeout: float | None) -> None:
        """Close the producer in the middle of its users' work."""
        await self.producer.close(timeout)

    def send_inside(self, chance: random.Random) -> None:
        """Send a record from inside a hook, which may be in the middle of another one's."""
        place = {"partition": chance.randrange(self._partitions)} if chance.random() < 0.5 else {"key": b"inside"}
        if chance.random() < 0.5:
            self._send_nowait(self._new_inside(), place)
        else:
            self._begin(self._enqueue_inside(place))

    # internals

    async def _deliver_one(self, partition: int) -> KafkaError | None:
        sent = self._new()
        await self._send(sent, {"partition": partition, "key": b"key"})
        if isinstance(sent.outcome, GaplessGuaranteeError):
            await self._resume(partition)
        return sent.outcome if isinstance(sent.outcome, KafkaError) else None

    async def _user(self, operations: int) -> None:
        chance = self._chance
        for _ in range(operations):
            way = self._way
            if way == "mixed":
                way = chance.choice(("send", "send", "enqueue", "enqueue", "nowait", "many", "arrow", "flush"))
            if chance.random() < self._purges:
                self._purge()
            if chance.random() < self._oddness:
                way = "odd"
            elif way == "arrow" and not self._can_send_tables:
                way = "many"
            operation: Coroutine[Any, Any, None] = getattr(self, f"_use_{way}")()
            if way == "nowait" or chance.random() < 0.3:
                await operation
            else:
                self._begin(operation)
            if self._pause and chance.random() < 0.5:
                await asyncio.sleep(chance.uniform(0, 4 * self._pause))

    def _begin(self, operation: Coroutine[Any, Any, None]) -> None:
        is_late = self._late.random() < self._lateness
        task = self._loop.create_task(self._within(operation) if is_late else operation)
        task.add_done_callback(lambda _: operation.close())  # when it was cancelled before it began
        self._children.add(task)
        task.add_done_callback(self._children.discard)
        if self._is_cancelling and self._chance.random() < 0.3:
            if self._chance.random() < 0.5:
                self._cancel_after(task, self._chance.randint(0, 12))
            else:
                timer = self._loop.call_later(self._chance.uniform(0, 3), task.cancel)
                task.add_done_callback(lambda _: timer.cancel())

    async def _within(self, operation: Coroutine[Any, Any, None]) -> None:
        with contextlib.suppress(TimeoutError):
            async with deadline(self._late.choice((0, 0.02, 0.3, 3))):
                await operation

    def _cancel_after(self, task: asyncio.Task[None], turns: int) -> None:
        """Cancel after so many turns of the loop, each time at another of the task's awaits."""
        if turns:
            self._loop.call_soon(self._cancel_after, task, turns - 1)
        else:
            task.cancel()

    async def _use_send(self) -> None:
        await self._send(self._new(), self._place())

    async def _send(self, sent: Sent, place: dict[str, Any]) -> None:
        sent.began = self._loop.time()
        arguments = {"topic": TOPIC, "value": self._hooks.given(sent), **place, **self._haste(sent)}
        with self._telling([sent]):
            self._tell(sent, await self.producer.send(**arguments))

    async def _use_enqueue(self) -> None:
        await self._enqueue(self._new(), self._place())

    async def _enqueue(self, sent: Sent, place: dict[str, Any]) -> None:
        arguments = {"topic": TOPIC, "value": self._hooks.given(sent), **place, **self._haste(sent)}
        delivery: Any = None
        with self._telling([sent]):
            delivery = await self.producer.enqueue(**arguments)
        if delivery is not None:
            delivery.add_done_callback(lambda done: self._tell_delivery(sent, done))
            if self._chance.random() < 0.3:
                await asyncio.wait([asyncio.ensure_future(_settled(delivery))])

    async def _enqueue_inside(self, place: dict[str, Any]) -> None:
        await self._enqueue(self._new_inside(), place)

    async def _use_nowait(self) -> None:
        sent = self._new()
        self._send_nowait(sent, self._place())
        if isinstance(sent.outcome, BufferExhaustedError | MetadataNotReadyError):
            await asyncio.sleep(0.01)

    def _send_nowait(self, sent: Sent, place: dict[str, Any]) -> None:
        arguments = {"topic": TOPIC, "value": self._hooks.given(sent), **place, **self._haste(sent)}
        delivery: Any = None
        with self._telling([sent]):
            delivery = self.producer.send_nowait(**arguments)
        if delivery is not None:
            delivery.add_done_callback(lambda done: self._tell_delivery(sent, done))

    async def _use_odd(self) -> None:
        """A call with an odd argument, in one of the ways."""
        odd = self._chance.choice(ODD_ARGUMENTS)
        sent = self._new()
        sent.is_calm, sent.refused, sent.headers = True, odd.errors, odd.headers
        arguments = {"value": sent.value, **self._place(), **odd.change(sent.value)}
        way = self._chance.choice((self._send, self._enqueue, self._send_nowait, self._send_in_bulk))
        begun = way(sent, arguments)
        if begun is not None:
            await begun

    async def _send_in_bulk(self, sent: Sent, place: dict[str, Any]) -> None:
        """Send it in a ``send_many``, with a correct record behind it."""
        self._bulks += 1
        sent.bulk = self._bulks
        batch = [sent, self._new(self._bulks)]
        with self._telling(batch):
            records = [ProducerRecord(**{"topic": TOPIC, **place}), self._hooks.given(batch[1])]
            outcomes = await self.producer.send_many(TOPIC, records, return_exceptions=True)
            for each, outcome in zip(batch, outcomes, strict=True):
                self._tell(each, outcome)

    async def _use_many(self) -> None:
        batch = self._new_bulk()
        with self._telling(batch):
            outcomes = await self.producer.send_many(
                TOPIC, [self._hooks.given(sent) for sent in batch], return_exceptions=True
            )
            for sent, outcome in zip(batch, outcomes, strict=True):
                self._tell(sent, outcome)

    async def _use_arrow(self) -> None:
        batch = self._new_bulk()
        for sent in batch:
            sent.is_row = True
        columns: dict[str, list[Any]] = {"value": [sent.value for sent in batch]}
        for name in ("key", "partition"):
            column = [self._place().get(name) for _ in batch]
            if self._chance.random() < 0.7:
                columns[name] = column
        if "partition" in columns:
            columns["partition"] = pyarrow.array(columns["partition"], pyarrow.int32())
        with self._telling(batch):
            result = await self.producer.send_arrow(TOPIC, pyarrow.table(columns), return_exceptions=True)
            for row, sent in enumerate(batch):
                self._tell(sent, result.failed.get(row) or _metadata_of(result, row))

    async def _use_flush(self) -> None:
        try:
            await self.producer.flush(self._chance.choice((None, 0, 0.5)))
        except KafkaError:
            pass  # late, closed or crashed: the records tell
        if self.producer.config.enable_gapless_guarantee and self._chance.random() < 0.3:
            await self._resume(self._chance.randrange(self._partitions))

    async def _resume(self, partition: int) -> None:
        with contextlib.suppress(KafkaError):
            await self.producer.flush()
        with contextlib.suppress(KafkaError):  # something new without an outcome, or closed
            self.producer.resume(TOPIC, partition)
            self.resumed[partition].append(self._loop.time())

    def _haste(self, sent: Sent) -> dict[str, Any]:
        """Now and then a record has a time of its own, or an overflow."""
        own = self._overflow()
        if self.producer.config.enable_gapless_guarantee or self._chance.random() >= self._hastiness:
            return own
        sent.delivery_timeout_ms = self._chance.choice((1, 20, 300, 3_000))
        return own | {"delivery_timeout_ms": sent.delivery_timeout_ms}

    def _overflow(self) -> dict[str, Any]:
        """The overflow of a call's own, one that contradicts no option."""
        config = self.producer.config
        if config.transactional_id is not None or config.spool_dir is not None or self._late.random() >= self._choice:
            return {}
        policies = ["wait", "raise"]
        if not config.enable_gapless_guarantee:
            policies += ["drop_newest", "drop_oldest"] if config.drops_oldest else ["drop_newest"]
        return {"overflow": self._late.choice(policies)}

    def _purge(self) -> None:
        place: dict[str, Any] = self._chance.choice(({}, {"topic": TOPIC}, {"topic": TOPIC, "partition": 0}))
        with contextlib.suppress(KafkaError):  # it is closed, or has crashed
            self.producer.purge(**place, in_flight=self._chance.random() < 0.3)

    def _new(self, bulk: int = 0) -> Sent:
        order = len(self.sent)
        padding = self._chance.randint(0, self._padding)
        if self._chance.random() < 0.01:
            padding = 3_000
        value = b"%d/%d " % (self._number, order) + b"." * padding
        sent = Sent(self._number, order, value, self._loop.time(), bulk)
        sent.is_in_deadline = enclosing_deadline.get() is not None
        task = asyncio.current_task()
        sent.task = task if task in self._children else None
        self.sent.append(sent)
        return sent

    def _new_inside(self) -> Sent:
        self._bulks += 1  # the order among other calls is not promised
        sent = self._new(self._bulks)
        sent.is_calm = True
        return sent

    def _new_bulk(self) -> list[Sent]:
        self._bulks += 1
        return [self._new(bulk=self._bulks) for _ in range(self._chance.randint(1, 30))]

    def _place(self) -> dict[str, Any]:
        places = self._places
        if places == "mixed":
            places = self._chance.choice(("partition", "key", "sticky"))
        if places == "partition":
            return {"partition": self._chance.randrange(self._partitions)}
        return {"key": b"%d" % self._chance.randrange(7)} if places == "key" else {}

    @contextlib.contextmanager
    def _telling(self, call: Sequence[Sent]) -> Iterator[None]:
        """An error that the call ends with is told of each of its records; a cancelled call tells nothing."""
        try:
            yield
        except Exception as error:  # the checker decides whether this one is allowed
            for sent in call:
                self._tell(sent, error)
        except asyncio.CancelledError:
            for sent in call:
                sent.is_cancelled = True
            raise

    def _tell_delivery(self, sent: Sent, delivery: Any) -> None:
        error = delivery.exception()
        self._tell(sent, delivery.result() if error is None else error)

    def _tell(self, sent: Sent, outcome: RecordMetadata | BaseException) -> None:
        assert sent.outcome is None, f"told twice: {sent}, {outcome!r}"
        sent.outcome = outcome
        sent.ended = self._loop.time()


def _metadata_of(table: TableMetadata, row: int) -> RecordMetadata:
    topic, partition = table.topic_partition(row)
    return RecordMetadata(topic, partition, table.offset(row), -1, -1, -1)


async def _settled(delivery: Any) -> None:
    try:
        await delivery
    except KafkaError:
        pass
