"""aiokafkapy.record.compression: Java's framings and levels, and the cost of a hostile stream."""

from __future__ import annotations

import hashlib
import os
import random
import sys
import threading
import time
import tracemalloc
import zlib
from types import ModuleType

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy.errors import ConfigurationError, CorruptMessageError
from aiokafkapy.record.compression import (
    LZ4_FRAME_BLOCK,
    LZ4_HEADERS,
    XERIAL_HEADER,
    Compression,
    _lz4_high_block,
    compress,
    decompress,
    inline_limit,
    most_expansion,
    quick_limit,
)

CODECS = [codec for codec in Compression if codec]
LEVELS = [
    *((Compression.GZIP, level) for level in (-1, 1, 5, 9)),
    *((Compression.LZ4, level) for level in (1, 2, 3, 8, 9, 10, 12, 13, 17)),
    *((Compression.ZSTD, level) for level in (-131072, -1, 0, 1, 3, 22)),
]
# Longer than one block of lz4 and of snappy, half of it random.
DATA = b"".join(hashlib.sha256(b"%d" % i).digest() + b"repeated " * 4 for i in range(2000))


class OldLz4:
    """``cramjam.lz4`` before 2.14: a frame has a block for each 8 KiB."""

    class Compressor:
        def __init__(self, level: int, **_: bool) -> None:
            self._level, self._frame = level, b""

        def compress(self, data: bytes) -> None:
            self._frame = OldLz4.compress(data, self._level)

        def finish(self) -> bytes:
            return self._frame

    @staticmethod
    def compress(data: bytes, level: int, real: ModuleType = cramjam.lz4) -> bytes:
        pieces = [data[start : start + 8_192] for start in range(0, len(data), 8_192)]
        frames = [bytes(real.compress(piece, level=level)) for piece in pieces]
        blocks = [frame[LZ4_FRAME_BLOCK : len(frame) - 8] for frame in frames]
        return bytes(real.compress(b"", level=level))[:LZ4_FRAME_BLOCK] + b"".join(blocks) + bytes(8)


class TestRoundTrip:
    @given(data=st.binary(max_size=2000), repeats=st.integers(1, 300))
    @pytest.mark.parametrize("codec", list(Compression))
    def test_gives_back_the_bytes_that_were_compressed(self, codec: Compression, data: bytes, repeats: int) -> None:
        data = data * repeats
        assert decompress(codec, compress(codec, data), len(data)) == data

    @pytest.mark.parametrize(("codec", "level"), LEVELS)
    def test_every_level_of_javas_can_be_read_back(self, codec: Compression, level: int) -> None:
        assert decompress(codec, compress(codec, DATA, level), len(DATA)) == DATA

    @pytest.mark.parametrize("codec", list(Compression))
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_takes_any_buffer(self, codec: Compression, kind: type) -> None:
        assert decompress(codec, kind(compress(codec, kind(DATA))), len(DATA)) == DATA

    @pytest.mark.parametrize("codec", list(Compression))
    def test_takes_nothing_too(self, codec: Compression) -> None:
        assert decompress(codec, compress(codec, b""), 0) == b""

    @pytest.mark.parametrize("codec", CODECS)
    def test_is_worth_its_while(self, codec: Compression) -> None:
        assert len(compress(codec, b"some words that come again and again " * 1000)) < 3000


