"""Decides which bytes of a frame a recording may have: never secrets, payloads unchanged or as digests.

Owns the digests, and the choice of frames that must not be kept. ``client.tap.redaction`` finds the secrets of
messages, as for a packet capture. Pure: it knows no file and no connection.

Rules:

- Proofs of identity (SASL's bytes, SCRAM's salts and passwords, delegation tokens, secret options of a configuration)
  are overwritten, each by as many bytes.
- A frame that cannot be decoded may have one, so only its size is kept and, if the API is known and not
  SaslAuthenticate, its header; bytes behind the end of a request are not kept either. After SaslHandshake of version 0
  the client sends SASL's bytes without any header (KIP-152 ended that): there only whole requests are kept.
- With digests, keys, values and values of headers become the same number of bytes that do not reveal them: SHAKE-256
  over a key, drawn for this recording and never written, and the bytes. Equal bytes have equal digests within a
  recording. Batches are decompressed for it, compressed by the same codec again, and have the right checksum: their
  size changes when they were compressed. An incomplete batch at the end, which every client ignores, is left out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ...client.tap.redaction import WITHOUT_PROOFS, blanked, cover_records, redacted_request, redacted_response
from ...errors import MalformedFrameError
from ...protocol.api import ApiKey, request_class, schema_versions
from ...protocol.codec import (
    RequestHeader,
    Struct,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from ...protocol.cursor import RequestCursor
from ...protocol.reader import entity_reader
from ...record.batch import RecordBatch, iter_batches

__all__ = ["NO_HEADER", "HiddenFrame", "Hiding"]

NO_HEADER: Final = RequestHeader(-1, -1, -1, None)
"""The header of a frame that is not a request of a known API."""

SHORTEST_NAME: Final = 4
"""Shorter names could be a part of other words."""

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_LARGEST: Final = 1 << 40
_SIZE: Final = struct.Struct(">i")


class HiddenFrame(NamedTuple):
    """A frame for the recording, with its size: ``body`` is None if it was not, or cannot be, decoded."""

    wire: bytes
    header: RequestHeader
    body: Struct | None
    is_hidden: bool


class Hiding:
    """Hides the secrets and payloads of one recording."""

    def __init__(self, *, hash_payloads: bool, names: Sequence[str] = ()) -> None:
        """``names`` are replaced everywhere in a message; ValueError for a name that is short, or not ASCII."""
        self._key = os.urandom(32) if hash_payloads else None
        self._names = _pseudonyms(names)

    def text(self, text: str) -> str:
        """A text without the hidden names."""
        for name, other in self._names.items():
            text = text.replace(name, other)
        return text

    def request(self, frame: bytes, *, is_bare_sasl: bool = False) -> HiddenFrame:
        """A request, given without its size; ``is_bare_sasl``: it may be SASL's bytes."""
        data = _SIZE.pack(len(frame)) + frame
        header = _known_header(frame)
        try:
            end, body = _decoded(frame)
        except Exception:  # kio has several errors for "no such schema"
            data = self._bytes(data)
            return _undecoded(data, _known_header(data[4:]), is_bare_sasl=is_bare_sasl)
        if header.client_id is not None:
            header = header._replace(client_id=self.text(header.client_id))
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return HiddenFrame(encode_request(_without_proof(body), *header[2:]), header, body, is_hidden=True)
        # Brokers ignore bytes after a request, and librdkafka sends some after an unknown request.
        kept = data[: 4 + end] + bytes(len(frame) - end)
        try:
            covered = self._covered(body)
            if covered is not body or self._names:
                kept, body = encode_request(covered, header.correlation_id, header.client_id), covered
        except Exception:
            return HiddenFrame(
                redacted_request(self._bytes(data), payloads=False, most_decoded=0), header, None, is_hidden=True
            )
        wire = (
            kept if header.api_key in WITHOUT_PROOFS else redacted_request(kept, payloads=True, most_decoded=_LARGEST)
        )
        return HiddenFrame(wire, header, body, is_hidden=wire != data)

    def answer(self, header: RequestHeader, data: bytes, *, is_bare_sasl: bool = False) -> HiddenFrame:
        """An answer to a request with this header, given with its size; it may be torn, or not be an answer at all."""
        if is_bare_sasl or header is NO_HEADER:
            return HiddenFrame(blanked(data, 4), header, None, is_hidden=len(data) > 4)
        try:
            if len(data) < 4 or _SIZE.unpack_from(data)[0] != len(data) - 4:
                raise MalformedFrameError("torn")
            correlation_id, body = decode_response(header.api_key, header.api_version, data[4:])
        except Exception:
            is_harmless = self._key is None and header.api_key in WITHOUT_PROOFS
            is_harmless |= header.api_key == ApiKey.API_VERSIONS
            # Not by zeros, which may be a valid answer.
            wire = self._bytes(data) if is_harmless else data[:8] + b"\xff" * max(0, len(data) - 8)
            return HiddenFrame(wire, header, None, is_hidden=wire != data)
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return HiddenFrame(encode_response(_without_proof(body), correlation_id), header, body, is_hidden=True)
        try:
            covered = self._covered(body)
            kept = data if covered is body else encode_response(covered, correlation_id)
        except Exception:
            return HiddenFrame(blanked(data, 8), header, None, is_hidden=True)
        body, wire = covered, kept
        if header.api_key not in WITHOUT_PROOFS:
            wire = redacted_response(header.api_key, header.api_version, kept, payloads=True, most_decoded=_LARGEST)
        return HiddenFrame(wire, header, body, is_hidden=wire != data)

    # internals

    def _covered(self, value: object, name: str = "") -> Any:
        """A message, or a part of one, with digests in its records and other names; the same object without either."""
        if self._key is None and not self._names:
            return value
        if isinstance(value, str):
            other = self.text(value)
            return value if other == value else type(value)(other)
        if isinstance(value, bytes | bytearray | memoryview):
            if name != "records":
                return self._bytes(bytes(value)) if self._names else value
            return b"".join(map(self._hashed_batch, iter_batches(value))) if value and self._key else value
        if isinstance(value, tuple | list):
            parts = [self._covered(each, name) for each in value]
            is_same = all(part is each for part, each in zip(parts, value, strict=True))
            return value if is_same else tuple(parts)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        changed = {}
        for field in dataclasses.fields(value):
            before = getattr(value, field.name)
            after = self._covered(before, field.name)
            if after is not before:
                changed[field.name] = after
        return dataclasses.replace(value, **changed) if changed else value

    def _bytes(self, data: bytes) -> bytes:
        for name, other in self._names.items():
            data = data.replace(name.encode(), other.encode())
        return data

    def _hashed_batch(self, batch: RecordBatch) -> bytes:
        if batch.is_control:  # a broker's marker
            return bytes(batch.buffer)
        section = bytearray(batch.section())
        cover_records(section, 0, len(section), batch.record_count, self._digest)
        return bytes(batch.with_section(bytes(section)))

    def _digest(self, part: bytes, is_name: bool) -> bytes:
        if is_name or self._key is None:
            return part
        return hashlib.shake_256(self._key + part).digest(len(part))


