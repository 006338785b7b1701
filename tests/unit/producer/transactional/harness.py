"""``Transactions`` between a real ``Transaction`` and fakes of the runtime, the intake and the coordinator.

The fakes write down their calls in one list, in order, and do as ``answers`` says: an error is raised, a future is
waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from aiokafkapy.common import ExponentialBackoff, TopicPartition
from aiokafkapy.errors import BrokerError, KafkaError
from aiokafkapy.producer.identity.transaction import PreparedTxnState, Transaction
from aiokafkapy.producer.identity.transaction_manager import TransactionManager
from aiokafkapy.producer.intake.record_intake import RecordIntake
from aiokafkapy.producer.metrics import CallMetrics
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata, OffsetToCommit
from aiokafkapy.producer.transactional.transaction_requests import TransactionRequests
from aiokafkapy.producer.transactional.transactions import Transactions
from aiokafkapy.producer.transactional.transactions_runtime import TransactionsRuntime

__all__ = ["IDENTITY", "NO_JITTER", "OFFSETS", "A", "B", "World", "offsets_under_way", "settle"]

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
OFFSETS = {A: OffsetToCommit(5)}
IDENTITY = PreparedTxnState(7, 0)
NO_JITTER = ExponentialBackoff(0.1, 1.0, jitter=0)

Answer = KafkaError | asyncio.Future[Any] | None


async def settle() -> None:
    """Let run all that can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


class World:
    """The calls of ``Transactions`` to its neighbours, in ``log``."""

    def __init__(self, *, version: int = 2, two_phases: bool = False, keeps_prepared: bool = False) -> None:
        self.log: list[str] = []
        self.answers: dict[str, list[Answer]] = {}
        self.waiting: list[str] = []
        self.refused: list[tuple[str, BaseException]] = []
        self.dropped: list[KafkaError] = []
        self.kept: PreparedTxnState | None = None
        self.is_flush_settled = True
        self.adding: asyncio.Future[None] | None = None
        self.loop = asyncio.get_running_loop()
        self.transaction = Transaction("tx", lambda: None)
        self.transaction.version = version
        self.manager = TransactionManager(NO_JITTER, self.transaction)
        self.runtime = self._runtime(two_phases, keeps_prepared)
        self.transactions = Transactions(
            cast(TransactionsRuntime, self.runtime),
            cast(RecordIntake, self),
            self.transaction,
            cast(TransactionRequests, self),
        )

    async def started(self) -> World:
        """The world with an identity, and no calls yet."""
        await self.transactions.initialize()
        self.log.clear()
        return self

    async def begun(self, *partitions: TopicPartition) -> World:
        """The world in a transaction that the broker knows by these partitions, with no calls yet."""
        await self.started()
        await self.transactions.begin()
        self.transaction.partitions.update(partitions)
        self.log.clear()
        return self

    def will(self, call: str, *answers: Answer) -> None:
        """The next calls of this name end so."""
        self.answers.setdefault(call, []).extend(answers)

    def _runtime(self, two_phases: bool, keeps_prepared: bool) -> SimpleNamespace:
        return SimpleNamespace(
            config=SimpleNamespace(
                transaction_two_phase_commit_enable=two_phases, transaction_keep_prepared=keeps_prepared
            ),
            loop=self.loop,
            now=self.loop.time,
            calls=CallMetrics(self.loop.time()),
            max_block=60.0,
            is_usable_here=True,
            flush=lambda deadline: self._call("flush"),
            admitted=lambda waiting: self._call(f"admitted {' '.join(waiting)}"),
            begin_flush=self._begin_flush,
            admission=SimpleNamespace(snapshot=lambda: list(self.waiting), refuse=self._refuse),
            accumulator=SimpleNamespace(cut=self._cut, abort_undrained=self._abort_undrained),
            sender=SimpleNamespace(wakeup=lambda: self.log.append("wakeup")),
        )

    async def _call(self, name: str) -> None:
        self.log.append(name)
        answers = self.answers.get(name)
        answer = answers.pop(0) if answers else None
        if isinstance(answer, KafkaError):
            raise answer
        if answer is not None:
            await answer

    # the runtime

    def _begin_flush(self) -> tuple[SimpleNamespace, asyncio.Future[None]]:
        self.log.append("begin_flush")
        settled = self.loop.create_future()
        flush = SimpleNamespace(is_settled=self.is_flush_settled, end=lambda: self.log.append("flush.end"))
        self.answers.setdefault("settled", []).append(settled)
        return flush, settled

    def _refuse(self, record: str, error: BaseException) -> None:
        self.waiting.remove(record)
        self.refused.append((record, error))

    def _cut(self) -> dict[TopicPartition, int]:
        self.log.append("cut")
        return {A: 1}

    def _abort_undrained(self, error: KafkaError) -> None:
        self.log.append("abort_undrained")
        self.dropped.append(error)

    # the intake

    def usable_runtime(self) -> None:
        self.log.append("usable")

    def shut_gate(self) -> None:
        self.log.append("shut")

    def open_gate(self) -> None:
        self.log.append("open")

    def reopen_gate(self) -> None:
        self.log.append("reopen")

    # the coordinator

    @property
    def identity(self) -> PreparedTxnState:
        return IDENTITY

    async def init_producer_id(self, timeout: float, *, keeps_prepared: bool = False) -> PreparedTxnState | None:
        await self._call("init keeping" if keeps_prepared else "init")
        self.manager.use_identity(IDENTITY.producer_id, IDENTITY.producer_epoch)
        return self.kept

    async def end(self, committed: bool, timeout: float) -> None:
        self.transaction.is_commit_in_doubt = committed
        await self._call("commit" if committed else "abort")
        self.transaction.is_commit_in_doubt = False

    async def markers_written(self) -> None:
        await self._call("markers")

    async def partitions_added(self) -> None:
        if self.adding is not None:
            await asyncio.wait([self.adding])

    async def stop_adding_partitions(self) -> None:
        if self.adding is not None:
            self.adding.cancel()

    async def add_offsets(self, group_id: str, timeout: float) -> None:
        await self._counted(f"add {group_id}")

    async def commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetToCommit], timeout: float
    ) -> None:
        await self._counted(f"offsets {group.group_id}")

    async def _counted(self, name: str) -> None:
        """A broker's error is an answer, a time-out is not."""
        self.transaction.unanswered += 1
        try:
            await self._call(name)
        except BrokerError:
            self.transaction.unanswered -= 1
            raise
        self.transaction.unanswered -= 1


async def offsets_under_way(world: World) -> tuple[asyncio.Task[None], asyncio.Future[None]]:
    """A call of ``send_offsets`` that waits for its answer, and the answer."""
    answer = world.loop.create_future()
    world.will("offsets g", answer)
    call = asyncio.create_task(world.transactions.send_offsets(OFFSETS, GroupMetadata("g")))
    await settle()
    assert world.log[-1] == "offsets g"
    return call, answer
