"""``Transactions``: the calls of a transactional producer, from ``begin`` to the end of each transaction.

Owns the order of the steps at an end: no more records, every record's outcome, then the coordinator's answer.
``Transaction`` has the states and the effects of errors, ``TransactionRequests`` the requests, ``TransactionOffsets``
the calls of ``send_offsets``. Kafka's counterpart is the transactional half of ``KafkaProducer``.

Rules:

- An end runs in a task of its own: a caller that is cancelled while waiting leaves it to finish, and the next
  ``begin`` waits for it.
- A commit returns when the coordinator has confirmed it, and never before. Without an answer within ``max_block_ms``
  its outcome is unknown, as the error says; ``commit`` or the next ``begin`` asks for it again.
- Records not sent when a transaction is aborted, or cannot be committed any more, are not sent; those in flight are
  waited for.
- A commit waits for the calls of ``send_offsets`` under way, and an abort calls them off.
- ``commit_and_begin`` makes a cut when all records sent before are accepted: those accepted after it belong to the
  next transaction, and wait in the accumulator until the commit has its answer. If that fails, it fails too.
- A caller that is cancelled in a commit which fails later finds the transaction aborted.
- In version 2 an end is answered once it is decided; its markers are written in the next milliseconds. A broker that
  gets a record meanwhile keeps it for ``add.partitions.to.txn.retry.backoff.ms``, 20 by default, before it looks again:
  so the coordinator is asked whether the markers are written, and the first records wait for that. In Java they do not.

Events: ``transaction.left_open`` (warning; transactional_id, error), ``transaction.not_ended`` (debug; error).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ...common import TopicPartition
from ...errors import (
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    ProducerClosedError,
    ProducerFencedError,
    TransactionAbortedError,
)
from ...observability import describe_error, get_logger
from ..identity.transaction import PreparedTxnState, Transaction, TransactionState
from ..intake.record_intake import RecordIntake
from .group_offsets import GroupMetadata, OffsetToCommit
from .transaction_offsets import TransactionOffsets

if TYPE_CHECKING:
    from ..metrics import TimedCall
    from .transactions_runtime import CoordinatorRequests, TransactionsRuntime

__all__ = ["Transactions"]

KEPT_BY_BROKERS: Final = 0.02
"""Seconds after the end of a transaction after which waiting for its markers is left to the broker."""

_S: Final = TransactionState

_logger = get_logger(__name__)


class Transactions:
    """The transactions of one started producer."""

    def __init__(
        self,
        runtime: TransactionsRuntime,
        intake: RecordIntake,
        transaction: Transaction,
        requests: CoordinatorRequests,
    ) -> None:
        self._runtime = runtime
        self._intake = intake
        self._transaction = transaction
        self._requests = requests
        self._keeps_prepared = (
            runtime.config.transaction_two_phase_commit_enable and runtime.config.transaction_keep_prepared
        )
        self._ending: asyncio.Task[None] | None = None
        self._is_left = False  # no caller waits for the end any more
        self._preparing = 0  # calls of ``prepare`` under way
        self.was_committed = False
        """True if the last transaction was committed; False while it is open, or its outcome is unknown."""
        self._ended_at = -math.inf
        self._offsets = TransactionOffsets(runtime, transaction, requests)
        self._hold: asyncio.Task[None] | None = None
        transaction.on_error = self._on_error

    async def initialize(self) -> None:
        """Take the transactional id, within ``max_block_ms``."""
        self._transaction.initialize()
        with self._timed("txn-init"):
            try:
                limit = self._runtime.max_block
                kept = await self._requests.init_producer_id(limit, keeps_prepared=self._keeps_prepared)
            except KafkaError as error:
                self._transaction.fail(error)
                raise
        self._transaction.initialized(kept)

    @property
    def may_be_aborted(self) -> bool:
        """False while a commit has no answer."""
        return self._transaction.state is not _S.COMMITTING_TRANSACTION

    @property
    def transactional_id(self) -> str:
        """The producer's ``transactional_id``."""
        return self._transaction.transactional_id

    @property
    def is_usable(self) -> bool:
        """False once the producer is fenced or closed."""
        return self._transaction.state is not _S.FATAL_ERROR and self._runtime.is_usable_here

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        """Begin, and commit at the end; abort when an exception leaves the block, or when the commit fails."""
        self._intake.usable_runtime()
        await self.begin()
        try:
            yield
            self._intake.usable_runtime()
            await self.commit()
        except BaseException as error:
            if self.may_be_aborted:
                try:
                    await self.abort()
                except KafkaError as failure:
                    error.add_note(f"the transaction was not aborted: {describe_error(failure)}")
            raise

    async def begin(self) -> None:
        """Open a transaction; waits for the end of the one before, and asks again for a commit without an answer."""
        with self._timed("txn-begin"):
            await self.settled()
            if self._transaction.state is _S.COMMITTING_TRANSACTION:
                await self.commit()
            elif self._transaction.state is _S.ABORTING_TRANSACTION:
                await self.abort()
            self._transaction.begin()
        self.was_committed = False
        self._hold_records()
        self._intake.open_gate()

    async def prepare(self) -> PreparedTxnState:
        """Wait for the outcome of every record, and leave the end to the holder of the returned name."""
        await self.settled()
        config, transaction = self._runtime.config, self._transaction
        if not config.transaction_two_phase_commit_enable:
            raise IllegalStateError(
                "prepare_transaction() needs two-phase commit: write transaction_two_phase_commit_enable=True"
            )
        if not transaction.is_open:
            raise transaction.why_no_record()
        self._intake.shut_gate()
        self._preparing += 1
        try:
            with self._timed("txn-prepare"):
                await self._runtime.flush(math.inf)
                await self._offsets.settled()
                transaction.prepare(self._requests.identity)
        finally:
            self._preparing -= 1
            # Another call has seen all records of its transaction: the transaction must not get any more.
            if transaction.is_open and not self._preparing:
                self._intake.reopen_gate()
        return self._requests.identity

    async def complete(self, prepared: PreparedTxnState | None) -> bool:
        """Commit the prepared transaction if it has this name, and abort it otherwise; True for a commit."""
        await self.settled()
        transaction = self._transaction
        if transaction.state is _S.READY:
            return False
        # The last two: this was called before, and had no answer.
        if transaction.state not in (_S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION):
            transaction.check_prepared()
        is_commit = transaction.state is not _S.ABORTING_TRANSACTION and transaction.prepared == prepared
        await (self.commit() if is_commit else self.abort())
        return is_commit

    async def commit(self) -> None:
        """Wait for the outcome of every record, and commit."""
        with self._timed("txn-commit"):
            await self.settled()
            self._transaction.start_commit()
            self._intake.shut_gate()
            await self._to_its_end(self._commit())

    async def commit_and_begin(self) -> None:
        """Commit, and open the next transaction at once, whose records are sent when the commit is known."""
        with self._timed("txn-commit"):
            await self.settled()
            self._intake.usable_runtime()
            self._transaction.check_open("commit_and_begin_transaction()")
            await self._to_its_end(self._commit_and_begin())

    async def abort(self) -> None:
        """Drop unsent records, wait for those in flight, and abort. Does nothing when no transaction is open."""
        with self._timed("txn-abort"):
            await self.settled()
            if self._transaction.state is _S.READY:
                return
            self._transaction.start_abort()
            self._intake.shut_gate()
            await self._to_its_end(self._abort())

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetToCommit], group: GroupMetadata) -> None:
        """Commit a consumer group's offsets with the transaction."""
        transaction = self._transaction
        if not transaction.is_open:
            raise transaction.why_no_record()
        if not offsets:
            return
        with self._timed("txn-send-offsets"):
            await self._offsets.send(offsets, group, self._hold)

    async def close(self, deadline: float) -> None:
        """Abort an open transaction, until ``deadline`` (loop time); the broker's time-out aborts it otherwise."""
        if not self._transaction.is_unfinished:
            return
        try:
            async with asyncio.timeout_at(None if deadline == math.inf else deadline):
                await self.abort()
        except (KafkaError, TimeoutError) as error:
            _logger.warning(
                "transaction.left_open",
                transactional_id=self._transaction.transactional_id,
                error=str(error) or type(error).__name__,
            )

    def abandon(self) -> None:
        """The producer ends now: an end under way gets no answer any more."""
        self._release()
        self._offsets.call_off()
        if self._ending is not None:
            self._ending.cancel()

    async def settled(self) -> None:
        """Return when no end is under way."""
        # Again, because another call that also waited may have begun the next one.
        while self._ending is not None and not self._ending.done():
            await asyncio.wait([self._ending])

    # internals

    def _timed(self, call: TimedCall) -> AbstractContextManager[None]:
        """Count the block's time for Kafka's metric of the call."""
        return self._runtime.calls.timed(call, self._runtime.now)

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._ending = self._runtime.loop.create_task(work, name="aiokafkapy-transaction-end")
        task.add_done_callback(_retrieve)
        self._is_left = False
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                self._is_left = True
                raise
            error = ProducerClosedError("the producer was closed before the transaction had come to its end")
            error.outcome_unknown = self._transaction.state is _S.COMMITTING_TRANSACTION
            raise error from None

    async def _commit(self) -> None:
        try:
            await self._flush_and_commit()
        except KafkaError:
            await self._abort_if_left()
            raise

    async def _commit_and_begin(self) -> None:
        transaction, runtime = self._transaction, self._runtime
        try:
            waiting = runtime.admission.snapshot()
            if waiting:
                await runtime.admitted(waiting)
            transaction.start_commit_and_begin(runtime.accumulator.cut())
            flush, settled = runtime.begin_flush()
            try:
                self._intake.open_gate()  # a bulk call that is under way adds no records to the next transaction
                if not flush.is_settled:
                    await settled
            finally:
                flush.end()
            await self._commit_what_is_written()
        except KafkaError as failure:
            self._intake.shut_gate()
            transaction.forget_next()
            self._drop_unsent(failure)
            await self._abort_if_left()
            raise
        transaction.begin()
        self.was_committed = False
        self._hold_records()
        self._runtime.sender.wakeup()

    async def _abort_if_left(self) -> None:
        """A caller that was cancelled in a commit that failed finds the transaction aborted."""
        if self._is_left and self._transaction.state is _S.ABORTABLE_ERROR:
            self._transaction.start_abort()
            await self._abort()

    async def _flush_and_commit(self) -> None:
        await self._runtime.flush(math.inf)
        await self._commit_what_is_written()

    async def _commit_what_is_written(self) -> None:
        transaction = self._transaction
        if transaction.error is None:
            await self._offsets.settled()
            await self._requests.partitions_added()
        if transaction.error is not None:
            raise transaction.error.fresh()
        if transaction.is_known_to_the_broker:
            try:
                await self._requests.end(committed=True, timeout=self._runtime.max_block)
            except KafkaError as error:
                if transaction.state is _S.COMMITTING_TRANSACTION:  # else the commit had failed before it was sent
                    transaction.end_failed(error)
                raise
            self._ended_at = self._runtime.loop.time()
        transaction.ended()
        self.was_committed = True

    async def _abort(self) -> None:
        transaction = self._transaction
        self._offsets.call_off()
        self._drop_unsent()
        await self._offsets.settled()
        await self._requests.stop_adding_partitions()
        await self._runtime.flush(math.inf)
        transaction.needs_new_epoch |= transaction.unanswered > 0
        needs_new_epoch = transaction.needs_new_epoch and transaction.version < 2
        try:
            if transaction.is_known_to_the_broker:
                needs_new_epoch |= await self._abort_at_broker()
            if needs_new_epoch:
                await self._requests.init_producer_id(self._runtime.max_block)
        except KafkaError as failure:
            transaction.end_failed(failure)
            raise
        transaction.ended()

    async def _abort_at_broker(self) -> bool:
        """True when the next transaction needs another epoch because of the answer."""
        transaction = self._transaction
        try:
            await self._requests.end(committed=False, timeout=self._runtime.max_block)
        except ProducerFencedError:
            if not isinstance(transaction.error, InvalidProducerEpochError):
                raise
            # Another producer, or the broker by its time-out: the request for an epoch tells which (KIP-588).
            return True
        except InvalidTxnStateError:
            if transaction.has_begun_at_broker:
                raise
            # No request without an answer had begun the transaction there.
        self._ended_at = self._runtime.loop.time()
        # Another attempt requests only the epoch: the epoch that ended the transaction may be out of date.
        transaction.ended_at_broker()
        return False

    def _drop_unsent(self, cause: KafkaError | None = None) -> None:
        cause = self._transaction.error or cause
        error: KafkaError = TransactionAbortedError("the transaction was aborted before this record was sent")
        error.__cause__ = cause
        if cause is not None and self._transaction.state is _S.FATAL_ERROR:
            error = cause.fresh()
        for record in self._runtime.admission.snapshot():
            self._runtime.admission.refuse(record, error.fresh())
        self._runtime.accumulator.abort_undrained(error)

    def _hold_records(self) -> None:
        """Keep the first records until the markers of the transaction before are written."""
        self._release()
        until = self._ended_at + KEPT_BY_BROKERS
        if self._transaction.version >= 2 and until > self._runtime.loop.time():
            self._transaction.is_held = True
            self._hold = self._runtime.loop.create_task(self._release_at(until), name="aiokafkapy-transaction-markers")

    async def _release_at(self, deadline: float) -> None:
        """Release the first records as soon as the markers are written."""
        with suppress(Exception):  # after any error the broker keeps the records
            async with asyncio.timeout_at(deadline):
                await self._requests.markers_written()
        self._transaction.is_held, self._hold = False, None
        self._runtime.sender.wakeup()

    def _release(self) -> None:
        self._transaction.is_held = False
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None

    def _on_error(self) -> None:
        """The transaction has failed: records sent from here on are of no use."""
        self._intake.shut_gate()
        # Later, because the accumulator may be in the middle of something.
        self._runtime.loop.call_soon(self._drop_unsent)


def _retrieve(task: asyncio.Task[None]) -> None:
    """Mark the error as seen: its waiter may have been cancelled, and the next call raises it again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.debug("transaction.not_ended", error=str(error))
