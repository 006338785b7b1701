"""The awaitables that the serializers of a waiting record gave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import SerializationError
from aiokafkapy.producer.intake.async_serializers import finish_serializing
from aiokafkapy.producer.records import BytesWithHeaders


class Record:
    """The part of a PendingRecord, and of its admission, that is asked for."""

    topic = "t"
    headers: Any = None

    def __init__(self, key: Any, value: Any, timeout: float = 5.0) -> None:
        self.key = key
        self.value = value
        self.deadline = asyncio.get_running_loop().time() + timeout
        self.admission = self
        self.events: list[Any] = []

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def proceed(self, record: Record, now: float) -> None:
        self.events.append((record.key, record.value))

    def refuse(self, record: Record, error: BaseException) -> None:
        self.events.append(error)

    def expire(self, record: Record) -> None:
        self.events.append("expired")

    def cancel(self) -> None:
        self.events.append("cancelled")


async def give(data: Any) -> Any:
    await asyncio.sleep(0)
    if isinstance(data, Exception):
        raise data
    return data


async def test_awaitables_are_awaited_and_the_record_proceeds() -> None:
    record = Record(give(b"k"), give(b"v"))
    await finish_serializing(record)  # type: ignore[arg-type]
    assert record.events == [(b"k", b"v")]


async def test_a_serializer_may_add_headers_behind_the_callers() -> None:
    record = Record(BytesWithHeaders(b"k", {"a": b"1"}), give(BytesWithHeaders(b"v", [("b", None)])))
    record.headers = (("mine", b"0"),)
    await finish_serializing(record)  # type: ignore[arg-type]
    assert record.headers == (("mine", b"0"), ("a", b"1"), ("b", None))
    assert [type(data) for data in record.events[0]] == [bytes, bytes]


async def test_a_serializers_wrong_header_is_its_records_error() -> None:
    headers: Any = [("a", "text")]
    record = Record(None, give(BytesWithHeaders(b"v", headers)))
    with pytest.raises(SerializationError, match="header 'a' is a str"):
        await finish_serializing(record)  # type: ignore[arg-type]


async def test_a_failing_one_refuses_the_record_and_leaves_no_coroutine() -> None:
    record = Record(give(LookupError("no schema")), give(b"v"))
    with pytest.raises(SerializationError, match="no schema"):
        await finish_serializing(record)  # type: ignore[arg-type]
    assert isinstance(record.events[0], SerializationError)


async def test_a_result_that_is_not_bytes_refuses_the_record() -> None:
    record = Record(None, give("text"))
    with pytest.raises(SerializationError, match="is a str"):
        await finish_serializing(record)  # type: ignore[arg-type]


async def test_a_future_that_was_cancelled_is_its_records_error_and_cancels_no_caller() -> None:
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    future.cancel()
    record = Record(None, future)
    with pytest.raises(SerializationError, match="CancelledError"):
        await finish_serializing(record)  # type: ignore[arg-type]
    assert isinstance(record.events[0], SerializationError)


async def test_a_result_that_is_awaitable_again_is_refused_and_leaves_no_coroutine() -> None:
    async def twice() -> Any:
        return give(b"x")

    record = Record(None, twice())
    with pytest.raises(SerializationError, match="is a coroutine"):
        await finish_serializing(record)  # type: ignore[arg-type]


async def test_a_mutable_value_is_copied_at_the_call() -> None:
    data = bytearray(b"now")
    record = Record(give(memoryview(data)), give(data))
    await finish_serializing(record)  # type: ignore[arg-type]
    data[:] = b"new"
    assert record.events == [(b"now", b"now")]


async def test_a_serializer_that_takes_too_long_expires_the_record() -> None:
    record = Record(asyncio.Event().wait(), None, timeout=0.0)
    await finish_serializing(record)  # type: ignore[arg-type]
    assert record.events == ["expired"]


async def test_cancelling_takes_the_record_back() -> None:
    record = Record(asyncio.Event().wait(), give(b"v"))
    task = asyncio.create_task(finish_serializing(record))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert record.events == ["cancelled"]
