"""Frames with secrets and records overwritten, each in its old length, for a packet capture.

Decides which bytes of a frame are hidden. Pure: it knows no file and no connection. ``wire_tap.described``
is its sister for text, by the same rules.

Rules:

- Without ``payloads`` every run of bytes is zeros; in uncompressed record batches only the keys, values and
  headers are, so that offsets and sizes can still be read, with a checksum that fits.
- Proofs of identity, SASL's bytes, tokens and secret options of a configuration, are hidden in any case.
- If a frame cannot be decoded, or has another length when it is encoded again, only its header is kept and the rest is
  zeros.
- A frame with nothing to hide is left as it came.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from ...errors import CorruptMessageError
from ...protocol.api import ApiKey
from ...protocol.codec import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ...record.crc import crc32c
from ...record.encoding import read_varint
from ...record.layout import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL,
    COUNT_AT,
    CRC_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
)
from .hidden_fields import has_hidden_value, is_hidden_field

__all__ = ["WITHOUT_PROOFS", "Cover", "blanked", "cover_records", "redacted_request", "redacted_response"]

Cover: TypeAlias = Callable[[bytes, bool], bytes]
"""Gives as many other bytes in place of a key, a value, a header's value, or (True) a header's name."""

WITHOUT_PROOFS: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""APIs whose large frames have nothing to hide but payloads."""


def redacted_request(data: bytes, *, payloads: bool, most_decoded: int) -> bytes:
    """A whole request, its size included, without the hidden parts; a larger one is not taken apart."""
    if len(data) > most_decoded:
        is_harmless = payloads and int.from_bytes(data[4:6]) in WITHOUT_PROOFS
        return data if is_harmless else blanked(data, 4 + _request_header_size(data))
    with suppress(Exception):  # after any error: it is blank then
        header, body = decode_request(data[4:])
        hidden = _hidden(body, payloads=payloads)
        again = data if hidden is body else encode_request(hidden, header.correlation_id, header.client_id)
        if len(again) == len(data):
            return again
    return blanked(data, 4 + _request_header_size(data))


def redacted_response(api_key: int, version: int, data: bytes, *, payloads: bool, most_decoded: int) -> bytes:
    """A whole response, its size included, without the hidden parts; a larger one is not taken apart."""
    if len(data) > most_decoded:
        is_harmless = payloads and api_key in WITHOUT_PROOFS
        return data if is_harmless else blanked(data, 8)  # size and correlation id
    with suppress(Exception):
        correlation_id, body = decode_response(api_key, version, data[4:])
        hidden = _hidden(body, payloads=payloads)
        again = data if hidden is body else encode_response(hidden, correlation_id)
        if len(again) == len(data):
            return again
    return blanked(data, 8)


def blanked(data: bytes, kept: int) -> bytes:
    """The data, with zeros for all bytes but the first ``kept``."""
    return data[:kept] + bytes(max(0, len(data) - kept))


def cover_records(data: bytearray, start: int, end: int, count: int, cover: Cover) -> None:
    """Write over the contents of ``count`` records that are not compressed, in place.

    Raises CorruptMessageError unless they fill the bytes from ``start`` to ``end``.
    """
    position = start
    for _ in range(count):
        position = _cover_record(data, position, end, cover)
    if position != end:  # more than it says
        raise CorruptMessageError("the records do not fill their batch")


# internals


def _zeros(part: bytes, _: bool) -> bytes:
    return bytes(len(part))


def _request_header_size(data: bytes) -> int:
    """The position of a request's body after its size; without a sound header, after its correlation id."""
    try:
        return decode_request_header(data[4:])[1]
    except Exception:
        return 8


def _hidden(value: object, *, payloads: bool, name: str = "") -> Any:
    """A message, or a part of one, without the hidden parts; the same object if nothing is hidden."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        if is_hidden_field(name):
            return bytes(len(value))
        return value if payloads or not value else _without_payload(bytes(value), name)
    if isinstance(value, str):
        return "*" * len(value.encode()) if is_hidden_field(name) else value
    if isinstance(value, tuple | list):
        parts = [_hidden(each, payloads=payloads, name=name) for each in value]
        is_same = all(part is each for part, each in zip(parts, value, strict=True))
        return value if is_same else type(value)(parts)
    return _hidden_message(value, payloads=payloads) if dataclasses.is_dataclass(value) else value


def _hidden_message(message: Any, *, payloads: bool) -> object:
    changed = {}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        hidden = _hidden(value, payloads=payloads, name=field.name)
        if hidden is not value:
            changed[field.name] = hidden
    if has_hidden_value(message) and isinstance(message.value, str):
        changed["value"] = "*" * len(message.value.encode())
    return dataclasses.replace(message, **changed) if changed else message


def _without_payload(data: bytes, name: str) -> bytes:
    if name != "records":
        return bytes(len(data))
    written = bytearray(data)
    try:
        _blank_batches(written)
    except (CorruptMessageError, struct.error):
        return bytes(len(data))
    return bytes(written)


def _blank_batches(data: bytearray) -> None:
    """Write zeros over the contents of records of batches of format 2, in place."""
    start = 0
    while start + BATCH_HEADER_SIZE <= len(data):
        (length,) = struct.unpack_from(">i", data, start + LENGTH_AT)
        end = start + LOG_OVERHEAD + length
        if data[start + MAGIC_AT] != MAGIC or not start + BATCH_HEADER_SIZE <= end <= len(data):
            break
        (attributes,) = struct.unpack_from(">h", data, start + ATTRIBUTES_AT)
        (count,) = struct.unpack_from(">i", data, start + COUNT_AT)
        position = start + BATCH_HEADER_SIZE
        if attributes & CODEC_MASK or attributes & CONTROL:
            data[position:end] = bytes(end - position)
        else:
            cover_records(data, position, end, count, _zeros)
        struct.pack_into(">I", data, start + CRC_AT, crc32c(bytes(data[start + ATTRIBUTES_AT : end])))
        start = end
    data[start:] = bytes(len(data) - start)


def _cover_record(data: bytearray, position: int, end: int, cover: Cover) -> int:
    size, position = read_varint(data, position, end)
    stop = position + size
    if size < 0 or stop > end:
        raise CorruptMessageError(f"a record says it has {size} bytes")
    position += 1  # attributes
    _, position = read_varint(data, position, stop, 10)  # the two deltas
    _, position = read_varint(data, position, stop)
    position = _cover_part(data, position, stop, cover)  # key
    position = _cover_part(data, position, stop, cover)  # value
    count, position = read_varint(data, position, stop)
    for each in range(2 * count):  # the names of headers and their values
        position = _cover_part(data, position, stop, cover, is_name=each % 2 == 0)
    if position != stop:
        raise CorruptMessageError("a record's parts do not fill it")
    return stop


def _cover_part(data: bytearray, position: int, stop: int, cover: Cover, *, is_name: bool = False) -> int:
    size, position = read_varint(data, position, stop)
    if size == -1:  # null
        return position
    if size < 0 or position + size > stop:
        raise CorruptMessageError(f"a part of a record says it has {size} bytes")
    data[position : position + size] = cover(bytes(data[position : position + size]), is_name)
    return position + size
