"""SASLprep: names and passwords in the one form that both sides hash (RFC 4013, over RFC 3454's stringprep).

Knows no mechanism. Java's Kafka has no counterpart: its ``ScramFormatter.normalize`` is UTF-8 only, which is the same
for every password that is ASCII or composed text.
"""

from __future__ import annotations

import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final

__all__ = ["saslprep"]

_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str) -> str:
    """Return the prepared form; raises ValueError, which does not show the text, for characters that RFC 4013
    prohibits.

    Characters that Unicode 3.2 did not know are left as they are, as in a query (RFC 3454, section 7): new emoji are
    no reason to refuse a password.
    """
    if text.isascii() and text.isprintable():
        return text  # nothing to map, nothing prohibited
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(is_prohibited(character) for character in prepared for is_prohibited in _PROHIBITED):
        raise ValueError("the text has a character that SASLprep prohibits")
    _check_direction(prepared)
    return prepared


def _check_direction(text: str) -> None:
    """RFC 3454, section 6: text from right to left has no letter of the other direction, and its own at both ends."""
    if not any(map(stringprep.in_table_d1, text)):
        return
    if any(map(stringprep.in_table_d2, text)):
        raise ValueError("the text mixes directions of writing")
    if not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])):
        raise ValueError("text from right to left begins or ends with another character")
