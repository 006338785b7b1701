"""The options of a reader that bound one another."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.reader import ReaderConfig


@pytest.mark.parametrize(
    ("given", "fetched", "limit"),
    [
        ({}, 52_428_800, 104_857_600),
        ({"fetch_max_bytes": 200_000_000}, 200_000_000, 200_000_512),
        ({"fetch_max_bytes": 2**31 - 1}, 2**31 - 1, 2**31 - 1),
        ({"fetch_max_bytes": 5}, 5, 104_857_600),
        ({"receive_message_max_bytes": 1_000_000}, 999_488, 1_000_000),
        ({"receive_message_max_bytes": 2**31 - 1}, 52_428_800, 2**31 - 1),
        ({"receive_message_max_bytes": 5_000, "fetch_max_bytes": 4_488}, 4_488, 5_000),
    ],
)
def test_the_largest_answer_has_room_for_a_fetch(given: dict[str, Any], fetched: int, limit: int) -> None:
    config = ReaderConfig(bootstrap_servers="h:1", **given)
    assert (config.fetch_max_bytes, config.receive_message_max_bytes) == (fetched, limit)


def test_two_given_limits_that_contradict_are_an_error_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="write receive_message_max_bytes=6512 or more"):
        ReaderConfig(bootstrap_servers="h:1", fetch_max_bytes=6_000, receive_message_max_bytes=6_000)


@pytest.mark.parametrize("value", ["x", 5, 2**31, True, None])
def test_a_limit_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="receive_message_max_bytes="):
        ReaderConfig(bootstrap_servers="h:1", receive_message_max_bytes=value)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("fetch_min_bytes", 2**31 - 1),
        ("fetch_max_wait_ms", 2**31 - 1),
        ("fetch_max_bytes", 2**31 - 1),
        ("max_partition_fetch_bytes", 2**31 - 1),
        ("default_api_timeout_ms", 2**63 - 1),
    ],
)
def test_a_number_that_no_request_has_room_for_is_refused(name: str, most: int) -> None:
    largest: dict[str, Any] = {name: most}
    too_large: dict[str, Any] = {name: most + 1}
    assert getattr(ReaderConfig(bootstrap_servers="h:1", **largest), name) == most
    with pytest.raises(ConfigurationError, match=f"^{name}={most + 1} is out of range: write at most {most}$"):
        ReaderConfig(bootstrap_servers="h:1", **too_large)
