"""A run: a workload on a real cluster of three, scheduled faults, and a final check.

Owns the sequence of steps; ``faults`` does the faults, a workload (``sending``, ``copying``) works and checks.

Rules: the seed is printed first. Every wait has a time-out, whose expiry is a finding. Before a run returns, stopped
nodes are resumed and killed nodes restarted, in any case.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from aiokafkapy.testing import ApacheKafka

from .copying import Copying
from .faults import Faults
from .report import Journal, Report, Say
from .schedule import Kind, schedule
from .sending import Sending
from .workload import Workload

__all__ = ["Report", "run"]

TOPIC_CONFIG = {"min.insync.replicas": 2}


async def run(
    kafka: ApacheKafka, seed: int, *, seconds: float, rounds: int = 0, transactions: bool = False, say: Say = print
) -> Report:
    """Do faults until ``seconds`` are over, and whole ``rounds`` of all kinds at least."""
    say(f"seed {seed}")
    workload = Copying if transactions else Sending
    return await _Run(kafka, Journal(Report(seed), say), workload).through(seconds, rounds * len(Kind))


class _Run:
    """The state of one run."""

    def __init__(self, kafka: ApacheKafka, journal: Journal, workload: type[Workload]) -> None:
        self._kafka = kafka
        self._journal = journal
        name = f"chaos-{uuid.uuid4().hex[:8]}"
        self._topics = [f"{name}-{number}" for number in range(len(workload.PARTITIONS))]
        self._workload = workload(kafka, self._topics, journal)
        self._faults = Faults(kafka, self._topics, journal)

    async def through(self, seconds: float, at_least: int) -> Report:
        """All of it."""
        loop = asyncio.get_running_loop()
        handler = loop.get_exception_handler()
        loop.set_exception_handler(self._unhandled)
        try:
            for topic, partitions in zip(self._topics, self._workload.PARTITIONS, strict=True):
                await self._kafka.create_topic(topic, partitions, replication_factor=3, config=TOPIC_CONFIG)
            await self._under_load(seconds, at_least)
            await self._workload.check()
        finally:
            loop.set_exception_handler(handler)
        return self._journal.report

    async def _under_load(self, seconds: float, at_least: int) -> None:
        report = self._journal.report
        try:
            await self._workload.start()
            await self._workload.progress()
            started = time.monotonic()
            for fault in schedule(report.seed, self._kafka.node_ids, self._workload.PARTITIONS):
                if (fault.number > at_least and time.monotonic() - started >= seconds) or report.findings:
                    break
                await self._faults.suffer(fault)
                await self._workload.progress()
            report.seconds = time.monotonic() - started
        finally:
            await self._faults.mend()
            self._journal.log("closing")
            await self._workload.stop()

    def _unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._journal.find(f"the loop was told of {context}")
