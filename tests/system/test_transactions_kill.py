"""Transactions on a dev broker that is killed -9, at each step and anywhere: whole or not at all, as was told."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import aiokafka
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.common import TopicPartition
from aiokafkapy.testing.servers.ports import free_port
from tests.reading import committed_values

SERVE = """
import asyncio, sys
from aiokafkapy.broker import DevBroker

async def main():
    data_dir, port, version, holds = sys.argv[1:]
    broker = DevBroker(data_dir=data_dir, port=int(port), transaction_version=int(version))
    await broker.start()
    if broker.state.topics.get("t") is None:
        broker.create_topic("t", 3)
    broker.controls.hold_transactions(holds == "holds")
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
PARTITIONS = [TopicPartition("t", number) for number in range(3)]
Version = Literal[1, 2]


class KilledBroker:
    """A dev broker in a process of its own, which may be killed and started again at the same address."""

    def __init__(self, data_dir: Path, version: Version) -> None:
        self._data_dir = data_dir
        self._version = version
        self._port = free_port()
        self._process: asyncio.subprocess.Process | None = None
        self.servers = f"127.0.0.1:{self._port}"

    async def start(self, *, holds: bool = False) -> None:
        """The broker answers when this returns; ``holds``: it decides outcomes and writes no markers."""
        arguments = [str(self._data_dir), str(self._port), str(self._version), "holds" if holds else ""]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVE, *arguments, stdout=asyncio.subprocess.PIPE, env=environment
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        """Kill the process by SIGKILL."""
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            assert process.stdout is not None
            await process.stdout.read()

    async def restart(self) -> None:
        """Kill it, and start it again."""
        await self.kill()
        await self.start()

    async def committed(self) -> list[bytes | None]:
        """The records for a reader of committed records up to the end, which no open transaction may hide."""
        return sorted(await committed_values(self.servers, "t", len(PARTITIONS)), key=str)

    def producer(self, **options: Any) -> KafkaProducer[bytes, bytes]:
        """A transactional one, quick to try again."""
        quick = {"linger_ms": 0, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}
        return KafkaProducer(self.servers, transactional_id="one", **quick | options)


@pytest.fixture
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KilledBroker]:
    broker = KilledBroker(tmp_path, getattr(request, "param", 2))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.kill()


@asynccontextmanager
async def three_sent(producer: KafkaProducer[bytes, bytes], name: str) -> AsyncIterator[list[bytes]]:
    """A transaction that is open, with a record in each partition."""
    values = [b"%s %d" % (name.encode(), partition.partition) for partition in PARTITIONS]
    await producer.begin_transaction()
    await asyncio.gather(*(producer.send("t", value, partition=number) for number, value in enumerate(values)))
    yield values


class TestAtEachStep:
    """Killed once, at this step; the producer and its reader go on with the next process."""

    async def test_an_open_transaction_can_be_committed_after_a_kill(self, broker: KilledBroker) -> None:
        async with broker.producer() as producer, three_sent(producer, "a") as values:
            await broker.restart()
            await producer.commit_transaction()
            assert await broker.committed() == values

    async def test_an_unended_transaction_is_aborted_by_the_next_producer(self, broker: KilledBroker) -> None:
        async with broker.producer() as lost, three_sent(lost, "a"):
            await broker.restart()
            async with broker.producer() as producer, three_sent(producer, "b") as values:
                await producer.commit_transaction()
            assert await broker.committed() == values

    async def test_offsets_share_the_fate_of_their_transaction(self, broker: KilledBroker) -> None:
        async with broker.producer() as producer:
            for offset in (7, 8):
                async with three_sent(producer, str(offset)):
                    await producer.send_offsets_to_transaction({PARTITIONS[0]: offset}, "group")
                    await broker.restart()
                    await (producer.commit_transaction() if offset == 7 else producer.abort_transaction())
                assert await offset_of_the_group(broker) == 7

    @pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
    async def test_a_decision_is_carried_out_after_a_kill(self, broker: KilledBroker, is_commit: bool) -> None:
        await broker.kill()
        await broker.start(holds=True)
        async with broker.producer() as producer:
            async with three_sent(producer, "a") as values:
                await (producer.commit_transaction() if is_commit else producer.abort_transaction())
                await broker.restart()
            assert await broker.committed() == (values if is_commit else [])
            async with three_sent(producer, "b") as others:
                await producer.commit_transaction()
            assert await broker.committed() == (values if is_commit else []) + others

    async def test_an_ended_transaction_stays_ended(self, broker: KilledBroker) -> None:
        async with broker.producer() as producer:
            async with three_sent(producer, "a") as values:
                await producer.commit_transaction()
                await broker.restart()
            assert await broker.committed() == values
            async with three_sent(producer, "b"):
                await producer.abort_transaction()
                await broker.restart()
            assert await broker.committed() == values


async def offset_of_the_group(broker: KilledBroker) -> int:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.servers, group_id="group")
    await consumer.start()
    try:
        return int(await consumer.committed(aiokafka.TopicPartition("t", 0)) or 0)
    finally:
        await consumer.stop()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("broker", [1, 2], indirect=True)
async def test_killed_anywhere(broker: KilledBroker) -> None:
    """Under transactions one after another: transactions reported as committed are there, and all that are there are
    whole.
    """
    chance = random.Random(7)
    told: set[int] = set()
    failed: list[errors.KafkaError] = []
    number, is_over = 0, False

    async def place() -> None:
        nonlocal number
        async with broker.producer(max_block_ms=30_000) as producer:
            while not is_over:
                number += 1
                try:
                    async with producer.transaction():
                        for partition in range(3):
                            await producer.enqueue("t", b"%d" % number, partition=partition)
                        if number % 5 == 0:
                            raise LookupError
                except LookupError:
                    continue
                except errors.KafkaError as error:
                    failed.append(error)
                    continue
                told.add(number)

    placing = asyncio.create_task(place())
    for kills in range(1, 6):
        while len(told) < 10 * kills and not placing.done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(chance.uniform(0, 0.02))
        if kills < 5:
            await broker.restart()
    is_over = True
    await placing
    seen = await broker.committed()
    assert [error for error in failed if not (error.outcome_unknown or error.retriable)] == []
    for each in range(1, number + 1):
        count = seen.count(b"%d" % each)
        assert count in ({3} if each in told else {0} if each % 5 == 0 else {0, 3}), (each, count)
