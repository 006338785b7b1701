"""The byte kernel in plain Python: the twin of ``builder.pyx``, byte for byte.

Owns the innermost loops over bytes: encoding records into a batch, decoding a batch's records, murmur2. It knows no
clock, no network and no topic; sizes and offsets are ints, timestamps are milliseconds since the epoch.

Kafka counterparts: ``MemoryRecordsBuilder``, ``DefaultRecord``, ``DefaultRecordBatch.writeHeader``, ``Utils.murmur2``.

Rules:

- Every change is made in ``builder.pyx`` too; tests/unit/record/test_builder_bytes.py compares their bytes.
- Records are encoded once, when they are appended, into one buffer; sealing a batch encodes nothing again.
- Each stamp makes a new ``bytes`` for the batch's header, so that a buffer that a transport still holds never changes.
- A decoder trusts no length and no count before it has checked it against the remaining bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import takewhile
from struct import Struct
from typing import Any, Final, TypeAlias

from ..common import NO_TIMESTAMP, Buffer, Headers
from ..errors import CorruptMessageError, IllegalStateError, RecordTooLargeError
from .compression import decompress
from .crc import crc32c
from .encoding import (
    HEADS,
    KEPT_VARINTS,
    NO_HEADERS,
    NO_KEY,
    SHORT,
    SHORT_VARINTS,
    VARINTS,
    BatchRecord,
    encode_body,
    read_varint,
    varint,
    wrapped,
)
from .layout import BATCH_HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAX_BATCH_SIZE, TRANSACTIONAL

__all__ = [
    "LONGEST_RUN",
    "RecordBatchBuilder",
    "decode_records",
    "murmur2",
    "plain_headers",
    "plain_number",
    "plain_sizes",
    "record_size_upper_bound",
]

LONGEST_RUN: Final = 2048
"""The most records that should be appended at a time, to bound the time on the loop."""

RecordTuple: TypeAlias = tuple[
    int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, str, int, int
]
"""A decoded record, in the order of ConsumedRecord's fields."""

MAX_RECORD_OVERHEAD: Final = 21
"""Java's ``DefaultRecord.MAX_RECORD_OVERHEAD``: length 5, attributes 1, timestamp delta 10, offset delta 5."""
MIN_RECORD_SIZE: Final = 7
"""The smallest record: length, attributes, two deltas, null key and value, no headers; a byte each."""

UNKNOWN_LEADER_EPOCH: Final = -1
NO_PRODUCER: Final = -1

FIRST_STORAGE: Final = 511
"""The capacity of a batch with a small record, without the byte that a bytearray adds."""
SMALL_STORAGE: Final = 2048
"""Up to this size the storage doubles, then it grows by a quarter."""

FEWEST_ALIKE: Final = 4
MOST_ALIKE: Final = 64
"""The number of values that are encoded in one step. Fewer cost more than they save; before each value that differs
from the next ones, as many were examined for nothing.
"""

UNLIMITED: Final = 1 << 62
"""An allowance that no batch reaches."""

# base offset, length, leader epoch, magic, crc
_PREAMBLE: Final = Struct(">qiibI")
# attributes, last offset delta, base timestamp, max timestamp, producer id, producer epoch, base sequence, count
_CHECKED_HEADER: Final = Struct(">hiqqqhii")