class TestLevels:
    @pytest.mark.parametrize(
        ("codec", "level"),
        [
            (Compression.GZIP, 0),
            (Compression.GZIP, 10),
            (Compression.GZIP, -2),
            (Compression.LZ4, 0),
            (Compression.LZ4, 18),
            (Compression.ZSTD, 23),
            (Compression.ZSTD, -131073),
        ],
    )
    def test_that_java_does_not_have_are_refused(self, codec: Compression, level: int) -> None:
        with pytest.raises(ConfigurationError, match=f"compression_{codec.codec_name}_level: {level} is out of range"):
            codec.check_level(level)
        with pytest.raises(ConfigurationError):
            compress(codec, b"", level)

    def test_of_lz4s_high_compressor_make_fewer_bytes_the_higher_they_are(self) -> None:
        words = random.Random(1)
        data = " ".join(words.choice(("kafka", "record", "batch", "offset", "leader")) for _ in range(20_000)).encode()
        sizes = [len(compress(Compression.LZ4, data, level)) for level in (2, 3, 8, 10, 12)]
        assert sizes == sorted(sizes, reverse=True)
        assert len(compress(Compression.LZ4, data)) > sizes[1]

    def test_do_not_exist_for_snappy(self) -> None:
        with pytest.raises(ConfigurationError, match="snappy has no compression levels"):
            Compression.SNAPPY.check_level(1)

    def test_default_to_javas(self) -> None:
        assert [codec.default_level for codec in Compression] == [None, -1, None, 9, 3]
        for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
            assert codec.default_level is not None
            assert compress(codec, DATA) == compress(codec, DATA, codec.default_level)

    def test_of_lz4_are_slow_except_for_the_default(self) -> None:
        block = DATA[:8_000]  # cramjam before 2.14 makes no larger one
        sizes = {level: len(compress(Compression.LZ4, block, level)) for level in (1, 8, 9, 12, 17)}
        assert sizes[9] > max(sizes[1], sizes[8], sizes[12])
        assert sizes[12] == sizes[17]

    def test_trade_size_for_time(self) -> None:
        for codec, low, high in ((Compression.GZIP, 1, 9), (Compression.ZSTD, -100, 19)):
            assert len(compress(codec, DATA, low)) > len(compress(codec, DATA, high))


class TestNames:
    def test_are_those_of_kafkas_configuration(self) -> None:
        names = ["none", "gzip", "snappy", "lz4", "zstd"]
        assert [Compression.for_name(name) for name in names] == list(Compression)
        assert [codec.codec_name for codec in Compression] == names

    def test_that_are_unknown_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"no codec 'brotli'.*none, gzip, snappy, lz4, zstd"):
            Compression.for_name("brotli")


