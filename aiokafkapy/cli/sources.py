"""Turns the input of ``produce`` (lines, CSV or JSON lines) into records to send.

Owns the formats, and the mapping of fields to keys, values, headers, partitions and timestamps (``RecordShape``); knows
no Kafka client and no event loop. ``input_lines`` reads the lines, and ``input_queue`` brings the records to the loop.

Rules:

- A line that is not a valid record becomes a ``RejectedLine`` with the reason, and reading goes on.
- Bytes that are sent unchanged are not decoded: a line's value is the line without its line end.
- Input is not read ahead: a record is handed on as soon as its line is complete, so that a slow pipe is a live stream.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from .options import parse_timestamp

if TYPE_CHECKING:
    from _csv import Reader

__all__ = ["FORMATS", "InputRecord", "RecordShape", "RejectedLine", "SourceLine", "format_of", "read_records"]

FORMATS: Final = ("lines", "csv", "jsonl")
_FORMAT_BY_SUFFIX: Final = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}


class SourceLine(NamedTuple):
    """A line of the input, by its source and number, and its text: several lines if a quoted field spans them."""

    source: str
    number: int
    text: bytes


class InputRecord(NamedTuple):
    """A record to send, and the line of the input that it comes from."""

    line: SourceLine
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None
    timestamp_ms: int | None


MAX_FIELD: Final = 64 * 1024 * 1024
"""The most characters of a CSV's field: more than the largest records, and a bound for an unclosed quote."""
NESTED_TOO_DEEPLY: Final = "nested too deeply to be read"


class RejectedLine(NamedTuple):
    """A line that is not sent, and the reason."""

    line: SourceLine
    reason: str


OPTIONAL: Final = "?"
"""The suffix of an optional header field: a line without it, or with null, becomes a record without the header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordShape:
    """The field of a line for each part of a record. Fields are columns of a CSV or members of a JSON object."""

    key_field: str | None = None
    key_separator: bytes | None = None
    value_field: str | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    header_fields: Mapping[str, str] | None = None
    partition: int | None = None
    partition_field: str | None = None
    timestamp_field: str | None = None
    null_text: str | None = None
    delimiter: str = ","
    columns: Sequence[str] | None = None

    @property
    def fields(self) -> list[str]:
        """All fields that are used."""
        single = [self.key_field, self.value_field, self.partition_field, self.timestamp_field]
        of_headers = [name for name in (self.header_fields or {}).values() if not name.endswith(OPTIONAL)]
        return [name for name in single if name is not None] + of_headers


Item: TypeAlias = InputRecord | RejectedLine


def format_of(name: str) -> str:
    """The format by a file name's extension; lines by default."""
    for suffix, found in _FORMAT_BY_SUFFIX.items():
        if name.lower().endswith(suffix):
            return found
    return "lines"


def read_records(lines: Iterable[bytes], source: str, kind: str, shape: RecordShape) -> Iterator[Item]:
    """The records of lines of ``kind`` (one of FORMATS). Raises ValueError when the input as a whole cannot be
    read, such as a CSV without the column for the key.
    """
    if kind == "lines":
        return _read_lines(lines, source, shape)
    if kind == "csv":
        return _read_csv(lines, source, shape)
    return _read_json_lines(lines, source, shape)


# internals


def _read_lines(lines: Iterable[bytes], source: str, shape: RecordShape) -> Iterator[Item]:
    separator = shape.key_separator
    null = None if shape.null_text is None else os.fsencode(shape.null_text)
    for number, raw in enumerate(lines, 1):
        text = raw.rstrip(b"\r\n")
        line = SourceLine(source, number, text)
        key: bytes | None = None
        value: bytes | None = text
        if separator:
            before, found, after = text.partition(separator)
            if not found:
                reason = f"there is no key separator {separator.decode(errors='replace')!r} in the line"
                yield RejectedLine(line, reason)
                continue
            key, value = before, after
        if null is not None:
            key = None if key == null else key
            value = None if value == null else value
        yield InputRecord(line, key, value, headers=shape.headers, partition=shape.partition, timestamp_ms=None)


def _read_csv(lines: Iterable[bytes], source: str, shape: RecordShape) -> Iterator[Item]:
    kept: list[bytes] = []
    csv.field_size_limit(MAX_FIELD)  # a setting of the whole process; 128 KiB by default, less than a broker takes
    reader = csv.reader(_decoded(lines, kept), delimiter=shape.delimiter)
    columns = list(shape.columns) if shape.columns else _header(reader, kept, source)
    if columns is None:
        return
    # Spreadsheets leave empty columns behind; other columns are sent only if the whole row is.
    sent = set(shape.fields) if shape.value_field is not None else {*filter(None, columns), *shape.fields}
    twice = next((name for name, count in Counter(columns).items() if count > 1 and name in sent), None)
    if twice is not None:
        raise ValueError(f"{source} has two columns {twice!r}: only one of them could be sent")
    for name in shape.fields:
        if name not in columns:
            raise ValueError(f"{source} has no column {name!r}; it has {', '.join(columns)}")
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield RejectedLine(SourceLine(source, number, _text(kept)), f"not CSV: {error}")
            continue
        line = SourceLine(source, number, _text(kept))
        if not _is_utf8(line.text):
            yield RejectedLine(line, "not UTF-8")
            continue
        if not row:
            continue
        if len(row) != len(columns):
            yield RejectedLine(line, f"{len(row)} columns where {len(columns)} are expected")
            continue
        fields = dict(zip(columns, row, strict=True))
        yield _record_of(line, fields, _as_json(_without_nulls(fields, shape.null_text)), shape)


