"""The bytes of a spool: after any cut or damage the rest is read back, and nothing is made up."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.producer.records import PlainRecord
from aiokafkapy.producer.spool.format import (
    FRAME_OVERHEAD,
    HEADER_SIZE,
    MAGIC,
    Damage,
    Mark,
    SpooledRecord,
    decode_mark,
    encode_mark,
    encode_record,
    header,
    salt_of,
    scan,
)

SALT = b"salt"

PARTS = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=8),
        st.none() | st.integers(0, 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        PARTS,
        PARTS,
        st.none() | st.lists(st.tuples(st.text(max_size=5), PARTS), min_size=1, max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


def segment_of(records: list[Any], salt: bytes = SALT) -> tuple[bytes, list[int]]:
    """A segment with these records, and the positions at which each frame begins, and the last ends."""
    data, places = header(salt), []
    for number, record in enumerate(records):
        places.append(len(data))
        data += encode_record(salt, number * 3, PlainRecord(*record))  # with gaps
    return data, [*places, len(data)]


def plain(found: list[SpooledRecord | Damage]) -> list[tuple[Any, ...]]:
    return [tuple(one[1:-1]) for one in found if isinstance(one, SpooledRecord)]


@given(RECORDS)
def test_written_records_are_read_back(records: list[Any]) -> None:
    data, places = segment_of(records)
    assert salt_of(data) == SALT
    found = list(scan(data, SALT))
    assert plain(found) == records
    assert [one.size for one in found if isinstance(one, SpooledRecord)] == [
        end - start for start, end in pairwise(places)
    ]
    assert [one.sequence for one in found if isinstance(one, SpooledRecord)] == [3 * n for n in range(len(records))]


@given(RECORDS, st.data())
def test_a_write_that_was_cut_short_harms_nothing_before_it(records: list[Any], draw: st.DataObject) -> None:
    data, places = segment_of(records)
    cut = draw.draw(st.integers(0, len(data)))
    if salt_of(data[:cut]) is None:
        assert cut < HEADER_SIZE
        return
    whole = sum(end <= cut for end in places[1:])
    found = list(scan(data[:cut], SALT))
    assert plain(found) == records[:whole]
    torn = [one for one in found if isinstance(one, Damage)]
    assert torn == ([] if cut == places[whole] else [Damage(places[whole], cut)])


@given(RECORDS, st.data())
def test_a_byte_that_is_damaged_harms_its_own_record_alone(records: list[Any], draw: st.DataObject) -> None:
    data, places = segment_of(records)
    place = draw.draw(st.integers(HEADER_SIZE, len(data) - 1))
    damaged = bytearray(data)
    damaged[place] ^= draw.draw(st.integers(1, 255))
    hit = next(number for number, end in enumerate(places[1:]) if place < end)
    found = list(scan(bytes(damaged), SALT))
    assert plain(found) == records[:hit] + records[hit + 1 :]
    assert [one for one in found if isinstance(one, Damage)] == [Damage(places[hit], places[hit + 1])]


@given(RECORDS, st.binary(max_size=200), st.integers(0, 6))
def test_bytes_that_are_not_records_are_skipped_and_reported(records: list[Any], noise: bytes, place: int) -> None:
    data, places = segment_of(records)
    at = places[min(place, len(records))]
    found = list(scan(data[:at] + noise + data[at:], SALT))
    assert plain(found) == records
    assert [one for one in found if isinstance(one, Damage)] == ([Damage(at, at + len(noise))] if noise else [])


def test_a_value_that_is_a_piece_of_another_spool_is_never_taken_for_records() -> None:
    inner, _ = segment_of([("t", None, 1, None, b"inner", None)] * 3, b"else")
    data, places = segment_of([("t", None, 1, None, inner, None), ("t", None, 1, None, b"after", None)])
    damaged = bytearray(data)
    damaged[places[0]] ^= 1
    found = list(scan(bytes(damaged), SALT))
    assert [one.value for one in found if isinstance(one, SpooledRecord)] == [b"after"]


def test_frames_that_do_not_ascend_are_ignored() -> None:
    frames = [encode_record(SALT, number, PlainRecord("t", None, 1, value=b"x")) for number in (5, 5, 4, 6)]
    found = list(scan(header(SALT) + b"".join(frames), SALT))
    assert [one.sequence for one in found if isinstance(one, SpooledRecord)] == [5, 6]
    assert list(scan(frames[0], SALT, 0, after=5)) == [Damage(0, len(frames[0]))]


def test_a_frame_costs_little_more_than_its_record() -> None:
    record = PlainRecord("t", None, 1, b"key", b"value")
    assert len(encode_record(SALT, 1, record)) == FRAME_OVERHEAD + len("tkeyvalue")


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with b'somethin'"):
        salt_of(b"something else")
    with pytest.raises(ValueError, match="AKSPOOL"):
        salt_of(MAGIC[:-1] + b"\x02" + SALT)
    assert salt_of(b"") is None
    assert salt_of(MAGIC + b"sa") is None


@given(
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.lists(st.integers(0, 2**63)),
    st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**31 - 1))),
    st.data(),
)
def test_the_mark_is_read_back_or_refused(
    first: int, last: int, delivered: list[int], partitions: list[tuple[int, int]], draw: st.DataObject
) -> None:
    mark = Mark(first, last, tuple(delivered), tuple(partitions))
    data = encode_mark(mark)
    assert decode_mark(data) == mark
    place = draw.draw(st.integers(0, len(data) - 2))  # the last byte ends the line
    damaged = bytearray(data)
    damaged[place] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match=r"."):
        decode_mark(bytes(damaged))


def test_a_mark_of_another_version_is_refused() -> None:
    from aiokafkapy.record.crc import crc32c

    text = b'{"version": 2}'
    with pytest.raises(ValueError, match="version 2"):
        decode_mark(b"%08x %s\n" % (crc32c(text), text))
