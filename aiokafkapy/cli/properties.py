"""Java's properties files, as Kafka's clients and tools are configured by them: text in, names and values out.

Owns the grammar; knows nothing of the names' meaning. The counterpart is ``java.util.Properties.load``: ``=``, ``:`` or
white space ends a name, ``#`` and ``!`` begin a comment, a backslash at a line's end joins the next line, and in a line
it begins an escape, so that Windows' paths and passwords have it twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["parse_properties"]

_BLANKS: Final = " \t\f"
_NAME: Final = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The names and values of a properties file; the last of a name counts.

    Raises ValueError for ``\\u`` without four digits, with the line's number but not its text: it may be a password.
    """
    properties = {}
    for number, line in _logical_lines(text):
        name = _NAME.match(line)
        assert name is not None  # it matches nothing, too
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None
        properties[_unescaped(name[0], number)] = _unescaped(line[separator.end() :], number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are no comments and not blank, joined where they go on, with the number of their first."""
    begun, held = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANKS)
        if not begun and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        ends_in = len(line) - len(line.rstrip("\\"))
        held += line[:-1] if ends_in % 2 else line
        if not ends_in % 2:
            yield begun, held
            begun, held = 0, ""
    if held:
        yield begun, held


def _unescaped(text: str, number: int) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        if code == "u":
            raise ValueError(f"line {number}: \\u needs four hexadecimal digits; a backslash itself is written twice")
        if code.startswith("u"):
            return chr(int(code[1:], 16))
        return _CONTROLS.get(code, code)

    # Two \u escapes may be the halves of one character.
    return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
