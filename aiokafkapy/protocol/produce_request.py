"""Encodes the Produce request, versions 3 to 13, without kio.

Produce is the one API on the hot path: kio's request copies every batch, some 0.6 ms for 1 MB, where a list of buffers
copies nothing. A request is a list of buffers in which the batches are the builders' own. Its response is read in
``produce_response``; all other APIs go through ``codec`` or ``metadata``.

Kafka counterpart: ``ProduceRequest``.

The versions: 3 (transactional id) to 8 have the old encoding, 9 and later the flexible one, and 13 has topic ids
instead of names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from ..common import Buffer
from .api import ApiKey
from .codec import encode_request_header, unsigned_varint
from .constants import FIRST_PRODUCE_WITH_TOPIC_IDS
from .framing import HAS_GIL
from .produce_response import FIRST_FLEXIBLE, HIGHEST_VERSION

__all__ = ["encode_lone_produce_request", "encode_produce_request"]

_PRODUCE: Final = int(ApiKey.PRODUCE)
LOWEST_VERSION: Final = 3

SMALL_BUFFER: Final = 2048
"""A buffer up to this size is copied into the piece before it: cheaper than one more piece for the transport."""

_HIGHEST_VERSION: Final = HIGHEST_VERSION  # numbers of C's, compiled
_SMALL_BUFFER: Final = SMALL_BUFFER
_LONE_TAIL: Final = b"\0\0\0"
_LONE_TAIL_SIZE: Final = 3
_INT32_SIZE: Final = 4
_BEHIND_PARTITION: Final = 6
"""The bytes from the partition to the end of a lone request's head."""
_CORRELATION_ID: Final = 8
"""The position of the correlation id in a request's frame, after the frame's size, API key and version."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ACKS_AND_TIMEOUT: Final = Struct(">hi")
_pack_partition_head, _pack_large_partition_head = Struct(">IBB").pack, Struct(">IBBB").pack
"""Partition number, and the size of its records as a varint of two bytes, or of three."""


def encode_produce_request(
    version: int, correlation_id: int, client_id: str | None, transactional_id: str | None, acks: int,
    timeout_ms: int, topics: Sequence[tuple[str, bytes | None, Sequence[tuple[int, Sequence[Buffer]]]]],
) -> list[bytes | memoryview]:  # fmt: skip
    """The buffers of a whole request frame, in order; the first begins with the frame's size.

    ``topics`` holds (name, id, partitions), each partition (index, buffers of its one batch). Version 13 writes the
    ids, the others the names. Batches go into the list as they are, except for small buffers.
    """
    if not LOWEST_VERSION <= version <= HIGHEST_VERSION:
        raise ValueError(f"Produce version {version} is not between {LOWEST_VERSION} and {HIGHEST_VERSION}")
    flexible = version >= FIRST_FLEXIBLE
    head = bytearray(
        encode_request_header(
            ApiKey.PRODUCE, version, correlation_id, None if client_id is None else client_id.encode()
        )
    )
    _write_string(head, transactional_id, flexible)
    head += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    _write_count(head, len(topics), flexible)
    pieces: list[Buffer] = [b""]  # a place for the frame's size
    for name, topic_id, partitions in topics:
        if version < FIRST_PRODUCE_WITH_TOPIC_IDS:
            _write_string(head, name, flexible)
        elif topic_id is None:
            raise ValueError(f"Produce version {version} needs the id of topic {name}")
        else:
            head += topic_id
        _write_count(head, len(partitions), flexible)
        pieces.append(bytes(head))
        for partition, buffers in partitions:
            size = 0
            for buffer in buffers:
                size += len(buffer)
            pieces.append(_partition_head(partition, size, flexible))
            pieces += buffers
            if flexible:
                pieces.append(b"\0")
        head = bytearray(1 if flexible else 0)
    pieces += (head, b"\0") if flexible else (head,)
    return _gathered(pieces)


def _partition_head(partition: int, size: int, flexible: bool) -> bytes:
    """Partition number and size of its records; in one step for nearly all."""
    partition &= 0xFFFFFFFF
    if not flexible:
        return partition.to_bytes(4, "big") + size.to_bytes(4, "big")
    size += 1
    if 0x80 <= size < 0x4000:
        return _pack_partition_head(partition, size & 0x7F | 0x80, size >> 7)
    if 0x4000 <= size < 0x200000:  # a full batch of the default size
        return _pack_large_partition_head(partition, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14)
    return partition.to_bytes(4, "big") + unsigned_varint(size)


def _gathered(pieces: list[Buffer]) -> list[bytes | memoryview]:
    """Join small pieces, since transports are faster with few; the empty first one becomes the frame's size."""
    gathered: list[bytes | memoryview] = []
    small: list[Buffer] = []
    total = 0
    for piece in pieces:
        size = len(piece)
        total += size
        if size <= _SMALL_BUFFER:
            small.append(piece)
            continue
        gathered.append(b"".join(small))
        # Transports are fastest with bytes, and bytes cannot change while they are being written.
        gathered.append(bytes(piece) if isinstance(piece, bytearray) else piece)
        small = []
    gathered.append(b"".join(small))
    gathered[0] = _INT32.pack(total) + gathered[0]
    return [piece for piece in gathered if len(piece)]


