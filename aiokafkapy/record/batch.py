"""Finds, validates and decodes record batches in requests, responses and logs, and changes them in place.

Owns the layout of a batch of message format 2, except for its records. Knows neither how records are encoded (the
kernel does), nor codecs (``compression``), nor a clock. Formats 0 and 1, which no current broker writes, are refused
with an error that names them.

Kafka counterparts: ``DefaultRecordBatch``, ``MemoryRecords.batches``, ``EndTransactionMarker``.

Rules:

- A batch is a view of the buffer it was found in; nothing is copied until its records are decoded.
- The bytes are untrusted: every length is checked before it is used. Invalid bytes raise CorruptMessageError, an older
  format UnsupportedForMessageFormatError.
- The base offset and the leader epoch are outside the CRC, so a broker can set them without recomputing it; all other
  changes recompute it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Final

from ..common import NO_TIMESTAMP, Buffer, ConsumedRecord
from ..errors import CorruptMessageError, UnsupportedForMessageFormatError
from .builder import RecordBatchBuilder, decode_records
from .compression import Compression, compress, decompress
from .crc import crc32c
from .encoding import read_varint
from .layout import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    TRANSACTIONAL,
)
from .record_columns import RecordColumns

__all__ = [
    "BATCH_HEADER_SIZE",
    "ControlType",
    "RecordBatch",
    "assign_offset",
    "control_batch",
    "iter_batches",
    "set_append_time",
]

MAX_DECOMPRESSED_SIZE: Final = 128 * 1024 * 1024
"""The most bytes that a batch's records may have after decompression, by default."""

MAX_CONTROL_SIZE: Final = 4 * 1024
"""The limit for a control batch, which has one record of a few bytes, and which no broker compresses."""

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
# producer id, producer epoch, base sequence, record count
_HEADER: Final = Struct(">qiibIhiqqqhii")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_UINT32: Final = Struct(">I")
_MARKER_KEY: Final = Struct(">hh")  # version, type
_MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch

_make_consumed_record = partial(tuple.__new__, ConsumedRecord)


class ControlType(IntEnum):
    """The types of control batch that clients see; Kafka has others internally."""

    ABORT = 0
    COMMIT = 1


