"""Typed topics, CloudEvents and dead letters, from the call to the dev broker's log."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cloudevents.v1.http import CloudEvent
from cloudevents.v1.kafka import KafkaMessage, from_binary, from_structured
from pydantic import BaseModel

from aiokafkapy import KafkaProducer, ProducerRecord, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidRecordError,
    NotEnoughReplicasError,
    RecordTooLargeError,
    SerializationError,
)
from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaSerializer,
    SchemaRegistryClient,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import SchemaRegistry
from aiokafkapy.typed import CloudEvents, DeadLetters, GuardedProducer, Topic


class Order(BaseModel):
    id: int
    customer: str = "ann"


@dataclass
class Click:
    page: str


class Payment(msgspec.Struct, tag=True):
    number: int
    amount: int = 0


class Refund(msgspec.Struct, tag=True):
    number: int


class Unserializable:
    """A value without a form in JSON."""


orders = Topic[Order]("orders", key=lambda order: order.id, headers=lambda order: {"customer": order.customer.encode()})


@pytest.fixture
async def registry() -> AsyncIterator[SchemaRegistryClient]:
    async with SchemaRegistry() as server, SchemaRegistryClient(server.url) as registry:
        yield registry


def headers_of(broker: DevBroker, topic: str, place: int = 0) -> dict[str, bytes | None]:
    return dict(broker.records(topic)[place].headers)


# topics


async def test_a_value_becomes_a_record_with_its_key_and_headers(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer
) -> None:
    metadata = await orders.send(kafka_producer, Order(id=7), headers=[("more", None)])
    (record,) = kafka_broker.records("orders")
    assert metadata.topic == "orders"
    assert (record.key, record.value) == (b"7", b'{"id":7,"customer":"ann"}')
    assert list(record.headers) == [("customer", b"ann"), ("more", None)]
    assert await orders.decode(record) == Order(id=7)


async def test_a_bound_topic_has_the_calls_of_a_producer(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer
) -> None:
    kafka_broker.create_topic("orders", partitions=1)
    bound = orders.bind(kafka_producer)
    await bound.send(Order(id=1))
    await (await bound.enqueue(Order(id=2), delivery_timeout_ms=30_000))
    await bound.send_nowait(Order(id=3))
    assert len(await bound.send_many(Order(id=number) for number in (4, 5))) == 2
    await bound.tombstone(1)
    with pytest.raises(SerializationError, match="a tombstone needs the key that it deletes"):
        await bound.tombstone(None)
    for odd in ("\ud800", 10**5000):
        with pytest.raises(SerializationError, match=f"the {type(odd).__name__} cannot be written as a key"):
            await bound.tombstone(odd)
    records = kafka_broker.records("orders")
    assert [(record.key, record.value is None) for record in records] == [
        *((str(number).encode(), False) for number in (1, 2, 3, 4, 5)),
        (b"1", True),
    ]
    assert await orders.decode(records[-1]) is None


async def test_a_value_of_another_type_is_refused_alone(kafka_broker: DevBroker, kafka_producer: KafkaProducer) -> None:
    clicks = Topic[Click]("clicks")
    wrong: Any = Order(id=1)
    with pytest.raises(SerializationError, match="it is a Order, not of the topic's type Click"):
        await clicks.send(kafka_producer, wrong)
    outcomes = await clicks.send_many(kafka_producer, [Click("/a"), wrong, Click("/b")], return_exceptions=True)
    assert [isinstance(one, SerializationError) for one in outcomes] == [False, True, False]
    assert [json.loads(one.value or b"") for one in kafka_broker.records("clicks")] == [{"page": "/a"}, {"page": "/b"}]


async def test_structs_of_msgspec_are_values_of_topics_too(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer
) -> None:
    payments: Topic[Payment | Refund] = Topic[Payment | Refund]("payments", key=lambda payment: payment.number)
    bound = payments.bind(kafka_producer)
    wrong: Any = "much"
    first, refused, last = await bound.send_many([Payment(1, 20), Payment(2, wrong), Refund(1)], return_exceptions=True)
    assert isinstance(refused, SerializationError)
    assert "Expected `int`, got `str` - at `$.amount`" in str(refused)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)
    records = sorted(kafka_broker.records("payments"), key=lambda record: record.value or b"")
    assert [(record.key, record.value) for record in records] == [
        (b"1", b'{"type":"Payment","number":1,"amount":20}'),
        (b"1", b'{"type":"Refund","number":1}'),
    ]
    assert [await payments.decode(record) for record in records] == [Payment(1, 20), Refund(1)]
    with pytest.raises(SerializationError, match="not of the topic's type"):
        await Topic("plain", Payment).send(kafka_producer, Refund(1))  # type: ignore[arg-type]


async def test_a_key_that_fails_is_the_records_own_error(kafka_producer: KafkaProducer) -> None:
    broken = Topic[Order]("orders", key=lambda order: 1 // (order.id - 1))
    with pytest.raises(SerializationError, match="ZeroDivisionError") as caught:
        await broken.send(kafka_producer, Order(id=1))
    assert caught.value.topic == "orders"


async def test_a_producer_with_serializers_is_refused(kafka_broker: DevBroker) -> None:
    producer: KafkaProducer[Any, Any] = KafkaProducer(kafka_broker.bootstrap_servers, value_serializer=str.encode)
    with pytest.raises(ConfigurationError, match="twice"):
        orders.bind(producer)


def test_a_topic_without_a_type_says_how_to_give_it() -> None:
    untyped: Topic[Any] = Topic("orders")
    with pytest.raises(ConfigurationError, match=r"Topic\[Order\]\('orders'\)"):
        _ = untyped.model


async def test_a_registrys_serializer_keeps_the_order_of_calls(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, registry: SchemaRegistryClient
) -> None:
    kafka_broker.create_topic("orders", partitions=1)
    typed = Topic[Order](
        "orders",
        serializer=AvroSerializer(registry, Order, auto_register_schemas=True, schema_id_in="headers"),
        deserializer=AvroDeserializer(registry, Order),
    )
    bound = typed.bind(kafka_producer)
    await kafka_producer.partitions_for("orders")
    with pytest.raises(IllegalStateError, match="async serializer"):
        bound.send_nowait(Order(id=0))
    await asyncio.gather(*(bound.send(Order(id=number)) for number in range(20)))
    await bound.send_many([Order(id=20), Order(id=21)])
    await bound.send_nowait(Order(id=22))
    found = [await typed.decode(record) for record in kafka_broker.records("orders")]
    assert found == [Order(id=number) for number in range(23)]
    assert headers_of(kafka_broker, "orders").keys() == {"__value_schema_id"}


# CloudEvents


@pytest.mark.parametrize("mode", ["binary", "structured"])
async def test_the_cloudevents_library_reads_our_events(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, mode: Any
) -> None:
    events: CloudEvents[Order] = CloudEvents(
        "/shop",
        type="order.placed",
        mode=mode,
        id=lambda order: f"order-{order.id}",
        subject=lambda order: order.customer,
        extensions=lambda order: {"priority": 3},
    )
    typed = Topic[Order]("orders", cloud_events=events)
    await typed.send(kafka_producer, Order(id=7))
    (record,) = kafka_broker.records("orders")
    read_headers: Any = dict(record.headers)
    message = KafkaMessage(read_headers, b"", record.value or b"")
    read = from_binary if mode == "binary" else from_structured
    unmarshal = json.loads if mode == "binary" else None
    event: Any = read(message, data_unmarshaller=unmarshal, event_type=CloudEvent)
    wanted = {"id": "order-7", "source": "/shop", "type": "order.placed", "subject": "ann", "specversion": "1.0"}
    found = event.get_attributes()
    assert {name: found[name] for name in wanted} == wanted
    assert str(found["priority"]) == "3"
    assert event.get_data() == {"id": 7, "customer": "ann"}
    assert await typed.decode(record) == Order(id=7)


async def test_data_that_is_not_json_goes_in_base64(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, registry: SchemaRegistryClient
) -> None:
    typed = Topic[Order](
        "orders",
        serializer=AvroSerializer(registry, Order, auto_register_schemas=True),
        deserializer=AvroDeserializer(registry, Order),
        cloud_events=CloudEvents("/shop", mode="structured", datacontenttype="application/avro"),
    )
    await typed.send(kafka_producer, Order(id=7))
    (record,) = kafka_broker.records("orders")
    assert "data_base64" in json.loads(record.value or b"")
    assert await typed.decode(record) == Order(id=7)


# dead letters


@pytest.fixture
async def letters(kafka_broker: DevBroker) -> AsyncIterator[DeadLetters]:
    async with KafkaProducer(kafka_broker.bootstrap_servers) as plain, DeadLetters(plain, max_pending=2) as letters:
        yield letters


async def test_a_value_that_a_serializer_refuses_is_a_dead_letter_with_its_reason(
    kafka_broker: DevBroker, letters: DeadLetters
) -> None:
    def refuses(order: Any) -> bytes:
        raise ValueError(f"the password is {order}")

    producer: KafkaProducer[Any, Any] = KafkaProducer(kafka_broker.bootstrap_servers, value_serializer=refuses)
    async with producer:
        guarded = letters.guard(producer)
        with pytest.raises(SerializationError, match="ValueError"):
            await guarded.send("orders", {"id": 7}, key=b"k", timestamp_ms=5, headers={"mine": b"1"}, partition=0)
        await letters.drain()
    (letter,) = kafka_broker.records("orders.dlq")
    assert (letter.key, letter.value) == (b"k", b'{"id":7}')
    headers = headers_of(kafka_broker, "orders.dlq")
    assert headers["mine"] == b"1"
    assert {name: value for name, value in headers.items() if name.startswith("dead_letter.")} == {
        "dead_letter.topic": b"orders",
        "dead_letter.partition": b"0",
        "dead_letter.timestamp_ms": b"5",
        "dead_letter.error": b"aiokafkapy.errors.local.SerializationError",
        "dead_letter.message": b"A key, value, header or request could not be turned into bytes. (builtins.ValueError)",
        "dead_letter.key_form": b"bytes",
        "dead_letter.value_form": b"json",
    }
    assert letters.counts.written == 1


@pytest.mark.parametrize("call", ["send", "enqueue", "send_nowait", "send_many"])
async def test_a_record_that_the_broker_refuses_for_good_is_a_dead_letter_in_every_call(
    kafka_broker: DevBroker, letters: DeadLetters, kafka_producer: KafkaProducer, call: str
) -> None:
    await kafka_producer.partitions_for("orders")
    kafka_broker.controls.fail_next(ApiKey.PRODUCE, InvalidRecordError, topic="orders")
    guarded = letters.guard(kafka_producer)
    with pytest.raises(InvalidRecordError):
        if call == "send_many":
            await guarded.send_many("orders", [b"bad"])
        elif call == "send_nowait":
            await guarded.send_nowait("orders", b"bad")
        elif call == "enqueue":
            await (await guarded.enqueue("orders", b"bad", delivery_timeout_ms=30_000))
        else:
            await guarded.send("orders", b"bad")
    await letters.drain()
    (letter,) = kafka_broker.records("orders.dlq")
    assert letter.value == b"bad"
    assert headers_of(kafka_broker, "orders.dlq")["dead_letter.partition"] == b"0"


async def test_a_record_that_may_work_later_is_not_a_dead_letter(kafka_broker: DevBroker, letters: DeadLetters) -> None:
    async with KafkaProducer(kafka_broker.bootstrap_servers, retries=0, enable_idempotence=False) as producer:
        kafka_broker.controls.fail_next(ApiKey.PRODUCE, NotEnoughReplicasError, topic="orders")
        with pytest.raises(NotEnoughReplicasError):
            await letters.guard(producer).send("orders", b"later")
        await letters.drain()
    assert letters.counts.written == 0


async def test_a_registry_that_is_away_makes_no_dead_letters(kafka_broker: DevBroker, letters: DeadLetters) -> None:
    async with SchemaRegistry() as server, SchemaRegistryClient(server.url, timeout_ms=50) as away:
        server.fail_next(times=1_000)
        serializer = JsonSchemaSerializer(away, Click)
        producer: KafkaProducer[Any, Click] = KafkaProducer(kafka_broker.bootstrap_servers, value_serializer=serializer)
        async with producer:
            with pytest.raises(SerializationError, match="RegistryUnavailableError"):
                await letters.guard(producer).send("clicks", Click("/"))
        assert letters.counts == type(letters.counts)()


async def test_a_record_that_is_too_large_leaves_its_value_out(kafka_broker: DevBroker) -> None:
    async with (
        KafkaProducer(kafka_broker.bootstrap_servers, max_request_size=2_000) as producer,
        DeadLetters(producer, "dead", max_payload_bytes=1_000) as letters,
    ):
        with pytest.raises(RecordTooLargeError):
            await letters.guard(producer).send("orders", b"x" * 3_000, key=b"k")
        await letters.drain()
    (letter,) = kafka_broker.records("dead")
    assert (letter.key, letter.value) == (b"k", None)
    form = headers_of(kafka_broker, "dead")["dead_letter.value_form"]
    assert form == b"left out: 3000 bytes, at most 1000 are kept"


async def test_a_dead_letter_that_fails_is_logged_and_counted_and_no_dead_letter_again(
    kafka_broker: DevBroker, letters: DeadLetters, caplog: pytest.LogCaptureFixture
) -> None:
    kafka_broker.controls.fail_next(ApiKey.PRODUCE, InvalidRecordError, times=10)
    async with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
        guarded = letters.guard(producer)
        with caplog.at_level(logging.WARNING), pytest.raises(InvalidRecordError):
            await guarded.send("orders", b"bad")
        with caplog.at_level(logging.WARNING):
            await letters.drain()
        # Nor is a record that somebody sends to the dead-letter topic itself.
        with pytest.raises(InvalidRecordError):
            await guarded.send("orders.dlq", b"bad")
        await letters.drain()
    assert (letters.counts.written, letters.counts.failed) == (0, 1)
    assert "dead_letter.failed" in caplog.text


async def test_no_more_are_under_way_than_allowed(kafka_broker: DevBroker, letters: DeadLetters) -> None:
    for number in range(5):
        letters.refuse(ProducerRecord("orders", str(number).encode()), errors.InvalidRecordError("bad"))
    assert (letters.counts.pending, letters.counts.dropped) == (2, 3)
    await letters.drain()
    assert len(kafka_broker.records("orders.dlq")) == 2


async def test_a_typed_topics_refusals_are_dead_letters(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, letters: DeadLetters
) -> None:
    guarded: GuardedProducer = letters.guard(kafka_producer)
    wrong: Any = {"id": "seven"}
    bound = orders.bind(guarded)
    with pytest.raises(SerializationError):
        await bound.send(wrong)
    await letters.drain()
    outcomes = await bound.send_many([Order(id=1), wrong], return_exceptions=True)
    assert isinstance(outcomes[1], SerializationError)
    await letters.drain()
    assert [one.value for one in kafka_broker.records("orders.dlq")] == [b'{"id":"seven"}'] * 2


async def test_a_wrong_name_of_a_dead_letter_topic_harms_no_caller(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, caplog: pytest.LogCaptureFixture
) -> None:
    letters = DeadLetters(kafka_producer, lambda topic: topic.missing)  # type: ignore[attr-defined]
    kafka_broker.controls.fail_next(ApiKey.PRODUCE, InvalidRecordError)
    with caplog.at_level(logging.ERROR), pytest.raises(InvalidRecordError):
        await letters.guard(kafka_producer).send("orders", b"bad")
    assert (letters.counts.failed, letters.counts.pending) == (1, 0)
    assert "AttributeError" in caplog.text


async def test_a_producer_of_dead_letters_is_plain(kafka_broker: DevBroker) -> None:
    servers = kafka_broker.bootstrap_servers
    for options in ({"transactional_id": "t"}, {"value_serializer": str.encode}):
        producer: Any = KafkaProducer(servers, **options)
        with pytest.raises(ConfigurationError, match="dead letters"):
            DeadLetters(producer)


# the example


async def test_the_example_of_typed_orders_runs(kafka_broker: DevBroker) -> None:
    async with SchemaRegistry() as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__).parents[2] / "examples" / "typed_orders.py"),
            env={
                **os.environ,
                "AIOKAFKAPY_BOOTSTRAP_SERVERS": kafka_broker.bootstrap_servers,
                "SCHEMA_REGISTRY_URL": server.url,
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors_told = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors_told.decode()
    lines = out.decode().splitlines()
    assert sorted(line.split("customer=")[1].split()[0] for line in lines if line.startswith("read:")) == [
        "'ann'",
        "'bob'",
        "'cleo'",
    ]
    assert any(line.startswith("refused:") for line in lines)
    assert "dead letters: 1" in lines
    assert dict(kafka_broker.records("orders")[0].headers)["ce_type"] == b"order.placed"
