"""``OutboxRelay``: publishes the rows of an outbox, as a task of the service or as a separate process.

Owns the loop (take shards, read a batch, publish it, mark it), its back-off, its end, and its statistics. ``database``
has the database, ``publisher`` has Kafka, and ``holds`` the times of further attempts.

Rules:

- Published rows are remembered until they are marked in the database: after an outage they are marked first.
- An outage of the database, of Kafka, or of one topic does not end the relay: it tries again, after longer and longer
  times. Any other error ends the relay, which logs it at once, and raises it to the caller that leaves it or waits for
  ``run``.
- ``stop`` lets the batch under way finish. A cancelled relay stops at once. The rows of its current batch are
  published again later; with exactly-once, the marker shows that they were published.

Events: ``outbox.shards`` (info; table, shards, of), ``outbox.found_published`` (info; table, rows), ``outbox.refused``
(error; table, id, topic, error), ``outbox.held`` (warning; table, what, seconds, error), ``outbox.database_failed``
(warning; table, seconds, error), ``outbox.stopped`` (info; table, published, refused) and ``outbox.crashed`` (error;
table, error).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, get_args
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from ... import KafkaProducer, ProducerConfig
from ...common import ExponentialBackoff
from ...errors import ConfigurationError, IllegalStateError
from ...observability import get_logger
from .database import MARKED_AT_ONCE, RelayDatabase, ShardLocks, backlog_of
from .holds import Holds
from .outcomes import EVERYTHING, Held, OnError, Outcome, held_by
from .postgresql import PostgresLocks
from .publisher import PlainPublisher, Publisher
from .rows import OutboxRow
from .sqlite import SqliteLocks
from .statistics import OutboxBacklog, OutboxStatistics
from .table import shards_of
from .transactional_publisher import TransactionalPublisher

if TYPE_CHECKING:
    from ...producer.options.keywords import ProducerKeywords

__all__ = ["OutboxRelay"]

MAX_BATCH_ROWS: Final = 10_000
"""The most rows of a batch: a marker names each row, and must fit into a request."""
MAX_KEEP_SECONDS: Final = 1_000_000_000
"""Some 31 years: databases have no dates before their epoch."""
IMPATIENT: Final[dict[str, Any]] = {
    "max_block_ms": 10_000,
    "request_timeout_ms": 10_000,
    "delivery_timeout_ms": 30_000,
}
"""Defaults of options: rows that are not sent stay in the table, and other topics wait for a call meanwhile."""
BACKOFF: Final = ExponentialBackoff(0.1, 10.0)
"""Seconds between attempts to use the database."""
HOLDS_BACKOFF: Final = ExponentialBackoff(0.2, 30.0)
"""Seconds for which a topic, a lane or a shard that failed is held."""
OWNING_SECONDS: Final = 1.0
"""Seconds between two divisions of the shards among the relays."""
PURGING_SECONDS: Final = 10.0

_logger = get_logger(__name__)


class OutboxRelay:
    """``async with OutboxRelay(engine, table, "kafka:9092"): ...``, or ``asyncio.run(relay.run())``.

    ``engine`` is of PostgreSQL or SQLite; ``table`` is made by ``outbox_table``. The other options are as for
    ``KafkaProducer``: the relay has its own producers, because it sets some options itself. With a
    ``transactional_id``, of this outbox alone, each row is published exactly once; without, at least once.

    ``on_error``: a record that is refused for good is parked with its error. With ``"stop"`` the later rows of its
    lane (its key) wait until the parked row is handled; with ``"skip"`` they are published. ``keep_published``:
    seconds for which published rows stay in the table; None deletes them at once. ``poll_interval``: seconds after
    which an idle relay looks for rows without being woken. ``database_timeout``: seconds for one statement.

    Raises ConfigurationError for options that cannot work.
    """

    def __init__(
        self,
        engine: AsyncEngine,
        table: sa.Table,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ProducerConfig | None = None,
        marker_topic: str = "aiokafkapy-outbox",
        on_error: OnError = "stop",
        keep_published: float | None = None,
        batch_rows: int = 500,
        poll_interval: float = 0.5,
        database_timeout: float = 30.0,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        _check(on_error, keep_published, batch_rows, poll_interval, database_timeout)
        chosen: Any = dict(options) if config is not None else _impatient(options)
        made = KafkaProducer(bootstrap_servers, config=config, **chosen).config
        _check_producer(made)
        self._publisher: Publisher
        if made.transactional_id is None:
            self._publisher = PlainPublisher(made, on_error, self.wake)
        else:
            self._publisher = TransactionalPublisher(made, made.transactional_id, marker_topic, on_error)
        self._news = asyncio.Event()
        self._database = RelayDatabase(
            engine,
            table,
            _locks_of(engine, table, self.wake),
            on_error=on_error,
            keeps_published=keep_published is not None,
            timeout=database_timeout,
        )
        self._engine = engine
        self._table = table
        self._batch_rows = batch_rows
        self._poll_interval = poll_interval
        self._keep_published = keep_published
        # While it runs.
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._holds = Holds(HOLDS_BACKOFF)
        self._owned: frozenset[int] = frozenset()
        self._unmarked: dict[int, UUID] = {}
        self._own_at = 0.0
        self._purge_at = 0.0
        # Statistics
        self._is_connected = False
        self._failures_in_a_row = 0
        self._counts = {"published": 0, "found_published": 0, "refused": 0, "batches": 0, "database_failures": 0}
        self._last_error: str | None = None

    # life

    async def start(self) -> None:
        """Begin. Neither the database nor Kafka needs to be available yet."""
        if self._task is not None:
            raise IllegalStateError("the relay was started before: make a new one")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="aiokafkapy-outbox-relay")

    async def stop(self, timeout: float | None = None) -> None:
        """Let the batch under way finish, and end; after ``timeout`` seconds, end without waiting for it. Idempotent.

        Raises the error that ended the relay, if one did.
        """
        self._is_stopping = True
        self.wake()
        if self._task is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._task)
        except TimeoutError:
            if self._task.done():
                raise
            self._task.cancel()
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            if not self._task.cancelled():
                self._task.cancel()
                await asyncio.wait([self._task])
                raise

    async def run(self, signals: Iterable[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Start, and return when the relay was stopped, as by these signals. Raises the error that has ended it."""
        loop = asyncio.get_running_loop()
        given = list(signals)
        for each in given:
            with suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(each, self._ask_to_stop)
        try:
            async with self:
                if self._task is not None:
                    await asyncio.wait([self._task])
        finally:
            for each in given:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(each)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A cancelled caller does not wait for a batch.
        await self.stop(0 if kind is not None and issubclass(kind, asyncio.CancelledError) else None)

    def wake(self) -> None:
        """Look for rows now; for a caller that has just committed some in this process, on this event loop."""
        self._news.set()

    # statistics

    def statistics(self) -> OutboxStatistics:
        """The relay at this moment, without I/O."""
        now = self._task.get_loop().time() if self._task is not None else 0.0
        return OutboxStatistics(
            is_connected=self._is_connected,
            shards=tuple(sorted(self._owned)),
            unmarked=len(self._unmarked),
            held=tuple(sorted(map(str, self._holds.active(now)))),
            last_error=self._last_error,
            **self._counts,
        )

    async def backlog(self) -> OutboxBacklog:
        """The rows that wait in the table, by a separate query. Raises the database's errors."""
        return await backlog_of(self._engine, self._table)

    # internals

    def _ask_to_stop(self) -> None:
        self._is_stopping = True
        self.wake()

    async def _run(self) -> None:
        try:
            while not self._is_stopping:
                try:
                    await self._database.open()
                    await self._work()
                except self._database.errors as error:
                    await self._back_off(error)
                finally:
                    await self._disconnect()
        except Exception as error:
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            self._last_error = f"{type(cause).__name__}: {cause}"
            _logger.error("outbox.crashed", table=self._table.fullname, error=self._last_error, exc_info=True)
            raise
        finally:
            await self._database.close()
            await self._publisher.close(0)
            _logger.info(
                "outbox.stopped",
                table=self._table.fullname,
                published=self._counts["published"],
                refused=self._counts["refused"],
            )

    async def _work(self) -> None:
        """Publish while the connection lives."""
        await self._tell_what_is_published()
        self._own_at = 0.0
        while not self._is_stopping:
            self._news.clear()
            self._holds.forget(self._publisher.pop_released())
            now = self._now()
            await self._own(now)
            rows = await self._next_rows(now)
            self._is_connected = True
            self._failures_in_a_row = 0
            is_idle = not rows or not await self._publish(rows)
            await self._purge(now)
            if is_idle:
                await self._wait(now)

    async def _own(self, now: float) -> None:
        if now >= self._own_at:
            owned = await self._database.own()
            if owned != self._owned:
                self._owned = owned
                shards, of = len(owned), shards_of(self._table)
                _logger.info("outbox.shards", table=self._table.fullname, shards=shards, of=of)
            self._own_at = now + OWNING_SECONDS
        held = {each.name for each in self._holds.active(now) if each.kind == "shard"}
        published, outcome = await self._publisher.take_over(self._owned - held)
        self._unmarked |= published
        found = await self._tell_what_is_published()
        if published and found:
            self._counts["found_published"] += found
            _logger.info("outbox.found_published", table=self._table.fullname, rows=found)
        self._hold(outcome)

    async def _next_rows(self, now: float) -> list[OutboxRow]:
        if self._holds.is_everything_held(now):
            return []
        held = self._holds.active(self._now())
        shards = self._owned - {each.name for each in held if each.kind == "shard"}
        return await self._database.pending(shards, held, self._batch_rows) if shards else []

    async def _publish(self, rows: Sequence[OutboxRow]) -> bool:
        """Publish a batch and tell the database; returns whether any row was published, refused or held."""
        outcome = await self._publisher.publish(rows)
        self._counts["batches"] += 1
        self._counts["published"] += len(outcome.published)
        self._unmarked |= {row.id: row.uid for row in outcome.published}
        for row in outcome.published:
            self._holds.forget((EVERYTHING, held_by(row), Held("topic", row.topic), Held("shard", row.shard)))
        self._hold(outcome)
        await self._tell_what_is_published()
        await self._database.refuse(outcome.refused)
        for row, error in outcome.refused:
            self._counts["refused"] += 1
            self._last_error = error
            _logger.error("outbox.refused", table=self._table.fullname, id=row.id, topic=row.topic, error=error)
        return outcome.is_progress

    def _hold(self, outcome: Outcome) -> None:
        for what, error in outcome.held.items():
            seconds = self._holds.hold(what, self._now())
            self._last_error = f"{type(error).__name__}: {error}"
            _logger.warning(
                "outbox.held",
                table=self._table.fullname,
                what=str(what),
                seconds=round(seconds, 3),
                error=self._last_error,
            )

    async def _tell_what_is_published(self) -> int:
        told = 0
        while self._unmarked:  # of all shards, after a take-over
            some = dict(islice(self._unmarked.items(), MARKED_AT_ONCE))
            told += await self._database.mark(some)
            for number in some:
                del self._unmarked[number]
        return told

    async def _purge(self, now: float) -> None:
        if self._keep_published is not None and now >= self._purge_at:
            is_all = await self._database.purge(timedelta(seconds=self._keep_published))
            self._purge_at = now + PURGING_SECONDS if is_all else now

    async def _wait(self, now: float) -> None:
        until = min(now + self._poll_interval, self._own_at)
        release = self._holds.next_release(now)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until if release is None else min(until, release)):
                await self._news.wait()

    async def _disconnect(self) -> None:
        self._is_connected = False
        self._owned = frozenset()
        # Only this relay knows that these rows are published.
        await self._database.close(keeps_locks=bool(self._unmarked))

    async def _back_off(self, error: Exception) -> None:
        await self._disconnect()
        self._counts["database_failures"] += 1
        # Statement and values follow in further lines.
        self._last_error = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        seconds = BACKOFF.delay(self._failures_in_a_row)
        self._failures_in_a_row += 1
        _logger.warning(
            "outbox.database_failed", table=self._table.fullname, seconds=round(seconds, 3), error=self._last_error
        )
        deadline = self._now() + seconds
        while not self._is_stopping and self._now() < deadline:
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _locks_of(engine: AsyncEngine, table: sa.Table, wake: Callable[[], None]) -> ShardLocks:
    shards_of(table)  # raises for a table of another kind
    if engine.dialect.name == "postgresql":
        return PostgresLocks(table, wake)
    if engine.dialect.name == "sqlite":
        return SqliteLocks(engine, table)
    raise ConfigurationError(f"an outbox on {engine.dialect.name!r}: write an engine of postgresql or sqlite")


