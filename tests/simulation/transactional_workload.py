"""The users of a transactional producer: transactions one after another, ended in every way, with records sent in
every way; cancelled anywhere, and begun anew with another producer when one can only be closed.

Each transaction is a ``Tried``, with its user's knowledge of it. Which records belong to it is known from the time of
the call: the next one is open, for the user, when the one before has an outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiokafkapy import KafkaProducer, RecordMetadata, TopicPartition
from aiokafkapy.errors import IllegalStateError, KafkaError, TransactionAbortedError
from aiokafkapy.producer.identity.transaction import TransactionState
from aiokafkapy.producer.state import ProducerState
from tests.inside import runtime_of

from .checked_cluster import TOPIC
from .hooks import Hooks
from .workload import Sent, Workload, producer_options

__all__ = ["Instance", "Outcome", "TransactionalWorkload", "Tried", "transactional_options"]


class Outcome(enum.Enum):
    """A user's knowledge of a transaction."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    UNKNOWN = "unknown"


@dataclass(eq=False)
class Instance:
    """A producer with the transactional id, from the call of ``start`` (and its return, ``ready``) on."""

    began: float
    ready: float | None = None


@dataclass(eq=False)
class Tried:
    """One transaction. ``offset`` is the one to commit for its group, and ``has_offset`` whether that succeeded."""

    instance: Instance
    number: int
    outcome: Outcome = Outcome.NOT_COMMITTED
    records: list[Sent] = field(default_factory=list)
    offset: int | None = None
    has_offset: bool = False
    offset_error: KafkaError | None = None
    commit_began: float | None = None
    committed_at: float | None = None
    error: BaseException | None = None


class Enough(Exception):
    """An exception of a user's code inside of a transaction."""


def transactional_options(chance: random.Random) -> dict[str, Any]:
    """Options of a producer, but for its transactional id."""
    options = producer_options(chance)
    for name in ("enable_idempotence", "acks", "enable_gapless_guarantee"):
        options.pop(name, None)
    options["overflow"] = "wait"  # dropping contradicts a transaction, and one that raises has to be tried again
    return options | {"transaction_timeout_ms": chance.choice((500, 3_000, 60_000, 60_000))}


