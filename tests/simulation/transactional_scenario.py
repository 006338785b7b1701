"""A seed with transactions: one or two transactional ids; one of them may have two users that fence each other."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from aiokafkapy.testing.simulation.faults import FAULTS, FAULTS_OF_TRANSACTIONS

from .checked_cluster import CheckedCluster
from .hooks import Hooks
from .scenario import Scenario
from .transaction_checker import check_fencing, check_offset, check_transactions
from .transactional_workload import TransactionalWorkload, transactional_options
from .workload import Workload

__all__ = ["TransactionalScenario"]

LONGEST_TRANSACTION = 61.0
"""Seconds after which the brokers have ended all that was left open."""
FAULTS_THAT_MAY_FENCE = ("fatal error", "error of a new batch", "expire transactions")
"""The faults whose errors a producer may take for its own end."""


class TransactionalScenario(Scenario):
    """See the module."""

    def __init__(self, seed: int, *, keep_trace: bool) -> None:
        kind = random.Random(f"{seed}/kind of transactions")
        self._ids = kind.choice((["a"], ["a", "b"], ["a", "a"], ["a", "a"]))
        self._version: Literal[1, 2] = 1 if kind.random() < 1 / 3 else 2
        self._starts = [0.0, *(kind.choice((0.0, 0.3, 1.0)) for _ in self._ids[1:])]
        super().__init__(seed, keep_trace=keep_trace)

    # overriding Scenario

    def _new_cluster(self, chance: random.Random) -> CheckedCluster:
        groups = [self._group_of(number) for number in range(len(self._ids))]
        return CheckedCluster(
            self.network,
            chance,
            self._trace,
            transactional_ids=sorted(set(self._ids)),
            groups=groups,
            transaction_version=self._version,
        )

    def _fault_names(self) -> Sequence[str]:
        return (*FAULTS, *FAULTS_OF_TRANSACTIONS, *FAULTS_OF_TRANSACTIONS)

    def _options(self) -> list[dict[str, Any]]:
        return [transactional_options(self._chance) | {"transactional_id": each} for each in self._ids]

    async def _new_workload(self, number: int, options: dict[str, Any], hooks: Hooks) -> Workload:
        return TransactionalWorkload(
            number,
            partial(self._new_producer, number, options),
            self._users,
            self._cluster.partitions,
            self._duration,
            hooks,
            group_id=self._group_of(number),
            starts_at=self._starts[number] * self._duration,
            find=self.find,
        )

    def _check_producers_live(self) -> None:
        """A producer may only be fenced, and by another one or by a fault."""
        counts = self.report.counts
        may_be_fenced = (
            self._crashes
            or len(self._ids) > len(set(self._ids))
            or any(counts[name] for name in FAULTS_THAT_MAY_FENCE)
            or any(options["transaction_timeout_ms"] < 60_000 for options in self.report.options)
        )
        for workload in self._transactional():
            for error in workload.fatal_errors if not may_be_fenced else ():
                self.find(f"a producer of {self._ids} can only be closed, for no reason: {error!r}")

    async def _end(self) -> None:
        await asyncio.sleep(LONGEST_TRANSACTION)

    def _check(self) -> None:
        super()._check()
        counts, committed = self.report.counts, self._cluster.committed_values()
        for workload in self._transactional():
            values = [sent.value for sent in workload.sent]
            found = itertools.chain(
                check_transactions(workload.tried, values, committed),
                check_offset(workload.tried, committed, self._cluster.committed_offset(workload.group_id)),
            )
            for finding in itertools.islice(found, 10):
                self.find(f"of {workload.group_id}: {finding}")
            counts["transactions"] += len(workload.tried)
            counts["fatal errors"] += len(workload.fatal_errors)
            counts["producers"] += len(workload.instances)
            for tried in workload.tried:
                counts[f"transactions {tried.outcome.value}"] += 1
        for transactional_id in set(self._ids):
            same = [
                each for each, name in zip(self._transactional(), self._ids, strict=True) if name == transactional_id
            ]
            of_all = [each for workload in same for each in workload.tried]
            for finding in check_fencing(of_all, [each for workload in same for each in workload.instances]):
                self.find(finding)
        for unfinished in self._cluster.unfinished():
            self.find(f"a transaction has no end: {unfinished}")

    # internals

    def _group_of(self, number: int) -> str:
        return f"group {number} of {self._ids[number]}"

    def _transactional(self) -> list[TransactionalWorkload]:
        return [workload for workload in self._workloads if isinstance(workload, TransactionalWorkload)]
