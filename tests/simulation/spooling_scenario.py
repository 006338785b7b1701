"""A seed with spools: producers that keep records on disk while brokers are away, and whose processes come and go."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from aiokafkapy import KafkaProducer
from aiokafkapy.producer.spool.spooling import MARKED_WITHIN, WRITTEN_WITHIN
from aiokafkapy.testing.simulation.faults import FAULTS, Fault

from .checked_cluster import CheckedCluster
from .checker import Spooled
from .hooks import Hooks
from .scenario import RECOVERY, Scenario
from .simulated_disk import SimulatedDisk
from .spooling_workload import SpoolingWorkload, spooling_options
from .workload import Workload

__all__ = ["SpoolingScenario"]

OUTAGE = "outage"
FULL_DISK = "full disk"
WAYS_OF_OUTAGES = ("stop node", "refuse", "silence")
"""The kinds of faults that hit all brokers at once."""
SHARE_OF_OUTAGES = 8
"""The frequency of outages, in times that of any other fault."""


class SpoolingScenario(Scenario):
    """See the module."""

    def __init__(self, seed: int, *, keep_trace: bool) -> None:
        self._disk = SimulatedDisk(random.Random(f"{seed}/disk"))
        super().__init__(seed, keep_trace=keep_trace)

    # overriding Scenario

    def stand_ins(self) -> Sequence[tuple[str, Any]]:
        return (
            ("aiokafkapy.producer.spool.spool_segment.write_at", self._disk.write_at),
            ("os.fsync", lambda _: None),  # the machine does not die here, only processes do
        )

    def remove(self) -> None:
        self._disk.close()

    def _turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(MARKED_WITHIN + WRITTEN_WITHIN))  # the disk has its time

    def _new_cluster(self, chance: random.Random) -> CheckedCluster:
        return CheckedCluster(self.network, chance, self._trace)

    def _fault_names(self) -> Sequence[str]:
        return (*FAULTS, OUTAGE, FULL_DISK, *[OUTAGE] * SHARE_OF_OUTAGES)

    def _begin_fault(self, fault: Fault) -> None:
        if fault.name == FULL_DISK:
            self._disk.is_full = True
        for each in self._parts_of(fault):
            super()._begin_fault(each)

    def _end_fault(self, fault: Fault) -> None:
        if fault.name == FULL_DISK:
            self._disk.is_full = False
        for each in self._parts_of(fault):
            super()._end_fault(each)

    def _heal(self) -> None:
        super()._heal()
        self._disk.heal()

    def _options(self) -> list[dict[str, Any]]:
        return [spooling_options(self._chance) for _ in range(self._chance.choice((1, 1, 2)))]

    async def _new_workload(self, number: int, options: dict[str, Any], hooks: Hooks) -> Workload:
        return SpoolingWorkload(
            number,
            partial(self._new_spooling_producer, number, options),
            self._users,
            self._cluster.partitions,
            self._duration,
            hooks,
            disk=self._disk,
            on_end=partial(self._check_accounts_of, number, is_settled=True),
        )

    def _time_to_close(self, options: dict[str, Any], timeout: float | None) -> float:
        return super()._time_to_close(options, timeout) + MARKED_WITHIN + WRITTEN_WITHIN

    def _spool_of(self, workload: Workload) -> Spooled | None:
        assert isinstance(workload, SpoolingWorkload)
        return Spooled(workload.refused(), workload.repeated, workload.is_in_doubt, workload.is_unmarked)

    async def _end(self) -> None:
        for number, workload in enumerate(self._workloads):
            assert isinstance(workload, SpoolingWorkload)
            left = await workload.drain(self.loop.time() + RECOVERY)
            if left:
                self.find(f"the spool of producer {number} was not sent within {RECOVERY} s: {left}")
            self.report.counts.update(workload.counts)

    # internals

    def _parts_of(self, fault: Fault) -> list[Fault]:
        """The cluster's faults that it is made of."""
        if fault.name == FULL_DISK:
            return []
        if fault.name != OUTAGE:
            return [fault]
        way = WAYS_OF_OUTAGES[fault.times % len(WAYS_OF_OUTAGES)]
        return [replace(fault, name=way, node=node.node_id) for node in self._cluster.broker.nodes]

    def _new_spooling_producer(self, number: int, options: dict[str, Any], folder: Path) -> KafkaProducer[Any, Any]:
        # The folder is not among the shown options: its name depends on the machine.
        return self._new_producer(number, options | {"spool_dir": folder})
