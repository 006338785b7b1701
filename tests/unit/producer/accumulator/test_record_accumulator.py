"""The accumulator as a whole: batches that come back, expiry, flush, aborting and the accounts."""

from __future__ import annotations

import asyncio
import gc
import weakref
from math import inf
from typing import Any

import pytest

from aiokafkapy import _form
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    DeliveryTimeoutError,
    IllegalStateError,
    KafkaError,
    RecordTooLargeError,
)
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.accumulator.ready_batches import SPLIT_AT_ONCE
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.deliveries.delivery import Delivery, place_of
from aiokafkapy.producer.deliveries.produce_request_result import ProduceRequestResult
from aiokafkapy.record.batch import RecordBatch

from ..accumulator_harness import KIB, LARGE, T0, Harness, Waiters, full_harness, values_of, wire_bytes


class TestCodecOfATopic:
    def test_batches_are_compressed_by_a_new_setting_from_then_on(self) -> None:
        harness = Harness({"t": [1], "u": [1]}, batch_size=500, compression_type="auto")
        harness.append_ok(b"a" * 400)
        harness.accumulator.use_codec("t", 4, 1)
        harness.append_ok(b"b" * 400)
        harness.append_ok(b"c" * 400, topic="u")
        batches = {values_of(batch)[0][:1]: batch for batch in harness.drain_all()}
        found = {value: batch.builder.compression for value, batch in batches.items()}
        assert found == {b"a": 0, b"b": 4, b"c": 0}

    def test_memory_for_threads_is_kept_where_there_may_be_a_codec(self) -> None:
        for option, has_reserve in (("auto", True), ("none", False), ("lz4", True)):
            config = Harness(compression_type=option, buffer_memory=100 * KIB, max_request_size=95 * KIB).config
            appender = RecordAccumulator(config).appender
            assert appender.append("t", 0, 1, None, b"x" * 9 * KIB, None, 0.0) is not None
            large = appender.append("t", 1, 1, None, b"x" * 85 * KIB, None, 0.0)
            assert (large is None) == has_reserve


