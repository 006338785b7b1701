"""Records of a schema registry in the console: keys and values in Avro, Protobuf and JSON, by their schemas."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.console.broker_source import BrokerSource
from aiokafkapy.console.follow import Asked, read_page
from aiokafkapy.console.registry import RegistryDecoder
from aiokafkapy.integrations.schema_registry import (
    AvroSerializer,
    JsonSchemaSerializer,
    ProtobufSerializer,
    SchemaRegistryClient,
)
from aiokafkapy.testing.schema_registry import SchemaRegistry
from tests.system.protobuf_messages import message_types

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
JSON = json.dumps({"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}})


@pytest.fixture
async def server() -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry() as server:
        yield server


def serializer_and_order(registry: SchemaRegistryClient, form: str, is_key: bool) -> tuple[Any, Any]:
    options: dict[str, Any] = {"auto_register_schemas": True, "is_key": is_key}
    if form == "avro":
        return AvroSerializer(registry, AVRO, **options), {"id": 7}
    if form == "json":
        return JsonSchemaSerializer(registry, JSON, **options), {"id": 7}
    order_type, _ = message_types()
    return ProtobufSerializer(registry, order_type, **options), order_type(id=7)


@pytest.mark.parametrize("form", ["avro", "protobuf", "json"])
@pytest.mark.parametrize("is_key", [False, True], ids=["value", "key"])
async def test_keys_and_values_are_shown_by_their_schemas(
    kafka_broker: DevBroker, server: SchemaRegistry, form: str, is_key: bool
) -> None:
    async with SchemaRegistryClient(server.url) as registry:
        serializer, order = serializer_and_order(registry, form, is_key)
        options: dict[str, Any] = {"key_serializer" if is_key else "value_serializer": serializer}
        async with KafkaProducer(kafka_broker.bootstrap_servers, **options) as producer:
            sent: dict[str, Any] = {"value": b"plain", "key": order} if is_key else {"value": order}
            await producer.send("orders", **sent)
    decoder = RegistryDecoder(server.url)
    try:
        source = BrokerSource(kafka_broker)
        asked = Asked.of({"topic": "orders", "from": "earliest", "filter": "7"})
        page: Any = await read_page(source, asked, decoder, 10)
        (row,) = page["rows"]
        shown = row["key" if is_key else "value"]
        number = "7" if form == "protobuf" else 7  # JSON of Protobuf has its 64-bit numbers in quotes
        assert (shown["form"], json.loads(shown["text"])) == (form, {"id": number})
        # Data that names a missing schema is shown as bytes.
        strange = Asked.of({"topic": "orders", "from": "earliest", "value_form": "hex", "key_form": "hex"})
        page = await read_page(source, strange, decoder, 10)
        (row,) = page["rows"]
        assert row["key" if is_key else "value"]["form"] == "hex"
    finally:
        await decoder.close()
