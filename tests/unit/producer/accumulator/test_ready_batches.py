"""The ready batches, their nodes, and the draining of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from aiokafkapy.cluster.cluster import Cluster
from aiokafkapy.common import NO_LEADER, TopicPartition
from aiokafkapy.producer.accumulator.ready_batches import LONGEST_LINGER, TIME_OF_BATCH, ReadyCheckResult
from aiokafkapy.producer.accumulator.record_accumulator import ADAPTIVE_LINGER
from aiokafkapy.record.batch import RecordBatch

from ..accumulator_harness import KIB, T0, T1, Harness, Waiters, values_of, wire_bytes
from ..sender_fakes import cluster_of


class TestReady:
    def test_nothing_is_ready_of_nothing(self) -> None:
        harness = Harness()
        assert harness.ready() == ReadyCheckResult(set(), inf, set())
        assert harness.accumulator.next_expiry_time() == inf

    def test_without_linger_a_record_is_ready_at_once(self) -> None:
        harness = Harness(linger_ms=0)
        harness.append_ok()
        assert harness.ready() == ReadyCheckResult({1}, inf, set())

    def test_linger_counts_from_the_first_record(self) -> None:
        harness = Harness(linger_ms=50)
        harness.append_ok()
        assert harness.ready().next_ready_check_delay == pytest.approx(0.050)
        for _ in range(4):
            harness.now += 0.010
            harness.append_ok()
        found = harness.ready()
        assert found.ready_nodes == set()
        assert found.next_ready_check_delay == pytest.approx(0.010)
        harness.now += found.next_ready_check_delay
        assert harness.ready().ready_nodes == {1}

    def test_the_delay_is_that_of_the_first_to_be_ready(self) -> None:
        harness = Harness({"t": [1, 2]}, linger_ms=50)
        harness.append_ok(partition=0)
        harness.now += 0.020
        harness.append_ok(partition=1)
        assert harness.ready().next_ready_check_delay == pytest.approx(0.030)
        harness.now += 0.030
        found = harness.ready()
        assert found.ready_nodes == {1}
        assert found.next_ready_check_delay == pytest.approx(0.020)

    def test_a_full_batch_and_one_behind_another_do_not_linger(self) -> None:
        harness = Harness(linger_ms=1000, batch_size=500)
        harness.append_ok(b"x" * 300)
        assert harness.ready().ready_nodes == set()
        harness.append_ok(b"x" * 300)
        assert harness.ready().ready_nodes == {1}
        harness = Harness(linger_ms=1000, batch_size=500)
        harness.append_ok(b"x" * 500)
        assert harness.ready().ready_nodes == {1}

    def test_adaptive_linger_is_over_when_the_leader_has_nothing_in_flight(self) -> None:
        harness = Harness({"t": [1, 2]}, linger_ms=None)
        harness.in_flight = {1: 1}
        harness.append_ok(partition=0)
        harness.append_ok(partition=1)
        found = harness.ready()
        assert found.ready_nodes == {2}
        assert found.next_ready_check_delay == pytest.approx(ADAPTIVE_LINGER)
        harness.in_flight = {}
        assert harness.ready().ready_nodes == {1, 2}

    def test_adaptive_linger_is_over_after_five_milliseconds_or_with_a_full_batch(self) -> None:
        harness = Harness(linger_ms=None, batch_size=500)
        harness.in_flight = {1: 3}
        harness.append_ok()
        harness.now += 0.002
        assert harness.ready().next_ready_check_delay == pytest.approx(ADAPTIVE_LINGER - 0.002)
        harness.now += 0.003
        assert harness.ready().ready_nodes == {1}
        harness = Harness(linger_ms=None, batch_size=500)
        harness.in_flight = {1: 3}
        harness.append_ok(b"x" * 500)
        assert harness.ready().ready_nodes == {1}

    @pytest.mark.parametrize("linger_ms", [None, 5])
    def test_a_new_batch_wakes_nobody_while_older_ones_of_its_leader_gather(self, linger_ms: int | None) -> None:
        harness = Harness({"t": [1, 1, 1, 2]}, linger_ms=linger_ms, batch_size=500)
        for partition in range(4):
            harness.append_ok(partition=partition)
        harness.now += 1
        assert len(harness.drain(1) + harness.drain(2)) == 4
        harness.in_flight = {1: 1, 2: 1}

        def wakes(partition: int, value: bytes = b"x") -> bool:
            harness.wakeups = 0
            harness.append_ok(value, partition=partition)
            return harness.wakeups > 0

        assert wakes(0), "nothing gathers yet, so nothing would look at it in time"
        due = harness.now + harness.ready().next_ready_check_delay
        harness.now += 0.001
        assert not wakes(1)
        assert harness.now + harness.ready().next_ready_check_delay == pytest.approx(due)
        assert wakes(3), "the other leader has nothing that gathers"
        harness.ready()
        assert wakes(2, b"x" * 500), "it is full"
        harness.now = due
        assert len(harness.drain(1) + harness.drain(2)) == 4
        assert wakes(1), "those that gathered are gone"

    def test_adaptive_linger_is_longer_with_thousands_of_partitions(self) -> None:
        for linger_ms, expected in ((None, 1000 * TIME_OF_BATCH), (5, 0.005)):
            harness = Harness({"t": [1] * 1000}, linger_ms=linger_ms)
            harness.in_flight = {1: 1}
            for partition in range(1000):
                harness.append_ok(partition=partition)
            assert harness.ready().next_ready_check_delay == pytest.approx(expected)
            harness.now += expected
            assert harness.ready().ready_nodes == {1}
        harness = Harness({"t": [1] * 20_000}, linger_ms=None)
        harness.in_flight = {1: 1}
        for partition in range(20_000):
            harness.append_ok(partition=partition)
        assert harness.ready().next_ready_check_delay == pytest.approx(LONGEST_LINGER)
        harness.in_flight = {}
        assert harness.ready().ready_nodes == {1}

    def test_topics_without_a_leader_are_reported_and_hold_up_no_other(self) -> None:
        harness = Harness({"t": [1, NO_LEADER], "u": [99]})
        harness.append_ok(partition=0)
        harness.append_ok(partition=1)
        harness.append_ok(topic="u")
        harness.append_ok(topic="unknown")
        assert harness.ready() == ReadyCheckResult({1}, inf, {"t", "u", "unknown"})
        assert [batch.topic_partition for batch in harness.drain_all(1, 2)] == [T0]
        harness.cluster = cluster_of({"t": [1, 2], "u": [2], "unknown": [1]})
        assert harness.ready().ready_nodes == {1, 2}
        assert len(harness.drain_all(1, 2)) == 3

    def test_a_muted_partition_is_neither_ready_nor_drained(self) -> None:
        harness = Harness()
        harness.append_ok()
        harness.accumulator.mute_partition(T0)
        assert harness.ready() == ReadyCheckResult(set(), inf, set())
        assert harness.drain() == []
        harness.wakeups = 0
        harness.accumulator.unmute_partition(T0)
        assert harness.wakeups == 1
        assert harness.ready().ready_nodes == {1}

    def test_a_batch_that_backs_off_is_neither_ready_nor_drained_until_its_time(self) -> None:
        harness = Harness()
        harness.append_ok()
        (batch,) = harness.drain()
        harness.accumulator.reenqueue(batch, harness.now)
        found = harness.ready()
        assert found.ready_nodes == set()
        assert 0.08 <= found.next_ready_check_delay <= 0.12
        assert harness.drain() == []
        harness.now += found.next_ready_check_delay
        assert harness.ready().ready_nodes == {1}
        assert harness.drain() == [batch]

    def test_back_off_grows_with_the_attempts(self) -> None:
        harness = Harness()
        harness.append_ok()
        delays = []
        for _ in range(6):
            (batch,) = harness.drain()
            harness.accumulator.reenqueue(batch, harness.now)
            delays.append(batch.retry_at - harness.now)
            harness.now = batch.retry_at
        assert delays[0] < 0.13
        assert delays[3] > 0.6
        assert delays[5] <= 1.2

    def test_a_new_leader_ends_the_back_off(self) -> None:
        harness = Harness({"t": [1]})
        harness.append_ok()
        (batch,) = harness.drain()
        harness.accumulator.reenqueue(batch, harness.now)
        harness.ready()
        same = cluster_of({"t": [2]})
        topic = same.topic("t")
        assert topic is not None
        harness.cluster = newer_epoch(2)
        assert harness.ready().ready_nodes == {2}
        assert harness.drain(2) == [batch]

    @pytest.mark.parametrize("why", ["flush", "close", "exhausted"])
    def test_in_a_hurry_everything_is_ready(self, why: str) -> None:
        harness = Harness(linger_ms=60_000, buffer_memory=8 * KIB)
        harness.append_ok(b"x" * 1000)
        assert harness.ready().ready_nodes == set()
        if why == "flush":
            flush = harness.accumulator.begin_flush(lambda: None)
        elif why == "close":
            harness.accumulator.close()
        else:
            Waiters(harness).add(0, b"x" * 7900, 1)
        assert harness.ready().ready_nodes == {1}
        if why == "flush":
            flush.end()
            assert harness.ready().ready_nodes == set()

    def test_a_hurry_does_not_shorten_a_back_off(self) -> None:
        harness = Harness()
        harness.append_ok()
        (batch,) = harness.drain()
        harness.accumulator.reenqueue(batch, harness.now)
        harness.accumulator.begin_flush(lambda: None)
        assert harness.ready().ready_nodes == set()
        assert harness.drain() == []

    def test_costs_grow_only_with_the_partitions_that_have_data(self) -> None:
        harness = Harness({"t": [1] * 5000})
        for partition in range(5000):
            harness.append_ok(partition=partition)
        for batch in harness.drain_all():
            harness.complete(batch)
        looked: list[TopicPartition] = []

        class Looking:
            leader_epochs = dict.fromkeys(range(5000), 1)

            def topic(self, name: str) -> Any:
                assert name == "t"
                return self

            def leader(self, number: int) -> int:
                looked.append(TopicPartition("t", number))
                return 1

            def node_by_id(self, node_id: int) -> Any:
                return harness.cluster.node_by_id(node_id)

        harness.append_ok(partition=7)
        view: Any = Looking()
        assert harness.accumulator.ready(view, harness.now, {}).ready_nodes == {1}
        assert [len(batches) for batches in harness.accumulator.drain(view, [1], KIB, harness.now).values()] == [1]
        assert looked == [("t", 7)]


class TestDrain:
    def test_one_batch_of_each_partition_goes_into_a_nodes_request(self) -> None:
        harness = Harness({"t": [1, 2, 1]}, batch_size=300)
        for partition in (0, 1, 2):
            for _ in range(3):
                harness.append_ok(b"x" * 200, partition)
        drained = harness.accumulator.drain(harness.cluster, [1, 2], 10**6, harness.now)
        assert list(drained) == [1, 2]
        assert [batch.topic_partition.partition for batch in drained[1]] == [0, 2]
        assert [batch.topic_partition.partition for batch in drained[2]] == [1]
        assert len(harness.drain_all(1, 2)) == 6

    def test_the_size_of_a_request_is_kept_and_a_batch_left_out_is_first_next_time(self) -> None:
        harness = Harness({"t": [1] * 5}, batch_size=300)
        for _ in range(3):
            for partition in range(5):
                harness.append_ok(b"x" * 220, partition)
        rounds = []
        while batches := harness.drain(size=700):
            assert sum(batch.size for batch in batches) <= 700
            rounds.append([batch.topic_partition.partition for batch in batches])
        assert [partition for of_round in rounds for partition in of_round] == [0, 1, 2, 3, 4] * 3

    def test_a_first_batch_over_the_size_goes_alone(self) -> None:
        harness = Harness()
        harness.append_ok(b"x" * 5000, 0)
        harness.append_ok(b"x", 1)
        assert [batch.topic_partition for batch in harness.drain(size=1000)] == [T0]
        assert [batch.topic_partition for batch in harness.drain(size=1000)] == [T1]

    def test_a_batch_that_had_no_place_is_filled_on(self) -> None:
        harness = Harness()
        harness.append_ok(b"x" * 5000, 0)
        harness.append_ok(b"x" * 5000, 1)
        harness.drain(size=6000)
        harness.append_ok(b"y", 1)
        (batch,) = harness.drain(size=6000)
        assert values_of(batch) == [b"x" * 5000, b"y"]

    def test_drained_batches_are_sealed_and_records_that_follow_go_into_another(self) -> None:
        harness = Harness()
        harness.append_ok(b"a")
        (first,) = harness.drain()
        assert first.builder.is_sealed
        harness.append_ok(b"b")
        (second,) = harness.drain()
        assert (values_of(first), values_of(second)) == ([b"a"], [b"b"])
        assert not harness.accumulator.has_queued()
        assert harness.accumulator.batch_count == 2

    def test_sequences_are_stamped_once_and_follow_one_another(self) -> None:
        harness = Harness(idempotent=True, batch_size=300)
        harness.prime(0, 1)
        for _ in range(10):
            harness.append_ok(b"x" * 100)
            harness.append_ok(b"y" * 100, 1)
        batches = harness.drain_all()
        for place in (T0, T1):
            sequence = 1
            for batch in batches:
                if batch.topic_partition == place:
                    found = RecordBatch(memoryview(wire_bytes(batch)))
                    found.validate()
                    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 0, sequence)
                    sequence += batch.record_count
            assert sequence == 11

    def test_nothing_overtakes_the_first_batch_of_a_partition(self) -> None:
        """A broker that knows nothing of the producer would take it, and refuse the first for ever."""
        harness = Harness(idempotent=True, batch_size=150)
        for _ in range(6):
            harness.append_ok(b"x" * 100)
        (first,) = harness.drain_all()
        assert harness.ready().ready_nodes == set()
        harness.append_ok(b"y", 1)
        assert [batch.topic_partition for batch in harness.drain_all()] == [T1]  # which is held up by nothing
        harness.accumulator.reenqueue(first, harness.now)
        assert harness.drain_all() == []
        harness.now += 1
        assert harness.drain_all() == [first]
        harness.complete(first)
        assert harness.ready().ready_nodes == {1}
        assert [batch.base_sequence for batch in harness.drain_all()] == [1, 2, 3, 4, 5]

    def test_nothing_overtakes_the_first_batch_of_a_new_epoch(self) -> None:
        harness = Harness(idempotent=True, batch_size=150)
        harness.prime()
        assert harness.manager is not None
        harness.manager.request_epoch_bump(T0)
        assert harness.manager.bump_epoch_if_needed(lambda _: False)
        for _ in range(6):
            harness.append_ok(b"x" * 100)
        (first,) = harness.drain_all()
        assert (first.producer_epoch, first.base_sequence) == (1, 0)
        assert harness.ready().ready_nodes == set()
        harness.complete(first, 1)
        assert [batch.base_sequence for batch in harness.drain_all()] == [1, 2, 3, 4, 5]

    def test_a_retry_keeps_its_sequence_and_nothing_passes_it(self) -> None:
        harness = Harness(idempotent=True, batch_size=150)
        harness.prime()
        for _ in range(4):
            harness.append_ok(b"x" * 100)
        first, second = harness.drain() + harness.drain()
        sent = wire_bytes(first)
        for batch in (second, first):
            harness.accumulator.reenqueue(batch, harness.now)
        harness.now += 1
        assert harness.drain() == [first]
        assert wire_bytes(first) == sent
        assert harness.drain() == []  # the second waits for the first's outcome, new ones wait behind it
        assert harness.ready().ready_nodes == set()
        harness.complete(first)
        assert harness.drain() == [second]

    def test_nothing_is_drained_without_a_producer_id(self) -> None:
        harness = Harness(idempotent=True)
        harness.append_ok()
        assert harness.manager is not None
        harness.manager.request_epoch_bump(T0)
        assert harness.ready().ready_nodes == set()
        assert harness.drain() == []
        assert harness.manager.bump_epoch_if_needed(lambda _: False)
        assert harness.drain() != []


def newer_epoch(leader: int) -> Cluster:
    """A view in which the only partition of ``t`` has this leader, elected since."""
    cluster = cluster_of({"t": [leader]})
    topic = cluster.topic("t")
    assert topic is not None
    info = topic.partitions[0]._replace(leader_epoch=2)
    return Cluster(cluster.nodes, {"t": topic.replace([info])})


class TestPriority:
    def test_batches_of_topics_with_priority_leave_first_and_the_others_in_their_round(self) -> None:
        topics: dict[str, Sequence[int]] = {"t": [1, 1], "alerts": [1, 1]}
        harness = Harness(topics, batch_size=500, topics={"alerts": {"priority": "high"}})
        appender = harness.accumulator.appender
        for topic, partition in (("t", 0), ("t", 1), ("alerts", 1), ("alerts", 0)):
            for _ in range(2):
                appender.append(topic, partition, 1, None, bytes(300), None, harness.now, harness.cluster)
        rounds = [
            [batch.topic_partition for batch in harness.accumulator.drain(harness.cluster, [1], 800, harness.now)[1]]
            for _ in range(4)
        ]
        alerts = [TopicPartition("alerts", 1), TopicPartition("alerts", 0)]
        assert rounds == [alerts, alerts, [T0, T1], [T0, T1]]
