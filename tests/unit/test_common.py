"""Words of every layer: addresses, back-off, nodes."""

import pytest

from aiokafkapy.common import ConsumedRecord, ExponentialBackoff, Node, TopicPartition, parse_addresses
from aiokafkapy.errors import ConfigurationError


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
