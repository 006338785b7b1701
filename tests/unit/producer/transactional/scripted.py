"""Transactions whose outcomes are given beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from aiokafkapy.errors import (
    KafkaError,
)
from aiokafkapy.producer.transactional.attempts import Patience, TransactionAttempts
from aiokafkapy.producer.transactional.transactions import Transactions

from .harness import NO_JITTER

__all__ = ["Scripted"]


class Scripted:
    """``Transactions`` whose beginnings, ends and commits have the errors of three lists; None is a success."""

    transactional_id = "tx"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.times: list[float] = []
        self.begins: list[KafkaError | None] = []
        self.ends: list[KafkaError | None] = []
        self.commits: list[KafkaError | None] = []
        self.may_be_aborted = True
        self.in_doubt = 0
        """Ends and commits that leave the outcome unknown."""
        self.is_usable = True

    @asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        self.log.append("begin")
        self.times.append(asyncio.get_running_loop().time())
        self._next(self.begins)
        try:
            yield
        except BaseException:
            self.log.append("abort")
            raise
        self.log.append("end")
        self._doubt()
        self._next(self.ends)

    async def commit(self) -> None:
        self.log.append("commit")
        self._doubt()
        self._next(self.commits)

    async def abort(self) -> None:
        self.log.append("abort")

    def _doubt(self) -> None:
        self.may_be_aborted = not self.in_doubt
        self.in_doubt -= bool(self.in_doubt)

    @staticmethod
    def _next(errors: list[KafkaError | None]) -> None:
        if errors and (error := errors.pop(0)) is not None:
            raise error

    def attempts(self, timeout: float = 60.0, also_mended: tuple[type[KafkaError], ...] = ()) -> TransactionAttempts:
        patience = Patience(cast(Transactions, self), timeout, NO_JITTER, also_mended)
        return TransactionAttempts(patience)

    async def run(self, timeout: float = 60.0, also_mended: tuple[type[KafkaError], ...] = ()) -> int:
        """The runs of an empty block."""
        runs = 0
        async for attempt in self.attempts(timeout, also_mended):
            async with attempt:
                runs += 1
        return runs