class RecordBatch:
    """The decoded header of one batch, and a view of all its bytes. Only the lengths have been checked."""

    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    def __init__(self, buffer: Buffer) -> None:
        """Read the batch at the start of ``buffer``, which may be longer; raises CorruptMessageError if it
        is shorter.
        """
        view = memoryview(buffer).cast("B")
        size = _size_at(view, 0)
        if size is None:
            raise CorruptMessageError(f"{len(view)} bytes are not a whole batch")
        self.size = size
        self.buffer = view[:size]
        (
            self.base_offset,
            _,
            self.leader_epoch,
            _,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = _HEADER.unpack_from(view)

    def validate(self) -> None:
        """Check the CRC, the codec and the counts; raises CorruptMessageError naming the fault."""
        crc = crc32c(self.buffer[ATTRIBUTES_AT:])
        if crc != self.crc:
            raise CorruptMessageError(
                f"the batch at offset {self.base_offset} has CRC {self.crc:#010x},"
                f" its {self.size} bytes have {crc:#010x}"
            )
        _ = self.compression  # raises when there is no such codec
        if self.record_count < 0 or self.last_offset_delta < 0:
            raise CorruptMessageError(
                f"the batch at offset {self.base_offset} says it has {self.record_count} records"
                f" over {self.last_offset_delta + 1} offsets"
            )

    @property
    def compression(self) -> Compression:
        """The codec; raises CorruptMessageError when there is no such codec."""
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptMessageError(
                f"the batch at offset {self.base_offset} has codec {self.attributes & CODEC_MASK}, which does not exist"
            ) from None

    @property
    def last_offset(self) -> int:
        """Offset of the last record; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record, where a reader continues."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record (numbers wrap around after 2³¹ - 1); -1 if the batch has none."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def has_producer_id(self) -> bool:
        """True when an idempotent or transactional producer wrote the batch."""
        return self.producer_id >= 0

    @property
    def is_transactional(self) -> bool:
        """True when the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True when the batch holds no user records but a control record, such as the end of a transaction."""
        return bool(self.attributes & CONTROL)

    @property
    def has_append_time(self) -> bool:
        """True when ``max_timestamp`` is the broker's append time, which is then the timestamp of every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def records_section(self) -> memoryview:
        """The bytes of the records, perhaps compressed."""
        return self.buffer[BATCH_HEADER_SIZE:]

    def records(
        self, topic: str = "", partition: int = -1, *, max_decompressed_size: int = MAX_DECOMPRESSED_SIZE
    ) -> list[ConsumedRecord]:
        """Decode the records, which are checked as they are read; the CRC is not (see ``validate``).

        Raises CorruptMessageError when they contradict the header, or have more than ``max_decompressed_size``
        bytes. The records of a control batch come as they are.
        """
        data = self._decompressed(max_decompressed_size)
        decoded = decode_records(
            data, self.record_count, self.base_offset, self.base_timestamp, self._append_time(), topic, partition
        )
        return list(map(_make_consumed_record, decoded))

    def read_into(self, columns: RecordColumns, first_offset: int, end_offset: int) -> None:
        """As ``records``, into ``columns``, for the records from ``first_offset`` to before ``end_offset``; all of them
        or none.
        """
        data = self._decompressed(MAX_DECOMPRESSED_SIZE)
        columns.append(
            data,
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self._append_time(),
            first_offset,
            end_offset,
        )

    def with_records(self, kept: Sequence[bool], max_timestamp: int) -> bytes:
        """The batch with only the ``kept`` records, at their offsets; it covers the same offsets as before.

        As compaction leaves it. Raises CorruptMessageError when the records contradict the header.
        """
        data = memoryview(self._decompressed(MAX_DECOMPRESSED_SIZE))
        pieces: list[memoryview] = []
        position = 0
        for is_kept in kept:
            size, begin = read_varint(data, position, len(data))
            if size < 0 or begin + size > len(data):
                raise CorruptMessageError(f"a record of the batch at offset {self.base_offset} has {size} bytes")
            if is_kept:
                pieces.append(data[position : begin + size])
            position = begin + size
        section = b"".join(pieces)
        attributes = self.attributes
        if not pieces:
            attributes &= ~CODEC_MASK
        elif self.compression is not Compression.NONE:
            section = compress(self.compression, section)
        return self._rewritten(section, attributes, len(pieces), max_timestamp)

    def with_section(self, section: bytes) -> bytes:
        """The batch with as many other records, given uncompressed; its own codec compresses them."""
        packed = compress(self.compression, section) if self.attributes & CODEC_MASK else section
        return self._rewritten(packed, self.attributes, self.record_count, self.max_timestamp)

    def section(self) -> Buffer:
        """The bytes of the records, decompressed; raises CorruptMessageError."""
        return self._decompressed(MAX_DECOMPRESSED_SIZE)

    def emptied(self, last_offset: int) -> bytes:
        """A batch without records, producer and transaction, that has the offsets up to ``last_offset``."""
        nobody = RecordBatch(self.buffer)
        nobody.producer_id, nobody.producer_epoch, nobody.base_sequence = -1, -1, -1
        nobody.last_offset_delta = last_offset - self.base_offset
        return nobody._rewritten(b"", self.attributes & LOG_APPEND_TIME, 0, NO_TIMESTAMP)

    def _rewritten(self, section: bytes, attributes: int, record_count: int, max_timestamp: int) -> bytes:
        batch = bytearray(BATCH_HEADER_SIZE) + section
        _HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            len(batch) - LOG_OVERHEAD,
            self.leader_epoch,
            MAGIC,
            0,
            attributes,
            self.last_offset_delta,
            self.base_timestamp,
            max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            record_count,
        )
        _write_crc(batch)
        return bytes(batch)

    def control_type(self) -> ControlType | None:
        """The type of a control batch that ends a transaction; None for any other batch."""
        if not self.is_control:
            return None
        records = self.records(max_decompressed_size=MAX_CONTROL_SIZE)
        key = records[0].key if records else None
        if key is None or len(key) < _MARKER_KEY.size:
            raise CorruptMessageError(f"the control batch at offset {self.base_offset} has no readable key")
        _, kind = _MARKER_KEY.unpack_from(key)
        return ControlType(kind) if kind in _CONTROL_TYPES else None

    def _decompressed(self, max_size: int) -> Buffer:
        data: Buffer = self.records_section
        return decompress(self.compression, data, max_size) if self.attributes & CODEC_MASK else data

    def _append_time(self) -> int | None:
        return self.max_timestamp if self.has_append_time else None

    def __repr__(self) -> str:
        return (
            f"RecordBatch(base_offset={self.base_offset}, record_count={self.record_count}, size={self.size},"
            f" producer_id={self.producer_id}, producer_epoch={self.producer_epoch},"
            f" base_sequence={self.base_sequence})"
        )


