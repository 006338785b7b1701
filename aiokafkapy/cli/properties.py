"""Java's properties files, which configure Kafka's clients and tools, and options in the same form.

Owns the grammar, and the reading of ``--config``, whose files are its only I/O; does not know the meaning of names.
The counterpart is ``java.util.Properties.load``: ``=``, ``:`` or white space ends a name, ``#`` and ``!`` begin a
comment, a backslash at a line's end joins the next line, and elsewhere it begins an escape, so that Windows paths and
passwords must double it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from .declared_options import bad_parameter

__all__ = ["parse_config", "parse_pairs", "parse_properties"]

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
        assert name is not None  # it also matches the empty string
        separator = _SEPARATOR.match(line, name.end())
        assert separator is not None
        properties[_unescaped(name[0], number)] = _unescaped(line[separator.end() :], number)
    return properties


def parse_config(entries: Sequence[str] | None) -> Mapping[str, str]:
    """The properties of ``--config``, from KEY=VALUE and @FILE entries; the last one of each name counts."""
    properties: dict[str, str] = {}
    for entry in entries or ():
        if entry.startswith("@"):
            properties |= _read_properties(entry[1:])
        else:
            properties |= parse_pairs([entry], "--config")
    return properties


def parse_pairs(entries: Sequence[str] | None, option: str) -> Mapping[str, str]:
    """NAME=VALUE entries of an option as a mapping; the last one of each name counts."""
    pairs = {}
    for entry in entries or ():
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise bad_parameter(f"{entry!r} is not NAME=VALUE", option)
        pairs[name.strip()] = value
    return pairs


def _read_properties(file: str) -> Mapping[str, str]:
    try:
        return parse_properties(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except ValueError as error:
        reason = str(error)
    raise bad_parameter(f"{file}: {reason}", "--config")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, joined with their continuations, with the number of the first."""
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
