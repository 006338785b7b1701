"""The workload of producers in every mode: each load's account is compared with the logs.

Rules: every wait has a time-out, whose expiry is a finding. Closed producers leave no task, connection or timer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence

from aiokafkapy.testing import ApacheKafka

from ..oracle import read_back
from ..promises.judging import NO_OFFSET
from ..promises.observing import client_sockets, client_tasks, next_timer
from .accounts import check_log
from .loads import Load, make_loads
from .report import Journal
from .workload import Workload

__all__ = ["Sending"]

PROGRESS = 60.0
"""Seconds for each load to get a new record through a whole cluster: a request that was lost may take up half of it."""
ENDING = 200.0
"""Seconds for a load to end: its last burst waits for metadata or room, and then as long as a record may take."""


class Sending(Workload):
    """Loads; without ``loads`` those of ``make_loads``."""

    PARTITIONS = (6, 3)

    def __init__(
        self, kafka: ApacheKafka, topics: Sequence[str], journal: Journal, loads: Sequence[Load] | None = None
    ) -> None:
        super().__init__(kafka, topics, journal)
        self.loads = make_loads(*topics) if loads is None else loads
        self._sending: dict[asyncio.Task[None], Load] = {}

    async def start(self) -> None:
        """Begin to send."""
        self._sending = {asyncio.create_task(load.run(self.kafka.bootstrap_servers)): load for load in self.loads}

    async def progress(self) -> None:
        """Wait until each load has got a new record through; a load that has ended, or does not, is a finding."""
        if any(task.done() for task in self._sending):
            self.journal.find("a load has ended by itself")
            return
        began = time.monotonic()
        waiting = {asyncio.create_task(load.account.progress()): load for load in self.loads}
        _, late = await asyncio.wait(waiting, timeout=PROGRESS)
        for task in late:
            task.cancel()
            load = waiting[task]
            assert load.producer is not None
            state = f"{load.producer.statistics()} {load.producer.health}"
            self.journal.find(f"load {load.account.name} got no record through in {PROGRESS:.0f} s: {state}")
        if not late:
            acknowledged = sum(len(load.account.acknowledged) for load in self.loads)
            took = time.monotonic() - began
            self.journal.log(f"whole; all loads went on after {took:.2f} s; {acknowledged:,} acknowledged")

    async def stop(self) -> None:
        """Let every load end; one that does not, or ended with an error, is a finding."""
        if not self._sending:
            return
        for load in self.loads:
            load.stop()
        _, late = await asyncio.wait(self._sending, timeout=ENDING)
        for task in late:
            self.journal.find(f"load {self._sending[task].account.name} did not end within {ENDING:.0f} s")
            task.cancel()
        ended, _ = await asyncio.wait(self._sending, timeout=ENDING)
        for task in ended - late:
            if (error := task.exception()) is not None:
                self.journal.find(f"load {self._sending[task].account.name} ended with {error!r}")

    async def check(self) -> None:
        """Tasks, connections and timers of closed producers, records that are in nobody's books, and the logs."""
        ports = {self.kafka.address_of(node)[1] for node in self.kafka.node_ids}
        if tasks := client_tasks():
            self.journal.find(f"tasks are left: {tasks}")
        if sockets := client_sockets(ports):
            self.journal.find(f"{sockets} connections are left")
        if next_timer() != math.inf:
            self.journal.find("a timer is left")
        for load in self.loads:
            self._close_account(load)
        self.journal.log("reading everything back")
        for topic in sorted({load.account.topic for load in self.loads}):
            log = await read_back(self.kafka.bootstrap_servers, topic)
            accounts = [load.account for load in self.loads if load.account.topic == topic]
            self.journal.report.findings += await asyncio.to_thread(check_log, log, accounts)

    # internals

    def _close_account(self, load: Load) -> None:
        account, report = load.account, self.journal.report
        assert load.producer is not None
        now = load.producer.statistics()
        retries = int(load.producer.metrics()["record-retry-total"])
        if now.accepted != now.delivered + now.failed or (now.pending, now.waiters, now.buffered_bytes) != (0, 0, 0):
            self.journal.find(f"the producer of {account.name} does not balance: {now}")
        if now.delivered != len(account.acknowledged) or now.failed > len(account.failed):
            told = f"{len(account.acknowledged)} and {len(account.failed)}"
            self.journal.find(f"the producer of {account.name} counts other outcomes than it told, {told}: {now}")
        unknown = sum(getattr(error, "outcome_unknown", False) for error in account.failed.values())
        unplaced = sum(offset == NO_OFFSET for _, offset in account.acknowledged.values())
        report.sent += account.sent
        report.acknowledged += len(account.acknowledged)
        report.retries += retries
        report.loads.append(
            f"  {account.name:<10}{account.sent:>9,} sent {len(account.failed):>7,} failed ({unknown:,} in doubt) "
            f"{retries:>8,} again  epoch {now.producer_epoch}  {unplaced} without offset  "
            f"longest silence {account.longest_silence:.1f} s"
        )