def _header(reader: Reader, kept: list[bytes], source: str) -> list[str] | None:
    """The first line that is not blank; None without one."""
    try:
        columns = next((row for row in reader if row), None)
    except csv.Error as error:
        raise ValueError(f"{source}:{reader.line_num}: the header is not CSV: {error}") from error
    if not _is_utf8(_text(kept)):
        raise ValueError(f"{source}:{reader.line_num}: the header is not UTF-8")
    return columns


def _read_json_lines(lines: Iterable[bytes], source: str, shape: RecordShape) -> Iterator[Item]:
    for number, raw in enumerate(lines, 1):
        line = SourceLine(source, number, raw.strip())
        if not line.text:
            continue
        try:
            fields = json.loads(line.text)
        except ValueError as error:
            yield RejectedLine(line, f"not JSON: {error}")
            continue
        except RecursionError:
            yield RejectedLine(line, NESTED_TOO_DEEPLY)
            continue
        if not isinstance(fields, dict):
            if shape.fields:
                yield RejectedLine(line, "not a JSON object, so it has no fields")
                continue
            fields = {}
        yield _record_of(line, fields, line.text, shape)


def _record_of(line: SourceLine, fields: Mapping[str, object], whole: bytes, shape: RecordShape) -> Item:
    try:
        key = _field(fields, shape.key_field, shape)
        value = whole if shape.value_field is None else _field(fields, shape.value_field, shape)
        headers = shape.headers
        if shape.header_fields:
            headers += tuple(_headers_of(fields, shape.header_fields, shape))
        partition = shape.partition
        if shape.partition_field is not None:
            partition = _partition(fields.get(shape.partition_field))
        timestamp_ms = None if shape.timestamp_field is None else _timestamp(fields.get(shape.timestamp_field))
    except (KeyError, ValueError) as error:
        # A KeyError's own text is its argument in quotes.
        return RejectedLine(line, str(error.args[0] if isinstance(error, KeyError) else error))
    except RecursionError:
        return RejectedLine(line, NESTED_TOO_DEEPLY)
    return InputRecord(line, key, value, headers=headers, partition=partition, timestamp_ms=timestamp_ms)


def _headers_of(
    fields: Mapping[str, object], wanted: Mapping[str, str], shape: RecordShape
) -> Iterator[tuple[str, bytes | None]]:
    for name, field in wanted.items():
        if not field.endswith(OPTIONAL):
            yield name, _field(fields, field, shape)
        elif (plain := field.removesuffix(OPTIONAL)) in fields:
            value = _field(fields, plain, shape)
            if value is not None:
                yield name, value


def _field(fields: Mapping[str, object], name: str | None, shape: RecordShape) -> bytes | None:
    """A field as bytes: text as UTF-8, anything else as JSON, null as None."""
    if name is None:
        return None
    if name not in fields:
        raise KeyError(f"there is no field {name!r}")
    value = fields[name]
    if value is None or value == shape.null_text:
        return None
    return value.encode() if isinstance(value, str) else _as_json(value)


def _partition(value: object) -> int | None:
    if value is None or value == "":
        return None
    number = -1
    if isinstance(value, int | str) and not isinstance(value, bool):
        with contextlib.suppress(ValueError):
            number = int(value)
    if number < 0:
        raise ValueError(f"{value!r} is not a partition's number")
    return number


def _timestamp(value: object) -> int | None:
    """Milliseconds since the epoch, as a number or its digits, or a date or time in ISO 8601."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?\d+", value) else parse_timestamp(value)
    raise ValueError(f"{value!r} is not a time")


def _without_nulls(fields: Mapping[str, str], null_text: str | None) -> Mapping[str, str | None]:
    if null_text is None:
        return fields
    return {name: None if value == null_text else value for name, value in fields.items()}


def _as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decoded(lines: Iterable[bytes], kept: list[bytes]) -> Iterator[str]:
    """The lines as text for the csv module; ``kept`` gets their bytes: a quoted field may span several lines."""
    for number, line in enumerate(lines):
        kept.append(line)
        # Not strict: after an exception of its iterator the csv reader would be exhausted.
        text = line.decode("utf-8", errors="surrogateescape")
        yield text if number else text.removeprefix("\ufeff")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _text(kept: list[bytes]) -> bytes:
    text = b"".join(kept).rstrip(b"\r\n")
    kept.clear()
    return text
