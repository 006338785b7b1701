"""A position in a frame of untrusted bytes, and the types of values in messages that are read by hand.

Every length is checked against the remaining bytes before it is used; invalid bytes raise MalformedFrameError, and
nothing else. ``reader`` reads kio's classes with it. Java's counterpart is ``ByteBufferAccessor``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

from ..common import MAX_STRING_SIZE
from ..errors import MalformedFrameError

__all__ = [
    "Cursor",
    "FieldReader",
    "RequestCursor",
    "not_null",
    "read_array",
    "read_bytes",
    "read_compact_array",
    "read_compact_string",
    "read_int16",
    "read_int32",
    "read_int64",
    "read_string",
    "read_tagged_fields",
]

T = TypeVar("T")

FieldReader: TypeAlias = Callable[["Cursor"], Any]

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_INT64 = struct.Struct(">q").unpack_from


class Cursor:
    """A position in a frame. Each ``read_*`` returns one value and moves on; raises MalformedFrameError
    past the end.
    """

    __slots__ = ("data", "end", "position")

    max_string_size: ClassVar[int] = 2**31 - 1

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.end = len(data)

    def advance(self, size: int) -> int:
        """Skip ``size`` bytes and return their position."""
        start = self.position
        if size < 0 or size > self.end - start:
            raise MalformedFrameError(f"{size} bytes claimed at offset {start}, {self.end - start} left in the frame")
        self.position = start + size
        return start

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        start = self.advance(size)
        return self.data[start : start + size]

    def read_unsigned_varint(self) -> int:
        """An unsigned varint of at most five bytes."""
        result = 0
        for shift in (0, 7, 14, 21, 28):
            byte = self.data[self.advance(1)]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
        raise MalformedFrameError(f"varint of more than five bytes at offset {self.position}")

    def skip_tags(self) -> None:
        """Skip the tagged fields that follow (KIP-482)."""
        for _ in range(self.read_count(self.read_unsigned_varint())):
            self.read_unsigned_varint()
            self.advance(self.read_unsigned_varint())

    def read_count(self, count: int) -> int:
        """Check an array's length: each element takes at least one byte."""
        if count > self.end - self.position:
            raise MalformedFrameError(
                f"array of {count} claimed at offset {self.position}, {self.end - self.position} bytes are left"
            )
        return count


class RequestCursor(Cursor):
    """A position in a request's frame. As in Kafka's brokers, no string's size may exceed an int16, not even
    in the flexible versions.
    """

    __slots__ = ()

    max_string_size: ClassVar[int] = MAX_STRING_SIZE


def read_int16(cursor: Cursor) -> int:
    """A signed integer of two bytes."""
    return int(_INT16(cursor.data, cursor.advance(2))[0])


def read_int32(cursor: Cursor) -> int:
    """A signed integer of four bytes."""
    return int(_INT32(cursor.data, cursor.advance(4))[0])


def read_int64(cursor: Cursor) -> int:
    """A signed integer of eight bytes."""
    return int(_INT64(cursor.data, cursor.advance(8))[0])


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedFrameError(f"a string is not UTF-8: {error}") from None


def read_string(cursor: Cursor) -> str | None:
    """A string of a version that is not flexible, or None."""
    size = read_int16(cursor)
    return None if size < 0 else _decode(cursor.take(size))


def read_compact_string(cursor: Cursor) -> str | None:
    """A string of a flexible version, or None."""
    size = cursor.read_unsigned_varint() - 1
    if size > cursor.max_string_size:
        raise MalformedFrameError(
            f"string of {size} bytes at offset {cursor.position}, the limit is {cursor.max_string_size}"
        )
    return None if size < 0 else _decode(cursor.take(size))


def read_bytes(cursor: Cursor) -> bytes | None:
    """Bytes of a version that is not flexible, or None."""
    size = read_int32(cursor)
    return None if size < 0 else cursor.take(size)


def read_array(inner: Callable[[Cursor], T], cursor: Cursor) -> tuple[T, ...] | None:
    """An array of a version that is not flexible, or None."""
    count = cursor.read_count(read_int32(cursor))
    return None if count < 0 else tuple([inner(cursor) for _ in range(count)])


def read_compact_array(inner: Callable[[Cursor], T], cursor: Cursor) -> tuple[T, ...] | None:
    """An array of a flexible version, or None."""
    count = cursor.read_count(cursor.read_unsigned_varint() - 1)
    return None if count < 0 else tuple([inner(cursor) for _ in range(count)])


def not_null(read: Callable[[Cursor], T | None], cursor: Cursor) -> T:
    """The value that ``read`` reads; raises MalformedFrameError if it is null."""
    value = read(cursor)
    if value is None:
        raise MalformedFrameError(f"null at offset {cursor.position}, where the schema has none")
    return value


def read_tagged_fields(readers: Mapping[int, tuple[str, FieldReader]], owner: str, cursor: Cursor) -> dict[str, Any]:
    """The tagged fields of ``owner`` that ``readers`` knows, by name (KIP-482); the others are skipped."""
    values = {}
    for _ in range(cursor.read_count(cursor.read_unsigned_varint())):
        tag = cursor.read_unsigned_varint()
        size = cursor.read_unsigned_varint()
        after = cursor.advance(size) + size
        if tag in readers:
            name, reader = readers[tag]
            cursor.position = after - size
            values[name] = reader(cursor)
            if cursor.position != after:
                raise MalformedFrameError(f"tagged field {tag} of {owner} is not {size} bytes long")
    return values
