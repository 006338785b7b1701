"""Calls with a topic and a value alone: they do as the same calls by name do, and an ``enqueue`` keeps the rules of
coroutines, whichever way it goes.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import warnings
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, compiled
from aiokafkapy.errors import (
    BufferExhaustedError,
    KafkaError,
    MetadataNotReadyError,
    ProducerNotStartedError,
)
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.deadline import deadline
from aiokafkapy.producer.intake.record_sender import RecordSender
from aiokafkapy.producer.intake.short_calls import shorten

from ..intake_harness import IntakeRuntime, new_intake

Sender = RecordSender[Any, Any]

YIELD_AFTER = 256 * 1024
"""The constant of ``record_sender``, which cannot be seen in the compiled module."""


def new_sender(runtime: IntakeRuntime | None = None) -> Sender:
    return RecordSender(new_intake(runtime))


def value_alone(sender: Sender, topic: str, value: Any) -> Coroutine[Any, Any, Delivery]:
    return sender.enqueue(topic, value)


def by_name(sender: Sender, topic: str, value: Any) -> Coroutine[Any, Any, Delivery]:
    return sender.enqueue(topic, value, key=None)


async def take_turns(counted: Iterator[int]) -> None:
    for _ in counted:
        await asyncio.sleep(0)


@pytest.fixture(params=[value_alone, by_name])
def enqueue(request: pytest.FixtureRequest) -> Any:
    return request.param


class TestEnqueue:
    def test_the_plainest_call_takes_the_short_way_where_there_is_one(self) -> None:
        short, full = value_alone(new_sender(), "orders", b"1"), by_name(new_sender(), "orders", b"1")
        assert (type(short) is not type(full)) == compiled
        short.close()
        full.close()

    async def test_nothing_happens_before_it_is_awaited(self, enqueue: Any) -> None:
        runtime = IntakeRuntime()
        sender = new_sender(runtime)
        first, second = enqueue(sender, "orders", b"1"), enqueue(sender, "orders", b"2")
        assert runtime.values() == []
        assert type(await second) is Delivery
        assert type(await first) is Delivery
        assert runtime.values() == [b"2", b"1"]

    async def test_it_raises_where_it_is_awaited(self, enqueue: Any) -> None:
        call = enqueue(new_sender(), "orders", b"1")
        with pytest.raises(ProducerNotStartedError):
            await call

    async def test_it_is_awaited_once(self, enqueue: Any) -> None:
        sender = new_sender(IntakeRuntime())
        call = enqueue(sender, "orders", b"1")
        await call
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await call
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            call.throw(ValueError("late"))
        failed = enqueue(sender, "orders", object())
        with pytest.raises(Exception, match="not bytes"):
            await failed
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await failed

    async def test_it_is_sent_none_first(self, enqueue: Any) -> None:
        sender = new_sender(IntakeRuntime())
        call = enqueue(sender, "orders", b"1")
        with pytest.raises(TypeError, match="can't send non-None value to a just-started coroutine"):
            call.send(1)
        call.close()
        call = enqueue(sender, "orders", b"1")
        with pytest.raises(StopIteration) as stop:
            call.send(None)
        assert type(stop.value.value) is Delivery

    async def test_it_can_be_waited_for_in_each_of_asyncio_s_ways(self, enqueue: Any) -> None:
        runtime = IntakeRuntime()
        sender = new_sender(runtime)
        first = enqueue(sender, "orders", b"0")
        assert asyncio.iscoroutine(first)
        await asyncio.wait_for(first, 60)
        await asyncio.gather(enqueue(sender, "orders", b"1"), enqueue(sender, "orders", b"2"))
        task = asyncio.create_task(enqueue(sender, "orders", b"3"))
        assert "enqueue" in repr(task)
        await task
        async with asyncio.TaskGroup() as group:
            group.create_task(enqueue(sender, "orders", b"4"))
        assert runtime.values() == [b"0", b"1", b"2", b"3", b"4"]

    async def test_a_loop_in_python_can_run_it(self, enqueue: Any) -> None:
        sender = new_sender(IntakeRuntime())
        python_task: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]
        assert type(await python_task(enqueue(sender, "orders", b"1"))) is Delivery

    async def test_it_waits_for_its_topic(self, enqueue: Any) -> None:
        runtime = IntakeRuntime()
        sender = new_sender(runtime)
        tasks = [asyncio.create_task(enqueue(sender, "new", b"%d" % number)) for number in range(3)]
        await asyncio.sleep(0)
        assert runtime.admission.waiting == 3
        runtime.learn({"orders": 6, "new": 1})
        await asyncio.gather(*tasks)
        assert runtime.values("new") == [b"0", b"1", b"2"]

    async def test_being_cancelled_while_it_waits_it_takes_the_record_back(self, enqueue: Any) -> None:
        runtime = IntakeRuntime()
        sender = new_sender(runtime)
        task = asyncio.create_task(enqueue(sender, "new", b"1"))
        await asyncio.sleep(0)
        assert runtime.admission.waiting == 1
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert runtime.admission.waiting == 0
        runtime.learn({"orders": 6, "new": 1})
        assert runtime.values("new") == []

    async def test_being_closed_while_it_waits_it_ends_and_the_record_stays(self, enqueue: Any) -> None:
        runtime = IntakeRuntime()
        call = enqueue(new_sender(runtime), "new", b"1")
        call.send(None)
        assert runtime.admission.waiting == 1
        call.close()
        runtime.learn({"orders": 6, "new": 1})
        assert runtime.values("new") == [b"1"]
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            call.send(None)

    async def test_an_error_thrown_in_comes_out(self, enqueue: Any) -> None:
        sender = new_sender(IntakeRuntime())
        for step in (lambda call: None, lambda call: call.send(None)):
            call = enqueue(sender, "new", b"1")
            step(call)
            error = ValueError("thrown")
            with pytest.raises(ValueError, match="thrown") as raised:
                call.throw(error)
            assert raised.value is error
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                call.send(None)

    async def test_the_error_of_a_record_that_waited_is_raised(self, enqueue: Any) -> None:
        runtime = IntakeRuntime()
        task = asyncio.create_task(enqueue(new_sender(runtime), "new", b"1"))
        await asyncio.sleep(0)
        runtime.end()
        with pytest.raises(KafkaError, match="new"):
            await task

    async def test_a_tight_loop_lets_others_run_as_often_either_way(self) -> None:
        turns = []
        for call in (value_alone, by_name):
            sender, value = new_sender(IntakeRuntime(buffer_memory=2**30)), bytes(1_000)
            counted = itertools.count()
            other = asyncio.create_task(take_turns(counted))
            await asyncio.sleep(0)
            for _ in range(3 * YIELD_AFTER // len(value)):
                await call(sender, "orders", value)
            turns.append(next(counted))
            other.cancel()
        assert turns[0] == turns[1] > 1

    async def test_the_time_of_a_deadline_holds(self, enqueue: Any) -> None:
        runtime: Any = IntakeRuntime()
        seen = []
        runtime.config = type("Config", (), {"enable_gapless_guarantee": False})
        runtime.deadlines = type("Deadlines", (), {"add": lambda self, *given: seen.append(given)})()
        sender = new_sender(runtime)
        async with deadline(60):
            await enqueue(sender, "orders", b"1")
        await enqueue(sender, "orders", b"2")
        assert len(seen) == 1

    def test_not_to_await_it_is_warned_of(self, enqueue: Any) -> None:
        call = enqueue(KafkaProducer("host:1"), "orders", b"1")
        with pytest.warns(RuntimeWarning, match="enqueue' was never awaited"):
            del call

    async def test_a_call_that_was_closed_or_awaited_is_not_warned_of(self, enqueue: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            enqueue(new_sender(), "orders", b"1").close()
            await enqueue(new_sender(IntakeRuntime()), "orders", b"1")
            gc.collect()

    async def test_its_value_is_let_go_of_at_the_end(self, enqueue: Any) -> None:
        """A task that is done keeps its coroutine, and lists of such tasks are long."""
        runtime = IntakeRuntime()
        sender = new_sender(runtime)
        tasks = []
        for topic in ("orders", "new"):
            value = bytes(100)
            before = sys.getrefcount(value)
            tasks.append(asyncio.create_task(enqueue(sender, topic, value)))
            await asyncio.sleep(0)
            runtime.learn({"orders": 6, "new": 1})
            await tasks[-1]
            assert sys.getrefcount(value) == before
        with pytest.raises(ProducerNotStartedError):
            await (call := enqueue(new_sender(), "orders", value))
        assert sys.getrefcount(value) == before
        del call


class TestSendNowait:
    async def test_a_value_alone_is_as_one_by_name(self) -> None:
        runtime = IntakeRuntime()
        sender = new_sender(runtime)
        assert type(sender.send_nowait("orders", b"1")) is Delivery
        assert type(sender.send_nowait(topic="orders", value=b"2")) is Delivery
        assert type(sender.send_nowait("orders")) is Delivery
        assert runtime.values() == [b"1", b"2", None]

    async def test_refusals_are_the_same(self) -> None:
        for named in ({}, {"key": None}):
            sender: Any = new_sender(IntakeRuntime(buffer_memory=40_000, max_request_size=39_000))
            with pytest.raises(MetadataNotReadyError):
                sender.send_nowait("new", b"1", **named)
            with pytest.raises(BufferExhaustedError):
                for _ in range(100):
                    sender.send_nowait("orders", bytes(1_000), **named)

    def test_anything_but_a_sender_is_refused(self) -> None:
        for call in (RecordSender.enqueue, RecordSender.send_nowait):
            wrong: Any = call
            with pytest.raises((TypeError, AttributeError)):
                asyncio.run(wrong(object(), "orders", b"1"))

    async def test_the_time_of_a_deadline_holds(self) -> None:
        runtime: Any = IntakeRuntime()
        seen = []
        runtime.config = type("Config", (), {"enable_gapless_guarantee": False})
        runtime.deadlines = type("Deadlines", (), {"add": lambda self, *given: seen.append(given)})()
        sender = new_sender(runtime)
        async with deadline(60):
            sender.send_nowait("orders", b"1")
        assert len(seen) == 1


async def test_functions_are_shortened_once() -> None:
    """The method table of a compiled function outlives its module, which may be imported again."""
    other: Any = None
    shorten(RecordSender.enqueue, other, 0, RecordSender.send_nowait, other, RecordSender._accept)
    runtime = IntakeRuntime()
    sender = new_sender(runtime)
    for call in (value_alone, by_name):
        await call(sender, "orders", b"1")
    sender.send_nowait("orders", b"2", key=None)
    assert runtime.values() == [b"1", b"1", b"2"]


def test_a_function_of_another_form_stays_as_it_is() -> None:
    """Where Cython compiles functions otherwise than is expected here, calls take the long way."""

    async def enqueue(sender: object, topic: str, value: object) -> str:
        return f"{topic} {value!r}"

    def send_nowait(sender: object, topic: str, value: object) -> str:
        return f"{topic} {value!r}"

    shorten(enqueue, enqueue, 1, send_nowait, send_nowait, send_nowait)
    assert asyncio.run(enqueue(None, "orders", 1)) == "orders 1"
    assert send_nowait(None, "orders", 2) == "orders 2"
