"""aiokafkapy.typed.dead_letters: which errors are for good, and which records are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, errors
from aiokafkapy.integrations.schema_registry import IncompatibleSchemaError, RegistryUnavailableError
from aiokafkapy.testing import MockProducer
from aiokafkapy.typed import DeadLetters, is_permanent
from aiokafkapy.typed.dead_letters import DeadLetterCounts


def serialization_error(cause: BaseException | None) -> errors.SerializationError:
    error = errors.SerializationError("no")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_for_good"),
    [
        (serialization_error(None), True),
        (serialization_error(ValueError("no")), True),
        (serialization_error(IncompatibleSchemaError("no")), True),
        (serialization_error(RegistryUnavailableError("away")), False),
        (serialization_error(ConnectionError("away")), False),
        (serialization_error(TimeoutError()), False),
        (errors.RecordTooLargeError("no"), True),
        (errors.InvalidRecordError("no"), True),
        (errors.TopicAuthorizationFailedError("no"), True),
        (errors.InvalidRecordError("no", outcome_unknown=True), False),
        (errors.NotEnoughReplicasError("later"), False),
        (errors.DeliveryTimeoutError("later"), False),
        (errors.ProducerClosedError("closed"), False),
        (errors.ProducerFencedError("fenced"), False),
        (errors.TransactionAbortedError("aborted"), False),
        (TypeError("a bug of the caller"), False),
    ],
)
def test_a_refusal_that_would_come_again_is_for_good(error: Exception, is_for_good: bool) -> None:
    assert is_permanent(error) is is_for_good


async def test_a_record_of_a_dead_letter_topic_is_never_a_dead_letter_even_after_a_restart() -> None:
    async with DeadLetters(KafkaProducer("h:1")) as letters:
        assert not letters.refuse(ProducerRecord("orders.dlq", b"v"), errors.RecordTooLargeError("no"))
    assert letters.counts == DeadLetterCounts()


# calls that end before their records do


@pytest.fixture
async def plain() -> AsyncIterator[Any]:
    async with MockProducer() as producer:
        yield producer


@pytest.fixture
async def slow() -> AsyncIterator[Any]:
    """A producer whose records have the outcome that a test gives them."""
    async with MockProducer(auto_complete=False) as producer:
        yield producer
        producer.clear()


async def cancelled_soon(call: Any) -> None:
    task = asyncio.create_task(call)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def fail_all(producer: Any) -> None:
    while producer.error_next(errors.InvalidRecordError("bad")):
        pass


@pytest.mark.parametrize("call", ["send", "enqueue", "send_many"])
async def test_a_record_that_is_refused_after_its_call_was_cancelled_is_a_dead_letter(
    plain: Any, slow: Any, call: str
) -> None:
    letters = DeadLetters(plain)
    values = [b"one", b"two", b"three"] if call == "send_many" else [b"one"]
    slow._intake.unyielded = 1_000_000  # so much that enqueue() pauses
    await cancelled_soon(getattr(letters.guard(slow), call)("orders", values if call == "send_many" else values[0]))
    draining = asyncio.create_task(letters.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    assert letters.counts == DeadLetterCounts()
    fail_all(slow)
    await draining
    assert [record.value for record in plain.history()] == values
    assert letters.counts.written == len(values)


async def test_records_of_a_cancelled_call_that_had_failed_before_are_dead_letters(plain: Any, slow: Any) -> None:
    letters = DeadLetters(plain)
    values: list[Any] = ["no bytes", b"delivered", b"refused"]
    async with MockProducer(auto_complete=False, value_serializer=_refuses_text) as producer:
        await cancelled_soon(letters.guard(producer).send_many("orders", values))
        producer.complete_next()
        fail_all(producer)
        await letters.drain()
    assert [record.value for record in plain.history()] == [b"no bytes", b"refused"]


async def test_records_before_an_error_of_the_iterable_are_dead_letters(plain: Any, slow: Any) -> None:
    def items() -> Iterator[bytes]:
        yield b"one"
        raise asyncio.CancelledError("of the iterable")

    letters = DeadLetters(plain)
    call = asyncio.create_task(letters.guard(slow).send_many("orders", items()))
    await asyncio.sleep(0)
    assert not call.done()
    fail_all(slow)
    with pytest.raises(asyncio.CancelledError, match="of the iterable"):
        await call
    await letters.drain()
    assert [record.value for record in plain.history()] == [b"one"]


async def test_a_single_value_is_no_iterable_of_values(plain: Any, slow: Any) -> None:
    letters = DeadLetters(plain)
    with pytest.raises(TypeError, match="not a bytes"):
        await letters.guard(slow).send_many("orders", b"abc")
    assert letters.counts == DeadLetterCounts()


def _refuses_text(value: Any) -> bytes:
    if isinstance(value, str):
        raise ValueError("no text")
    found: bytes = value
    return found
