"""A producer with schemas, the registry for tests, and Confluent's own client, serializers and deserializers on it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, cast
from uuid import UUID, uuid4

import pytest
from confluent_kafka import schema_registry as confluent
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from pydantic import BaseModel, ConfigDict, Field

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import SerializationError
from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    DeserializationError,
    IncompatibleSchemaError,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRulesError,
    record_name_strategy,
)
from aiokafkapy.reader import PartitionReader
from aiokafkapy.testing import SchemaRegistry
from tests.system.protobuf_messages import file_of, message_of, message_types

TOPIC = "orders"
IN_HEADERS = "headers"
CONFLUENTS = {"confluent": "confluent_kafka.schema_registry."}
CONTEXT = SerializationContext(TOPIC, MessageField.VALUE, [])


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    item: str
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: int
    customer: str
    lines: list[Line] = []
    note: str | None = None
    placed: datetime = datetime(2026, 11, 24, 12, 30, 15, 123456, UTC)
    token: UUID = Field(default_factory=uuid4)


@dataclass
class Click:
    page: str
    seconds: float = 0.0


ORDER = Order(id=7, customer="ann", lines=[Line(item="tea", price=Decimal("3.50"))])

AVRO_TEXT = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
AVRO_NEXT = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"amount","type":"long"}]}'
JSON_TEXT = '{"title":"Ticket","type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}'


@pytest.fixture
async def server() -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry() as server:
        yield server


@pytest.fixture
async def registry(server: SchemaRegistry) -> AsyncIterator[SchemaRegistryClient]:
    async with SchemaRegistryClient(server.url) as registry:
        yield registry


@pytest.fixture
def client(server: SchemaRegistry) -> Iterator[confluent.SchemaRegistryClient]:
    """Confluent's."""
    with confluent.SchemaRegistryClient({"url": server.url}) as client:
        yield client


async def theirs(call: Callable[[], Any]) -> Any:
    """The result of their code, which blocks its thread."""
    return await asyncio.to_thread(call)


async def written(broker: DevBroker, serializer: Any, *values: Any, **options: Any) -> list[Any]:
    """The records that a producer with this serializer wrote."""
    producer: KafkaProducer[Any, Any] = KafkaProducer(broker.bootstrap_servers, value_serializer=serializer, **options)
    async with producer:
        await asyncio.gather(*(producer.send(TOPIC, value, headers=[("mine", b"1")]) for value in values))
    return list(broker.records(TOPIC))


# our own way


async def test_orders_are_written_and_read_back_by_a_reader(
    kafka_broker: DevBroker, server: SchemaRegistry, registry: SchemaRegistryClient
) -> None:
    kafka_broker.create_topic(TOPIC, partitions=1)
    orders = [ORDER.model_copy(update={"id": number}) for number in range(50)]
    await written(kafka_broker, AvroSerializer(registry, Order, auto_register_schemas=True), *orders)
    deserializer = AvroDeserializer(registry, Order)
    found: list[Order | None] = []
    async with PartitionReader(kafka_broker.bootstrap_servers, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition(TOPIC, 0)])
        while len(found) < len(orders):
            found += [await deserializer.of(record) for record in await reader.fetch()]
    assert found == orders
    # Fifty records at once, and one registration; the reader had the schema's id.
    assert server.request_count("POST", "/subjects/orders-value/versions") == 1
    assert server.request_count() <= 2


async def test_a_record_is_serialized_without_waiting_once_the_topic_is_prepared(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    serializer = JsonSchemaSerializer(registry, Click, auto_register_schemas=True)
    producer: KafkaProducer[bytes, Click] = KafkaProducer(kafka_broker.bootstrap_servers, value_serializer=serializer)
    async with producer:
        await producer.partitions_for(TOPIC)
        await serializer.prepare(TOPIC)
        await producer.send_nowait(TOPIC, Click("/tea", 1.5))
        before = registry.requests
        await producer.send(TOPIC, Click("/cups"))
        assert registry.requests == before
    deserializer = JsonSchemaDeserializer(registry, Click)
    assert [await deserializer.of(one) for one in kafka_broker.records(TOPIC)] == [Click("/tea", 1.5), Click("/cups")]


async def test_nothing_is_registered_unless_asked_for(kafka_broker: DevBroker, server: SchemaRegistry) -> None:
    async with SchemaRegistryClient(server.url) as registry:
        with pytest.raises(SerializationError, match="auto_register_schemas") as caught:
            await written(kafka_broker, AvroSerializer(registry, AVRO_TEXT), {"id": 1})
        assert caught.value.__cause__ is not None
        assert "orders-value" in str(caught.value)
        assert server.store.subjects() == []
        await registry.register("orders-value", Schema(AVRO_TEXT))
        assert len(await written(kafka_broker, AvroSerializer(registry, AVRO_TEXT), {"id": 1})) == 1


async def test_a_schema_that_breaks_compatibility_says_the_field(
    kafka_broker: DevBroker, server: SchemaRegistry, registry: SchemaRegistryClient
) -> None:
    server.register("orders-value", AVRO_TEXT)
    with pytest.raises(SerializationError, match="'amount'") as caught:
        await written(
            kafka_broker, AvroSerializer(registry, AVRO_NEXT, auto_register_schemas=True), {"id": 1, "amount": 2}
        )
    cause = caught.value.__cause__
    assert isinstance(cause, IncompatibleSchemaError)
    assert cause.status == 409
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in one for one in cause.problems)


