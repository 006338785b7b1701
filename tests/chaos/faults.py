"""The faults of a run, done to a real cluster: nodes go down and come back, leaders are elected, replicas move.

Owns nodes and replicas; when each fault is due is ``schedule``'s.

Rule: a fault is over when every partition has its leader and all its replicas again; a cluster that does not become
whole in time is a finding.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence

from aiokafkapy.errors import KafkaError
from aiokafkapy.testing import ApacheKafka

from .report import Journal
from .schedule import Fault, Kind, Move

__all__ = ["Faults"]

HEALING = 120.0
"""Seconds for the cluster to be whole again once the last node is back."""
PATIENCE = 20.0
"""Seconds until it is asked once more for events that it may have missed."""


class Faults:
    """Does faults to a cluster and its topics."""

    def __init__(self, kafka: ApacheKafka, topics: Sequence[str], journal: Journal) -> None:
        self._kafka = kafka
        self._topics = topics
        self._journal = journal
        self._report = journal.report
        self._moves: dict[tuple[int, int], Move] = {}
        """The last move of each partition, by topic and number."""

    async def suffer(self, fault: Fault) -> None:
        """One fault, from its quiet beginning until the cluster is whole again."""
        await asyncio.sleep(fault.quiet)
        self._journal.log(f"#{fault.number} {fault}")
        self._report.faults[fault.kind] += 1
        await self._take_down(fault)
        moving = asyncio.create_task(self._move({move: move.narrow for move in fault.moves}))
        try:
            await asyncio.sleep(fault.seconds)
            if fault.kind is Kind.ELECT:
                await self._elect()
            await self.mend()
        finally:
            await moving
        self._report.moves += len(fault.moves)
        await self._heal(fault)

    async def mend(self) -> None:
        """Resume the nodes that are stopped, and start those that are down."""
        for node in self._kafka.running:
            self._kafka.resume(node)
        await self._kafka.restore()

    # internals

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
                    self._journal.find(f"after fault #{fault.number} the cluster did not become whole: {error}")
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

    async def _elect(self) -> None:
        for topic in self._topics:
            with self._may_be_refused():
                self._report.elected += len(await self._kafka.elect_leaders(topic))

    async def _move(self, replicas: dict[Move, tuple[int, ...]]) -> None:
        for move, nodes in replicas.items():
            with self._may_be_refused():
                await self._kafka.reassign(self._topics[move.topic], {move.partition: nodes})

    @contextlib.contextmanager
    def _may_be_refused(self) -> Iterator[None]:
        """While nodes are down the cluster may refuse, or not come to an end; that is not a producer's fault."""
        try:
            yield
        except (KafkaError, OSError) as error:
            self._report.refused += 1
            self._journal.log(f"refused: {error!s:.150}")

    def _is_whole(self) -> bool:
        """True if each node knows each partition with a leader and all replicas in sync."""
        for node in self._kafka.node_ids:
            for topic in self._topics:
                for state in self._kafka.admin.partitions(topic, self._kafka.address_of(node)).values():
                    if state.leader < 0 or {*state.in_sync_replicas} != {*self._kafka.node_ids}:
                        return False
        return True
