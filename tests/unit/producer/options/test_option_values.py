"""Single options' values: accepted, or refused with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.producer.options.option_values import (
    block_time,
    callable_or_none,
    folder_or_none,
    gzip_level,
    kind_of_linger,
    partitioner_or_none,
)


def test_a_function_is_taken_and_a_name_is_not() -> None:
    assert callable_or_none(str.encode) is str.encode
    assert callable_or_none(None) is None
    kafkas = "org.apache.kafka.common.serialization."
    assert callable_or_none(f"{kafkas}StringSerializer") is str.encode
    assert callable_or_none(f"{kafkas}ByteArraySerializer") is None
    for wrong, words in (("org.example.Json", "not the name of a Java class"), (7, "not int")):
        with pytest.raises(ValueError, match=words):
            callable_or_none(wrong)


@pytest.mark.parametrize(("value", "kind"), [(None, "none"), ("auto", "auto"), (5, "number"), (2.5, "number")])
def test_a_linger_is_adaptive_measured_or_a_number(value: Any, kind: str) -> None:
    assert kind_of_linger(value) == kind


def test_a_partitioner_is_a_name_a_function_or_an_object() -> None:
    class RoundRobin:
        def partition(self) -> int:
            return 0

    made = RoundRobin()
    assert partitioner_or_none(made) is made
    assert partitioner_or_none(len) is len
    assert partitioner_or_none("murmur2_random") is None  # the default, which asks nobody
    assert partitioner_or_none("consistent") == "consistent"
    assert partitioner_or_none("org.apache.kafka.clients.producer.RoundRobinPartitioner") == "round_robin"
    for wrong, words in (("best", "no partitioner of this name"), (7, "int is neither")):
        with pytest.raises(ValueError, match=words):
            partitioner_or_none(wrong)


def test_numbers_and_folders_that_would_mean_nothing_are_refused() -> None:
    assert (gzip_level(-1), gzip_level(9), block_time(1)) == (-1, 9, 1)
    assert folder_or_none(Path("spool")) == "spool"
    checks: list[tuple[Callable[[Any], Any], Any]] = [(gzip_level, 0), (block_time, 0), (folder_or_none, "")]
    for check, wrong in checks:
        with pytest.raises(ValueError, match="write"):
            check(wrong)
