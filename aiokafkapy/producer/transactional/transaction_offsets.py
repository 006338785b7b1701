"""``TransactionOffsets``: consumer groups' offsets that are being added to a producer's transaction.

Owns the calls of ``send_offsets`` that have no outcome. It knows no end of a transaction: ``Transactions`` waits for
these calls before a commit, and calls them off in an abort. Requests are ``TransactionRequests``'s. Kafka's counterpart
is ``KafkaProducer.sendOffsetsToTransaction``.

Rules:

- Offsets belong to the transaction that is open at their call.
- After a call that was cancelled or failed the transaction can only be aborted. Its request may come late: then the
  next transaction needs a new epoch; in version 2 every end brings one.
- A call waits as the first records do, until the markers of the transaction before are written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...common import TopicPartition
from ...errors import KafkaError, ProducerClosedError, TransactionAbortableError, TransactionAbortedError
from ..identity.transaction import Transaction
from .group_offsets import GroupMetadata, OffsetToCommit

if TYPE_CHECKING:
    from .transactions_runtime import CoordinatorRequests, TransactionsRuntime

__all__ = ["TransactionOffsets"]


class TransactionOffsets:
    """The calls of ``send_offsets`` of one started producer."""

    def __init__(self, runtime: TransactionsRuntime, transaction: Transaction, requests: CoordinatorRequests) -> None:
        self._runtime = runtime
        self._transaction = transaction
        self._requests = requests
        self._calls: set[asyncio.Task[None]] = set()

    async def send(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group: GroupMetadata, hold: asyncio.Task[None] | None
    ) -> None:
        """Add the offsets, after ``hold``, in a task of its own, because an abort calls it off."""
        transaction = self._transaction
        work = self._send(offsets, group, hold)
        task = self._runtime.loop.create_task(work, name="aiokafkapy-transaction-offsets")
        self._calls.add(task)
        task.add_done_callback(self._on_done)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if task.cancel():  # else it had its outcome
                transaction.fail(
                    TransactionAbortableError(
                        "send_offsets_to_transaction() was cancelled before its answer came: it is unknown "
                        "whether the offsets were added, so the transaction can only be aborted"
                    )
                )
            raise
        if task.cancelled():
            if not self._runtime.is_usable_here:
                raise ProducerClosedError("the producer was closed before the offsets were added to the transaction")
            error = TransactionAbortedError("the transaction was aborted before the offsets were added to it")
            if transaction.takes_partitions:  # other code has cancelled the task
                transaction.fail(error)
            raise error
        task.result()

    async def settled(self) -> None:
        """Return when no call is under way."""
        while self._calls:
            await asyncio.wait(self._calls)

    def call_off(self) -> None:
        """Cancel the calls under way."""
        for call in self._calls:
            call.cancel()

    # internals

    async def _send(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group: GroupMetadata, hold: asyncio.Task[None] | None
    ) -> None:
        transaction, timeout = self._transaction, self._runtime.max_block
        if hold is not None:
            await asyncio.wait([hold])
        if not transaction.takes_partitions:  # the transaction has failed meanwhile
            raise transaction.why_no_record()
        try:
            if transaction.version < 2 and group.group_id not in transaction.groups:
                await self._requests.add_offsets(group.group_id, timeout)
            transaction.groups.add(group.group_id)
            await self._requests.commit_offsets(group, offsets, timeout)
        except KafkaError as error:
            transaction.fail(error)
            raise

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved: if the caller was cancelled, the transaction has the error
