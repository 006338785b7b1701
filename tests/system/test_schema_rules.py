"""The rules of data contracts: run by ours, and by Confluent's serializers and deserializers on the same registry."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Annotated, Any, ClassVar

import pytest
from confluent_kafka import schema_registry as confluent
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.serialization import MessageField, SerializationContext
from confluent_kafka.serialization import SerializationError as TheirSerializationError
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pydantic import BaseModel, Field

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import ConfigurationError, SerializationError
from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    DeserializationError,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    KeyManagementError,
    LocalKms,
    Metadata,
    PreparedRule,
    ProtobufDeserializer,
    ProtobufSerializer,
    Rule,
    RuleContext,
    RuleFailedError,
    RuleSet,
    Schema,
    SchemaRegistryClient,
    SchemaRules,
    SchemaRulesError,
    json_schema,
    protobuf_schema,
)
from aiokafkapy.testing import SchemaRegistry
from aiokafkapy.typed import DeadLetters, Topic

pytest.importorskip("celpy", reason="cel-python is not installed: pip install 'aiokafkapy[schema-rules]'")
pytest.importorskip("jsonata", reason="jsonata-python is not installed: pip install 'aiokafkapy[schema-rules]'")
pytest.importorskip("tink", reason="tink, with which Confluent's client encrypts, is not installed")

TOPIC = "orders"
SUBJECT = "orders-value"
SECRET = "a secret of the test"
CONTEXT = SerializationContext(TOPIC, MessageField.VALUE, [])

PII = ["PII"]
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "confluent:tags": PII},
        {"name": "photo", "type": "bytes", "confluent:tags": PII},
        {"name": "lines", "type": {"type": "array", "items": "string"}, "confluent:tags": PII},
        {"name": "note", "type": "string"},
    ],
}
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"oneOf": [{"type": "null"}, {"type": "string"}], "confluent:tags": PII},
        "photo": {"type": "string", "confluent:tags": PII},
        "lines": {"type": "array", "items": {"type": "string"}, "confluent:tags": PII},
        "note": {"type": "string"},
    },
}


def order_type() -> Any:
    """A message whose fields have Confluent's tags, as ``meta.proto`` gives them."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    kinds = [("id", 3, 1), ("name", 9, 1), ("photo", 12, 1), ("lines", 9, 3), ("note", 9, 1)]
    for number, (name, kind, label) in enumerate(kinds, 1):
        one = message.field.add(
            name=name, number=number, type=field.Type.ValueType(kind), label=field.Label.ValueType(label)
        )
        if name in ("name", "photo", "lines"):
            # field_meta (1088) with tags (3): "PII"
            one.options.MergeFromString(b"\x82\x44\x05\x1a\x03PII")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER: dict[str, Any] = {
    "id": 7,
    "name": "ann baker",
    "photo": b"\x01\x02",
    "lines": ["green tea", "cup"],
    "note": "soon",
}
AS_JSON = ORDER | {"photo": "AQI="}
Message = order_type()
AS_MESSAGE = Message(**ORDER)


