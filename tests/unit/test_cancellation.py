"""aiokafkapy.cancellation: work that comes to its end though its caller is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.cancellation import to_its_end


async def test_the_result_and_the_error_of_the_work_are_the_calls() -> None:
    async def work(error: Exception | None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 1

    assert await to_its_end(work(None)) == 1
    with pytest.raises(ValueError, match="mine"):
        await to_its_end(work(ValueError("mine")))


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_call_raises_when_the_work_is_over(fails: bool) -> None:
    may_end, over = asyncio.Event(), []

    async def work() -> None:
        await may_end.wait()
        over.append(True)
        if fails:
            raise ValueError("told to nobody")

    call = asyncio.create_task(to_its_end(work()))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.sleep(0)
    assert not call.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert over == [True]
