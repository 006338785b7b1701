"""The filter of records: words that must all occur, each in a place. Pure.

Owns the little language of the page's filter field and its errors: ``paid key:ann header:trace partition:3 -test``. A
word without a place is looked for in key, value and headers; ``-`` before it means that it must not occur; quotes keep
spaces in one word.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .decoding import RecordView

__all__ = ["RecordFilter"]

LONGEST: Final = 1_000
MOST_WORDS: Final = 20
_PLACES: Final = ("key", "value", "header", "partition", "offset", "text")


@dataclass(frozen=True, slots=True)
class _Word:
    place: str
    text: str
    is_negative: bool

    def fits(self, record: RecordView) -> bool:
        return _FITS[self.place](record, self.text) is not self.is_negative


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """All words have to match; without words every record matches. Case does not count."""

    words: tuple[_Word, ...] = ()

    @classmethod
    def of(cls, text: str) -> RecordFilter:
        """Parse the typed text. ValueError with the reason."""
        if len(text) > LONGEST:
            raise ValueError(f"the filter has {len(text)} characters: at most {LONGEST} are read")
        lexer = shlex.shlex(text, posix=True, punctuation_chars="")
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            parts = list(lexer)
        except ValueError:
            raise ValueError("the filter has a quote that is not closed") from None
        if len(parts) > MOST_WORDS:
            raise ValueError(f"the filter has {len(parts)} words: at most {MOST_WORDS} are looked for")
        return cls(tuple(_word(part) for part in parts))

    def __bool__(self) -> bool:
        return bool(self.words)

    def fits(self, record: RecordView) -> bool:
        """True if a record matches. The record must be uncut."""
        return all(word.fits(record) for word in self.words)


# internals


def _word(part: str) -> _Word:
    is_negative = part.startswith("-") and len(part) > 1
    if is_negative:
        part = part[1:]
    place, colon, text = part.partition(":")
    if not colon or place.lower() not in _PLACES:
        place, text = "text", part
    place = place.lower()
    if place in ("partition", "offset") and not text.isdigit():
        raise ValueError(f"{part!r}: a number comes after {place}:")
    return _Word(place, text.casefold(), is_negative)


def _in_headers(record: RecordView, text: str) -> bool:
    name, equals, value = text.partition("=")
    if equals:
        return any(name == key.casefold() and value in shown.text.casefold() for key, shown in record.headers)
    return any(text in key.casefold() or text in shown.text.casefold() for key, shown in record.headers)


_FITS: Final[dict[str, Callable[[RecordView, str], bool]]] = {
    "key": lambda record, text: text in record.key.text.casefold(),
    "value": lambda record, text: text in record.value.text.casefold(),
    "header": _in_headers,
    "partition": lambda record, text: record.partition == int(text),
    "offset": lambda record, text: record.offset == int(text),
    "text": lambda record, text: (
        text in record.key.text.casefold() or text in record.value.text.casefold() or _in_headers(record, text)
    ),
}