class TestLimitOfATopic:
    def test_batches_are_filled_no_further_and_a_record_that_cannot_fit_is_refused(self) -> None:
        harness = Harness(batch_size=10_000)
        told: list[str] = []
        refused: list[KafkaError] = []
        harness.accumulator.appender.on_over_limit = told.append
        harness.accumulator.appender.on_refusal = refused.append
        harness.accumulator.limit_topic("t", 500, harness.now + 10)
        for number in range(40):
            harness.append_ok(b"%02d" % number * 20)
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes of the topic, 500") as raised:
            harness.append(b"x" * 500)
        assert (told, refused) == (["t"], [raised.value])
        assert raised.value.limit == 500
        batches = harness.drain_all()
        assert all(batch.size <= 500 for batch in batches)
        assert len(batches) < 8
        harness.check()

    def test_a_figure_that_is_too_old_refuses_nothing(self) -> None:
        harness = Harness()
        harness.accumulator.limit_topic("t", 500, harness.now + 10)
        harness.now += 10
        harness.append_ok(b"x" * 500)
        harness.accumulator.limit_topic("t", 500, harness.now + 10)
        harness.accumulator.limit_topic("t", None, 0.0)
        harness.append_ok(b"x" * 500)

    def test_other_topics_and_larger_limits_change_nothing(self) -> None:
        harness = Harness({"t": [1], "u": [1]}, batch_size=1_000)
        harness.accumulator.limit_topic("u", 100, harness.now + 10)
        harness.accumulator.limit_topic("t", 2**62, harness.now + 10)
        harness.append_ok(b"x" * 400)
        harness.append_ok(b"y" * 400)
        (batch,) = harness.drain()
        assert values_of(batch) == [b"x" * 400, b"y" * 400]

    @pytest.mark.parametrize("idempotent", [False, True])
    def test_queued_batches_are_made_to_fit_in_their_order(self, idempotent: bool) -> None:
        harness = Harness(batch_size=1_000, idempotent=idempotent)
        deliveries = [harness.append_ok(b"%02d" % number * 20) for number in range(50)]
        harness.accumulator.limit_topic("t", 300, harness.now + 10)
        harness.check()
        written = []
        while batches := harness.drain():
            for batch in batches:
                assert batch.size <= 300
                written += values_of(batch)
                harness.complete(batch, 7)
        assert written == [b"%02d" % number * 20 for number in range(50)]
        assert all(delivery.done() for delivery in deliveries)
        harness.check()

    @pytest.mark.parametrize("idempotent", [False, True])
    def test_batches_are_split_when_they_are_sent_and_so_many_bytes_at_once(self, idempotent: bool) -> None:
        harness = Harness({"t": [1] * 40}, batch_size=30_000, idempotent=idempotent)
        values = [b"%02d" % number * 500 for number in range(29)]
        for partition in range(40):
            for value in values:
                harness.append_ok(value, partition)
        harness.accumulator.limit_topic("t", 2_000, harness.now + 10)
        whole = set(harness.accumulator.incomplete)
        assert len(whole) == 40
        written: dict[int, list[bytes]] = {partition: [] for partition in range(40)}
        while batches := harness.drain():
            left = whole.intersection(harness.accumulator.incomplete)
            assert sum(batch.size for batch in whole - left) < SPLIT_AT_ONCE + 30_000
            whole = left
            harness.check()
            for batch in batches:
                assert batch.size <= 2_000
                written[batch.topic_partition.partition] += values_of(batch)
                harness.complete(batch)
        assert written == dict.fromkeys(range(40), values)
        assert harness.held == 0

    def test_a_limit_that_is_lifted_before_they_are_sent_splits_nothing(self) -> None:
        harness = Harness(batch_size=1_000)
        for number in range(10):
            harness.append_ok(b"%02d" % number * 20)
        harness.accumulator.limit_topic("t", 300, harness.now + 10)
        harness.accumulator.limit_topic("t", 900, harness.now + 10)
        (batch,) = harness.drain()
        assert batch.record_count == 10

    def test_records_that_wait_beside_a_split_batch_are_dropped_by_age(self) -> None:
        harness = Harness({"t": [1, 1, 1]}, batch_size=1_000)
        for number in range(12):
            harness.append_ok(b"%02d" % number * 20, number % 3)
            harness.now += 1
        harness.accumulator.limit_topic("t", 160, harness.now + 10)
        harness.accumulator.mute_partition(TopicPartition("t", 1))
        assert [values_of(batch)[0][:2] for batch in harness.drain()] == [b"00", b"02"]
        dropped: list[bytes] = []

        def dropping(batch: ProducerBatch) -> KafkaError:
            dropped.extend(value[:2] for value in values_of(batch))
            return KafkaError("dropped")

        while harness.accumulator.drop_oldest(lambda _: True, dropping):
            harness.check()
        assert dropped == [b"06", b"09", b"01", b"04", b"07", b"10", b"08", b"11"]

    def test_sent_and_compressed_batches_are_left_to_the_broker(self) -> None:
        harness = Harness(batch_size=1_000)
        for number in range(10):
            harness.append_ok(b"%02d" % number * 20)
        (sent,) = harness.drain()
        harness.accumulator.reenqueue(sent, harness.now)
        harness.accumulator.limit_topic("t", 300, harness.now + 10)
        assert sent in harness.accumulator.incomplete
        harness = Harness(batch_size=1_000, compression_type="lz4")
        for _ in range(10):
            harness.append_ok(b"x" * 50)
        harness.accumulator.limit_topic("t", 300, harness.now + 10)
        (compressed,) = harness.drain()
        assert compressed.record_count == 10
        harness.append_ok(b"x" * 1_000)  # which compresses

    def test_a_record_that_waits_is_refused_before_it_waits(self) -> None:
        harness = full_harness()
        harness.accumulator.limit_topic("t", 500, harness.now + 10)
        waiters = Waiters(harness)
        with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes"):
            waiters.add(0, b"x" * 600)
        assert harness.accumulator.appender.waiting == 0

    def test_a_refused_batch_is_split_to_the_limit_at_once(self) -> None:
        harness = Harness(batch_size=4_000)
        for number in range(60):
            harness.append_ok(b"%02d" % number * 20)
        (batch,) = harness.drain()
        harness.accumulator.limit_topic("t", 300, harness.now + 10)
        harness.accumulator.split_and_reenqueue(batch)
        assert harness.accumulator.batch_count > 2
        assert all(each.size <= 300 for each in harness.drain_all())


