"""Compression, at once or in a thread, and a batch that is expired, split or aborted meanwhile."""

from __future__ import annotations

import random
from collections import deque
from math import inf

from aiokafkapy.producer.accumulator.batch_sealer import QUICK_AT_ONCE
from aiokafkapy.producer.accumulator.ready_batches import ReadyCheckResult
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList

from ..accumulator_harness import KIB, LARGE, T1, Harness, Waiters, values_of, wire_bytes


class TestCompression:
    def test_small_batches_are_compressed_at_drain_and_give_memory_back(self) -> None:
        harness = Harness(compression_type="lz4")
        for _ in range(100):
            harness.append_ok(b"x" * 100)
        held = harness.held
        (batch,) = harness.drain()
        assert harness.accumulator.take_compressions() == []
        assert harness.held == batch.memory < held / 10
        assert batch.size == len(wire_bytes(batch))
        harness.check()
        harness.complete(batch)
        assert harness.held == 0

    def test_large_ones_go_to_a_thread_and_keep_their_place(self) -> None:
        harness = Harness(compression_type="gzip", batch_size=34 * KIB)
        harness.append_ok(LARGE)
        harness.append_ok(LARGE)
        harness.append_ok(b"y" * 2_000)
        assert harness.ready().ready_nodes == set()
        first, second = harness.accumulator.take_compressions()
        assert first.reserved_memory > len(LARGE)
        assert harness.accumulator.take_compressions() == []
        harness.check()
        second.compress()
        harness.accumulator.compressed(second)
        harness.check()
        assert harness.drain() == []  # the second waits for the first
        assert harness.ready().ready_nodes == set()
        first.compress()
        harness.wakeups = 0
        harness.accumulator.compressed(first)
        assert harness.wakeups > 0
        assert harness.ready().ready_nodes == {1}
        drained = harness.drain_all()
        assert [values_of(batch) for batch in drained] == [[LARGE], [LARGE], [b"y" * 2_000]]
        for batch in drained:
            harness.complete(batch)
        assert harness.held == 0

    def test_a_batch_closed_for_compression_takes_no_more(self) -> None:
        harness = Harness(compression_type="gzip", batch_size=128 * KIB)
        harness.append_ok(LARGE)
        harness.ready()
        (batch,) = harness.accumulator.take_compressions()
        harness.append_ok(b"next")
        batch.compress()
        harness.accumulator.compressed(batch)
        assert [values_of(batch) for batch in harness.drain_all()] == [[LARGE], [b"next"]]

    def test_other_partitions_are_not_held_up(self) -> None:
        harness = Harness(compression_type="gzip", batch_size=64 * KIB)
        harness.append_ok(LARGE, 0)
        harness.append_ok(b"small", 1)
        assert harness.ready().ready_nodes == {1}
        assert [batch.topic_partition for batch in harness.drain_all()] == [T1]

    def test_a_batch_that_is_filled_by_single_records_is_compressed_there_if_that_is_quick(self) -> None:
        for codec, handed_over in (("lz4", 0), ("gzip", 4)):
            harness = Harness(compression_type=codec, batch_size=64 * KIB)
            for _ in range(5):  # the fifth closes the fourth
                harness.append_ok(LARGE)
            assert len(harness.accumulator.take_compressions()) == handed_over, codec
            harness.check()

    def test_batches_that_are_filled_in_bulk_go_to_threads(self) -> None:
        harness = Harness({"t": [1]}, compression_type="lz4", batch_size=64 * KIB)
        accumulator = harness.accumulator
        values: list[bytes | None] = [LARGE] * 5
        append_many = accumulator.appender.append_many
        assert append_many(DeliveryList(values), "t", 1, values, 0, 5, harness.now, harness.cluster) == 5
        assert len(accumulator.take_compressions()) == 4
        harness.append_ok(LARGE)  # after, single ones are compressed at once again
        assert accumulator.take_compressions() == []

    def test_batches_that_only_became_ready_are_compressed_on_their_way_if_that_is_quick(self) -> None:
        count = QUICK_AT_ONCE + 2
        for codec, handed_over in (("lz4", 2), ("gzip", count)):
            harness = Harness({"t": [1] * count}, compression_type=codec, batch_size=64 * KIB)
            for partition in range(count):
                harness.append_ok(LARGE, partition)
            harness.ready()
            assert len(harness.accumulator.take_compressions()) == handed_over, codec
            assert len(harness.drain_all()) == count - handed_over
            harness.check()

    def test_as_many_are_compressed_on_their_way_in_each_turn(self) -> None:
        harness = Harness({"t": [1] * QUICK_AT_ONCE}, compression_type="lz4", batch_size=64 * KIB)
        for _ in range(3):
            for partition in range(QUICK_AT_ONCE):
                harness.append_ok(LARGE, partition)
            harness.ready()
            assert harness.accumulator.take_compressions() == []
            for batch in harness.drain_all():
                harness.complete(batch)

    def test_batches_that_fill_up_as_memory_comes_back_go_to_a_thread(self) -> None:
        noise = random.Random(1).randbytes(len(LARGE))  # which is held as it is
        harness = Harness({"t": [1] * 2}, compression_type="lz4", batch_size=64 * KIB, buffer_memory=400 * KIB)
        waiters = Waiters(harness)
        while harness.append(noise, 1) is not None:
            pass
        for number in range(4):
            waiters.add(number, noise, 1)
        assert harness.accumulator.take_compressions() == []
        for batch in harness.drain_all():
            harness.complete(batch)
        assert len(waiters.granted) > 1
        left = [batch for batch in harness.accumulator.incomplete if batch.topic_partition == T1]
        assert len(left) > 1
        assert not any(batch.builder.is_sealed for batch in left)
        harness.check()

    def test_without_memory_for_a_thread_one_batch_still_goes_there(self) -> None:
        harness = Harness({"t": [1] * 2}, compression_type="gzip", batch_size=64 * KIB, buffer_memory=90 * KIB)
        harness.append_ok(LARGE, 0)
        harness.append_ok(LARGE, 1)
        assert harness.ready().ready_nodes == set()
        for reserved in (0, len(LARGE)):  # the first has given enough back for the second to pay
            (batch,) = harness.accumulator.take_compressions()
            assert batch.reserved_memory >= reserved
            assert bool(batch.reserved_memory) == bool(reserved)
            harness.ready()
            assert harness.accumulator.take_compressions() == []
            batch.compress()
            harness.accumulator.compressed(batch)
            assert harness.drain() == [batch]
            harness.complete(batch)
            harness.ready()
        assert harness.held == 0

    def test_the_next_waits_for_the_memory_of_one_that_is_compressed(self) -> None:
        harness = Harness({"t": [1] * 3}, compression_type="gzip", batch_size=64 * KIB, buffer_memory=160 * KIB)
        for partition in range(3):
            harness.append_ok(LARGE, partition)
        harness.ready()
        (first,) = harness.accumulator.take_compressions()
        assert harness.drain() == []
        first.compress()
        harness.accumulator.compressed(first)
        harness.ready()
        assert harness.accumulator.take_compressions()
        harness.check()

    def test_a_batch_that_expired_meanwhile_is_let_go_in_the_end(self) -> None:
        harness = Harness(compression_type="gzip", delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        harness.append_ok(LARGE)
        harness.ready()
        (batch,) = harness.accumulator.take_compressions()
        harness.now += 30
        assert harness.accumulator.expired_batches(harness.now) == [batch]
        harness.fail(batch)
        batch.compress()
        harness.accumulator.compressed(batch)
        assert harness.held == 0
        assert harness.ready() == ReadyCheckResult(set(), inf, set())

    def test_a_batch_that_could_not_be_compressed_is_taken_out_of_its_queue(self) -> None:
        harness = Harness(compression_type="gzip")
        harness.append_ok(LARGE)
        harness.ready()
        (batch,) = harness.accumulator.take_compressions()
        harness.append_ok(b"next")
        harness.now += 1
        harness.fail(batch, MemoryError("none"))
        harness.accumulator.compressed(batch)
        assert harness.ready().ready_nodes == {1}
        assert [values_of(batch) for batch in harness.drain_all()] == [[b"next"]]

    def test_records_waiting_for_memory_are_let_in_when_compression_gave_some_back(self) -> None:
        harness = Harness(compression_type="gzip", batch_size=40 * KIB, buffer_memory=150 * KIB)
        waiters = Waiters(harness)
        count = 0
        while harness.append(LARGE) is not None:
            count += 1
        assert count >= 2
        waiters.add(0, LARGE)
        batches = deque(harness.accumulator.take_compressions())
        assert batches
        while batches and not waiters.granted:
            batch = batches.popleft()
            batch.compress()
            harness.accumulator.compressed(batch)
        assert waiters.granted == [0]
