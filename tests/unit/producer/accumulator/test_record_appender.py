"""The appender: a record's way into a batch, memory, and the line of those that wait for room."""

from __future__ import annotations

import weakref
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy import _form
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
    RecordTooLargeError,
)
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList
from aiokafkapy.producer.deliveries.produce_request_result import ProduceRequestResult
from aiokafkapy.producer.records import RecordMetadata
from aiokafkapy.record.compression import Compression

from ..accumulator_harness import KIB, Harness, Waiters, full_harness, values_of
from ..sender_fakes import cluster_of

STEPS = [
    "append", "append", "append", "drain", "complete", "fail", "cancel", "retry", "expire", "purge", "overdue", "drop",
]  # fmt: skip


def append_many(harness: Harness, deliveries: DeliveryList, values: list[Any]) -> int:
    appender = harness.accumulator.appender
    return appender.append_many(deliveries, "t", 1, values, 0, len(values), harness.now, harness.cluster)


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
        if _form.compiled:  # in few pieces, then; a bytearray gives back its unused bytes
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
        assert harness.held == 0
        assert harness.accumulator.batch_count == 0

    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize(
        "bad", [{"value": "text"}, {"key": 3}, {"headers": (("h", 1.5),)}, {"headers": ((b"h", b""),)}]
    )
    def test_a_record_without_bytes_harms_nothing(self, bad: dict[str, Any], is_first: bool) -> None:
        harness = Harness()
        if not is_first:
            harness.append_ok(b"good")
        held = harness.held
        with pytest.raises((TypeError, AttributeError)):
            harness.append(**bad)
        assert harness.held == held
        harness.check()
        harness.append_ok(b"good")
        (batch,) = harness.drain()
        assert values_of(batch) == [b"good"] * (1 if is_first else 2)
        harness.complete(batch)
        assert harness.held == 0

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

    @pytest.mark.parametrize("is_open", [True, False])
    @pytest.mark.parametrize("leaders", [[-1, 1, -1, -1], [1]], ids=["leaderless", "recreated with fewer"])
    def test_sticky_records_leave_a_partition_without_a_leader(self, leaders: list[int], is_open: bool) -> None:
        for _ in range(20):  # the sticky partition is any
            harness = Harness({"t": [1] * 4})
            harness.append_ok(partition=-1)
            if not is_open:
                harness.complete(harness.drain()[0])
            harness.cluster = cluster_of({"t": leaders})
            harness.ready()
            for _ in range(10):
                harness.append_ok(partition=-1)
            with_leader = {number for number, leader in enumerate(leaders) if leader > 0}
            found = Counter(
                batch.topic_partition.partition in with_leader
                for batch in harness.accumulator.incomplete
                for _ in range(batch.record_count)
            )
            assert found[True] >= 10
            assert found[False] <= is_open

    def test_sticky_records_stay_where_no_partition_has_a_leader(self) -> None:
        harness = Harness({"t": [1] * 4})
        harness.cluster = cluster_of({"t": [-1] * 4})
        for _ in range(10):
            harness.append_ok(partition=-1)
            harness.ready()
        assert len(harness.accumulator.incomplete) == 1

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
        append_many(harness, deliveries, [b"x" * 10] * 2)
        assert harness.wakeups >= 2
        assert harness.ready().ready_nodes == {1}


