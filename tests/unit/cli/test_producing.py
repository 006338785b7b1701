"""``Sending``: lines whose outcomes are told, and open ones."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiokafkapy.cli.producing import Sending
from aiokafkapy.cli.sources import InputRecord, SourceLine
from aiokafkapy.errors import RecordTooLargeError
from aiokafkapy.producer.records import RecordMetadata


class Producer:
    """A producer whose deliveries end when the test says so."""

    def __init__(self) -> None:
        self.deliveries: list[asyncio.Future[RecordMetadata]] = []

    async def enqueue(self, topic: str, value: bytes, **_: Any) -> asyncio.Future[RecordMetadata]:
        delivery: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        self.deliveries.append(delivery)
        return delivery

    def deliver(self, *numbers: int) -> None:
        for number in numbers:
            self.deliveries[number].set_result(RecordMetadata("t", 0, number, -1))


async def sending_of(count: int) -> tuple[Producer, Sending[InputRecord], list[tuple[int, object]]]:
    """Lines numbered from 0, sent; and the outcomes told of them."""
    producer: Any = Producer()
    told: list[tuple[int, object]] = []
    sending: Sending[InputRecord] = Sending(
        producer,
        lambda record, metadata: told.append((record.line.number, metadata.offset)),
        lambda record, reason: told.append((record.line.number, reason)),
    )
    for number in range(count):
        await sending.send("t", InputRecord(SourceLine("a", number, b"x"), None, b"x", (), None, None))
    return producer, sending, told


async def test_known_outcomes_are_told_in_order_up_to_the_first_open_one() -> None:
    producer, sending, told = await sending_of(3)
    producer.deliver(0, 2)
    await sending.confirm(3)
    assert told == [(0, 0)]
    assert [record.line.number for record in sending.delivered()] == [2]
    producer.deliveries[1].set_exception(RecordTooLargeError("no"))
    await sending.confirm(3)
    assert told == [(0, 0), (1, "no"), (2, 2)]
    assert len(sending) == 0


async def test_more_than_the_most_are_waited_for_and_a_cancelled_wait_forgets_none() -> None:
    _, sending, told = await sending_of(2)
    waiting = asyncio.ensure_future(sending.confirm(1))
    await asyncio.sleep(0)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    assert (told, len(sending)) == ([], 2)
