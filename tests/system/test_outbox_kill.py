"""Service and relay killed by SIGKILL, at each step and anywhere: nothing is lost, and nothing is written twice except
as documented.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import sqlalchemy as sa

from aiokafkapy.broker import DevBroker
from tests.outboxes import TestOutbox, opened_outbox
from tests.reading import committed_values
from tests.waiting import until

from .outbox_program import RELAY_STEPS, SERVICE_STEPS

ROOT = Path(__file__).parents[2]
SHARDS = 2
BATCH_ROWS = 10
KILLS = 2
MODES = pytest.mark.parametrize("mode", [{}, {"transactional_id": "service"}], ids=["at least once", "exactly once"])


class Child:
    """A service or a relay in a process."""

    def __init__(self, pid: int, told: IO[str]) -> None:
        self._pid = pid
        self._told = told
        self._is_dead = False

    async def says(self) -> str:
        """The next line that it prints."""
        async with asyncio.timeout(60):
            return (await asyncio.to_thread(self._told.readline)).strip()

    def kill(self) -> None:
        """Kill the process by SIGKILL and close its pipe. Idempotent."""
        if not self._is_dead:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._is_dead = True
            self._told.close()


class Programs:
    """Starts children."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._children: list[Child] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.outbox_program"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._read() == "ready"

    def close(self) -> None:
        """End the process that starts them; the children are dead by then."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(30)

    def start(self, outbox: TestOutbox, role: str, **order: Any) -> Child:
        """Start a service or a relay."""
        self._count += 1
        fifo = self._folder / f"told-{self._count}"
        os.mkfifo(fifo)
        where = {"url": outbox.url, "name": outbox.name, "shards": SHARDS, "told": str(fifo)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"role": role, **where, **order}) + "\n")
        self._process.stdin.flush()
        child = Child(int(self._read()), fifo.open())
        self._children.append(child)
        return child

    def kill_all(self) -> None:
        """Kill all children by SIGKILL."""
        for child in self._children:
            child.kill()
        self._children.clear()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def _programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    programs = Programs(tmp_path_factory.mktemp("children"))
    yield programs
    programs.close()


@pytest.fixture
def programs(_programs: Programs) -> Iterator[Programs]:
    """Children, killed at the end of the test."""
    yield _programs
    _programs.kill_all()


@pytest.fixture(params=["sqlite", "postgresql"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestOutbox]:
    """An outbox of two shards."""
    where = tmp_path if request.param == "sqlite" else request.getfixturevalue("postgresql")
    async with opened_outbox(where, shards=SHARDS) as outbox:
        yield outbox


@pytest.fixture
def broker(kafka_broker: DevBroker) -> DevBroker:
    """A broker with the topic ``t`` of one partition."""
    kafka_broker.create_topic("t", 1)
    return kafka_broker


async def orders_of(shop: TestOutbox) -> list[bytes]:
    """The committed rows of the service's own table."""
    async with shop.engine.connect() as connection:
        found = await connection.execute(sa.select(shop.orders.c.value).order_by(shop.orders.c.value))
        return list(found.scalars())


def assert_in_order(seen: list[bytes | None]) -> None:
    """Each key's values are in the order of their numbers, by the first time that each is seen."""
    for key in range(3):
        firsts = [value for value in dict.fromkeys(seen) if value is not None and int(value) % 3 == key]
        assert firsts == sorted(firsts)


@pytest.mark.parametrize("step", SERVICE_STEPS)
async def test_a_service_that_is_killed_publishes_its_commits_and_no_more(
    shop: TestOutbox, broker: DevBroker, programs: Programs, step: str
) -> None:
    service = programs.start(shop, "service", first=0, count=5, halt=step)
    assert await service.says() == "halted"
    service.kill()
    async with shop.relay(broker.bootstrap_servers):
        await until(shop.is_empty)
    seen = [record.value for record in broker.records("t")]
    assert seen == await orders_of(shop) == [b"000000", b"000001"][: 1 + (step == "committed")]


@MODES
@pytest.mark.parametrize("step", RELAY_STEPS)
async def test_a_relay_that_is_killed_at_any_step_loses_nothing(
    shop: TestOutbox, broker: DevBroker, programs: Programs, mode: dict[str, Any], step: str
) -> None:
    written = [b"%06d" % number for number in range(40)]
    async with shop.engine.begin() as connection:
        for value in written:
            await shop.outbox.add(connection, "t", value, key=b"%d" % (int(value) % 3))
    order = {"servers": broker.bootstrap_servers, "mode": mode, "batch_rows": BATCH_ROWS}
    relay = programs.start(shop, "relay", halt=step, **order)
    assert [await relay.says(), await relay.says()] == ["ready", "halted"]
    left = len(await shop.rows())
    relay.kill()
    async with shop.relay(broker.bootstrap_servers, **mode) as next_one:
        await until(shop.is_empty)
        found = next_one.statistics().found_published
    seen = await committed_values(broker.bootstrap_servers, "t")
    assert set(seen) == set(written), "nothing is lost"
    assert_in_order(seen)
    twice = len(seen) - len(written)
    if mode:
        assert twice == 0
        # One of a batch's two transactions may be committed while the other is not yet.
        assert found > 0 or step != "published", "the marker told the relay more than the database knew"
        assert found == 0 or step in ("acknowledged", "published")
    else:
        assert twice == (BATCH_ROWS if step in ("acknowledged", "published") else 0)
    assert left == {"read": 30, "marked": 20}.get(step, left)


@pytest.mark.timeout(180)
@MODES
async def test_killed_anywhere_again_and_again(
    shop: TestOutbox, broker: DevBroker, programs: Programs, mode: dict[str, Any]
) -> None:
    chance = random.Random(11)
    order = {"servers": broker.bootstrap_servers, "mode": mode, "batch_rows": BATCH_ROWS}
    first = 0
    for _ in range(KILLS):
        service = programs.start(shop, "service", first=first, count=1_000_000)
        relay = programs.start(shop, "relay", **order)
        assert await relay.says() == "ready"
        before = len(broker.records("t"))
        await until(lambda: len(broker.records("t")) > before + 15)  # noqa: B023
        await asyncio.sleep(chance.uniform(0, 0.05))
        for child in chance.sample([service, relay], 2):
            child.kill()
        first = int((await orders_of(shop))[-1]) + 10
    async with shop.relay(broker.bootstrap_servers, **mode):
        await until(shop.is_empty)
    seen = await committed_values(broker.bootstrap_servers, "t")
    orders = await orders_of(shop)
    assert sorted(set(seen), key=str) == orders, "0 lost, and none that was not committed"
    assert_in_order(seen)
    twice = sum(count - 1 for count in Counter(seen).values())
    assert twice == 0 if mode else twice <= KILLS * BATCH_ROWS, "a batch for each kill"