class TestAppendMany:
    def append(self, harness: Harness, values: list[Any]) -> tuple[int, DeliveryList]:
        deliveries = DeliveryList(values, 1)
        return append_many(harness, deliveries, values), deliveries

    def test_it_gives_the_result_of_as_many_single_appends(self) -> None:
        values = [b"%04d" % number * (number % 30) for number in range(2000)]
        harness = Harness(batch_size=2000)
        position, deliveries = self.append(harness, values)
        assert position == len(deliveries) == len(values)
        harness.check()
        for number, batch in enumerate(harness.drain_all()):
            harness.complete(batch, 10_000 * number)
        assert harness.accumulator.delivered == len(values)
        assert harness.held == 0
        outcomes = [outcome for outcome in deliveries.results() if isinstance(outcome, RecordMetadata)]
        sizes = [(item.serialized_key_size, item.serialized_value_size) for item in outcomes]
        assert sizes == [(-1, len(value)) for value in values]
        by_place: dict[tuple[int, int], bytes] = {}
        for outcome, value in zip(outcomes, values, strict=True):
            by_place[outcome.partition, outcome.offset] = value
        assert len(by_place) == len(values)

    def test_order_holds_within_a_partition(self) -> None:
        values = [b"%04d" % number for number in range(2000)]
        harness = Harness(batch_size=2000)
        self.append(harness, values)
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
        assert harness.held <= 16 * KIB
        harness.check()
        assert self.append(harness, values)[0] == 0

    def test_a_bad_record_stops_it_and_the_records_before_are_accepted(self) -> None:
        harness = Harness()
        values: list[Any] = [b"a", b"b", "text", b"c"]
        deliveries = DeliveryList(values, 1)
        with pytest.raises(TypeError):
            append_many(harness, deliveries, values)
        assert len(deliveries) == harness.accumulator.accepted == 2
        harness.check()
        values = [b"a", b"x" * (2 * 1024 * KIB)]
        deliveries = DeliveryList(values, 1)
        with pytest.raises(RecordTooLargeError):
            append_many(harness, deliveries, values)
        assert len(deliveries) == 1
        harness.check()

    def test_it_does_not_overtake_waiting_records(self) -> None:
        harness = full_harness()
        Waiters(harness).add(0, b"x" * 1500)
        assert self.append(harness, [b""])[0] == 0


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
            assert harness.held <= max(memory, 4096)
            if delivery is None:
                # Everything is ready at once while a caller waits; when all is sent, there is room.
                batches = harness.drain_all()
                assert batches
                for batch in batches:
                    harness.complete(batch)
                assert harness.held == 0
                assert harness.append(value, number % 2) is not None
            deliveries += 1
        for batch in harness.drain_all():
            harness.complete(batch)
        assert harness.held == 0
        assert harness.accumulator.delivered == deliveries > 100

    def test_a_small_batch_holds_little(self) -> None:
        harness = Harness({"t": [1] * 100}, batch_size=128 * KIB)
        for partition in range(100):
            harness.append_ok(b"x" * 100, partition)
        assert harness.held <= 100 * 600

    def test_the_memory_of_a_batch_grows_with_its_records(self) -> None:
        harness = Harness(batch_size=128 * KIB)
        size = 0
        for _ in range(1000):
            harness.append_ok(b"x" * 100)
            size += 100
            assert harness.held <= max(4096, 1.5 * size)

    def test_memory_is_given_back_once(self) -> None:
        harness = Harness()
        harness.append_ok()
        (batch,) = harness.drain()
        batch.complete(0)
        harness.accumulator.deallocate(batch)
        harness.accumulator.deallocate(batch)
        assert harness.held == 0

    def test_the_last_batch_is_not_kept_alive(self) -> None:
        harness = Harness()
        delivery = harness.append_ok()
        (batch,) = harness.drain()
        result = batch.produce_result
        gone = weakref.ref(result)
        harness.complete(batch)
        del batch, delivery, result
        assert gone() is None

    def test_the_error_of_a_full_pool_says_which_bound_was_reached(self) -> None:
        harness = full_harness()
        text = str(harness.accumulator.appender.buffer_exhausted_error("t", 1))
        assert "'t'" in text
        assert f"{harness.held} of 8192 bytes held by {harness.accumulator.batch_count} batches" in text


