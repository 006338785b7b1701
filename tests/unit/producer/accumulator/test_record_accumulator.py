"""The accumulator as a whole: batches that come back, expiry, flush, aborting and the accounts."""

from __future__ import annotations

import asyncio
import gc
import weakref
from math import inf

import pytest

from aiokafkapy import _form
from aiokafkapy.errors import (
    IllegalStateError,
    KafkaError,
    RecordTooLargeError,
)
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.record.batch import RecordBatch

from ..accumulator_harness import KIB, LARGE, T0, Harness, Waiters, full_harness, values_of, wire_bytes


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
        assert harness.pool.held == 0
        assert not harness.accumulator.has_undrained

    def test_all_of_a_partition_that_are_too_old_go_and_the_others_stay(self) -> None:
        harness = Harness(batch_size=150, delivery_timeout_ms=30_000, request_timeout_ms=20_000)
        for number in range(5):
            harness.append_ok(b"%d" % number * 100)
            harness.now += 1
        expired = harness.accumulator.expired_batches(1000.0 + 32)
        assert [values_of(batch)[0][:1] for batch in expired] == [b"0", b"1", b"2"]
        assert harness.accumulator.next_expiry_time() == 1000.0 + 33
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
