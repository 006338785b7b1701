"""The varints that are kept, against those that are computed, and read again."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import CorruptMessageError
from aiokafkapy.record.encoding import KEPT_VARINTS, SHORT_VARINTS, VARINTS, _encode_varint, read_varint


def test_a_varint_that_is_kept_is_the_one_that_is_computed() -> None:
    assert [_encode_varint(value) for value in range(KEPT_VARINTS)] == VARINTS
    assert {len(each) for each in VARINTS[:SHORT_VARINTS]} == {1}
    assert {len(each) for each in VARINTS[SHORT_VARINTS:]} == {2}


@pytest.mark.parametrize("value", [0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    written = _encode_varint(value)
    assert read_varint(b"?" + written + b"!", 1, 1 + len(written), 10) == (value, 1 + len(written))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\0"])
def test_a_varint_that_does_not_end_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        read_varint(data, 0, len(data), 10)
