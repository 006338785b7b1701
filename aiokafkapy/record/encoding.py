"""Encodes a single record in plain Python: the part of ``builder.py`` outside its loops.

Owns the varints of Kafka's records, precomputed for small numbers, and the encoding of any record. Knows no batch.
Kafka counterparts: ``DefaultRecord.writeTo``, ``ByteUtils.writeVarint``.

Rule: the compiled kernel has the same in ``builder.pxd``, byte for byte.
"""

from __future__ import annotations

from typing import Final

from ..common import Buffer, Headers

__all__ = [
    "HEADS",
    "KEPT_VARINTS",
    "NO_HEADERS",
    "NO_KEY",
    "SHORT",
    "SHORT_VARINTS",
    "VARINTS",
    "encode_body",
    "read_varint",
    "varint",
]


def encode_body(
    timestamp_delta: int, offset_delta: int, key: Buffer | None, value: Buffer | None, headers: Headers | None
) -> bytes:
    """A record without its length. Raises TypeError for a part that is not bytes-like."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]  # attributes first: unused
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


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint and the position after it. Raises IndexError if it does not end there, or has over 10 bytes."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise IndexError


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
