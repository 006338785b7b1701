"""The events of one seed: a cluster, producers and their users, a schedule of faults, and the checks afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafkapy import KafkaProducer, RecordMetadata
from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.sockets import use_network
from aiokafkapy.testing.simulation.faults import FAULTS, Fault, Faults, make_schedule
from aiokafkapy.testing.simulation.simulated_loop import SimulatedLoop
from aiokafkapy.testing.simulation.simulated_network import SimulatedNetwork
from tests.inside import runtime_of

from .checked_cluster import CheckedCluster
from .checker import SLACK, Spooled, check_headers, check_records
from .hooks import Hooks
from .workload import Workload, producer_options

__all__ = ["Report", "Scenario"]

SMALLEST_BATCH = 512
"""Bytes that even the smallest batch holds, so that the pieces of a split batch may hold more than the batch did."""
RECOVERY = 60.0
"""Virtual seconds within which a record must be deliverable once everything is well: all time-outs are below that."""


@dataclass
class Report:
    """The record of one seed. ``findings`` are broken promises: none, if all is well."""

    seed: int
    findings: list[str] = field(default_factory=list)
    schedule: list[Fault] = field(default_factory=list)
    options: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    virtual_seconds: float = 0.0
    fingerprint: str = ""
    trace: list[str] = field(default_factory=list)


class _AnyFaults(Faults):
    """Faults of a scenario, which may have names of its own."""

    def __post_init__(self) -> None:
        """No name is unknown."""


class Scenario:
    """One seed's cluster, producers, users and faults; a subclass overrides the kind of its users."""

    def __init__(self, seed: int, *, keep_trace: bool) -> None:
        self.report = Report(seed)
        self.digest = hashlib.blake2b()
        self._keep_trace = keep_trace
        # Separate random streams, so that one more draw in one place does not change all others.
        self._chance, network, faults, replication, self._users, threads = (
            random.Random(f"{seed}/{name}")
            for name in ("scenario", "network", "faults", "replication", "users", "threads")
        )
        self.loop = SimulatedLoop(lambda: threads.uniform(0, 0.005))
        self.network = SimulatedNetwork(self.loop, network, self._trace)
        use_network(self.loop, self.network)
        self._cluster = self._new_cluster(replication)
        self._duration = self._chance.choice((0.3, 2.0, 10.0))
        self._faults = faults
        self._workloads: list[Workload] = []
        self._hooks: list[Hooks] = []
        self._crashes = self._chance.random() < 0.05

    def find(self, finding: str) -> None:
        self.report.findings.append(f"{self.loop.time():.4f} s: {finding}")

    def abandon(self) -> None:
        """Let go of the leftovers of a failed run."""
        self.loop.ends_at = math.inf  # they have their time, however long the run was
        self.network.reset()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self._turn()
        # A producer that is not closed says so when it is freed, which may be in the middle of another test.
        for workload in self._workloads:
            self.loop.create_task(workload.close(0))
        self._turn()
        self._workloads.clear()
        self._hooks.clear()

    async def play(self) -> None:
        cluster, report = self._cluster, self.report
        await cluster.start()
        wanted = _AnyFaults(self._fault_names(), self._chance.choice((0, 5, 15, 40)), self._duration)
        report.schedule = make_schedule(self._faults, wanted, len(cluster.broker.nodes), cluster.partitions)
        report.options = self._options()
        for number, options in enumerate(report.options):
            hooks = Hooks(f"{report.seed}/hooks of {number}", self.find)
            options |= hooks.options()
            self._hooks.append(hooks)
            self._workloads.append(await self._new_workload(number, options, hooks))
        began = self.loop.time()
        users = asyncio.gather(*(workload.run() for workload in self._workloads))
        await self._break_things(began)
        self._heal()
        self._crash_somebody()
        closing = self._chance.random()
        if closing < 0.2:  # in the middle of it all
            await self._close(self._chance.choice((0.0, 0.1, None)))
            await users
        else:
            await users
            self._check_producers_live()
            if closing < 0.8:
                await self._recover()
            await self._close(None)
        await self._end()
        self._check()
        await cluster.stop()
        self._check_nothing_is_left()

    # parts that a kind of scenario has of its own

    def stand_ins(self) -> Sequence[tuple[str, Any]]:
        """More parts of the machine that are replaced, each with its stand-in."""
        return ()

    def remove(self) -> None:
        """Remove all that is left on the machine."""

    def _new_cluster(self, chance: random.Random) -> CheckedCluster:
        return CheckedCluster(self.network, chance, self._trace)

    def _fault_names(self) -> Sequence[str]:
        return tuple(FAULTS)

    def _options(self) -> list[dict[str, Any]]:
        """The options of each producer."""
        return [producer_options(self._chance) for _ in range(self._chance.choice((1, 1, 2)))]

    async def _new_workload(self, number: int, options: dict[str, Any], hooks: Hooks) -> Workload:
        producer = self._new_producer(number, options)
        await producer.start()
        return Workload(number, producer, self._users, self._cluster.partitions, self._duration, hooks)

    def _spool_of(self, workload: Workload) -> Spooled | None:
        """The outcomes of records in its spool, if it has one."""
        return None

    def _time_to_close(self, options: dict[str, Any], timeout: float | None) -> float:
        """Seconds that ``close(timeout)`` may take."""
        if timeout is not None:
            return timeout
        return float(options["delivery_timeout_ms"] + options["max_block_ms"]) / 1000

    async def _end(self) -> None:
        """Wait for events after the last producer is closed."""

    def _check_producers_live(self) -> None:
        for number, workload in enumerate(self._workloads):
            state = workload.producer.state
            if state is not ProducerState.RUNNING and not self._crashes:
                self.find(f"producer {number} is {state.value}, and nobody has closed it")

    # internals

    def _turn(self) -> None:
        for _ in range(10):  # turns that need no time
            self.loop.run_until_complete(asyncio.sleep(0))

    def _new_producer(self, number: int, options: dict[str, Any]) -> KafkaProducer[Any, Any]:
        return KafkaProducer(self._cluster.broker.bootstrap_servers, client_id=f"producer-{number}", **options)

    async def _break_things(self, began: float) -> None:
        events = [(fault.at, 0, number) for number, fault in enumerate(self.report.schedule)]
        events += [(fault.at + fault.seconds, 1, number) for number, fault in enumerate(self.report.schedule)]
        for at, is_end, number in sorted(events):
            await asyncio.sleep(max(0.0, began + at - self.loop.time()))
            fault = self.report.schedule[number]
            self._trace("end of" if is_end else "fault", fault.name, fault.node)
            (self._end_fault if is_end else self._begin_fault)(fault)
            self._check_accounts(is_settled=False)
            self.report.counts[fault.name] += not is_end
        await asyncio.sleep(max(0.0, began + self._duration - self.loop.time()))

    def _begin_fault(self, fault: Fault) -> None:
        fault.begin(self._cluster)

    def _end_fault(self, fault: Fault) -> None:
        fault.end(self._cluster)

    def _heal(self) -> None:
        self._cluster.heal()

    def _crash_somebody(self) -> None:
        runtime = runtime_of(self._chance.choice(self._workloads).producer) if self._crashes else None
        if runtime is not None:
            self.report.counts["crash of a Sender"] += 1
            runtime.sender_task.cancel()

    async def _recover(self) -> None:
        """Once all is well every partition takes a record again, and a topic that is new is found."""
        for number, workload in enumerate(self._workloads):
            deadline = self.loop.time() + RECOVERY
            error = await workload.recover(self._cluster.partitions, deadline)
            if error is not None:
                self.find(f"producer {number} has not recovered after {RECOVERY} s: {error!r}")
            elif workload.producer.state is ProducerState.RUNNING and not await self._finds_new_topic(number, deadline):
                self.find(f"producer {number} has not found a new topic after {RECOVERY} s")

    async def _finds_new_topic(self, number: int, deadline: float) -> bool:
        while self.loop.time() < deadline:
            try:
                return bool(await self._workloads[number].producer.partitions_for(f"new-{number}"))
            except KafkaError:
                await asyncio.sleep(0.05)
        return False

    async def _close(self, timeout: float | None) -> None:
        for number, workload in enumerate(self._workloads):
            began = self.loop.time()
            await workload.close(timeout)
            limit = self._time_to_close(self.report.options[number], timeout)
            if self.loop.time() - began > limit + SLACK:
                self.find(f"close({timeout}) of producer {number} took {self.loop.time() - began:.3f} s")

    def _check(self) -> None:
        logs, headers = self._cluster.values(), self._cluster.headers()
        counts = self.report.counts
        for workload, options in zip(self._workloads, self.report.options, strict=True):
            found = itertools.chain(
                check_records(workload.sent, logs, options, workload.resumed, self._spool_of(workload)),
                check_headers(workload.sent, headers),
            )
            for finding in itertools.islice(found, 10):
                self.find(finding)
            counts["records"] += len(workload.sent)
            counts["acknowledged"] += sum(isinstance(sent.outcome, RecordMetadata) for sent in workload.sent)
            counts["cancelled"] += sum(sent.is_cancelled for sent in workload.sent)
            counts["failed"] += sum(isinstance(sent.outcome, BaseException) for sent in workload.sent)
            counts["refused"] += sum(sent.refused is not None for sent in workload.sent)
        counts["produce requests"] += self._cluster.controls.request_count(ApiKey.PRODUCE)
        counts["truncated records"] += self._cluster.replication.truncated_records
        for number, workload in enumerate(self._workloads):
            if workload.producer.metrics()["log-truncation-total"]:  # acknowledged records are never cut here
                self.find(f"producer {number} said that acknowledged records were lost")
        for hooks in self._hooks:
            hooks.check()
        self._check_accounts(is_settled=True)

    def _check_accounts(self, *, is_settled: bool) -> None:
        for number, workload in enumerate(self._workloads):
            self._check_accounts_of(number, workload.producer, is_settled=is_settled)

    def _check_accounts_of(self, number: int, producer: KafkaProducer[Any, Any], *, is_settled: bool) -> None:
        now = producer.statistics()
        if now.accepted != now.delivered + now.failed + now.pending:
            self.find(f"the accounts of producer {number} do not balance: {now}")
        if not 0 <= now.buffered_bytes <= now.buffer_memory + SMALLEST_BATCH * now.batches:
            self.find(f"producer {number} holds more than it may: {now}")
        if now.buffer_records is not None and now.pending > now.buffer_records:
            self.find(f"producer {number} has more records than it may: {now}")
        if is_settled and (now.pending, now.waiters, now.batches, now.buffered_bytes) != (0, 0, 0, 0):
            self.find(f"producer {number} still holds something: {now}")

    def _check_nothing_is_left(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            if task is not asyncio.current_task():
                self.find(f"a task is left: {task!r}")
        self.report.findings += [
            f"a timer is left: {timer!r}" for timer in self.loop.timers() if not _is_on_its_way(timer)
        ]
        open_connections = [each for each in self.network.connections if each.client.is_left]
        if open_connections:
            self.find(f"{len(open_connections)} connections are left")

    def _trace(self, *event: Any) -> None:
        line = f"{self.loop.time():.9f} {' '.join(map(str, event))}"
        self.digest.update(line.encode())
        if self._keep_trace:
            self.report.trace.append(line)


def _is_on_its_way(timer: asyncio.TimerHandle) -> bool:
    """True if the timer is not the producer's but delivers bytes to a closed end."""
    return "_End." in repr(timer)
