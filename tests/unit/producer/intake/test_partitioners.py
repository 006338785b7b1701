"""The partitions of records: Java's for keys, uniform sticky ones, and a user's own choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.producer.intake.partitioners import (
    CallablePartitioner,
    DefaultPartitioner,
    RoundRobinPartitioner,
    partitioner_for,
)

from ..sender_fakes import cluster_of

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "murmur2.hex"
# Key, Java's hash, and its partition of 1, 6 and 1000.
VECTORS = [
    (b"" if key == "-" else bytes.fromhex(key), [int(number) for number in partitions])
    for key, _, *partitions in (line.split() for line in GOLDEN.read_text().splitlines())
]


def choose(partitioner: Any, key: bytes | None, partitions: int = 6, value: bytes = b"x") -> int | None:
    chosen: int | None = partitioner.partition("t", key, value, key, value, cluster_of({"t": [1] * partitions}))
    return chosen


class TestDefaultPartitioner:
    def test_keys_go_where_java_sends_them(self) -> None:
        for key, partitions in VECTORS:
            assert [choose(DefaultPartitioner(), key, count) for count in (1, 6, 1000)] == partitions

    def test_partitions_without_a_leader_count_too(self) -> None:
        partitioner = DefaultPartitioner()
        alive, dead = cluster_of({"t": [1] * 6}), cluster_of({"t": [-1] * 6})
        for key, _ in VECTORS:
            places = {partitioner.partition("t", key, None, key, None, cluster) for cluster in (alive, dead)}
            assert len(places) == 1

    def test_no_key_and_ignored_keys_are_sticky(self) -> None:
        assert choose(DefaultPartitioner(), None) is None
        assert choose(DefaultPartitioner(ignore_keys=True), b"key") is None
        assert choose(DefaultPartitioner(), b"") is not None


class TestRoundRobinPartitioner:
    def test_each_record_goes_to_the_next_partition_keys_or_not(self) -> None:
        partitioner = RoundRobinPartitioner()
        assert [choose(partitioner, key, 3) for key in (None, b"a", None, b"a")] == [0, 1, 2, 0]

    def test_topics_are_counted_apart_and_partitions_without_a_leader_passed_over(self) -> None:
        partitioner = RoundRobinPartitioner()
        cluster = cluster_of({"t": [1, -1, 2], "u": [-1, -1]})

        def chosen(topic: str) -> int | None:
            return partitioner.partition(topic, None, None, None, None, cluster)

        assert [chosen("t"), chosen("u"), chosen("t"), chosen("u"), chosen("t")] == [0, 0, 2, 1, 0]


class TestUsersChoice:
    def test_a_function_an_object_a_class_or_nothing(self) -> None:
        class Mine:
            def partition(self, *_: Any) -> int:
                return 2

        for configured in (lambda *_: 2, Mine(), Mine):
            assert choose(partitioner_for(configured), None) == 2
        assert isinstance(partitioner_for(None), DefaultPartitioner)
        assert choose(partitioner_for(None, ignore_keys=True), b"key") is None
        assert isinstance(partitioner_for(RoundRobinPartitioner), RoundRobinPartitioner)
        with pytest.raises(ConfigurationError, match="neither"):
            partitioner_for(3)

    def test_it_is_given_bytes_and_originals(self) -> None:
        calls: list[Any] = []

        def choose_first(*arguments: Any) -> int:
            calls.append(arguments)
            return 0

        partitioner = CallablePartitioner(choose_first)
        cluster = cluster_of({"t": [1]})
        partitioner.partition("t", b"k", b"v", "k", "v", cluster)
        assert calls == [("t", b"k", b"v", "k", "v", cluster)]

    def test_none_and_minus_one_mean_the_sticky_partition(self) -> None:
        assert choose(CallablePartitioner(lambda *_: None), None) is None
        assert choose(CallablePartitioner(lambda *_: -1), None) is None

    @pytest.mark.parametrize("chosen", [6, -2, "1", 1.0])
    def test_a_value_that_is_not_a_partition_is_refused(self, chosen: Any) -> None:
        with pytest.raises(ValueError, match="partitions 0 to 5"):
            choose(CallablePartitioner(lambda *_: chosen), None)
