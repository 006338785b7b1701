"""aiokafkapy.producer.intake.serializer_threads: the records that go to a thread, and their results."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiokafkapy.producer.intake.serializer_threads import ThreadedSerializer

WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="nowhere")


def here(_topic: str, data: Any) -> bytes:
    return f"{threading.current_thread() is threading.main_thread()}:{len(data)}".encode()


class Array:
    """Data that tells its size as numpy's and Arrow's arrays do."""

    nbytes = 5_000

    def __len__(self) -> int:
        return 3


async def in_thread(serializer: ThreadedSerializer, data: Any, topic: str = "t") -> bool:
    """Whether the data was serialized in another thread."""
    found = serializer(topic, data)
    if not isinstance(found, bytes):
        found = await found
    return bool(found.startswith(b"False"))


@pytest.mark.parametrize(
    ("data", "is_large"),
    [(b"x" * 100, False), (b"x" * 101, True), ("x" * 101, True), (bytearray(101), True), (Array(), True), ([1], False)],
)
async def test_a_value_with_a_known_size_goes_to_a_thread_by_it(data: Any, is_large: bool) -> None:
    assert await in_thread(ThreadedSerializer(here, 100), data) is is_large


async def test_other_data_goes_by_its_topics_last_records_and_comes_back_after_some() -> None:
    serializer = ThreadedSerializer(lambda _, data: here("", data) + bytes(data[0]), 100)
    assert not await in_thread(serializer, [1_000])  # the first is not known to be large
    assert await in_thread(serializer, [1_000])
    assert not await in_thread(serializer, [1], "another")
    small = [await in_thread(serializer, [0]) for _ in range(40)]
    assert small[0]
    assert not small[-1]
    # Once on the loop it stays there.
    assert sorted(small, reverse=True) == small


async def test_a_limit_of_zero_sends_all_that_is_not_empty_to_threads() -> None:
    serializer = ThreadedSerializer(here, 0)
    assert await in_thread(serializer, b"x")
    assert not await in_thread(serializer, b"")


async def test_a_thread_sees_the_callers_context_and_begins_when_it_is_awaited() -> None:
    seen: list[str] = []

    def serializer(_topic: str, data: Any) -> bytes:
        seen.append(WHERE.get())
        return bytes(data)

    WHERE.set("here")
    waiting = ThreadedSerializer(serializer, 0)("t", b"x")
    assert seen == []
    assert await waiting == b"x"
    assert seen == ["here"]


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError(), SystemExit(3)])
async def test_an_exception_in_a_thread_is_raised_here(error: BaseException) -> None:
    def serializer(_topic: str, data: Any) -> bytes:
        raise error

    with pytest.raises(type(error)) as caught:
        await ThreadedSerializer(serializer, 0)("t", b"x")
    assert caught.value is error


async def test_an_error_that_no_future_can_have_is_an_error_and_no_hang() -> None:
    def serializer(_topic: str, data: Any) -> bytes:
        raise StopIteration("no")

    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(ThreadedSerializer(serializer, 0)("t", b"x"), 10)


async def test_where_no_thread_can_be_started_the_loop_does_it() -> None:
    """No thread can be started at the interpreter's end, where accepted records are still sent."""
    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    executor.shutdown()
    assert not await in_thread(ThreadedSerializer(here, 0), b"x")

    def fails(_topic: str, data: Any) -> bytes:
        raise LookupError

    with pytest.raises(LookupError):
        await ThreadedSerializer(fails, 0)("t", b"x")


async def test_a_result_that_is_awaitable_is_awaited_on_the_loop() -> None:
    async def later(data: bytes) -> bytes:
        assert threading.current_thread() is threading.main_thread()
        return data

    assert await ThreadedSerializer(lambda _, data: later(data), 0)("t", b"x") == b"x"


async def test_topics_without_end_are_forgotten() -> None:
    serializer = ThreadedSerializer(here, 100)
    for number in range(10_050):
        serializer(f"t{number}", [1])
    assert len(serializer._sizes) <= 10_000
