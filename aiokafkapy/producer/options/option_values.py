"""The values that single options of the producer take: each function returns the value, or raises an error with the
valid form.

Owns no default and no option: ``config`` has these. A ValueError becomes a ConfigurationError with the option's name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from ...client.options.config_fields import Count
from ...record.compression import Compression
from ..hash_partitioners import MURMUR2_NAMES, PARTITIONER_NAMES, ROUND_ROBIN
from .auto import AUTO

if TYPE_CHECKING:
    from pydantic import BeforeValidator, Discriminator, Tag
else:
    from ...option_fields import BeforeValidator, Discriminator, Tag

__all__ = [
    "CompressionName",
    "FsyncPolicy",
    "InFlight",
    "SerializerOption",
    "block_time",
    "callable_or_none",
    "folder_or_none",
    "gzip_level",
    "kind_of_in_flight",
    "kind_of_linger",
    "partitioner_or_none",
]

CompressionName = Literal["none", "gzip", "snappy", "lz4", "zstd", "auto"]
FsyncPolicy = Literal["always", "every_second", "never"]


def gzip_level(value: int) -> int:
    """The level; ValueError for one that gzip does not have, such as 0."""
    if not Compression.GZIP.has_level(value):
        raise ValueError(f"write {Compression.GZIP.levels_shown}")
    return value


_BYTES_SERIALIZERS: Final = ("ByteArraySerializer", "ByteBufferSerializer", "BytesSerializer")
_STRING_SERIALIZER: Final = "StringSerializer"
"""Kafka's own serializers, in ``org.apache.kafka.common.serialization``, with the same function as ours."""
_KAFKAS_SERIALIZERS: Final = "org.apache.kafka.common.serialization."
_ROUND_ROBIN_CLASS: Final = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def callable_or_none(value: object) -> Callable[..., object] | None:
    """The function, or None; ValueError for the name of a Java class that is not Kafka's own for bytes or text, and for
    anything else.
    """
    if value is None or callable(value):
        return value
    if isinstance(value, str):
        name = value.strip().removeprefix(_KAFKAS_SERIALIZERS)
        if name in _BYTES_SERIALIZERS:
            return None
        if name == _STRING_SERIALIZER:
            return str.encode
        raise ValueError("a function is needed, not the name of a Java class: def serialize(data) -> bytes")
    raise ValueError(f"a function is needed, not {type(value).__name__}")


def kind_of_linger(value: object) -> str:
    """The member of the option's union that a value belongs to."""
    if value is None:
        return "none"
    return "auto" if value == AUTO else "number"


def kind_of_in_flight(value: object) -> str:
    """The member of the option's union that a value belongs to."""
    return "auto" if value == AUTO else "number"


def partitioner_or_none(value: object) -> object:
    """The partitioner: one of the names, a function, or an object with ``partition()``. None is murmur2, whose names it
    also stands for. ValueError for anything else.
    """
    if isinstance(value, str):
        if value in (ROUND_ROBIN, _ROUND_ROBIN_CLASS):
            return ROUND_ROBIN
        if value in PARTITIONER_NAMES:
            return None if value in MURMUR2_NAMES else value
        raise ValueError(
            f"there is no partitioner of this name: write one of {', '.join((*PARTITIONER_NAMES, ROUND_ROBIN))}, pass "
            "a function (topic, key_bytes, value_bytes, key, value, cluster), or an object with partition(), or leave "
            "it out for murmur2, as Java does"
        )
    if value is None or callable(value) or callable(getattr(value, "partition", None)):
        return value
    raise ValueError(f"{type(value).__name__} is neither a function nor an object with partition()")


def folder_or_none(value: object) -> object:
    """The folder's path as text; ValueError for an empty one."""
    if value == "":
        raise ValueError("write the path of a folder, or leave it out")
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def block_time(value: int) -> int:
    """Milliseconds; ValueError for 0."""
    if value == 0:
        raise ValueError("start() would not wait for any answer: write at least 1; send_nowait() never waits")
    return value


InFlight = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Literal["auto"], Tag("auto")], Discriminator(kind_of_in_flight)
]
"""A number of requests, or ``auto``."""

SerializerOption = Annotated[Any, BeforeValidator(callable_or_none)]
