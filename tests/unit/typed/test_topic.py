"""aiokafkapy.typed.topic: the types that mypy knows for a typed topic, and refusals when one is made."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from aiokafkapy import KafkaProducer, typed
from aiokafkapy.errors import ConfigurationError, InvalidTopicError, SerializationError
from aiokafkapy.integrations.schema_registry import AvroSerializer, SchemaRegistryClient
from aiokafkapy.typed import BoundTopic, CloudEvents, DeadLetters, Topic


class Order(BaseModel):
    id: int


async def seen_by_a_type_checker(producer: KafkaProducer, registry: SchemaRegistryClient) -> None:
    """Checked, not run: mypy, which reads the tests too, reports an error that is wanted here and does not come."""
    orders = Topic[Order]("orders", key=lambda order: order.id, cloud_events=CloudEvents("/shop"))
    bound: BoundTopic[Order] = orders.bind(DeadLetters(producer).guard(producer))
    await bound.send(Order(id=1))
    await orders.send(producer, Order(id=1))
    Topic("orders", Order, serializer=AvroSerializer(registry, Order))
    await bound.send("an order")  # type: ignore[arg-type]
    await orders.send(producer, 7)  # type: ignore[arg-type]
    Topic[Order]("orders", key=lambda order: order.number)  # type: ignore[attr-defined]
    Topic("orders", Order, serializer=AvroSerializer(registry, int))  # type: ignore[misc]
    (await bound.send(Order(id=1))).nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_a_record_has_its_topic_key_and_headers() -> None:
    topic = Topic[Order]("orders", key=lambda order: f"k{order.id}", headers=lambda order: [("a", b"1")])
    record = topic.record(Order(id=7), partition=3, timestamp_ms=5, headers={"b": b"2"})
    assert (record.topic, record.value, record.key) == ("orders", b'{"id":7}', b"k7")
    assert (record.partition, record.timestamp_ms) == (3, 5)
    assert record.headers == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Topic[Order]("no topic"), InvalidTopicError),
        (lambda: Topic("orders", object()), ConfigurationError),  # type: ignore[arg-type]
        (lambda: Topic[Order]("orders", key="id"), ConfigurationError),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_raises_at_once(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def number(value: object) -> Any:
    return 5


async def number_later(value: object) -> Any:
    return 5


@pytest.mark.parametrize("serializer", [number, number_later])
async def test_a_serializers_result_is_the_data_of_an_event_only_if_it_is_bytes(serializer: Any) -> None:
    topic = Topic("orders", Order, serializer=serializer, cloud_events=CloudEvents("/shop"))
    with pytest.raises(SerializationError, match="the serializer of topic 'orders' gave a int, not bytes"):
        await topic.record(Order(id=1)).value


def test_a_key_of_another_kind_is_refused() -> None:
    key: Any = lambda order: [order.id]  # noqa: E731
    with pytest.raises(SerializationError, match="the key is a list"):
        Topic[Order]("orders", key=key).record(Order(id=1))


@pytest.mark.parametrize("function", ["key", "headers", "serializer"])
def test_an_exception_of_a_function_of_any_kind_is_the_records_own(function: str) -> None:
    def cancelled(order: Any) -> Any:
        raise asyncio.CancelledError

    options: Any = {function: cancelled}
    with pytest.raises(SerializationError, match="CancelledError"):
        Topic("orders", Order, **options).record(Order(id=1))

    def ends(order: Any) -> Any:
        raise KeyboardInterrupt

    options = {function: ends}
    with pytest.raises(KeyboardInterrupt):
        Topic("orders", Order, **options).record(Order(id=1))


def test_a_model_may_be_any_type_that_pydantic_knows() -> None:
    many = Topic[list[Order]]("orders")
    assert many.record([Order(id=1)]).value == b'[{"id":1}]'
    either = Topic[Order | int]("orders")
    assert either.record(3).value == b"3"


@pytest.mark.filterwarnings("default")  # as with a user
def test_a_value_that_pydantic_would_only_warn_of_is_refused() -> None:
    wrong: Any = "no list"
    with pytest.raises(SerializationError):
        Topic[list[Order]]("orders").record(wrong)
    changed = Order(id=1)
    changed.__dict__["id"] = "one"
    with pytest.raises(SerializationError):
        Topic[Order]("orders").record(changed)


M = TypeVar("M")


class Orders(Topic[Order]):
    pass


class OtherOrders(Orders):
    pass


class Generically(Topic[M]):
    pass


def test_a_class_derived_from_a_typed_topic_has_its_type() -> None:
    assert OtherOrders("orders").record(Order(id=1)).value == b'{"id":1}'
    assert Generically[Order]("orders").record(Order(id=1)).value == b'{"id":1}'
    with pytest.raises(ConfigurationError, match="has no type"):
        _ = Generically("orders").model


def test_the_public_names_are_looked_up_when_used() -> None:
    assert dir(typed) == sorted(typed.__all__)
    for name in typed.__all__:
        assert getattr(typed, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        typed.nonsense  # type: ignore[attr-defined]  # noqa: B018
