"""The accumulator: memory and its waiters, readiness, draining, coming back, compression, flush and accounting."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections import deque
from math import inf
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy import _form
from aiokafkapy.common import NO_LEADER, TopicPartition
from aiokafkapy.errors import (
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
    RecordTooLargeError,
)
from aiokafkapy.producer.accumulator.batch_sealer import QUICK_AT_ONCE
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.accumulator.ready_batches import LONGEST_LINGER, TIME_OF_BATCH
from aiokafkapy.producer.accumulator.record_accumulator import ADAPTIVE_LINGER, RecordAccumulator
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList
from aiokafkapy.record.batch import RecordBatch
from aiokafkapy.record.compression import Compression

from ..accumulator_harness import KIB, T0, T1, Harness, Waiter, values_of, wire_bytes
from ..sender_fakes import cluster_of

# More than any codec compresses on the loop
LARGE = b"x" * (32 * KIB + 1000)


class Waiters:
    """Records in the line for room, and what became of them."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.appender = harness.accumulator.appender
        self.records: dict[int, Waiter] = {}
        self.granted: list[int] = []
        self.deliveries: dict[int, Delivery] = {}
        self.failed: dict[int, BaseException] = {}
        harness.accumulator.on_room = self.on_room

    def add(self, number: int, value: Any = b"x", partition: int | None = 0) -> Waiter:
        record = self.records[number] = Waiter(value, partition, number)
        delivery = self.appender.append_or_wait(record, self.harness.now, self.harness.cluster)
        if delivery is not None:
            self.granted.append(number)
            self.deliveries[number] = delivery
        return record

    def leave(self, record: Waiter) -> bool:
        found = self.appender.leave(record)
        self.on_room()
        return found

    def on_room(self) -> None:
        for record, outcome in cast(list[tuple[Waiter, Any]], self.appender.grant(self.harness.now)):
            if isinstance(outcome, Delivery):
                self.granted.append(record.number)
                self.deliveries[record.number] = outcome
            else:
                self.failed[record.number] = outcome


def full_harness(**options: Any) -> Harness:
    """No room for another kilobyte: a pool of 8 KiB with batches of one record each."""
    harness = Harness(**({"buffer_memory": 8 * KIB, "batch_size": 1000} | options))
    while harness.append(b"x" * 1500) is not None:
        pass
    return harness


class TestAppend:
    def test_records_of_a_partition_share_a_batch_until_it_is_full(self) -> None:
        harness = Harness(batch_size=1000)
        values = [b"%03d" % number * 20 for number in range(50)]
        for value in values:
            harness.append_ok(value)
        batches = harness.drain_all()
        assert len(batches) == 50 // batches[0].record_count + 1
        assert all(batch.size <= 1000 for batch in batches)
        assert [value for batch in batches for value in values_of(batch)] == values

    def test_a_batch_is_made_for_as_many_bytes_as_the_last_one_had(self) -> None:
        harness = Harness({"t": [1] * 2}, batch_size=128 * KIB)
        for _ in range(100):
            harness.append_ok(b"x" * 1000)
        (last,) = harness.drain_all()
        harness.append_ok(b"x" * 1000)
        harness.append_ok(b"x" * 1000, 1)  # where there was none before
        batch, first = harness.accumulator.incomplete[-2:]
        assert batch.builder.expected == last.builder.records_size > 100_000
        assert first.builder.expected == 0
        if _form.compiled:  # in few pieces, then; a bytearray gives back what it does not use
            assert batch.memory >= 32 * KIB > 4 * first.memory
        harness.check()

    def test_where_memory_is_short_a_batch_is_made_for_its_first_record(self) -> None:
        harness = Harness({"t": [1] * 2}, batch_size=128 * KIB, buffer_memory=200 * KIB)
        for _ in range(100):
            harness.append_ok(b"x" * 1000, 1)
        (last,) = harness.drain_all()
        harness.complete(last)
        harness.append_ok(b"x" * 180 * KIB)
        harness.append_ok(b"x" * 1000, 1)
        batch = harness.accumulator.incomplete[-1]
        assert batch.memory < 4 * KIB
        harness.check()

    def test_a_record_larger_than_a_batch_has_one_for_itself(self) -> None:
        harness = Harness(batch_size=1000)
        for value in (b"a", b"b" * 2000, b"c"):
            harness.append_ok(value)
        assert [values_of(batch) for batch in harness.drain_all()] == [[b"a"], [b"b" * 2000], [b"c"]]

    @pytest.mark.parametrize(
        ("options", "name", "limit"),
        [({"max_request_size": 5000}, "max_request_size", 5000), ({"buffer_memory": 4000}, "buffer_memory", 4000)],
    )
    def test_one_that_can_never_be_sent_is_refused_with_size_and_limit(
        self, options: dict[str, Any], name: str, limit: int
    ) -> None:
        harness = Harness(**options)
        for partition in (0, -1):
            with pytest.raises(RecordTooLargeError, match=f"more than {name}, {limit}") as caught:
                harness.append(b"x" * 5000, partition)
            assert caught.value.limit == limit
            assert caught.value.size is not None
            assert 5000 < caught.value.size < 5200
            assert caught.value.topic == "t"
        with pytest.raises(RecordTooLargeError):
            Waiters(harness).add(0, b"x" * 5000)
        assert harness.pool.held == 0
        assert not harness.accumulator.has_incomplete

    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize(
        "bad", [{"value": "text"}, {"key": 3}, {"headers": (("h", 1.5),)}, {"headers": ((b"h", b""),)}]
    )
    def test_a_record_without_bytes_harms_nothing(self, bad: dict[str, Any], is_first: bool) -> None:
        harness = Harness()
        if not is_first:
            harness.append_ok(b"good")
        held = harness.pool.held
        with pytest.raises((TypeError, AttributeError)):
            harness.append(**bad)
        assert harness.pool.held == held
        harness.check()
        harness.append_ok(b"good")
        (batch,) = harness.drain()
        assert values_of(batch) == [b"good"] * (1 if is_first else 2)
        harness.complete(batch)
        assert harness.pool.held == 0

    def test_a_record_without_bytes_where_the_batch_must_grow(self) -> None:
        harness = Harness()
        harness.append_ok(b"x" * 300)
        for _ in range(100):
            with pytest.raises(TypeError):
                harness.append("text")
            harness.append_ok(b"x" * 300)
            harness.check()

    def test_every_kind_of_buffer_is_taken(self) -> None:
        harness = Harness()
        for value in (b"abc", bytearray(b"abc"), memoryview(b"abc"), memoryview(b"aXbXcX")[::2], None):
            harness.append_ok(value, key=value)
        (batch,) = harness.drain()
        assert [key for _, key, _, _ in batch.builder.records()] == [b"abc"] * 4 + [None]

    def test_a_sticky_record_needs_a_cluster(self) -> None:
        harness = Harness()
        with pytest.raises(IllegalStateError, match="needs a cluster"):
            harness.accumulator.appender.append("t", -1, 1, None, b"x", None, 0.0)

    def test_nothing_is_accepted_once_closed(self) -> None:
        harness = Harness()
        harness.append_ok()
        harness.accumulator.close()
        for partition in (0, 1, -1):
            with pytest.raises(ProducerClosedError):
                harness.append(partition=partition)
        with pytest.raises(ProducerClosedError):
            Waiters(harness).add(0)
        assert harness.accumulator.accepted == 1

    def test_it_wakes_the_sender_for_a_new_batch_and_for_a_full_one_and_not_for_each_record(self) -> None:
        harness = Harness(batch_size=16 * KIB)
        for _ in range(1000):
            harness.append_ok(b"x" * 100)
        batches = len(harness.drain_all())
        assert batches <= harness.wakeups <= 3 * batches

    def test_a_run_that_fills_a_batch_to_the_brim_wakes_the_sender(self) -> None:
        probe = Harness()
        probe.append_ok(b"x" * 10)
        probe.append_ok(b"x" * 10)
        (batch,) = probe.drain()
        harness = Harness(batch_size=batch.size, linger_ms=1000)
        deliveries = DeliveryList([b"x" * 10] * 2)
        harness.accumulator.appender.append_many(deliveries, "t", 0, 1, [b"x" * 10] * 2, harness.now, harness.cluster)
        assert harness.wakeups >= 2
        assert harness.ready().ready_nodes == {1}


