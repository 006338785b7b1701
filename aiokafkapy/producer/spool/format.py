"""The bytes of a spool: segments of records, each with its checksum, and the mark of the records that were sent.

Owns the layout, and the choice of the valid records in a damaged file. It knows no files, no clock and no
producer. Kafka's counterparts are ``FileRecords`` and ``CheckpointFile``.

A segment is a header, eight bytes of ``MAGIC`` and four of salt, and frames, one for each record:

    mark (4), size of the body (4), CRC-32C (4), sequence (8), body

The checksum covers the salt, the size, the sequence and the body. The salt is drawn for each file, so that a record
whose value is a piece of a spool is never taken for a record of this one. Numbers are big-endian.

Rules:

- Sequences ascend, with gaps after failed writes. A frame whose sequence does not ascend is ignored.
- Behind damage the next whole frame is looked for; the bytes between are reported as ``Damage``. A frame is taken as
  it was written, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812  # a class
from typing import Any, Final, NamedTuple

from ...common import Headers
from ...record.crc import crc32c
from ..records import PlainRecord, serialized_size

__all__ = [
    "FRAME_OVERHEAD",
    "HEADER_SIZE",
    "SALT_SIZE",
    "Damage",
    "Mark",
    "SpooledRecord",
    "decode_mark",
    "encode_mark",
    "encode_record",
    "header",
    "salt_of",
    "scan",
]

MAGIC: Final = b"AKSPOOL\x01"
"""Its last byte is the version of the format."""
SALT_SIZE: Final = 4
HEADER_SIZE: Final = len(MAGIC) + SALT_SIZE
FRAME_MARK: Final = b"\xa5\x5aSP"

_HEAD: Final = Struct(">4sIIQ")  # mark, size of the body, checksum, sequence
_CHECKED: Final = Struct(">4sIQ")  # salt, size, sequence
_BODY: Final = Struct(">iqiiiI")  # partition or -1, timestamp, sizes of topic, key and value, headers; -1 is None
_HEADER: Final = Struct(">ii")  # sizes of name and value

FRAME_OVERHEAD: Final = _HEAD.size + _BODY.size


class SpooledRecord(NamedTuple):
    """A record in the spool. ``partition`` None was not chosen; ``size`` is the size of its frame."""

    sequence: int
    topic: str
    partition: int | None
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    size: int


class Damage(NamedTuple):
    """Bytes of a segment that are not a record: from ``position`` to before ``end``."""

    position: int
    end: int


class Mark(NamedTuple):
    """The progress of sending: all records before ``next``, and the ``delivered`` ones beyond it, are dealt with;
    those before ``sent_to`` may have been sent. ``partitions`` has the partitions to which records are sent again.
    """

    next: int = 0
    sent_to: int = 0
    delivered: tuple[int, ...] = ()
    partitions: tuple[tuple[int, int], ...] = ()


def header(salt: bytes) -> bytes:
    """The head of a segment with this salt."""
    return MAGIC + salt


def salt_of(data: bytes) -> bytes | None:
    """The salt of a segment; None when its header is cut short. Raises ValueError if the file is not a spool."""
    if not data.startswith(MAGIC):
        if MAGIC.startswith(data[: len(MAGIC)]) and len(data) < HEADER_SIZE:
            return None
        raise ValueError(f"it begins with {data[: len(MAGIC)]!r} and not with {MAGIC!r}")
    return data[len(MAGIC) : HEADER_SIZE] if len(data) >= HEADER_SIZE else None


def encode_record(salt: bytes, sequence: int, record: PlainRecord) -> bytes:
    """The frame of one record."""
    topic, partition, timestamp_ms, key, value, headers = record
    name = topic.encode()
    parts = [
        _BODY.pack(
            -1 if partition is None or partition < 0 else partition,
            timestamp_ms,
            len(name),
            serialized_size(key),
            serialized_size(value),
            len(headers or ()),
        ),
        name,
        key or b"",
        value or b"",
    ]
    for header_name, data in headers or ():
        encoded = header_name.encode()
        parts += (_HEADER.pack(len(encoded), serialized_size(data)), encoded, data or b"")
    body = b"".join(parts)
    return _HEAD.pack(FRAME_MARK, len(body), _checksum(salt, sequence, body), sequence) + body


def scan(data: bytes, salt: bytes, position: int = HEADER_SIZE, after: int = -1) -> Iterator[SpooledRecord | Damage]:
    """The records of a segment from ``position`` on, whose sequences are above ``after``, and the damaged bytes."""
    while position < len(data):
        record = _record_at(data, salt, position, after)
        if record is not None:
            position += record.size
            after = record.sequence
            yield record
            continue
        end = data.find(FRAME_MARK, position + 1)
        while end >= 0 and _record_at(data, salt, end, after) is None:
            end = data.find(FRAME_MARK, end + 1)
        end = len(data) if end < 0 else end
        yield Damage(position, end)
        position = end


def encode_mark(mark: Mark) -> bytes:
    """The content of the file with the mark."""
    text = json.dumps({"version": 1, **mark._asdict()}).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def decode_mark(data: bytes) -> Mark:
    """The opposite of ``encode_mark``. Raises ValueError for anything else."""
    checksum, _, text = data.rstrip(b"\n").partition(b" ")
    if checksum != b"%08x" % crc32c(text):
        raise ValueError("its checksum does not fit its content")
    found: dict[str, Any] = json.loads(text)
    if found.get("version") != 1:
        raise ValueError(f"version {found.get('version')} is not known")
    kept = tuple((sequence, partition) for sequence, partition in found.get("partitions", ()))
    return Mark(found["next"], found["sent_to"], tuple(found["delivered"]), kept)


# internals


def _checksum(salt: bytes, sequence: int, body: bytes | memoryview) -> int:
    return crc32c(body, crc32c(_CHECKED.pack(salt, len(body), sequence)))


def _record_at(data: bytes, salt: bytes, position: int, after: int) -> SpooledRecord | None:
    start = position + _HEAD.size
    if start > len(data):
        return None
    mark, size, checksum, sequence = _HEAD.unpack_from(data, position)
    if mark != FRAME_MARK or size > len(data) - start or sequence <= after:
        return None
    body = memoryview(data)[start : start + size]
    if _checksum(salt, sequence, body) != checksum:
        return None
    try:
        return _decoded(body, sequence, _HEAD.size + size)
    except (StructError, UnicodeDecodeError, ValueError):  # its checksum fits by chance
        return None


def _decoded(body: memoryview, sequence: int, size: int) -> SpooledRecord:
    partition, timestamp_ms, topic_size, key_size, value_size, header_count = _BODY.unpack_from(body)
    position = _BODY.size

    def take(count: int) -> bytes | None:
        nonlocal position
        if count < 0:
            return None
        position += count
        if position > len(body):
            raise ValueError("a size is larger than the body")
        return bytes(body[position - count : position])

    topic = (take(topic_size) or b"").decode()
    key, value = take(key_size), take(value_size)
    headers = []
    for _ in range(header_count):
        name_size, data_size = _HEADER.unpack_from(body, position)
        position += _HEADER.size
        headers.append(((take(name_size) or b"").decode(), take(data_size)))
    if position != len(body):
        raise ValueError("the body is longer than its parts")
    return SpooledRecord(
        sequence, topic, None if partition < 0 else partition, timestamp_ms, key, value, tuple(headers) or None, size
    )
