"""RFC 4013's own examples, and its tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.security.sasl.saslprep import saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        # RFC 4013, section 3
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        # Others
        ("pa\u00a0ss", "pa ss"),
        ("a\u0308", "\u00e4"),
        ("\u0627\u0628\u0627", "\u0627\u0628\u0627"),
        ("\U0001f600", "\U0001f600"),  # not in Unicode 3.2
        ("", ""),
    ],
)
def test_text_is_mapped_and_composed(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize("text", ["\u0007", "\u0627\u0031", "\u0627a\u0627", "\ue000", "\ud800", "\u200e", "\u06dd"])
def test_prohibited_characters_are_refused_without_showing_them(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        saslprep("secret" + text if text[0] != "\u0627" else text)
    assert "secret" not in str(caught.value)


@given(st.text())
def test_a_prepared_text_is_prepared(text: str) -> None:
    try:
        prepared = saslprep(text)
    except ValueError:
        return
    assert saslprep(prepared) == prepared


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_printable_ascii_stays_as_it_is(text: str) -> None:
    assert saslprep(text) == text
