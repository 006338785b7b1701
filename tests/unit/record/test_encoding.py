"""The varints that are kept, against those that are computed."""

from __future__ import annotations

from aiokafkapy.record.encoding import KEPT_VARINTS, SHORT_VARINTS, VARINTS, _encode_varint


def test_a_varint_that_is_kept_is_the_one_that_is_computed() -> None:
    assert [_encode_varint(value) for value in range(KEPT_VARINTS)] == VARINTS
    assert {len(each) for each in VARINTS[:SHORT_VARINTS]} == {1}
    assert {len(each) for each in VARINTS[SHORT_VARINTS:]} == {2}
