"""Encodes the Produce request and decodes its response, versions 3 to 13, without kio.

The one API on the hot path: kio's request copies every batch, some 0.6 ms for 1 MB, where a list of buffers copies
nothing. A request is a list of buffers in which the batches are the builders' own; a response becomes one flat list of
partitions, without an object per topic. All other APIs go through ``codec`` or ``metadata``.

Kafka counterparts: ``ProduceRequest``, ``ProduceResponse``; KIP-951 for leader hints, KIP-467 for record errors.

The versions: 3 (transactional id) to 8 have the old encoding, 9 and later the flexible one; 5 adds the log start
offset, 8 the record errors, 10 the leader hints, and 13 has topic ids instead of names. Every length in a response is
checked (MalformedFrameError); unknown error codes and tagged fields are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

try:
    import cython
except ImportError:  # interpreted, where there is no Cython
    from .. import _form as cython

from ..common import Node
from ..errors import MalformedFrameError
from .api import ApiKey
from .codec import encode_request_header, unsigned_varint
from .framing import HAS_GIL, int32_at
from .reader import Cursor

__all__ = [
    "PartitionProduceResponse",
    "ProduceResponse",
    "decode_produce_response",
    "encode_lone_produce_request",
    "encode_produce_request",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

_PRODUCE: Final = int(ApiKey.PRODUCE)
LOWEST_VERSION: Final = 3
HIGHEST_VERSION: Final = 13
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_LOG_START_OFFSET: Final = 5
FIRST_WITH_RECORD_ERRORS: Final = 8
FIRST_WITH_TOPIC_IDS: Final = 13

SMALL_BUFFER: Final = 2048
"""A buffer up to this size is copied into the piece before it: cheaper than one more piece for the transport."""

NODE_ENDPOINTS_TAG: Final = 0
CURRENT_LEADER_TAG: Final = 0
_HIGHEST_VERSION: Final = HIGHEST_VERSION  # numbers of C's, compiled
_SMALL_BUFFER: Final = SMALL_BUFFER
_LONE_TAIL: Final = b"\0\0\0"
_LONE_TAIL_SIZE: Final = 3
_INT32_SIZE: Final = 4
_BEHIND_PARTITION: Final = 6
"""From there to the end of a lone request's head."""
_CORRELATION_ID: Final = 8
"""Where it stands in a request's frame, behind the frame's size, API key and version."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ACKS_AND_TIMEOUT: Final = Struct(">hi")
# index, error code, base offset, log append time, and from version 5 on the log start offset
_OLD_PARTITION: Final = Struct(">ihqq")
_PARTITION: Final = Struct(">ihqqq")
_NOTHING_TO_SAY: Final = b"\x01\x00\x00"
"""The end of most partitions: no record errors, no message, no tagged fields."""
_PLAIN_PARTITION: Final = Struct(">ihqqq3s")
"""The same in the flexible versions."""
_pack_partition_head, _pack_large_partition_head = Struct(">IBB").pack, Struct(">IBBB").pack
"""Partition number, and the size of its records as a varint of two bytes, or of three."""
_LEADER: Final = Struct(">ii")
_TWO_TO_32: Final = 1 << 32
_LONE_ANSWER_SIZE: Final = 62
"""A whole response of the highest version for one partition without errors or hints; its varints are one byte."""


# Not tracked by the cyclic garbage collector: a response may have a thousand, and none can be part of a cycle.
@cython.no_gc
@cython.final
@cython.cclass
class PartitionProduceResponse:
    """The outcome of one partition's batch. The topic is a name before version 13, and an id from then on.

    ``log_append_time_ms`` is -1 if the records keep their own timestamps. ``record_errors`` are the index in the batch
    and the message of each rejected record (KIP-467); ``current_leader`` is the node id and epoch of the new leader, if
    a broker that no longer leads knows it (KIP-951).
    """

    __slots__ = (
        "base_offset", "current_leader", "error_code", "error_message", "log_append_time_ms", "log_start_offset",
        "partition", "record_errors", "topic", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        topic: str | None,
        topic_id: UUID | None,
        partition: int,
        error_code: int,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        record_errors: tuple[tuple[int, str | None], ...] = (),
        error_message: str | None = None,
        current_leader: tuple[int, int] | None = None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader = current_leader

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionProduceResponse) and self._fields() == other._fields()

    def __repr__(self) -> str:
        return f"PartitionProduceResponse{self._fields()}"

    def _fields(self) -> tuple[object, ...]:
        return (
            self.topic, self.topic_id, self.partition, self.error_code, self.base_offset, self.log_append_time_ms,
            self.log_start_offset, self.record_errors, self.error_message, self.current_leader,
        )  # fmt: skip


def _plain_answer(
    topic: str | None, topic_id: UUID | None, partition: int, error_code: int, base_offset: int,
    log_append_time_ms: int, log_start_offset: int,
) -> PartitionProduceResponse:  # fmt: skip
    """A partition without errors or hints, made without the constructor, which is a Python call."""
    answer = PartitionProduceResponse.__new__(PartitionProduceResponse)
    answer.topic = topic
    answer.topic_id = topic_id
    answer.partition = partition
    answer.error_code = error_code
    answer.base_offset = base_offset
    answer.log_append_time_ms = log_append_time_ms
    answer.log_start_offset = log_start_offset
    answer.record_errors = ()
    answer.error_message = answer.current_leader = None
    return answer


# As those in it.
@cython.no_gc
@cython.final
@cython.cclass
class ProduceResponse:
    """A whole Produce response; ``node_endpoints`` are the addresses of the leaders in ``current_leader``."""

    __slots__ = ("correlation_id", "node_endpoints", "partitions", "throttle_time_ms")

    def __init__(
        self, correlation_id: int, throttle_time_ms: int, partitions: list[PartitionProduceResponse],
        node_endpoints: tuple[Node, ...] = (),
    ) -> None:  # fmt: skip
        self.correlation_id = correlation_id
        self.throttle_time_ms = throttle_time_ms
        self.partitions = partitions
        self.node_endpoints = node_endpoints

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProduceResponse) and self._fields() == other._fields()

    def __repr__(self) -> str:
        return f"ProduceResponse{self._fields()}"

    def _fields(self) -> tuple[object, ...]:
        return self.correlation_id, self.throttle_time_ms, self.partitions, self.node_endpoints


def encode_produce_request(
    version: int, correlation_id: int, client_id: str | None, transactional_id: str | None, acks: int,
    timeout_ms: int, topics: Sequence[tuple[str, UUID | None, Sequence[tuple[int, Sequence[Buffer]]]]],
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
        if version < FIRST_WITH_TOPIC_IDS:
            _write_string(head, name, flexible)
        elif topic_id is None:
            raise ValueError(f"Produce version {version} needs the id of topic {name}")
        else:
            head += topic_id.bytes
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
    timeout_ms: int, topic: str, topic_id: UUID | None, partition: int, buffers: tuple[Buffer, ...],
) -> list[bytes | memoryview]:  # fmt: skip
    """As ``encode_produce_request``, for one batch: the case of a single awaited send."""
    if version == _HIGHEST_VERSION and transactional_id is None and topic_id is not None:
        return _encode_lone_request(correlation_id, client_id, acks, timeout_ms, topic_id, partition, buffers)
    topics = [(topic, topic_id, [(partition, buffers)])]
    return encode_produce_request(version, correlation_id, client_id, transactional_id, acks, timeout_ms, topics)


def _encode_lone_request(
    correlation_id: int, client_id: str | None, acks: int, timeout_ms: int, topic_id: UUID, partition: int,
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


_last_lone_head: tuple[str | None, int, int, UUID | None, bytearray] = (None, 0, 0, None, bytearray())
"""The arguments of the last such request, and the result of ``_lone_head``."""


def _new_lone_head(client_id: str | None, acks: int, timeout_ms: int, topic_id: UUID) -> bytearray:
    """A copy of ``_lone_head``, which is that of the request before as a rule."""
    global _last_lone_head, _last_topic_id
    if not HAS_GIL:
        return bytearray(_lone_head(client_id, acks, timeout_ms, topic_id.int))
    last_client_id, last_acks, last_timeout_ms, last_topic_id, head = _last_lone_head
    if (
        last_topic_id is not topic_id
        or last_client_id is not client_id
        or last_acks != acks
        or last_timeout_ms != timeout_ms
    ):
        # By the id's number: a UUID's hash and its ``bytes`` take several Python calls.
        head = bytearray(_lone_head(client_id, acks, timeout_ms, topic_id.int))
        _last_lone_head = client_id, acks, timeout_ms, topic_id, head
        _last_topic_id = topic_id.bytes, topic_id  # which the answer will name: it gets the very same object
    return head.copy()


@lru_cache(maxsize=64)
def _lone_head(client_id: str | None, acks: int, timeout_ms: int, topic_number: int) -> bytes:
    """All that precedes the records in a request of the highest version for one partition; zero are the frame's size,
    the correlation id, the partition, and the size of its records.

    Frame size, API key, version, correlation id, client id; no tags, no transactional id, acks, time-out, the one
    topic, its one partition, and two bytes for the size of its records.
    """
    encoded_id = b"" if client_id is None else client_id.encode()
    client_id_size = -1 if client_id is None else len(encoded_id)
    return Struct(f">ihhih{len(encoded_id)}sBBhiB16sBiBB").pack(
        0, _PRODUCE, HIGHEST_VERSION, 0, client_id_size, encoded_id,
        0, 0, acks, timeout_ms, 2, topic_number.to_bytes(16, "big"), 2, 0, 0, 0,
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


def decode_produce_response(version: int, frame: bytes) -> ProduceResponse:
    """Read a response frame (without its size) of a request of ``version``; raises MalformedFrameError."""
    if version == _HIGHEST_VERSION and len(frame) == _LONE_ANSWER_SIZE and type(frame) is bytes:
        lone = _decode_lone_answer(frame)
        if lone is not None:
            return lone
    return _decode_any_answer(version, frame)


def _decode_any_answer(version: int, frame: bytes) -> ProduceResponse:
    flexible = version >= FIRST_FLEXIBLE
    cursor = Cursor(frame)
    try:
        correlation_id = _read(cursor, _INT32)[0]
        if flexible:
            _skip_tags(cursor)
        partitions: list[PartitionProduceResponse] = []
        for _ in range(_read_count(cursor, flexible)):
            _read_topic(cursor, version, partitions)
        throttle_time_ms = _read(cursor, _INT32)[0]
        node_endpoints = _read_node_endpoints(cursor) if flexible else ()
    except UnicodeDecodeError as error:
        raise MalformedFrameError(f"a string in a Produce response is no UTF-8: {error}") from None
    if cursor.position != cursor.end:
        raise MalformedFrameError(f"{cursor.end - cursor.position} bytes are left after a Produce response")
    return ProduceResponse(correlation_id, throttle_time_ms, partitions, node_endpoints)


def _decode_lone_answer(data: bytes) -> ProduceResponse | None:
    """The response to one successful batch, the usual one of a lone awaited send; None if the frame is another one.

    Correlation id, no tags, one topic's id, its one partition: index, error code, base offset, log append time, log
    start offset, nothing to say; no tags of the topic, throttle time, no tags.
    """
    if data[4] or data[5] != 2 or data[22] != 2 or data[53] != 1 or data[54] or data[55] or data[56] or data[61]:
        return None
    answer = _plain_answer(
        None,
        _topic_id_at_6(data) if HAS_GIL else _topic_id(data[6:22]),
        int32_at(data, 23),
        int32_at(data, 27) >> 16,
        _int64_at(data, 29),
        _int64_at(data, 37),
        _int64_at(data, 45),
    )
    response = ProduceResponse.__new__(ProduceResponse)  # without the constructor, as in _plain_answer
    response.correlation_id = int32_at(data, 0)
    response.throttle_time_ms = int32_at(data, 57)
    response.partitions = [answer]
    response.node_endpoints = ()
    return response


def _int64_at(data: bytes, position: int) -> int:
    low = int32_at(data, position + 4)
    return int32_at(data, position) * _TWO_TO_32 + (low if low >= 0 else low + _TWO_TO_32)


_last_topic_id: tuple[bytes, UUID] = (bytes(16), UUID(int=0))
"""The bytes of the id that a lone answer had last, and the id."""


def _topic_id_at_6(data: bytes) -> UUID:
    """As ``_topic_id(data[6:22])``; nothing is cut out when it is that of the answer before."""
    global _last_topic_id
    raw, topic_id = _last_topic_id
    if not data.startswith(raw, 6):
        raw = data[6:22]
        topic_id = _topic_id(raw)
        _last_topic_id = raw, topic_id
    return topic_id


@lru_cache(maxsize=1024)
def _topic_id(raw: bytes) -> UUID:
    """The UUID of these bytes, cached: making one costs more than reading the rest of a response."""
    return UUID(bytes=raw)


def _read_topic(cursor: Cursor, version: int, partitions: list[PartitionProduceResponse]) -> None:
    flexible = version >= FIRST_FLEXIBLE
    topic: str | None = None
    topic_id: UUID | None = None
    if version < FIRST_WITH_TOPIC_IDS:
        topic = _read_string(cursor, flexible)
        if topic is None:
            raise MalformedFrameError("a topic in a Produce response has no name")
    else:
        topic_id = _topic_id(bytes(cursor.take(16)))
    count = _read_count(cursor, flexible)
    if flexible:
        count -= _read_plain_partitions(cursor, count, topic, topic_id, partitions)
    partitions += [_read_partition(cursor, version, topic, topic_id) for _ in range(count)]
    if flexible:
        _skip_tags(cursor)


def _read_plain_partitions(
    cursor: Cursor, count: int, topic: str | None, topic_id: UUID | None, partitions: list[PartitionProduceResponse]
) -> int:
    """Read the partitions without errors or hints, up to the first that has some; returns how many there were."""
    start = cursor.position
    most = min(count, (cursor.end - start) // _PLAIN_PARTITION.size)
    found = 0
    for plain in _PLAIN_PARTITION.iter_unpack(cursor.data[start : start + most * _PLAIN_PARTITION.size]):
        partition, error_code, base_offset, log_append_time_ms, log_start_offset, nothing_to_say = plain
        if nothing_to_say != _NOTHING_TO_SAY:
            break
        found += 1
        partitions.append(
            _plain_answer(topic, topic_id, partition, error_code, base_offset, log_append_time_ms, log_start_offset)
        )
    cursor.position = start + found * _PLAIN_PARTITION.size
    return found


def _read_partition(cursor: Cursor, version: int, topic: str | None, topic_id: UUID | None) -> PartitionProduceResponse:
    flexible = version >= FIRST_FLEXIBLE
    log_start_offset = -1
    if version >= FIRST_WITH_LOG_START_OFFSET:
        partition, error_code, base_offset, log_append_time_ms, log_start_offset = _read(cursor, _PARTITION)
    else:
        partition, error_code, base_offset, log_append_time_ms = _read(cursor, _OLD_PARTITION)
    record_errors: tuple[tuple[int, str | None], ...] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    if flexible and cursor.data[cursor.position : cursor.position + 3] == _NOTHING_TO_SAY:
        cursor.position += 3
    elif version >= FIRST_WITH_RECORD_ERRORS:
        record_errors = tuple([_read_record_error(cursor, flexible) for _ in range(_read_count(cursor, flexible))])
        error_message = _read_string(cursor, flexible)
        current_leader = _read_current_leader(cursor) if flexible else None
    return PartitionProduceResponse(
        topic,
        topic_id,
        partition,
        error_code,
        base_offset,
        log_append_time_ms,
        log_start_offset,
        record_errors,
        error_message,
        current_leader,
    )


def _read_record_error(cursor: Cursor, flexible: bool) -> tuple[int, str | None]:
    index = _read(cursor, _INT32)[0]
    message = _read_string(cursor, flexible)
    if flexible:
        _skip_tags(cursor)
    return index, message


def _read_current_leader(cursor: Cursor) -> tuple[int, int] | None:
    leader: tuple[int, int] | None = None
    for tag, end in _tags(cursor):
        if tag == CURRENT_LEADER_TAG:
            node_id, epoch = _read(cursor, _LEADER)
            _skip_tags(cursor)
            _expect(cursor, end)
            leader = (node_id, epoch) if node_id >= 0 else None
    return leader


def _read_node_endpoints(cursor: Cursor) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for tag, end in _tags(cursor):
        if tag == NODE_ENDPOINTS_TAG:
            nodes = [_read_node(cursor) for _ in range(_read_count(cursor, True))]
            _expect(cursor, end)
    return tuple(nodes)


def _read_node(cursor: Cursor) -> Node:
    node_id = _read(cursor, _INT32)[0]
    host = _read_string(cursor, True)
    if host is None:
        raise MalformedFrameError("a node endpoint in a Produce response has no host")
    port = _read(cursor, _INT32)[0]
    rack = _read_string(cursor, True)
    _skip_tags(cursor)
    return Node(node_id, host, port, rack)


def _tags(cursor: Cursor) -> Iterator[tuple[int, int]]:
    """The tagged fields that follow, as (tag, end of its value); a value that the caller does not read is skipped."""
    for _ in range(cursor.read_count(_read_varint(cursor))):
        tag = cursor.read_unsigned_varint()
        size = cursor.read_unsigned_varint()
        start = cursor.advance(size)
        cursor.position = start
        yield tag, start + size
        cursor.position = start + size


def _skip_tags(cursor: Cursor) -> None:
    for _ in range(cursor.read_count(_read_varint(cursor))):
        cursor.read_unsigned_varint()
        cursor.advance(cursor.read_unsigned_varint())


def _expect(cursor: Cursor, end: int) -> None:
    if cursor.position != end:
        raise MalformedFrameError(f"a tagged field ends at {end}, its content at {cursor.position}")


def _read(cursor: Cursor, struct: Struct) -> tuple[int, ...]:
    return struct.unpack_from(cursor.data, cursor.advance(struct.size))


def _read_varint(cursor: Cursor) -> int:
    position = cursor.position
    if position < cursor.end and (byte := cursor.data[position]) < 0x80:  # one byte, as nearly all are
        cursor.position = position + 1
        return byte
    return cursor.read_unsigned_varint()


def _read_count(cursor: Cursor, flexible: bool) -> int:
    count = _read_varint(cursor) - 1 if flexible else _read(cursor, _INT32)[0]
    if count < 0:
        raise MalformedFrameError("an array in a Produce response is null")
    return cursor.read_count(count)


def _read_string(cursor: Cursor, flexible: bool) -> str | None:
    size = _read_varint(cursor) - 1 if flexible else _read(cursor, _INT16)[0]
    return None if size < 0 else str(cursor.take(size), "utf-8")


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
