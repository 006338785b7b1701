"""aiokafkapy.typed.dead_letters: the errors that are final, and the records that never become letters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, errors
from aiokafkapy.integrations.schema_registry import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAuthenticationError,
    RegistryUnavailableError,
    RuleFailedError,
    SchemaRulesError,
    SubjectNotFoundError,
)
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
        (serialization_error(InvalidSchemaError("no")), True),
        (serialization_error(RuleFailedError("no")), True),
        (serialization_error(errors.InvalidTopicError("no")), True),
        (serialization_error(RegistryUnavailableError("away")), False),
        (serialization_error(RegistryAuthenticationError("expired")), False),
        (serialization_error(SubjectNotFoundError("not yet")), False),
        (serialization_error(SchemaRulesError("not installed")), False),
        (serialization_error(errors.IllegalStateError("closed")), False),
        (serialization_error(errors.WrongEventLoopError("of another")), False),
        (serialization_error(errors.ConfigurationError("no digits")), False),
        (serialization_error(asyncio.CancelledError()), False),
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


@pytest.mark.parametrize("name", ["max_pending", "max_payload_bytes"])
async def test_a_limit_is_an_integer_of_1_or_more_also_one_of_numpy(name: str, plain: Any) -> None:
    limits: dict[str, Any] = {name: numpy.int64(2)}
    assert DeadLetters(plain, **limits).counts == DeadLetterCounts()
    for given in ("5", 5.0, True, None):
        limits = {name: given}
        with pytest.raises(TypeError, match=f"{name} is a {type(given).__name__}, not an int"):
            DeadLetters(plain, **limits)
    limits = {name: 0}
    with pytest.raises(errors.ConfigurationError, match=f"{name}=0: write 1 or more"):
        DeadLetters(plain, **limits)


@pytest.mark.parametrize("topic", [5, b"letters", ["letters"]])
async def test_a_topic_that_is_neither_a_name_nor_a_function_is_refused(topic: Any, plain: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"topic=.*write the name of a topic, or a function"):
        DeadLetters(plain, topic)


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


async def test_a_single_value_is_not_an_iterable_of_values(plain: Any, slow: Any) -> None:
    letters = DeadLetters(plain)
    with pytest.raises(TypeError, match="not a bytes"):
        await letters.guard(slow).send_many("orders", b"abc")
    assert letters.counts == DeadLetterCounts()


# functions of the user's that fail


class Odd(BaseException):
    """An error that is not an Exception."""


@pytest.mark.parametrize("raised", [Odd, asyncio.CancelledError, GeneratorExit, ValueError])
@pytest.mark.parametrize("function", ["is_permanent", "topic", "redacted", "hidden"])
async def test_a_function_that_raises_harms_neither_callers_nor_the_drain(
    plain: Any, function: str, raised: type[BaseException]
) -> None:
    def fails(*_: Any) -> Any:
        raise raised("no")

    def serializer(value: Any) -> Any:
        return value

    serializer.redacted = fails if function == "redacted" else lambda topic, value: value  # type: ignore[attr-defined]
    options: Any = {function: fails} if function in ("is_permanent", "topic") else {}
    letters = DeadLetters(plain, **options)
    async with MockProducer(auto_complete=False, value_serializer=serializer) as producer:
        guarded = letters.guard(producer)
        delivery: Any
        if function == "hidden":
            delivery = producer.send_nowait("orders", b"bad")
            letters.watch(ProducerRecord("orders", b"bad"), delivery, fails)
        else:
            delivery = guarded.send_nowait("orders", b"bad")
        draining = asyncio.create_task(letters.drain())
        await asyncio.sleep(0)
        fail_all(producer)
        await draining
        with pytest.raises(errors.InvalidRecordError):
            await delivery
        with pytest.raises(errors.SerializationError):
            await guarded.send("orders", 7)
        await letters.drain()
    is_lost = function in ("is_permanent", "topic")
    expected = [] if is_lost else [None] * 2 if function == "redacted" else [b"7"]
    assert [record.value for record in plain.history()] == expected
    assert letters.counts.failed == {"is_permanent": 2, "topic": 2, "redacted": 0, "hidden": 1}[function]


async def test_a_user_who_ends_the_program_leaves_no_drain_behind(slow: Any, plain: Any) -> None:
    def ends(error: BaseException) -> bool:
        raise KeyboardInterrupt

    letters = DeadLetters(plain, is_permanent=ends)
    with pytest.raises(KeyboardInterrupt):
        letters.refuse(ProducerRecord("orders", b"v"), errors.InvalidRecordError("bad"))
    refused: Any = SimpleNamespace(exception=lambda: errors.InvalidRecordError("bad"), add_done_callback=lambda fn: fn)
    letters.watch(ProducerRecord("orders", b"v"), refused)
    draining = asyncio.create_task(letters.drain())
    await asyncio.sleep(0)
    with pytest.raises(KeyboardInterrupt):
        letters._on_done(ProducerRecord("orders", b"v"), None, refused)
    await draining


async def test_headers_and_data_that_raise_are_left_out(plain: Any) -> None:
    class Raises:
        def __iter__(self) -> Any:
            raise Odd("no")

        def __str__(self) -> str:
            raise Odd("no")

    wrong: Any = Raises()
    letters = DeadLetters(plain)
    assert letters.refuse(
        ProducerRecord("orders", wrong, b"k", headers=[(wrong, b"")]), errors.SerializationError("no")
    )
    await letters.drain()
    (letter,) = plain.history()
    assert dict(letter.headers)["dead_letter.headers"] == b"left out"
    assert not letters.refuse(ProducerRecord(wrong, b"v"), errors.SerializationError("no"))
    assert letters.counts.failed == 1


def _refuses_text(value: Any) -> bytes:
    if isinstance(value, str):
        raise ValueError("no text")
    found: bytes = value
    return found
