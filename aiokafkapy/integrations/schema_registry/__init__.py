"""Records whose schema a registry has, in Confluent's wire format, which Karapace and Apicurio also speak.

    registry = SchemaRegistryClient("https://registry:8081", basic_auth_user_info="user:password")
    producer = KafkaProducer("kafka:9092", value_serializer=AvroSerializer(registry, Order))

A schema or a model comes in, with data; bytes with the schema's id go out, and come back as data. Contents: ``client``
and ``transport`` (the registry), ``wire_format``, ``subjects``, ``data_contracts``, ``rules`` (which runs the rules),
and one module for each format. Needs ``pip install 'aiokafkapy[schema-registry]'``.

Rule: a format's module, and its library, is imported when its first name is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazy_names

if TYPE_CHECKING:
    from .avro import AvroDeserializer, AvroSerializer
    from .avro_models import avro_schema
    from .client import Compatibility, SchemaRegistryClient
    from .config import RegistryConfig
    from .data_contracts import Metadata, Rule, RuleSet
    from .deserializer import DeserializationError
    from .errors import (
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
    from .json_schemas import (
        JsonSchemaDeserializer,
        JsonSchemaSerializer,
        json_schema,
    )
    from .protobuf import (
        ProtobufDeserializer,
        ProtobufSerializer,
        protobuf_schema,
    )
    from .rules.kms import KmsDriver, LocalKms
    from .rules.running import (
        PreparedRule,
        RuleContext,
        RuleExecutor,
        SchemaRules,
    )
    from .schemas import RegisteredSchema, Schema, SchemaReference
    from .subjects import (
        record_name_strategy,
        topic_name_strategy,
        topic_record_name_strategy,
    )
    from .wire_format import WireFormatError

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
    "AvroDeserializer": "avro",
    "AvroSerializer": "avro",
    "Compatibility": "client",
    "DeserializationError": "deserializer",
    "IncompatibleSchemaError": "errors",
    "InvalidSchemaError": "errors",
    "JsonSchemaDeserializer": "json_schemas",
    "JsonSchemaSerializer": "json_schemas",
    "KeyManagementError": "errors",
    "KmsDriver": "rules.kms",
    "LocalKms": "rules.kms",
    "Metadata": "data_contracts",
    "PreparedRule": "rules.running",
    "ProtobufDeserializer": "protobuf",
    "ProtobufSerializer": "protobuf",
    "RegisteredSchema": "schemas",
    "RegistryAuthenticationError": "errors",
    "RegistryConfig": "config",
    "RegistryUnavailableError": "errors",
    "Rule": "data_contracts",
    "RuleContext": "rules.running",
    "RuleExecutor": "rules.running",
    "RuleFailedError": "errors",
    "RuleSet": "data_contracts",
    "Schema": "schemas",
    "SchemaNotFoundError": "errors",
    "SchemaReference": "schemas",
    "SchemaRegistryClient": "client",
    "SchemaRegistryError": "errors",
    "SchemaRules": "rules.running",
    "SchemaRulesError": "errors",
    "SubjectNotFoundError": "errors",
    "VersionNotFoundError": "errors",
    "WireFormatError": "wire_format",
    "avro_schema": "avro_models",
    "json_schema": "json_schemas",
    "protobuf_schema": "protobuf",
    "record_name_strategy": "subjects",
    "topic_name_strategy": "subjects",
    "topic_record_name_strategy": "subjects",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