class RecordBatchBuilder:
    """Encodes records into one batch (magic 2): append, then seal once, then stamp and write ``buffers()``.

    ``limit`` is the size in bytes, header included, past which no further record is taken; an empty builder takes any
    record. ``size`` counts the bytes of the batch so far, ``count`` its records, ``records_size`` the bytes of its
    records before compression; ``capacity`` is the memory actually held, which counts against ``buffer_memory``. It
    never exceeds ``allowance``, by default unlimited. ``expected`` is an estimate of the bytes of records to come. A
    builder is for one thread at a time, but the results of ``records_view()`` and ``buffers()`` may be read in any
    thread.
    """

    __slots__ = (
        "_header",
        "_is_closed",
        "_payload",
        "_records_size",
        "_room",
        "_storage",
        "allowance",
        "base_sequence",
        "base_timestamp",
        "capacity",
        "compression",
        "count",
        "expected",
        "is_sealed",
        "is_transactional",
        "limit",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "size",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.allowance = UNLIMITED
        self.expected = 0  # bytes of records; a hint for the compiled form only
        self.size = BATCH_HEADER_SIZE
        self.count = 0
        self.capacity = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.compression = 0
        self.is_sealed = False
        # the size up to which a record needs neither memory nor a check of the limit; 0 before the first record
        self._room = 0
        # the last stamp
        self.producer_id = NO_PRODUCER
        self.producer_epoch = NO_PRODUCER
        self.base_sequence = NO_PRODUCER
        self.is_transactional = False
        # bytes
        self._storage = bytearray()
        self._is_closed = False
        self._payload: Buffer | None = None
        self._header: bytes | None = None
        self._records_size = 0  # set when a batch is compressed, whose records are then gone

    def try_append(self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers | None) -> int:
        """Encode a record and return its size in bytes; 0 when it does not fit and the batch is not empty.

        If it fits but needs more memory than ``allowance``, the negative of the capacity needed is returned. Raises
        TypeError if key or value is not bytes-like, and IllegalStateError once the records were viewed or the batch
        sealed. The batch is unchanged after an error.
        """
        count = self.count
        delta = timestamp_ms - self.base_timestamp
        # The common case, without a call for each part of the record. ``_room`` is 0 for the others: a batch that is
        # empty or closed, a record that needs more memory or is the first that does not fit.
        if (
            0 <= delta < KEPT_VARINTS
            and count < KEPT_VARINTS
            and type(value) is bytes
            and (value_size := len(value)) < SHORT
            and (key is None or (type(key) is bytes and len(key) < SHORT))
            and not headers
        ):
            if key is None:
                body = b"".join((HEADS[delta], VARINTS[count], NO_KEY[value_size], value, NO_HEADERS))
            else:
                key_size = VARINTS[len(key)]
                body = b"".join((HEADS[delta], VARINTS[count], key_size, key, VARINTS[value_size], value, NO_HEADERS))
            record = VARINTS[len(body)] + body
            record_size = len(record)
            size = self.size + record_size
            if size <= self._room:
                self._storage += record
                self.count = count + 1
                self.size = size
                if timestamp_ms > self.max_timestamp:
                    self.max_timestamp = timestamp_ms
                return record_size
        return self._append_any(timestamp_ms, key, value, headers)

    @property
    def records_size(self) -> int:
        """The bytes of the records before compression."""
        return self.size - BATCH_HEADER_SIZE if self._payload is None else self._records_size

    def append_run(self, timestamp_ms: int, values: Sequence[Buffer | None], start: int, stop: int) -> int:
        """Encode ``values[start:stop]``, without keys and headers, up to the first that needs ``try_append``: its
        position.

        That value may fit, or not, or be invalid.
        """
        position = start
        while position < stop and type(values[position]) in _PLAIN:
            taken = self._append_alike(timestamp_ms, values[position : min(stop, position + MOST_ALIKE)])
            if not taken and self.try_append(timestamp_ms, None, values[position], None) <= 0:
                break
            position += taken or 1
        return position

    def records_view(self) -> memoryview:
        """The encoded records in one piece (a copy if they are in several blocks); no record can be appended after it.

        For the compressor, in this thread or another. Raises IllegalStateError once the batch is sealed with a
        compressed payload, since the raw bytes are freed then.
        """
        if self._payload is not None:
            raise IllegalStateError("the batch is compressed: its raw records are gone")
        self._is_closed, self._room = True, 0
        return memoryview(self._storage).toreadonly()

    def seal(self, compression: int, compressed_payload: Buffer | None = None) -> None:
        """End appending, once; with a codec, ``compressed_payload`` replaces the raw records, which are freed."""
        if self.is_sealed:
            raise IllegalStateError("the batch is sealed already")
        if (compression == 0) != (compressed_payload is None):
            raise ValueError("a compressed payload goes with a codec, and a codec with a payload")
        if compressed_payload is not None:
            payload_size = len(memoryview(compressed_payload).cast("B"))
            if payload_size > MAX_BATCH_SIZE - BATCH_HEADER_SIZE:
                raise ValueError(f"a compressed payload of {payload_size} bytes does not fit into a batch")
            self._records_size = self.records_size
            self._payload = compressed_payload
            self._storage = bytearray()  # not cleared: a view of it may still be held
            self.size = BATCH_HEADER_SIZE + payload_size
            self.capacity = payload_size
        self.compression = compression
        self.is_sealed = self._is_closed = True
        self._room = 0

    def stamp(self, producer_id: int, epoch: int, base_sequence: int, is_transactional: bool = False) -> None:
        """Write the header for this producer id, epoch and sequence.

        May be called again with other values (KIP-360); buffers handed out before keep the old header.
        """
        if not self.is_sealed:
            raise IllegalStateError("seal the batch before it is stamped")
        unchanged = (
            self.producer_id == producer_id
            and self.producer_epoch == epoch
            and self.base_sequence == base_sequence
            and self.is_transactional == is_transactional
        )
        if self._header is not None and unchanged:
            return
        attributes = self.compression | (TRANSACTIONAL if is_transactional else 0)
        checked = _CHECKED_HEADER.pack(
            attributes,
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            epoch,
            base_sequence,
            self.count,
        )
        crc = crc32c(self._storage if self._payload is None else self._payload, crc32c(checked))
        self._header = _PREAMBLE.pack(0, self.size - LOG_OVERHEAD, UNKNOWN_LEADER_EPOCH, MAGIC, crc) + checked
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional

    def buffers(self) -> tuple[Buffer, ...]:
        """Header and records as written to the wire, without a copy: two buffers or more, which must not be changed.

        A batch without a stamp gets one without a producer id. Raises IllegalStateError before the batch is sealed.
        """
        if self._header is None:
            self.stamp(NO_PRODUCER, NO_PRODUCER, NO_PRODUCER)
        assert self._header is not None
        return self._header, self.records_view() if self._payload is None else self._payload

    def records(self) -> Iterator[BatchRecord]:
        """Decode the appended records, in order; for splitting a batch."""
        if self._payload is None:
            data: Buffer = self._storage
        else:
            data = decompress(self.compression, self._payload, self.records_size)
        for _, key, value, headers, timestamp_ms, *_ in decode_records(data, self.count, 0, self.base_timestamp):
            yield BatchRecord(timestamp_ms, key, value, headers)

    # internals

    def _append_alike(self, timestamp_ms: int, values: Sequence[Any]) -> int:
        """Encode the first of ``values``, as many as differ in their offsets and their bytes only, joined in one
        step; returns their number, 0 if that is not worth it or not possible here.
        """
        count, delta, value = self.count, timestamp_ms - self.base_timestamp, values[0]
        if not 0 <= delta < KEPT_VARINTS or count >= KEPT_VARINTS or type(value) is not bytes:
            return 0
        value_size = len(value)
        if value_size >= SHORT:
            return 0
        offset = VARINTS[count]
        body_size = len(HEADS[delta]) + len(offset) + len(NO_KEY[value_size]) + value_size + len(NO_HEADERS)
        head, between = VARINTS[body_size] + HEADS[delta], NO_KEY[value_size]
        record_size = body_size + len(VARINTS[body_size])
        same_offsets = (SHORT_VARINTS if count < SHORT_VARINTS else KEPT_VARINTS) - count
        most = min(len(values), same_offsets, (self._room - self.size) // record_size)
        if most < FEWEST_ALIKE or type(values[1]) is not bytes or len(values[1]) != value_size:
            return 0
        alike = list(takewhile(lambda other: type(other) is bytes and len(other) == value_size, values[:most]))
        records = map(between.join, zip(VARINTS[count : count + len(alike)], alike, strict=True))
        self._storage += head + (NO_HEADERS + head).join(records) + NO_HEADERS
        self.count += len(alike)
        self.size += len(alike) * record_size
        self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        return len(alike)

    def _append_any(self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Headers | None) -> int:
        """``try_append`` for any record and any state of the batch."""
        if self._is_closed:
            raise IllegalStateError("the batch is closed and takes no more records")
        count = self.count
        body = encode_body(self._timestamp_delta(timestamp_ms), count, key, value, headers)
        record = varint(len(body)) + body
        record_size = len(record)
        size = self.size + record_size
        if size > self.limit and count:
            return 0
        if size > MAX_BATCH_SIZE:
            text = f"a record of {record_size} bytes does not fit into a batch, which may have {MAX_BATCH_SIZE}"
            raise RecordTooLargeError(text, size=record_size, limit=MAX_BATCH_SIZE)
        needed = size - BATCH_HEADER_SIZE
        if needed < self.capacity:
            self._storage += record
        else:
            capacity = self._next_capacity(needed)
            if capacity > self.allowance:
                return -capacity
            self._grow(capacity, record)
        if not count:
            self.base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.count = count + 1
        self.size = size
        # A bytearray ends with a hidden byte. Near the largest timestamp delta, each record is checked.
        if self.base_timestamp < 2**63 - KEPT_VARINTS:
            self._room = min(self.limit, BATCH_HEADER_SIZE + self.capacity - 1)
        return record_size

    def _next_capacity(self, needed: int) -> int:
        """The next capacity of the storage: a trade-off between few reallocations and little unused memory."""
        wanted = max(FIRST_STORAGE, 2 * needed)
        if needed >= SMALL_STORAGE:
            wanted = needed + needed // 4 if self.count else needed  # a large first record is often the only one
        return max(needed, min(wanted, self.limit - BATCH_HEADER_SIZE)) + 1

    def _grow(self, capacity: int, record: bytes) -> None:
        """Add a record and grow the storage to ``capacity`` bytes: by itself it would over-allocate by an eighth, which
        nothing counts.
        """
        used = len(self._storage)
        storage = bytearray(capacity - 1)
        storage[:used] = self._storage
        storage[used : used + len(record)] = record
        del storage[used + len(record) :]  # a bytearray keeps its memory as long as half of it is used
        self._storage = storage
        self.capacity = storage.__alloc__()

    def _timestamp_delta(self, timestamp_ms: int) -> int:
        if not -(2**63) <= timestamp_ms < 2**63:
            raise OverflowError(f"timestamp_ms {timestamp_ms} does not fit into 64 bits")
        if not self.count:
            return 0
        # Wraps around as Java's long does.
        return (timestamp_ms - self.base_timestamp + 2**63) % 2**64 - 2**63


def record_size_upper_bound(key: Buffer | None, value: Buffer | None, headers: Headers | None) -> int:
    """The most bytes that a batch with only this record can have, its header included.

    To be compared with ``max.request.size`` and ``buffer.memory``; within a few bytes of Java's
    ``AbstractRecords.estimateSizeInBytesUpperBound``.
    """
    size = BATCH_HEADER_SIZE + MAX_RECORD_OVERHEAD + 15
    if key is not None:
        size += _size_of(key)
    if value is not None:
        size += _size_of(value)
    for name, content in headers or ():
        size += 10 + len(name.encode()) + (0 if content is None else _size_of(content))
    return size


def plain_sizes(values: list[Any], start: int, stop: int) -> tuple[array[int], int] | None:
    """The sizes of values[start:stop] if all are bytes or None (-1), and their sum; None if one is of another type or
    too large for any batch.
    """
    values = values[start:stop]
    if not _PLAIN.issuperset(map(type, values)):
        return None
    try:
        if None in values:
            sizes = array("i", [-1 if value is None else len(value) for value in values])
            return sizes, sum(size for size in sizes if size > 0)
        sizes = array("i", map(len, values))
    except OverflowError:
        return None
    return sizes, sum(sizes)


_PLAIN: Final = frozenset((bytes, type(None)))


def plain_headers(headers: object) -> tuple[tuple[str, bytes | None], ...] | None:
    """A list or tuple of headers as a tuple, if each is a tuple of an ASCII str and bytes or None; else None."""
    if type(headers) is not tuple and type(headers) is not list:
        return None
    given = tuple(headers)
    for item in given:
        if type(item) is not tuple or len(item) != 2 or type(item[0]) is not str or type(item[1]) not in _PLAIN:
            return None
        if not item[0].isascii():
            return None
    return given


def plain_number(number: object) -> int:
    """``number`` if it is exactly an int, not negative, and fits into 64 bits; else -1."""
    return number if type(number) is int and 0 <= number < 2**63 else -1


def decode_records(
    data: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
    topic: str = "",
    partition: int = -1,
) -> list[RecordTuple]:
    """Decode the ``count`` records of an uncompressed records section, which they must fill exactly.

    With ``append_time`` every record has this timestamp (LogAppendTime). Header names that are not UTF-8 are decoded
    with replacement, as in Java. Raises CorruptMessageError for invalid bytes; never reads past the end, and allocates
    memory only in proportion to the bytes.
    """
    view = memoryview(data).cast("B")
    end = len(view)
    if count < 0 or count * MIN_RECORD_SIZE > end:
        raise CorruptMessageError(f"a batch says it has {count} records, its {end} bytes cannot hold them")
    records: list[RecordTuple] = []
    timestamp_type = int(append_time is not None)
    position = 0
    for _ in range(count):
        size, position = read_varint(view, position, end)
        if size < MIN_RECORD_SIZE - 1 or size > end - position:
            raise CorruptMessageError(f"a record says it has {size} bytes, {end - position} are left in its batch")
        end_of_record = position + size
        timestamp_delta, offset_delta, key, value, headers = _decode_record(view, position, end_of_record)
        timestamp_ms = wrapped(base_timestamp + timestamp_delta) if append_time is None else append_time
        offset = wrapped(base_offset + offset_delta)
        records.append((offset, key, value, headers, timestamp_ms, topic, partition, timestamp_type))
        position = end_of_record
    if position != end:
        raise CorruptMessageError(f"{end - position} bytes are left over after the {count} records of a batch")
    return records


def murmur2(data: Buffer) -> int:
    """Kafka's 32-bit murmur2 hash, signed as Java's int (``Utils.murmur2``)."""
    data = data if type(data) is bytes else memoryview(data).tobytes()
    length = len(data)
    hashed = 0x9747B28C ^ length
    for (word,) in _LITTLE_ENDIAN_WORD.iter_unpack(data[: length & ~3]):
        word = word * _MURMUR_M & 0xFFFFFFFF
        word = (word ^ word >> 24) * _MURMUR_M & 0xFFFFFFFF
        hashed = (hashed * _MURMUR_M & 0xFFFFFFFF) ^ word
    tail = data[length & ~3 :]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _MURMUR_M & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * _MURMUR_M & 0xFFFFFFFF
    hashed ^= hashed >> 15
    return hashed - 2**32 if hashed & 2**31 else hashed


_LITTLE_ENDIAN_WORD: Final = Struct("<I")
_MURMUR_M: Final = 0x5BD1E995


def _size_of(data: Buffer) -> int:
    return len(data) if type(data) is bytes else memoryview(data).nbytes


def _decode_record(
    view: memoryview, position: int, end: int
) -> tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
    position += 1  # attributes: unused
    timestamp_delta, position = read_varint(view, position, end, 10)
    offset_delta, position = read_varint(view, position, end)
    key, position = _read_bytes(view, position, end)
    value, position = _read_bytes(view, position, end)
    header_count, position = read_varint(view, position, end)
    if header_count < 0 or header_count * 2 > end - position:
        raise CorruptMessageError(f"a record says it has {header_count} headers, {end - position} bytes are left of it")
    headers = []
    for _ in range(header_count):
        name, position = _read_bytes(view, position, end)
        if name is None:
            raise CorruptMessageError("a record has a header without a name")
        content, position = _read_bytes(view, position, end)
        headers.append((name.decode("utf-8", "replace"), content))
    if position != end:
        raise CorruptMessageError(f"{end - position} bytes are left over after a record's headers")
    return timestamp_delta, offset_delta, key, value, tuple(headers)


def _read_bytes(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(view, position, end)
    if size == -1:
        return None, position
    if size < 0 or size > end - position:
        raise CorruptMessageError(f"a field says it has {size} bytes, {end - position} are left of its record")
    return bytes(view[position : position + size]), position + size