class Format:
    """One format, by ours and by theirs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.schema: Schema = {
            "avro": lambda: Schema(json.dumps(AVRO)),
            "json": lambda: Schema(json.dumps(JSON), "JSON"),
            "protobuf": lambda: protobuf_schema(Message),
        }[name]()
        self.order: Any = {"avro": ORDER, "json": AS_JSON, "protobuf": AS_MESSAGE}[name]

    def changed(self, **fields: Any) -> Any:
        if self.name == "protobuf":
            made = Message()
            made.CopyFrom(AS_MESSAGE)
            for name, value in fields.items():
                setattr(made, name, value)
            return made
        return self.order | fields

    def serializer(self, registry: SchemaRegistryClient, **options: Any) -> Any:
        if self.name == "protobuf":
            return ProtobufSerializer(registry, Message, **options)
        kind: Any = AvroSerializer if self.name == "avro" else JsonSchemaSerializer
        return kind(registry, self.schema, **options)

    def deserializer(self, registry: SchemaRegistryClient, **options: Any) -> Any:
        if self.name == "protobuf":
            return ProtobufDeserializer(registry, Message, **options)
        kind: Any = AvroDeserializer if self.name == "avro" else JsonSchemaDeserializer
        return kind(registry, **options)

    def their_serializer(self, client: Any) -> Any:
        conf = {"auto.register.schemas": False, "use.latest.version": True}
        rules: Any = {"rule_conf": {"secret": SECRET}, "rule_registry": their_rules()}
        if self.name == "avro":
            return confluent_avro.AvroSerializer(client, None, None, conf, **rules)
        if self.name == "json":
            return confluent_json.JSONSerializer(self.schema.text, client, None, conf, **rules)
        return confluent_protobuf.ProtobufSerializer(Message, client, conf, **rules)

    def their_deserializer(self, client: Any, **conf: Any) -> Any:
        rules: Any = {"rule_conf": {"secret": SECRET}, "rule_registry": their_rules()}
        if self.name == "avro":
            return confluent_avro.AvroDeserializer(client, None, conf=conf, **rules)
        if self.name == "json":
            return confluent_json.JSONDeserializer(None, None, client, conf=conf, **rules)
        return confluent_protobuf.ProtobufDeserializer(Message, conf, client, **rules)


_their_executors: list[Any] = []


def untyped(kind: Any) -> Any:
    """A class of theirs whose ``__init__`` has no types."""
    return kind


def their_rules() -> Any:
    from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
    from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
    from confluent_kafka.schema_registry.rules.encryption import encrypt_executor
    from confluent_kafka.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver
    from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor

    LocalKmsDriver.register()
    registry: Any = untyped(RuleRegistry)()
    encrypting = [encrypt_executor.EncryptionExecutor(), encrypt_executor.FieldEncryptionExecutor()]
    for executor in (*(untyped(kind)() for kind in (CelExecutor, CelFieldExecutor, JsonataExecutor)), *encrypting):
        registry.register_executor(executor)
    _their_executors.extend(encrypting)
    return registry


@pytest.fixture(params=["avro", "json", "protobuf"])
def form(request: pytest.FixtureRequest) -> Format:
    return Format(request.param)


class MovableClock:
    """The registry's: the machine's time, moved by ``offset`` seconds."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return time.time() + self.offset


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def server(clock: MovableClock) -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry(clock=clock) as server:
        server.set_compatibility("NONE")
        yield server


@pytest.fixture
async def registry(server: SchemaRegistry) -> AsyncIterator[SchemaRegistryClient]:
    async with SchemaRegistryClient(server.url) as registry:
        yield registry


@pytest.fixture
def client(server: SchemaRegistry) -> Iterator[confluent.SchemaRegistryClient]:
    with confluent.SchemaRegistryClient({"url": server.url}) as client:
        yield client
    while _their_executors:
        _their_executors.pop().close()


async def theirs(call: Callable[[], Any]) -> Any:
    """The result of their code, which blocks its thread."""
    return await asyncio.to_thread(call)


async def with_rules(
    registry: SchemaRegistryClient, schema: Schema, *rules: Rule, metadata: Metadata | None = None, **phases: Any
) -> Schema:
    """Register the schema with these rules of data, or with those of other phases."""
    made = Schema(schema.text, schema.type, schema.references, RuleSet(rules, **phases), metadata)
    await registry.register(SUBJECT, made)
    return made


async def written(broker: DevBroker, serializer: Any, *values: Any) -> list[Any]:
    """The records that a producer with this serializer wrote."""
    producer: KafkaProducer[Any, Any] = KafkaProducer(broker.bootstrap_servers, value_serializer=serializer)
    async with producer:
        for value in values:
            await producer.send(TOPIC, value)
    return list(broker.records(TOPIC))


def encryption(algorithm: str = "AES256_GCM", **params: str) -> Rule:
    given = {
        "encrypt.kek.name": f"kek-{algorithm}",
        "encrypt.kms.type": "local-kms",
        "encrypt.kms.key.id": "mykey",
        "encrypt.dek.algorithm": algorithm,
    }
    all_params = tuple((given | params).items())
    return Rule("encryptPII", "ENCRYPT", "WRITEREAD", tags=frozenset(PII), params=all_params, on_failure="ERROR,NONE")