class TestAppendMany:
    def append(self, harness: Harness, values: list[Any], partition: int = 0) -> tuple[int, DeliveryList]:
        deliveries = DeliveryList(values, None, 1)
        position = harness.accumulator.appender.append_many(
            deliveries, "t", partition, 1, values, harness.now, harness.cluster
        )
        return position, deliveries

    @pytest.mark.parametrize("partition", [0, -1])
    def test_it_gives_what_as_many_single_appends_give(self, partition: int) -> None:
        values = [b"%04d" % number * (number % 30) for number in range(2000)]
        harness = Harness(batch_size=2000)
        position, deliveries = self.append(harness, values, partition)
        assert position == len(deliveries) == len(values)
        harness.check()
        for number, batch in enumerate(harness.drain_all()):
            harness.complete(batch, 10_000 * number)
        assert harness.accumulator.delivered == len(values)
        assert harness.pool.held == 0
        outcomes = deliveries.results()
        sizes = [(item.serialized_key_size, item.serialized_value_size) for item in outcomes]  # type: ignore[union-attr]
        assert sizes == [(-1, len(value)) for value in values]
        by_place: dict[tuple[int, int], bytes] = {}
        for outcome, value in zip(outcomes, values, strict=True):
            by_place[outcome.partition, outcome.offset] = value  # type: ignore[union-attr]
        assert len(by_place) == len(values)

    def test_order_holds_within_a_partition(self) -> None:
        values = [b"%04d" % number for number in range(2000)]
        harness = Harness(batch_size=2000)
        self.append(harness, values, -1)
        found: dict[TopicPartition, list[bytes]] = {}
        for batch in harness.drain_all():
            found.setdefault(batch.topic_partition, []).extend(values_of(batch))
        assert all(in_partition == sorted(in_partition) for in_partition in found.values())
        assert sum(map(len, found.values())) == 2000

    def test_it_stops_where_memory_ends_and_says_where(self) -> None:
        harness = Harness(buffer_memory=16 * KIB, batch_size=4 * KIB)
        values = [b"x" * 100] * 1000
        position, deliveries = self.append(harness, values)
        assert 50 < position < 200
        assert len(deliveries) == position == harness.accumulator.accepted
        assert harness.pool.held <= 16 * KIB
        harness.check()
        assert self.append(harness, values)[0] == 0

    def test_a_bad_record_stops_it_and_what_came_before_is_accepted(self) -> None:
        harness = Harness()
        values = [b"a", b"b", "text", b"c"]
        deliveries = DeliveryList(values, None, 1)
        with pytest.raises(TypeError):
            harness.accumulator.appender.append_many(deliveries, "t", 0, 1, values, harness.now, harness.cluster)
        assert len(deliveries) == harness.accumulator.accepted == 2
        harness.check()
        values = [b"a", b"x" * (2 * 1024 * KIB)]
        deliveries = DeliveryList(values, None, 1)
        with pytest.raises(RecordTooLargeError):
            harness.accumulator.appender.append_many(deliveries, "t", 0, 1, values, harness.now, harness.cluster)
        assert len(deliveries) == 1
        harness.check()

    def test_it_does_not_overtake_those_who_wait(self) -> None:
        harness = full_harness()
        Waiters(harness).add(0, b"x" * 1500)
        assert self.append(harness, [b""], 1)[0] == 0


