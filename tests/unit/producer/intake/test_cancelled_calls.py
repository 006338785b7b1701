"""The error of a cancelled call, and its records."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import PurgedError
from aiokafkapy.producer.deliveries.delivery import new_delivery
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList
from aiokafkapy.producer.deliveries.produce_request_result import ProduceRequestResult
from aiokafkapy.producer.intake.cancelled_calls import take_back, tell_deliveries
from aiokafkapy.producer.intake.pending_record import PendingRecord


class Runtime:
    def __init__(self, left: int) -> None:
        self.left = left
        self.asked: list[Any] = []

    def take_back(self, records: Any) -> int:
        self.asked.append(records)
        return self.left


def records(count: int, *, done: bool = False) -> DeliveryList:
    result = ProduceRequestResult(TopicPartition("t", 0))
    if done:
        result.succeed(0, -1)
    found = DeliveryList([b""] * count)
    found.add_span(result, 0, count)
    return found


@pytest.mark.parametrize(
    ("left", "note", "is_unknown"),
    [
        (3, "3 records taken back: not sent", False),
        (1, "1 record taken back: not sent; 2 records in a request: delivery goes on", True),
        (0, "3 records in a request: delivery goes on, and the outcome is unknown here", True),
    ],
)
def test_the_error_says_whether_the_records_were_taken_back(left: int, note: str, is_unknown: bool) -> None:
    runtime, error = Runtime(left), asyncio.CancelledError()
    take_back(runtime, [records(2), new_delivery(ProduceRequestResult(TopicPartition("t", 0)), 0, 1, -1, -1)], error)
    assert len(runtime.asked) == 1
    assert error.__notes__[0].startswith(note)
    assert error.outcome_unknown is is_unknown  # type: ignore[attr-defined]


async def test_waiting_records_count_by_their_outcomes() -> None:
    admission: Any = SimpleNamespace(on_cancelled=lambda record: None)
    accepted, refused, withdrawn = (
        PendingRecord(admission, "t", None, b"", 0, 1, None, loop=asyncio.get_running_loop()) for _ in range(3)
    )
    delivery = new_delivery(ProduceRequestResult(TopicPartition("t", 0)), 0, 1, -1, -1)
    accepted.accept(delivery)
    refused.refuse(PurgedError())
    withdrawn.cancel()
    runtime, error = Runtime(0), asyncio.CancelledError()
    take_back(runtime, [accepted, refused, withdrawn], error)
    assert runtime.asked == [[delivery]]
    assert error.outcome_unknown is True  # type: ignore[attr-defined]
    assert error.__notes__[0].startswith("1 record taken back: not sent; 1 record in a request")


def test_nothing_is_said_when_all_had_their_outcome() -> None:
    runtime, error = Runtime(0), asyncio.CancelledError()
    take_back(runtime, [records(2, done=True)], error)
    assert runtime.asked == []
    assert not hasattr(error, "__notes__")


async def test_the_error_has_the_records_that_go_on_and_why_others_do_not() -> None:
    def waiting() -> PendingRecord:
        admission: Any = SimpleNamespace(on_cancelled=lambda record: None)
        return PendingRecord(admission, "t", b"k", b"v", 0, 5, None, loop=asyncio.get_running_loop())

    many, single = records(2), new_delivery(ProduceRequestResult(TopicPartition("t", 0)), 0, 1, -1, -1)
    accepted, refused, left, open_one = waiting(), waiting(), waiting(), waiting()
    accepted.accept(single)
    problem, refusal = ValueError("no"), ValueError("later")
    refused.refuse(refusal)
    left.cancel()
    error: Any = asyncio.CancelledError()
    tell_deliveries(error, [many, problem, single, accepted, refused, left, open_one])
    for _ in range(2):
        first, second, *others = error.deliveries
        assert not first.done()
        assert not second.done()
        assert others == [problem, single, single, refusal]
