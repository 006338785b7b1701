"""The sticky partition: uniform by bytes, adaptive to queues, past brokers that are away."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from aiokafkapy.errors import UnknownTopicOrPartitionError
from aiokafkapy.producer.accumulator.built_in_partitioner import BuiltInPartitioner

from ..accumulator_harness import Harness
from ..sender_fakes import cluster_of


def no_batches(partitions: list[int]) -> list[int]:
    return [0] * len(partitions)


def of(sizes: list[int]) -> Callable[[list[int]], list[int]]:
    return lambda partitions: [sizes[partition] for partition in partitions]


class TestBuiltInPartitioner:
    def test_equal_queues_take_turns_in_shuffled_rounds(self) -> None:
        random.seed(1)
        partitioner = BuiltInPartitioner("t")
        cluster = cluster_of({"t": [1] * 8})
        rounds = [[partitioner.next_partition(cluster, no_batches) for _ in range(8)] for _ in range(20)]
        assert all(sorted(of_round) == list(range(8)) for of_round in rounds)
        assert len({tuple(of_round) for of_round in rounds}) > 10

    def test_the_longer_a_queue_the_rarer_as_java_weighs_it(self) -> None:
        random.seed(1)
        partitioner = BuiltInPartitioner("t")
        cluster = cluster_of({"t": [1] * 3})
        sizes = [0, 3, 1]
        chosen = Counter(partitioner.next_partition(cluster, of(sizes)) for _ in range(14_000))
        # The longest queue plus one, less the own: 4, 1 and 3 of 8.
        assert chosen[0] / 14_000 == pytest.approx(4 / 8, rel=0.05)
        assert chosen[1] / 14_000 == pytest.approx(1 / 8, rel=0.1)
        assert chosen[2] / 14_000 == pytest.approx(3 / 8, rel=0.05)

    def test_without_adaptation_queues_do_not_matter(self) -> None:
        partitioner = BuiltInPartitioner("t", is_adaptive=False)
        cluster = cluster_of({"t": [1] * 4})
        chosen = Counter(partitioner.next_partition(cluster, of([9, 0, 0, 0])) for _ in range(400))
        assert chosen == dict.fromkeys(range(4), 100)

    def test_partitions_without_a_leader_are_passed_over_while_another_has_one(self) -> None:
        partitioner = BuiltInPartitioner("t")
        cluster = cluster_of({"t": [1, -1, 2, -1]})
        assert {partitioner.next_partition(cluster, no_batches) for _ in range(50)} == {0, 2}
        nobody = cluster_of({"t": [-1] * 4})
        assert {partitioner.next_partition(nobody, no_batches) for _ in range(50)} == {0, 1, 2, 3}

    def test_brokers_that_are_not_ready_are_passed_over_unless_all_are_so(self) -> None:
        partitioner = BuiltInPartitioner("t")
        cluster = cluster_of({"t": [1, 2, 1, 2]})
        chosen = {partitioner.next_partition(cluster, no_batches, lambda node_id: node_id == 2) for _ in range(50)}
        assert chosen == {1, 3}
        chosen = {partitioner.next_partition(cluster, no_batches, lambda _: False) for _ in range(50)}
        assert chosen == {0, 1, 2, 3}

    def test_a_topic_without_partitions_is_an_error(self) -> None:
        with pytest.raises(UnknownTopicOrPartitionError, match="no partitions"):
            BuiltInPartitioner("t").next_partition(cluster_of({"u": [1]}), no_batches)

    def test_partitions_that_are_gone_are_not_chosen_by_weights_of_old_metadata(self) -> None:
        partitioner = BuiltInPartitioner("t")
        sizes = of([number % 3 for number in range(200)])
        partitioner.next_partition(cluster_of({"t": [1] * 200}), sizes)
        cluster = cluster_of({"t": [1] * 100})
        assert max(partitioner.next_partition(cluster, sizes) for _ in range(100)) < 100

    def test_new_partitions_come_with_the_next_round(self) -> None:
        partitioner = BuiltInPartitioner("t")
        small, large = cluster_of({"t": [1] * 2}), cluster_of({"t": [1] * 4})
        partitioner.next_partition(small, no_batches)
        chosen = [partitioner.next_partition(large, no_batches) for _ in range(5)]
        assert set(chosen) == {0, 1, 2, 3}

    def test_a_switch_among_thousands_does_not_look_at_every_queue(self) -> None:
        partitioner = BuiltInPartitioner("t")
        cluster = cluster_of({"t": [1] * 6400})
        looks = Counter[int]()

        def queue_sizes(partitions: list[int]) -> list[int]:
            looks.update(partitions)
            return no_batches(partitions)

        for _ in range(1000):
            partitioner.next_partition(cluster, queue_sizes)
        assert looks.total() <= 10 * 6400


class TestStickyRecords:
    """Through the accumulator, which says when a partition has had its share."""

    @pytest.mark.parametrize("key", [None, b"k" * 20])
    def test_bytes_are_spread_evenly_for_all_sizes(self, key: bytes | None) -> None:
        harness = Harness({"t": [1] * 12}, batch_size=16 * 1024, buffer_memory=1 << 30)
        source = random.Random(3)
        data = bytes(4000)
        sent = Counter[int]()
        batches = 0
        filled = 0
        for _ in range(40_000):
            delivery = harness.append(data[: source.choice((10, 100, 1000, source.randrange(4000)))], -1, key=key)
            assert delivery is not None
        for batch in harness.drain_all():
            sent[batch.topic_partition.partition] += batch.size
            batches += 1
            filled += batch.size
            harness.complete(batch)
        mean = sent.total() / 12
        assert all(abs(size - mean) <= 0.05 * mean for size in sent.values())
        assert filled >= 0.85 * 16 * 1024 * batches

    def test_batches_are_nearly_full(self) -> None:
        harness = Harness({"t": [1] * 12}, batch_size=16 * 1024, buffer_memory=1 << 30)
        for _ in range(20_000):
            harness.append_ok(b"x" * 100, -1)
        batches = harness.drain_all()
        full = [batch.size / (16 * 1024) for batch in batches]
        assert sum(full) / len(full) >= 0.9

    def test_a_partition_that_records_with_keys_keep_open_is_still_left(self) -> None:
        harness = Harness({"t": [1] * 4}, batch_size=1000, partitioner_adaptive_partitioning_enable=False)
        places = set()
        for _ in range(200):
            places.add(harness.append_ok(b"x" * 60, -1).topic_partition)
            for partition in range(4):
                harness.append_ok(b"y", partition)
        assert len(places) == 4

    def test_a_record_larger_than_a_batch_goes_somewhere(self) -> None:
        harness = Harness({"t": [1] * 3}, batch_size=1000, partitioner_adaptive_partitioning_enable=False)
        places = Counter(harness.append_ok(b"x" * 5000, -1).topic_partition.partition for _ in range(30))
        assert places == dict.fromkeys(range(3), 10)

    def test_a_slow_broker_gets_less(self) -> None:
        harness = Harness({"t": [1, 2]}, batch_size=500, buffer_memory=1 << 30)
        places = Counter[int]()
        for _ in range(4000):
            places[harness.append_ok(b"x" * 100, -1).topic_partition.partition] += 1
            for batch in harness.drain(1):  # node 2 takes nothing
                harness.complete(batch)
        assert places[1] < 0.2 * places[0]

    def test_a_broker_that_was_not_ready_for_long_gets_nothing(self) -> None:
        harness = Harness({"t": [1, 2]}, batch_size=500, partitioner_availability_timeout_ms=1000)
        accumulator = harness.accumulator
        for node_id, can_drain in ((1, True), (2, True)):
            accumulator.update_node_latency_stats(node_id, harness.now, can_drain)
        harness.now += 5
        accumulator.update_node_latency_stats(1, harness.now, True)
        accumulator.update_node_latency_stats(2, harness.now, False)
        assert {harness.append_ok(b"x" * 300, -1).topic_partition.partition for _ in range(20)} == {0}
        accumulator.update_node_latency_stats(2, harness.now, True)
        assert {harness.append_ok(b"x" * 300, -1).topic_partition.partition for _ in range(40)} == {0, 1}
