"""Encodes a single record in plain Python: the part of ``builder.py`` outside its loops.

Owns the varints of Kafka's records, precomputed for small numbers, the encoding of any record, and ``BatchRecord``.
Knows no batch.
Kafka counterparts: ``DefaultRecord.writeTo``, ``ByteUtils.writeVarint``.

Rule: the compiled kernel has the same in ``builder.pxd``, byte for byte.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..common import Buffer, Headers
from ..errors import CorruptMessageError

__all__ = [
    "HEADS",
    "KEPT_VARINTS",
    "NO_HEADERS",
    "NO_KEY",
    "SHORT",
    "SHORT_VARINTS",
    "VARINTS",
    "BatchRecord",
    "encode_body",
    "read_varint",
    "varint",
    "wrapped",
]


class BatchRecord(NamedTuple):
    """A record as the builder of its batch gives it back."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def encode_body(
    timestamp_delta: int, offset_delta: int, key: Buffer | None, value: Buffer | None, headers: Headers | None
) -> bytes:
    """A record without its length. Raises TypeError for a part that is not bytes-like."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]  # the attributes come first, unused
    for field in (key, value):
        if field is None:
            parts.append(NULL)
        else:
            data = field if type(field) is bytes else memoryview(field).tobytes()
            parts += (varint(len(data)), data)
    if headers:
        _encode_headers(parts, headers)
    else:
        parts.append(b"\0")
    return b"".join(parts)


def _encode_headers(parts: list[bytes], headers: Headers) -> None:
    parts.append(varint(len(headers)))
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's name must be str, not {type(name).__name__}")
        encoded = name.encode()
        parts += (varint(len(encoded)), encoded)
        if content is None:
            parts.append(NULL)
        else:
            data = content if type(content) is bytes else memoryview(content).tobytes()
            parts += (varint(len(data)), data)


def varint(value: int) -> bytes:
    """A number as a zigzag varint."""
    return VARINTS[value] if 0 <= value < KEPT_VARINTS else _encode_varint(value)


def _encode_varint(value: int) -> bytes:
    """Zigzag, then base 128, low bits first: Java's ``ByteUtils.writeVarint`` and ``writeVarlong``."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def read_varint(data: Buffer, position: int, end: int, most_bytes: int = 5) -> tuple[int, int]:
    """A number of a record, before ``end``, and the position after it; 32-bit ones take up to 5 bytes, 64-bit ones up
    to 10. Raises CorruptMessageError.
    """
    zigzag = shift = 0
    for _ in range(most_bytes):
        if position >= end:
            raise CorruptMessageError("a record ends within a number")
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise CorruptMessageError(f"a number of a record is longer than {most_bytes} bytes")
    # Bits past the width are dropped, as in Java.
    zigzag &= 0xFFFFFFFF if most_bytes == 5 else 0xFFFFFFFFFFFFFFFF
    return zigzag >> 1 ^ -(zigzag & 1), position


def wrapped(number: int) -> int:
    """``number`` wrapped around to a signed 64-bit integer, as in C and Java."""
    return (number + 2**63) % 2**64 - 2**63


KEPT_VARINTS: Final = 4096
"""Most sizes, offsets and timestamp deltas are smaller: those are encoded only once."""
SHORT_VARINTS: Final = 64
"""Numbers below it take one byte, and those from it to KEPT_VARINTS two."""
_BYTES: Final = [bytes((value,)) for value in range(0x100)]
VARINTS: Final = _BYTES[0:0x80:2] + [
    # Every process that imports this makes them: a call of _encode_varint for each takes five times as long.
    low + high
    for high in _BYTES[1 : KEPT_VARINTS // SHORT_VARINTS]
    for low in _BYTES[0x80::2]
]
NULL: Final = _encode_varint(-1)
NO_HEADERS: Final = VARINTS[0]
SHORT: Final = KEPT_VARINTS // 2 - 16
"""Sizes of keys and values below this, so that the size of a record with both is among the precomputed ones."""
HEADS: Final = [b"\0" + varint for varint in VARINTS]
"""No attributes, and the timestamp's distance."""
NO_KEY: Final = [NULL + varint for varint in VARINTS]
"""No key, and the value's size."""
