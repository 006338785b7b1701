"""The sizes of batches in the Produce requests of ``send_many`` and ``send_arrow``: calls that bring many records fill
larger ones, unless the application has chosen their size.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.producers import values

DEFAULT = 131_072
VALUES = [b"%0100d" % number for number in range(30_000)]


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        yield broker


async def send_many(producer: KafkaProducer[bytes, bytes]) -> object:
    return await producer.send_many("t", VALUES)


async def send_arrow(producer: KafkaProducer[bytes, bytes]) -> object:
    return await producer.send_arrow("t", pa.table({"value": pa.array(VALUES, pa.binary())}))


async def enqueue(producer: KafkaProducer[bytes, bytes]) -> object:
    for value in VALUES:
        await producer.enqueue("t", value)
    await producer.flush()
    return None


async def sizes_of(
    broker: DevBroker,
    send: Callable[..., Awaitable[object]],
    config: Mapping[str, object] | None = None,
    refused_over: float = math.inf,
    **options: Any,
) -> list[int]:
    """The bytes of each batch that the producer sends; all values arrive once, in order.

    A larger batch than ``refused_over`` is refused, as for a topic's ``segment.bytes``, which no producer knows.
    """
    sizes: list[int] = []

    def note(_: object, body: Any) -> None:
        sizes.extend(len(each.records) for topic in body.topic_data for each in topic.partition_data)
        if sizes[-1] > refused_over:
            raise errors.RecordListTooLargeError

    broker.create_topic("t", partitions=1, config=config)
    broker.controls.on_request(ApiKey.PRODUCE, note)
    broker.controls.delay(ApiKey.PRODUCE, 0.02)  # or batches leave before they are full
    async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
        await send(producer)
    assert values(broker, "t") == VALUES
    return sizes


@pytest.mark.parametrize("send", [send_many, send_arrow])
async def test_a_bulk_call_fills_batches_of_up_to_a_request(broker: DevBroker, send: Any) -> None:
    sizes = await sizes_of(broker, send)
    assert 2 * DEFAULT < max(sizes) <= 8 * DEFAULT
    assert send is send_arrow or len(sizes) < len(VALUES) * 110 / DEFAULT / 2


@pytest.mark.parametrize(
    ("send", "options", "most"),
    [
        (enqueue, {}, DEFAULT),
        (send_many, {"batch_size": DEFAULT}, DEFAULT),
        (send_arrow, {"batch_size": 5_000}, 5_000),
        (send_many, {"topics": {"t": {"batch_size": 70_000}}}, 70_000),
        (send_many, {"compression_type": "lz4"}, DEFAULT),
        (send_arrow, {"max_request_size": 300_000}, 300_000),
        (send_many, {"buffer_memory": 3_200_000}, 200_000),
    ],
)
async def test_batches_keep_to_a_given_size_and_to_other_bounds(
    broker: DevBroker, send: Any, options: dict[str, Any], most: int
) -> None:
    sizes = await sizes_of(broker, send, **options)
    assert max(sizes) <= most


@pytest.mark.parametrize("send", [send_many, send_arrow])
async def test_a_topic_that_takes_no_such_batch_gets_smaller_ones(broker: DevBroker, send: Any) -> None:
    sizes = await sizes_of(broker, send, {"max.message.bytes": 200_000})
    assert sizes[-1] <= 200_000


async def test_a_broker_that_refuses_a_large_batch_for_an_unknown_reason_gets_no_more_of_them(
    broker: DevBroker,
) -> None:
    async def twice(producer: KafkaProducer[bytes, bytes]) -> None:
        await producer.send_many("t", VALUES[:15_000])
        await producer.send_many("t", VALUES[15_000:])

    sizes = await sizes_of(broker, twice, refused_over=200_000)
    assert max(sizes) > 200_000
    assert max(sizes[-10:]) <= DEFAULT


async def test_batches_are_as_before_once_no_bulk_call_runs(broker: DevBroker) -> None:
    async def both(producer: KafkaProducer[bytes, bytes]) -> None:
        await producer.send_many("t", VALUES[:15_000])
        for value in VALUES[15_000:]:
            await producer.enqueue("t", value)

    sizes = await sizes_of(broker, both)
    assert max(sizes) > DEFAULT
    assert max(sizes[-3:]) <= DEFAULT
