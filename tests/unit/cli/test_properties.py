"""Java's properties files, as ``java.util.Properties`` documents them."""

from __future__ import annotations

import pytest
import typer

from aiokafkapy.cli.properties import parse_pairs, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("Truth = Beauty\n Truth:Beauty\nTruth    \t:Beauty", {"Truth": "Beauty"}),
        ("fruits   apple, banana, \\\n    cantaloupe\\\n  , kiwi", {"fruits": "apple, banana, cantaloupe, kiwi"}),
        ("cheeses", {"cheeses": ""}),
        ("# a=b\n  ! c=d\n\n \t\ne=f #g", {"e": "f #g"}),
        ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
        ("a\\=b\\:c\\ d=e=f", {"a=b:c d": "e=f"}),
        ("path=C:\\\\kafka\\\\", {"path": "C:\\kafka\\"}),
        ("a=\\t\\n\\u00e9\\ud83d\\ude00\\q", {"a": "\t\né😀q"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b \\", {"a": "b "}),
        ("a=1\na=2", {"a": "2"}),
        ("=b", {"": "b"}),
    ],
)
def test_names_and_values(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


def test_a_broken_escape_is_named_by_its_line_and_not_shown() -> None:
    with pytest.raises(ValueError, match=r"^line 3: \\u needs four hexadecimal digits; .* twice$"):
        parse_properties("a=b\nc=\\\n d\nsasl.password=\\user".replace("c=\\\n d\n", "\n"))


def test_pairs_keep_everything_behind_the_first_equals_sign() -> None:
    assert parse_pairs(["a=b=c", " d =", "a=x"], "--config") == {"a": "x", "d": ""}
    assert parse_pairs(None, "--config") == {}
    for wrong in ("novalue", "=x"):
        with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
            parse_pairs([wrong], "--config")
