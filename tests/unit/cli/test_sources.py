"""Lines, CSV and JSON lines as ``produce`` turns them into records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafkapy.cli import sources
from aiokafkapy.cli.sources import InputRecord, RecordShape, RejectedLine, format_of, read_records


def read(text: bytes, kind: str, **shape: Any) -> list[InputRecord | RejectedLine]:
    return list(read_records(io.BytesIO(text), "input", kind, RecordShape(**shape)))


def records(text: bytes, kind: str, **shape: Any) -> list[InputRecord]:
    found = read(text, kind, **shape)
    accepted = [item for item in found if isinstance(item, InputRecord)]
    assert len(accepted) == len(found), found
    return accepted


def rejected(text: bytes, kind: str, **shape: Any) -> RejectedLine:
    (found,) = [item for item in read(text, kind, **shape) if isinstance(item, RejectedLine)]
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.csv", "csv"), ("a.TSV", "csv"), ("b.jsonl", "jsonl"), ("b.ndjson", "jsonl"), ("c.log", "lines")],
)
def test_the_format_is_that_of_the_files_ending(name: str, kind: str) -> None:
    assert format_of(name) == kind


def test_a_line_is_a_value_without_its_line_end() -> None:
    found = records(b"one\ntwo\r\n\nlast \xff", "lines")
    assert [item.value for item in found] == [b"one", b"two", b"", b"last \xff"]
    assert [item.line.number for item in found] == [1, 2, 3, 4]
    assert {item.key for item in found} == {None}


def test_a_line_is_split_at_the_first_key_separator() -> None:
    assert [(item.key, item.value) for item in records(b"a:b:c\n:x\n", "lines", key_separator=b":")] == [
        (b"a", b"b:c"),
        (b"", b"x"),
    ]
    assert "separator" in rejected(b"none\nk:v\n", "lines", key_separator=b":").reason


def test_a_text_can_stand_for_null() -> None:
    (record,) = records(b"a:NULL\n", "lines", key_separator=b":", null_text="NULL")
    assert (record.key, record.value) == (b"a", None)
    (record,) = records(b"id,v\n1,NA\n", "csv", key_field="id", value_field="v", null_text="NA")
    assert (record.key, record.value) == (b"1", None)
    (record,) = records(b"id,v\n1,NA\n", "csv", null_text="NA")
    assert json.loads(record.value or b"") == {"id": "1", "v": None}


def test_a_csv_row_is_json_unless_a_column_is_the_value() -> None:
    text = 'id,name\n1,"Zoë, said ""hi"""\n'.encode()
    (whole,) = records(text, "csv", key_field="id")
    assert whole.key == b"1"
    assert json.loads(whole.value or b"") == {"id": "1", "name": 'Zoë, said "hi"'}
    (one,) = records(text, "csv", value_field="name")
    assert one.value == 'Zoë, said "hi"'.encode()


def test_a_csv_field_may_run_over_lines_and_a_byte_order_mark_is_not_part_of_a_name() -> None:
    found = records(b'\xef\xbb\xbfid,v\n1,"a\nb"\n2,c\n', "csv", key_field="id", value_field="v")
    assert [(item.line.number, item.key, item.value) for item in found] == [(2, b"1", b"a\nb"), (4, b"2", b"c")]


def test_a_csv_row_of_another_width_or_that_is_not_utf8_is_rejected_and_reading_goes_on() -> None:
    text = b"id,v\n1,a,extra\n2,\xff\n3,ok\n"
    found = read(text, "csv", key_field="id")
    assert [type(item).__name__ for item in found] == ["RejectedLine", "RejectedLine", "InputRecord"]
    assert found[0].line[1:] == (2, b"1,a,extra")
    assert isinstance(found[1], RejectedLine)
    assert "UTF-8" in found[1].reason


@pytest.fixture(autouse=True)
def _field_size_limit() -> Iterator[None]:
    """The limit of the csv module is the process's."""
    before = csv.field_size_limit()
    yield
    csv.field_size_limit(before)


def test_a_csv_field_may_be_as_large_as_a_record_but_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    document = b"x" * 1_000_000
    text = b"id,doc\n1," + document + b"\n2,y\n"
    assert [item.value for item in records(text, "csv", value_field="doc")] == [document, b"y"]
    monkeypatch.setattr(sources, "MAX_FIELD", 100_000)
    assert "field larger" in rejected(text, "csv", value_field="doc").reason


def test_blank_lines_before_the_header_of_a_csv_are_passed_over() -> None:
    found = records(b"\n\r\nid,v\n1,a\n", "csv", key_field="id", value_field="v")
    assert [(item.line.number, item.key, item.value) for item in found] == [(4, b"1", b"a")]
    assert read(b"\n\n", "csv") == []


def test_a_header_that_cannot_be_read_is_an_error_of_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FIELD", 100_000)
    with pytest.raises(ValueError, match="input:1: the header is not CSV: field larger"):
        read(b"a" * 200_000 + b",b\n1,2\n", "csv")
    with pytest.raises(ValueError, match="input:2: the header is not UTF-8"):
        read(b"\npr\xe9nom,b\n1,2\n", "csv", key_field="b")