class TestComingBack:
    def test_batches_find_their_places_in_any_order_of_return(self) -> None:
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
        harness.accumulator.split_and_reenqueue(first)
        assert harness.accumulator.batch_count >= 1 + 2  # with the second
        harness.check()
        assert first.memory == 0
        batches: list[ProducerBatch] = []
        while harness.accumulator.has_queued():
            batch = harness.drain()[0]
            batches.append(batch)
            harness.complete(batch, batch.base_sequence)
        assert [value[:2] for batch in batches for value in values_of(batch)] == [b"%02d" % at for at in range(40)]
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 41))
        assert harness.held == 0
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
        while harness.accumulator.batch_count:
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
        assert harness.held == 0

    def test_a_batch_whose_codec_is_refused_is_sent_again_without_it_in_its_place(self) -> None:
        harness = Harness(idempotent=True, batch_size=4_000, compression_type="lz4")
        harness.prime()
        deliveries = [harness.append_ok(b"%02d" % number * 200) for number in range(20)]
        first, second = harness.drain() + harness.drain()
        assert first.builder.compression
        harness.accumulator.reenqueue(second, harness.now)
        harness.now += 1
        harness.accumulator.reenqueue_uncompressed(first)
        harness.check()
        assert first.memory == 0
        (again,) = harness.drain()
        assert again.builder.compression == 0
        assert (again.base_sequence, again.record_count) == (first.base_sequence, first.record_count)
        harness.complete(again, 1)
        while batches := harness.drain():
            for batch in batches:
                harness.complete(batch, batch.base_sequence)
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 21))
        assert harness.held == 0

    def test_records_that_the_broker_named_fail_and_the_others_are_sent_again_with_a_new_epoch(self) -> None:
        harness = Harness(idempotent=True)
        deliveries = [harness.append_ok(b"%d" % number) for number in range(4)]
        (batch,) = harness.drain()
        harness.accumulator.remove_records_and_reenqueue(batch, {2: KafkaError("poison")})
        (rest,) = harness.accumulator.incomplete
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
        assert harness.held == 0

    def test_all_records_of_a_batch_may_be_named(self) -> None:
        harness = Harness()
        harness.append_ok()
        (batch,) = harness.drain()
        harness.accumulator.remove_records_and_reenqueue(batch, {0: KafkaError("poison")})
        assert harness.accumulator.incomplete == []
        assert harness.held == 0
        assert harness.accumulator.batch_count == 0

    def test_memory_that_a_split_gives_back_goes_to_waiting_records(self) -> None:
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
        assert harness.accumulator.next_expiry_time() == created + 30
        assert harness.accumulator.expired_batches(created + 29.9) == []
        assert harness.accumulator.expired_batches(created + 30) == [batch]
        assert harness.accumulator.next_expiry_time() == created + 31
        assert not batch.is_done
        harness.fail(batch)
        (other,) = harness.accumulator.expired_batches(created + 31)
        assert values_of(other) == [b"y"]
        assert not other.has_been_sent
        harness.fail(other)
        assert harness.accumulator.next_expiry_time() == inf
        assert harness.held == 0
        assert not harness.accumulator.has_queued()

    def test_all_of_a_partition_that_are_too_old_go_and_the_others_stay(self) -> None:
        harness = Harness(batch_size=150, delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        for number in range(5):
            harness.append_ok(b"%d" % number * 100)
            harness.now += 1
        expired = harness.accumulator.expired_batches(1000.0 + 32)
        assert [values_of(batch)[0][:1] for batch in expired] == [b"0", b"1", b"2"]
        assert harness.accumulator.next_expiry_time() == 1000.0 + 33
        # The last was open: a new record does not go into a finished batch.
        harness.accumulator.expired_batches(1000.0 + 40)
        harness.append_ok(b"new")
        assert [values_of(batch) for batch in harness.drain_all()] == [[b"new"]]

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


class TestFlush:
    def test_it_waits_for_earlier_records_and_not_for_later_ones(self) -> None:
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
        assert harness.ready().ready_nodes == set()
        assert harness.accumulator.batch_count == 1

    def test_two_at_once_end_each_for_itself(self) -> None:
        harness = Harness(linger_ms=60_000)
        harness.append_ok()
        first, second = (harness.accumulator.begin_flush(lambda: None) for _ in range(2))
        first.end()
        first.end()
        assert harness.ready().ready_nodes == {1}
        second.end()
        assert harness.ready().ready_nodes == set()

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
        harness.accumulator.abort_batches(KafkaError("closed"))
        assert all(str(delivery.exception()) == "closed" for delivery in deliveries)
        assert harness.held == 0
        assert harness.accumulator.failed == harness.accumulator.accepted == 6
        assert not harness.accumulator.has_queued()
        for batch in drained:  # an answer that comes after all changes nothing
            assert not batch.complete(0)
            harness.accumulator.deallocate(batch)
        assert harness.held == 0

    def test_each_batch_may_have_an_error_of_its_own(self) -> None:
        harness = Harness()
        deliveries = [harness.append_ok(b"x", partition) for partition in (0, 1)]
        harness.accumulator.abort_batches(lambda batch: KafkaError(f"of {batch.topic_partition.partition}"))
        assert [str(delivery.exception()) for delivery in deliveries] == ["of 0", "of 1"]

    def test_batches_that_may_be_on_a_broker_can_be_spared(self) -> None:
        harness = Harness(batch_size=150)
        deliveries = [harness.append_ok(b"x" * 100) for _ in range(4)]
        first, second = harness.drain() + harness.drain()
        harness.accumulator.reenqueue(second, harness.now)
        harness.accumulator.abort_undrained(KafkaError("aborted"))
        assert harness.accumulator.failed == 2
        assert [delivery.done() for delivery in deliveries] == [False, False, True, True]
        harness.complete(first)
        harness.now += 5
        assert harness.drain() == [second]

    def test_parts_of_a_split_batch_are_spared_for_later_sequences_follow_theirs(self) -> None:
        harness = Harness(batch_size=1_000, idempotent=True)
        split = [harness.append_ok(b"x" * 100) for _ in range(4)]
        (batch,) = harness.drain()
        harness.accumulator.split_and_reenqueue(batch)
        unsent = harness.append_ok(b"y")
        harness.accumulator.abort_undrained(KafkaError("aborted"))
        assert harness.accumulator.failed == 1
        assert unsent.done()
        assert not any(delivery.done() for delivery in split)

    def test_room_that_came_back_goes_to_waiting_records(self) -> None:
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
        assert harness.held == 0


def overdue(harness: Harness, *deliveries: Delivery) -> tuple[int, int]:
    """The time of these records is over."""
    found: dict[Any, list[int]] = {}
    for delivery in deliveries:
        assert not delivery.done()
        result, index = place_of(delivery)
        found.setdefault(result, []).append(index)
    return harness.accumulator.expire_records(
        found, lambda place, *, outcome_unknown: DeliveryTimeoutError("overdue", outcome_unknown=outcome_unknown)
    )


class TestExpiringRecords:
    def test_a_record_that_was_never_sent_leaves_its_batch(self) -> None:
        harness = Harness(idempotent=True, linger_ms=1000)
        harness.prime()
        deliveries = [harness.append_ok(b"%d" % number) for number in range(5)]
        assert overdue(harness, deliveries[1], deliveries[4]) == (2, 0)
        harness.check()
        later = harness.append_ok(b"5")
        harness.now += 1
        first, second = harness.drain() + harness.drain()
        assert values_of(first) + values_of(second) == [b"0", b"2", b"3", b"5"]
        assert (first.base_sequence, second.base_sequence) == (1, 4)  # no gap
        harness.complete(first, 10)
        harness.complete(second, 13)
        assert [delivery.result().offset for delivery in (deliveries[0], *deliveries[2:4], later)] == [10, 11, 12, 13]
        for delivery in (deliveries[1], deliveries[4]):
            error = delivery.exception()
            assert isinstance(error, DeliveryTimeoutError)
            assert not error.outcome_unknown
        assert (harness.accumulator.delivered, harness.accumulator.failed) == (5, 2)
        assert harness.held == 0

    @pytest.mark.parametrize("codec", ["none", "lz4"])
    def test_hundreds_leave_one_by_one_and_all_others_are_sent(self, codec: str) -> None:
        """The batch was made anew for each, of twice the size. After 46 that overflowed: the others were left out, and
        were told that they were delivered.
        """
        harness = Harness(linger_ms=1000, compression_type=codec)
        deliveries = [harness.append_ok(b"%d" % number) for number in range(500)]
        batch = harness.accumulator.incomplete[0]
        for number in range(1, 500, 2):
            assert overdue(harness, deliveries[number]) == (1, 0)
            assert deliveries[number].done()
        harness.check()
        assert harness.accumulator.incomplete[0] is batch, "written anew once, not for each"
        assert (harness.accumulator.pending, harness.accumulator.failed) == (250, 250)
        (batch,) = harness.drain()
        assert values_of(batch) == [b"%d" % number for number in range(0, 500, 2)]
        harness.complete(batch, 10)
        assert [delivery.result().offset for delivery in deliveries[::2]] == list(range(10, 260))
        assert all(isinstance(delivery.exception(), DeliveryTimeoutError) for delivery in deliveries[1::2])
        assert (harness.accumulator.delivered, harness.accumulator.failed) == (250, 250)
        assert harness.held == 0

    def test_a_place_that_is_free_goes_to_the_record_that_waits_for_it(self) -> None:
        """Nothing is sent in an outage, so that nothing else would tell it."""
        harness = Harness(buffer_records=160, linger_ms=1000)
        deliveries = [harness.append_ok() for _ in range(160)]
        waiters = Waiters(harness)
        waiters.add(160)
        assert waiters.granted == []
        assert overdue(harness, deliveries[3]) == (1, 0)
        assert waiters.granted == [160]

    def test_memory_comes_back_before_the_batch_is_sent(self) -> None:
        harness = Harness(linger_ms=1000, batch_size=64 * KIB)
        deliveries = [harness.append_ok(b"x" * 500) for _ in range(20)]
        held = harness.held
        for delivery in deliveries[1:]:
            assert overdue(harness, delivery) == (1, 0)
        assert harness.held < held / 4
        harness.check()

    def test_the_batch_fails_without_those_that_have_left_it(self) -> None:
        harness = Harness(linger_ms=1000)
        deliveries = [harness.append_ok(b"%d" % number) for number in range(4)]
        assert overdue(harness, deliveries[0]) == (1, 0)
        assert overdue(harness, *deliveries[2:]) == (2, 0)
        assert overdue(harness, deliveries[1]) == (1, 0)
        harness.check()
        assert (harness.accumulator.pending, harness.accumulator.failed) == (0, 4)
        assert not harness.accumulator.has_queued()
        assert harness.held == 0

    def test_only_records_that_have_not_left_move_elsewhere(self) -> None:
        harness = Harness(linger_ms=1000)
        deliveries = [harness.append_ok(b"%d" % number) for number in range(4)]
        assert overdue(harness, deliveries[0]) == (1, 0)
        taken: list[bytes] = []
        there = ProduceRequestResult(T0)

        def adopt(batch: ProducerBatch) -> ProduceRequestResult:
            taken.extend(value for _, _, value, _ in batch.builder.records() if value is not None)
            return there

        harness.accumulator.move_out(lambda place: True, adopt)
        assert taken == [b"1", b"2", b"3"]
        there.succeed(7, -1)
        assert [delivery.result().offset for delivery in deliveries[1:]] == [7, 8, 9]

    def test_a_batch_that_is_cut_smaller_has_only_records_that_have_not_left(self) -> None:
        harness = Harness(linger_ms=1000)
        deliveries = [harness.append_ok(b"%d" % number * 100) for number in range(4)]
        assert overdue(harness, deliveries[1]) == (1, 0)
        harness.accumulator.limit_topic("t", 300, 1e9)
        harness.check()
        batches = [harness.drain()[0] for _ in range(2)]
        assert [value[:1] for batch in batches for value in values_of(batch)] == [b"0", b"2", b"3"]

    def test_the_last_one_of_a_batch_leaves_nothing_behind(self) -> None:
        harness = Harness(linger_ms=1000)
        delivery = harness.append_ok()
        assert overdue(harness, delivery) == (1, 0)
        assert not harness.accumulator.has_queued()
        assert harness.held == 0

    def test_a_record_in_a_request_stays_there_and_its_outcome_is_unknown(self) -> None:
        harness = Harness(idempotent=True)
        deliveries = [harness.append_ok(b"%d" % number) for number in range(3)]
        settled: list[bool] = []
        flush = harness.accumulator.begin_flush(lambda: settled.append(True))
        (batch,) = harness.drain()
        assert overdue(harness, deliveries[1]) == (0, 1)
        error = deliveries[1].exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert error.outcome_unknown
        assert not deliveries[0].done()
        harness.check()
        harness.accumulator.reenqueue(batch, harness.now)  # a retry has all of its records, in their places
        harness.now += 2
        (batch,) = harness.drain()
        assert values_of(batch) == [b"0", b"1", b"2"]
        assert not settled
        harness.complete(batch, 7)
        assert settled == [True]
        flush.end()
        assert [deliveries[0].result().offset, deliveries[2].result().offset] == [7, 9]
        assert harness.accumulator.delivered == 3  # it is on the broker, though nobody waited to hear it

    def test_a_flush_waits_for_a_batch_all_of_whose_records_were_told(self) -> None:
        harness = Harness()
        deliveries = [harness.append_ok(b"%d" % number) for number in range(2)]
        settled: list[bool] = []
        harness.accumulator.begin_flush(lambda: settled.append(True))
        (batch,) = harness.drain()
        assert overdue(harness, *deliveries) == (0, 2)
        assert not settled
        harness.complete(batch)
        assert settled == [True]

    def test_a_record_that_was_told_may_be_in_a_batch_that_is_split(self) -> None:
        harness = Harness(idempotent=True, batch_size=2000)
        harness.prime()
        deliveries = [harness.append_ok(b"%02d" % number * 50) for number in range(10)]
        (batch,) = harness.drain()
        overdue(harness, deliveries[3])
        harness.accumulator.split_and_reenqueue(batch)
        while harness.accumulator.has_queued():
            (piece,) = harness.drain()
            harness.complete(piece, piece.base_sequence)
        assert isinstance(deliveries[3].exception(), DeliveryTimeoutError)
        places = [delivery.result().offset for number, delivery in enumerate(deliveries) if number != 3]
        assert places == [1, 2, 3, 5, 6, 7, 8, 9, 10]
        assert harness.accumulator.pending == 0

    def test_a_record_may_leave_a_batch_that_is_compressed_in_a_thread(self) -> None:
        harness = Harness(compression_type="gzip")
        kept, gone = harness.append_ok(LARGE), harness.append_ok(b"gone")
        harness.ready()
        (batch,) = harness.accumulator.take_compressions()
        overdue(harness, gone)
        batch.compress()
        harness.accumulator.compressed(batch)
        (rest,) = harness.drain()
        assert values_of(rest) == [LARGE]
        harness.complete(rest, 4)
        assert kept.result().offset == 4
        assert harness.held == 0


class TestDroppingTheOldest:
    def test_the_oldest_unsent_record_goes_from_any_partition(self) -> None:
        harness = Harness(batch_size=150)
        deliveries = [harness.append_ok(b"x" * 100, number % 2) for number in range(6)]
        in_flight = harness.drain()
        assert harness.accumulator.drop_oldest(lambda topic: True, lambda batch: KafkaError("dropped")) == 1
        assert [delivery.done() for delivery in deliveries] == [False, False, True, False, False, False]
        for batch in in_flight:
            harness.accumulator.reenqueue(batch, harness.now)
        while harness.accumulator.drop_oldest(lambda topic: True, lambda batch: KafkaError("dropped")):
            harness.check()
        assert sorted(harness.accumulator.incomplete, key=id) == sorted(in_flight, key=id)

    def test_only_topics_that_may_lose_some_do(self) -> None:
        harness = Harness({"t": [1], "u": [1]})
        harness.append_ok()
        other = harness.append_ok(topic="u")
        assert harness.accumulator.drop_oldest(lambda topic: topic == "u", lambda batch: KafkaError("dropped")) == 1
        assert str(other.exception()) == "dropped"
        assert harness.accumulator.drop_oldest(lambda topic: topic == "u", lambda batch: KafkaError("dropped")) == 0

    def test_pieces_of_a_batch_that_was_split_have_sequences_and_stay(self) -> None:
        harness = Harness(idempotent=True, batch_size=2000)
        harness.prime()
        for number in range(10):
            harness.append_ok(b"%02d" % number * 50)
        (batch,) = harness.drain()
        harness.accumulator.split_and_reenqueue(batch)
        assert harness.accumulator.drop_oldest(lambda topic: True, lambda batch: KafkaError("dropped")) == 0
        assert harness.accumulator.take_queued(lambda place: True) == []

    @pytest.mark.parametrize("limit", [8, 160])
    def test_batches_are_small_so_that_few_records_are_dropped_at_a_time(self, limit: int) -> None:
        harness = Harness(buffer_records=limit, overflow="drop_oldest")
        for _ in range(limit):
            harness.append_ok()
        assert harness.append() is None
        counts = [batch.record_count for batch in harness.accumulator.incomplete]
        assert max(counts) == max(1, limit // 16)
        harness = Harness(overflow="drop_oldest", buffer_memory=64 * KIB)
        while harness.append(b"x" * 500) is not None:
            pass
        assert max(batch.size for batch in harness.accumulator.incomplete) <= 4 * KIB


class TestTopicsOfTheirOwn:
    def test_a_topic_s_batches_have_its_size_and_its_codec(self) -> None:
        topics = {"u": {"batch_size": 300, "compression_type": "gzip", "compression_level": 1}}
        harness = Harness({"t": [1], "u": [1]}, topics=topics)
        for topic in ("t", "u"):
            for _ in range(6):
                harness.append_ok(b"x" * 100, topic=topic)
        by_topic: dict[str, list[int]] = {"t": [], "u": []}
        for batch in harness.accumulator.incomplete:
            by_topic[batch.topic_partition.topic].append(batch.record_count)
            is_own = batch.topic_partition.topic == "u"
            assert (batch.compression, batch.compression_level) == ((1, 1) if is_own else (0, None))
        assert by_topic == {"t": [6], "u": [2, 2, 2]}

    def test_a_topic_s_linger_is_waited_out_also_beside_others(self) -> None:
        harness = Harness({"t": [1], "u": [1]}, topics={"u": {"linger_ms": 1000}})
        harness.append_ok(topic="u")
        harness.append_ok(topic="t")
        assert harness.ready().ready_nodes == {1}
        (batch,) = harness.drain()
        assert batch.topic_partition.topic == "t"
        harness.complete(batch)
        result = harness.ready()
        assert (result.ready_nodes, result.next_ready_check_delay) == (set(), 1.0)
        harness.now += 1
        assert harness.ready().ready_nodes == {1}
        assert [batch.topic_partition.topic for batch in harness.drain()] == ["u"]

    def test_a_topic_without_linger_does_not_wait_for_the_others(self) -> None:
        harness = Harness({"t": [1], "u": [1]}, linger_ms=1000, topics={"u": {"linger_ms": 0}})
        harness.append_ok(topic="t")
        assert harness.ready().ready_nodes == set()
        before = harness.wakeups
        harness.append_ok(topic="u")
        assert harness.wakeups > before
        assert harness.ready().ready_nodes == {1}

    @pytest.mark.parametrize("hurry", ["full", "flush"])
    def test_its_linger_is_cut_short_as_any(self, hurry: str) -> None:
        harness = Harness(topics={"t": {"linger_ms": 1000, "batch_size": 200}})
        harness.append_ok(b"x" * 100)
        assert harness.ready().ready_nodes == set()
        if hurry == "full":
            harness.append_ok(b"x" * 100)
        else:
            harness.accumulator.begin_flush(lambda: None)
        assert harness.ready().ready_nodes == {1}
        assert harness.drain()


class TestManualFlush:
    def test_nothing_leaves_before_a_flush_however_full_and_old(self) -> None:
        harness = Harness(manual_flush=True, linger_ms=None, batch_size=200)
        for _ in range(5):
            harness.append_ok(b"x" * 100)
        harness.now += 60
        result = harness.ready()
        assert (result.ready_nodes, result.next_ready_check_delay) == (set(), inf)
        flush = harness.accumulator.begin_flush(lambda: None)
        assert harness.ready().ready_nodes == {1}
        drained = []
        while not flush.is_settled:
            harness.ready()
            for batch in harness.drain():
                drained.append(batch)
                harness.complete(batch)
        flush.end()
        assert sum(batch.record_count for batch in drained) == 5
        harness.append_ok()
        assert harness.ready().ready_nodes == set()

    def test_a_batch_sent_once_is_sent_again_without_a_flush(self) -> None:
        harness = Harness({"t": [1, 1]}, manual_flush=True, linger_ms=None)
        harness.append_ok(b"sent")
        flush = harness.accumulator.begin_flush(lambda: None)
        harness.ready()
        (batch,) = harness.drain()
        flush.end()
        harness.append_ok(b"held", 1)
        harness.accumulator.reenqueue(batch, harness.now)
        harness.now += 2
        assert harness.ready().ready_nodes == {1}
        assert harness.drain() == [batch]


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
        assert harness.held == 0

    def test_counters_show_the_state_of_the_buffer(self) -> None:
        harness = Harness(buffer_memory=1 << 20)
        harness.append_ok(b"x" * 100)
        accumulator = harness.accumulator
        assert accumulator.batch_count == 1
        assert accumulator.buffered_bytes == harness.held > 100
        assert accumulator.available_bytes == (1 << 20) - harness.held
        assert [batch.record_count for batch in accumulator.incomplete] == [1]

    def test_an_accumulator_that_is_thrown_away_lets_go_of_waiting_records(self) -> None:
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
        """The cyclic collector does not see batches, and their account refers to them."""
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


class TestMovingOut:
    @pytest.mark.parametrize("codec", ["none", "gzip"])
    def test_unsent_records_live_on_elsewhere_and_count_as_if_they_had_not_come(self, codec: str) -> None:
        harness = Harness(idempotent=True, batch_size=150, compression_type=codec)
        sent = harness.append_ok(b"sent")
        (first,) = harness.drain()
        moved = [harness.append_ok(b"%d" % number * 50) for number in range(5)]
        other = harness.append_ok(b"other", partition=1)
        adopted: list[ProduceRequestResult] = []
        found: list[Any] = []

        def adopt(batch: ProducerBatch) -> ProduceRequestResult:
            found.extend(value for _, _, value, _ in batch.builder.records())
            result = ProduceRequestResult(batch.topic_partition)
            result.record_count = batch.record_count
            adopted.append(result)
            return result

        flush = harness.accumulator.begin_flush(lambda: None)
        harness.accumulator.move_out(lambda place: place == T0, adopt)
        assert found == [b"%d" % number * 50 for number in range(5)]
        harness.check()
        assert harness.accumulator.accepted == 2
        harness.accumulator.move_out(lambda place: place == T0, adopt)
        assert len(found) == 5, "there are no more"
        harness.complete(first, 0)
        assert sent.result().offset == 0
        assert not flush.is_settled, "the flush waits for them where they are"
        for result in adopted:
            result.succeed(-1, -1)
        assert [delivery.result().offset for delivery in moved] == [-1] * 5
        assert not other.done()
        assert [values_of(batch) for batch in harness.drain_all()] == [[b"other"]]
        assert not harness.accumulator.has_queued()
        flush.end()
