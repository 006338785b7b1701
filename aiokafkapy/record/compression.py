"""The codecs of record batches, with the framing and the levels of Java's client.

Owns the framing (Kafka's snappy is xerial's, its lz4 the frame format with independent blocks), the levels, their cost,
and the bound on decompressed size. Knows nothing of batches. The codecs themselves are cramjam's and, for gzip, zlib's,
which is faster at the default level, and can bound its output.

Kafka counterparts: ``Compression``, ``CompressionType``, ``Lz4BlockOutputStream``, ``SnappyOutputStream``.

Rules:

- A peer's data is decompressed to at most ``max_size`` bytes; a declared length is not trusted before it is checked
  against the codec's highest possible ratio.
- For more than ``quick_limit`` bytes only library calls that release the GIL are used, so that a compressing thread
  blocks no other.
- Invalid bytes raise CorruptMessageError, and nothing else.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import cache
from types import ModuleType
from typing import Final

from ..common import Buffer
from ..errors import ConfigurationError, CorruptMessageError

__all__ = [
    "DEFAULT_LEVELS",
    "LEVEL_OPTIONS",
    "Compression",
    "compress",
    "decompress",
    "inline_limit",
    "most_expansion",
    "quick_limit",
]

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
"""Magic, version 1, compatible with version 1; then blocks, each after its size as a big-endian int."""
XERIAL_BLOCK: Final = 1024 * 1024
"""Bytes per block. Java's client uses 32 KiB, readers accept any size; after each block a thread has to reacquire the
GIL.
"""

LZ4_HEADERS: Final = (
    (64 * 1024, bytes.fromhex("04224d18604082")),
    (256 * 1024, bytes.fromhex("04224d186050fb")),
    (1024 * 1024, bytes.fromhex("04224d18606051")),
    (4 * 1024 * 1024, bytes.fromhex("04224d18607073")),
)
"""By the size of a block: magic; version 1, independent blocks, no checksums; that size; the header's own checksum. The
first is Java's, for any size of a batch; a larger one gives all of a batch to one call, as with snappy.
"""
LZ4_IS_RAW: Final = 0x80000000
"""The bit of a block's size that marks it as not compressed."""
LZ4_END: Final = bytes(4)
LZ4_LOWEST: Final = 2
"""Below this level the library uses the fast compressor."""
LZ4_HIGHEST: Final = 9
"""Java's levels from 10 on are the same. With the library's own 10 to 12 the call that releases the GIL makes more
bytes, in three times the time; the other makes 1 % fewer of JSON, and takes 170 ms for a block of two random letters.
"""
LZ4_FRAME_BLOCK: Final = 7
"""The position of the first block's size in a frame of the library."""
LZ4_FRAME_END: Final = 12
"""The end of a frame, after the last block: its checksum, the end mark, the checksum of the content."""
LZ4_OLD_BLOCK: Final = 8 * 1024
"""The bytes in each block of a frame by cramjam before 2.14."""

FIRST_OUTPUT: Final = 64 * 1024
OUTPUT_GROWTH: Final = 8
"""Output is tried at this many times the input, at first and at each retry: few retries, and little held by mistake."""

LZ4_MOST_EXPANSION: Final = 255
"""A byte of a match's length stands for at most as many bytes."""
ZSTD_MOST_EXPANSION: Final = 32 * 1024
"""A block has 128 KiB at most, and takes four bytes at least."""
SNAPPY_MOST_EXPANSION: Final = 22
"""A copy of 64 bytes takes 3 in snappy: nothing expands more than that."""
GZIP_MOST_EXPANSION: Final = 1032
"""A copy of 258 bytes takes two bits in deflate."""

GZIP_WINDOW: Final = 31
"""zlib's number for a 32 KiB window with gzip header and trailer."""
GZIP_DEFAULT: Final = 6
"""The level that zlib uses for -1."""
GZIP_STEP: Final = 4096
"""Bytes given to zlib at a time after the first member: it copies the rest of them at each member's end."""
GZIP_MEMBER: Final = b"\x1f\x8b\x08"
GZIP_HEADER_BYTES: Final = 10


