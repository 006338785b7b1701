"""Which bytes of a frame a recording may have: secrets never, payloads as they are or as digests.

Owns the digests and the frames of which nothing may be kept. The secrets of messages are found by
``client.redaction``, as for a packet capture. Pure: it knows no file and no connection.

Rules:

- Proofs of identity (SASL's bytes, SCRAM's salts and passwords, delegation tokens, secret options of a configuration)
  are written over, each by as many bytes.
- A frame that cannot be taken apart may have one, and so nothing of it is kept but its size and, where the API is
  known and not SaslAuthenticate, its header; nor is anything behind the end of a request. After SaslHandshake of
  version 0 the client sends SASL's bytes without any header (KIP-152 ended that): there nothing is kept of what is no
  whole request.
- With digests, keys, values and values of headers become as many bytes that do not tell them: SHAKE-256 of a key, drawn
  for this recording and never written, and the bytes. Equal bytes have equal digests within a recording. Batches are
  decompressed for it, compressed by the same codec again, and have the right checksum: their size changes when they
  were compressed. A batch at the end that is not whole, which every client leaves alone, is left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import struct
from typing import Any, Final, NamedTuple

from aiokafkapy.client.redaction import cover_records, redacted_request, redacted_response
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import ApiKey, request_class, schema_versions
from aiokafkapy.protocol.codec import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from aiokafkapy.protocol.reader import RequestCursor, entity_reader
from aiokafkapy.record.batch import iter_batches

__all__ = ["NO_HEADER", "HiddenFrame", "Hiding"]

NO_HEADER: Final = RequestHeader(-1, -1, -1, None)
"""Of a frame that is no request of a known API."""

_LARGEST: Final = 1 << 40
_SIZE: Final = struct.Struct(">i")
_WITHOUT_PROOFS: Final = (ApiKey.PRODUCE, ApiKey.FETCH)


class HiddenFrame(NamedTuple):
    """A frame for the recording, with its size: ``body`` is None when it was not, or cannot be, taken apart."""

    wire: bytes
    header: RequestHeader
    body: Any
    is_hidden: bool


class Hiding:
    """Of one recording."""

    def __init__(self, *, hash_payloads: bool) -> None:
        self._key = os.urandom(32) if hash_payloads else None

    def request(self, frame: bytes, *, is_bare_sasl: bool = False) -> HiddenFrame:
        """A request, given without its size; ``is_bare_sasl``: it may be SASL's bytes."""
        data = _SIZE.pack(len(frame)) + frame
        header = _known_header(frame)
        try:
            end, body = _decoded(frame)
        except Exception:  # kio has several errors for "no such schema"
            return _undecoded(data, header, is_bare_sasl)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return HiddenFrame(encode_request(_without_proof(body), *header[2:]), header, body, True)
        # Brokers ignore bytes behind a request, and librdkafka sends some; nobody knows of what.
        kept = data[: 4 + end] + bytes(len(frame) - end)
        try:
            kept, body = self._without_payloads(kept, body, header)
        except Exception:
            return HiddenFrame(redacted_request(data, False, 0), header, None, True)
        wire = kept if header.api_key in _WITHOUT_PROOFS else redacted_request(kept, True, _LARGEST)
        return HiddenFrame(wire, header, body, wire != data)

    def answer(self, header: RequestHeader, data: bytes, *, is_bare_sasl: bool = False) -> HiddenFrame:
        """An answer to a request with this header, given with its size; it may be torn, and not be an answer at all."""
        if is_bare_sasl or header is NO_HEADER:
            return HiddenFrame(_blank(data, 4), header, None, len(data) > 4)
        try:
            if len(data) < 4 or _SIZE.unpack_from(data)[0] != len(data) - 4:
                raise MalformedFrameError("torn")
            correlation_id, body = decode_response(header.api_key, header.api_version, data[4:])
        except Exception:
            is_harmless = self._key is None and header.api_key in _WITHOUT_PROOFS
            is_harmless |= header.api_key == ApiKey.API_VERSIONS
            # Not by zeros: those may be a whole answer.
            wire = data if is_harmless else data[:8] + b"\xff" * max(0, len(data) - 8)
            return HiddenFrame(wire, header, None, wire != data)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return HiddenFrame(encode_response(_without_proof(body), correlation_id), header, body, True)
        try:
            data, body = self._without_payloads(data, body, header, correlation_id)
        except Exception:
            return HiddenFrame(_blank(data, 8), header, None, True)
        wire = data
        if header.api_key not in _WITHOUT_PROOFS:
            wire = redacted_response(header.api_key, header.api_version, data, True, _LARGEST)
        return HiddenFrame(wire, header, body, wire != data)

    # internals

    def _without_payloads(
        self, data: bytes, body: Any, header: RequestHeader, correlation_id: int | None = None
    ) -> tuple[bytes, Any]:
        if self._key is None:
            return data, body
        hidden = self._hashed(body)
        if hidden is body:
            return data, body
        if correlation_id is None:
            return encode_request(hidden, header.correlation_id, header.client_id), hidden
        return encode_response(hidden, correlation_id), hidden

    def _hashed(self, value: Any, name: str = "") -> Any:
        """A message, or a part of one, with digests in its records; the very same where there are none."""
        if name == "records" and isinstance(value, bytes | bytearray | memoryview):
            return b"".join(map(self._hashed_batch, iter_batches(value))) if value else value
        if isinstance(value, tuple | list):
            parts = [self._hashed(each, name) for each in value]
            is_same = all(part is each for part, each in zip(parts, value, strict=True))
            return value if is_same else tuple(parts)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changed = {}
        for field in dataclasses.fields(value):
            before = getattr(value, field.name)
            after = self._hashed(before, field.name)
            if after is not before:
                changed[field.name] = after
        return dataclasses.replace(value, **changed) if changed else value

    def _hashed_batch(self, batch: Any) -> bytes:
        if batch.is_control:  # a marker of the broker's
            return bytes(batch.buffer)
        section = bytearray(batch.section())
        cover_records(section, 0, len(section), batch.record_count, self._digest)
        return bytes(batch.with_section(bytes(section)))

    def _digest(self, part: bytes, is_name: bool) -> bytes:
        if is_name or self._key is None:
            return part
        return hashlib.shake_256(self._key + part).digest(len(part))


