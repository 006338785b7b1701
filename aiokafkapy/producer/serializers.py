"""Turning keys and values into bytes.

A serializer is any callable of one argument, or of two (topic and data) when its class says ``wants_topic = True``; it
returns bytes or None, or an awaitable of them. Kafka's counterpart is ``Serializer``; what it has as classes
(``StringSerializer``, …) are small functions here.

Rules: None is passed through and never handed to a serializer (it is a tombstone, not data); whatever goes wrong is a
SerializationError that names the topic and says which of key and value it was; a serializer that may return an
awaitable is recognised once, at construction, so that plain ones cost nothing per record. Without a serializer only
bytes-like data is taken: guessing an encoding would hide mistakes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from ..errors import SerializationError

__all__ = [
    "Serializer",
    "SyncSerializer",
    "TopicSerializer",
    "check_headers",
    "is_async",
    "json_serializer",
    "prepare",
    "serialization_error",
    "string_serializer",
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
"""What ``key_serializer`` and ``value_serializer`` take."""

SyncSerializer: TypeAlias = Callable[[str, Any], Any]
"""The one form that the producer calls: topic and data, whatever the user gave."""


def string_serializer(data: str) -> bytes:
    """UTF-8, as Kafka's StringSerializer."""
    return data.encode()


def json_serializer(data: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def prepare(serializer: Serializer[Any] | None) -> SyncSerializer | None:
    """One call form for all serializers: ``f(topic, data)``. None stays None: bytes are passed through untouched."""
    if serializer is None:
        return None
    if getattr(serializer, "wants_topic", False):
        return serializer  # type: ignore[return-value]

    def without_topic(_topic: str, data: Any) -> Any:
        return serializer(data)  # type: ignore[call-arg]

    return without_topic


def is_async(serializer: Serializer[Any] | None) -> bool:
    """True when calling ``serializer`` makes a coroutine; looked at once, at construction."""
    if serializer is None:
        return False
    target: Any = serializer
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def serialization_error(part: str, topic: str, data: object, cause: BaseException | None = None) -> SerializationError:
    """The error for a key or value (``part``) that could not become bytes. ``data`` is not shown: it may be secret."""
    if cause is not None:
        text = f"the {part}_serializer failed for a record of topic {topic!r}: {type(cause).__name__}: {cause}"
    else:
        text = (
            f"the {part} of a record of topic {topic!r} is a {type(data).__name__}, not bytes: "
            f"encode it, or give the producer a {part}_serializer"
        )
    error = SerializationError(text, topic=topic)
    error.__cause__ = cause
    return error


def check_headers(topic: str, headers: Any) -> None:
    """Raise SerializationError when ``headers`` is not a sequence of (str, bytes | None) pairs, and say what it is."""
    if isinstance(headers, dict):
        raise SerializationError(
            f"headers of a record of topic {topic!r} are a dict: write a list of pairs, [('name', b'value')]",
            topic=topic,
        )
    try:
        pairs = [(name, value) for name, value in headers]
    except (TypeError, ValueError):
        raise SerializationError(
            f"headers of a record of topic {topic!r} must be a list of pairs, [('name', b'value')]", topic=topic
        ) from None
    for name, value in pairs:
        if not isinstance(name, str):
            raise SerializationError(
                f"a header's name is a {type(name).__name__}, not str (topic {topic!r})", topic=topic
            )
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise SerializationError(
                f"the value of header {name!r} is a {type(value).__name__}, not bytes or None (topic {topic!r})",
                topic=topic,
            )
