"""Bytes as text: the form is chosen by the bytes, long ones are cut, and nothing unprintable gets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.common import ConsumedRecord, Headers
from aiokafkapy.console.decoding import CUT_AT, FORMS, MOST_HEADERS, Form, show, view_of


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (b"hello", "text", "hello"),
        ("größer".encode(), "text", "größer"),
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b'[1, "<b>"]', "json", '[1, "<b>"]'),
        (b'{"a": ', "text", '{"a": '),
        (b"17", "text", "17"),
        (b"\x00\x01\xff", "hex", "00 01 ff"),
        (b"a\x1b[31m", "hex", "61 1b 5b 33 31 6d"),
        ("a\u202eb".encode(), "hex", "61 e2 80 ae 62"),
        (b"", "text", ""),
        (None, "null", ""),
    ],
)
async def test_auto_chooses_the_form_by_the_bytes(data: bytes | None, form: str, text: str) -> None:
    shown = await show(data, "auto")
    assert (shown.form, shown.text, shown.size, shown.is_cut) == (form, text, len(data or b""), False)


@pytest.mark.parametrize(
    ("asked", "data", "form", "note"),
    [
        ("json", b"17", "json", ""),
        ("json", b"seventeen", "text", "not JSON"),
        ("text", b"\xff", "hex", "not printable text"),
        ("text", b'{"a": 1}', "text", ""),
        ("hex", b"abc", "hex", ""),
        ("registry", b"abc", "text", "no schema registry was given"),
    ],
)
async def test_a_form_that_does_not_fit_says_so(asked: Form, data: bytes, form: str, note: str) -> None:
    shown = await show(data, asked)
    assert (shown.form, shown.note) == (form, note)


async def test_long_ones_are_cut_in_a_list_and_whole_by_themselves() -> None:
    long = json.dumps({"text": "x" * 100_000}).encode()
    for data in (long, b"y" * 100_000, b"\xff" * 100_000, "ü".encode() * 50_000):
        shown = await show(data, "auto")
        assert shown.is_cut
        assert len(shown.text) <= CUT_AT
        assert shown.size == len(data)
        whole = await show(data, "auto", cut_at=0)
        assert not whole.is_cut
        assert len(whole.text) >= 50_000
    assert (await show(long, "auto", cut_at=0)).text == '{\n  "text": "' + "x" * 100_000 + '"\n}'


async def test_hex_in_full_has_offsets_and_characters() -> None:
    shown = await show(bytes(range(20)) + b"ab", "hex", cut_at=0)
    first, second = shown.text.splitlines()
    assert first.startswith("00000000  00 01 02")
    assert second.startswith("00000010  10 11 12 13 61 62 ")
    assert second.endswith(" ....ab")


@given(st.binary(max_size=300), st.sampled_from(FORMS), st.sampled_from([0, 10, CUT_AT]))
async def test_the_text_of_any_bytes_is_printable(data: bytes, form: Form, cut_at: int) -> None:
    shown = await show(data, form, cut_at=cut_at)
    assert all(one.isprintable() or one in "\n\r\t" for one in shown.text)
    assert shown.size == len(data)


class Registry:
    """A decoder that knows one schema."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bool]] = []

    async def __call__(self, data: bytes, headers: Headers, *, is_key: bool) -> tuple[str, Any]:
        self.asked.append((data, is_key))
        if data[:5] != b"\0\0\0\0\7":
            raise LookupError("no such schema")
        return "avro", {"id": data[5]}

    async def close(self) -> None:
        pass


async def test_the_registry_reads_bytes_that_name_a_schema_and_no_others() -> None:
    registry = Registry()
    assert (await show(b"\0\0\0\0\7\5", "auto", registry)).text == '{"id": 5}'
    assert (await show(b"plain", "auto", registry)).form == "text"
    unknown = await show(b"\0\0\0\0\x09", "auto", registry)
    assert (unknown.form, unknown.note) == ("hex", "")
    asked = await show(b"plain", "registry", registry)
    assert (asked.form, asked.note) == ("text", "LookupError: no such schema")
    await show(b"by header", "auto", registry, [("__value_schema_id", b"x")])
    assert [data for data, _ in registry.asked] == [b"\0\0\0\0\7\5", b"\0\0\0\0\x09", b"plain", b"by header"]


async def test_a_record_is_shown_with_some_of_its_headers() -> None:
    headers = [(f"h{number}", b"v") for number in range(MOST_HEADERS + 3)]
    view = await view_of(ConsumedRecord(7, b"k", None, headers, 1_000, "t", 2), "auto", "auto")
    assert (view.topic, view.partition, view.offset, view.key.text, view.value.form) == ("t", 2, 7, "k", "null")
    assert (len(view.headers), view.left_out_headers) == (MOST_HEADERS, 3)
