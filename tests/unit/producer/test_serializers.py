"""Keys and values to bytes, and the errors when that is not possible."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import SerializationError
from aiokafkapy.integrations.schema_registry.errors import InvalidSchemaError, RegistryUnavailableError
from aiokafkapy.producer.serializers import discard, json_serializer, prepare, serialize, string_serializer


def test_the_built_in_serializers() -> None:
    assert string_serializer("ü") == "ü".encode()
    assert json_serializer({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'.encode()


def test_prepared_serializers_are_all_called_with_topic_and_data() -> None:
    class WithTopic:
        wants_topic = True

        def __call__(self, topic: str, data: str) -> bytes:
            return f"{topic}:{data}".encode()

    plain, with_topic = prepare(string_serializer), prepare(WithTopic())
    assert plain is not None
    assert with_topic is not None
    assert serialize("value", plain, "t", "x") == b"x"
    assert serialize("value", with_topic, "t", "x") == b"t:x"
    assert prepare(None) is None


def test_an_exception_of_a_serializer_is_the_cause() -> None:
    plain = prepare(string_serializer)
    assert plain is not None
    with pytest.raises(
        SerializationError, match=r"key_serializer failed for a record of topic 't': AttributeError"
    ) as caught:
        serialize("key", plain, "t", 5)
    assert isinstance(caught.value.__cause__, AttributeError)
    assert caught.value.topic == "t"


def test_every_exception_of_a_serializer_but_the_end_of_the_program_is_its_records_error() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise LookupError

    def failing(error: BaseException) -> Any:
        def serializer(_: Any) -> bytes:
            raise error

        return prepare(serializer)

    for error in (asyncio.CancelledError(), GeneratorExit(), BaseException("mine"), Unprintable()):
        with pytest.raises(SerializationError, match="value_serializer failed") as caught:
            serialize("value", failing(error), "t", b"x")
        assert caught.value.__cause__ is error
    for error in (KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(error)):
            serialize("value", failing(error), "t", b"x")


@pytest.mark.parametrize(
    ("cause", "is_retriable"), [(RegistryUnavailableError(), True), (InvalidSchemaError(), False), (OSError(), False)]
)
def test_a_record_may_be_sent_again_where_its_serializers_error_says_so(
    cause: Exception, *, is_retriable: bool
) -> None:
    """Callers that send again after retriable errors lost these records in an outage of the registry."""

    def serializer(topic: str, data: object) -> bytes:
        raise cause

    with pytest.raises(SerializationError) as caught:
        serialize("value", serializer, "t", b"x")
    assert caught.value.retriable is is_retriable
    assert caught.value.fresh().retriable is is_retriable
    assert SerializationError.retriable is False


def test_discarded_coroutines_are_closed() -> None:
    async def give(data: bytes) -> bytes:
        return data

    coroutine = give(b"x")
    discard(coroutine, b"x", None)
    with pytest.raises(RuntimeError):
        coroutine.send(None)
