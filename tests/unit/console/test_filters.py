"""The filter's words: all have to fit, each in its place; an error has the reason."""

from __future__ import annotations

import pytest

from aiokafkapy.common import ConsumedRecord
from aiokafkapy.console.decoding import RecordView, view_of
from aiokafkapy.console.filters import RecordFilter

HEADERS = [("trace", b"abc-1"), ("Tenant", b"acme")]


async def a_record() -> RecordView:
    record = ConsumedRecord(12, b"Ann", b'{"status": "PAID now"}', HEADERS, 0, "orders", 3)
    return await view_of(record, "auto", "auto", cut_at=0)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("paid", True),
        ("ANN paid", True),
        ("bob", False),
        ("paid bob", False),
        ("key:ann", True),
        ("key:paid", False),
        ("value:paid -value:refused", True),
        ("-paid", False),
        ("-", True),
        ('"paid now"', True),
        ('"now paid"', False),
        ("header:trace", True),
        ("header:trace=abc", True),
        ("header:tenant=ACME", True),
        ("header:trace=acme", False),
        ("partition:3 offset:12", True),
        ("partition:4", False),
        ("-partition:4", True),
        ("status paid", True),
        ("http://x", False),
    ],
)
async def test_a_record_fits_when_every_word_does(text: str, fits: bool) -> None:
    wanted = RecordFilter.of(text)
    assert bool(wanted) == bool(text)
    assert wanted.fits(await a_record()) is fits


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"open', "a quote that is not closed"),
        ("partition:x", "'partition:x': a number comes after partition:"),
        ("offset:", "a number comes after offset:"),
        ("x" * 1_001, "the filter has 1001 characters: at most 1000"),
        ("w " * 21, "the filter has 21 words: at most 20"),
    ],
)
def test_a_filter_that_cannot_be_read_says_why(text: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        RecordFilter.of(text)
    assert message in str(raised.value)
