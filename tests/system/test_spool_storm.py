"""Calls of all kinds on a producer with a spool, by the seed, while its broker comes and goes: all told is true."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiokafkapy import KafkaProducer, RecordMetadata
from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.storage.topics import Topic
from aiokafkapy.errors import KafkaError
from aiokafkapy.protocol.api import ApiKey

SEEDS = 6
KEYS = 5
LIVES = 2
"""Producers, one after the other, before the one that sends the rest."""


@dataclass(slots=True)
class Sent:
    """A record, and the outcome of its call; None if it was cancelled."""

    topic: str
    key: bytes
    value: bytes
    told: RecordMetadata | BaseException | None = None


class Written(NamedTuple):
    """A record in a partition."""

    producer_id: int
    key: bytes | None
    value: bytes


def options_of(chance: random.Random) -> dict[str, Any]:
    """Options that let things happen within seconds."""
    return {
        "buffer_records": chance.choice((None, 3, 50)),
        "batch_size": chance.choice((0, 300, 131_072)),
        "spool_max_bytes": chance.choice((20_000, 2**30)),
        "spool_after_ms": chance.choice((None, 20, 200)),
        "spool_fsync": chance.choice(("always", "never", "every_second")),
        "max_request_size": 10_000,
        "max_block_ms": chance.choice((100, 1_000)),
        "request_timeout_ms": chance.choice((200, 1_000)),
        "delivery_timeout_ms": chance.choice((1_200, 5_000)),
        "linger_ms": chance.choice((None, 0, 20)),
        "compression_type": chance.choice(("none", "gzip")),
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 50,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 50,
    }


class Storm:
    """One seed."""

    def __init__(self, seed: int, broker: DevBroker, folder: Path) -> None:
        self.sent: list[Sent] = []
        self._chance = random.Random(seed)
        self._broker = broker
        self._options = options_of(self._chance)
        self._folder = folder
        self._is_up = True

    def producer(self) -> KafkaProducer[Any, Any]:
        return KafkaProducer(self._broker.bootstrap_servers, spool_dir=self._folder, **self._options)

    async def run(self) -> None:
        """The lives, and the rest that they leave."""
        for _ in range(LIVES):
            await self._live()
        self._broker.controls.clear()
        if not self._is_up:
            self._broker.controls.start_node(1)
        async with self.producer() as producer, asyncio.timeout(30):
            while producer.statistics().spool_records:  # noqa: ASYNC110  # nobody tells of it
                await asyncio.sleep(0.01)

    async def _live(self) -> None:
        chance, producer = self._chance, self.producer()
        await producer.start()
        breaking = asyncio.create_task(self._break_things())
        calls: list[asyncio.Task[None]] = []
        for _ in range(chance.choice((10, 30))):
            for _ in range(chance.choice((1, 5, 40))):
                number = len(self.sent)
                sent = Sent(chance.choice("ttu"), b"%d" % (number % KEYS), b"%08d" % number)
                self.sent.append(sent)
                calls.append(asyncio.create_task(self._call(producer, sent, chance.random())))
            if chance.random() < 0.3:
                calls[-1].cancel()
            await asyncio.sleep(chance.uniform(0, 0.03))
        breaking.cancel()
        if chance.random() < 0.5:
            await asyncio.wait(calls)
        await producer.close(chance.choice((0, 0.2, 5)))
        await asyncio.wait(calls)
        now = producer.statistics()
        assert (now.accepted, now.pending) == (now.delivered + now.failed, 0)

    async def _call(self, producer: KafkaProducer[Any, Any], sent: Sent, how: float) -> None:
        try:
            if how < 0.2:
                sent.told = await producer.send_nowait(sent.topic, sent.value, key=sent.key)
            elif how < 0.4:
                sent.told = await (await producer.enqueue(sent.topic, sent.value, key=sent.key))
            else:
                sent.told = await producer.send(sent.topic, sent.value, key=sent.key)
        except KafkaError as error:
            sent.told = error

    async def _break_things(self) -> None:
        chance, controls = self._chance, self._broker.controls
        while True:
            await asyncio.sleep(chance.uniform(0.01, 0.3))
            what = chance.choice(("node", "node", "drop", "delay"))
            if what == "node":
                (controls.stop_node if self._is_up else controls.start_node)(1)
                self._is_up = not self._is_up
            elif what == "drop":
                controls.drop_connections()
            else:
                controls.delay(ApiKey.PRODUCE, chance.choice((0, 0.05)))

    def check(self) -> None:
        """The reported outcomes are true, and each key's records are in the order of their calls."""
        there: dict[tuple[str, bytes | None], list[Written]] = defaultdict(list)
        for topic in self._broker.state.topics:
            for written in written_to(topic):
                there[topic.name, written.key].append(written)
        for sent in self.sent:
            is_there = any(written.value == sent.value for written in there[sent.topic, sent.key])
            if isinstance(sent.told, RecordMetadata):
                assert is_there, sent
            elif isinstance(sent.told, KafkaError) and not sent.told.outcome_unknown:
                assert not is_there, sent
        sent_of = {sent.value: sent for sent in self.sent}
        for found in there.values():
            late = [sent_of[written.value] for written in behind_younger_ones(found, sent_of)]
            assert not late, f"behind younger ones: {late}"


def written_to(topic: Topic) -> Iterator[Written]:
    """The records of a topic, in order of partition, then offset."""
    for partition in topic.partitions:
        for batch in chain.from_iterable(partition.log.segments()):
            for record in batch.records():
                assert record.value is not None
                yield Written(batch.producer_id, record.key, bytes(record.value))


def behind_younger_ones(found: Sequence[Written], sent_of: Mapping[bytes, Sent]) -> Iterator[Written]:
    """The records of one key that were first written behind a younger one.

    A life may end with a request that its broker has not read yet, as after a time-out, and the next life does not wait
    for it. So a record without a known outcome may be behind younger ones that have another producer id.
    """
    seen: set[bytes] = set()
    youngest = b""
    youngest_of: dict[int, bytes] = defaultdict(bytes)
    for written in found:
        value, told = written.value, sent_of[written.value].told
        if value not in seen:
            is_known = isinstance(told, RecordMetadata)
            if value < (youngest if is_known else youngest_of[written.producer_id]):
                yield written
        seen.add(value)
        youngest = max(youngest, value)
        youngest_of[written.producer_id] = max(youngest_of[written.producer_id], value)


@pytest.mark.timeout(180)
async def test_outcomes_are_true_and_the_order_is_that_of_the_calls(tmp_path: Path) -> None:
    spooled = 0
    for seed in range(SEEDS):
        async with DevBroker() as broker:
            broker.create_topic("t", 3)
            broker.create_topic("u", 1)
            storm = Storm(seed, broker, tmp_path / str(seed))
            await storm.run()
            storm.check()
        spooled += sum(isinstance(one.told, RecordMetadata) and one.told.is_spooled for one in storm.sent)
    assert spooled > 100, "it has tested something"
