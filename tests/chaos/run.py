"""A run: loads on a real cluster of three, scheduled faults, and a final comparison of the accounts with the logs.

Owns the sequence of steps and the faults of nodes; ``loads`` sends, ``accounts`` checks.

Rules: the seed is printed first. Every wait has a time-out, whose expiry is a finding. Before a run returns, stopped
nodes are resumed and killed nodes restarted, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafkapy.errors import KafkaError
from aiokafkapy.testing import ApacheKafka

from ..kafka.oracle import read_back
from ..promises.judging import NO_OFFSET
from ..promises.observing import client_sockets, client_tasks, next_timer
from .accounts import check_log
from .loads import Load, make_loads
from .schedule import Fault, Kind, Move, schedule

__all__ = ["Report", "run"]

PARTITIONS = (6, 3)
TOPIC_CONFIG = {"min.insync.replicas": 2}
HEALING = 120.0
"""Seconds for the cluster to be whole again once the last node is back."""
PATIENCE = 20.0
"""Seconds until it is asked once more for what it may have missed."""
PROGRESS = 60.0
"""Seconds for each load to get a new record through a whole cluster: a request that was lost may take up half of it."""
ENDING = 200.0
"""Seconds for a load to end: its last burst waits for metadata or room, and then as long as a record may take."""

Say = Callable[[str], None]


@dataclass
class Report:
    """What a run did and what it found; it is well when there are no findings."""

    seed: int
    seconds: float = 0.0
    faults: Counter[Kind] = field(default_factory=Counter)
    moves: int = 0
    """Partitions whose replicas were taken elsewhere and back."""
    elected: int = 0
    """Partitions that an election gave another leader."""
    refused: int = 0
    """Elections and moves that the cluster would not make just then."""
    loads: list[str] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0
    retries: int = 0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        partitions = f"{self.moves} partitions moved, {self.elected} elected, {self.refused} refused"
        lines = [
            f"seed {self.seed}: {sum(self.faults.values())} faults in {self.seconds:.0f} s ({kinds}; {partitions})",
            f"{self.sent:,} records sent, {self.acknowledged:,} acknowledged, {self.retries:,} sent again",
            *self.loads,
            *(f"FINDING: {finding}" for finding in self.findings),
            f"{len(self.findings) or 'no'} finding{'' if len(self.findings) == 1 else 's'} with seed {self.seed}",
        ]
        return "\n".join(lines)


async def run(kafka: ApacheKafka, seed: int, *, seconds: float, rounds: int = 0, say: Say = print) -> Report:
    """Do faults until ``seconds`` are over, and whole ``rounds`` of all kinds at least."""
    say(f"seed {seed}")
    return await _Run(kafka, seed, say).through(seconds, rounds * len(Kind))


class _Run:
    """The state of one run."""

    def __init__(self, kafka: ApacheKafka, seed: int, say: Say) -> None:
        self._kafka = kafka
        self._say = say
        self._started = time.monotonic()
        name = f"chaos-{uuid.uuid4().hex[:8]}"
        self._topics = [f"{name}-{number}" for number in range(len(PARTITIONS))]
        self._loads = make_loads(*self._topics)
        self._report = Report(seed)
        self._moves: dict[tuple[int, int], Move] = {}
        """The last move of each partition, by topic and number."""

    async def through(self, seconds: float, at_least: int) -> Report:
        """All of it."""
        loop = asyncio.get_running_loop()
        handler = loop.get_exception_handler()
        loop.set_exception_handler(self._unhandled)
        try:
            for topic, partitions in zip(self._topics, PARTITIONS, strict=True):
                await self._kafka.create_topic(topic, partitions, replication_factor=3, config=TOPIC_CONFIG)
            await self._under_load(seconds, at_least)
            self._look_for_what_is_left()
            await self._check()
        finally:
            loop.set_exception_handler(handler)
        return self._report

    async def _under_load(self, seconds: float, at_least: int) -> None:
        sending = {asyncio.create_task(load.run(self._kafka.bootstrap_servers)): load for load in self._loads}
        try:
            await self._progress(sending)
            started = time.monotonic()
            for fault in schedule(self._report.seed, self._kafka.node_ids, PARTITIONS):
                if (fault.number > at_least and time.monotonic() - started >= seconds) or self._report.findings:
                    break
                await self._suffer(fault)
                await self._progress(sending)
            self._report.seconds = time.monotonic() - started
        finally:
            await self._mend()
            self._log("closing")
            await self._stop(sending)

    async def _stop(self, sending: Mapping[asyncio.Task[None], Load]) -> None:
        """Let every load end; one that does not, or ended with an error, is a finding."""
        for load in self._loads:
            load.stop()
        _, late = await asyncio.wait(sending, timeout=ENDING)
        for task in late:
            self._find(f"load {sending[task].account.name} did not end within {ENDING:.0f} s")
            task.cancel()
        ended, _ = await asyncio.wait(sending, timeout=ENDING)
        for task in ended - late:
            if (error := task.exception()) is not None:
                self._find(f"load {sending[task].account.name} ended with {error!r}")

    async def _suffer(self, fault: Fault) -> None:
        """One fault, from its quiet beginning until the cluster is whole again."""
        await asyncio.sleep(fault.quiet)
        self._log(f"#{fault.number} {fault}")
        self._report.faults[fault.kind] += 1
        await self._take_down(fault)
        moving = asyncio.create_task(self._move({move: move.narrow for move in fault.moves}))
        try:
            await asyncio.sleep(fault.seconds)
            if fault.kind is Kind.ELECT:
                await self._elect()
            await self._mend()
        finally:
            await moving
        self._report.moves += len(fault.moves)
        await self._heal(fault)

    async def _heal(self, fault: Fault) -> None:
        """Give every partition its three replicas again and wait until all are in sync."""
        deadline = time.monotonic() + HEALING
        moves = {(move.topic, move.partition): move for move in fault.moves}
        self._moves |= moves
        while True:
            await self._move({move: move.wide for move in moves.values()})
            try:
                await asyncio.to_thread(self._kafka.admin.wait_until, self._is_whole, PATIENCE, "a replica is missing")
            except KafkaError as error:
                if time.monotonic() > deadline:
                    self._find(f"after fault #{fault.number} the cluster did not become whole: {error}")
                    return
                # A node that was paused may have been asked to narrow a partition, and only now get to it.
                moves = self._moves
            else:
                return

    async def _take_down(self, fault: Fault) -> None:
        for node in fault.nodes:
            match fault.kind:
                case Kind.KILL:
                    await asyncio.to_thread(self._kafka.kill, node)
                case Kind.PAUSE:
                    self._kafka.pause(node)
                case Kind.RESTART:
                    await self._kafka.stop(node)

    async def _mend(self) -> None:
        for node in self._kafka.running:
            self._kafka.resume(node)
        await self._kafka.restore()

    async def _elect(self) -> None:
        for topic in self._topics:
            with self._may_be_refused():
                self._report.elected += len(await self._kafka.elect_leaders(topic))

    async def _move(self, replicas: dict[Move, tuple[int, ...]]) -> None:
        for move, nodes in replicas.items():
            with self._may_be_refused():
                await self._kafka.reassign(self._topics[move.topic], {move.partition: nodes})

    @contextlib.contextmanager
    def _may_be_refused(self) -> Any:
        """While nodes are down the cluster may refuse, or not come to an end; that is no fault of a producer's."""
        try:
            yield
        except (KafkaError, OSError) as error:
            self._report.refused += 1
            self._log(f"refused: {error!s:.150}")

    def _is_whole(self) -> bool:
        """Whether each node knows each partition with a leader and all replicas in sync."""
        for node in self._kafka.node_ids:
            for topic in self._topics:
                for state in self._kafka.admin.partitions(topic, self._kafka.address_of(node)).values():
                    if state.leader < 0 or {*state.in_sync_replicas} != {*self._kafka.node_ids}:
                        return False
        return True

    async def _progress(self, sending: Collection[asyncio.Task[None]]) -> None:
        """Wait until each load has got a new record through; a load that has ended, or does not, is a finding."""
        if any(task.done() for task in sending):
            self._find("a load has ended by itself")
            return
        began = time.monotonic()
        waiting = {asyncio.create_task(load.account.progress()): load for load in self._loads}
        _, late = await asyncio.wait(waiting, timeout=PROGRESS)
        for task in late:
            task.cancel()
            load = waiting[task]
            assert load.producer is not None
            state = f"{load.producer.statistics()} {load.producer.health}"
            self._find(f"load {load.account.name} got no record through in {PROGRESS:.0f} s: {state}")
        if not late:
            acknowledged = sum(len(load.account.acknowledged) for load in self._loads)
            self._log(f"whole; all loads went on after {time.monotonic() - began:.2f} s; {acknowledged:,} acknowledged")

    def _look_for_what_is_left(self) -> None:
        """Tasks, connections and timers of closed producers, and records that are in nobody's books."""
        ports = {self._kafka.address_of(node)[1] for node in self._kafka.node_ids}
        if tasks := client_tasks():
            self._find(f"tasks are left: {tasks}")
        if sockets := client_sockets(ports):
            self._find(f"{sockets} connections are left")
        if next_timer() != math.inf:
            self._find("a timer is left")
        for load in self._loads:
            self._close_account(load)

    def _close_account(self, load: Load) -> None:
        account = load.account
        assert load.producer is not None
        now = load.producer.statistics()
        retries = int(load.producer.metrics()["record-retry-total"])
        if now.accepted != now.delivered + now.failed or (now.pending, now.waiters, now.buffered_bytes) != (0, 0, 0):
            self._find(f"the producer of {account.name} does not balance: {now}")
        if now.delivered != len(account.acknowledged) or now.failed > len(account.failed):
            told = f"{len(account.acknowledged)} and {len(account.failed)}"
            self._find(f"the producer of {account.name} counts other outcomes than it told, {told}: {now}")
        unknown = sum(getattr(error, "outcome_unknown", False) for error in account.failed.values())
        unplaced = sum(offset == NO_OFFSET for _, offset in account.acknowledged.values())
        self._report.sent += account.sent
        self._report.acknowledged += len(account.acknowledged)
        self._report.retries += retries
        self._report.loads.append(
            f"  {account.name:<10}{account.sent:>9,} sent {len(account.failed):>7,} failed ({unknown:,} in doubt) "
            f"{retries:>8,} again  epoch {now.producer_epoch}  {unplaced} without offset  "
            f"longest silence {account.longest_silence:.1f} s"
        )

    async def _check(self) -> None:
        self._log("reading everything back")
        for topic in self._topics:
            log = await read_back(self._kafka.bootstrap_servers, topic)
            accounts = [load.account for load in self._loads if load.account.topic == topic]
            self._report.findings += await asyncio.to_thread(check_log, log, accounts)

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._find(f"the loop was told of {context}")

    def _find(self, finding: str) -> None:
        self._log(f"FINDING: {finding}")
        self._report.findings.append(finding)

    def _log(self, line: str) -> None:
        self._say(f"{time.monotonic() - self._started:7.1f} s  {line}")
