"""Lines that a thread reads cross to the event loop, in order and bounded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from aiokafkapy.cli.input_queue import MAX_BYTES, MAX_WAITING, feed


def size_of(_: object) -> int:
    return 1


@pytest.mark.parametrize("in_thread", [False, True])
async def test_everything_comes_in_order(in_thread: bool) -> None:
    blocks = [block async for block in feed(iter(range(12_345)), size_of, in_thread=in_thread)]
    assert [number for block in blocks for number in block] == list(range(12_345))
    assert all(blocks)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_an_error_comes_after_the_records_read_before_it(in_thread: bool) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("broken")

    seen: list[int] = []
    with pytest.raises(ValueError, match="broken"):
        async for block in feed(items(), size_of, in_thread=in_thread):
            seen += block
    assert seen == [0, 1, 2]


async def test_an_item_is_handed_on_while_the_next_is_a_long_time_coming() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream:
        blocks = feed(iter(stream), len, in_thread=True)
        os.write(writing, b"one\n")
        assert await anext(blocks) == [b"one\n"]
        coming = asyncio.ensure_future(anext(blocks))
        os.write(writing, b"two\nthree\n")
        found = await coming
        while len(found) < 2:
            found += await anext(blocks)
        assert found == [b"two\n", b"three\n"]
        os.close(writing)
        with pytest.raises(StopAsyncIteration):
            await anext(blocks)


async def test_a_fast_source_waits_for_a_slow_taker() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(10 * MAX_WAITING):
            taken = number
            yield number

    blocks = feed(items(), size_of, in_thread=True)
    await anext(blocks)
    await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    assert taken <= 3 * MAX_WAITING
    await blocks.aclose()


@pytest.mark.parametrize("in_thread", [False, True])
async def test_large_items_come_few_at_a_time(in_thread: bool) -> None:
    items = iter(range(100))
    async for block in feed(items, lambda _: MAX_BYTES // 4, in_thread=in_thread):
        assert len(block) <= 4
    assert not list(items)