class TestBoundInRecords:
    def test_so_many_are_accepted_and_the_error_says_which_bound_it_was(self) -> None:
        harness = Harness(buffer_records=3, batch_size=200)
        for _ in range(3):
            harness.append_ok(b"x" * 100)
        assert harness.append(b"x") is None
        text = str(harness.accumulator.appender.buffer_exhausted_error("t"))
        assert "buffer_records is full (3 of 3 records without an outcome in 3 batches, 0 records waiting)" in text
        assert harness.accumulator.accepted == 3

    def test_outcomes_make_room_whether_good_or_bad(self) -> None:
        harness = Harness(buffer_records=4, batch_size=200)
        for number in range(4):
            harness.append_ok(b"x" * 100, number % 2)
        first, second = harness.drain()
        harness.complete(first)
        harness.append_ok()
        assert harness.append() is None
        harness.fail(second)
        harness.append_ok()
        assert harness.append() is None
        harness.check()

    def test_exactly_as_many_wake_as_fit(self) -> None:
        harness = Harness(buffer_records=5)
        for _ in range(5):
            harness.append_ok()
        waiters = Waiters(harness)
        for number in range(9):
            waiters.add(number)
        assert waiters.granted == []
        (batch,) = harness.drain()
        harness.complete(batch)
        assert waiters.granted == [0, 1, 2, 3, 4]
        assert harness.append() is None  # it would overtake the others
        harness.check()

    def test_both_bounds_hold_and_memory_may_be_the_first(self) -> None:
        harness = full_harness(buffer_records=1000)
        assert "buffer_memory is full" in str(harness.accumulator.appender.buffer_exhausted_error("t"))

    @pytest.mark.parametrize("limit", [1, 7, 64])
    def test_many_at_once_stop_at_the_bound(self, limit: int) -> None:
        harness = Harness(buffer_records=limit)
        deliveries = DeliveryList([1] * 200, 1)
        accepted = append_many(harness, deliveries, [b"x"] * 200)
        assert accepted == len(deliveries) == harness.accumulator.accepted == limit
        for batch in harness.drain_all():
            harness.complete(batch)
        assert harness.append_ok() is not None
        harness.check()

    def test_a_batch_that_has_its_outcome_on_the_wire_counts_no_longer(self) -> None:
        harness = Harness(buffer_records=1)
        harness.append_ok()
        waiters = Waiters(harness)
        waiters.add(0)
        (batch,) = harness.drain()
        batch.fail(KafkaError("expired"))
        harness.accumulator.settled_on_the_wire()
        assert waiters.granted == [0]
        assert harness.held > 0  # the transport may hold its bytes


class TestWaiters:
    def test_room_is_given_first_come_first_served_and_to_as_many_as_fit(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        for number in range(10):
            waiters.add(number, b"x" * 1500)
        assert harness.accumulator.appender.waiting == 10
        batches = harness.drain_all()
        assert waiters.granted == []
        for number, batch in enumerate(batches):
            harness.complete(batch)
            assert waiters.granted == list(range(number + 1))
            harness.check()
        assert harness.accumulator.appender.waiting == 10 - len(batches)

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
        assert harness.accumulator.appender.waiting == 0
        assert harness.append(b"", 1) is not None

    def test_a_large_one_at_the_head_holds_up_the_small_ones_until_it_fits(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        waiters.add(0, b"x" * 6000)
        waiters.add(1, b"y")
        for batch in harness.drain_all():
            assert waiters.granted == []
            assert harness.accumulator.available_bytes < 7000
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
        assert harness.accumulator.appender.waiting == 0

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
        assert harness.accumulator.appender.waiting == 0

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

    def test_room_is_not_reported_when_nobody_waits(self) -> None:
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
        assert harness.accumulator.appender.waiting == 1

    def test_a_cleared_line_grants_no_record(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        record = waiters.add(0, b"x" * 1500)
        waiters.appender.clear_line()
        assert harness.accumulator.appender.waiting == 0
        assert not waiters.leave(record)
        harness.complete(harness.drain()[0])
        assert (waiters.granted, waiters.failed) == ([], {})

    def test_a_batch_that_wants_more_memory_is_not_favoured_over_waiting_records(self) -> None:
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

    def test_closing_fails_all_waiting_records(self) -> None:
        harness = full_harness()
        waiters = Waiters(harness)
        for number in range(3):
            waiters.add(number, b"x" * 1500)
        harness.accumulator.close()
        assert list(waiters.failed) == [0, 1, 2]
        assert all(isinstance(error, ProducerClosedError) for error in waiters.failed.values())
        assert harness.accumulator.appender.waiting == 0
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

    def test_records_let_in_late_have_their_whole_delivery_time(self) -> None:
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
                st.sampled_from(STEPS),
                st.integers(0, 3000),
            ),
            max_size=120,
        ),
        st.sampled_from([3500, 8 * KIB, 20 * KIB]),
        st.sampled_from([500, 4 * KIB, 128 * KIB]),
        st.sampled_from([Compression.NONE, Compression.SNAPPY]),
        st.sampled_from([None, None, 1, 6]),
    )
    def test_any_history_keeps_order_memory_and_accounts(
        self, steps: list[tuple[str, int]], memory: int, batch_size: int, codec: Compression, records: int | None
    ) -> None:
        harness = Harness(
            buffer_memory=memory, batch_size=batch_size, compression_type=codec.codec_name, buffer_records=records
        )
        history = History(harness)
        for step, argument in steps:
            getattr(history, step)(argument)
            harness.check()
            # Compression's own buffers aside, only the odd slack of a single record's block may be over.
            assert harness.held <= max(memory, 4096)
            assert history.waiters.granted == sorted(history.waiters.granted)
        history.finish()


