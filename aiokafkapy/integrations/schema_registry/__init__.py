"""Records whose schema a registry has: Confluent's wire format, as Karapace and Apicurio speak it too.

    registry = SchemaRegistryClient("https://registry:8081", basic_auth_user_info="user:password")
    producer = KafkaProducer("kafka:9092", value_serializer=AvroSerializer(registry, Order))

A schema or a model comes in, with data; bytes go out that name the schema's id, and come back as data. Contents:
``client`` and ``transport`` (the registry), ``wire_format``, ``subjects``, ``data_contracts``, ``rules`` (which runs
them), and one module for each format. Needs
``pip install 'aiokafkapy[schema-registry]'``.

Rule: a format's module, and its library, is imported when its first name is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiokafkapy.integrations.schema_registry.avro import AvroDeserializer, AvroSerializer
    from aiokafkapy.integrations.schema_registry.avro_models import avro_schema
    from aiokafkapy.integrations.schema_registry.client import Compatibility, SchemaRegistryClient
    from aiokafkapy.integrations.schema_registry.config import RegistryConfig
    from aiokafkapy.integrations.schema_registry.data_contracts import Metadata, Rule, RuleSet
    from aiokafkapy.integrations.schema_registry.deserializer import DeserializationError
    from aiokafkapy.integrations.schema_registry.errors import (
        IncompatibleSchemaError,
        InvalidSchemaError,
        KeyManagementError,
        RegistryAuthenticationError,
        RegistryUnavailableError,
        RuleFailedError,
        SchemaNotFoundError,
        SchemaRegistryError,
        SchemaRulesError,
        SubjectNotFoundError,
        VersionNotFoundError,
    )
    from aiokafkapy.integrations.schema_registry.json_schemas import (
        JsonSchemaDeserializer,
        JsonSchemaSerializer,
        json_schema,
    )
    from aiokafkapy.integrations.schema_registry.protobuf import (
        ProtobufDeserializer,
        ProtobufSerializer,
        protobuf_schema,
    )
    from aiokafkapy.integrations.schema_registry.rules.kms import KmsDriver, LocalKms
    from aiokafkapy.integrations.schema_registry.rules.running import (
        PreparedRule,
        RuleContext,
        RuleExecutor,
        SchemaRules,
    )
    from aiokafkapy.integrations.schema_registry.schemas import RegisteredSchema, Schema, SchemaReference
    from aiokafkapy.integrations.schema_registry.subjects import (
        record_name_strategy,
        topic_name_strategy,
        topic_record_name_strategy,
    )
    from aiokafkapy.integrations.schema_registry.wire_format import WireFormatError

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "Compatibility",
    "DeserializationError",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "KeyManagementError",
    "KmsDriver",
    "LocalKms",
    "Metadata",
    "PreparedRule",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryAuthenticationError",
    "RegistryConfig",
    "RegistryUnavailableError",
    "Rule",
    "RuleContext",
    "RuleExecutor",
    "RuleFailedError",
    "RuleSet",
    "Schema",
    "SchemaNotFoundError",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SchemaRules",
    "SchemaRulesError",
    "SubjectNotFoundError",
    "VersionNotFoundError",
    "WireFormatError",
    "avro_schema",
    "json_schema",
    "protobuf_schema",
    "record_name_strategy",
    "topic_name_strategy",
    "topic_record_name_strategy",
]

_HOMES = {
    "avro": ("AvroDeserializer", "AvroSerializer"),
    "avro_models": ("avro_schema",),
    "client": ("Compatibility", "SchemaRegistryClient"),
    "config": ("RegistryConfig",),
    "data_contracts": ("Metadata", "Rule", "RuleSet"),
    "deserializer": ("DeserializationError",),
    "errors": (
        "IncompatibleSchemaError",
        "InvalidSchemaError",
        "KeyManagementError",
        "RegistryAuthenticationError",
        "RegistryUnavailableError",
        "RuleFailedError",
        "SchemaNotFoundError",
        "SchemaRegistryError",
        "SchemaRulesError",
        "SubjectNotFoundError",
        "VersionNotFoundError",
    ),
    "json_schemas": ("JsonSchemaDeserializer", "JsonSchemaSerializer", "json_schema"),
    "protobuf": ("ProtobufDeserializer", "ProtobufSerializer", "protobuf_schema"),
    "rules.kms": ("KmsDriver", "LocalKms"),
    "rules.running": ("PreparedRule", "RuleContext", "RuleExecutor", "SchemaRules"),
    "schemas": ("RegisteredSchema", "Schema", "SchemaReference"),
    "subjects": ("record_name_strategy", "topic_name_strategy", "topic_record_name_strategy"),
    "wire_format": ("WireFormatError",),
}


def __getattr__(name: str) -> object:
    """Import the module that holds ``name`` on first access."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
