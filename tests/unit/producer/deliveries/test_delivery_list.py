"""The outcomes of a bulk call, aligned with its records."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList
from aiokafkapy.producer.deliveries.produce_request_result import Move, ProduceRequestResult
from aiokafkapy.producer.records import RecordMetadata

from ..accumulator_harness import T0


def result_of(count: int = 1) -> ProduceRequestResult:
    result = ProduceRequestResult(T0)
    result.record_count = count
    return result


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_delivery_list_is_aligned_with_its_input() -> None:
    first, second = result_of(3), result_of(2)
    listed = DeliveryList([b"a", None, b"ccc", b"d", b"e"], 9)
    listed.add_span(first, 1, 2)
    listed.add_span(first, 3, 1)
    listed.add_span(second, 0, 2)
    assert len(listed) == 5
    assert len(listed._results) == 2
    assert not listed.done()
    first.succeed(10, -1)
    second.succeed(20, -1)
    assert listed.done()
    expected = [
        RecordMetadata("t", 0, 11, 9, -1, 1),
        RecordMetadata("t", 0, 12, 9, -1, -1),
        RecordMetadata("t", 0, 13, 9, -1, 3),
        RecordMetadata("t", 0, 20, 9, -1, 1),
        RecordMetadata("t", 0, 21, 9, -1, 1),
    ]
    assert listed.results() == expected
    assert [delivery.result() for delivery in listed] == expected
    assert [delivery.result() for delivery in listed[1:4]] == expected[1:4]
    assert listed[-1].result() == expected[-1]
    for index in (5, -6):
        with pytest.raises(IndexError, match="of 5"):
            listed[index]


def test_errors_stand_in_their_places() -> None:
    good, bad = result_of(1), result_of(1)
    listed = DeliveryList([b"a", b"b"])
    listed.add_span(good, 0, 1)
    listed.add_span(bad, 0, 1)
    good.succeed(1, -1)
    bad.fail(KafkaError("no"))
    outcomes = listed.results()
    assert isinstance(outcomes[0], RecordMetadata)
    assert [str(outcome) for outcome in outcomes[1:]] == ["no"]


async def test_awaiting_a_delivery_list_waits_for_all_and_raises_no_record_s_error() -> None:
    first, second = result_of(2), result_of(1)
    listed = DeliveryList([b"a", b"b", b"c"])
    listed.add_span(first, 0, 2)
    listed.add_span(second, 0, 1)
    task = asyncio.ensure_future(listed)
    given_up = asyncio.ensure_future(listed)
    await turns()
    given_up.cancel()
    first.succeed(0, -1)
    await turns()
    assert not task.done()
    halves = result_of(1)
    second.move([Move(0, halves, 0)])
    halves.fail(KafkaError("no"))
    assert await task is listed
    assert await listed is listed
    assert [type(outcome) for outcome in listed.results()] == [RecordMetadata, RecordMetadata, KafkaError]


def test_an_empty_one_is_done() -> None:
    listed = DeliveryList([])
    assert listed.done()
    assert listed.results() == []
    assert list(listed) == []