class Compression(IntEnum):
    """The codecs, by the number that a batch's attributes hold; levels are those of ``compression.<codec>.level``."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def for_name(cls, name: str) -> Compression:
        """The codec of ``compression.type``'s names: none, gzip, snappy, lz4, zstd; raises ConfigurationError."""
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(codec.codec_name for codec in cls)
            raise ConfigurationError(f"compression_type: there is no codec {name!r} (one of: {known})") from None

    @property
    def codec_name(self) -> str:
        """The name in Kafka's configuration."""
        return self.name.lower()

    @property
    def default_level(self) -> int | None:
        """Java's default level; None for a codec without levels."""
        return DEFAULT_LEVELS.get(self)

    @property
    def level_bounds(self) -> tuple[int, int]:
        """The lowest and the highest level, the default included. Raises KeyError for a codec without levels."""
        levels = _LEVELS[self]
        return min(levels[0], DEFAULT_LEVELS[self]), levels[-1]

    @property
    def levels_shown(self) -> str:
        """The levels in words, for messages. Raises KeyError for a codec without levels."""
        levels, default = _LEVELS[self], DEFAULT_LEVELS[self]
        shown = f"{levels[0]:,} to {levels[-1]:,}"
        return shown if default in levels else f"{shown}, or {default} for the default"

    def has_level(self, level: int) -> bool:
        """True when Java's client would take ``level`` for this codec."""
        return level in _LEVELS.get(self, ()) or level == self.default_level

    def check_level(self, level: int) -> int:
        """Return ``level`` when Java's client would take it for this codec; raises ConfigurationError otherwise."""
        if self not in _LEVELS:
            raise ConfigurationError(f"{self.codec_name} has no compression levels")
        if not self.has_level(level):
            option = LEVEL_OPTIONS[self.codec_name]
            raise ConfigurationError(f"{option}: {level} is out of range: write {self.levels_shown}")
        return level


_LEVELS: Final = {Compression.GZIP: range(1, 10), Compression.LZ4: range(1, 18), Compression.ZSTD: range(-131072, 23)}
"""As Java's client takes them; gzip's 0, which would store and not compress, is not one."""
DEFAULT_LEVELS: Final = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}
"""Java's, for each codec that has levels."""

LEVEL_OPTIONS: Final = {codec.codec_name: f"compression_{codec.codec_name}_level" for codec in _LEVELS}
"""The producer's option for the level of each codec that has levels, by the codec's name."""

_INLINE_LIMITS: Final = {
    Compression.GZIP: ((3, 6 * 1024), (6, 3 * 1024), (9, 2 * 1024)),
    Compression.LZ4: ((2, 16 * 1024), (5, 6 * 1024), (17, 4 * 1024)),
    Compression.ZSTD: ((-1, 24 * 1024), (2, 16 * 1024), (4, 10 * 1024), (7, 4 * 1024), (9, 2 * 1024), (22, 1024)),
}
"""For each codec with levels: pairs of a level and the limit up to that level; for lz4, in its high compressor."""

QUICK: Final = 4
"""The factor from ``inline_limit`` to ``quick_limit``. A thread takes the GIL before and after its work; while the loop
is busy it waits for it each time (5 ms, by Python's default) and fights with it: some 70 µs of the loop's own time.
"""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress a records section as Java's client would; ``level`` None is the codec's default, as in Java.

    Levels have the same meaning as in Java: lz4's default, 9, is the fast compressor, the others are the slow high one
    (levels above 9 are its level 9 here). Raises ConfigurationError for a level that the codec does not have.
    """
    codec, chosen = _resolved(codec, level)
    if codec is Compression.ZSTD:
        return bytes(_cramjam().zstd.compress(data, level=chosen))
    if codec is Compression.LZ4:
        return _compress_lz4(data, chosen)
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.GZIP:
        return zlib.compress(data, chosen, GZIP_WINDOW)
    return bytes(data)


@cache
def inline_limit(codec: int, level: int | None = None) -> int:
    """The most bytes whose compression costs an event loop no more than handing them to a thread and back.

    That way takes some 20 to 40 µs, on a busy machine more, and 13 µs of the loop's own CPU. The limits are the sizes
    that take 40 µs with JSON (``benchmarks/micro/codecs.py`` prints them), or 1 KiB if a call alone takes that long: a
    lone record is not worth a thread. ``level`` None is the codec's default.
    """
    codec = Compression(codec)
    chosen = codec.default_level if level is None else level
    if chosen is None or (codec is Compression.LZ4 and chosen == codec.default_level):
        return 32 * 1024
    if codec is Compression.GZIP and chosen == DEFAULT_LEVELS[codec]:
        chosen = GZIP_DEFAULT
    if codec is Compression.ZSTD and chosen == 0:
        chosen = DEFAULT_LEVELS[codec]  # the library's name of it
    return next(limit for highest, limit in _INLINE_LIMITS[codec] if chosen <= highest)


@cache
def quick_limit(codec: int, level: int | None = None) -> int:
    """The most bytes that a busy event loop compresses faster than a thread that has to wait for the GIL.

    With JSON it takes 160 µs at most. ``level`` None is the codec's default.
    """
    return QUICK * inline_limit(codec, level)


def most_expansion(codec: int) -> int:
    """The most bytes that a byte of the codec's output may stand for."""
    return _MOST_EXPANSION[Compression(codec)]


