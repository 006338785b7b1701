"""``ConsumedBatches``: consume, transform, produce, with the offsets of the consumed records in each transaction
(KIP-447).

Owns the loop: a batch is read, its block runs in a transaction, and its end commits the records and the offsets
together. ``Patience`` limits the repeated attempts. Kafka's counterpart is the loop in KIP-447 and in
``KafkaProducer``'s documentation; franz-go's is ``GroupTransactSession``.

Rule: a batch that is not committed is read again; so the consumer goes back before any other record is read, after any
error and after cancellation. A caller that is cancelled in a commit waits until its outcome is known, because that
decides where to read on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from ...common import MAX_INT, TopicPartition, number_within
from ...errors import IllegalStateError
from .attempts import Patience
from .consumers import Consumer
from .transactions import Transactions

__all__ = ["ConsumedBatch", "ConsumedBatches"]

R = TypeVar("R")

SECONDS_TO_GO_BACK: Final = 30.0


class ConsumedBatches(Generic[R]):
    """``async for batch in producer.consume_transform_produce(consumer):``; it ends only by an exception."""

    def __init__(self, transactions: Transactions, consumer: Consumer[R], max_records: int, patience: Patience) -> None:
        self._transactions = transactions
        self._consumer = consumer
        self._max_records = number_within("max_records", max_records, 1, MAX_INT)
        self._patience = patience
        self._unread: ConsumedBatch[R] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumedBatch[R]:
        if self._unread is not None:
            raise IllegalStateError("the batch was not entered: write `async with batch:` inside the loop")
        while not (found := await self._consumer.read(self._max_records)):
            pass
        records = {TopicPartition(*topic_partition): some for topic_partition, some in found.items()}
        self._unread = ConsumedBatch(self, records, self._consumer.group().generation_id)
        return self._unread

    # called by a batch

    async def begin(self, batch: ConsumedBatch[R]) -> AbstractAsyncContextManager[None]:
        """Open the transaction of the batch that was read last."""
        if batch is not self._unread:
            raise IllegalStateError("a batch is entered once: take the next one of the loop")
        self._unread = None
        try:
            return await self._patience.begun()
        except BaseException as error:
            await self._go_back(batch, error)
            raise

    async def end(
        self, batch: ConsumedBatch[R], scope: AbstractAsyncContextManager[None], error: BaseException | None
    ) -> None:
        """Commit the transaction with the batch's offsets, or go back to the beginning of the batch."""
        if error is None:
            error = await self._send_offsets(batch)
        try:
            failure = await self._patience.settled(scope, error)
        except BaseException as final:
            await self._leave(batch, final)
            raise
        if failure is None:
            self._patience.begin_anew()
        else:
            await self._go_back(batch, failure)

    # internals

    async def _leave(self, batch: ConsumedBatch[R], error: BaseException) -> None:
        """An exception leaves the loop: move to the offsets from which the next reader goes on."""
        transactions = self._transactions
        await transactions.settled()
        if not transactions.may_be_aborted:
            error.add_note("whether the batch was committed is not known, so begin with a new consumer")
        elif not transactions.was_committed:
            await self._go_back(batch, error)

    async def _send_offsets(self, batch: ConsumedBatch[R]) -> BaseException | None:
        try:
            offsets = {
                topic_partition: self._consumer.next_offset(some[-1])
                for topic_partition, some in batch.by_partition.items()
            }
            group = self._consumer.group()._replace(generation_id=batch.generation)
            await self._transactions.send_offsets(offsets, group)
        except BaseException as failure:  # cancellation, too, leaves by way of the transaction
            return failure
        return None

    async def _go_back(self, batch: ConsumedBatch[R], error: BaseException) -> None:
        starts = {
            topic_partition: self._consumer.offset(some[0]) for topic_partition, some in batch.by_partition.items()
        }
        try:
            async with asyncio.timeout(SECONDS_TO_GO_BACK):
                await self._consumer.go_back(starts, batch.generation)
        except Exception as failure:
            error.add_note(f"the consumer is not back at its committed offsets, so begin with a new one: {failure}")
            raise error from failure


class ConsumedBatch(Generic[R]):
    """Records that a consumer has read, in its own form: iterate over all, or over ``by_partition``."""

    def __init__(
        self, batches: ConsumedBatches[R], by_partition: Mapping[TopicPartition, Sequence[R]], generation: int
    ) -> None:
        self.by_partition = by_partition
        """In the order of their offsets."""
        self.generation = generation
        """The group's generation in which they were read; -1 when it is not known."""
        self._batches = batches
        self._scope: AbstractAsyncContextManager[None] | None = None

    def __iter__(self) -> Iterator[R]:
        return chain.from_iterable(self.by_partition.values())

    def __len__(self) -> int:
        return sum(map(len, self.by_partition.values()))

    async def __aenter__(self) -> Self:
        self._scope = await self._batches.begin(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._scope is not None
        await self._batches.end(self, self._scope, error)
        return True
