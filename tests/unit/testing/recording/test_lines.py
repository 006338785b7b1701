from __future__ import annotations

from collections.abc import Callable

import pytest

from aiokafkapy.testing.recording.lines import Line, RecordingError, header_of


def line(text: str) -> Line:
    return Line("it.jsonl", 7, text.encode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[1]", "it is not a JSON object, but [1]"),
        ("[" * 100_000, "it is not JSON"),
        ('{"a": 1' + "0" * 5_000 + "}", "it is not JSON"),
    ],
)
def test_a_line_that_is_not_an_object_is_an_error_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(RecordingError, match=r"^it\.jsonl, line 7: ") as caught:
        line(text)
    assert reason in str(caught.value)
    assert (caught.value.path, caught.value.line) == ("it.jsonl", 7)


def test_bytes_that_are_not_text_are_an_error() -> None:
    with pytest.raises(RecordingError, match="not JSON"):
        Line("it.jsonl", 1, b'{"a": "\xff"}')


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (lambda it: it.integer("a", 1, 9), "{}", "'a' is missing: expected a whole number from 1 to 9"),
        (lambda it: it.integer("a", 1, 9), '{"a": 10}', "a is 10: expected a whole number from 1 to 9"),
        (lambda it: it.integer("a", 0), '{"a": true}', "a is true"),
        (lambda it: it.integer("a", 0), '{"a": 1.0}', "a is 1.0"),
        (lambda it: it.optional_integer("a", 0), '{"a": "1"}', 'a is "1"'),
        (lambda it: it.text("a"), '{"a": 1}', "expected a text"),
        (lambda it: it.word("a", ("b", "c")), '{"a": "d"}', "expected one of b, c"),
        (lambda it: it.word("a", ("b", "c")), '{"a": []}', "expected one of b, c"),
        (lambda it: it.flag("a", default=False), '{"a": 0}', "expected true or false"),
        (lambda it: it.seconds("a"), '{"a": NaN}', "expected a number of seconds"),
        (lambda it: it.seconds("a"), '{"a": -1}', "expected a number of seconds"),
        (lambda it: it.seconds("a"), '{"a": 1' + "0" * 400 + "}", "expected a number of seconds"),
        (lambda it: it.address("a"), '{"a": "host:0"}', "port 0 of 'host:0'"),
        (lambda it: it.addresses("a"), '{"a": []}', "expected a list of host:port"),
        (lambda it: it.addresses("a"), '{"a": [1]}', "a: "),
        (lambda it: it.wire("a"), '{"a": "AA="}', "a is not base64"),
        (lambda it: it.wire("a"), '{"a": "ä"}', "a is not base64"),
    ],
)
def test_a_field_that_is_not_as_it_should_be_is_named(read: Callable[[Line], object], text: str, reason: str) -> None:
    with pytest.raises(RecordingError) as caught:
        read(line(text))
    assert reason in str(caught.value)


def test_a_long_value_is_cut_in_the_error() -> None:
    with pytest.raises(RecordingError) as caught:
        line('{"a": "' + "x" * 5_000 + '"}').integer("a", 0)
    assert len(str(caught.value)) < 250


def test_fields_are_read_by_their_types() -> None:
    it = line('{"i": 3, "n": null, "t": "x", "f": true, "s": 1.5, "a": "[::1]:1", "l": ["a:1", "b:2"], "w": "AAEC"}')
    assert (it.integer("i", 0), it.optional_integer("n", 0), it.text("t"), it.flag("f", default=False)) == (
        3,
        None,
        "x",
        True,
    )
    assert (it.flag("none", default=True), it.seconds("s"), it.address("a")) == (True, 1.5, ("::1", 1))
    assert (it.addresses("l"), it.wire("w")) == ([("a", 1), ("b", 2)], b"\0\1\2")


def test_the_first_line_tells_the_format_the_servers_and_whether_payloads_are_hashed() -> None:
    first = '{"recording": 1, "bootstrap_servers": ["a:1"], "payloads": "hashed", "more": 1}'
    assert header_of(line(first)) == ([("a", 1)], True)
    assert header_of(line(first.replace("hashed", "kept"))) == ([("a", 1)], False)


def test_a_recording_of_a_later_format_is_refused_by_its_number() -> None:
    with pytest.raises(RecordingError, match="the format is version 2: this aiokafkapy reads version 1"):
        header_of(line('{"recording": 2}'))
    with pytest.raises(RecordingError, match="it is not a recording"):
        header_of(line('{"time": 1}'))
