"""A service with a spool, killed -9 anywhere: acknowledged records are delivered, in order, and twice only as
documented.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey

from .spool_program import SENDERS

ROOT = Path(__file__).parents[2]


class Service:
    """The program, and the records that it has acknowledged in all its lives."""

    def __init__(self, broker: DevBroker, folder: Path) -> None:
        self.acknowledged: set[int] = set()
        self.spooled = 0
        self._broker = broker
        self._folder = folder
        self._first = 0

    async def live(
        self,
        acknowledgements: int,
        pause: float = 0.0,
        *,
        torn_at: int = 0,
        fsync: str = "never",
        memory: int = 1,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start it, and kill it some time after so many records were acknowledged, unless it does so itself."""
        order = {
            "servers": self._broker.bootstrap_servers,
            "folder": str(self._folder),
            "first": self._first,
            "torn_at": torn_at,
            "fsync": fsync,
            "buffer_records": memory,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.system.spool_program", json.dumps(order)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        seen = 0
        async with asyncio.timeout(60):
            async for line in process.stdout:
                seen += self._note(line)
                if seen >= acknowledgements or until():
                    break
            if process.returncode is None and not torn_at:
                await asyncio.sleep(pause)
                process.kill()
            for line in (await process.stdout.read()).splitlines(keepends=True):
                self._note(line)
            await process.wait()
        self._first += 10_000 * SENDERS  # unacknowledged records may be there, too

    def _note(self, line: bytes) -> int:
        if not line.endswith(b"\n") or line == b"ready\n":
            return 0  # torn by the kill: nobody was told
        number, outcome = line.split()
        self.acknowledged.add(int(number))
        self.spooled += outcome == b"spooled"
        return 1

    async def drain(self) -> dict[str, Any]:
        """Send all records that are left in the spool; return how many were sent, sent again, and refused."""
        async with KafkaProducer(self._broker.bootstrap_servers, spool_dir=str(self._folder)) as producer:
            async with asyncio.timeout(60):
                while producer.statistics().spool_records:  # noqa: ASYNC110  # nobody tells of it
                    await asyncio.sleep(0.01)
            now = producer.statistics()
            return {"replayed": now.spool_replayed, "repeated": now.spool_repeated, "refused": now.spool_refused}


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("t", 1)
        yield broker


@pytest.fixture
def service(broker: DevBroker, tmp_path: Path) -> Service:
    return Service(broker, tmp_path / "spool")


def seen(broker: DevBroker) -> list[int]:
    return [int(record.value or b"") for record in broker.records("t")]


def assert_in_order(found: list[int]) -> None:
    """Each sender's numbers are in order, by the first time that each is seen."""
    for sender in range(SENDERS):
        firsts = [number for number in dict.fromkeys(found) if number % SENDERS == sender]
        assert firsts == sorted(firsts)


@pytest.mark.parametrize("fsync", ["always", "never"])
async def test_killed_in_the_middle_of_a_write_it_loses_nothing_that_was_acknowledged(
    broker: DevBroker, service: Service, tmp_path: Path, fsync: str
) -> None:
    broker.controls.stop_node(1)
    for torn_at in (1, 2, 3, 6, 20):  # the first is of a segment's head
        await service.live(10**9, torn_at=torn_at, fsync=fsync)
    assert list((tmp_path / "spool").glob("*.damaged-*")), "torn bytes are kept"
    broker.controls.start_node(1)
    assert (await service.drain())["refused"] == 0
    found = seen(broker)
    assert set(found) >= service.acknowledged
    assert len(service.acknowledged) > 2 * SENDERS
    assert_in_order(found)
    assert max(Counter(found).values()) == 1, "nothing was sent before"


@pytest.mark.timeout(180)
async def test_killed_anywhere_again_and_again_while_brokers_come_and_go(broker: DevBroker, service: Service) -> None:
    chance = random.Random(5)
    is_up = True
    for _ in range(8):
        if chance.random() < 0.6:
            (broker.controls.stop_node if is_up else broker.controls.start_node)(1)
            is_up = not is_up
        await service.live(
            chance.randrange(1, 300), chance.uniform(0, 0.1), fsync=chance.choice(("always", "every_second")), memory=4
        )
    if not is_up:
        broker.controls.start_node(1)
    await service.drain()
    found = seen(broker)
    assert set(found) >= service.acknowledged, "0 lost"
    assert service.spooled > 100
    assert_in_order(found)


async def test_killed_while_it_replays_records_sent_twice_are_counted(broker: DevBroker, service: Service) -> None:
    broker.controls.stop_node(1)
    await service.live(2_000)
    broker.controls.start_node(1)
    broker.controls.delay(ApiKey.PRODUCE, 0.3)  # written, and not answered when the kill comes
    replaying = asyncio.create_task(service.live(10**9, until=lambda: bool(broker.records("t"))))
    await replaying
    broker.controls.clear()
    there = len(broker.records("t"))
    found = await service.drain()
    twice = len(seen(broker)) - len(set(seen(broker)))
    assert set(seen(broker)) >= service.acknowledged
    assert_in_order(seen(broker))
    assert 0 < twice <= there
    assert found["repeated"] >= twice, "records that may be there twice are counted"
