"""Encodes and decodes whole request and response frames with kio's serializers, as ``writer`` does.

kio is imported with the first frame of one of its messages. A message that has ``append_to`` writes itself.

Header rules, checked against all 292 request versions of the Java client: a request's header is version 2 if the
request's version is flexible, else 1; a response's is 1 if flexible, else 0, except that an ApiVersions response always
has version 0, since the client must read it before it knows the broker's versions. Invalid bytes raise
MalformedFrameError.
"""

from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from ..common import Buffer
from ..errors import MalformedFrameError
from .api import ApiKey, is_flexible, request_class, response_class
from .cursor import Cursor, FieldReader, RequestCursor
from .framing import decode_correlation_id

__all__ = [
    "Struct",
    "Message",
    "RequestHeader",
    "decode_request",
    "decode_request_body",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_request_header",
    "encode_response",
    "response_header_size",
    "unsigned_varint",
]

_REQUEST_HEADER = struct.Struct(">hhih")
_SIZE = struct.Struct(">i")


class Message(Protocol):
    """One of kio's requests or responses, of any API and version, or one that writes itself by ``append_to``."""

    @property
    def __api_key__(self) -> int: ...

    @property
    def __version__(self) -> int: ...


class Struct(Protocol):
    """One of kio's messages as it was read or built, or a part of one, such as a topic in it.

    kio has a class for each version and no common base: the fields depend on the version, so a type checker lets every
    name be read, and its value be anything. It does check that there is an entity at all.
    """

    if TYPE_CHECKING:
        # A whole message has it; a part of one has no key.
        @property
        def __api_key__(self) -> int: ...

        @property
        def __version__(self) -> int: ...

        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

        def __getattr__(self, name: str) -> Any: ...


class RequestHeader(NamedTuple):
    """A request's header, of any version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: bytes | None) -> bytes:
    """The header in front of a request's body, without the frame's size; ``client_id`` is already UTF-8."""
    size = -1 if client_id is None else len(client_id)
    header = _REQUEST_HEADER.pack(api_key, version, correlation_id, size) + (client_id or b"")
    return header + b"\0" if is_flexible(api_key, version) else header


@lru_cache(maxsize=1024)
def unsigned_varint(number: int) -> bytes:
    """An unsigned varint: base 128, low bits first; flexible versions use it for sizes and counts."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def encode_request(body: Message, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request frame, including its size."""
    encoded_id = None if client_id is None else client_id.encode()
    return _frame(encode_request_header(body.__api_key__, body.__version__, correlation_id, encoded_id), body)


def encode_response(body: Message, correlation_id: int) -> bytes:
    """A whole response frame, including its size."""
    header = _SIZE.pack(correlation_id)
    if response_header_size(body.__api_key__, body.__version__) > 4:
        header += b"\0"
    return _frame(header, body)


def response_header_size(api_key: int, version: int) -> int:
    """Bytes of a response's header when it has no tagged fields."""
    return 5 if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS else 4


def decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Any]:
    """The correlation id and body of a response frame (without its size). Bytes after the body are an error.

    The body is a ``Struct``, or a more exact type that the caller has for this API, such as a protocol of its own.
    """
    from .reader import entity_reader

    entity: Any = response_class(api_key, version)
    return read_response(api_key, version, frame, entity_reader(entity))


def read_response(
    api_key: int, version: int, frame: bytes, read_body: FieldReader, *, may_be_longer: bool = False
) -> tuple[int, Any]:
    """As ``decode_response``, with any reader of the body; ``may_be_longer`` permits bytes after it."""
    correlation_id = decode_correlation_id(frame)
    cursor = Cursor(frame, 4)
    if response_header_size(api_key, version) > 4:
        cursor.skip_tags()
    body = read_body(cursor)
    if cursor.position != cursor.end and not may_be_longer:
        raise MalformedFrameError(f"{cursor.end - cursor.position} bytes are left after {type(body).__name__}")
    return correlation_id, body


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """A request frame's header and the position of its body; raises KeyError if the API or version has no schema."""
    if len(frame) < _REQUEST_HEADER.size:
        raise MalformedFrameError(f"a request of {len(frame)} bytes has no header")
    api_key, version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame)
    cursor = Cursor(frame, _REQUEST_HEADER.size)
    try:
        client_id = None if size < 0 else cursor.take(size).decode()
    except UnicodeDecodeError:
        raise MalformedFrameError("the client id is not UTF-8") from None
    header = RequestHeader(api_key, version, correlation_id, client_id)
    if _has_flexible_header(api_key, version):
        cursor.skip_tags()
    return header, cursor.position


def decode_request_body(header: RequestHeader, frame: bytes, position: int) -> Struct:
    """The body at ``position`` of a request frame.

    Bytes after it are ignored, as Java's broker does: librdkafka sends some after a Metadata request for all topics.
    """
    from .reader import entity_reader

    entity: Any = request_class(header.api_key, header.api_version)
    body: Struct = entity_reader(entity)(RequestCursor(frame, position))
    return body


def decode_request(frame: bytes) -> tuple[RequestHeader, Struct]:
    """A request frame's header and body."""
    header, position = decode_request_header(frame)
    return header, decode_request_body(header, frame, position)


def _has_flexible_header(api_key: int, version: int) -> bool:
    try:
        return is_flexible(api_key, version)
    except Exception:  # kio has several errors for "no such schema"
        # An ApiVersions request of a future version must still be answered (KIP-511); its header is flexible.
        return api_key == ApiKey.API_VERSIONS and version > 2


def _frame(header: bytes, body: Any) -> bytes:
    append_to: Callable[[Callable[[Buffer], None]], None] | None = getattr(body, "append_to", None)
    if append_to is not None:
        pieces: list[Buffer] = [header]
        append_to(pieces.append)
        pieces[0] = _SIZE.pack(sum(map(len, pieces))) + header
        return b"".join(pieces)
    from ._kio import entity_writer

    buffer = io.BytesIO()
    buffer.write(b"\0\0\0\0")
    buffer.write(header)
    entity_writer(type(body))(buffer, body)
    with buffer.getbuffer() as view:
        _SIZE.pack_into(view, 0, len(view) - 4)
    return buffer.getvalue()
