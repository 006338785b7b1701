"""``TableSend``: tables sent one after the other, several on their way at a time.

Owns the order of the tables and the tasks that wait for their outcomes; rows are sent by ``ArrowSend``. It knows no
sockets. Java has no counterpart.

Rules:

- A table's rows are put into batches after all rows of the table before it: rows keep their order within a partition
  over all tables.
- A table's outcome is its own: rows that failed stop neither it nor the tables after it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from ...record.arrow import ArrowArray, ArrowStream, ColumnNames
from ..intake.call_overflow import check_overflow
from ..intake.record_intake import RecordIntake
from ..records import CallOverflow
from .arrow_send import ArrowSend
from .table_metadata import TableMetadata

__all__ = ["TableSend"]


class TableSend:
    """Made by ``KafkaProducer.open_table_send()``; ``async with`` drains it, or abandons it when an error leaves it."""

    def __init__(
        self, intake: RecordIntake, topic: str | None, names: ColumnNames, overflow: CallOverflow | None = None
    ) -> None:
        self._intake = intake
        self._overflow = overflow
        if overflow is not None:
            check_overflow(intake.accepting_runtime().config, topic, overflow)
        self._topic = topic
        self._names = names
        self._turn = asyncio.Lock()
        self._outcomes: set[asyncio.Task[TableMetadata]] = set()

    async def send(self, table_or_batch: ArrowStream | ArrowArray) -> asyncio.Task[TableMetadata]:
        """Put a table's rows into batches; returns when all are, with the task that waits for their outcome.

        Errors of rows are in the task's result, as with ``send_arrow(return_exceptions=True)``; a table that cannot be
        sent at all raises here.
        """
        send = ArrowSend(self._intake, self._overflow)
        send.open(self._topic, table_or_batch, self._names)
        del table_or_batch  # its buffers are released as they are encoded
        async with self._turn:
            await send.append()
        outcome = asyncio.create_task(send.outcome())
        self._outcomes.add(outcome)
        outcome.add_done_callback(self._outcomes.discard)
        return outcome

    async def drain(self) -> None:
        """Wait until every row of the tables sent so far has its outcome."""
        if self._outcomes:
            await asyncio.wait(list(self._outcomes))

    def abandon(self) -> None:
        """Stop waiting for outcomes; rows in batches stay on their way."""
        for outcome in self._outcomes:
            outcome.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc_type is None:
            await self.drain()
        else:
            self.abandon()