def _pseudonyms(names: Sequence[str]) -> dict[str, str]:
    """Another name for each, with the same length and punctuation; the longest first, since a name may be a part of
    another.
    """
    key = os.urandom(32)
    found = {}
    for name in sorted(set(names), key=lambda each: (-len(each), each)):
        if len(name) < SHORTEST_NAME or not (name.isascii() and name.isprintable()):
            raise ValueError(f"name to hide {name!r}: it has at least {SHORTEST_NAME} characters, all of them ASCII")
        drawn = hashlib.shake_256(key + name.encode()).digest(len(name))
        letters = (_LETTERS[byte % len(_LETTERS)] for byte in drawn)
        found[name] = "".join(letter if old.isalnum() else old for old, letter in zip(name, letters, strict=True))
    return found


def _known_header(frame: bytes) -> RequestHeader:
    try:
        header, _ = decode_request_header(frame)
        schema_versions(header.api_key)
    except Exception:
        return NO_HEADER
    return header


def _decoded(frame: bytes) -> tuple[int, Struct]:
    """The end of a request in its frame, and its body."""
    header, position = decode_request_header(frame)
    cursor = RequestCursor(frame, position)
    entity: Any = request_class(header.api_key, header.api_version)
    body = entity_reader(entity)(cursor)
    return cursor.position, body


def _undecoded(data: bytes, header: RequestHeader, *, is_bare_sasl: bool) -> HiddenFrame:
    """The recorded form of a request that cannot be decoded."""
    if is_bare_sasl or header is NO_HEADER or header.api_key == ApiKey.SASL_AUTHENTICATE:
        return HiddenFrame(blanked(data, 4), NO_HEADER, None, is_hidden=len(data) > 4)
    if header.api_key == ApiKey.API_VERSIONS:  # of a future version (KIP-511), and without secrets
        return HiddenFrame(data, header, None, is_hidden=False)
    hidden = redacted_request(data, payloads=False, most_decoded=0)
    return HiddenFrame(hidden, header, None, is_hidden=hidden != data)


def _without_proof(body: Struct) -> Struct:
    # Encoded again, which removes fields that only a later version knows.
    return dataclasses.replace(body, auth_bytes=bytes(len(body.auth_bytes)))
