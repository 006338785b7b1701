"""A regular expression of topic names, as a member of a consumer group subscribes to it (KIP-848).

Owns the syntax and the matching, against whole names and nothing else; knows no topic and no group. Kafka's counterpart
is RE2/J, whose syntax this is. Python's own ``re`` will not do: it accepts syntax that RE2 refuses (back references,
look-around), and its time has no bound.

Rules:

- matching takes time in proportion to the length of the name and of the expression, for any expression;
- an expression that RE2 refuses is InvalidRegularExpressionError when it is made, with the part that is wrong;
- topic names have 65 different characters, so a class of characters is a set of these.

Of RE2's names of scripts only Latin and Common are known.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ...common import TOPIC_NAME_CHARACTERS
from ...errors import InvalidRegularExpressionError

__all__ = ["TopicPattern"]

MAX_REPEAT: Final = 1_000
"""RE2's limit of {n}, also of those within each other."""

MAX_SIZE: Final = 2_000
"""Steps of an expression; RE2/J has no such limit, but a broker of tests has one event loop."""

MAX_DEPTH: Final = 100
"""Groups in groups."""

ALL: Final = TOPIC_NAME_CHARACTERS
DIGITS: Final = ALL & set(string.digits)
WORD: Final = ALL & set(string.ascii_letters + string.digits + "_")
NONE: Final[frozenset[str]] = frozenset()
PERL_CLASSES: Final = {"d": DIGITS, "D": ALL - DIGITS, "w": WORD, "W": ALL - WORD, "s": NONE, "S": ALL}
POSIX_CLASSES: Final = {
    "alnum": ALL & set(string.ascii_letters + string.digits),
    "alpha": ALL & set(string.ascii_letters),
    "ascii": ALL,
    "blank": NONE,
    "cntrl": NONE,
    "digit": DIGITS,
    "graph": ALL,
    "lower": ALL & set(string.ascii_lowercase),
    "print": ALL,
    "punct": ALL & set(string.punctuation),
    "space": NONE,
    "upper": ALL & set(string.ascii_uppercase),
    "word": WORD,
    "xdigit": ALL & set(string.hexdigits),
}
CATEGORIES: Final = frozenset(
    f"{major}{minor}"
    for major, minors in {
        "C": "cfos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for minor in ["", *minors]
)
OCTAL: Final = frozenset("01234567")
CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
ASSERTIONS: Final = {"^": "start", "$": "end", "\\A": "start", "\\z": "end", "\\b": "boundary", "\\B": "no boundary"}


class TopicPattern:
    """``TopicPattern("orders-.*").matches("orders-eu")``."""

    __slots__ = ("_program", "text")

    def __init__(self, text: str) -> None:
        """Raises InvalidRegularExpressionError."""
        self.text = text
        self._program = _Parser(text).program()

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name."""
        states = self._reachable([0], name, 0)
        for position, character in enumerate(name):
            advanced = [
                step.first
                for step in map(self._program.__getitem__, states)
                if step.characters is not None and character in step.characters
            ]
            states = self._reachable(advanced, name, position + 1)
            if not states:
                return False
        return len(self._program) - 1 in states

    def _reachable(self, states: Iterable[int], name: str, position: int) -> list[int]:
        """These states, and the states that they reach without a character."""
        found: dict[int, None] = {}
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in found:
                continue
            found[state] = None
            step = self._program[state]
            if step.characters is not None or (step.assertion and not _holds(step.assertion, name, position)):
                continue
            waiting += [following for following in (step.first, step.second) if following >= 0]
        return list(found)


class _Step(NamedTuple):
    """One step: a character of a set, or a choice of two ways without one, the first under a condition. -1: no way."""

    first: int = -1
    second: int = -1
    characters: frozenset[str] | None = None
    assertion: str = ""


# A part of an expression writes its steps at the end of a program, and leads to the step after them.
_Part = Callable[[list[_Step]], None]


def _holds(assertion: str, name: str, position: int) -> bool:
    if assertion == "start":
        return position == 0
    if assertion == "end":
        return position == len(name)
    before = position > 0 and name[position - 1] in WORD
    after = position < len(name) and name[position] in WORD
    return (before != after) == (assertion == "boundary")


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self.ignores_case = False

    def program(self) -> list[_Step]:
        """The steps; the last one is the end."""
        part, _ = self._alternatives()  # stops at the end, or at a ) that closes nothing
        if self.position < len(self.text):
            raise self._error("unexpected )", ")")
        steps: list[_Step] = []
        part(steps)
        steps.append(_Step())
        return steps

    # the grammar: each part, and the number of repetitions within it

    def _alternatives(self) -> tuple[_Part, int]:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return _any_of([part for part, _ in branches]), max(repeats for _, repeats in branches)

    def _sequence(self) -> tuple[_Part, int]:
        parts: list[_Part] = []
        repeats = 1
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            if self._take("\\Q"):
                quoted, _, _ = self.text[self.position :].partition("\\E")
                self.position += len(quoted) + 2
                if not quoted:
                    continue
                parts += [_one_of(self._literal(each)) for each in quoted]
                part, within = self._repeated(parts.pop(), 1)
            else:
                part, within = self._repeated(*self._atom())
            parts.append(part)
            repeats = max(repeats, within)
        return _one_after_another(parts), repeats

    def _repeated(self, part: _Part, repeats: int) -> tuple[_Part, int]:
        start = self.position
        low, high = self._count()
        if low < 0:
            return part, repeats
        self._take("?")  # whether it is greedy does not matter to a whole match
        end = self.position
        if self._count()[0] >= 0:
            raise self._error("invalid nested repetition operator", self.text[start : self.position])
        self.position = end
        repeats *= max(low, high, 1)
        if repeats > MAX_REPEAT:
            raise self._error("bad repetition operator", self.text[start:end])
        return _times(part, low, high), repeats

    def _count(self) -> tuple[int, int]:
        """The least and most repetitions of a part, (-1, -1) when no count is written; a most of -1 is any number."""
        for operator, low, high in (("*", 0, -1), ("+", 1, -1), ("?", 0, 1)):
            if self._take(operator):
                return low, high
        end = self.text.find("}", self.position) if self.text.startswith("{", self.position) else -1
        if end < 0:
            return -1, -1
        first, comma, last = self.text[self.position + 1 : end].partition(",")
        if not _is_number(first) or (last and not _is_number(last)):
            return -1, -1  # a brace like any other character
        low = int(first)
        high = low if not comma else int(last) if last else -1
        if low > MAX_REPEAT or high > MAX_REPEAT or (0 <= high < low):
            raise self._error("bad repetition operator", self.text[self.position : end + 1])
        self.position = end + 1
        return low, high

    def _atom(self) -> tuple[_Part, int]:
        if self._take("("):
            return self._group()
        if self._take("["):
            return _one_of(self._class()), 1
        for text, assertion in ASSERTIONS.items():
            if self._take(text):
                return _where(assertion), 1
        if self._count()[0] >= 0:
            raise self._error("missing argument to repetition operator", self.text[: self.position])
        if self._take("."):
            return _one_of(ALL), 1
        if self._take("\\"):
            return _one_of(self._escape()), 1
        self.position += 1
        return _one_of(self._literal(self.text[self.position - 1])), 1

    def _group(self) -> tuple[_Part, int]:
        start = self.position - 1
        outer_case = self.ignores_case
        if self._take("?P<") or self._take("?<"):
            end = self.text.find(">", self.position)
            name = self.text[self.position : max(end, self.position)]
            if not name or not WORD.issuperset(name):
                raise self._error("invalid named capture", self.text[start : end + 1 or None])
            self.position = end + 1
        elif self._take("?") and self._flags(start):
            return _one_after_another(()), 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error("expression nests too deeply", self.text[start:])
        found = self._alternatives()
        self.depth -= 1
        self.ignores_case = outer_case
        if not self._take(")"):
            raise self._error("missing closing )", self.text[start:])
        return found

    def _flags(self, start: int) -> bool:
        """Read ``i``, ``-s`` and so on; whether that was the whole group, and they hold to the end of the outer one."""
        is_on = True
        while self.position < len(self.text):
            flag = self.text[self.position]
            self.position += 1
            if flag == "i":
                self.ignores_case = is_on
            elif flag == "-" and is_on:
                is_on = False
            elif flag in ":)":
                return flag == ")"
            elif flag not in "msU":
                break
        raise self._error("invalid or unsupported Perl syntax", self.text[start : self.position])

    # sets of characters

    def _literal(self, character: str) -> frozenset[str]:
        return self._cased(frozenset(character))

    def _cased(self, characters: frozenset[str]) -> frozenset[str]:
        if self.ignores_case:
            characters = frozenset(each for some in characters for each in (some.lower(), some.upper()))
        return characters & ALL

    def _escape(self) -> frozenset[str]:
        """The set behind a backslash."""
        start = self.position - 1
        if self.position == len(self.text):
            raise self._error("trailing backslash at end of expression", "")
        character = self.text[self.position]
        self.position += 1
        if character in PERL_CLASSES:
            return PERL_CLASSES[character]
        if character in ("p", "P"):
            return self._unicode_class(start, is_negated=character == "P")
        self.position = start + 1
        return self._literal(self._escaped())

    def _escaped(self) -> str:
        """The one character behind a backslash."""
        start = self.position - 1
        character = self.text[self.position : self.position + 1]
        self.position += 1
        if character in CONTROLS:
            return CONTROLS[character]
        if character == "x":
            return self._hexadecimal(start)
        if character in OCTAL:
            digits = character
            while len(digits) < 3 and self.text[self.position : self.position + 1] in OCTAL:
                digits += self.text[self.position]
                self.position += 1
            if character == "0" or len(digits) > 1:  # \1 alone would be a back reference, which RE2 does not have
                return chr(int(digits, 8))
        if character and character.isascii() and not character.isalnum():
            return character
        raise self._error("invalid escape sequence", self.text[start : self.position])

    def _hexadecimal(self, start: int) -> str:
        end = self.position + 2
        digits = self.text[self.position : end]
        if self._take("{"):
            end = self.text.find("}", self.position) + 1
            digits = self.text[self.position : max(end - 1, self.position)]
            if len(digits) > 6:
                digits = ""
        elif len(digits) < 2:
            digits = ""
        if not digits or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise self._error("invalid escape sequence", self.text[start : self.position + 2])
        self.position = end
        return chr(int(digits, 16))

    def _unicode_class(self, start: int, *, is_negated: bool) -> frozenset[str]:
        name = self.text[self.position : self.position + 1]
        self.position += 1
        if name == "{":
            end = self.text.find("}", self.position)
            name = self.text[self.position : max(end, self.position)]
            self.position = end + 1 if end >= 0 else len(self.text)
        if name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        letters = POSIX_CLASSES["alpha"]
        if name in CATEGORIES:
            found = frozenset(each for each in ALL if unicodedata.category(each).startswith(name))
        elif name in ("Any", "Latin", "Common"):
            found = {"Any": ALL, "Latin": letters, "Common": ALL - letters}[name]
        else:
            raise self._error("invalid character class range", self.text[start : self.position])
        found = self._cased(found)
        return ALL - found if is_negated else found

    def _class(self) -> frozenset[str]:
        start = self.position - 1
        is_negated = self._take("^")
        found: set[str] = set()
        is_first = True
        while is_first or not self._take("]"):
            if self.position >= len(self.text):
                raise self._error("missing closing ]", self.text[start:])
            is_first = False
            if self.text.startswith("[:", self.position) and ":]" in self.text[self.position :]:
                found |= self._posix_class()
            elif self.text[self.position] == "\\" and self.text[self.position + 1 : self.position + 2] in set(
                "dDwWsSpP"
            ):
                self.position += 1
                found |= self._escape()
            else:
                found |= self._range()
        return ALL - found if is_negated else frozenset(found)

    def _posix_class(self) -> frozenset[str]:
        end = self.text.index(":]", self.position)
        name = self.text[self.position + 2 : end]
        is_negated = name.startswith("^")
        found = POSIX_CLASSES.get(name.removeprefix("^"))
        if found is None:
            raise self._error("invalid character class range", self.text[self.position : end + 2])
        self.position = end + 2
        found = self._cased(found)
        return ALL - found if is_negated else found

    def _range(self) -> frozenset[str]:
        start = self.position
        low = high = self._of_class()
        following = self.text[self.position : self.position + 2]
        if following.startswith("-") and following not in ("-", "-]"):
            self.position += 1
            high = self._of_class()
            if high < low:
                raise self._error("invalid character class range", self.text[start : self.position])
        return self._cased(frozenset(each for each in {low} | ALL if low <= each <= high))

    def _of_class(self) -> str:
        if self._take("\\"):
            return self._escaped()
        self.position += 1
        return self.text[self.position - 1]

    # internals

    def _take(self, text: str) -> bool:
        if not self.text.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _error(self, problem: str, part: str) -> InvalidRegularExpressionError:
        return InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{self.text}` is not a valid regular expression: {problem}: `{part}`."
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


# parts


def _write(steps: list[_Step], step: _Step) -> int:
    if len(steps) >= MAX_SIZE:
        raise InvalidRegularExpressionError(f"SubscribedTopicRegex has more than {MAX_SIZE} steps.")
    steps.append(step)
    return len(steps) - 1


def _one_of(characters: frozenset[str]) -> _Part:
    def write(steps: list[_Step]) -> None:
        _write(steps, _Step(len(steps) + 1, characters=characters))

    return write


def _where(assertion: str) -> _Part:
    def write(steps: list[_Step]) -> None:
        _write(steps, _Step(len(steps) + 1, assertion=assertion))

    return write


def _one_after_another(parts: Iterable[_Part]) -> _Part:
    def write(steps: list[_Step]) -> None:
        for part in parts:
            part(steps)

    return write


def _any_of(parts: Sequence[_Part]) -> _Part:
    def write(steps: list[_Step]) -> None:
        leaves = []
        for part in parts[:-1]:
            choice = _write(steps, _Step())
            part(steps)
            leaves.append(_write(steps, _Step()))
            steps[choice] = _Step(choice + 1, len(steps))
        parts[-1](steps)
        for leave in leaves:
            steps[leave] = _Step(len(steps))

    return write


def _times(part: _Part, low: int, high: int) -> _Part:
    def write(steps: list[_Step]) -> None:
        for _ in range(low):
            part(steps)
        if high < 0:
            choice = _write(steps, _Step())
            part(steps)
            _write(steps, _Step(choice))
            steps[choice] = _Step(choice + 1, len(steps))
            return
        choices = []
        for _ in range(high - low):
            choices.append(_write(steps, _Step()))
            part(steps)
        for choice in choices:
            steps[choice] = _Step(choice + 1, len(steps))

    return write