class TransactionalWorkload(Workload):
    """The user of one transactional id, which may restart its producer. ``make_producer`` makes the next producer."""

    def __init__(
        self,
        number: int,
        make_producer: Callable[[], KafkaProducer[Any, Any]],
        chance: random.Random,
        partitions: int,
        duration: float,
        hooks: Hooks,
        *,
        group_id: str,
        starts_at: float,
        find: Callable[[str], None],
    ) -> None:
        """The user begins ``starts_at`` seconds after ``run``."""
        super().__init__(number, make_producer(), chance, partitions, duration, hooks)
        self.group_id = group_id
        self.tried: list[Tried] = []
        self.instances: list[Instance] = []
        self.fatal_errors: list[BaseException] = []
        self._make_producer = make_producer
        self._starts_at = starts_at
        self._find = find
        self._open: Tried | None = None
        self._is_closing = False
        self._may_restart = chance.random() < 0.7
        self._transactions = chance.choice((3, 10, 30))
        self._operations = chance.choice((1, 3, 10))
        self._pause = chance.choice((0.0, 0.001, duration, duration)) / self._transactions
        self._offsets = chance.choice((0.0, 0.3, 1.0))

    async def run(self) -> None:
        """Transactions, one after another; returns when all that they began is over."""
        await asyncio.sleep(self._starts_at)
        await self._start()
        for _ in range(self._transactions):
            if not await self._has_usable_producer():
                break
            await self._one()
            if self._pause and self._chance.random() < 0.5:
                await asyncio.sleep(self._chance.uniform(0, 4 * self._pause))
        while self._children:
            await asyncio.wait(self._children)

    async def recover(self, partitions: int, deadline: float) -> KafkaError | None:
        """Commit a transaction with a record for each partition, in any state of the producer."""
        self._hooks.is_calm = True
        self._may_restart = True
        while self._loop.time() < deadline:
            if not await self._has_usable_producer():
                return None
            tried = await self._commit_one_each(partitions)
            if tried.outcome is Outcome.COMMITTED:
                return None
            await asyncio.sleep(0.05)
        return KafkaError(f"no transaction was committed, the last for {tried.error!r}")

    async def close(self, timeout: float | None) -> None:
        """Close the producer, for good."""
        self._is_closing = True
        await super().close(timeout)

    # internals: producers

    async def _start(self) -> None:
        while not self._is_closing:
            instance = Instance(self._loop.time())
            self.instances.append(instance)
            try:
                await self.producer.start()
            except KafkaError:
                await asyncio.sleep(0.05)
                self._replace()
            else:
                instance.ready = self._loop.time()
                return

    async def _has_usable_producer(self) -> bool:
        """True if there is one; another one is started if need be and wanted."""
        if self._is_closing or self.producer.state is not ProducerState.RUNNING:
            return False
        transaction = self._transaction()
        if transaction.state is not TransactionState.FATAL_ERROR:
            return True
        assert transaction.error is not None
        self.fatal_errors.append(transaction.error)
        if not self._may_restart:
            return False
        await self.producer.close()
        self._replace()
        await self._start()
        return self.producer.state is ProducerState.RUNNING

    def _replace(self) -> None:
        if not self._is_closing:
            self.producer = self._make_producer()

    def _transaction(self) -> Any:
        return runtime_of(self.producer).transaction

    # internals: transactions

    async def _one(self) -> None:
        way = self._chance.choice(("scope", "scope", "calls", "calls", "abort", "raises", "attempts", "pipeline"))
        task = self._loop.create_task(getattr(self, f"_end_by_{way}")())
        if self._is_cancelling and self._chance.random() < 0.3:
            if self._chance.random() < 0.5:
                self._cancel_after(task, self._chance.randint(0, 30))
            else:
                timer = self._loop.call_later(self._chance.uniform(0, 3), task.cancel)
                task.add_done_callback(lambda _: timer.cancel())
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        if self._is_left_open():
            with contextlib.suppress(KafkaError):
                await self._abort()

    def _is_left_open(self) -> bool:
        """True if somebody was cancelled between a transaction's begin and the call that ends it."""
        return self.producer.state is ProducerState.RUNNING and self._transaction().state in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE_ERROR,
        )

    def _next(self) -> Tried:
        self._open = Tried(self.instances[-1], len(self.tried))
        self.tried.append(self._open)
        return self._open

    @contextlib.contextmanager
    def _telling_of(self, tried: Tried) -> Iterator[None]:
        """The meaning of a transaction's error, or cancellation."""
        try:
            yield
        except Enough:
            pass
        except KafkaError as error:
            tried.error = error
            if error.outcome_unknown:
                tried.outcome = Outcome.UNKNOWN
        except asyncio.CancelledError:
            if tried.commit_began is not None:
                tried.outcome = Outcome.UNKNOWN
            raise

    def _note_commit(self, tried: Tried) -> None:
        tried.outcome = Outcome.COMMITTED
        tried.committed_at = self._loop.time()

    async def _end_by_scope(self) -> None:
        tried = self._next()
        with self._telling_of(tried):
            async with self.producer.transaction():
                await self._body(tried)
                tried.commit_began = self._loop.time()
            self._note_commit(tried)

    async def _end_by_raises(self) -> None:
        tried = self._next()
        with self._telling_of(tried):
            async with self.producer.transaction():
                await self._body(tried)
                raise Enough

    async def _end_by_attempts(self) -> None:
        tried = self._next()
        with self._telling_of(tried):
            async for attempt in self.producer.transactions(timeout=self._chance.choice((0, 1, 5))):
                async with attempt:
                    if tried.commit_began is not None:
                        tried = self._next()  # the one before was aborted
                    await self._body(tried)
                    tried.commit_began = self._loop.time()
            self._note_commit(tried)

    async def _end_by_calls(self) -> None:
        tried = self._next()
        with self._telling_of(tried):
            await self.producer.begin_transaction()
            await self._body(tried)
            tried.commit_began = self._loop.time()
            await self._commit(tried)

    async def _commit(self, tried: Tried) -> None:
        for _ in range(4):
            try:
                await self.producer.commit_transaction()
            except KafkaError as error:
                if not error.outcome_unknown:
                    await self._abort()
                    raise
                tried.outcome = Outcome.UNKNOWN
            else:
                self._note_commit(tried)
                break

    async def _end_by_abort(self) -> None:
        tried = self._next()
        with self._telling_of(tried):
            await self.producer.begin_transaction()
            await self._body(tried)
            await self._abort()

    async def _end_by_pipeline(self) -> None:
        """Two transactions; the second takes records while the first is committed."""
        first = self._next()
        with self._telling_of(first):
            await self.producer.begin_transaction()
            await self._body(first)
            while self._children:
                await asyncio.wait(self._children)
            first.commit_began = self._loop.time()
            commit = self._loop.create_task(self.producer.commit_and_begin_transaction())
            try:
                while self._transaction().cut is None and not commit.done():  # noqa: ASYNC110  # before it has the cut
                    await asyncio.sleep(0)
                second = self._next()
                await self._user(self._chance.randint(0, self._operations))
                if await self._has_committed(commit, first):
                    with self._telling_of(second):
                        if self._chance.random() < self._offsets:
                            await self._send_offset(second)
                        second.commit_began = self._loop.time()
                        await self._commit(second)
            finally:
                commit.cancel()
                await asyncio.wait([commit])
                if commit.cancelled():  # it goes on, and then there is a second transaction that is nobody's
                    with contextlib.suppress(KafkaError):
                        await self.producer.abort_transaction()

    async def _has_committed(self, commit: asyncio.Task[None], first: Tried) -> bool:
        """True if the commit has succeeded, and a second transaction is open."""
        try:
            await asyncio.shield(commit)
        except KafkaError as error:
            first.error = error
            if error.outcome_unknown:
                first.outcome = Outcome.UNKNOWN
                await self._commit(first)
            else:
                await self._abort()
            return False
        self._note_commit(first)
        return True

    async def _abort(self) -> None:
        try:
            await self.producer.abort_transaction()
        except IllegalStateError as error:
            if self.producer.state is ProducerState.RUNNING:
                self._find(f"producer {self._number}: a transaction that can only be aborted cannot be: {error}")
            raise

    async def _body(self, tried: Tried) -> None:
        await self._user(self._chance.randint(0, self._operations))
        if self._chance.random() < self._offsets:
            await self._send_offset(tried)
        if self._chance.random() < 0.7:
            while self._children:
                await asyncio.wait(self._children)

    async def _send_offset(self, tried: Tried) -> None:
        tried.offset = tried.number + 1
        try:
            await self.producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): tried.offset}, self.group_id)
        except KafkaError as error:
            tried.offset_error = error
        else:
            tried.has_offset = True

    async def _commit_one_each(self, partitions: int) -> Tried:
        tried = self._next()
        with self._telling_of(tried):
            async with self.producer.transaction():
                await asyncio.gather(*map(self._deliver_one, range(partitions)))
                tried.commit_began = self._loop.time()
            self._note_commit(tried)
        return tried

    def _tell(self, sent: Sent, outcome: RecordMetadata | BaseException) -> None:
        # It may come when another producer has taken the place of the one that the record was sent with.
        errors = list(self.fatal_errors)
        if self.producer.state is ProducerState.RUNNING:
            errors.append(self._transaction().error)
        if isinstance(outcome, TransactionAbortedError) or type(outcome) in map(type, errors):
            sent.refused = None  # it failed as every record of the transaction
        super()._tell(sent, outcome)

    def _new(self, bulk: int = 0) -> Sent:
        sent = super()._new(bulk)
        if self._open is not None:
            self._open.records.append(sent)
        return sent
