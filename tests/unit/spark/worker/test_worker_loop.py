from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from aiokafkapy.spark.worker import worker_loop
from aiokafkapy.spark.worker.feed import Feed


class Thing:
    """Something that can be open, and be closed once."""

    def __init__(self) -> None:
        self.closed = 0
        self.is_alive = True
        self.thread = threading.current_thread()

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    yield
    worker_loop.stop()


async def lease(key: str, then: BaseException | None = None) -> Thing:
    async def opened() -> Thing:
        return Thing()

    async with worker_loop.lease(key, opened, Thing.close, lambda thing: thing.is_alive) as thing:
        if then is not None:
            then.args = (thing,)
            raise then
        return thing


def test_a_coroutine_runs_on_a_thread_of_its_own_and_gives_its_outcome() -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    first = worker_loop.run(where())
    assert first is not threading.current_thread()
    assert worker_loop.run(where()) is first

    async def fails() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        worker_loop.run(fails())


def test_a_returned_client_is_used_again_for_the_same_key_only() -> None:
    first = worker_loop.run(lease("a"))
    assert worker_loop.run(lease("a")) is first
    assert worker_loop.run(lease("b")) is not first
    assert first.closed == 0
    worker_loop.stop()
    assert first.closed == 1


def test_two_at_once_have_one_each() -> None:
    async def both() -> list[Thing]:
        entered = asyncio.Barrier(2)

        async def opened() -> Thing:
            return Thing()

        async def one() -> Thing:
            async with worker_loop.lease("a", opened, Thing.close) as thing:
                await entered.wait()
                return thing

        return list(await asyncio.gather(one(), one()))

    first, second = worker_loop.run(both())
    assert first is not second
    assert first.closed == second.closed == 0


def test_a_client_whose_user_failed_is_closed() -> None:
    with pytest.raises(LookupError) as caught:
        worker_loop.run(lease("a", LookupError()))
    (broken,) = caught.value.args
    assert broken.closed == 1
    assert worker_loop.run(lease("a")) is not broken


def test_a_dead_client_is_closed_and_replaced() -> None:
    first = worker_loop.run(lease("a"))
    first.is_alive = False
    assert worker_loop.run(lease("a")) is not first
    assert first.closed == 1


def test_an_unused_resource_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_loop, "KEPT_SECONDS", 0.0)
    closed = threading.Event()

    class Told(Thing):
        async def close(self) -> None:
            closed.set()

    async def once() -> None:
        async def opened() -> Told:
            return Told()

        async with worker_loop.lease("a", opened, Told.close):
            pass

    worker_loop.run(once())
    assert closed.wait(60)


def test_an_interrupted_thread_takes_its_coroutine_along(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    started = threading.Event()

    async def long() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    job = worker_loop.submit(long())
    assert started.wait(60)

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job._outcome, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.result()
    assert ended.is_set()
    assert job.done()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_has_a_loop_of_its_own() -> None:
    first = worker_loop.run(lease("a"))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = b"?"
        try:
            other = worker_loop.run(lease("a"))
            found = b"same" if other is first or first.closed else b"own"
        finally:
            os.write(writer, found)
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        assert told.read() == b"own"
    os.waitpid(child, 0)
    assert worker_loop.run(lease("a")) is first


def test_a_feed_hands_over_in_order_and_holds_its_thread_back() -> None:
    feed: Feed[int] = Feed(worker_loop.loop())
    behind: list[int] = []

    async def take() -> list[int]:
        taken = []
        while (item := await feed.take()) is not None:
            taken.append(item)
            behind.append(len(feed._items))
        return taken

    job = worker_loop.submit(take())
    for number in range(200):
        assert feed.put(number)
    feed.end()
    assert job.result() == list(range(200))
    assert max(behind) <= 2


def test_a_feed_that_is_closed_lets_its_thread_go() -> None:
    feed: Feed[int] = Feed(worker_loop.loop())

    async def take_one() -> None:
        await feed.take()
        feed.close()

    job = worker_loop.submit(take_one())
    put = 0
    while feed.put(put):
        put += 1
    job.result()
    assert put <= 3