def secret_rules(**options: Any) -> SchemaRules:
    return SchemaRules(kms=[LocalKms(SECRET)], **options)


# conditions and transformations


async def test_a_condition_lets_matching_messages_through(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    condition = Rule("short", "CEL", "WRITE", "CONDITION", "size(message.note) < 5", doc="a note has 4 characters")
    await with_rules(registry, form.schema, condition)
    records = await written(kafka_broker, form.serializer(registry), form.order)
    assert await form.deserializer(registry).of(records[0]) == form.order
    assert await theirs(lambda: form.their_deserializer(client)(records[0].value, CONTEXT)) == form.order
    with pytest.raises(SerializationError, match=r"'short' .CEL, WRITE. .*: a note has 4 characters") as caught:
        await written(kafka_broker, form.serializer(registry), form.changed(note="never"))
    assert isinstance(caught.value.__cause__, RuleFailedError)
    assert "never" not in str(caught.value)
    assert len(kafka_broker.records(TOPIC)) == 1
    # Theirs says the same.
    with pytest.raises(TheirSerializationError):
        await theirs(lambda: form.their_serializer(client)(form.changed(note="never"), CONTEXT))
    ours = await theirs(lambda: form.their_serializer(client)(form.order, CONTEXT))
    assert ours == records[0].value


async def test_fields_are_changed_by_their_tags_as_theirs_changes_them(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    rule = Rule("loud", "CEL_FIELD", "WRITE", "TRANSFORM", "typeName == 'STRING' ; value + '!' + name", frozenset(PII))
    await with_rules(registry, form.schema, rule)
    before = form.changed()
    records = await written(kafka_broker, form.serializer(registry), before)
    assert before == form.order  # the caller's own data is left alone
    found = await form.deserializer(registry).of(records[0])
    field: Any = partial(getattr, found) if form.name == "protobuf" else found.__getitem__
    assert field("name") == "ann baker!name"
    assert list(field("lines")) == ["green tea!lines", "cup!lines"]
    assert field("note") == "soon"
    assert records[0].value == await theirs(lambda: form.their_serializer(client)(form.changed(), CONTEXT))


async def test_a_message_is_changed_as_a_whole(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    expression = (
        "{'id': message.id + 1, 'name': 'bob', 'photo': message.photo, 'lines': ['x'], 'note': message.note + '.'}"
    )
    await with_rules(registry, form.schema, Rule("next", "CEL", "WRITE", "TRANSFORM", expression))
    records = await written(kafka_broker, form.serializer(registry), form.order)
    found = await form.deserializer(registry).of(records[0])
    wanted = form.changed(id=8, note="soon.", name="bob")
    if form.name == "protobuf":
        del wanted.lines[:]
        wanted.lines.append("x")
    else:
        wanted = wanted | {"lines": ["x"]}
    assert found == wanted


async def test_readers_run_their_rules_and_tags_of_the_metadata_count(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    tags = (("**.note", frozenset({"LOUD"})),)
    rule = Rule("up", "CEL_FIELD", "READ", "TRANSFORM", "value + '!'", frozenset({"LOUD"}))
    await with_rules(registry, form.schema, rule, metadata=Metadata(tags))
    records = await written(kafka_broker, form.serializer(registry), form.order)
    wanted = form.changed(note="soon!")
    assert await form.deserializer(registry).of(records[0]) == wanted
    assert await form.deserializer(registry)(records[0].value, topic=TOPIC) == wanted
    assert await form.deserializer(registry, ignore_rules=True).of(records[0]) == form.order
    assert await theirs(lambda: form.their_deserializer(client)(records[0].value, CONTEXT)) == wanted
    with pytest.raises(ConfigurationError, match="need the record's topic"):
        await form.deserializer(registry)(records[0].value)


async def test_the_newest_versions_rules_are_run_when_it_is_written(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    await registry.register(SUBJECT, form.schema)
    await with_rules(registry, form.schema, Rule("no", "CEL", "WRITE", "CONDITION", "message.id > 100"))
    with pytest.raises(SerializationError, match=r"its condition does not hold: message.id > 100"):
        await written(kafka_broker, form.serializer(registry, use_latest_version=True), form.order)


async def test_rules_that_are_disabled_or_not_for_clients_are_not_run(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    form = Format("avro")
    off = Rule("off", "CEL", "WRITE", "CONDITION", "false", disabled=True)
    await with_rules(registry, form.schema, off)
    assert await written(kafka_broker, form.serializer(registry), form.order)
    await with_rules(registry, form.schema, Rule("on", "CEL", "WRITE", "CONDITION", "false"), enable_at="CLUSTER")
    assert await written(kafka_broker, form.serializer(registry, use_latest_version=True), form.order)


async def test_a_failure_whose_action_is_none_leaves_the_message_as_it_was(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    form = Format("avro")
    rules = (
        Rule("broken", "CEL", "WRITE", "TRANSFORM", "message.nothing.there", on_failure="NONE"),
        Rule("loud", "CEL_FIELD", "WRITE", "TRANSFORM", "name == 'note' ; value + '!'"),
    )
    await with_rules(registry, form.schema, *rules)
    records = await written(kafka_broker, form.serializer(registry), form.order)
    assert await form.deserializer(registry).of(records[0]) == form.changed(note="soon!")


async def test_a_rule_of_an_unknown_type_is_refused_and_one_of_ones_own_is_run(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    await with_rules(registry, form.schema, Rule("mine", "SHOUT", "WRITE"))
    with pytest.raises(SerializationError, match=r"unknown types for WRITE: mine \(SHOUT\)") as caught:
        await written(kafka_broker, form.serializer(registry), form.order)
    assert isinstance(caught.value.__cause__, SchemaRulesError)
    assert caught.value.__cause__.rules == ("mine (SHOUT)",)

    class Shout:
        async def prepare(self, context: RuleContext) -> PreparedRule:
            return PreparedRule(lambda message, walk: form.changed(note="SOON"))

    options = {"rules": SchemaRules(executors={"shout": Shout()})}
    records = await written(kafka_broker, form.serializer(registry, **options), form.order)
    assert await form.deserializer(registry).of(records[0]) == form.changed(note="SOON")
    records = await written(kafka_broker, form.serializer(registry, ignore_rules=True), form.order)
    assert await form.deserializer(registry).of(records[-1]) == form.order


# encryption


@pytest.mark.parametrize("algorithm", ["AES256_GCM", "AES128_GCM", "AES256_SIV"])
async def test_fields_that_ours_encrypts_theirs_decrypts(
    algorithm: str,
    form: Format,
    kafka_broker: DevBroker,
    server: SchemaRegistry,
    registry: SchemaRegistryClient,
    client: confluent.SchemaRegistryClient,
) -> None:
    await with_rules(registry, form.schema, encryption(algorithm))
    serializer = form.serializer(registry, rules=secret_rules())
    records = await written(kafka_broker, serializer, form.order, form.order)
    for record in records:
        assert b"ann baker" not in record.value
        assert b"green tea" not in record.value
        assert await theirs(partial(form.their_deserializer(client), record.value, CONTEXT)) == form.order
        assert await form.deserializer(registry, rules=secret_rules()).of(record) == form.order
    # A deterministic cipher writes the same twice, the others never.
    assert (records[0].value == records[1].value) is (algorithm == "AES256_SIV")
    # Every record of a topic by one key, which was made once.
    assert server.request_count("POST", "/deks/") == 1


@pytest.mark.parametrize("algorithm", ["AES256_GCM", "AES256_SIV"])
async def test_fields_that_theirs_encrypts_ours_decrypts(
    algorithm: str, form: Format, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    await with_rules(registry, form.schema, encryption(algorithm))
    value = await theirs(lambda: form.their_serializer(client)(form.changed(), CONTEXT))
    assert b"ann baker" not in value
    assert await form.deserializer(registry, rules=secret_rules())(value, topic=TOPIC) == form.order


async def test_keys_that_are_renewed_are_named_in_the_ciphertext(
    form: Format,
    kafka_broker: DevBroker,
    clock: MovableClock,
    server: SchemaRegistry,
    registry: SchemaRegistryClient,
    client: confluent.SchemaRegistryClient,
) -> None:
    await with_rules(registry, form.schema, encryption(**{"encrypt.dek.expiry.days": "1"}))
    clock.offset = -2 * 86_400  # the first key is made two days ago
    serializer = form.serializer(registry, rules=secret_rules())
    records = await written(kafka_broker, serializer, form.order)
    clock.offset = 0
    records = await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)
    deserializer = form.deserializer(registry, rules=secret_rules())
    assert server.request_count("POST", "/deks/") == 2
    for record in records:
        assert await deserializer.of(record) == form.order
        assert await theirs(partial(form.their_deserializer(client), record.value, CONTEXT)) == form.order
    value = await theirs(lambda: form.their_serializer(client)(form.changed(), CONTEXT))
    assert await deserializer(value, topic=TOPIC) == form.order


async def test_payloads_are_encrypted_both_ways(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    rule = encryption()
    payload = Rule("all", "ENCRYPT_PAYLOAD", "WRITEREAD", params=rule.params)
    await with_rules(registry, form.schema, encoding_rules=(payload,))
    records = await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)
    assert b"soon" not in records[0].value
    assert await form.deserializer(registry, rules=secret_rules()).of(records[0]) == form.order
    assert await theirs(lambda: form.their_deserializer(client)(records[0].value, CONTEXT)) == form.order
    value = await theirs(lambda: form.their_serializer(client)(form.changed(), CONTEXT))
    assert await form.deserializer(registry, rules=secret_rules())(value, topic=TOPIC) == form.order


async def test_a_reader_without_the_key_gets_the_ciphertext_where_the_rule_says_so(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    form = Format("avro")
    await with_rules(registry, form.schema, encryption())
    records = await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)
    for rules in (SchemaRules(), SchemaRules(kms=[LocalKms("another secret")])):
        found = await form.deserializer(registry, rules=rules).of(records[0])
        assert found["id"] == 7
        assert found["name"] != "ann baker"
    # A writer without it writes nothing.
    with pytest.raises(SerializationError, match="no key management for 'local-kms'"):
        await written(kafka_broker, form.serializer(registry), form.order)


async def test_a_reader_with_a_model_of_its_own_gets_the_decrypted_data(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    class Order(BaseModel):
        __avro_namespace__: ClassVar[str] = "shop"
        id: int
        name: str | None
        more: str = "none"

    wanted = Order(id=7, name="ann baker")
    for form in (Format("avro"), Format("json")):
        await with_rules(registry, form.schema, encryption())
        records = await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)
        kind: Any = AvroDeserializer if form.name == "avro" else JsonSchemaDeserializer
        assert await kind(registry, Order, rules=secret_rules()).of(records[-1]) == wanted


async def test_a_model_is_written_by_its_schemas_rules(kafka_broker: DevBroker, registry: SchemaRegistryClient) -> None:
    class Order(BaseModel):
        name: Annotated[str, Field(json_schema_extra={"confluent:tags": PII})]

    schema = Schema(json.dumps(json_schema(Order)), "JSON")
    await with_rules(registry, schema, encryption())
    serializer = JsonSchemaSerializer(registry, Order, rules=secret_rules())
    records = await written(kafka_broker, serializer, Order(name="ann baker"))
    assert b"ann baker" not in records[0].value
    deserializer = JsonSchemaDeserializer(registry, Order, rules=secret_rules())
    assert await deserializer.of(records[0]) == Order(name="ann baker")


async def test_an_unreachable_key_management_is_reported_and_no_rule_lets_it_pass(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    class Away(LocalKms):
        async def decrypt(self, key_id: str, ciphertext: bytes, properties: Any) -> bytes:
            raise ConnectionError("away")

    form = Format("avro")
    await with_rules(registry, form.schema, encryption())
    records = await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)
    with pytest.raises(KeyManagementError, match="could not decrypt with the key 'kek-AES256_GCM'"):
        await form.deserializer(registry, rules=SchemaRules(kms=[Away(SECRET)])).of(records[0])


async def test_an_unreachable_registry_is_reported_when_keys_are_asked_for(
    server: SchemaRegistry, kafka_broker: DevBroker
) -> None:
    form = Format("avro")
    async with SchemaRegistryClient(server.url, timeout_ms=50) as registry:
        await with_rules(registry, form.schema, encryption())
        server.fail_next(times=10_000, path="dek-registry")
        with pytest.raises(SerializationError, match="no answer within timeout_ms"):
            await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)
        server.clear_faults()
        assert await written(kafka_broker, form.serializer(registry, rules=secret_rules()), form.order)


# migrations

OLD = {"type": "record", "name": "Order", "fields": [{"name": "size", "type": "long"}]}
NEW = {"type": "record", "name": "Order", "fields": [{"name": "height", "type": "long"}]}
UPGRADE = "$merge([$sift($, function($v, $k) {$k != 'size'}), {'height': $.'size'}])"
DOWNGRADE = "$merge([$sift($, function($v, $k) {$k != 'height'}), {'size': $.'height'}])"
OLD_JSON = {"type": "object", "title": "Order", "properties": {"size": {"type": "integer"}}}
NEW_JSON = {"type": "object", "title": "Order", "properties": {"height": {"type": "integer"}}}
MIGRATIONS = (
    Rule("up", "JSONATA", "UPGRADE", expr=UPGRADE),
    Rule("down", "JSONATA", "DOWNGRADE", expr=DOWNGRADE),
)


@pytest.mark.parametrize("name", ["avro", "json"])
async def test_data_of_an_older_version_is_migrated_to_the_newest(
    name: str, kafka_broker: DevBroker, registry: SchemaRegistryClient, client: confluent.SchemaRegistryClient
) -> None:
    form = Format(name)
    old = Schema(json.dumps(OLD)) if name == "avro" else Schema(json.dumps(OLD_JSON), "JSON")
    new = Schema(json.dumps(NEW)) if name == "avro" else Schema(json.dumps(NEW_JSON), "JSON")
    kind: Any = AvroSerializer if name == "avro" else JsonSchemaSerializer
    await registry.register(SUBJECT, old)
    await with_rules(registry, new, migration_rules=MIGRATIONS)
    records = await written(kafka_broker, kind(registry, old), {"size": 3})
    records = await written(kafka_broker, kind(registry, new), {"height": 4})
    deserializer = form.deserializer(registry, use_latest_version=True)
    assert [await deserializer.of(one) for one in records] == [{"height": 3}, {"height": 4}]
    their = form.their_deserializer(client, **{"use.latest.version": True})
    assert await theirs(lambda: their(records[0].value, CONTEXT)) == {"height": 3}
    # Without it, each comes as it was written.
    assert await form.deserializer(registry).of(records[0]) == {"size": 3}


async def test_data_of_a_newer_version_is_migrated_down(
    server: SchemaRegistry, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    old, new = Schema(json.dumps(OLD)), Schema(json.dumps(NEW))
    await registry.register(SUBJECT, old)
    await with_rules(registry, new, migration_rules=MIGRATIONS)
    records = await written(kafka_broker, AvroSerializer(registry, new), {"height": 4})
    # The newest is deleted: the subject goes back to the version before.
    server.store.delete_version(SUBJECT, "2")
    deserializer = AvroDeserializer(registry, use_latest_version=True)
    assert await deserializer.of(records[0]) == {"size": 4}


async def test_an_expression_without_end_is_ended(registry: SchemaRegistryClient) -> None:
    rule = Rule("loop", "JSONATA", "UPGRADE", expr="($f := function($x) { 1 + $f($x + 1) }; $f(1))")
    run = await SchemaRules().prepare((rule,), "UPGRADE", SUBJECT, Schema("{}"), registry)
    with pytest.raises(RuleFailedError, match="it failed"):
        run({"size": 1})


# dead letters


async def test_a_rule_names_its_dead_letter_topic_and_encrypted_fields_are_hidden(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    condition = Rule(
        "short",
        "CEL",
        "WRITE",
        "CONDITION",
        "size(message.note) < 5",
        params=(("dlq.topic", "orders.short"),),
        on_failure="DLQ",
    )
    await with_rules(registry, form.schema, encryption(), condition)
    kafka_broker.create_topic("orders.short")
    serializer = form.serializer(registry, rules=secret_rules())
    servers = kafka_broker.bootstrap_servers
    producer: KafkaProducer[Any, Any] = KafkaProducer(servers, value_serializer=serializer)
    async with producer, KafkaProducer(servers) as plain, DeadLetters(plain) as letters:
        guarded = letters.guard(producer)
        with pytest.raises(SerializationError):
            await guarded.send(TOPIC, form.changed(note="never"))
    (letter,) = kafka_broker.records("orders.short")
    assert b"ann baker" not in (letter.value or b"")
    assert b"green tea" not in (letter.value or b"")
    headers = dict(letter.headers)
    assert headers["__rule.name"] == b"short"
    assert headers["__rule.mode"] == b"WRITE"
    assert headers["__rule.subject"] == SUBJECT.encode()
    assert headers["__rule.topic"] == TOPIC.encode()
    if form.name != "protobuf":
        assert json.loads(letter.value or b"")["name"] == "<REDACTED>"
        assert json.loads(letter.value or b"")["note"] == "never"


async def test_a_typed_topics_dead_letters_are_hidden_too(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    form = Format("avro")
    await with_rules(registry, form.schema, encryption(), Rule("no", "CEL", "WRITE", "CONDITION", "false"))
    kafka_broker.create_topic("orders.dlq")
    serializer = form.serializer(registry, rules=secret_rules())
    orders: Topic[Any] = Topic(TOPIC, dict, serializer=serializer)
    servers = kafka_broker.bootstrap_servers
    async with KafkaProducer(servers) as producer, KafkaProducer(servers) as plain, DeadLetters(plain) as letters:
        bound = orders.bind(letters.guard(producer))
        for _ in range(2):  # with the topic's first record the registry is asked, with others not
            with pytest.raises(SerializationError):
                await bound.send(dict(form.order))
        with pytest.raises(SerializationError):
            await bound.send_many([dict(form.order)])
    letters_there = kafka_broker.records("orders.dlq")
    assert len(letters_there) == 3
    assert not any(b"ann baker" in (one.value or b"") for one in letters_there)


async def test_a_record_that_a_readers_rule_refuses_is_a_dead_letter_that_is_read_without_it(
    kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    form = Format("avro")
    rule = Rule("short", "CEL", "READ", "CONDITION", "size(message.note) < 3", on_failure="DLQ")
    await with_rules(registry, form.schema, rule)
    kafka_broker.create_topic("orders.dlq")
    records = await written(kafka_broker, form.serializer(registry), form.order)
    async with KafkaProducer(kafka_broker.bootstrap_servers) as plain, DeadLetters(plain) as letters:
        deserializer = form.deserializer(registry, rules=SchemaRules(dead_letters=letters))
        with pytest.raises(DeserializationError, match=r"'short' .CEL, READ."):
            await deserializer.of(records[0])
    (letter,) = kafka_broker.records("orders.dlq")
    assert letter.value == records[0].value
    headers = dict(letter.headers)
    assert headers["__rule.name"] == b"short"
    # Its subject is the original's, and the rule that refused it is not run again.
    assert await deserializer(letter.value, letter.headers, topic=TOPIC) == form.order


async def test_a_dead_letter_hides_fields_that_could_not_be_encrypted_for_want_of_a_key(
    form: Format, kafka_broker: DevBroker, registry: SchemaRegistryClient
) -> None:
    await with_rules(registry, form.schema, encryption())
    kafka_broker.create_topic("orders.dlq")
    servers = kafka_broker.bootstrap_servers
    serializer = form.serializer(registry)  # no key management
    producer: KafkaProducer[Any, Any] = KafkaProducer(servers, value_serializer=serializer)
    async with producer, KafkaProducer(servers) as plain, DeadLetters(plain) as letters:
        with pytest.raises(SerializationError, match="no key management"):
            await letters.guard(producer).send(TOPIC, form.order)
    (letter,) = kafka_broker.records("orders.dlq")
    assert b"ann baker" not in (letter.value or b"")
    # For a topic with an unknown schema a serializer with keys shows nothing.
    assert form.serializer(registry, rules=secret_rules()).redacted("another", form.order) is None
    assert form.serializer(registry).redacted("another", form.order) is form.order
