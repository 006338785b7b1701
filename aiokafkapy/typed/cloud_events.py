"""CloudEvents 1.0 over Kafka: the attributes of an event, beside the data or around it.

Owns the Kafka protocol binding's two content modes. Binary, the default: the value is the data, and each attribute a
header ``ce_…``. Structured: the value is a JSON object with attributes and data, ``application/cloudevents+json``.
Source: CloudEvents' "Kafka Protocol Binding", version 1.0, and its "JSON Event Format".

Rules: ``id``, ``source``, ``specversion`` and ``type`` are always present and never empty; names of attributes are
lower-case letters and digits; values are text without control characters; data that is not JSON is ``data_base64`` in
structured mode.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Generic, Literal, NoReturn, TypeVar
from uuid import uuid4

from ..common import JsonObject
from ..errors import ConfigurationError, SerializationError

__all__ = ["CloudEvents", "from_cloud_event"]

M = TypeVar("M")

_VERSION: Final = "1.0"
_STRUCTURED: Final = "application/cloudevents+json"
_NAME: Final = re.compile(r"[a-z0-9]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_OWN: Final = ("id", "source", "specversion", "type", "time", "subject", "dataschema", "datacontenttype", "data")


class CloudEvents(Generic[M]):
    """The form of a topic's records as CloudEvents.

    ``source`` is the sender's URI. ``type`` is text or a function of the value; without it, it is the name of the
    value's class. ``id`` is a new UUID unless a function gives one, ``time`` the time of the call; a function may give
    None for no time. ``extensions`` gives further attributes.
    """

    def __init__(
        self,
        source: str,
        *,
        type: str | Callable[[M], str] | None = None,  # noqa: A002
        mode: Literal["binary", "structured"] = "binary",
        id: Callable[[M], str] | None = None,  # noqa: A002
        subject: Callable[[M], str | None] | None = None,
        time: Callable[[M], datetime | None] | None = None,
        extensions: Callable[[M], Mapping[str, str | int | bool]] | None = None,
        dataschema: str | None = None,
        datacontenttype: str = "application/json",
    ) -> None:
        if mode not in ("binary", "structured"):
            raise ConfigurationError(f"mode={mode!r}: write 'binary' or 'structured'")
        for name, value in (("source", source), ("datacontenttype", datacontenttype)):
            if not isinstance(value, str) or not value or _CONTROL.search(value):
                raise ConfigurationError(f"{name}={value!r}: text is needed, without control characters")
        self.mode: Final = mode
        self._source = source
        self._type = type
        self._id = id
        self._subject = subject
        self._time = time
        self._extensions = extensions
        self._dataschema = dataschema
        self._datacontenttype = datacontenttype

    def attributes(self, value: M) -> dict[str, str | int | bool]:
        """The event's attributes. Raises SerializationError for an attribute that CloudEvents cannot have."""
        kind = self._type(value) if callable(self._type) else self._type
        found: dict[str, object] = {
            "specversion": _VERSION,
            "id": str(uuid4()) if self._id is None else self._id(value),
            "source": self._source,
            "type": kind if kind is not None else value.__class__.__name__,
            "subject": None if self._subject is None else self._subject(value),
            "time": _time_text(datetime.now(UTC) if self._time is None else self._time(value)),
            "dataschema": self._dataschema,
            "datacontenttype": self._datacontenttype,
        }
        for name, extension in ({} if self._extensions is None else self._extensions(value)).items():
            if name in _OWN or not _NAME.fullmatch(name):
                raise SerializationError(
                    f"{name!r} is not a name of an extension of CloudEvents: lower-case letters and digits, "
                    f"and none of {', '.join(_OWN)}"
                )
            found[name] = extension
        return {name: _checked(name, one) for name, one in found.items() if one is not None}

    def record_of(self, value: M, data: bytes) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
        """The record's value and headers for an event with ``data``."""
        attributes = self.attributes(value)
        if self.mode == "binary":
            content_type = _text(attributes.pop("datacontenttype"))
            named = tuple((f"ce_{name}", _text(one)) for name, one in attributes.items())
            return data, (("content-type", content_type), *named)
        written = json.dumps(attributes, ensure_ascii=False, separators=(",", ":")).encode()
        if _is_json(self._datacontenttype):
            member = b'"data":' + self._checked_json(data)
        else:
            member = b'"data_base64":"' + base64.b64encode(data) + b'"'
        return written[:-1] + b"," + member + b"}", (("content-type", f"{_STRUCTURED}; charset=UTF-8".encode()),)

    # internals

    def _checked_json(self, data: bytes) -> bytes:
        """The data unchanged, in UTF-8. Written anew, a number with many digits would change."""
        try:
            text = _text_of(data)
            json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_json)
        except (ValueError, RecursionError) as error:
            raise SerializationError(
                f"datacontenttype is {self._datacontenttype!r}, and the data is not JSON"
            ) from error
        return text.encode()


