"""Records sent one a call: by a RecordSender alone, and the calls as others see them. A record's way through the whole
producer is tested in test_producer.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import (
    BufferExhaustedError,
    IllegalStateError,
    MetadataNotReadyError,
    MetadataTimeoutError,
    ProducerNotStartedError,
)
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.record_sender import RecordSender

from ..intake_harness import IntakeRuntime, new_intake

CALLS = (KafkaProducer.send, KafkaProducer.enqueue, KafkaProducer.send_nowait)


async def serialize_later(topic: str, data: Any) -> bytes:
    await asyncio.sleep(0)
    return bytes(data)


class TestSendNowait:
    async def test_the_record_is_in_a_batch_when_it_returns(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        delivery = sender.send_nowait("orders", b"1", key=b"k", partition=3, timestamp_ms=7, headers=[("a", b"b")])
        assert type(delivery) is Delivery
        assert (delivery.topic_partition.partition, delivery.timestamp_ms) == (3, 7)
        (batch,) = runtime.accumulator.incomplete
        assert list(batch.builder.records()) == [(7, b"k", b"1", (("a", b"b"),))]

    async def test_a_topic_that_is_not_known_is_refused_and_asked_for(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        with pytest.raises(MetadataNotReadyError, match=r"await producer.partitions_for\('new'\) first"):
            sender.send_nowait("new", b"1")
        assert runtime.metadata.contains_topic("new")
        assert runtime.admission.waiting == 0
        runtime.learn({"orders": 6, "new": 1})
        assert runtime.values("new") == []
        assert sender.send_nowait("new", b"2").topic_partition.topic == "new"

    async def test_a_partition_that_is_not_there_is_refused(self) -> None:
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(IntakeRuntime()))
        with pytest.raises(MetadataNotReadyError, match="cannot wait for metadata"):
            sender.send_nowait("orders", b"1", partition=6)

    async def test_without_room_the_error_says_which_bound_was_reached(self) -> None:
        runtime = IntakeRuntime(buffer_memory=40_000, max_request_size=39_000)
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        with pytest.raises(BufferExhaustedError, match="buffer_memory is full") as caught:
            for _ in range(10):
                sender.send_nowait("orders", bytes(9_000), partition=1)
        assert (caught.value.topic, caught.value.partition) == ("orders", 1)
        assert runtime.admission.waiting == 0

    async def test_an_async_serializer_is_refused_and_its_coroutine_closed(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[Any, Any] = RecordSender(new_intake(runtime, value_serializer=serialize_later))
        with pytest.raises(IllegalStateError, match="cannot wait for an async serializer"):
            sender.send_nowait("orders", b"1")
        assert runtime.values() == []


class TestEnqueue:
    async def test_a_record_that_can_be_appended_is_accepted_at_once(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        enqueuing = sender.enqueue("orders", b"1")
        with pytest.raises(StopIteration) as returned:
            enqueuing.send(None)
        assert type(returned.value.value) is Delivery
        assert runtime.values() == [b"1"]

    async def test_it_waits_for_metadata_in_call_order(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        calls = [asyncio.create_task(sender.enqueue("new", b"%d" % number)) for number in range(3)]
        await asyncio.sleep(0)
        assert runtime.admission.waiting == 3
        runtime.learn({"orders": 6, "new": 1})
        deliveries = await asyncio.gather(*calls)
        assert {type(delivery) for delivery in deliveries} == {Delivery}
        assert runtime.values("new") == [b"0", b"1", b"2"]

    async def test_an_async_serializer_is_awaited_in_the_callers_task(self) -> None:
        tasks = []

        async def serialize(topic: str, data: bytes) -> bytes:
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0)
            return data.upper()

        runtime = IntakeRuntime()
        sender: RecordSender[Any, Any] = RecordSender(new_intake(runtime, value_serializer=serialize))
        await sender.enqueue("orders", b"ab")
        assert runtime.values() == [b"AB"]
        assert tasks == [asyncio.current_task()]

    async def test_cancelling_while_it_waits_takes_the_record_back(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        call = asyncio.create_task(sender.enqueue("new", b"1"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        runtime.learn({"orders": 6, "new": 1})
        assert runtime.values("new") == []

    async def test_the_error_that_ends_the_wait_is_raised(self) -> None:
        runtime = IntakeRuntime()
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
        call = asyncio.create_task(sender.enqueue("new", b"1"))
        await asyncio.sleep(0)
        (record,) = runtime.admission.snapshot()
        runtime.admission.expire(record)
        with pytest.raises(MetadataTimeoutError, match="'new': no metadata"):
            await call

    async def test_a_tight_loop_lets_others_run(self) -> None:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(count_turns())
        sender: RecordSender[bytes, bytes] = RecordSender(new_intake(IntakeRuntime()))
        for _ in range(100):
            await sender.enqueue("orders", bytes(26_000))
        others.cancel()
        assert 8 <= turns <= 10


async def test_without_a_runtime_both_calls_raise_the_intake_s_error() -> None:
    sender: RecordSender[bytes, bytes] = RecordSender(new_intake())
    with pytest.raises(ProducerNotStartedError):
        sender.send_nowait("orders")
    with pytest.raises(ProducerNotStartedError):
        await sender.enqueue("orders")


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_tells_of_itself_in_both_forms(call: Callable[..., Any]) -> None:
    parameters = inspect.signature(call).parameters
    assert list(parameters) == [
        "self",
        "topic",
        "value",
        "key",
        "partition",
        "timestamp_ms",
        "headers",
        "delivery_timeout_ms",
        "overflow",
    ]
    assert all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters.values())
    assert call.__doc__
    assert call.__qualname__.endswith(f".{call.__name__}")


@pytest.mark.parametrize("name", ["send", "enqueue"])
def test_a_call_that_waits_is_a_coroutine_function(name: str) -> None:
    """A web framework asks this of a background task, and runs other functions in a thread."""
    call = getattr(KafkaProducer(bootstrap_servers="host:1"), name)
    assert inspect.iscoroutinefunction(call)
    assert asyncio.iscoroutinefunction(call)


def test_send_makes_one_of_pythons_own_coroutines() -> None:
    """A framework that runs coroutines asks for their state, which a compiled one does not have."""
    coroutine = KafkaProducer(bootstrap_servers="host:1").send("topic", b"value")
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    coroutine.close()


@pytest.mark.parametrize("wrong", [{}, {"value": b"1", "kay": b"2"}, {"topic": "t", "kay": b"2"}])
async def test_unknown_arguments_are_refused(wrong: dict[str, Any]) -> None:
    sender: Any = RecordSender(new_intake())
    with pytest.raises(TypeError):
        await sender.enqueue(**wrong)
    with pytest.raises(TypeError):
        sender.send_nowait(**wrong)
    too_many = ["topic", *[None] * 8]
    with pytest.raises(TypeError):
        sender.send_nowait(*too_many)
    with pytest.raises(TypeError):
        await sender.enqueue(*too_many)


async def test_arguments_by_position_are_those_by_name() -> None:
    runtime = IntakeRuntime()
    sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
    sender.send_nowait("orders", b"v", b"k", 3, 5, [("h", b"w")])
    await sender.enqueue("orders", b"v", b"k", 3, 5, [("h", b"w")])
    sender.send_nowait("orders", value=b"v", key=b"k", partition=3, timestamp_ms=5, headers=[("h", b"w")])
    await sender.enqueue("orders", value=b"v", key=b"k", partition=3, timestamp_ms=5, headers=[("h", b"w")])
    (batch,) = runtime.accumulator.incomplete
    assert batch.topic_partition == ("orders", 3)
    assert list(batch.builder.records()) == [(5, b"k", b"v", (("h", b"w"),))] * 4


async def test_an_enqueue_can_be_a_task_and_does_nothing_before_it_runs() -> None:
    runtime = IntakeRuntime()
    sender: RecordSender[bytes, bytes] = RecordSender(new_intake(runtime))
    task = asyncio.create_task(sender.enqueue("orders", b"1"))
    assert runtime.values() == []
    await task
    assert runtime.values() == [b"1"]


def test_an_enqueue_that_nobody_awaits_is_warned_of() -> None:
    call = KafkaProducer(bootstrap_servers="host:1").enqueue("topic", b"value")
    with pytest.warns(RuntimeWarning, match="enqueue' was never awaited"):
        del call