def encode_lone_produce_request(
    version: int, correlation_id: int, client_id: str | None, transactional_id: str | None, acks: int,
    timeout_ms: int, topic: str, topic_id: bytes | None, partition: int, buffers: tuple[Buffer, ...],
) -> list[bytes | memoryview]:  # fmt: skip
    """As ``encode_produce_request``, for one batch: the case of a single awaited send."""
    if version == _HIGHEST_VERSION and transactional_id is None and topic_id is not None:
        return _encode_lone_request(correlation_id, client_id, acks, timeout_ms, topic_id, partition, buffers)
    topics = [(topic, topic_id, [(partition, buffers)])]
    return encode_produce_request(version, correlation_id, client_id, transactional_id, acks, timeout_ms, topics)


def _encode_lone_request(
    correlation_id: int, client_id: str | None, acks: int, timeout_ms: int, topic_id: bytes, partition: int,
    buffers: tuple[Buffer, ...],
) -> list[bytes | memoryview]:  # fmt: skip
    """A request with one batch, the usual one of a lone awaited send, in a third of the time of the general code."""
    size = 0
    for buffer in buffers:
        size += len(buffer)
    head = _new_lone_head(client_id, acks, timeout_ms, topic_id)
    end = len(head)
    _put_int32(head, end - _BEHIND_PARTITION, partition)
    rest = size + 1
    if 0x80 <= rest < 0x4000:  # two bytes, for which there is room
        head[end - 2] = rest & 0x7F | 0x80
        head[end - 1] = rest >> 7
    else:
        end = _put_long_size(head, rest)
    _put_int32(head, 0, end - _INT32_SIZE + size + _LONE_TAIL_SIZE)
    _put_int32(head, _CORRELATION_ID, correlation_id)
    if size <= _SMALL_BUFFER and len(buffers) == 1:
        return [b"".join((head, buffers[0], _LONE_TAIL))]
    if size <= _SMALL_BUFFER:
        return [b"".join((head, *buffers, _LONE_TAIL))]
    pieces: list[bytes | memoryview] = [b"".join((head, buffers[0]))]
    pieces += [bytes(buffer) if isinstance(buffer, bytearray) else buffer for buffer in buffers[1:]]
    pieces.append(_LONE_TAIL)
    return pieces


_last_lone_head: tuple[str | None, int, int, bytes | None, bytearray] = (None, 0, 0, None, bytearray())
"""The arguments of the last such request, and the result of ``_lone_head``."""


def _new_lone_head(client_id: str | None, acks: int, timeout_ms: int, topic_id: bytes) -> bytearray:
    """A copy of ``_lone_head``, usually the same as for the request before."""
    global _last_lone_head
    if not HAS_GIL:
        return bytearray(_lone_head(client_id, acks, timeout_ms, topic_id))
    last_client_id, last_acks, last_timeout_ms, last_topic_id, head = _last_lone_head
    if (
        last_topic_id is not topic_id
        or last_client_id is not client_id
        or last_acks != acks
        or last_timeout_ms != timeout_ms
    ):
        head = bytearray(_lone_head(client_id, acks, timeout_ms, topic_id))
        _last_lone_head = client_id, acks, timeout_ms, topic_id, head
    return head.copy()


@lru_cache(maxsize=64)
def _lone_head(client_id: str | None, acks: int, timeout_ms: int, topic_id: bytes) -> bytes:
    """All that precedes the records in a request of the highest version for one partition. The frame's size, the
    correlation id, the partition, and the size of its records are zero.

    Frame size, API key, version, correlation id, client id; no tags, no transactional id, acks, time-out, the one
    topic, its one partition, and two bytes for the size of its records.
    """
    encoded_id = b"" if client_id is None else client_id.encode()
    client_id_size = -1 if client_id is None else len(encoded_id)
    return Struct(f">ihhih{len(encoded_id)}sBBhiB16sBiBB").pack(
        0, _PRODUCE, HIGHEST_VERSION, 0, client_id_size, encoded_id,
        0, 0, acks, timeout_ms, 2, topic_id, 2, 0, 0, 0,
    )  # fmt: skip


def _put_long_size(head: bytearray, size: int) -> int:
    """Write the size of the records, as an unsigned varint of another length than two; returns that of the head."""
    del head[-2:]
    head += unsigned_varint(size)
    return len(head)


def _put_int32(target: bytearray, position: int, value: int) -> None:
    target[position] = value >> 24 & 0xFF
    target[position + 1] = value >> 16 & 0xFF
    target[position + 2] = value >> 8 & 0xFF
    target[position + 3] = value & 0xFF


def _write_string(target: bytearray, text: str | None, flexible: bool) -> None:
    encoded = None if text is None else text.encode()
    size = -1 if encoded is None else len(encoded)
    if flexible:
        target += unsigned_varint(size + 1)
    else:
        target += _INT16.pack(size)
    if encoded is not None:
        target += encoded


def _write_count(target: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        target += unsigned_varint(count + 1)
    else:
        target += _INT32.pack(count)
