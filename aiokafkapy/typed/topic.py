"""``Topic``: a topic whose values are of one type, and the same type for mypy, editors and the bytes.

Owns the conversion of a value to a record: its bytes, its key and headers by functions, CloudEvents if wanted. It knows
the producer's public calls and nothing behind them.

Rules:

- A topic is made once, at import, with no loop and no producer; ``bind`` ties it to a producer.
- The producer must have no serializers: the topic has them, and data would be serialized twice.
- A value of another type, and an exception of a function or serializer, is a SerializationError of that record alone.
- The order is that of the calls, also while a serializer is awaited: the producer keeps it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, get_args, get_origin, overload
from uuid import UUID

from ..common import ConsumedRecord, check_topic_name
from ..errors import ConfigurationError, SerializationError
from ..observability import describe_error
from ..producer.records import (
    BytesWithHeaders,
    CallOverflow,
    HeadersLike,
    ProducerRecord,
    RecordMetadata,
    Timestamp,
)
from .cloud_events import CloudEvents, from_cloud_event
from .dead_letters import GuardedProducer
from .deferred import Deferred, Failed
from .json_form import JsonForm, json_form
from .record_producer import RecordProducer, header_pairs

if TYPE_CHECKING:
    from .. import Delivery, Serializer

__all__ = ["BoundTopic", "Topic"]

M = TypeVar("M")

Key: TypeAlias = str | bytes | int | UUID | None
"""The types of a key function's result: text goes as UTF-8, a number and a UUID as their text."""
Deserializer: TypeAlias = Callable[..., Awaitable[Any]]
"""Called as ``await deserializer(data, headers)``, like those of ``integrations.schema_registry``."""


