"""The lines of a recording: one JSON object each; the first says how to read the others.

Owns the names of fields and the check of each line; ``recording`` checks that the lines fit together. Knows no file.

==========  ==========================================================================================
first line  ``recording`` (the version of the format, 1), ``by``, ``began``, ``bootstrap_servers``,
            ``payloads`` (``kept`` or ``hashed``)
each other  ``at`` (seconds since the start), ``event``, and, except for ``ended``, ``connection`` (from 1)
connected   ``address`` and ``node`` (null before an answer has named it)
request     ``request`` (from 1, in its connection), ``node``, ``api``, ``api_key``, ``version``,
            ``correlation_id``, ``client_id``, ``size``, ``body`` (for readers), ``wire`` (the bytes, with
            their size, in base64), and ``hidden`` when bytes of it are not those that were sent
answer      the same without the client id; ``request`` is the one that it answers, or null
closed      ``by`` (``client`` or ``cluster``) and ``reset``
ended       ``reason``
==========  ==========================================================================================

Rules: ``wire`` counts, ``body`` is for people and never read back. Unknown names are ignored, so that later versions
may add some. An invalid line raises RecordingError with file and line.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final

from ...common import JsonObject, parse_address

__all__ = ["EVENTS", "FORMAT", "Line", "RecordingError", "header_of"]

FORMAT: Final = 1
EVENTS: Final = ("connected", "request", "answer", "closed", "ended")
MOST_SECONDS: Final = 1e9
_MOST_SHOWN: Final = 80


class RecordingError(ValueError):
    """A recording that cannot be read: ``path``, ``line`` (from 1), and the reason."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        super().__init__(f"{path}, line {line}: {reason}")
        self.path = path
        self.line = line


class Line:
    """One line, and its fields by their types; a missing field, or one of another type, raises RecordingError."""

    __slots__ = ("_fields", "number", "path")

    def __init__(self, path: str, number: int, text: bytes) -> None:
        self.path = path
        self.number = number
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:  # bytes that are not UTF-8 are a ValueError, too
            reason = "too deep" if isinstance(error, RecursionError) else str(error)
            raise self.error(f"it is not JSON: {reason}") from None
        if not isinstance(fields, dict):
            raise self.error(f"it is not a JSON object, but {_shown(fields)}")
        self._fields: JsonObject = fields

    def error(self, reason: str) -> RecordingError:
        """An error of this line."""
        return RecordingError(self.path, self.number, reason)

    def has(self, name: str) -> bool:
        """True if the line has this field."""
        return name in self._fields

    def integer(self, name: str, low: int, high: int = 2**31 - 1) -> int:
        """A whole number from ``low`` to ``high``."""
        wanted = f"a whole number from {low} to {high}"
        return int(self._checked(name, wanted, lambda value: type(value) is int and low <= value <= high))

    def optional_integer(self, name: str, low: int) -> int | None:
        """A whole number, or None for null."""
        return None if self._fields.get(name) is None else self.integer(name, low)

    def text(self, name: str) -> str:
        """A text."""
        return str(self._checked(name, "a text", lambda value: isinstance(value, str)))

    def word(self, name: str, words: tuple[str, ...]) -> str:
        """One of some words."""
        return str(self._checked(name, f"one of {', '.join(words)}", lambda value: value in words))

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        if name not in self._fields:
            return default
        return bool(self._checked(name, "true or false", lambda value: isinstance(value, bool)))

    def seconds(self, name: str) -> float:
        """A number of seconds, at least 0."""

        def fits(value: object) -> bool:
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MOST_SECONDS

        return float(self._checked(name, "a number of seconds", fits))

    def address(self, name: str) -> tuple[str, int]:
        """host:port."""
        return self._address(name, self.text(name))

    def addresses(self, name: str) -> list[tuple[str, int]]:
        """A list of host:port, not empty."""
        values = self._checked(name, "a list of host:port", lambda value: isinstance(value, list) and len(value) > 0)
        return [self._address(name, value) for value in values]

    def wire(self, name: str) -> bytes:
        """Bytes in base64."""
        try:
            return base64.b64decode(self.text(name), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.error(f"{name} is not base64: {error}") from None

    # internals

    def _checked(self, name: str, wanted: str, fits: Callable[[Any], bool]) -> Any:
        if name not in self._fields:
            raise self.error(f"{name!r} is missing: expected {wanted}")
        value = self._fields[name]
        try:
            is_right = fits(value)
        except TypeError:  # a list is not in a tuple of words
            is_right = False
        if not is_right:
            raise self.error(f"{name} is {_shown(value)}: expected {wanted}")
        return value

    def _address(self, name: str, value: object) -> tuple[str, int]:
        try:
            return parse_address(value)  # type: ignore[arg-type]
        except Exception as error:
            raise self.error(f"{name}: {error}") from None


def header_of(line: Line) -> tuple[list[tuple[str, int]], bool]:
    """The content of the first line: the bootstrap servers, and whether the payloads are hashed."""
    if not line.has("recording"):
        raise line.error("it is not a recording: the first line must have 'recording', the version of its format")
    version = line.integer("recording", 0)
    if version != FORMAT:
        raise line.error(f"the format is version {version}: this aiokafkapy reads version {FORMAT}")
    return line.addresses("bootstrap_servers"), line.word("payloads", ("kept", "hashed")) == "hashed"


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
