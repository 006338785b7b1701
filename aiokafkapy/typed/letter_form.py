"""The content of a dead letter: the record's key, value and headers as bytes, and headers that say why it was refused.

Owns the conversion of any data to bytes, and the omissions. It knows no producer and sends nothing. Connect's
counterparts are the headers ``__connect.errors.…``.

Rules:

- Headers never claim data that could not be written: they say the form of key and value, and what is missing.
- Key, value and headers have a bound each, and one together, above which the largest is left out.
- Of objects whose class is not data, only the refused object itself is read, and only its public attributes: other
  objects may hold clients and passwords.
- Data that a schema's rules encrypt is hidden, or left out if that is not possible.
- Headers have the error's class and its text, in our own words only: the message of a user's serializer may contain
  the data, and is left out. The value itself is unchanged, so the topic needs the same rights as the original.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from time import time
from typing import Any, Final, Literal, Protocol, TypeGuard

from pydantic_core import to_json

from ..errors.local import text_without_data
from ..producer.records import HeadersLike, ProducerRecord
from ..record.builder import record_size_upper_bound
from .deferred import Deferred, Failed
from .record_producer import header_pairs

__all__ = ["FailedRule", "letter_of", "redacted", "rule_of"]

_MESSAGE_CHARACTERS: Final = 1_000
_PREFIX: Final = "dead_letter."
_BYTES_IN_JSON: Final[tuple[tuple[Literal["utf8", "base64"], str], ...]] = (
    ("utf8", "json"),
    ("base64", "json, bytes in base64"),  # some are not UTF-8
)


def letter_of(topic: str, record: ProducerRecord, error: BaseException, limit: int, most: int) -> ProducerRecord:
    """The dead letter of a record: key, value and headers of ``limit`` bytes each, and of ``most`` together."""
    key, key_form = _bytes_of(record.key, limit)
    value, value_form = _bytes_of(record.value, limit)
    headers, headers_form = _own_headers(record.headers, limit)
    while True:
        all_headers = [*headers, *_told(record, error, key_form, value_form, headers_form)]
        sizes = {"key": len(key or b""), "value": len(value or b""), "headers": _size_of(headers)}
        largest = max(sizes, key=lambda part: sizes[part])
        if not sizes[largest] or record_size_upper_bound(key, value, tuple(all_headers)) <= most:
            return ProducerRecord(topic, value, key, headers=all_headers)
        reason = f"left out: {sizes[largest]} bytes, the record has at most {most}"
        if largest == "key":
            key, key_form = None, reason
        elif largest == "value":
            value, value_form = None, reason
        else:
            headers, headers_form = [], reason


class FailedRule(Protocol):
    """The failure of a data contract's rule whose action is ``DLQ``: the part of ``RuleFailedError`` that is needed."""

    dead_letter_topic: str | None

    @property
    def dead_letter_headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers that describe the rule."""


def rule_of(error: BaseException) -> FailedRule | None:
    """The error or its cause that is the failure of a rule whose action is ``DLQ``; else None."""
    for one in (error, error.__cause__):
        if _is_failed_rule(one):
            return one
    return None


def redacted(serializer: object, topic: str, data: object) -> object:
    """The data in the form for a dead letter: a serializer that encrypts decides which parts are hidden."""
    if isinstance(data, (Deferred, Failed)):
        serializer = data.serializer
    redact = getattr(serializer, "redacted", None)
    if redact is None or data is None:
        return data
    try:
        return redact(topic, _original(data))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # data that cannot be hidden is left out
        return None


# internals


def _is_failed_rule(error: BaseException | None) -> TypeGuard[FailedRule]:
    return bool(getattr(error, "is_dead_letter", False))


def _told(
    record: ProducerRecord, error: BaseException, key_form: str, value_form: str, headers_form: str
) -> list[tuple[str, bytes | None]]:
    """The headers that describe the record and its refusal."""
    partition = record.partition if record.partition is not None else getattr(error, "partition", None)
    about = {
        "topic": record.topic,
        "partition": "" if partition is None else partition,
        "timestamp_ms": _timestamp_of(record),
        "error": f"{type(error).__module__}.{type(error).__qualname__}",
        "message": _message(error),
        "key_form": key_form,
        "value_form": value_form,
    }
    if headers_form:
        about["headers"] = headers_form
    told = [(f"{_PREFIX}{name}", str(one).encode(errors="replace")) for name, one in about.items()]
    rule = rule_of(error)
    if rule is not None:
        told += [*rule.dead_letter_headers, ("__rule.topic", str(record.topic).encode(errors="replace"))]
    return list(told)


def _timestamp_of(record: ProducerRecord) -> int | str:
    timestamp: Any = record.timestamp_ms
    if isinstance(timestamp, int):
        return timestamp
    try:
        return int((time() if timestamp is None else timestamp.timestamp()) * 1000)
    except Exception:  # a wrong one
        return ""


def _original(data: object) -> object:
    """Data as the caller gave it, before a typed topic replaced it."""
    return data.original if isinstance(data, (Deferred, Failed)) else data


def _bytes_of(data: object, limit: int) -> tuple[bytes | None, str]:
    """Key or value as bytes, and the form: unchanged, as JSON, or left out."""
    data = _original(data)
    if data is None:
        return None, "none"
    try:
        if isinstance(data, (bytes, bytearray, memoryview)):
            written, form = bytes(data), "bytes"
        elif isinstance(data, str):
            written, form = data.encode(), "text"
        else:
            written, form = _json_of(data)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # from any object of the caller; the error that is already raised is about it
        return None, f"left out: a {type(data).__name__}"
    if len(written) > limit:
        return None, f"left out: {len(written)} bytes, at most {limit} are kept"
    return written, form


def _json_of(data: object) -> tuple[bytes, str]:
    """Data as JSON, and the name of that form. Raises for data that cannot be JSON."""
    problem: Exception = ValueError()
    for mode, form in _BYTES_IN_JSON:
        missing: dict[str, None] = {}

        def fields_of(one: object, missing: dict[str, None] = missing) -> object:
            found = _fields_of(one, is_whole=one is data)
            if found is None:
                if one is data:
                    raise TypeError("no data")
                found = f"a {type(one).__name__}"
                missing[found] = None
            return found

        try:
            written = to_json(data, bytes_mode=mode, inf_nan_mode="strings", fallback=fields_of)
        except Exception as error:
            problem = error
        else:
            return written, f"{form}, without {', '.join(missing)}" if missing else form
    raise problem


def _fields_of(one: object, *, is_whole: bool) -> Any:
    """The fields of an object that pydantic does not know as data; None if they are unknown."""
    kind: Any = type(one)
    if isinstance(one, memoryview):
        return bytes(one)
    if hasattr(kind, "DESCRIPTOR") and hasattr(kind, "SerializeToString"):
        # Typed as Any: there are no stubs if it is not installed. A message's class has imported it.
        json_format: Any = importlib.import_module("google.protobuf.json_format")
        return json_format.MessageToDict(one)
    if hasattr(kind, "__struct_fields__"):  # a struct of msgspec
        config, names = kind.__struct_config__, zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
        tag = {} if config.tag is None else {config.tag_field: config.tag}
        return {**tag, **{name: getattr(one, field) for name, field in names}}
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(one, field.name) for field in kind.__attrs_attrs__}
    if not is_whole or callable(one):
        return None
    return {name: value for name, value in vars(one).items() if not name.startswith("_")} or None


def _own_headers(headers: HeadersLike | None, limit: int) -> tuple[list[tuple[str, bytes | None]], str]:
    """The record's own headers, or none and the reason: they are too large, or not headers."""
    if headers is None:
        return [], ""
    try:
        # By way of a view: bytes(5) is five zeros.
        pairs = [(name, None if one is None else bytes(memoryview(one))) for name, one in header_pairs(headers)]
        size = _size_of(pairs)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a wrong header may be why the record was refused
        return [], "left out"
    return (pairs, "") if size <= limit else ([], "left out")


def _size_of(headers: list[tuple[str, bytes | None]]) -> int:
    return sum(len(name.encode()) + len(one or b"") for name, one in headers)


def _message(error: BaseException) -> str:
    """The error's text without the text of a caller's code."""
    text = text_without_data(error)
    return text if len(text) <= _MESSAGE_CHARACTERS else f"{text[:_MESSAGE_CHARACTERS]}..."
