"""Frames out of a stream, however it is torn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.framing import FrameDecoder


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_any_fragmentation_gives_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, bodies))
    decoder, found, position = FrameDecoder(40), [], 0
    while position < len(stream):
        step = data.draw(st.integers(1, len(stream) - position))
        found += decoder.feed(stream[position : position + step])
        position += step
    assert found == bodies
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 41, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_as_soon_as_it_is_read(size: int) -> None:
    with pytest.raises(MalformedFrameError, match=str(size)):
        FrameDecoder(40).feed(size.to_bytes(4, "big", signed=True))


def test_a_torn_size_is_checked_too() -> None:
    decoder = FrameDecoder(40)
    assert decoder.feed(b"\x7f\xff") == []
    with pytest.raises(MalformedFrameError):
        decoder.feed(b"\xff\xff")


def test_memory_follows_the_bytes_that_arrived_and_not_those_announced() -> None:
    decoder = FrameDecoder(1 << 30)
    decoder.feed((1 << 30).to_bytes(4, "big") + b"0123456789")
    assert decoder.buffered_bytes == 10


def test_an_empty_frame_is_a_frame() -> None:
    assert FrameDecoder(0).feed(frame(b"") * 2) == [b"", b""]
