"""Expressions of topic names: RE2's syntax, matched against the whole name in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.coordination.topic_pattern import TopicPattern
from aiokafkapy.errors import InvalidRegularExpressionError


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("orders-.*", ["orders-", "orders-eu"], ["orders", "my-orders-eu"]),
        ("^orders|bills$", ["orders", "bills"], ["orders-eu"]),
        ("(?i)Orders", ["ORDERS"], ["order"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(?i)(a(?-i)b)c", ["AbC"], ["aBc"]),
        ("[^a-c_]{2,3}", ["xy", "xyz"], ["x", "ax", "wxyz"]),
        (r"[\d\-]+[[:alpha:]][[:^upper:]]", ["4-2Ab"], ["4AB"]),
        (r"\Qa.b\E+\.", ["a.b.", "a.bb."], ["aab."]),
        (r"\pL\PL\p{Nd}\p{^Lu}", ["a_1b"], ["a_1B"]),
        (r"\x61\x{62}\141\056", ["aba."], ["abab"]),
        (r"a\b-\Bb", [], ["a-b"]),
        (r"\Aa\b-b\z", ["a-b"], ["ab"]),
        ("(?P<name>a)(?:b)(?<other>c)", ["abc"], ["ab"]),
        ("a{2}b{1,}c{0,1}d{x}", [], ["aabd"]),
        ("[]a]", ["a"], ["b"]),
        ("a??b*?c+?", ["c", "abbcc"], ["ab"]),
        ("()*|", [], ["a"]),
    ],
)
def test_an_expression_stands_for_whole_names(text: str, matching: list[str], others: list[str]) -> None:
    pattern = TopicPattern(text)
    assert [name for name in [*matching, *others] if pattern.matches(name)] == matching


@pytest.mark.parametrize(
    "text",
    [
        *["(?=a)", "(?!a)", "(?<=a)", "(?#a)", "(?P=a)", "(?P<>a)", "(?x)a", "(?i"],
        *[r"(a)\1", r"\k<a>", r"\y", r"\Z", "a\\", r"\xg", r"\x1", r"\x{110000}", r"\x{}", r"\pX", r"\p{Lx}", r"\p{L"],
        *["*", "a|+", "a**", "a+*", "a*??", "a{3}{2}", "a{1001}", "a{2,1}", "(a{100}){100}", "((((a{20}){20})){20})"],
        *["(a", "a)", "[a", "[z-a]", "[[:nope:]]", "[a-\\d]", "(" * 101 + ")" * 101, "((.{100}){10}){1}|(.{100}){10}"],
        "(" * 30_000,
    ],
)
def test_syntax_that_re2_refuses_is_refused(text: str) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        TopicPattern(text)


def test_an_expression_that_would_take_for_ever_elsewhere_takes_no_time() -> None:
    assert not TopicPattern("(a+)+(a|a)*").matches("a" * 248 + "-")


def test_many_alternatives_cause_no_deep_recursion() -> None:
    assert TopicPattern("|".join(["a", *("b" for _ in range(600))])).matches("a")


ATOMS = st.sampled_from(["a", "b", "-", r"\.", ".", "[ab]", "[^a]", r"\w", r"\W", "[a-c-]", r"\b", "^", "$", "(?i:A)"])
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.lists(st.text("abAB-._1", min_size=1, max_size=6), min_size=5, max_size=20))
def test_a_pattern_agrees_with_python(text: str, names: list[str]) -> None:
    found = [name for name in names if TopicPattern(text).matches(name)]
    assert found == [name for name in names if re.fullmatch(text, name)]
