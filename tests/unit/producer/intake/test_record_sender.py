"""aiokafkapy.producer.intake.record_sender, as others see its calls. What they do is tested in test_producer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import ProducerNotStartedError

CALLS = (KafkaProducer.send, KafkaProducer.enqueue, KafkaProducer.send_nowait)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_call_tells_of_itself_whatever_form_runs(call: Callable[..., Any]) -> None:
    parameters = inspect.signature(call).parameters
    assert list(parameters) == ["self", "topic", "value", "key", "partition", "timestamp_ms", "headers"]
    by_name = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    assert by_name == ["key", "partition", "timestamp_ms", "headers"]
    assert call.__doc__
    assert call.__qualname__.endswith(f".{call.__name__}")


@pytest.mark.parametrize("name", ["send", "enqueue"])
def test_a_call_that_waits_is_a_coroutine_function(name: str) -> None:
    """A web framework asks this of a background task, and gives what says no to a thread."""
    call = getattr(KafkaProducer(bootstrap_servers="host:1"), name)
    assert inspect.iscoroutinefunction(call)
    assert asyncio.iscoroutinefunction(call)


def test_send_makes_one_of_pythons_own_coroutines() -> None:
    """Who runs other people's coroutines asks them for their state, which a compiled one cannot tell."""
    coroutine = KafkaProducer(bootstrap_servers="host:1").send("topic", b"value")
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    coroutine.close()


@pytest.mark.parametrize("wrong", [{}, {"value": b"1", "kay": b"2"}, {"topic": "t", "kay": b"2"}])
async def test_arguments_that_are_no_parameters_are_refused(wrong: dict[str, Any]) -> None:
    producer: Any = KafkaProducer(bootstrap_servers="host:1")
    with pytest.raises(TypeError):
        await producer.enqueue(**wrong)
    with pytest.raises(TypeError):
        producer.send_nowait(**wrong)
    with pytest.raises(TypeError):
        producer.send_nowait("topic", b"value", b"key")


async def test_an_enqueue_can_be_a_task_and_does_nothing_before_it_runs() -> None:
    producer = KafkaProducer(bootstrap_servers="host:1")
    coroutine = producer.enqueue("topic", b"value")  # no error yet
    with pytest.raises(ProducerNotStartedError, match="start"):
        await asyncio.create_task(coroutine)
    with pytest.raises(ProducerNotStartedError, match="start"):
        producer.send_nowait("topic", b"value")


def test_an_enqueue_that_nobody_awaits_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="enqueue' was never awaited"):
        KafkaProducer(bootstrap_servers="host:1").enqueue("topic", b"value")