_MOST_EXPANSION: Final = {
    Compression.NONE: 1,
    Compression.GZIP: GZIP_MOST_EXPANSION,
    Compression.SNAPPY: SNAPPY_MOST_EXPANSION,
    Compression.LZ4: LZ4_MOST_EXPANSION,
    Compression.ZSTD: ZSTD_MOST_EXPANSION,
}


def decompress(codec: int, data: Buffer, max_size: int) -> bytes | bytearray:
    """Decompress a records section to at most ``max_size`` bytes.

    Raises CorruptMessageError if it would have more, if the bytes are invalid, or if there is no such codec. Never
    holds more than about ``max_size`` bytes and the input.
    """
    try:
        codec = Compression(codec)
    except ValueError:
        raise CorruptMessageError(f"a batch has codec {codec}, which does not exist") from None
    if codec is Compression.NONE:
        if len(data) > max_size:
            raise _too_large(codec, max_size)
        return bytes(data)
    try:
        if codec is Compression.GZIP:
            return _decompress_gzip(data, max_size)
        if codec is Compression.SNAPPY:
            return _decompress_snappy(data, max_size)
        return _decompress_growing(codec, data, max_size)
    except (_cramjam().DecompressionError, zlib.error) as error:
        raise CorruptMessageError(
            f"{len(data)} bytes cannot be decompressed as {codec.codec_name} into at most {max_size}: {error}"
        ) from error


@cache  # a microsecond for each batch otherwise
def _resolved(codec: int, level: int | None) -> tuple[Compression, int]:
    """The codec, and the level to use; 0 for a codec without levels."""
    codec = Compression(codec)
    if codec.default_level is None:
        return codec, 0
    return codec, codec.default_level if level is None else codec.check_level(level)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    # KIP-390: Java takes lz4's fast compressor at the default level, the high one at any other.
    fast = level == Compression.LZ4.default_level
    view = memoryview(data).cast("B")
    is_quick = len(view) <= quick_limit(Compression.LZ4, level)
    block_size, header = _lz4_header(len(view) if fast else 0)
    if not fast:
        block_size = _lz4_high_block()
    parts: list[Buffer] = [header]
    for start in range(0, len(view), block_size):
        block = view[start : start + block_size]
        compressed = memoryview(
            _cramjam().lz4.compress_block(block, store_size=False)
            if fast
            else _lz4_high(block, level, is_quick=is_quick)
        )
        if len(compressed) < len(block):
            parts += (len(compressed).to_bytes(4, "little"), compressed)
        else:
            parts += ((len(block) | LZ4_IS_RAW).to_bytes(4, "little"), block)
    parts.append(LZ4_END)
    return b"".join(parts)


def _lz4_header(size: int) -> tuple[int, bytes]:
    """The smallest block that takes ``size`` bytes, or the largest there is, and the header of a frame with it."""
    return next((found for found in LZ4_HEADERS if size <= found[0]), LZ4_HEADERS[-1])


@cache
def _lz4_high_block() -> int:
    """The most bytes that the library puts into one block of a frame: cramjam before 2.14 makes smaller blocks."""
    largest, _ = LZ4_HEADERS[0]
    frame = memoryview(_cramjam().lz4.compress(bytes(largest), level=LZ4_HIGHEST))
    size = int.from_bytes(frame[LZ4_FRAME_BLOCK : LZ4_FRAME_BLOCK + 4], "little")
    is_one = len(frame) == LZ4_FRAME_BLOCK + 4 + size + LZ4_FRAME_END
    return largest if is_one else LZ4_OLD_BLOCK


