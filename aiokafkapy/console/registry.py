"""Records of a schema registry, for the console: Avro, Protobuf and JSON Schema, each by its own deserializer.

Owns the choice of the deserializer by the schema's type, and the conversion of its result to JSON. The registry's
client and the formats are ``integrations.schema_registry``'s, imported when a registry is asked for.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..common import Headers, JsonValue
from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..integrations.schema_registry.deserializer import RegistryDeserializer

__all__ = ["RegistryDecoder"]


class RegistryDecoder:
    """A ``Decoder`` over a registry. Rules of data contracts are not run: the record is shown as it was written."""

    def __init__(self, url: str, **options: Any) -> None:
        """``options`` are the registry client's. ConfigurationError when the extra is missing."""
        try:
            from ..integrations.schema_registry import SchemaRegistryClient
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"a schema registry needs {error.name}: pip install 'aiokafkapy[schema-registry]'"
            ) from error
        self._client = SchemaRegistryClient(url, **options)
        self._deserializers: dict[tuple[str, bool], RegistryDeserializer[object]] = {}

    async def close(self) -> None:
        """Close the registry's connections."""
        await self._client.close()

    async def __call__(self, data: bytes, headers: Headers, is_key: bool) -> tuple[str, JsonValue]:
        """The schema's type in lower case, and the data. Raises the errors of deserializers."""
        from ..integrations.schema_registry.wire_format import find_schema_id

        found, _ = find_schema_id(data, headers, is_key=is_key)
        if found.guid is not None:
            registered = await self._client.schema_by_guid(found.guid)
        else:
            registered = await self._client.schema_by_id(found.id or 0)
        kind = registered.schema.type
        deserializer = self._deserializers.get((kind, is_key))
        if deserializer is None:
            deserializer = self._deserializers[kind, is_key] = self._new(kind, is_key=is_key)
        return kind.lower(), _plain(await deserializer(data, headers))

    def _new(self, kind: str, *, is_key: bool) -> RegistryDeserializer[object]:
        from ..integrations import schema_registry as formats

        if kind == "AVRO":
            return formats.AvroDeserializer(self._client, is_key=is_key, ignore_rules=True)
        if kind == "PROTOBUF":
            return formats.ProtobufDeserializer(self._client, is_key=is_key, ignore_rules=True)
        return formats.JsonSchemaDeserializer(self._client, is_key=is_key, ignore_rules=True, validate=False)


def _plain(value: Any) -> JsonValue:
    """The data as JSON's types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.standard_b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value, preserving_proto_field_name=True)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
