"""The part that the deserializers of all formats share: a record's writer schema.

Owns the way from a record's bytes and headers to its writer's schema, and the decoders that are remembered for each.
A format adds a ``Decoder``. Confluent's counterpart is ``AbstractKafkaSchemaSerDe``.

Rules: None stays None (a tombstone); the id of a header comes before that of the first bytes, as in Confluent's; bytes
that cannot be read are a ``DeserializationError`` that shows none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeAlias, TypeVar

from aiokafkapy.common import ConsumedRecord
from aiokafkapy.errors import KafkaError, SerializationError

from .client import SchemaRegistryClient
from .schemas import RegisteredSchema
from .wire_format import SchemaId, find_schema_id

__all__ = ["Decoder", "DeserializationError", "RegistryDeserializer"]

T_co = TypeVar("T_co", covariant=True)

Decoder: TypeAlias = Callable[[bytes], Any]

_MAX_DECODERS: Final = 1_000


class DeserializationError(KafkaError, ValueError):
    """A record's bytes cannot be read with the schema that they name."""


class RegistryDeserializer(ABC, Generic[T_co]):
    """Turns bytes that name their schema into data.

    ``await deserializer(data, headers)``, or ``await deserializer.of(record)``. ``is_key`` for the keys of records.
    """

    def __init__(self, registry: SchemaRegistryClient, *, is_key: bool = False) -> None:
        self._registry = registry
        self._is_key = is_key
        self._decoders: OrderedDict[object, Decoder] = OrderedDict()

    async def __call__(self, data: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> T_co | None:
        """The data of a key or value; None for None.

        Raises WireFormatError, SchemaRegistryError, DeserializationError.
        """
        if data is None:
            return None
        found, rest = find_schema_id(data, headers, is_key=self._is_key)
        name, payload = self._path_and_payload(found, rest)
        decode = self._decoders.get((found.name, name))
        if decode is None:
            registered = await self._registered(found)
            decode = await self._decoder_for(registered, name)
            self._decoders[(found.name, name)] = decode
            while len(self._decoders) > _MAX_DECODERS:
                self._decoders.popitem(last=False)
        try:
            decoded: T_co = decode(bytes(payload))
        except SerializationError as error:  # of the check against the writer's schema: it names field and rule
            raise DeserializationError(
                f"a {'key' if self._is_key else 'value'} written with schema {found.name} cannot be read: {error}"
            ) from None
        except KafkaError:
            raise
        except Exception as error:
            # The cause's own text may have the data in it.
            raise DeserializationError(
                f"a {'key' if self._is_key else 'value'} written with schema {found.name} cannot be read: "
                f"{type(error).__name__}"
            ) from error
        return decoded

    async def of(self, record: ConsumedRecord) -> T_co | None:
        """The data of a record that was read: its key with ``is_key``, else its value."""
        return await self(record.key if self._is_key else record.value, record.headers)

    # for the formats

    @abstractmethod
    async def _decoder_for(self, registered: RegisteredSchema, path: tuple[int, ...]) -> Decoder:
        """The reader of data of this writer's schema. Raises DeserializationError for one of another format."""

    def _path_and_payload(self, found: SchemaId, rest: memoryview) -> tuple[tuple[int, ...], memoryview]:
        """The path to the message's type, which Protobuf alone has, and the data."""
        return (), rest

    _format: str | None = None
    """The form in which the registry is asked for a schema."""

    # internals

    async def _registered(self, found: SchemaId) -> RegisteredSchema:
        if found.guid is not None:
            return await self._registry.schema_by_guid(found.guid, format=self._format)
        return await self._registry.schema_by_id(found.id or 0, format=self._format)