def test_a_column_that_is_not_there_is_an_error_of_the_whole_file() -> None:
    with pytest.raises(ValueError, match="no column 'nr'; it has id, v"):
        read(b"id,v\n1,a\n", "csv", key_field="nr")


def test_columns_of_one_name_that_are_not_sent_do_not_matter() -> None:
    """A spreadsheet leaves empty ones behind."""
    (record,) = records(b"id,v,,\n1,a,,\n", "csv", key_field="id", value_field="v")
    assert (record.key, record.value) == (b"1", b"a")


def test_two_columns_of_one_name_are_an_error_of_the_whole_file() -> None:
    with pytest.raises(ValueError, match="input has two columns 'v'"):
        read(b"v,id,v\n1,2,3\n", "csv")
    with pytest.raises(ValueError, match="input has two columns 'v'"):
        read(b"1,2\n", "csv", columns=["v", "v"])


def test_columns_can_be_named_for_a_csv_without_a_header_line() -> None:
    (record,) = records(b"1;a\n", "csv", delimiter=";", columns=["id", "v"], key_field="id", value_field="v")
    assert (record.key, record.value) == (b"1", b"a")


def test_a_json_line_goes_through_unchanged_with_its_key_headers_partition_and_time() -> None:
    line = b'{"id": 7, "who": "me", "p": 3, "at": "2013-01-01T10:00:00Z", "more": {"a": [1]}}'
    (record,) = records(
        line + b"\n",
        "jsonl",
        key_field="id",
        headers=(("from", b"cli"),),
        header_fields={"who": "who", "more": "more"},
        partition_field="p",
        timestamp_field="at",
    )
    assert record.value == line
    assert record.key == b"7"
    assert record.headers == (("from", b"cli"), ("who", b"me"), ("more", b'{"a":[1]}'))
    assert record.partition == 3
    assert record.timestamp_ms == 1_357_034_400_000


@pytest.mark.parametrize("text", ["--5", "²", "5 000"])
def test_an_invalid_time_is_named(text: str) -> None:
    line = rejected(json.dumps({"at": text}).encode() + b"\n", "jsonl", timestamp_field="at")
    assert text in line.reason


@pytest.mark.parametrize(
    ("kind", "lines", "headers"),
    [
        ("jsonl", b'{"who": "me"}\n{}\n{"who": null}\n', [(("from", b"me"),), (), ()]),
        ("csv", b"v,who\n1,me\n2,NA\n", [(("from", b"me"),), ()]),
        ("csv", b"v\n1\n2\n", [(), ()]),
    ],
)
def test_an_optional_header_is_left_out_where_a_line_has_none(kind: str, lines: bytes, headers: list[object]) -> None:
    found = records(lines, kind, header_fields={"from": "who?"}, null_text="NA")
    assert [record.headers for record in found] == headers


def test_a_json_null_is_no_key_and_a_null_value_is_a_tombstone() -> None:
    (record,) = records(b'{"k": null, "v": null}\n', "jsonl", key_field="k", value_field="v")
    assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize(
    ("line", "shape", "reason"),
    [
        (b"{broken", {}, "not JSON"),
        (b"[1]", {"key_field": "k"}, "not a JSON object"),
        (b'{"a": 1}', {"key_field": "k"}, "no field 'k'"),
        (b'{"p": -1}', {"partition_field": "p"}, "not a partition"),
        (b'{"p": "x"}', {"partition_field": "p"}, "'x' is not a partition"),
        (b'{"p": 1e400}', {"partition_field": "p"}, "inf is not a partition"),
        (b'{"p": [1]}', {"partition_field": "p"}, "[1] is not a partition"),
        (b'{"p": true}', {"partition_field": "p"}, "True is not a partition"),
        (b'{"k": "\\ud800"}', {"key_field": "k"}, "surrogates not allowed"),
        (b"[" * 200_000, {}, "nested too deeply"),
        (b'{"t": "noon"}', {"timestamp_field": "t"}, "Invalid isoformat"),
        (b'{"t": 1.5}', {"timestamp_field": "t"}, "not a time"),
    ],
)
def test_a_json_line_that_does_not_fit_is_rejected_with_the_reason(
    line: bytes, shape: dict[str, object], reason: str
) -> None:
    found = rejected(line + b"\n", "jsonl", **shape)
    assert reason in found.reason
    assert found.line[1:] == (1, line)


def test_a_time_is_milliseconds_or_iso() -> None:
    text = b'{"t": 5}\n{"t": "1700000000000"}\n{"t": "2024-01-01"}\n{"t": null}\n'
    found = records(text, "jsonl", timestamp_field="t")
    assert [item.timestamp_ms for item in found] == [5, 1_700_000_000_000, 1_704_067_200_000, None]


def test_nothing_is_read_ahead_of_a_line() -> None:
    class Slow:
        """Hands out lines one at a time and notes how many were taken."""

        taken = 0

        def __iter__(self) -> Slow:
            return self

        def __next__(self) -> bytes:
            self.taken += 1
            return b"a,%d\n" % self.taken

    stream = Slow()
    found = read_records(stream, "pipe", "csv", RecordShape(columns=["k", "v"]))
    next(found)
    assert stream.taken == 1