class TestMemory:
    @pytest.mark.parametrize("memory", [600, 1000, 2 * KIB, 5000, 8 * KIB, 100_000])
    @pytest.mark.parametrize("batch_size", [100, 1000, 16 * KIB, 128 * KIB])
    def test_it_is_never_exceeded_and_comes_back_to_the_last_byte(self, memory: int, batch_size: int) -> None:
        harness = Harness(buffer_memory=memory, batch_size=batch_size)
        sizes = [1, 5, 50, 300, 500, 900, 2000, 4000, 20_000]
        deliveries = 0
        for number in range(300):
            value = b"x" * sizes[number * 7 % len(sizes)]
            if len(value) + 200 > memory:
                continue
            delivery = harness.append(value, number % 2)
            harness.check()
            if delivery is None:
                # Everything is ready at once for somebody who waits; when all is sent, there is room.
                batches = harness.drain_all()
                assert batches
                for batch in batches:
                    harness.complete(batch)
                assert harness.pool.held == 0
                assert harness.append(value, number % 2) is not None
            deliveries += 1
        assert harness.pool.most_held <= max(memory, 4096)
        for batch in harness.drain_all():
            harness.complete(batch)
        assert harness.pool.held == 0
        assert harness.accumulator.delivered == deliveries > 100

    def test_a_small_batch_holds_little(self) -> None:
        harness = Harness({"t": [1] * 100}, batch_size=128 * KIB)
        for partition in range(100):
            harness.append_ok(b"x" * 100, partition)
        assert harness.pool.held <= 100 * 600

    def test_what_a_batch_holds_grows_with_what_is_in_it(self) -> None:
        harness = Harness(batch_size=128 * KIB)
        size = 0
        for _ in range(1000):
            harness.append_ok(b"x" * 100)
            size += 100
            assert harness.pool.held <= max(4096, 1.5 * size)

    def test_memory_is_given_back_once(self) -> None:
        harness = Harness()
        harness.append_ok()
        (batch,) = harness.drain()
        batch.complete(0)
        harness.accumulator.deallocate(batch)
        harness.accumulator.deallocate(batch)
        assert harness.pool.held == 0

    def test_the_last_batch_is_not_kept_alive(self) -> None:
        harness = Harness()
        delivery = harness.append_ok()
        (batch,) = harness.drain()
        result = batch.produce_result
        gone = weakref.ref(result)
        harness.complete(batch)
        del batch, delivery, result
        assert gone() is None

    def test_a_full_pool_says_what_it_is_full_of(self) -> None:
        harness = full_harness()
        text = str(harness.accumulator.appender.buffer_exhausted_error("t", 1))
        assert "'t'" in text
        assert f"{harness.pool.held} of 8192 bytes held by {harness.accumulator.batch_count} batches" in text


