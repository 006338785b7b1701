"""A copier: consumes one topic and produces to another, with the offsets in each transaction, and always begins anew.

Owns the lives of one transactional id: each is a producer and a consumer, which end with any error, and with some
strikes; the next ones have the same name. Knows nothing of faults, nor of other copiers.

Rule: a life ends with an error of Kafka's, or because it was told to. Anything else is a finding.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import confluent_kafka

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import KafkaError

from .copies import CopyAccount
from .report import Journal
from .schedule import Way

__all__ = ["Copier", "counting_attempts"]

MAX_RECORDS = 50
TRANSACTION_MS = 8_000
"""A transaction may be open for so long; a pause of a node may be longer."""
STALLED = TRANSACTION_MS / 1_000 + 1
PAUSE = 0.5
"""Seconds between a life that ended with an error and the next."""
ENDING = 60.0
"""Seconds for a life to end."""


class Copier:
    """Copies ``source`` to ``target`` as a member of a group; both topics have the same partitions."""

    def __init__(
        self, servers: str, name: str, source: str, target: str, account: CopyAccount, journal: Journal
    ) -> None:
        self.servers = servers
        self.name = name
        self.source = source
        self.target = target
        self.account = account
        self.journal = journal
        self._is_stopped = False
        self._life: _Life | None = None
        self._lives: set[asyncio.Task[None]] = set()
        self._overtaken = asyncio.Event()

    async def run(self) -> None:
        """Live until ``stop``, then end."""
        while not self._is_stopped:
            self.account.started[self.name] += 1
            life = self._life = _Life(self)
            living = asyncio.create_task(life.run())
            self._lives.add(living)
            living.add_done_callback(self._ended)
            self._overtaken.clear()
            overtaken = asyncio.create_task(self._overtaken.wait())
            await asyncio.wait([living, overtaken], return_when=asyncio.FIRST_COMPLETED)
            if not overtaken.done():
                overtaken.cancel()
                await asyncio.sleep(PAUSE)
        for each in self._lives:
            each.cancel()
        if self._lives:
            _, late = await asyncio.wait(self._lives, timeout=ENDING)
            if late:
                self.journal.find(f"{len(late)} of {self.name} did not end within {ENDING:.0f} s")

    async def strike(self, way: Way) -> bool:
        """Disturb the present life; False when it is not at work, or one before it has not ended yet."""
        if self._life is None or not self._life.is_at_work or (way is Way.OVERTAKE and len(self._lives) > 1):
            return False
        self.account.strikes[way] += 1
        if way is Way.OVERTAKE:
            self._overtaken.set()
        else:
            await self._life.strike(way)
        return True

    def stop(self) -> None:
        """End soon."""
        self._is_stopped = True
        self._overtaken.set()

    def _ended(self, life: asyncio.Task[None]) -> None:
        self._lives.discard(life)
        error = None if life.cancelled() else life.exception()
        self.account.ends["told to" if error is None else type(error).__name__] += 1
        if error is None:
            return
        notes = "; ".join(getattr(error, "__notes__", ()))
        self.journal.log(f"{self.name} ended with {type(error).__name__}: {error!s:.150} ({notes:.150})")
        if not isinstance(error, KafkaError | confluent_kafka.KafkaException):
            self.journal.find(f"{self.name} ended with {error!r}")


class StruckError(Exception):
    """An error that the block itself raises."""


class _Life:
    """One producer and one consumer, until an error ends them."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._producer: KafkaProducer[bytes, bytes] = KafkaProducer(
            copier.servers,
            client_id=copier.name,
            transactional_id=copier.name,
            transaction_timeout_ms=TRANSACTION_MS,
            delivery_timeout_ms=30_000,
            request_timeout_ms=5_000,
            max_block_ms=20_000,
            linger_ms=0,
        )
        self._copying: asyncio.Task[None] | None = None
        self._in_the_middle: Way | None = None
        """The next step of the block."""
        self._is_stalled = False
        self._goes_on = False

    @property
    def is_at_work(self) -> bool:
        """Also False while the copier stalls, so that a stall comes to its end."""
        return self._copying is not None and not self._copying.done() and not self._is_stalled

    async def run(self) -> None:
        try:
            await self._producer.start()
            # Only now is nothing of an earlier life open any more.
            consumer = self._consumer()
            try:
                await self._copy_again_and_again(consumer)
            finally:
                await _close(consumer)
        finally:
            await self._producer.close(timeout=ENDING / 2)
            now = self._producer.statistics()
            if now.accepted != now.delivered + now.failed or now.pending:
                self._copier.journal.find(f"a producer of {self._copier.name} does not balance: {now}")

    async def strike(self, way: Way) -> None:
        assert self._copying is not None
        match way:
            case Way.FAIL | Way.STALL:
                self._in_the_middle = way
            case Way.CANCEL:
                self._goes_on = True
                self._copying.cancel()
            case Way.LEAVE:
                self._copying.cancel()
            case Way.CRASH:
                await self._producer.close(timeout=0)
                self._copying.cancel()

    # internals

    def _consumer(self) -> Any:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._copier.servers,
                "client.id": self._copier.name,
                "group.id": self._copier.source,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._copier.source])
        return consumer

    async def _copy_again_and_again(self, consumer: Any) -> None:
        while True:
            self._copying = asyncio.create_task(self._copy(consumer))
            try:
                await self._copying
            except StruckError as error:
                _raise_if_lost(error)
            except asyncio.CancelledError as error:
                if not self._goes_on or _is_cancelled():
                    raise
                self._goes_on = False
                _raise_if_lost(error)

    async def _copy(self, consumer: Any) -> None:
        account, name = self._copier.account, self._copier.name
        async for batch in self._producer.consume_transform_produce(consumer, max_records=MAX_RECORDS):
            async with batch:
                attempts = account.begun_again[name]
                for number, record in enumerate(batch):
                    await self._producer.enqueue(
                        self._copier.target, record.value(), key=record.key(), partition=record.partition()
                    )
                    if number == len(batch) // 2:
                        await self._be_in_the_middle()
            if account.begun_again[name] == attempts:
                offsets = {place.partition: some[-1].offset() + 1 for place, some in batch.by_partition.items()}
                account.commit(offsets, len(batch))

    async def _be_in_the_middle(self) -> None:
        way, self._in_the_middle = self._in_the_middle, None
        if way is Way.FAIL:
            raise StruckError
        if way is Way.STALL:
            self._is_stalled = True
            try:
                await asyncio.sleep(STALLED)
            finally:
                self._is_stalled = False


async def _close(consumer: Any) -> None:
    """Closing blocks; a cancelled caller waits all the same, for the consumer's connections would be taken for ours."""
    closing = asyncio.ensure_future(asyncio.to_thread(consumer.close))
    try:
        await asyncio.shield(closing)
    finally:
        await asyncio.wait([closing])


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def _raise_if_lost(error: BaseException) -> None:
    """A note says that the consumer could not go back: its next life begins with a new one."""
    if getattr(error, "__notes__", None):
        raise KafkaError("; ".join(error.__notes__)) from error


class _AttemptCounter(logging.Handler):
    def __init__(self, account: CopyAccount) -> None:
        super().__init__(logging.WARNING)
        self._account = account

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", None) == "transaction.tried_again":
            self._account.begun_again[record.fields["transactional_id"]] += 1  # type: ignore[attr-defined]


@contextlib.contextmanager
def counting_attempts(account: CopyAccount) -> Iterator[None]:
    """Count transactions that are made again, which only the log tells of."""
    logger = logging.getLogger("aiokafkapy.producer.transactional.attempts")
    counter = _AttemptCounter(account)
    logger.addHandler(counter)
    try:
        yield
    finally:
        logger.removeHandler(counter)
