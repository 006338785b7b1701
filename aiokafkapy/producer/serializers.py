"""Serializers turn keys and values into bytes.

A serializer is any callable of one argument, or of two (topic and data) when its class says ``wants_topic = True``; it
returns bytes or None, or an awaitable of them, ``BytesWithHeaders`` when it has headers to add. Kafka's counterpart is
``Serializer``; its classes (``StringSerializer``, …) are small functions here.

Rules: None is passed through and never handed to a serializer (it is a tombstone, not data); every failure is a
SerializationError that names the topic and says whether it was key or value; an async serializer is recognised by its
return value, so that plain ones cost nothing more. Without a serializer only bytes-like data is taken: guessing an
encoding would hide mistakes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from ..common import Headers
from .arguments import headers_of, serialization_error
from .records import BytesWithHeaders, Unchecked

if TYPE_CHECKING:
    from json import JSONEncoder

__all__ = [
    "PreparedSerializer",
    "Serializer",
    "TopicSerializer",
    "awaited",
    "discard",
    "json_serializer",
    "prepare",
    "serialize",
    "string_serializer",
    "with_own_headers",
]

T_contra = TypeVar("T_contra", contravariant=True)

Serialized: TypeAlias = bytes | None


class PlainSerializer(Protocol[T_contra]):
    """A serializer of the data alone; sync or async."""

    def __call__(self, data: T_contra, /) -> Serialized | Awaitable[Serialized]:
        """The bytes of ``data``."""


class TopicSerializer(Protocol[T_contra]):
    """A serializer that also needs the topic, as schema registries do. Its class says ``wants_topic = True``."""

    wants_topic: bool

    def __call__(self, topic: str, data: T_contra, /) -> Serialized | Awaitable[Serialized]:
        """The bytes of ``data`` as they are written to ``topic``."""


Serializer: TypeAlias = PlainSerializer[T_contra] | TopicSerializer[T_contra]
"""The type of ``key_serializer`` and ``value_serializer``."""

PreparedSerializer: TypeAlias = Callable[[str, Any], Unchecked]
"""The one form that the producer calls, with topic and data, whatever the user's form is; it may return an awaitable.
"""


def string_serializer(data: str) -> bytes:
    """UTF-8, as Kafka's StringSerializer. Raises AttributeError for data that is not a str, and UnicodeEncodeError for
    lone surrogates; a producer that calls it raises SerializationError instead.
    """
    return data.encode()


def json_serializer(data: object) -> bytes:
    """Compact JSON (RFC 8259) in UTF-8; a float's NaN and infinities, which JSON lacks, are written as Python does.

    Raises TypeError for a type that ``json`` cannot write, ValueError for a circular reference, and UnicodeEncodeError
    for lone surrogates; a producer that calls it raises SerializationError instead.
    """
    return _json_encoder().encode(data).encode()


@cache
def _json_encoder() -> JSONEncoder:
    from json import JSONEncoder  # imported with the first JSON record, because many programs have none

    return JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def prepare(serializer: Serializer[Any] | None) -> PreparedSerializer | None:
    """One call form for all serializers: ``f(topic, data)``. None stays None: bytes are passed through untouched."""
    if serializer is None:
        return None
    if getattr(serializer, "wants_topic", False):
        return cast("TopicSerializer[Any]", serializer)
    plain = cast("PlainSerializer[Any]", serializer)

    def without_topic(_topic: str, data: object) -> Unchecked:
        return plain(data)

    return without_topic


def serialize(part: str, serializer: PreparedSerializer, topic: str, data: object) -> Unchecked:
    """Call a prepared serializer for ``part``, key or value; may return an awaitable. Raises SerializationError."""
    try:
        return serializer(topic, data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a CancelledError too: the caller was not cancelled
        raise serialization_error(part, topic, data, error) from error


async def awaited(part: str, topic: str, data: Awaitable[Unchecked]) -> Unchecked:
    """The awaited result of an async serializer for ``part``, key or value. Raises SerializationError."""
    try:
        return await data
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
            raise
        raise serialization_error(part, topic, data, error) from error


def with_own_headers(topic: str, headers: Headers | None, key: object, value: object) -> Headers | None:
    """The caller's headers, then those from the serializers of key and value (``BytesWithHeaders``)."""
    for data in (key, value):
        if isinstance(data, BytesWithHeaders):
            own: Headers | None = headers_of(topic, data.headers)
            headers = own if headers is None else (*headers, *(own or ()))
    return headers


def discard(*unused: object) -> None:
    """Close coroutines that will not be awaited."""
    for data in unused:
        if iscoroutine(data):
            data.close()