class TestWaiters:
    def test_room_is_given_first_come_first_served_and_to_as_many_as_fit(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        for number in range(10):
            waiters.add(number, b"x" * 1500)
        assert harness.accumulator.waiting == 10
        assert harness.accumulator.is_hurried
        batches = harness.drain_all()
        assert waiters.granted == []
        for number, batch in enumerate(batches):
            harness.complete(batch)
            assert waiters.granted == list(range(number + 1))
            harness.check()
        assert harness.accumulator.waiting == 10 - len(batches)

    def test_nobody_overtakes_not_even_to_another_partition_with_a_small_record(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 1500)
        assert harness.append(b"", 1) is None
        waiters.add(1, b"", 1)
        assert waiters.granted == []
        for batch in harness.drain_all():
            harness.complete(batch)
        assert waiters.granted == [0, 1]
        assert harness.accumulator.waiting == 0
        assert harness.append(b"", 1) is not None

    def test_a_large_one_at_the_head_holds_up_the_small_ones_until_it_fits(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 6000)
        waiters.add(1, b"y")
        for batch in harness.drain_all():
            assert waiters.granted == []
            assert harness.pool.available < 7000
            harness.complete(batch)
            if waiters.granted:
                break
        for batch in harness.accumulator.incomplete[:-1]:
            harness.complete(batch)
        assert waiters.granted == [0, 1]

    def test_one_that_finds_room_is_granted_at_once(self) -> None:
        harness = Harness()
        waiters = Waiters(harness)
        record = waiters.add(0)
        assert waiters.granted == [0]
        assert not waiters.appender.is_waiting(record)
        assert harness.accumulator.waiting == 0

    def test_the_first_to_wait_wakes_the_sender(self) -> None:
        harness = full_harness()
        harness.wakeups = 0
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 1500)
        assert harness.wakeups == 1
        waiters.add(1, b"x" * 1500)
        assert harness.wakeups == 1

    def test_when_the_first_leaves_the_next_may_fit(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        head = waiters.add(0, b"x" * 6000)
        waiters.add(1, b"y", 1)
        harness.complete(harness.drain()[0])
        assert waiters.appender.is_waiting(head)
        assert waiters.leave(head)
        assert waiters.granted == [1]
        assert not waiters.appender.is_waiting(head)
        assert not waiters.leave(head)
        assert harness.accumulator.waiting == 0

    def test_a_record_that_turns_out_bad_fails_alone(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        text: Any = memoryview(bytearray(b"ok"))
        waiters.add(9, b"x" * 1500)
        waiters.add(0, text)
        text.release()
        waiters.add(1, b"y")
        harness.complete(harness.drain()[0])
        harness.complete(harness.drain()[0])
        assert isinstance(waiters.failed[0], ValueError)
        assert waiters.granted == [9, 1]
        harness.check()

    def test_nobody_is_told_of_room_when_nobody_waits(self) -> None:
        harness = full_harness()
        calls: list[int] = []
        harness.accumulator.on_room = lambda: calls.append(1)
        harness.complete(harness.drain()[0])
        assert calls == []

    def test_too_large_a_record_does_not_get_into_the_line(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 1500)
        with pytest.raises(RecordTooLargeError):
            waiters.add(1, b"x" * 9000)
        assert harness.accumulator.waiting == 1

    def test_a_line_that_is_cleared_gives_nobody_out(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        record = waiters.add(0, b"x" * 1500)
        waiters.appender.clear_line()
        assert harness.accumulator.waiting == 0
        assert not waiters.leave(record)
        harness.complete(harness.drain()[0])
        assert (waiters.granted, waiters.failed) == ([], {})

    def test_a_batch_that_wants_more_memory_is_not_favoured_over_those_who_wait(self) -> None:
        harness = Harness(buffer_memory=8 * KIB, batch_size=8 * KIB)
        while harness.append(b"x" * 100) is not None:
            pass
        waiters = Waiters(harness)
        for number in range(3):
            waiters.add(number, b"%d" % number * 100)
        assert waiters.granted == []
        assert harness.append(b"y" * 100) is None
        (batch,) = harness.drain()
        harness.complete(batch)
        assert waiters.granted == [0, 1, 2]
        assert [values_of(batch) for batch in harness.drain_all()] == [[b"%d" % number * 100 for number in range(3)]]

    def test_closing_fails_all_who_wait(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        for number in range(3):
            waiters.add(number, b"x" * 1500)
        harness.accumulator.close()
        assert list(waiters.failed) == [0, 1, 2]
        assert all(isinstance(error, ProducerClosedError) for error in waiters.failed.values())
        assert harness.accumulator.waiting == 0
        for batch in harness.drain_all():
            harness.complete(batch)
        assert waiters.granted == []

    @pytest.mark.parametrize("partition", [-1, None])
    def test_the_sticky_partition_is_chosen_when_there_is_room(self, partition: int | None) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 1500, partition)
        harness.complete(harness.drain()[0])
        assert waiters.granted == [0]

    def test_those_who_come_in_late_have_their_whole_delivery_time(self) -> None:
        harness = full_harness(delivery_timeout_ms=60_000, linger_ms=0, request_timeout_ms=30_000)
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 1500)
        (batch,) = harness.drain()
        harness.now += 50
        harness.complete(batch)
        assert waiters.granted == [0]
        granted = harness.accumulator.incomplete[-1]
        assert granted.created == harness.now

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["append", "append", "drain", "complete", "fail", "cancel", "retry", "expire"]),
                st.integers(0, 3000),
            ),
            max_size=120,
        ),
        st.sampled_from([3500, 8 * KIB, 20 * KIB]),
        st.sampled_from([500, 4 * KIB, 128 * KIB]),
        st.sampled_from([Compression.NONE, Compression.SNAPPY]),
    )
    def test_any_history_keeps_order_memory_and_accounts(
        self, steps: list[tuple[str, int]], memory: int, batch_size: int, codec: Compression
    ) -> None:
        harness = Harness(
            buffer_memory=memory, batch_size=batch_size, compression_type=codec.codec_name, reserve=memory // 8
        )
        history = History(harness)
        for step, argument in steps:
            getattr(history, step)(argument)
            harness.check()
            # Compression's own buffers aside, only the odd slack of a single record's block may be over.
            assert harness.pool.held <= max(memory, 4096)
            assert history.waiters.granted == sorted(history.waiters.granted)
        history.finish()