def _impatient(options: Mapping[str, object]) -> dict[str, object]:
    # A given request time-out may be too long for our delivery time-out: then the producer's rules apply.
    missing = {name: value for name, value in IMPATIENT.items() if name not in options}
    if "request_timeout_ms" in options:
        missing.pop("delivery_timeout_ms", None)
    return {**missing, **options}


def _check_producer(made: ProducerConfig) -> None:
    if made.manual_flush:
        raise ConfigurationError("manual_flush=True contradicts a relay, which flushes each batch: leave it out")
    if made.key_serializer is not None or made.value_serializer is not None:
        raise ConfigurationError(
            "key_serializer and value_serializer are the outbox's, Outbox(…, value_serializer=…): a relay's rows are "
            "serialized when they are added, and would be a second time"
        )


def _check(
    on_error: object, keep_published: float | None, batch_rows: int, poll_interval: float, database_timeout: float
) -> None:
    if on_error not in get_args(OnError):
        raise ConfigurationError(f"on_error={on_error!r}: write 'stop' or 'skip'")
    if not 1 <= batch_rows <= MAX_BATCH_ROWS:
        raise ConfigurationError(f"batch_rows={batch_rows}: write 1 to {MAX_BATCH_ROWS}")
    if keep_published is not None and not 0 <= keep_published <= MAX_KEEP_SECONDS:
        raise ConfigurationError(
            f"keep_published={keep_published}: write seconds, 0 to {MAX_KEEP_SECONDS}, or None to keep nothing"
        )
    for name, value in (("poll_interval", poll_interval), ("database_timeout", database_timeout)):
        if not value > 0:
            raise ConfigurationError(f"{name}={value}: write more than 0 seconds")