def _known_header(frame: bytes) -> RequestHeader:
    try:
        header, _ = decode_request_header(frame)
        schema_versions(header.api_key)
    except Exception:
        return NO_HEADER
    return header


def _decoded(frame: bytes) -> tuple[int, Any]:
    """Where a request ends in its frame, and its body."""
    header, position = decode_request_header(frame)
    cursor = RequestCursor(frame, position)
    entity: Any = request_class(header.api_key, header.api_version)
    body = entity_reader(entity)(cursor)
    return cursor.position, body


def _undecoded(data: bytes, header: RequestHeader, is_bare_sasl: bool) -> HiddenFrame:
    """What is kept of a request that cannot be taken apart."""
    if is_bare_sasl or header is NO_HEADER or header.api_key == ApiKey.SASL_AUTHENTICATE:
        return HiddenFrame(_blank(data, 4), NO_HEADER, None, len(data) > 4)
    if header.api_key == ApiKey.API_VERSIONS:  # of a version to come (KIP-511), and without secrets
        return HiddenFrame(data, header, None, False)
    hidden = redacted_request(data, False, 0)
    return HiddenFrame(hidden, header, None, hidden != data)


def _without_proof(body: Any) -> Any:
    # Encoded anew, so that nothing is left that only a later version knows.
    return dataclasses.replace(body, auth_bytes=bytes(len(body.auth_bytes)))


def _blank(data: bytes, kept: int) -> bytes:
    return data[:kept] + bytes(max(0, len(data) - kept))
