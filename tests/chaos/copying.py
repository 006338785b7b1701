"""The workload of transactions: one load fills a topic, and copiers copy it to another, each record once.

Owns the copiers, and the strikes at them; ``copier`` copies, ``copies`` compares.

The copiers are members of one group, so that partitions go from one to the other in mid-transaction, with
confluent-kafka's consumers, which wait for offsets whose transaction is just being ended (KIP-447).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from aiokafkapy.testing import ApacheKafka

from .accounts import Account
from .copier import Copier, counting_attempts
from .copies import CopyAccount, check_copy, check_ends
from .loads import Pipelined
from .reading import committed_offsets, ends_of, read_committed
from .report import Journal
from .schedule import strikes
from .sending import Sending
from .workload import Workload

__all__ = ["Copying"]

COPIERS = 2
BURST = 10
"""Records of the load at a time: moderate, so that the copiers keep up."""
PROGRESS = 120.0
"""Seconds for the copy to come up to its source, in a whole cluster; some of the time copiers are struck."""
ENDING = 120.0
"""Seconds for the copiers to end, and for markers to be written."""
LOOKS = 0.2
"""Seconds between two looks for an event that may come soon."""


class Copying(Workload):
    """A load, and copiers of its topic."""

    PARTITIONS = (4, 4)

    def __init__(self, kafka: ApacheKafka, topics: Sequence[str], journal: Journal) -> None:
        super().__init__(kafka, topics, journal)
        self._source, self._target = topics
        self._load = Pipelined(Account("source", self._source, keys=31))
        self._load.burst = BURST
        self._sending = Sending(kafka, topics, journal, [self._load])
        self._account = journal.report.copies = CopyAccount()
        servers = kafka.bootstrap_servers
        self._copiers = [
            Copier(servers, f"{self._target}-{number}", self._source, self._target, self._account, journal)
            for number in range(COPIERS)
        ]
        self._copying: list[asyncio.Task[None]] = []
        self._striking: asyncio.Task[None] | None = None
        self._resources = ExitStack()

    async def start(self) -> None:
        """Begin to send, to copy and to strike."""
        self._resources.enter_context(counting_attempts(self._account))
        await self._sending.start()
        self._copying = [asyncio.create_task(copier.run()) for copier in self._copiers]
        self._striking = asyncio.create_task(self._strike())

    async def progress(self) -> None:
        """Wait until the load has got on, and the copiers are where it was then."""
        await self._sending.progress()
        if any(task.done() for task in self._copying):
            self.journal.find("a copier has ended by itself")
            return
        began = time.monotonic()
        ends: dict[int, int] = {}
        for partition, offset in self._load.account.acknowledged.values():
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        while behind := self._account.behind(ends):
            if time.monotonic() - began > PROGRESS:
                self.journal.find(f"the copy did not come up to {ends} in {PROGRESS:.0f} s: {behind}")
                return
            await asyncio.sleep(LOOKS)
        took = time.monotonic() - began
        self.journal.log(f"copied up to there after {took:.2f} s; {self._account.committed:,} transactions")

    async def stop(self) -> None:
        """End the load, let the copiers copy the rest of it, and end them."""
        if self._striking is not None:
            self._striking.cancel()
            await asyncio.wait([self._striking])
        await self._sending.stop()
        if not self.journal.report.findings:
            await self._drain()
        for copier in self._copiers:
            copier.stop()
        if self._copying:
            _, late = await asyncio.wait(self._copying, timeout=ENDING)
            if late:
                self.journal.find(f"{len(late)} copiers did not end within {ENDING:.0f} s")
        for task in self._copying:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self.journal.find(f"a copier ended with {error!r}")
        self._resources.close()

    async def check(self) -> None:
        """The source as it was told, the copy as the source, and no transaction open in it."""
        await self._sending.check()
        servers = self.kafka.bootstrap_servers
        ends = {}
        # A marker may come a moment after the producer was told of the end.
        deadline = time.monotonic() + ENDING
        while True:
            for topic, partitions in zip(self.topics, self.PARTITIONS, strict=True):
                ends[topic] = await ends_of(servers, topic, partitions)
            findings = list(check_ends(ends))
            if not findings or time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOKS)
        self.journal.report.findings += findings
        source, copy = [
            await read_committed(servers, topic, partitions)
            for topic, partitions in zip(self.topics, self.PARTITIONS, strict=True)
        ]
        self.journal.log(
            f"{sum(map(len, source.values())):,} records, and {sum(map(len, copy.values())):,} of the copy"
        )
        self.journal.report.findings += await asyncio.to_thread(check_copy, source, copy)

    # internals

    async def _strike(self) -> None:
        for strike in strikes(self.journal.report.seed, len(self._copiers)):
            await asyncio.sleep(strike.quiet)
            name = self._copiers[strike.copier].name
            if await self._copiers[strike.copier].strike(strike.way):
                self.journal.log(f"{strike.way} of {name}")

    async def _drain(self) -> None:
        """Wait until the group's offsets are at the ends of the source; if they are not in time, that is a finding."""
        servers, partitions = self.kafka.bootstrap_servers, self.PARTITIONS[0]
        ends = {number: one.end for number, one in (await ends_of(servers, self._source, partitions)).items()}
        deadline = time.monotonic() + PROGRESS
        offsets: Mapping[int, int] = {}
        while any(offsets.get(number, -1) < end for number, end in ends.items() if end):
            if time.monotonic() > deadline:
                self.journal.find(f"the copiers did not come to {ends} in {PROGRESS:.0f} s: {offsets}")
                return
            await asyncio.sleep(LOOKS)
            offsets = await committed_offsets(servers, self._source, self._source, partitions)
