"""Reads one topic of a Metadata response, versions 9 to 13, without kio: a column for each field of its partitions.

There may be a hundred thousand partitions in a response. kio makes an object for each of them and for each of its
lists, which takes a second; columns of numbers take a tenth of that, and a quarter of the memory. Older versions are
read by kio's schema, see ``metadata``. Kafka's counterpart is ``MetadataResponse.PartitionMetadata``.

Rules:

- Equal lists of node ids share one tuple: there are few sets of replicas, and many partitions.
- Every length is checked against the bytes that are left (MalformedFrameError); unknown tagged fields are skipped.
- Between slices of a long topic ``on_slice`` is called: compiled, nothing else lets another thread run meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..errors import MalformedFrameError
from .constants import FIRST_METADATA_WITH_TOPIC_IDS
from .cursor import Cursor, read_compact_string
from .framing import int32_at

__all__ = ["PARTITIONS_PER_SLICE", "Lists", "PartitionColumns", "TopicColumns", "read_topic_columns"]

Lists = dict[bytes, tuple[int, ...]]
"""Lists of node ids by their bytes, each once."""

PARTITIONS_PER_SLICE: Final = 1_000
"""They take the compiled form a millisecond, and the interpreted one three."""

_ERROR_CODE_SIZE: Final = 2
_NUMBER: Final = 2
_LEADER: Final = 6
_LEADER_EPOCH: Final = 10
_LISTS: Final = 14
"""The positions of these fields in a partition, which begins with its error code."""
_LONG_VARINT: Final = 0x80
_INT32_SIZE: Final = 4
_PARTITIONS_PER_SLICE: Final = PARTITIONS_PER_SLICE  # a number of C's, compiled


class PartitionColumns(NamedTuple):
    """The partitions of a topic, in the order of the response: the same row of each column is one partition.

    ``offline`` is empty when no partition has an offline replica; ``error_codes`` has those that are not 0.
    """

    numbers: tuple[int, ...]
    leaders: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    replicas: tuple[tuple[int, ...], ...]
    in_sync: tuple[tuple[int, ...], ...]
    offline: tuple[tuple[int, ...], ...]
    error_codes: frozenset[int]


class TopicColumns(NamedTuple):
    """A topic of a response."""

    error_code: int
    name: str | None
    topic_id: bytes | None
    is_internal: bool
    partitions: PartitionColumns


def read_topic_columns(version: int, cursor: Cursor, lists: Lists, on_slice: Callable[[], object]) -> TopicColumns:
    """The topic that begins at ``cursor``, which is moved past it; raises MalformedFrameError."""
    start = cursor.advance(_ERROR_CODE_SIZE)
    error_code = int.from_bytes(cursor.data[start : start + _ERROR_CODE_SIZE], signed=True)
    name = read_compact_string(cursor)
    topic_id = bytes(cursor.take(16)) if version >= FIRST_METADATA_WITH_TOPIC_IDS else b""
    is_internal = cursor.take(1) != b"\0"
    count = cursor.read_count(cursor.read_unsigned_varint() - 1)
    if count < 0:
        raise MalformedFrameError(f"null at offset {cursor.position}, where a topic's partitions are")
    data = cursor.data
    partitions = _read_partitions(data, cursor.position, count, cursor, lists, on_slice)
    cursor.advance(_INT32_SIZE)  # authorized operations
    cursor.skip_tags()
    return TopicColumns(error_code, name, topic_id if any(topic_id) else None, is_internal, partitions)


def _read_partitions(
    data: bytes, position: int, count: int, cursor: Cursor, lists: Lists, on_slice: Callable[[], object]
) -> PartitionColumns:
    end = len(data)
    numbers, leaders, leader_epochs = [], [], []
    columns: list[list[tuple[int, ...]]] = [[], [], []]
    error_codes = set()
    for row in range(count):
        if row % _PARTITIONS_PER_SLICE == _PARTITIONS_PER_SLICE - 1:
            on_slice()
        if end - position < _LISTS:
            raise _cut_off(position, end)
        if data[position] or data[position + 1]:
            error_codes.add(int32_at(data, position) >> 16)
        numbers.append(int32_at(data, position + _NUMBER))
        leaders.append(int32_at(data, position + _LEADER))
        leader_epochs.append(int32_at(data, position + _LEADER_EPOCH))
        position += _LISTS
        for column in columns:
            stop = _end_of_list(data, position, end)
            raw = data[position:stop]
            found = lists.get(raw)
            if found is None:
                found = lists[raw] = _int32s(raw)
            column.append(found)
            position = stop
        if position < end and not data[position]:  # no tagged fields, as ever
            position += 1
        else:
            cursor.position = position
            cursor.skip_tags()
            position = cursor.position
    cursor.position = position
    replicas, in_sync, offline = map(tuple, columns)
    return PartitionColumns(
        tuple(numbers),
        tuple(leaders),
        tuple(leader_epochs),
        replicas,
        replicas if in_sync == replicas else in_sync,
        offline if any(offline) else (),
        frozenset(error_codes),
    )


def _end_of_list(data: bytes, position: int, end: int) -> int:
    """The end of the compact array of int32 that begins at ``position``."""
    size = data[position] if position < end else 0
    if 0 < size < _LONG_VARINT:
        stop = position + 1 + _INT32_SIZE * (size - 1)
    else:
        cursor = Cursor(data, position)
        size = cursor.read_unsigned_varint()
        if not size:
            raise MalformedFrameError(f"null at offset {position}, where a list of node ids is")
        stop = cursor.position + _INT32_SIZE * (size - 1)
    if stop > end:
        raise _cut_off(position, end)
    return stop


def _int32s(raw: bytes) -> tuple[int, ...]:
    """The numbers of a compact array that was measured."""
    return tuple([int32_at(raw, place) for place in range(len(raw) % _INT32_SIZE, len(raw), _INT32_SIZE)])


def _cut_off(position: int, end: int) -> MalformedFrameError:
    return MalformedFrameError(f"a partition of a topic at offset {position} is longer than the {end - position} bytes")