class History:
    """Random steps on an accumulator, and what must come out of them."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.waiters = Waiters(harness)
        self.in_flight: list[ProducerBatch] = []
        self.number = 0
        self.places: dict[int, tuple[int, int]] = {}
        self.written: dict[int, list[int]] = {0: [], 1: []}
        self.called: dict[int, list[int]] = {0: [], 1: []}
        self.lost: set[int] = set()

    def append(self, size: int) -> None:
        number, partition = self.number, self.number % 2
        self.number += 1
        value = b"%06d" % number + b"." * size
        self.called[partition].append(number)
        if self.harness.append(value, partition) is None:
            self.waiters.add(number, value, partition)

    def drain(self, _: int) -> None:
        self.in_flight += self.harness.drain()

    def complete(self, _: int) -> None:
        if self.in_flight:
            batch = self.in_flight.pop(0)
            numbers = [int(value[:6]) for value in values_of(batch)]
            self.written[batch.topic_partition.partition] += numbers
            self.harness.complete(batch)

    def fail(self, _: int) -> None:
        if self.in_flight:
            batch = self.in_flight.pop(0)
            self.lost.update(int(value[:6]) for value in values_of(batch))
            self.harness.fail(batch)

    def cancel(self, argument: int) -> None:
        self.leave(argument)

    def retry(self, argument: int) -> None:
        """As when a connection is lost: all come back; one is found too large, perhaps."""
        for batch in self.in_flight:
            if argument % 3 == 0 and batch.record_count > 1:
                self.harness.accumulator.split_and_reenqueue(batch)
            else:
                self.harness.accumulator.reenqueue(batch, self.harness.now)
        self.in_flight.clear()
        self.harness.now += 2

    def expire(self, argument: int) -> None:
        """The one that waits longest gives up."""
        self.harness.now += argument / 300
        self.leave(0)

    def leave(self, index: int) -> None:
        waiting = [record for record in self.waiters.records.values() if self.waiters.appender.is_waiting(record)]
        if waiting:
            record = waiting[index % len(waiting)]
            assert self.waiters.leave(record)
            self.lost.add(record.number)

    def finish(self) -> None:
        accumulator = self.harness.accumulator
        while accumulator.has_incomplete or accumulator.waiting:
            self.harness.now += 2
            self.drain(0)
            assert self.in_flight or not accumulator.waiting
            while self.in_flight:
                self.complete(0)
        assert self.harness.pool.held == 0
        assert accumulator.accepted == accumulator.delivered + accumulator.failed
        for partition, called in self.called.items():
            assert self.written[partition] == [number for number in called if number not in self.lost]


class TestReady:
    def test_nothing_is_ready_of_nothing(self) -> None:
        harness = Harness()
        assert harness.ready() == (set(), inf, set())
        assert harness.accumulator.next_expiry_time == inf

    def test_without_linger_a_record_is_ready_at_once(self) -> None:
        harness = Harness(linger_ms=0)
        harness.append_ok()
        assert harness.ready() == ({1}, inf, set())

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

    def test_in_flight_is_asked_once_a_node(self) -> None:
        harness = Harness({"t": [1] * 50}, linger_ms=None)
        for partition in range(50):
            harness.append_ok(partition=partition)
        asked: list[int] = []
        harness.accumulator.ready(harness.cluster, harness.now, lambda node_id: asked.append(node_id) or 1)
        assert asked == [1]

    def test_topics_without_a_leader_are_told_and_hold_up_no_other(self) -> None:
        harness = Harness({"t": [1, NO_LEADER], "u": [99]})
        harness.append_ok(partition=0)
        harness.append_ok(partition=1)
        harness.append_ok(topic="u")
        harness.append_ok(topic="unknown")
        assert harness.ready() == ({1}, inf, {"t", "u", "unknown"})
        assert [batch.topic_partition for batch in harness.drain_all(1, 2)] == [T0]
        harness.cluster = cluster_of({"t": [1, 2], "u": [2], "unknown": [1]})
        assert harness.ready().ready_nodes == {1, 2}
        assert len(harness.drain_all(1, 2)) == 3

    def test_a_muted_partition_is_neither_ready_nor_drained(self) -> None:
        harness = Harness()
        harness.append_ok()
        harness.accumulator.mute_partition(T0)
        assert harness.accumulator.is_muted(T0)
        assert harness.ready() == (set(), inf, set())
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
            assert harness.accumulator.flush_in_progress
        elif why == "close":
            harness.accumulator.close()
        else:
            Waiters(harness).add(0, b"x" * 7900, 1)
        assert harness.accumulator.is_hurried
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
            def partition(self, topic_partition: TopicPartition) -> Any:
                looked.append(topic_partition)
                return harness.cluster.partition(topic_partition)

            def node_by_id(self, node_id: int) -> Any:
                return harness.cluster.node_by_id(node_id)

        harness.append_ok(partition=7)
        view: Any = Looking()
        assert harness.accumulator.ready(view, harness.now, lambda _: 0).ready_nodes == {1}
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
        assert harness.accumulator.queue_sizes() == dict.fromkeys(
            (TopicPartition("t", partition) for partition in range(3)), 2
        )

    def test_the_size_of_a_request_is_kept_and_who_was_left_out_is_first_next_time(self) -> None:
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
        assert not harness.accumulator.has_undrained
        assert harness.accumulator.has_incomplete

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


class TestComingBack:
    def test_batches_find_their_places_whatever_the_order_of_their_return(self) -> None:
        harness = Harness(batch_size=150)
        for number in range(6):
            harness.append_ok(b"%d" % number * 100)
        drained = [harness.drain()[0] for _ in range(4)]
        for index in (2, 0, 3, 1):
            harness.accumulator.reenqueue(drained[index], harness.now)
        harness.now += 5
        assert [values_of(batch)[0][:1] for batch in harness.drain_all()] == [b"0", b"1", b"2", b"3", b"4", b"5"]

    def test_a_batch_too_large_is_halved_in_its_place(self) -> None:
        harness = Harness(idempotent=True, batch_size=2000)
        harness.prime()
        deliveries = [harness.append_ok(b"%02d" % number * 50) for number in range(40)]
        first, second = harness.drain() + harness.drain()
        harness.accumulator.reenqueue(second, harness.now)
        harness.now += 1
        assert harness.accumulator.split_and_reenqueue(first) >= 2
        harness.check()
        assert first.memory == 0
        batches: list[ProducerBatch] = []
        while harness.accumulator.queue_sizes():
            batch = harness.drain()[0]
            batches.append(batch)
            harness.complete(batch, batch.base_sequence)
        assert [value[:2] for batch in batches for value in values_of(batch)] == [b"%02d" % at for at in range(40)]
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 41))
        assert harness.pool.held == 0
        assert harness.accumulator.delivered == 41

    @pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
    @pytest.mark.parametrize("largest", [90, 200, 700, 5000])
    def test_halving_goes_on_until_all_fit_or_stand_alone(self, codec: str, largest: int) -> None:
        """A broker that takes batches of so many bytes only."""
        harness = Harness(idempotent=True, batch_size=16 * KIB, compression_type=codec)
        values = [bytes([number]) * (5 + number % 60) for number in range(100)]
        deliveries = [harness.append_ok(value) for value in values]
        taken: list[bytes] = []
        sequence = rounds = 0
        while harness.accumulator.has_incomplete:
            rounds += 1
            assert rounds < 500
            (batch,) = harness.drain()
            if len(wire_bytes(batch)) <= largest:
                assert batch.base_sequence == sequence
                taken += values_of(batch)
                sequence += batch.record_count
                harness.complete(batch, batch.base_sequence)
            elif batch.record_count > 1:
                harness.accumulator.split_and_reenqueue(batch)
            else:
                with pytest.raises(IllegalStateError, match="one record"):
                    harness.accumulator.split_and_reenqueue(batch)
                sequence += 1
                harness.fail(batch, RecordTooLargeError("too large"))
            harness.check()
        lost = [index for index, delivery in enumerate(deliveries) if delivery.exception() is not None]
        assert taken == [value for index, value in enumerate(values) if index not in lost]
        assert lost == [] or largest == 90
        assert harness.pool.held == 0

    def test_records_that_the_broker_named_fail_and_the_others_are_sent_again_with_a_new_epoch(self) -> None:
        harness = Harness(idempotent=True)
        deliveries = [harness.append_ok(b"%d" % number) for number in range(4)]
        (batch,) = harness.drain()
        rest = harness.accumulator.remove_records_and_reenqueue(batch, {2: KafkaError("poison")})
        assert rest is not None
        harness.check()
        assert harness.drain() == []  # not before the bump
        assert harness.manager is not None
        assert harness.manager.bump_epoch_if_needed(lambda _: False)
        (again,) = harness.drain()
        assert again is rest
        found = RecordBatch(memoryview(wire_bytes(rest)))
        assert (found.producer_epoch, found.base_sequence) == (1, 0)
        harness.complete(rest, 10)
        assert str(deliveries[2].exception()) == "poison"
        assert [delivery.result().offset for delivery in deliveries if delivery.exception() is None] == [10, 11, 12]
        assert harness.pool.held == 0

    def test_all_records_of_a_batch_may_be_named(self) -> None:
        harness = Harness()
        harness.append_ok()
        (batch,) = harness.drain()
        assert harness.accumulator.remove_records_and_reenqueue(batch, {0: KafkaError("poison")}) is None
        assert harness.pool.held == 0
        assert not harness.accumulator.has_incomplete

    def test_memory_that_a_split_gives_back_goes_to_those_who_wait(self) -> None:
        harness = Harness(buffer_memory=8 * KIB, batch_size=8 * KIB)
        while harness.append(b"x" * 100) is not None:
            pass
        waiters = Waiters(harness)
        waiters.add(0, b"y")
        (batch,) = harness.drain()
        harness.accumulator.split_and_reenqueue(batch)
        harness.check()
        for piece in harness.drain_all():
            harness.complete(piece)
        assert waiters.granted == [0]


class TestExpiry:
    def test_a_batch_expires_at_its_time_whether_it_was_sent_or_not(self) -> None:
        harness = Harness(delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        created = harness.now
        harness.append_ok(b"x", 0)
        (batch,) = harness.drain()
        harness.now += 1
        harness.accumulator.reenqueue(batch, harness.now)
        harness.append_ok(b"y", 1)
        assert harness.accumulator.next_expiry_time == created + 30
        assert harness.accumulator.expired_batches(created + 29.9) == []
        assert harness.accumulator.expired_batches(created + 30) == [batch]
        assert harness.accumulator.next_expiry_time == created + 31
        assert not batch.is_done
        harness.fail(batch)
        (other,) = harness.accumulator.expired_batches(created + 31)
        assert values_of(other) == [b"y"]
        assert not other.has_been_sent
        harness.fail(other)
        assert harness.accumulator.next_expiry_time == inf
        assert harness.pool.held == 0
        assert not harness.accumulator.has_undrained

    def test_all_of_a_partition_that_are_too_old_go_and_the_others_stay(self) -> None:
        harness = Harness(batch_size=150, delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        for number in range(5):
            harness.append_ok(b"%d" % number * 100)
            harness.now += 1
        expired = harness.accumulator.expired_batches(1000.0 + 32)
        assert [values_of(batch)[0][:1] for batch in expired] == [b"0", b"1", b"2"]
        assert harness.accumulator.next_expiry_time == 1000.0 + 33
        # The last was open: what comes now does not go into a batch that is gone.
        harness.accumulator.expired_batches(1000.0 + 40)
        harness.append_ok(b"new")
        assert harness.accumulator.queue_sizes() == {T0: 1}

    def test_an_expired_batch_that_was_never_sent_leaves_no_gap(self) -> None:
        harness = Harness(idempotent=True, delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        harness.append_ok(b"lost")
        harness.now += 30
        (expired,) = harness.accumulator.expired_batches(harness.now)
        assert not expired.has_sequence
        harness.fail(expired)
        harness.append_ok(b"next")
        (batch,) = harness.drain()
        assert batch.base_sequence == 0


class TestCompression:
    def test_small_batches_are_compressed_at_drain_and_give_memory_back(self) -> None:
        harness = Harness(compression_type="lz4")
        for _ in range(100):
            harness.append_ok(b"x" * 100)
        held = harness.pool.held
        (batch,) = harness.drain()
        assert harness.accumulator.take_compressions() == []
        assert harness.pool.held == batch.memory < held / 10
        assert batch.size == len(wire_bytes(batch))
        harness.check()
        harness.complete(batch)
        assert harness.pool.held == 0

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
        assert harness.pool.held == 0

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

    def test_one_that_is_filled_by_single_records_is_compressed_there_if_that_is_quick(self) -> None:
        for codec, handed_over in (("lz4", 0), ("gzip", 4)):
            harness = Harness(compression_type=codec, batch_size=64 * KIB)
            for _ in range(5):  # the fifth closes the fourth
                harness.append_ok(LARGE)
            assert len(harness.accumulator.take_compressions()) == handed_over, codec
            harness.check()

    def test_ones_that_are_filled_in_bulk_go_to_threads(self) -> None:
        harness = Harness(compression_type="lz4", batch_size=64 * KIB)
        accumulator = harness.accumulator
        values = [LARGE] * 5
        assert accumulator.appender.append_many(DeliveryList(values), "t", 0, 1, values, harness.now) == 5
        assert len(accumulator.take_compressions()) == 4
        harness.append_ok(LARGE)  # after, single ones are compressed at once again
        assert accumulator.take_compressions() == []

    def test_some_that_only_became_ready_are_compressed_on_their_way_if_that_is_quick(self) -> None:
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

    def test_ones_that_fill_up_as_memory_comes_back_go_to_a_thread(self) -> None:
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

    def test_without_memory_for_a_thread_one_goes_there_all_the_same(self) -> None:
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
        assert harness.pool.held == 0

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

    def test_one_that_expired_meanwhile_is_let_go_in_the_end(self) -> None:
        harness = Harness(compression_type="gzip", delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        harness.append_ok(LARGE)
        harness.ready()
        (batch,) = harness.accumulator.take_compressions()
        harness.now += 30
        assert harness.accumulator.expired_batches(harness.now) == [batch]
        harness.fail(batch)
        batch.compress()
        harness.accumulator.compressed(batch)
        assert harness.pool.held == 0
        assert harness.ready() == (set(), inf, set())

    def test_one_that_could_not_be_compressed_is_taken_out_of_its_queue(self) -> None:
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
        harness = Harness(compression_type="gzip", batch_size=40 * KIB, buffer_memory=150 * KIB, reserve=40 * KIB)
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


class TestFlush:
    def test_it_waits_for_what_was_there_and_not_for_what_comes(self) -> None:
        harness = Harness(linger_ms=60_000)
        harness.append_ok(b"a", 0)
        harness.append_ok(b"b", 1)
        settled: list[int] = []
        flush = harness.accumulator.begin_flush(lambda: settled.append(1))
        assert not flush.is_settled
        batches = harness.drain()
        harness.append_ok(b"later")
        for batch in batches:
            assert settled == []
            harness.complete(batch)
        assert settled == [1]
        flush.end()
        assert not harness.accumulator.flush_in_progress
        assert harness.accumulator.has_incomplete

    def test_two_at_once_end_each_for_itself(self) -> None:
        harness = Harness(linger_ms=60_000)
        harness.append_ok()
        first, second = (harness.accumulator.begin_flush(lambda: None) for _ in range(2))
        first.end()
        first.end()
        assert harness.accumulator.flush_in_progress
        second.end()
        assert not harness.accumulator.flush_in_progress

    def test_a_record_that_joins_the_open_batch_goes_with_it(self) -> None:
        harness = Harness(linger_ms=60_000)
        first = harness.append_ok(b"a")
        flush = harness.accumulator.begin_flush(lambda: None)
        second = harness.append_ok(b"b")
        (batch,) = harness.drain()
        harness.complete(batch, 5)
        assert flush.is_settled
        assert [delivery.result().offset for delivery in (first, second)] == [5, 6]


class TestAborting:
    def test_every_batch_is_aborted_also_those_in_flight(self) -> None:
        harness = Harness(batch_size=150)
        deliveries = [harness.append_ok(b"x" * 100, number % 2) for number in range(6)]
        drained = harness.drain()
        assert harness.accumulator.abort_batches(KafkaError("closed")) == 6
        assert all(str(delivery.exception()) == "closed" for delivery in deliveries)
        assert harness.pool.held == 0
        assert harness.accumulator.failed == harness.accumulator.accepted == 6
        assert not harness.accumulator.has_undrained
        for batch in drained:  # an answer that comes after all changes nothing
            assert not batch.complete(0)
            harness.accumulator.deallocate(batch)
        assert harness.pool.held == 0

    def test_each_batch_may_have_an_error_of_its_own(self) -> None:
        harness = Harness()
        deliveries = [harness.append_ok(b"x", partition) for partition in (0, 1)]
        harness.accumulator.abort_batches(lambda batch: KafkaError(f"of {batch.topic_partition.partition}"))
        assert [str(delivery.exception()) for delivery in deliveries] == ["of 0", "of 1"]

    def test_those_that_may_be_on_a_broker_can_be_spared(self) -> None:
        harness = Harness(batch_size=150)
        deliveries = [harness.append_ok(b"x" * 100) for _ in range(4)]
        first, second = harness.drain() + harness.drain()
        harness.accumulator.reenqueue(second, harness.now)
        assert harness.accumulator.abort_undrained(KafkaError("aborted")) == 2
        assert [delivery.done() for delivery in deliveries] == [False, False, True, True]
        assert harness.accumulator.queue_sizes() == {T0: 1}
        harness.complete(first)
        harness.now += 5
        assert harness.drain() == [second]

    def test_room_that_came_back_goes_to_those_who_wait(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 1500)
        harness.accumulator.abort_undrained(KafkaError("aborted"))
        assert waiters.granted == [0]

    def test_a_batch_that_is_compressed_in_a_thread_may_be_aborted(self) -> None:
        harness = Harness(compression_type="gzip")
        harness.append_ok(LARGE)
        harness.ready()
        (batch,) = harness.accumulator.take_compressions()
        harness.accumulator.abort_batches(KafkaError("closed"))
        batch.compress()
        harness.accumulator.compressed(batch)
        assert harness.pool.held == 0


class TestAccounts:
    def test_they_are_exact_whenever_anybody_may_look(self) -> None:
        harness = Harness(batch_size=300, idempotent=True)
        harness.prime(0, 1)
        accumulator = harness.accumulator
        looks = 0

        def look() -> None:
            nonlocal looks
            looks += 1
            assert accumulator.accepted == accumulator.delivered + accumulator.failed + accumulator.pending

        accumulator.wakeup = look
        for number in range(50):
            harness.append_ok(b"x" * (number % 7 * 40), number % 2)
            look()
        for number, batch in enumerate(harness.drain_all()):
            if number % 4 == 0 and batch.record_count > 1:
                accumulator.split_and_reenqueue(batch)
            elif number % 4 == 1:
                accumulator.reenqueue(batch, harness.now)
            elif number % 4 == 2:
                harness.fail(batch)
            else:
                harness.complete(batch)
            look()
        accumulator.abort_batches(KafkaError("closed"))
        look()
        assert looks > 60
        assert accumulator.pending == 0
        assert harness.pool.held == 0

    def test_counters_are_told(self) -> None:
        harness = Harness(buffer_memory=1 << 20)
        harness.append_ok(b"x" * 100)
        accumulator = harness.accumulator
        assert accumulator.batch_count == 1
        assert accumulator.buffered_bytes == harness.pool.held > 100
        assert accumulator.available_bytes == (1 << 20) - harness.pool.held
        assert accumulator.delivery_timeout == 120.0
        assert [batch.record_count for batch in accumulator.incomplete] == [1]

    def test_an_accumulator_that_is_thrown_away_lets_go_of_those_who_wait(self) -> None:
        harness = Harness()
        delivery = harness.append_ok()
        result = harness.accumulator.incomplete[0].produce_result
        loop = asyncio.new_event_loop()
        loop.run_until_complete(_watch(delivery))
        loop.close()
        accumulator, harness.accumulator = harness.accumulator, None  # type: ignore[assignment]
        assert isinstance(accumulator, RecordAccumulator)
        gone = weakref.ref(accumulator)
        del accumulator
        gc.collect()
        assert gone() is None
        assert not delivery.done()
        assert delivery.remove_done_callback(print) == 0
        result.fail(KafkaError("nobody hears it"))

    def test_batches_of_an_accumulator_that_is_thrown_away_are_freed(self) -> None:
        """The cyclic collector does not see them, and the account that they stand in refers to them."""
        harness = Harness()
        harness.append_ok()
        (in_flight,) = harness.drain()
        harness.append_ok(b"open")
        gone = [weakref.ref(batch.produce_result) for batch in harness.accumulator.incomplete]
        assert len(gone) == 2
        del in_flight, harness
        gc.collect()
        assert [reference() for reference in gone] == [None, None]

    @pytest.mark.skipif(not _form.compiled, reason="interpreted objects are always tracked")
    def test_batches_are_invisible_to_the_cyclic_collector(self) -> None:
        """Cython drops ``no_gc`` silently when it stands in the .pxd."""
        harness = Harness()
        harness.append_ok()
        assert not gc.is_tracked(harness.accumulator.incomplete[0])


async def _watch(delivery: Delivery) -> None:
    delivery.add_done_callback(print)


def newer_epoch(leader: int) -> Any:
    """A view in which the only partition of ``t`` has this leader, elected since."""
    cluster = cluster_of({"t": [leader]})
    topic = cluster.topic("t")
    assert topic is not None
    info = topic.partitions[0]._replace(leader_epoch=2)

    class View:
        def partition(self, _: TopicPartition) -> Any:
            return info

        def node_by_id(self, node_id: int) -> Any:
            return cluster.node_by_id(node_id)

    return View()
