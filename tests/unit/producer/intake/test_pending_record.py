"""One record on its way in: answered once, and then it holds nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.intake.pending_record import PendingRecord


class Line:
    """The calls of a record to its waiting line."""

    def __init__(self) -> None:
        self.cancelled: list[PendingRecord] = []

    def on_cancelled(self, record: PendingRecord) -> None:
        self.cancelled.append(record)


def make_record() -> tuple[PendingRecord, Line]:
    line: Any = Line()
    loop = asyncio.get_running_loop()
    return PendingRecord(line, "t", b"key", b"value", None, 1, [("h", b"x")], loop=loop), line


def holds_nothing(record: PendingRecord) -> bool:
    return record.key is record.value is record.headers is None and record.original == (None, None)


async def test_a_pending_record_is_the_future_of_its_delivery() -> None:
    record, line = make_record()
    delivery: Any = object()
    record.accept(delivery)
    assert await record is delivery
    assert holds_nothing(record)
    assert not record.cancel()
    record.refuse(KafkaError("too late"))
    assert record.result() is delivery
    assert line.cancelled == []


async def test_a_refused_one_raises_and_need_not_be_looked_at() -> None:
    record, _ = make_record()
    record.refuse(KafkaError("no"))
    assert holds_nothing(record)
    delivery: Any = object()
    record.accept(delivery)
    with pytest.raises(KafkaError, match="no"):
        await record


async def test_cancelling_tells_the_line_once() -> None:
    record, line = make_record()
    assert record.cancel()
    assert not record.cancel()
    assert line.cancelled == [record]
    assert holds_nothing(record)
    delivery: Any = object()
    record.accept(delivery)
    assert record.cancelled()