class History:
    """Random steps on an accumulator, and their expected results."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.waiters = Waiters(harness)
        self.in_flight: list[ProducerBatch] = []
        self.number = 0
        self.places: dict[int, tuple[int, int]] = {}
        self.written: dict[int, list[int]] = {0: [], 1: []}
        self.called: dict[int, list[int]] = {0: [], 1: []}
        self.lost: set[int] = set()
        self.overdue_of: dict[ProduceRequestResult, set[int]] = {}

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
        """All batches come back, as when a connection is lost; one is found too large, perhaps."""
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

    def purge(self, argument: int) -> None:
        """Unsent records of a partition are given up."""
        for batch in self.harness.accumulator.take_queued(lambda place: place.partition == argument % 2):
            self.lost.update(int(value[:6]) for value in values_of(batch))
            self.harness.fail(batch)

    def overdue(self, argument: int) -> None:
        """The time of some records in one batch is over."""
        batches = self.harness.accumulator.incomplete
        if not batches:
            return
        batch = batches[argument % len(batches)]
        # The bytes of records that left the batch may be there still; the others have a result of their own since then.
        left_already = batch.withdrawn or ()
        numbers = [int(value[:6]) for index, value in enumerate(values_of(batch)) if index not in left_already]
        named = self.overdue_of.setdefault(batch.produce_result, set())  # each once
        indexes = set(range(argument % 3, len(numbers), 3)) - named
        named |= indexes
        if batch.may_be_taken_back:
            self.lost.update(numbers[index] for index in indexes)
        left, told = self.harness.accumulator.expire_records(
            {batch.produce_result: indexes},
            lambda place, *, outcome_unknown: KafkaError(outcome_unknown=outcome_unknown),
        )
        assert left + told == len(indexes)

    def drop(self, _: int) -> None:
        """The oldest that was never sent goes."""
        lost: list[int] = []

        def error(batch: ProducerBatch) -> KafkaError:
            lost.extend({int(value[:6]) for value in values_of(batch)} - self.lost)
            return KafkaError("dropped")

        assert self.harness.accumulator.drop_oldest(lambda topic: topic == "t", error) == len(lost)
        self.lost.update(lost)

    def leave(self, index: int) -> None:
        waiting = [record for record in self.waiters.records.values() if self.waiters.appender.is_waiting(record)]
        if waiting:
            record = waiting[index % len(waiting)]
            assert self.waiters.leave(record)
            self.lost.add(record.number)

    def finish(self) -> None:
        accumulator = self.harness.accumulator
        while accumulator.batch_count or accumulator.appender.waiting:
            self.harness.now += 2
            self.drain(0)
            assert self.in_flight or not accumulator.appender.waiting
            while self.in_flight:
                self.complete(0)
        assert self.harness.held == 0
        assert accumulator.accepted == accumulator.delivered + accumulator.failed
        for partition, called in self.called.items():
            assert self.written[partition] == [number for number in called if number not in self.lost]
