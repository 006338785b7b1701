"""Decodes the response to a Produce request, versions 3 to 13, without kio.

The counterpart of ``produce_request``, on the hot path as that is. A response becomes one flat list of partitions,
without an object per topic.

Kafka counterparts: ``ProduceResponse``; KIP-951 for leader hints, KIP-467 for record errors.

The versions: 3 to 8 have the old encoding, 9 and later the flexible one; 5 adds the log start offset, 8 the record
errors, 10 the leader hints, and 13 has topic ids instead of names. Every length is checked (MalformedFrameError);
unknown error codes and tagged fields are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .. import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from .. import _form as cython

from ..common import Node
from ..errors import MalformedFrameError
from .constants import FIRST_PRODUCE_WITH_TOPIC_IDS
from .cursor import Cursor
from .framing import int32_at

__all__ = ["PartitionProduceResponse", "ProduceResponse", "decode_produce_response"]

HIGHEST_VERSION: Final = 13
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_LOG_START_OFFSET: Final = 5
FIRST_WITH_RECORD_ERRORS: Final = 8

NODE_ENDPOINTS_TAG: Final = 0
CURRENT_LEADER_TAG: Final = 0
_HIGHEST_VERSION: Final = HIGHEST_VERSION  # a number of C's, compiled

# The tags that name leaders and nodes are only in versions whose lengths are varints.
_FLEXIBLE: Final = True

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
# index, error code, base offset, log append time, and from version 5 on the log start offset
_OLD_PARTITION: Final = Struct(">ihqq")
_PARTITION: Final = Struct(">ihqqq")
_NOTHING_TO_SAY: Final = b"\x01\x00\x00"
"""The end of most partitions: no record errors, no message, no tagged fields."""
_PLAIN_PARTITION: Final = Struct(">ihqqq3s")
"""The same in the flexible versions."""
_LEADER: Final = Struct(">ii")
_TWO_TO_32: Final = 1 << 32
_LONE_ANSWER_SIZE: Final = 62
"""A whole response of the highest version for one partition without errors or hints; its varints are one byte."""


# Not tracked by the cyclic garbage collector: a response may have a thousand, and none can be part of a cycle.
@cython.freelist(64)
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
        topic_id: bytes | None,
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
    topic: str | None, topic_id: bytes | None, partition: int, error_code: int, base_offset: int,
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


# as the others in the response
@cython.freelist(16)
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


def decode_produce_response(version: int, frame: bytes, topic_id: bytes | None = None) -> ProduceResponse:
    """Read a response frame (without its size) of a request of ``version``; raises MalformedFrameError.

    ``topic_id`` is the request's first: an answer that has it shares this very object, where that is cheaper.
    """
    if version == _HIGHEST_VERSION and len(frame) == _LONE_ANSWER_SIZE and type(frame) is bytes:
        lone = _decode_lone_answer(frame, topic_id)
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
        raise MalformedFrameError(f"a string in a Produce response is not valid UTF-8: {error}") from None
    if cursor.position != cursor.end:
        raise MalformedFrameError(f"{cursor.end - cursor.position} bytes are left after a Produce response")
    return ProduceResponse(correlation_id, throttle_time_ms, partitions, node_endpoints)


def _decode_lone_answer(data: bytes, topic_id: bytes | None) -> ProduceResponse | None:
    """The response to one successful batch, the usual one of a lone awaited send; None if the frame is another one.

    Correlation id, no tags, one topic's id, its one partition: index, error code, base offset, log append time, log
    start offset, nothing to say; no tags of the topic, throttle time, no tags.
    """
    if data[4] or data[5] != 2 or data[22] != 2 or data[53] != 1 or data[54] or data[55] or data[56] or data[61]:
        return None
    if topic_id is None or not data.startswith(topic_id, 6):
        topic_id = data[6:22]
    answer = _plain_answer(
        None,
        topic_id,
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


def _read_topic(cursor: Cursor, version: int, partitions: list[PartitionProduceResponse]) -> None:
    flexible = version >= FIRST_FLEXIBLE
    topic: str | None = None
    topic_id: bytes | None = None
    if version < FIRST_PRODUCE_WITH_TOPIC_IDS:
        topic = _read_string(cursor, flexible)
        if topic is None:
            raise MalformedFrameError("a topic in a Produce response has no name")
    else:
        topic_id = bytes(cursor.take(16))
    count = _read_count(cursor, flexible)
    if flexible:
        count -= _read_plain_partitions(cursor, count, topic, topic_id, partitions)
    partitions += [_read_partition(cursor, version, topic, topic_id) for _ in range(count)]
    if flexible:
        _skip_tags(cursor)


def _read_plain_partitions(
    cursor: Cursor, count: int, topic: str | None, topic_id: bytes | None, partitions: list[PartitionProduceResponse]
) -> int:
    """Read the partitions without errors or hints, up to the first that has some; returns their number."""
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


def _read_partition(
    cursor: Cursor, version: int, topic: str | None, topic_id: bytes | None
) -> PartitionProduceResponse:
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
            nodes = [_read_node(cursor) for _ in range(_read_count(cursor, _FLEXIBLE))]
            _expect(cursor, end)
    return tuple(nodes)


def _read_node(cursor: Cursor) -> Node:
    node_id = _read(cursor, _INT32)[0]
    host = _read_string(cursor, _FLEXIBLE)
    if host is None:
        raise MalformedFrameError("a node endpoint in a Produce response has no host")
    port = _read(cursor, _INT32)[0]
    rack = _read_string(cursor, _FLEXIBLE)
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