class Topic(Generic[M]):
    """A topic with values of one type: ``Topic[Order]("orders", key=lambda order: order.id)``.

    The type is a pydantic model, a dataclass or another type of pydantic's, or a struct of msgspec; it is written as
    JSON unless there is a ``serializer``, of a schema registry for example. ``key`` and ``headers`` are functions of
    the value. A type that cannot be written in brackets is given as ``model``.
    """

    def __init__(
        self,
        name: str,
        model: type[M] | None = None,
        *,
        key: Callable[[M], Key] | None = None,
        headers: Callable[[M], HeadersLike | None] | None = None,
        serializer: Serializer[M] | None = None,
        deserializer: Deserializer | None = None,
        cloud_events: CloudEvents[M] | None = None,
    ) -> None:
        check_topic_name(name)
        for argument, function in (("key", key), ("headers", headers), ("serializer", serializer)):
            if function is not None and not callable(function):
                raise ConfigurationError(f"topic {name!r}: {argument} is a {type(function).__name__}, not a function")
        self.name = name
        self._given_model = model
        self._key_of = key
        self._headers_of = headers
        self._serializer: Any = serializer  # called in the form of its class
        self._deserializer = deserializer
        self._cloud_events = cloud_events
        if model is not None:
            _ = self._write  # errors of the model are raised here

    @property
    def model(self) -> Any:
        """The type of its values. Raises ConfigurationError when none was given."""
        if self._given_model is not None:
            return self._given_model
        arguments = get_args(getattr(self, "__orig_class__", None)) or _inherited(type(self))
        if not arguments or isinstance(arguments[0], TypeVar):
            raise ConfigurationError(
                f"topic {self.name!r} has no type: write Topic[Order]({self.name!r}), or Topic({self.name!r}, Order)"
            )
        return arguments[0]

    @property
    def serializer(self) -> Serializer[M] | None:
        """The serializer of its values; None for JSON."""
        serializer: Serializer[M] | None = self._serializer
        return serializer

    def bind(self, producer: RecordProducer) -> BoundTopic[M]:
        """The topic with a producer: ``await orders.bind(producer).send(Order(...))``.

        Raises ConfigurationError when the producer has serializers of its own, or the topic no type.
        """
        config = producer.config
        if config.key_serializer is not None or config.value_serializer is not None:
            raise ConfigurationError(
                f"topic {self.name!r}: the producer has a serializer of its own, and the topic has one: data would be "
                "serialized twice; make the producer without"
            )
        _ = self._write
        return BoundTopic(self, producer)

    # sending: as the calls of KafkaProducer with these names

    async def send(
        self,
        producer: RecordProducer,
        value: M,
        *,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> RecordMetadata:
        """Send a value and wait until it is delivered; ``headers`` come after those of the topic's function."""
        bound = self.bind(producer)
        return await bound.send(
            value,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            delivery_timeout_ms=delivery_timeout_ms,
            overflow=overflow,
        )

    @overload
    async def send_many(
        self,
        producer: RecordProducer,
        values: Iterable[M],
        *,
        return_exceptions: Literal[False] = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata]: ...

    @overload
    async def send_many(
        self,
        producer: RecordProducer,
        values: Iterable[M],
        *,
        return_exceptions: bool,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]: ...

    async def send_many(
        self,
        producer: RecordProducer,
        values: Iterable[M],
        *,
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]:
        """Send values and wait for all."""
        return await self.bind(producer).send_many(values, return_exceptions=return_exceptions, overflow=overflow)

    def record(
        self,
        value: M,
        *,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
    ) -> ProducerRecord:
        """The record of a value, for calls that take records. Its value is an awaitable with an async serializer.

        Raises SerializationError.
        """
        try:
            key = None if self._key_of is None else _key_bytes(self._key_of(value))
            pairs = [
                *header_pairs(None if self._headers_of is None else self._headers_of(value)),
                *header_pairs(headers),
            ]
            data = self._write(value)
            if isawaitable(data):
                data = Deferred(data, lambda written: self._finished(value, written), value, self._serializer)
            else:
                data = self._finished(value, data)
                if isinstance(data, BytesWithHeaders):
                    pairs += header_pairs(data.headers)
                    data = bytes(data)
        except SerializationError as error:
            if error.topic is None:
                error.topic = self.name
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a CancelledError too: the caller was not cancelled
            raise SerializationError(
                f"a {type(value).__name__} cannot be a record of topic {self.name!r}: {type(error).__name__}: {error}",
                topic=self.name,
            ) from error
        return ProducerRecord(self.name, data, key, partition, timestamp_ms, pairs or None)

    # reading

    async def decode(self, record: ConsumedRecord) -> M | None:
        """The value of a record that was read; None for a tombstone.

        Raises the ValidationError of pydantic or msgspec, msgspec's DecodeError, or the ``deserializer``'s error;
        ConfigurationError when the topic has a ``serializer`` and no ``deserializer``.
        """
        data, headers = record.value, record.headers
        if data is None:
            return None
        if self._cloud_events is not None:
            event = from_cloud_event(data, headers)
            data = data if event is None else event[1]
        if self._deserializer is not None:
            # A schema's rules may need to know the topic.
            about = {"topic": record.topic} if getattr(self._deserializer, "wants_topic", False) else {}
            decoded: M | None = await self._deserializer(data, headers, **about)
            return decoded
        if self._serializer is not None:
            raise ConfigurationError(f"topic {self.name!r} has a serializer: to decode records give it a deserializer")
        found: M = self._form.read(data)
        return found

    # internals

    @cached_property
    def _form(self) -> JsonForm:
        try:
            return json_form(self.model)
        except ConfigurationError:
            raise
        except Exception as error:  # PydanticSchemaGenerationError, a name that is not defined
            raise ConfigurationError(
                f"topic {self.name!r}: {self.model!r} has no form in JSON: {type(error).__name__}: {error}"
            ) from error

    @cached_property
    def _write(self) -> Callable[[M], Any]:
        """Value to bytes, or to an awaitable of them."""
        serializer, name = self._serializer, self.name
        check = _type_check(self.model)
        if serializer is None:
            write = self._form.write

            def as_json(value: M) -> bytes:
                check(value)
                return write(value)

            return as_json
        wants_topic = getattr(serializer, "wants_topic", False)

        def serialized(value: M) -> Any:
            check(value)
            return serializer(name, value) if wants_topic else serializer(value)

        return serialized

    def _finished(self, value: M, data: object) -> Any:
        """The bytes as they are sent, inside an event if they are its data."""
        if self._cloud_events is None or data is None:
            return data
        if not isinstance(data, bytes | bytearray | memoryview):  # bytes(5) is five zeros
            raise SerializationError(f"the serializer of topic {self.name!r} gave a {type(data).__name__}, not bytes")
        written, headers = self._cloud_events.record_of(value, bytes(data))
        own = data.headers if isinstance(data, BytesWithHeaders) else ()
        return BytesWithHeaders(written, [*headers, *header_pairs(own)])


class BoundTopic(Generic[M]):
    """A topic and the producer that sends to it. Calls and errors are those of ``KafkaProducer``."""

    __slots__ = ("_producer", "topic")

    def __init__(self, topic: Topic[M], producer: RecordProducer) -> None:
        self.topic = topic
        self._producer = producer

    async def send(
        self,
        value: M,
        *,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> RecordMetadata:
        """Send a value and wait until it is delivered."""
        record = self._record(value, partition, timestamp_ms, headers)
        return await self._producer.send(
            **_arguments(record), delivery_timeout_ms=delivery_timeout_ms, overflow=overflow
        )

    async def enqueue(
        self,
        value: M,
        *,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> Delivery:
        """Wait until the record is accepted; await the delivery for its outcome."""
        record = self._record(value, partition, timestamp_ms, headers)
        return await self._producer.enqueue(
            **_arguments(record), delivery_timeout_ms=delivery_timeout_ms, overflow=overflow
        )

    def send_nowait(
        self,
        value: M,
        *,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> Delivery:
        """Never wait. Raises IllegalStateError while the serializer has to ask a registry."""
        record = self._record(value, partition, timestamp_ms, headers)
        return self._producer.send_nowait(
            **_arguments(record), delivery_timeout_ms=delivery_timeout_ms, overflow=overflow
        )

    @overload
    async def send_many(
        self, values: Iterable[M], *, return_exceptions: Literal[False] = False, overflow: CallOverflow | None = None
    ) -> Sequence[RecordMetadata]: ...

    @overload
    async def send_many(
        self, values: Iterable[M], *, return_exceptions: bool, overflow: CallOverflow | None = None
    ) -> Sequence[RecordMetadata | BaseException]: ...

    async def send_many(
        self, values: Iterable[M], *, return_exceptions: bool = False, overflow: CallOverflow | None = None
    ) -> Sequence[RecordMetadata | BaseException]:
        """Send values and wait for all; outcomes in their order. A value that cannot be a record leaves its error."""
        records = self._records(values)
        return await self._producer.send_many(
            self.topic.name, records, return_exceptions=return_exceptions, overflow=overflow
        )

    async def tombstone(self, key: Key, *, partition: int | None = None) -> RecordMetadata:
        """Delete the value of a key in a compacted topic: a record with the key and no value. Raises SerializationError
        for None and for a key that cannot be written as bytes.
        """
        if key is None:
            raise SerializationError("a tombstone needs the key that it deletes", topic=self.topic.name)
        try:
            data = _key_bytes(key)
        except Exception as error:  # a lone surrogate, say, or a __str__ that raises
            text = f"the {type(key).__name__} cannot be written as a key: {describe_error(error)}"
            raise SerializationError(text, topic=self.topic.name) from error
        return await self._producer.send(self.topic.name, None, key=data, partition=partition)

    # internals

    def _record(
        self, value: M, partition: int | None, timestamp_ms: Timestamp | None, headers: HeadersLike | None
    ) -> ProducerRecord:
        try:
            return self.topic.record(value, partition=partition, timestamp_ms=timestamp_ms, headers=headers)
        except SerializationError as error:
            if isinstance(self._producer, GuardedProducer):
                data: Any = Failed(error, value, self.topic.serializer)
                self._producer.refuse(
                    ProducerRecord(self.topic.name, data, None, partition, timestamp_ms, headers), error
                )
            raise

    def _records(self, values: Iterable[M]) -> Iterator[ProducerRecord]:
        for value in values:
            try:
                yield self.topic.record(value)
            except SerializationError as error:
                yield ProducerRecord(self.topic.name, Failed(error, value, self.topic.serializer))


def _inherited(kind: type) -> tuple[object, ...]:
    """The types in the brackets of a class that is derived from ``Topic[Order]``."""
    for each in kind.__mro__:
        for base in each.__dict__.get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Topic):
                return get_args(base)
    return ()


def _type_check(model: Any) -> Callable[[object], None]:
    """A function that raises for a value of another type, if the type can be checked by itself."""
    try:
        isinstance(None, model)
    except TypeError:
        return lambda value: None  # list[Order], say: pydantic checks it when it writes

    def check(value: object) -> None:
        if not isinstance(value, model):
            name = getattr(model, "__name__", str(model))
            raise SerializationError(f"it is a {type(value).__name__}, not of the topic's type {name}")

    return check


def _key_bytes(key: object) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, bool) or not isinstance(key, (str, int, UUID)):
        raise SerializationError(f"the key is a {type(key).__name__}: a str, bytes, int, UUID or None is needed")
    return str(key).encode()


def _arguments(record: ProducerRecord) -> dict[str, Any]:
    """A record as the arguments of a call that sends it."""
    return {field.name: getattr(record, field.name) for field in fields(record)}