class TestFraming:
    def test_snappy_is_xerials_in_blocks_of_a_megabyte(self) -> None:
        data = DATA * 40
        stream = compress(Compression.SNAPPY, data)
        assert stream.startswith(XERIAL_HEADER)
        position, blocks = len(XERIAL_HEADER), []
        while position < len(stream):
            size = int.from_bytes(stream[position : position + 4])
            blocks.append(bytes(cramjam.snappy.decompress_raw(stream[position + 4 : position + 4 + size])))
            position += 4 + size
        assert b"".join(blocks) == data
        assert {len(block) for block in blocks[:-1]} == {1024 * 1024}

    def test_raw_snappy_is_read_too(self) -> None:
        assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA)), len(DATA)) == DATA

    def test_snappy_streams_one_after_the_other_are_read_as_one(self) -> None:
        stream = compress(Compression.SNAPPY, DATA)
        assert decompress(Compression.SNAPPY, stream * 2, 2 * len(DATA)) == DATA * 2

    def test_gzip_members_one_after_the_other_are_read_as_one(self) -> None:
        stream = compress(Compression.GZIP, DATA)
        assert decompress(Compression.GZIP, stream * 2, 2 * len(DATA)) == DATA * 2

    @pytest.mark.parametrize(
        "rest", [bytes(8), bytes(1_000), b"\x1f", b"\x1f\x8b\x08", b"\x1f\x8b\x07" + bytes(20), b"rest"]
    )
    def test_bytes_behind_the_last_gzip_member_are_left_out_as_java_does(self, rest: bytes) -> None:
        stream = compress(Compression.GZIP, DATA)
        assert decompress(Compression.GZIP, stream + rest, len(DATA)) == DATA
        assert decompress(Compression.GZIP, stream * 2 + rest, 2 * len(DATA)) == DATA * 2

    def test_a_gzip_member_that_is_cut_short_behind_another_is_refused(self) -> None:
        stream = compress(Compression.GZIP, DATA)
        with pytest.raises(CorruptMessageError, match="end before their stream does"):
            decompress(Compression.GZIP, stream + stream[:-1], 2 * len(DATA))

    @pytest.mark.parametrize("level", [9, 1, 12])
    def test_lz4_has_independent_blocks_and_no_checksums_as_java_reads_it(self, level: int) -> None:
        stream = compress(Compression.LZ4, os.urandom(70_000), level)
        assert stream.endswith(bytes(4))
        position, raw = len(LZ4_HEADERS[0][1]), 0
        while size := int.from_bytes(stream[position : position + 4], "little"):
            raw += size >> 31
            position += 4 + (size & 0x7FFFFFFF)
        assert position == len(stream) - 4
        assert raw >= 1, "a block that cannot be made smaller stays as it is"

    @pytest.mark.parametrize(
        ("size", "blocks"), [(64 * 1024, 1), (256 * 1024, 1), (1024 * 1024, 1), (4 * 1024 * 1024 + 1, 2)]
    )
    def test_lz4_gives_a_whole_batch_to_one_call(self, size: int, blocks: int) -> None:
        data = (DATA * (size // len(DATA) + 1))[:size]
        stream = compress(Compression.LZ4, data)
        block_size, header = next(found for found in LZ4_HEADERS if size <= found[0] or found is LZ4_HEADERS[-1])
        assert stream.startswith(header)
        position, found = len(header), 0
        while length := int.from_bytes(stream[position : position + 4], "little"):
            position += 4 + (length & 0x7FFFFFFF)
            found += 1
        assert found == blocks == -(-size // block_size)
        assert bytes(cramjam.lz4.decompress(stream)) == data  # it also checks the header's checksum

    @pytest.mark.parametrize("size", [0, 100, 8_192, 20_000, 130_000, 1_000_000])
    def test_lz4_keeps_all_bytes_where_the_library_makes_small_blocks(
        self, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only the first block of each frame of cramjam 2.13 was taken, and the records were corrupt."""
        data = (DATA * (size // len(DATA) + 1))[:size]
        _lz4_high_block.cache_clear()
        monkeypatch.setattr(cramjam, "lz4", OldLz4)
        stream = compress(Compression.LZ4, data, 3)
        monkeypatch.undo()
        _lz4_high_block.cache_clear()
        assert decompress(Compression.LZ4, stream, size) == data

    def test_linked_lz4_as_others_write_it_is_read(self) -> None:
        assert decompress(Compression.LZ4, bytes(cramjam.lz4.compress(DATA, level=3)), len(DATA)) == DATA


class TestHostileStreams:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_may_not_expand_past_the_bound(self, codec: Compression) -> None:
        stream = compress(codec, DATA)
        with pytest.raises(CorruptMessageError):
            decompress(codec, stream, len(DATA) - 1)
        with pytest.raises(CorruptMessageError):
            decompress(codec, stream, 0)

    @pytest.mark.parametrize("codec", CODECS)
    def test_that_are_bombs_cost_no_more_than_the_bound(self, codec: Compression) -> None:
        bomb = compress(codec, bytes(50_000_000))
        bound = 1_000_000
        tracemalloc.start()
        try:
            with pytest.raises(CorruptMessageError):
                decompress(codec, bomb, bound)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2.5 * bound + 2 * len(bomb)

    @pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
    def test_that_are_damaged_cost_as_much_as_so_many_bytes_can_hold_and_not_the_bound(
        self, codec: Compression
    ) -> None:
        """A buffer too small and bad bytes look alike to the library's caller."""
        damaged = compress(codec, bytes(range(256)) * 2)[:-9] + b"damaged.."
        tracemalloc.start()
        try:
            with pytest.raises(CorruptMessageError):
                decompress(codec, damaged, 128 << 20)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000

    @pytest.mark.parametrize(("codec", "level"), [(Compression.LZ4, 9), (Compression.LZ4, 17), (Compression.ZSTD, 1),
                                                  (Compression.ZSTD, 3), (Compression.ZSTD, 19)])  # fmt: skip
    @pytest.mark.parametrize("size", [1, 100_000, 30_000_000])
    def test_that_expand_as_far_as_any_can_are_read(self, codec: Compression, level: int, size: int) -> None:
        assert decompress(codec, compress(codec, bytes(size), level), 128 << 20) == bytes(size)

    def test_that_state_a_large_size_in_snappy_are_not_believed(self) -> None:
        claim = b"\xff\xff\xff\xff\x07" + b"\x00" * 20
        with pytest.raises(CorruptMessageError, match="2147483647 bytes decompressed"):
            decompress(Compression.SNAPPY, claim, 2**31)

    def test_that_have_thousands_of_gzip_members_are_bounded_in_their_sum(self) -> None:
        member = zlib.compress(b"x", 6, 31)
        assert decompress(Compression.GZIP, member * 5_000, 5_000) == b"x" * 5_000
        with pytest.raises(CorruptMessageError, match="gzip"):
            decompress(Compression.GZIP, member * 5_000, 4_999)

    @pytest.mark.parametrize("codec", CODECS)
    def test_that_are_cut_short_are_refused(self, codec: Compression) -> None:
        stream = compress(codec, DATA)
        # Snappy has no end of its own: a cut between two blocks is a shorter stream, and the record count tells.
        for length in {1, 5, 8, 10, 17, len(stream) // 2, len(stream) - 1}:
            with pytest.raises(CorruptMessageError):
                decompress(codec, stream[:length], len(DATA))

    @pytest.mark.parametrize("codec", CODECS)
    def test_that_are_empty_are_refused(self, codec: Compression) -> None:
        with pytest.raises(CorruptMessageError):
            decompress(codec, b"", 1000)

    def test_of_no_known_codec_are_refused(self) -> None:
        with pytest.raises(CorruptMessageError, match="codec 7"):
            decompress(7, b"", 1000)

    @settings(max_examples=200)
    @given(random=st.randoms(use_true_random=False))
    @pytest.mark.parametrize("codec", CODECS)
    def test_that_are_mutated_raise_nothing_else(self, codec: Compression, random: random.Random) -> None:
        stream = bytearray(compress(codec, DATA[:3000]))
        for _ in range(random.randint(1, 4)):
            stream[random.randrange(len(stream))] = random.randrange(256)
        try:
            assert len(decompress(codec, stream, 100_000)) <= 100_000
        except CorruptMessageError:
            pass

    @settings(max_examples=200)
    @given(data=st.binary(max_size=300))
    @pytest.mark.parametrize("codec", CODECS)
    def test_that_are_garbage_raise_nothing_else(self, codec: Compression, data: bytes) -> None:
        for stream in (data, compress(codec, b"")[:12] + data):
            try:
                decompress(codec, stream, 10_000)
            except CorruptMessageError:
                pass


class TestThreads:
    @pytest.mark.parametrize(("codec", "level"), [(Compression.SNAPPY, None), *LEVELS])
    def test_that_compress_let_others_run_meanwhile(self, codec: Compression, level: int | None) -> None:
        """A thread never gives up the GIL by itself here, so others see its call only when it releases the GIL."""
        data = DATA * 2
        assert len(data) > quick_limit(codec, level)
        is_compressing = was_seen = False

        def compress_until_seen() -> None:
            nonlocal is_compressing
            for _ in range(2_000):
                is_compressing = True
                compress(codec, data, level)
                is_compressing = False
                if was_seen:
                    return

        interval = sys.getswitchinterval()
        sys.setswitchinterval(100.0)
        try:
            thread = threading.Thread(target=compress_until_seen)
            thread.start()
            while thread.is_alive() and not was_seen:
                was_seen = is_compressing
                time.sleep(0)
            thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert was_seen


class TestInlineLimit:
    def test_is_smaller_the_slower_the_level(self) -> None:
        for codec, levels in (
            (Compression.GZIP, (1, 3, 6, 9)),
            (Compression.ZSTD, (-131072, -1, 1, 3, 5, 9, 12, 22)),
            (Compression.LZ4, (9, 1, 8, 17)),  # 9 is the fast one
        ):
            limits = [inline_limit(codec, level) for level in levels]
            assert limits == sorted(limits, reverse=True)
            assert limits[0] > limits[-1] >= 1024

    def test_knows_every_level_that_there_is(self) -> None:
        for codec, level in LEVELS:
            assert inline_limit(codec, level) <= 32 * 1024

    def test_of_no_level_is_that_of_the_default(self) -> None:
        for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
            assert inline_limit(codec) == inline_limit(codec, codec.default_level)
        assert inline_limit(Compression.GZIP) == inline_limit(Compression.GZIP, 6)
        assert inline_limit(Compression.ZSTD, 0) == inline_limit(Compression.ZSTD, 3)
        assert inline_limit(Compression.SNAPPY) == 32 * 1024


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_nothing_expands_more_than_it_says(codec: Compression) -> None:
    for data in (bytes(1_000_000), b"ab" * 500_000):
        assert len(data) <= len(compress(codec, data)) * most_expansion(codec)
    assert most_expansion(Compression.NONE) == 1
