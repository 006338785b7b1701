"""Shows bytes of records as readable text: JSON, text, hex, or by a schema of the registry. Pure, except for the
registry.

Owns the choice of a form, and the limits: longer text is cut, and marked. It must not know topics nor brokers.

Rules:

- bytes never become markup or control characters: only printable text is shown as text, all else as hex;
- ``auto`` is the registry's form, if the bytes begin like those of its serializers and it knows the schema; else JSON,
  if it is an object or a list; else text; else hex;
- a form that does not fit the bytes is not an error: they are shown as hex, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

from ..common import ConsumedRecord, Headers, JsonValue

__all__ = ["FORMS", "Decoder", "Form", "RecordView", "Shown", "show", "show_header", "view_of"]

Form = Literal["auto", "text", "json", "hex", "registry"]
FORMS: Final = get_args(Form)

CUT_AT: Final = 400
"""Characters of a key or value in a list."""
HEADER_CUT_AT: Final = 200
MOST_HEADERS: Final = 50
_HEX_BYTES: Final = 16


class Decoder(Protocol):
    """Reads data that names a schema."""

    async def __call__(self, data: bytes, headers: Headers, *, is_key: bool) -> tuple[str, JsonValue]:
        """The name of its format, and the data as JSON's types. Raises any error for other data."""

    async def close(self) -> None:
        """End its connections."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A key, value or header. ``form`` names its form; ``note`` says why it is not the requested one."""

    form: str
    text: str
    size: int
    is_cut: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class RecordView:
    """A record to show. ``outcome`` is "aborted" or "pending" if ``read_committed`` does not return it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]
    left_out_headers: int = 0
    outcome: str = ""


async def view_of(
    record: ConsumedRecord, key_form: Form, value_form: Form, decoder: Decoder | None = None, *, cut_at: int = CUT_AT
) -> RecordView:
    """The record in the form of the page."""
    key = await show(record.key, key_form, decoder, record.headers, is_key=True, cut_at=cut_at)
    value = await show(record.value, value_form, decoder, record.headers, is_key=False, cut_at=cut_at)
    shown = tuple((name, show_header(data)) for name, data in record.headers[:MOST_HEADERS])
    left_out = max(0, len(record.headers) - MOST_HEADERS)
    return RecordView(record.topic, record.partition, record.offset, record.timestamp_ms, key, value, shown, left_out)


async def show(
    data: bytes | None,
    form: Form,
    decoder: Decoder | None = None,
    headers: Headers = (),
    *,
    is_key: bool = False,
    cut_at: int = CUT_AT,
) -> Shown:
    """Bytes as text; with ``cut_at`` 0 all of them, and JSON over several lines."""
    if data is None:
        return Shown("null", "", 0)
    note = ""
    if form == "registry" or (form == "auto" and decoder is not None and _may_name_a_schema(data, headers)):
        if decoder is None:
            note = "no schema registry was given"
        else:
            try:
                name, decoded = await decoder(data, headers, is_key=is_key)
            except Exception as error:  # the data may be invalid, or the registry away: then it is shown as bytes
                note = f"{type(error).__name__}: {error}" if form == "registry" else ""
            else:
                return _cut(name, _json_text(decoded, cut_at), len(data), cut_at)
        form = "auto"
    return _shown(data, form, note, cut_at)


def show_header(data: bytes | None) -> Shown:
    """A header's value."""
    return Shown("null", "", 0) if data is None else _shown(data, "auto", "", HEADER_CUT_AT)


# internals


def _shown(data: bytes, form: Form, note: str, cut_at: int) -> Shown:
    if form in ("auto", "json"):
        found = _as_json(data, cut_at, any_kind=form == "json")
        if found is not None:
            return _cut("json", found, len(data), cut_at, note)
        if form == "json":
            note = "not JSON"
    if form != "hex":
        text = _as_text(data, cut_at)
        if text is not None:
            return _cut("text", text, len(data), cut_at, note)
        if form == "text":
            note = "not printable text"
    return _hex(data, note, cut_at)


def _as_text(data: bytes, cut_at: int) -> str | None:
    """Printable UTF-8, or None. Only the shown part is checked."""
    if cut_at and len(data) > 4 * cut_at:
        data = data[: 4 * cut_at]
        text = data.decode("utf-8", errors="ignore") if _is_utf8_but_for_the_end(data) else None
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
    if text is None or not _is_printable(text):
        return None
    return text


def _is_utf8_but_for_the_end(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(data) - 3
    return True


def _is_printable(text: str) -> bool:
    return text.isprintable() or all(one.isprintable() or one in "\n\r\t" for one in text)


def _as_json(data: bytes, cut_at: int, *, any_kind: bool) -> str | None:
    """The same JSON, spread over lines if it is shown whole; None for other bytes."""
    if not any_kind and data[:1] not in (b"{", b"["):
        return None
    if cut_at and not any_kind and len(data) > 64 * cut_at:
        return None  # not parsed for a few characters: it is shown as text
    try:
        parsed = json.loads(data)
        return _json_text(parsed, cut_at) if not cut_at else _printable_json(data)
    except (ValueError, RecursionError):
        return None


def _printable_json(data: bytes) -> str | None:
    text = data.decode()
    return text if _is_printable(text) else None


def _json_text(value: object, cut_at: int) -> str:
    return json.dumps(value, ensure_ascii=False, indent=None if cut_at else 2, default=str)


def _hex(data: bytes, note: str, cut_at: int) -> Shown:
    if not cut_at:
        return Shown("hex", "\n".join(_hex_lines(data)), len(data), note=note)
    shown = data[: cut_at // 3]
    return Shown("hex", shown.hex(" "), len(data), is_cut=len(shown) < len(data), note=note)


def _hex_lines(data: bytes) -> Iterable[str]:
    for at in range(0, len(data), _HEX_BYTES):
        part = data[at : at + _HEX_BYTES]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"{at:08x}  {part.hex(' '):<{3 * _HEX_BYTES}} {text}"


def _cut(form: str, text: str, size: int, cut_at: int, note: str = "") -> Shown:
    if cut_at and len(text) > cut_at:
        return Shown(form, text[:cut_at], size, is_cut=True, note=note)
    return Shown(form, text, size, note=note)


def _may_name_a_schema(data: bytes, headers: Headers) -> bool:
    return data[:1] in (b"\0", b"\1") or any(name.startswith("__") for name, _ in headers)