_CONTROL_TYPES: Final = frozenset(ControlType)


def iter_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """The batches of a part of a log, in order, not validated.

    An incomplete last batch, as at the end of a Fetch response, is skipped. Raises CorruptMessageError for an
    impossible length.
    """
    view = memoryview(buffer).cast("B")
    position = 0
    while position < len(view):
        size = _size_at(view, position)
        if size is None:
            return
        yield RecordBatch(view[position : position + size])
        position += size


def assign_offset(buffer: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch at the start of ``buffer``; the CRC stays valid."""
    _INT64.pack_into(buffer, 0, base_offset)
    _INT32.pack_into(buffer, LEADER_EPOCH_AT, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, timestamp_ms: int) -> None:
    """Make ``timestamp_ms`` the append time of the batch that ``buffer`` is (topics of LogAppendTime), with
    a new CRC.
    """
    attributes = _INT16.unpack_from(buffer, ATTRIBUTES_AT)[0] | LOG_APPEND_TIME
    _INT16.pack_into(buffer, ATTRIBUTES_AT, attributes)
    _INT64.pack_into(buffer, MAX_TIMESTAMP_AT, timestamp_ms)
    _write_crc(buffer)


def control_batch(
    control_type: ControlType, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """The batch that ends a transaction in a partition, as a broker writes it; its base offset is 0."""
    builder = RecordBatchBuilder(0)
    builder.try_append(timestamp_ms, _MARKER_KEY.pack(0, control_type), _MARKER_VALUE.pack(0, coordinator_epoch), None)
    builder.seal(Compression.NONE)
    builder.stamp(producer_id, producer_epoch, -1, is_transactional=True)
    batch = bytearray().join(builder.buffers())
    _INT16.pack_into(batch, ATTRIBUTES_AT, TRANSACTIONAL | CONTROL)
    _write_crc(batch)
    return batch


def _write_crc(buffer: bytearray | memoryview) -> None:
    _UINT32.pack_into(buffer, CRC_AT, crc32c(memoryview(buffer)[ATTRIBUTES_AT:]))


def _size_at(view: memoryview, position: int) -> int | None:
    """Size of the batch at ``position``; None when it is not all there. Raises for bytes that cannot be a batch
    of format 2.
    """
    left = len(view) - position
    if left < LOG_OVERHEAD:
        return None
    size = LOG_OVERHEAD + int(_INT32.unpack_from(view, position + LENGTH_AT)[0])
    if left > MAGIC_AT:
        magic = view[position + MAGIC_AT]
        if magic < MAGIC:
            raise UnsupportedForMessageFormatError(
                f"message format {magic} is not supported: Kafka 4 writes no such batches (KIP-724)"
            )
        if magic > MAGIC:
            raise CorruptMessageError(f"message format {magic} does not exist")
    if size < BATCH_HEADER_SIZE:
        raise CorruptMessageError(f"a batch says it has {size} bytes, its header alone has {BATCH_HEADER_SIZE}")
    return size if size <= left else None
