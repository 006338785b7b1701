"""``TransactionAttempts``: one transaction, tried until it is committed.

Owns the list of errors that another attempt may mend, the time for attempts, and the pauses; ``Transactions`` has the
transaction itself. Java leaves this loop to its users (the example in ``KafkaProducer``'s documentation, and
KIP-1050's classes).

Rules:

- The block is run again only after its transaction was aborted: a commit without an answer is asked about again.
- ``async for`` ends when a transaction is committed; each of its turns must enter the attempt.

Events: ``transaction.tried_again`` (warning; transactional_id, attempt, error).
"""

from __future__ import annotations

import asyncio
import math
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from ...common import ExponentialBackoff
from ...errors import IllegalStateError, KafkaError
from ...observability import get_logger
from .transactions import Transactions

__all__ = ["Patience", "TransactionAttempts"]

_logger = get_logger(__name__)


class Patience:
    """The time for which transactions are tried again, and the pauses between: one object for all attempts of the same
    work.

    An error is mended by another attempt when its class is ``retriable`` or ``abortable``; ``also_mended`` adds others.
    """

    def __init__(
        self,
        transactions: Transactions,
        timeout: float,
        backoff: ExponentialBackoff,
        also_mended: tuple[type[KafkaError], ...] = (),
    ) -> None:
        self._transactions = transactions
        self._timeout = timeout
        self._backoff = backoff
        self._also_mended = also_mended
        self.begin_anew()

    def begin_anew(self) -> None:
        """There is progress: the time runs from the next failure on."""
        self._failed = 0
        self._deadline = math.inf

    async def begun(self) -> AbstractAsyncContextManager[None]:
        """The scope of an open transaction, begun again while errors may be mended."""
        while True:
            scope = self._transactions.scope()
            try:
                await scope.__aenter__()
            except KafkaError as error:
                await self._pause(error)
            else:
                return scope

    async def settled(self, scope: AbstractAsyncContextManager[None], error: BaseException | None) -> KafkaError | None:
        """Leave the scope of a transaction with ``error``, or commit it: returns None once it is committed; if another
        attempt may mend its error in time, returns that after the abort and a pause.

        Raises the commit's error otherwise, and ``error`` itself.
        """
        try:
            if error is None:
                await scope.__aexit__(None, None, None)
            else:
                await scope.__aexit__(type(error), error, error.__traceback__)
        except KafkaError as failure:
            error = failure
        while isinstance(error, KafkaError) and not self._transactions.may_be_aborted:
            error = await self._asked_again(error)
        if error is None:
            return None
        if not isinstance(error, KafkaError):
            raise error
        await self._pause(error)
        return error

    async def _pause(self, error: KafkaError) -> None:
        """Wait before the next attempt. Raises ``error`` if it would recur, or time is over."""
        if not (error.retriable or error.abortable or isinstance(error, self._also_mended)):
            raise error
        delay = self._backoff.delay(self._failed)
        self._failed += 1
        if self._is_over():
            error.add_note(f"attempts to commit a transaction: {self._failed}, in {self._timeout:g} s")
            raise error
        _logger.warning(
            "transaction.tried_again",
            transactional_id=self._transactions.transactional_id,
            attempt=self._failed,
            error=str(error),
        )
        await asyncio.sleep(delay)

    async def _asked_again(self, error: KafkaError) -> KafkaError | None:
        """The outcome of a commit that had no answer: None if it is committed, else the error of the commit. Raises
        ``error`` when time is over.
        """
        if self._is_over():
            raise error
        try:
            await self._transactions.commit()
        except KafkaError as failure:
            if self._transactions.may_be_aborted:
                await self._transactions.abort()
            return failure
        return None

    def _is_over(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._deadline = min(self._deadline, now + self._timeout)
        return now >= self._deadline or not self._transactions.is_usable


class TransactionAttempts:
    """``async for attempt in producer.transactions():``, ``async with attempt:``."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._scope: AbstractAsyncContextManager[None] | None = None
        self._was_entered = True
        self._is_committed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Self:
        if self._is_committed:
            raise StopAsyncIteration
        if not self._was_entered:
            raise IllegalStateError("the attempt was not entered: write `async with attempt:` inside the loop")
        self._was_entered = False
        return self

    async def __aenter__(self) -> None:
        if self._is_committed or self._scope is not None:
            raise IllegalStateError("an attempt is entered once: take the next one of the loop")
        self._was_entered = True
        self._scope = await self._patience.begun()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._scope is not None
        scope, self._scope = self._scope, None
        failure = await self._patience.settled(scope, error)
        self._is_committed = failure is None
        return True
