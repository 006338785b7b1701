"""Words of every layer: addresses, back-off, nodes, names of topics."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from aiokafkapy.common import (
    ConsumedRecord,
    ExponentialBackoff,
    Node,
    TopicPartition,
    check_topic_name,
    format_address,
    integer_of,
    parse_address,
    parse_addresses,
    percentile,
    timeout_of,
)
from aiokafkapy.errors import ConfigurationError, InvalidTopicError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [("a", 1)]),
        ("a", [("a", 9092)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("a:1,a:1", [("a", 1)]),
        ("[::1]:9093,[fe80::1]", [("::1", 9093), ("fe80::1", 9092)]),
        (["a:1", "b:2,c:3"], [("a", 1), ("b", 2), ("c", 3)]),
    ],
)
def test_addresses_are_read_in_order_without_duplicates(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == expected


def test_ipv6_hosts_stand_in_brackets() -> None:
    assert format_address("::1", 1) == Node(1, "::1", 1).address == "[::1]:1"
    assert format_address("h", 1) == Node(1, "h", 1).address == "h:1"
    assert str(Node(1, "::1", 1)) == "[::1]:1 (id 1)"


@pytest.mark.parametrize(
    "text", ["", " , ", "a:b", "a:0", "a:65536", "http://a:1", "::1", "[::1", "[::1]x", ":9092", "a:-1", "a:²"]
)
def test_an_address_that_cannot_be_read_names_itself(text: str) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        parse_addresses(text)


def test_backoff_doubles_up_to_its_maximum() -> None:
    backoff = ExponentialBackoff(0.05, 1.0, jitter=0)
    assert [backoff.delay(n) for n in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert backoff.delay(10_000) == 1.0


@pytest.mark.parametrize(("maximum", "last"), [(0.01, 0.01), (0.0, 0.001)])
def test_a_backoff_of_zero_is_without_delay_for_the_first_attempt_only(maximum: float, last: float) -> None:
    backoff = ExponentialBackoff(0, maximum, jitter=0)
    assert [backoff.delay(n) for n in range(3)] == [0, 0.001, min(last, 0.002)]
    assert backoff.delay(10_000) == last


def test_backoff_is_spread_by_its_jitter_and_never_over_its_maximum() -> None:
    backoff = ExponentialBackoff(0.1, 1.0)
    first = [backoff.delay(0) for _ in range(500)]
    assert 0.08 <= min(first) < 0.09 < 0.11 < max(first) <= 0.12
    assert max(backoff.delay(50) for _ in range(500)) <= 1.0


def test_values_print_as_people_write_them() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert str(Node(1, "h", 9092)) == "h:9092 (id 1)"
    assert Node(-1, "", -1).is_empty
    assert ConsumedRecord(5, b"k", None).headers == ()


@pytest.mark.parametrize("name", ["a", "orders.eu-1_v2", "...", "0", "_", "a" * 249])
def test_a_name_of_kafkas_characters_is_a_topic(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "\ud800", "٣", "a\0", "a" * 250, None, b"orders", 3]
)
def test_any_other_name_is_refused_with_the_name_and_the_rule(name: Any) -> None:
    with pytest.raises(InvalidTopicError, match="name of a topic") as caught:
        check_topic_name(name)
    assert repr(name)[:20].rstrip("'") in str(caught.value)
    str(caught.value).encode()


def test_a_piece_and_the_length_of_a_long_name_are_shown() -> None:
    with pytest.raises(InvalidTopicError, match=r"\(40000 characters\).*1 to 249") as caught:
        check_topic_name("x" * 40_000)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        "kafka+sasl-ssl://alice:s3cret@broker:9093",
        "alice:s3cret@broker:9093",
        "alice:s3cret@broker",
        "alice:s3cret,s3@broker",
        "alice:s3,s3cret@s3@broker:1",
        "s3cret@broker",
        "h:1,alice:s3cret@broker/x?sasl.password=s3cret",
        "kafka://broker:9093/?sasl.password=s3cret",
    ],
)
@pytest.mark.parametrize("parse", [parse_address, parse_addresses])
def test_credentials_among_the_addresses_are_not_shown(text: str, parse: Callable[[str], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read '.*broker.*from_url takes all in one URL") as raised:
        parse(text)
    assert "s3" not in str(raised.value)


def test_a_password_of_a_query_is_not_shown_though_it_has_the_sign_that_ends_credentials() -> None:
    with pytest.raises(ConfigurationError, match="from_url takes all in one URL") as raised:
        parse_addresses("kafka+sasl-ssl://broker:9093?sasl_username=alice&sasl_password=s3cr@t-pass")
    assert "t-pass" not in str(raised.value)


class TestTimeout:
    @pytest.mark.parametrize("timeout", [0, 1.5, -1, float("inf"), Decimal("0.5")])
    def test_numbers_are_seconds_and_none_is_none(self, timeout: Any) -> None:
        assert timeout_of("flush", timeout) == float(timeout)
        assert timeout_of("flush", None) is None

    @pytest.mark.parametrize("timeout", ["x", True, [], timedelta(1), b"1", 1j])
    def test_a_value_that_is_not_a_number_is_named_with_the_call(self, timeout: Any) -> None:
        with pytest.raises(TypeError, match=rf"flush\(\): timeout is a {type(timeout).__name__}, not a number"):
            timeout_of("flush", timeout)

    @pytest.mark.parametrize("timeout", [float("nan"), 10**400, Decimal("snan")])
    def test_an_object_that_is_not_a_duration_is_refused(self, timeout: Any) -> None:
        with pytest.raises(ValueError, match=r"flush\(\): timeout is"):
            timeout_of("flush", timeout)

    def test_the_argument_may_have_another_name(self) -> None:
        with pytest.raises(ValueError, match=r"^fetch\(\): max_wait is nan: write"):
            timeout_of("fetch", float("nan"), "max_wait")


class TestIntegers:
    def test_all_that_has_an_index_is_an_int(self) -> None:
        class Five:
            def __index__(self) -> int:
                return 5

        assert [integer_of("it", each) for each in (5, -1, Five())] == [5, -1, 5]

    def test_anything_else_is_named(self) -> None:
        class Broken:
            def __index__(self) -> int:
                raise OSError("no")

        for wrong in (True, 1.0, "1", None, Broken()):
            with pytest.raises(TypeError, match=f"^it is a {type(wrong).__name__}, not an int$"):
                integer_of("it", wrong)


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([1.0], 0.999) == 1.0
    assert percentile([1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0, 2.0], 0.0) == 1.0