def _lz4_high(block: memoryview, level: int, *, is_quick: bool) -> memoryview:
    # The library has the high compressor for frames only: so each block is compressed as a frame of its own, and cut
    # out of it. Its plain function costs some 100 µs more than its stream compressor (it adds a checksum, too), but
    # releases the GIL. It links the blocks of a frame, so it gets no more than one of Java's blocks of 64 KiB at a
    # time.
    level = min(max(level, LZ4_LOWEST), LZ4_HIGHEST)
    if is_quick:
        stream = _cramjam().lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        stream.compress(bytes(block))
        frame = memoryview(stream.finish())
    else:
        frame = memoryview(_cramjam().lz4.compress(block, level=level))
    size = int.from_bytes(frame[LZ4_FRAME_BLOCK : LZ4_FRAME_BLOCK + 4], "little")
    start = LZ4_FRAME_BLOCK + 4
    return block if size & LZ4_IS_RAW else frame[start : start + size]


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data).cast("B")
    parts: list[Buffer] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK):
        block = memoryview(_cramjam().snappy.compress_raw(view[start : start + XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4), block)
    return b"".join(parts)


def _decompress_gzip(data: Buffer, max_size: int) -> bytes:
    """As Java's GZIPInputStream: one member or many; bytes after the last one, such as padding, are left out."""
    view = memoryview(data).cast("B")
    parts: list[bytes] = []
    position, left = 0, max_size
    step = len(view)  # writers make one member as a rule
    while True:
        stream = zlib.decompressobj(GZIP_WINDOW)
        while not stream.eof:
            piece = view[position : position + step]
            if not piece:
                raise CorruptMessageError(f"{len(view)} bytes of gzip end before their stream does")
            parts.append(stream.decompress(piece, left + 1))
            left -= len(parts[-1])
            if left < 0:
                raise _too_large(Compression.GZIP, max_size)
            position += len(piece) - len(stream.unused_data)
        step = GZIP_STEP
        if len(view) - position < GZIP_HEADER_BYTES or not _is_at(view, position, GZIP_MEMBER):
            return b"".join(parts)


def _decompress_snappy(data: Buffer, max_size: int) -> bytes:
    view = memoryview(data).cast("B")
    if not _is_xerial(view, 0):
        return _decompress_snappy_block(view, max_size)  # raw snappy, as some clients write it and Java reads it
    parts: list[bytes] = []
    total = 0
    position = 0
    while position < len(view):
        if _is_xerial(view, position):  # one stream, or several after each other
            position += len(XERIAL_HEADER)
            if position > len(view):
                raise CorruptMessageError("a snappy stream ends within its header")
            continue
        size = int.from_bytes(view[position : position + 4])
        position += 4
        if position + size > len(view):
            raise CorruptMessageError(f"a snappy block says it has {size} bytes, {len(view) - position} are left")
        parts.append(_decompress_snappy_block(view[position : position + size], max_size, total))
        total += len(parts[-1])
        position += size
    return b"".join(parts)


def _is_xerial(view: memoryview, position: int) -> bool:
    return _is_at(view, position, XERIAL_MAGIC)


def _is_at(view: memoryview, position: int, mark: bytes) -> bool:
    return bytes(view[position : position + len(mark)]) == mark


def _decompress_snappy_block(block: memoryview, max_size: int, before: int = 0) -> bytes:
    size = _cramjam().snappy.decompress_raw_len(block)
    if before + size > max_size:
        raise _too_large(Compression.SNAPPY, max_size)
    if size > len(block) * SNAPPY_MOST_EXPANSION:
        raise CorruptMessageError(f"{len(block)} bytes of snappy say that they are {size} bytes decompressed")
    return bytes(_cramjam().snappy.decompress_raw(block))


@cache
def _cramjam() -> ModuleType:
    import cramjam  # with the first batch that needs it: most producers do not compress

    module: ModuleType = cramjam
    return module


def _decompress_growing(codec: Compression, data: Buffer, max_size: int) -> bytearray:
    """Decompress into larger and larger buffers: the library does not tell the size beforehand, and fails on a
    full one.
    """
    module, expansion = (
        (_cramjam().lz4, LZ4_MOST_EXPANSION) if codec is Compression.LZ4 else (_cramjam().zstd, ZSTD_MOST_EXPANSION)
    )
    # Otherwise ``max_size`` bytes would be allocated for invalid input, however short.
    max_size = min(max_size, max(FIRST_OUTPUT, len(data) * expansion))
    capacity = min(max_size, max(FIRST_OUTPUT, len(data) * OUTPUT_GROWTH))
    while True:
        output = bytearray(capacity)
        try:
            del output[module.decompress_into(data, output) :]
            return output
        except _cramjam().DecompressionError:
            # Invalid bytes give the same error as a buffer that is too small; the largest one is never too small.
            if capacity >= max_size:
                raise
        output = bytearray()  # freed before the next one is made
        capacity = min(max_size, capacity * OUTPUT_GROWTH)


def _too_large(codec: Compression, max_size: int) -> CorruptMessageError:
    return CorruptMessageError(f"{codec.codec_name} expands to more than {max_size} bytes")