async def test_data_that_does_not_fit_names_the_field_and_not_the_value(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    for serializer, wanted in (
        (AvroSerializer(registry, AVRO_TEXT, auto_register_schemas=True), "Order.id is a str, not long"),
        (
            JsonSchemaSerializer(
                registry, JSON_TEXT, subject_name_strategy=record_name_strategy, auto_register_schemas=True
            ),
            r"\$.id breaks type: \"integer\"",
        ),
    ):
        with pytest.raises(SerializationError, match=wanted) as caught:
            await written(kafka_broker, serializer, {"id": "secret"})
        assert "secret" not in str(caught.value)


@dataclass
class Payment:
    id: int
    paid: bool


@pytest.mark.parametrize(
    ("schema", "data", "wanted"),
    [
        (AVRO_TEXT, {"id": 1.7}, "Order.id is a float, not long"),
        (Payment, Payment(1, cast(bool, "false")), "Payment.paid is a str, not boolean"),
        ("bytes", 5, "the data is a int, not bytes"),
        ("bytes", "abc", "the data is a str, not bytes"),
    ],
)
async def test_data_that_avro_would_write_as_other_data_is_refused(
    schema: Any, data: Any, wanted: str, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    serializer = AvroSerializer(registry, schema, auto_register_schemas=True)
    with pytest.raises(SerializationError, match=f"it does not fit its Avro schema: {wanted}$"):
        await written(kafka_broker, serializer, data)


async def test_avro_data_that_is_trusted_is_not_checked(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    serializer = AvroSerializer(registry, AVRO_TEXT, auto_register_schemas=True, validate=False)
    records = await written(kafka_broker, serializer, {"id": 1.7})
    assert await AvroDeserializer(registry).of(records[0]) == {"id": 1}


async def test_the_latest_version_is_written_when_asked_for(
    kafka_broker: DevBroker, server: SchemaRegistry, registry: SchemaRegistryClient
) -> None:
    server.register("orders-value", AVRO_TEXT)
    server.set_compatibility("NONE")
    newest = server.register("orders-value", AVRO_NEXT)
    records = await written(kafka_broker, AvroSerializer(registry, use_latest_version=True), {"id": 1, "amount": 2})
    assert records[0].value[1:5] == newest.to_bytes(4, "big")
    assert await AvroDeserializer(registry).of(records[0]) == {"id": 1, "amount": 2}
    # A reader's own schema: missing parts are skipped.
    assert await AvroDeserializer(registry, AVRO_TEXT).of(records[0]) == {"id": 1}


def rule(name: str, mode: confluent.RuleMode, *, disabled: bool = False) -> confluent.Rule:
    kind = confluent.RuleKind.TRANSFORM
    return confluent.Rule(name, None, kind, mode, "SHOUT", ["PII"], None, None, None, None, disabled)


@pytest.mark.parametrize("how", ["looked up", "registered", "latest"])
async def test_a_schema_with_rules_that_nobody_runs_is_refused_unless_they_are_to_be_ignored(
    how: str, kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    rules = [rule("encryptPII", confluent.RuleMode.WRITEREAD), rule("old", confluent.RuleMode.WRITE, disabled=True)]
    schema = confluent.Schema(AVRO_TEXT, "AVRO", rule_set=confluent.RuleSet(None, rules))
    await theirs(lambda: client.register_schema("orders-value", schema))
    options: dict[str, Any] = {
        "auto_register_schemas": how == "registered",
        "use_latest_version": how == "latest",
    }
    with pytest.raises(SerializationError, match=r"rules of unknown types for WRITE: encryptPII \(SHOUT\)\.") as caught:
        await written(kafka_broker, AvroSerializer(registry, AVRO_TEXT, **options), {"id": 1})
    cause = caught.value.__cause__
    assert isinstance(cause, SchemaRulesError)
    assert cause.rules == ("encryptPII (SHOUT)",)
    records = await written(kafka_broker, AvroSerializer(registry, AVRO_TEXT, ignore_rules=True, **options), {"id": 1})
    assert await AvroDeserializer(registry, ignore_rules=True).of(records[-1]) == {"id": 1}


async def test_a_writer_does_not_apply_the_rules_of_readers(
    kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    rules = [rule("decrypt", confluent.RuleMode.READ)]
    schema = confluent.Schema(AVRO_TEXT, "AVRO", rule_set=confluent.RuleSet(None, rules))
    await theirs(lambda: client.register_schema("orders-value", schema))
    assert await written(kafka_broker, AvroSerializer(registry, AVRO_TEXT), {"id": 1})
    found = await theirs(lambda: client.get_latest_version("orders-value"))
    assert found.schema.rule_set.domain_rules[0].name == "decrypt"


async def test_the_latest_version_is_looked_up_again_and_kept_while_the_registry_is_away(
    server: SchemaRegistry,
) -> None:
    server.register("orders-value", AVRO_TEXT)
    server.set_compatibility("NONE")
    async with SchemaRegistryClient(server.url, latest_cache_ttl_ms=0, timeout_ms=50) as registry:
        serializer = AvroSerializer(registry, use_latest_version=True)

        async def serialized(data: Any) -> bytes:
            found = serializer(TOPIC, data)
            return found if isinstance(found, bytes) else await found

        assert (await serialized({"id": 1}))[:5] == b"\x00\x00\x00\x00\x01"
        server.register("orders-value", AVRO_NEXT)
        assert (await serialized({"id": 1, "amount": 2}))[:5] == b"\x00\x00\x00\x00\x02"
        server.fail_next(times=10_000)
        assert (await serialized({"id": 1, "amount": 2}))[:5] == b"\x00\x00\x00\x00\x02"


async def test_a_schema_may_refer_to_others(
    kafka_broker: DevBroker, server: SchemaRegistry, registry: SchemaRegistryClient
) -> None:
    server.register("money", '{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}')
    server.register("city.json", '{"type":"string","minLength":2}', "JSON")
    avro = Schema(
        '{"type":"record","name":"Bill","fields":[{"name":"sum","type":"Money"}]}',
        references=(SchemaReference("Money", "money", 1),),
    )
    json_schema = Schema(
        '{"title":"Address","type":"object","properties":{"city":{"$ref":"city.json"}}}',
        "JSON",
        (SchemaReference("city.json", "city.json", 1),),
    )
    bill = {"sum": {"cents": 5}}
    records = await written(kafka_broker, AvroSerializer(registry, avro, auto_register_schemas=True), bill)
    assert await AvroDeserializer(registry).of(records[0]) == bill
    options: Any = {"auto_register_schemas": True, "subject_name_strategy": record_name_strategy}
    records = await written(kafka_broker, JsonSchemaSerializer(registry, json_schema, **options), {"city": "Rome"})
    assert await JsonSchemaDeserializer(registry).of(records[1]) == {"city": "Rome"}
    with pytest.raises(SerializationError, match="minLength"):
        await written(kafka_broker, JsonSchemaSerializer(registry, json_schema, **options), {"city": "X"})


async def test_keys_have_a_subject_of_their_own(kafka_broker: DevBroker, registry: SchemaRegistryClient) -> None:
    producer: KafkaProducer[str, Order] = KafkaProducer(
        kafka_broker.bootstrap_servers,
        key_serializer=AvroSerializer(registry, "string", is_key=True, auto_register_schemas=True),
        value_serializer=AvroSerializer(registry, Order, auto_register_schemas=True, schema_id_in="headers"),
    )
    async with producer:
        await producer.send(TOPIC, ORDER, key="ann", headers={"mine": b"1"})
        await producer.send(TOPIC, ORDER, key="ann", headers={"mine": b"1"})  # the registry is not asked any more
    record, second = kafka_broker.records(TOPIC)
    assert (second.key, second.value, list(second.headers)) == (record.key, record.value, list(record.headers))
    assert sorted(await registry.subjects()) == ["orders-key", "orders-value"]
    assert [name for name, _ in record.headers] == ["mine", "__value_schema_id"]
    assert await AvroDeserializer(registry, is_key=True).of(record) == "ann"
    assert await AvroDeserializer(registry, Order).of(record) == ORDER


async def test_bytes_of_another_format_are_reported_so(registry: SchemaRegistryClient) -> None:
    schema = await registry.register("a", Schema(JSON_TEXT, "JSON"))
    data = b"\x00" + schema.id.to_bytes(4, "big") + b"{}"
    with pytest.raises(DeserializationError, match="JSON, not AVRO"):
        await AvroDeserializer(registry)(data)
    with pytest.raises(SchemaNotFoundError, match="id 99"):
        await AvroDeserializer(registry)(b"\x00\x00\x00\x00\x63{}")
    with pytest.raises(DeserializationError, match="schema 1 cannot be read: JSONDecodeError"):
        await JsonSchemaDeserializer(registry)(b"\x00\x00\x00\x00\x01{")


async def test_data_that_breaks_its_writers_schema_cannot_be_read(registry: SchemaRegistryClient) -> None:
    schema = await registry.register("a", Schema('{"type":"object","required":["city"]}', "JSON"))
    with pytest.raises(DeserializationError, match="breaks required"):
        await JsonSchemaDeserializer(registry)(b"\x00" + schema.id.to_bytes(4, "big") + b"{}")


@pytest.mark.filterwarnings("default")  # as with a user
async def test_a_model_that_was_changed_is_validated_again(registry: SchemaRegistryClient) -> None:
    serializer = JsonSchemaSerializer(registry, Order, auto_register_schemas=True)
    await serializer.prepare("orders")
    with pytest.raises(SerializationError, match="another type") as caught:
        serializer("orders", ORDER.model_copy(update={"id": "secret"}))
    assert "secret" not in str(caught.value)


async def test_a_decimal_alone_is_avros(registry: SchemaRegistryClient) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4}
    serializer = AvroSerializer(registry, schema, auto_register_schemas=True)
    await serializer.prepare("orders")
    written = serializer("orders", Decimal(25))
    assert isinstance(written, bytes)
    assert await AvroDeserializer(registry)(written) == Decimal(25)


# Confluent's


@pytest.mark.parametrize("place", ["prefix", IN_HEADERS])
async def test_confluents_deserializers_read_ours(
    kafka_broker: DevBroker, client: confluent.SchemaRegistryClient, registry: SchemaRegistryClient, place: Any
) -> None:
    order_type, label_type = message_types()
    order = order_type(id=7)
    order.customer.name = "ann"  # type: ignore[attr-defined]
    label = label_type(text="fragile")
    options: Any = {
        "auto_register_schemas": True,
        "schema_id_in": place,
        "subject_name_strategy": record_name_strategy,
    }
    await written(kafka_broker, AvroSerializer(registry, Order, **options), ORDER)
    await written(kafka_broker, JsonSchemaSerializer(registry, JSON_TEXT, **options), {"id": 7})
    await written(kafka_broker, ProtobufSerializer(registry, order_type, **options), order)
    records = await written(kafka_broker, ProtobufSerializer(registry, label_type, **options), label)
    readers = [
        confluent_avro.AvroDeserializer(client),
        confluent_json.JSONDeserializer(None, schema_registry_client=client),
        confluent_protobuf.ProtobufDeserializer(order_type, {}, client),
        confluent_protobuf.ProtobufDeserializer(label_type, {}, client),
    ]
    found = []
    for reader, record in zip(readers, records, strict=True):
        headers = list(record.headers)
        assert len(headers) == (2 if place == IN_HEADERS else 1)
        context = SerializationContext(TOPIC, MessageField.VALUE, headers)
        found.append(await theirs(partial(reader, record.value, context)))
    assert found[0]["lines"][0]["price"] == Decimal("3.50")
    assert found[0]["placed"] == ORDER.placed
    assert found[1:] == [{"id": 7}, order, label]


@pytest.mark.parametrize("place", ["prefix", IN_HEADERS])
async def test_ours_read_the_bytes_of_confluents_serializers(
    client: confluent.SchemaRegistryClient, registry: SchemaRegistryClient, place: str
) -> None:
    order_type, label_type = message_types()
    order = order_type(id=7)
    order.customer.name = "ann"  # type: ignore[attr-defined]
    label = label_type(text="fragile")
    conf: dict[str, Any] = {"subject.name.strategy": confluent.record_subject_name_strategy}
    if place == IN_HEADERS:
        conf["schema.id.serializer"] = confluent.header_schema_id_serializer

    async def wrote(make: Callable[[], Any], data: Any) -> Any:
        context = SerializationContext(TOPIC, MessageField.VALUE, [])
        data = await theirs(lambda: make()(data, context))
        return data, context.headers

    avro = await wrote(lambda: confluent_avro.AvroSerializer(client, AVRO_TEXT, conf=conf), {"id": 7})
    json_data = await wrote(lambda: confluent_json.JSONSerializer(JSON_TEXT, client, conf=conf | {}), {"id": 8})
    ordered = await wrote(lambda: confluent_protobuf.ProtobufSerializer(order_type, client, conf=conf), order)
    labelled = await wrote(lambda: confluent_protobuf.ProtobufSerializer(label_type, client, conf=conf), label)
    assert await AvroDeserializer(registry)(*avro) == {"id": 7}
    assert await JsonSchemaDeserializer(registry)(*json_data) == {"id": 8}
    assert await ProtobufDeserializer(registry, order_type)(*ordered) == order
    assert await ProtobufDeserializer(registry, label_type)(*labelled) == label
    # Without a class of ours, from the writer's schema and those that it imports.
    made: Any = await ProtobufDeserializer(registry)(*ordered)
    assert (made.id, made.customer.name) == (7, "ann")
    nested: Any = await ProtobufDeserializer(registry)(*labelled)
    assert nested.text == "fragile"


@pytest.mark.parametrize(
    ("imported", "type_name"),
    [
        ("confluent/meta.proto", "confluent.Meta"),
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
        ("google/type/money.proto", "google.type.Money"),
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp"),
    ],
)
async def test_files_that_everybody_has_are_not_registered(
    client: confluent.SchemaRegistryClient, registry: SchemaRegistryClient, imported: str, type_name: str
) -> None:
    importlib.import_module(f"{CONFLUENTS.get(imported.partition('/')[0], '')}{imported[:-6].replace('/', '.')}_pb2")
    order = message_of("Order", name=9, known=f".{type_name}")
    file = file_of(f"{uuid4().hex}.proto", f"knowing_{uuid4().hex}", order, uses=imported)
    pool = descriptor_pool.Default()  # which has the imported files
    pool.AddSerializedFile(file.SerializeToString())
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.Order"))
    theirs_writes = confluent_protobuf.ProtobufSerializer(kind, client)
    data = await theirs(lambda: theirs_writes(kind(name="ann"), CONTEXT))
    made: Any = await ProtobufDeserializer(registry)(data)
    assert made.name == "ann"
    written_again = ProtobufSerializer(registry, kind)(TOPIC, kind(name="ann"))
    assert not isinstance(written_again, bytes)
    assert await written_again == data, "it is found as they have registered it"
    assert await registry.subjects() == ["orders-value"]
    assert (await registry.latest("orders-value")).schema.references == ()


async def test_confluents_client_finds_the_registry_as_its_own(client: confluent.SchemaRegistryClient) -> None:
    def use() -> None:
        schema = confluent.Schema(AVRO_TEXT, "AVRO")
        first = client.register_schema(TOPIC, schema)
        assert client.lookup_schema(TOPIC, schema).schema_id == first
        assert client.get_latest_version(TOPIC).version == 1
        assert client.get_version(TOPIC, 1).schema.schema_str == AVRO_TEXT
        assert client.get_subjects() == [TOPIC]
        assert client.get_versions(TOPIC) == [1]
        assert client.test_compatibility(TOPIC, confluent.Schema(AVRO_NEXT, "AVRO")) is False
        client.set_compatibility(TOPIC, "NONE")
        assert client.get_compatibility(TOPIC) == "NONE"
        client.register_schema(TOPIC, confluent.Schema(AVRO_NEXT, "AVRO"))
        assert client.delete_version(TOPIC, 1) == 1
        assert client.delete_subject(TOPIC) == [2]
        assert client.delete_subject(TOPIC, permanent=True) == [1, 2]
        with pytest.raises(confluent.SchemaRegistryError) as caught:
            client.get_latest_version("nothing")
        assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)
        client.update_mode(TOPIC, "READONLY")
        with pytest.raises(confluent.SchemaRegistryError) as caught:
            client.register_schema(TOPIC, confluent.Schema(AVRO_NEXT, "AVRO"), False)
        assert caught.value.error_code == 42205

    await theirs(use)