def from_cloud_event(
    value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> tuple[JsonObject, bytes] | None:
    """The attributes and the data of a record that is a CloudEvent, in either mode; None for another record. Without a
    value only a record in binary mode is an event, without data.

    Raises ValueError for a structured event that cannot be read.
    """
    pairs = {name.lower(): one for name, one in headers if one is not None}
    content_type = pairs.get("content-type", b"").decode(errors="replace")
    if content_type.lower().startswith(_STRUCTURED):
        return None if value is None else _structured(value)
    if "ce_specversion" not in pairs:
        return None
    attributes: JsonObject = {name[3:]: one.decode() for name, one in pairs.items() if name.startswith("ce_")}
    if content_type:
        attributes["datacontenttype"] = content_type
    return attributes, b"" if value is None else value


def _structured(value: bytes) -> tuple[JsonObject, bytes]:
    text = _text_of(value)
    try:
        event = json.loads(text)
        if not isinstance(event, dict) or not isinstance(event.get("data_base64", ""), str):
            raise ValueError("a structured CloudEvent is a JSON object, and its data_base64 text")
        written = _member(text, "data")
    except RecursionError:
        raise ValueError("a structured CloudEvent nests too deep") from None
    if "data_base64" in event:
        return event, base64.b64decode(event.pop("data_base64"), validate=True)
    data = event.pop("data", None)
    kind = event.get("datacontenttype")
    if isinstance(data, str) and isinstance(kind, str) and not _is_json(kind):
        return event, data.encode()  # text of another kind, as a JSON string
    return event, written.encode()


def _member(text: str, wanted: str) -> str:
    """A member's value in the text of a JSON object, unchanged; null without one. The text was read before.

    The value that was read may differ: a number with many digits would change.
    """
    read = json.JSONDecoder().raw_decode
    found = "null"
    place = text.index("{") + 1
    while text[(place := _behind_space(text, place))] != "}":
        name, place = read(text, place)
        start = _behind_space(text, text.index(":", place) + 1)
        _, place = read(text, start)
        if name == wanted:
            found = text[start:place]  # the last of several, as usual
        place = _behind_space(text, place)
        place += text[place] == ","
    return found


def _behind_space(text: str, place: int) -> int:
    while text[place] in " \t\n\r":
        place += 1
    return place


def _text_of(data: bytes) -> str:
    return bytes(data).decode(json.detect_encoding(data))


def _no_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _checked(name: str, value: object) -> str | int | bool:
    if isinstance(value, int) and (isinstance(value, bool) or -(2**31) <= value < 2**31):
        return value
    if isinstance(value, str) and value and not _CONTROL.search(value):
        return value
    shown = f"a {type(value).__name__}"
    if isinstance(value, str):
        shown = "text with control characters" if value else "empty"
    raise SerializationError(f"the attribute {name!r} of a CloudEvent is {shown}: text, a number of 32 bits, or a bool")


def _text(value: str | int | bool) -> bytes:
    """The text of an attribute's value in the binding's headers."""
    return (str(value).lower() if isinstance(value, bool) else str(value)).encode()


def _time_text(moment: datetime | None) -> str | None:
    """RFC 3339; a moment without a time zone is local time, as a record's timestamp is."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))
