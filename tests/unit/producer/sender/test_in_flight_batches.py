"""Batches on the wire: retries, splits, unknown outcomes, expiry."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    DeliveryTimeoutError,
    GaplessGuaranteeError,
    IllegalStateError,
    InvalidRecordError,
    KafkaError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    PurgedError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.producer.deliveries.delivery import Delivery

from ..sender_fakes import SenderHarness, answer_of, batches_of, response

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OUT_OF_ORDER = OutOfOrderSequenceNumberError.code or 0
UNAUTHORIZED = TopicAuthorizationFailedError.code or 0
TIMED_OUT = 7


def fill(harness: SenderHarness, count: int) -> list[Delivery]:
    """Batches of one record each, in as many requests."""
    deliveries: list[Delivery] = []
    for number in range(count):
        deliveries.append(harness.append(b"%d" % number * 60))
        harness.run()
    return deliveries


def gapless(**options: Any) -> SenderHarness:
    harness = SenderHarness(enable_gapless_guarantee=True, **options)
    harness.prime()
    return harness


def error_of(delivery: Delivery) -> KafkaError:
    error = delivery.exception()
    assert isinstance(error, KafkaError)
    return error


def assert_begins_anew(harness: SenderHarness) -> None:
    """The next record goes first, under another epoch."""
    delivery = harness.append(b"again")
    harness.advance(2)
    (request,) = harness.take()
    (batch,) = batches_of(request)
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)
    harness.answer(request, base_offset=9)
    assert delivery.result().offset == 9


def retried(harness: SenderHarness) -> list[int]:
    """The first sequences of the batches in the requests sent since the last time."""
    return [batch.base_sequence for request in harness.take() for batch in batches_of(request)]


class TestRetries:
    def test_a_retry_carries_the_same_bytes_after_a_back_off(self) -> None:
        harness = SenderHarness()
        delivery = harness.append()
        request = harness.send()
        (batch,) = batches_of(request)
        sent = b"".join(bytes(piece) for piece in batch.buffers())
        harness.answer(request, 19)
        assert 0.05 < harness.run() <= 0.12
        assert harness.take() == []
        harness.advance(0.12)
        (again,) = harness.take()
        assert b"".join(bytes(piece) for piece in batches_of(again)[0].buffers()) == sent
        harness.answer(again, base_offset=4)
        assert delivery.result().offset == 4
        assert harness.sender.in_flight_batches.last_errors == {}

    def test_metadata_is_refreshed_when_the_error_says_it_is_stale(self) -> None:
        harness = SenderHarness()
        harness.append()
        harness.answer(harness.send(), 6)
        assert harness.metadata.need_full_update

    def test_five_in_flight_come_back_one_by_one_in_order(self) -> None:
        harness = SenderHarness()
        harness.prime()
        deliveries = fill(harness, 5)
        requests = harness.take()
        assert len(requests) == 5
        harness.answer(requests[0], 19)
        for request in requests[1:]:
            harness.answer(request, OUT_OF_ORDER)
        for sequence in range(1, 6):
            harness.advance(2)
            (request,) = harness.take()
            assert batches_of(request)[0].base_sequence == sequence
            harness.answer(request, base_offset=sequence)
        assert [delivery.result().offset for delivery in deliveries] == [1, 2, 3, 4, 5]
        assert harness.manager is not None
        assert harness.manager.producer_id_and_epoch.epoch == 0

    def test_out_of_tries_the_broker_s_error_is_the_record_s(self) -> None:
        harness = SenderHarness(retries=2)
        delivery = harness.append()
        for _ in range(3):
            harness.advance(2)
            (request,) = harness.take()
            harness.answer(request, 6)
        assert isinstance(delivery.exception(), NotLeaderOrFollowerError)

    def test_without_idempotence_only_retriable_errors_are_retried(self) -> None:
        harness = SenderHarness(enable_idempotence=False)
        retriable, other = harness.append(), harness.append(partition=1)
        request = harness.send()
        harness.answer(request, OUT_OF_ORDER)
        assert retriable.done()
        assert other.done()
        retriable = harness.append()
        harness.answer(harness.send(), 19)
        assert not retriable.done()


class TestFirstBatch:
    """A broker that knows nothing of a producer takes any sequence, so nothing may overtake the first batch."""

    def test_it_goes_alone_until_it_is_acknowledged_and_five_follow(self) -> None:
        harness = SenderHarness(batch_size=100)
        deliveries = fill(harness, 6)
        (first,) = harness.take()
        assert harness.run() > 0, "the Sender must not spin"
        harness.answer(first, NotLeaderOrFollowerError.code or 0)
        harness.advance(2)
        (again,) = harness.take()
        assert batches_of(again) == batches_of(first)
        harness.answer(again, base_offset=0)
        harness.run()
        requests = harness.take()
        assert [batches_of(request)[0].base_sequence for request in requests] == [1, 2, 3, 4, 5]
        for offset, request in enumerate(requests, 1):
            harness.answer(request, base_offset=offset)
        assert [delivery.result().offset for delivery in deliveries] == [0, 1, 2, 3, 4, 5]

    def test_the_first_after_an_epoch_bump_goes_alone_too(self) -> None:
        harness = SenderHarness(batch_size=100)
        harness.prime()
        fill(harness, 1)
        harness.answer(harness.take()[0], TopicAuthorizationFailedError.code or 0)
        fill(harness, 6)
        (first,) = harness.take()
        assert (batches_of(first)[0].producer_epoch, batches_of(first)[0].base_sequence) == (1, 0)
        assert harness.run() > 0
        harness.answer(first, base_offset=1)
        harness.run()
        following = [batch for request in harness.take() for batch in batches_of(request)]
        assert [(batch.producer_epoch, batch.base_sequence) for batch in following] == [(1, n) for n in range(1, 6)]


class TestEpochBump:
    def test_a_gap_is_closed_by_renumbering_this_partition_only(self) -> None:
        harness = SenderHarness()
        harness.prime()
        fill(harness, 3)
        other = harness.append(partition=1)
        harness.run()
        *mine, others = harness.take()
        harness.answer(mine[0], OUT_OF_ORDER)
        harness.run()
        assert harness.manager is not None
        assert harness.manager.producer_id_and_epoch.epoch == 0  # two are still on the wire
        harness.answer(mine[1], OUT_OF_ORDER)
        harness.answer(mine[2], OUT_OF_ORDER)
        harness.run()
        assert harness.manager.producer_id_and_epoch.epoch == 1
        harness.answer(others, base_offset=3)
        assert other.result().offset == 3
        for sequence in range(3):
            harness.advance(2)
            (request,) = harness.take()
            (batch,) = batches_of(request)
            assert (batch.producer_epoch, batch.base_sequence) == (1, sequence)
            harness.answer(request)

    def test_a_refused_batch_leaves_no_gap_behind(self) -> None:
        harness = SenderHarness()
        harness.prime()
        refused, behind = fill(harness, 2)
        first, second = harness.take()
        harness.answer(first, 29)
        harness.answer(second, OUT_OF_ORDER)
        harness.advance(2)
        (request,) = harness.take()
        assert (batches_of(request)[0].producer_epoch, batches_of(request)[0].base_sequence) == (1, 0)
        harness.answer(request, base_offset=0)
        assert behind.result().offset == 0
        assert refused.exception() is not None


class TestSplit:
    def test_too_large_a_batch_is_halved_and_keeps_its_place_and_sequences(self) -> None:
        harness = SenderHarness(linger_ms=5)
        harness.prime()
        deliveries = [harness.append(b"%d" % number * 30) for number in range(4)]
        harness.advance(0.005)
        (request,) = harness.take()
        harness.append(b"behind")
        harness.advance(0.005)
        (behind,) = harness.take()
        harness.answer(request, 10)
        harness.answer(behind, OUT_OF_ORDER)
        harness.advance(2)
        expected = 1
        while expected < 6:
            (request,) = harness.take()
            (batch,) = batches_of(request)
            assert batch.base_sequence == expected
            harness.answer(request, base_offset=100 + expected)
            expected += batch.record_count
            harness.advance(2)
        assert [delivery.result().offset for delivery in deliveries] == [101, 102, 103, 104]
        assert harness.accumulator.delivered == 6

    def test_a_single_record_too_large_fails_and_the_next_go_on(self) -> None:
        harness = SenderHarness()
        delivery = harness.append()
        harness.answer(harness.send(), 10)
        assert isinstance(delivery.exception(), RecordTooLargeError)
        following = harness.append()
        harness.run()
        (request,) = harness.take()
        assert batches_of(request)[0].base_sequence == 0
        harness.answer(request)
        assert following.result().offset == 0


class TestRecordErrors:
    def test_named_records_fail_alone_and_the_rest_goes_again_with_a_new_epoch(self) -> None:
        harness = SenderHarness(linger_ms=5)
        deliveries = [harness.append(b"%d" % number) for number in range(4)]
        harness.advance(0.005)
        (request,) = harness.take()
        harness.answer(request, 87, record_errors=((1, "bad"),))
        assert isinstance(deliveries[1].exception(), InvalidRecordError)
        harness.advance(2)
        (request,) = harness.take()
        (batch,) = batches_of(request)
        assert (batch.record_count, batch.producer_epoch, batch.base_sequence) == (3, 1, 0)
        harness.answer(request, base_offset=10)
        assert [deliveries[index].result().offset for index in (0, 2, 3)] == [10, 11, 12]
        assert harness.accumulator.failed == 1

    def test_when_all_are_named_each_has_its_own_error(self) -> None:
        harness = SenderHarness(linger_ms=5)
        deliveries = [harness.append(b"%d" % number) for number in range(2)]
        harness.advance(0.005)
        (request,) = harness.take()
        harness.answer(request, 87, record_errors=((0, "first"), (1, "second")))
        assert ["first" in str(deliveries[0].exception()), "second" in str(deliveries[1].exception())] == [True, True]


class TestExpiry:
    def test_a_batch_that_was_never_sent_expires_without_a_trace(self) -> None:
        harness = SenderHarness({"t": [-1]}, delivery_timeout_ms=40_000)
        delivery = harness.append()
        assert harness.run() == pytest.approx(40.0)
        harness.advance(39.9)
        assert not delivery.done()
        harness.advance(0.1)
        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert "no leader" in str(error)
        assert not error.outcome_unknown
        harness.set_leaders({"t": [1]})
        harness.append()
        assert batches_of(harness.send())[0].base_sequence == 0
        assert harness.manager is not None
        assert harness.manager.producer_id_and_epoch.epoch == 0

    def test_a_batch_on_the_wire_expires_in_doubt_and_nothing_new_is_sent_until_it_is_settled(self) -> None:
        harness = SenderHarness(delivery_timeout_ms=40_000)
        delivery = harness.append()
        request = harness.send()
        harness.advance(40.0)
        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert error.outcome_unknown
        held = harness.accumulator.buffered_bytes
        assert held > 0  # the transport may still hold its bytes
        following = harness.append()
        harness.run()
        assert harness.take() == []
        harness.answer(request, base_offset=0)  # it had arrived after all
        assert harness.accumulator.failed == 1
        assert harness.accumulator.delivered == 0
        (again,) = [harness.send()]
        assert batches_of(again)[0].base_sequence == 1
        harness.answer(again, base_offset=1)
        assert following.result().offset == 1
        assert harness.accumulator.buffered_bytes == 0

    def test_when_the_wire_tells_nothing_the_epoch_is_bumped(self) -> None:
        harness = SenderHarness(delivery_timeout_ms=40_000)
        harness.append()
        request = harness.send()
        harness.advance(40.0)
        harness.respond(request, disconnected=True)
        harness.append()
        (batch,) = batches_of(harness.send())
        assert (batch.producer_epoch, batch.base_sequence) == (1, 0)

    def test_a_batch_whose_answer_was_lost_expires_in_doubt_while_it_waits_for_its_retry(self) -> None:
        harness = SenderHarness(delivery_timeout_ms=40_000)
        delivery = harness.append()
        harness.respond(harness.send(), disconnected=True)
        harness.client.not_ready.add(1)
        harness.advance(40.0)
        assert isinstance(delivery.exception(), DeliveryTimeoutError)
        assert delivery.exception().outcome_unknown
        assert "disconnected" in str(delivery.exception())

    def test_a_batch_that_was_refused_each_time_is_known_not_to_be_there(self) -> None:
        harness = SenderHarness(delivery_timeout_ms=40_000)
        delivery = harness.append()
        harness.answer(harness.send(), 19)
        harness.client.not_ready.add(1)
        harness.advance(40.0)
        assert not delivery.exception().outcome_unknown
        assert "fewer in-sync replicas" in str(delivery.exception())


def test_a_bug_in_handling_one_batch_is_not_the_others_problem() -> None:
    harness = SenderHarness()
    broken, fine = harness.append(partition=0), harness.append(partition=1)
    batches = batches_of(harness.send())

    unreadable: Any = ((0,),)  # no message: nothing that was decoded is like this
    bad = answer_of(T0, InvalidRecordError.code or 0, record_errors=unreadable)
    answers = {T0: bad, T1: answer_of(T1, base_offset=2)}
    harness.sender.in_flight_batches.handle_answers(batches, answers, harness.now)
    assert isinstance(broken.exception(), ValueError)
    assert fine.result().offset == 2
    assert len(harness.sender.in_flight_batches) == 0


def test_answered_batches_are_let_go_of_while_an_older_one_is_stuck() -> None:
    """Batches hold their bytes: ``buffer_memory`` would not be a bound otherwise."""
    harness = SenderHarness({"t": [1, 2]})
    harness.append(partition=0)
    harness.send()
    for _ in range(500):
        harness.append(partition=1)
        harness.answer(harness.send())
    in_flight = harness.sender.in_flight_batches
    assert len(in_flight) == 1
    assert in_flight.partitions() == {T0}


class TestGaplessGuarantee:
    """``enable_gapless_guarantee``: behind a record that failed nothing of its partition is written."""

    def test_with_a_record_all_behind_it_fail_on_the_wire_and_in_the_queue(self) -> None:
        harness = gapless()
        first, second, third = fill(harness, 3)
        other = harness.append(partition=1)
        harness.run()
        *mine, others = harness.take()
        harness.client.not_ready = {1}
        queued = harness.append(b"queued")
        harness.answer(mine[0], UNAUTHORIZED)
        assert isinstance(first.exception(), TopicAuthorizationFailedError)
        error = error_of(queued)
        assert isinstance(error, GaplessGuaranteeError)
        assert str(error).startswith("t-0: 1 record not written, because an earlier one of the partition failed")
        assert (error.topic, error.partition, error.outcome_unknown) == ("t", 0, False)
        assert isinstance(error.__cause__, TopicAuthorizationFailedError)
        assert not second.done(), "it is on the wire"
        harness.answer(mine[1], OUT_OF_ORDER)
        harness.answer(mine[2], OUT_OF_ORDER)
        assert [type(error_of(delivery)) for delivery in (second, third)] == [GaplessGuaranteeError] * 2
        harness.client.not_ready = set()
        harness.advance(2)
        assert harness.take() == [], "nothing is sent again"
        harness.answer(others, base_offset=4)
        assert other.result().offset == 4
        assert harness.accumulator.accepted == harness.accumulator.delivered + harness.accumulator.failed
        assert harness.accumulator.buffered_bytes == 0

    def test_the_partition_takes_no_records_until_it_is_resumed(self) -> None:
        harness = gapless()
        fill(harness, 2)
        first, second = harness.take()
        harness.answer(first, UNAUTHORIZED)
        with pytest.raises(GaplessGuaranteeError, match=r"t-0 takes no records since one failed .*resume\('t', 0\)"):
            harness.append()
        with pytest.raises(IllegalStateError, match="t-0: 1 older records have no outcome yet"):
            harness.accumulator.close_gap(T0)
        harness.answer(second, OUT_OF_ORDER)
        harness.accumulator.close_gap(T0)
        assert_begins_anew(harness)

    def test_records_that_were_written_after_all_are_reported_so(self) -> None:
        """The first one's answer was lost and its time is over; the next one's answer says that both are there."""
        harness = gapless(delivery_timeout_ms=30_000)
        first, second = fill(harness, 2)
        requests = harness.take()
        harness.advance(29)
        harness.client.not_ready = {1}
        third = harness.append(b"in time")
        harness.advance(2)
        assert isinstance(first.exception(), DeliveryTimeoutError)
        assert error_of(first).outcome_unknown
        assert isinstance(third.exception(), GaplessGuaranteeError)
        assert not error_of(third).outcome_unknown
        harness.answer(requests[1], base_offset=2)
        harness.answer(requests[0], base_offset=1)
        assert error_of(second).outcome_unknown
        harness.client.not_ready = set()
        harness.accumulator.close_gap(T0)
        following = harness.append(b"following")
        harness.advance(2)
        (request,) = harness.take()
        assert (batches_of(request)[0].producer_epoch, batches_of(request)[0].base_sequence) == (0, 3), (
            "there is no gap"
        )
        harness.answer(request, base_offset=3)
        assert following.result().offset == 3

    def test_a_batch_in_doubt_behind_the_gap_says_so(self) -> None:
        harness = gapless()
        fill(harness, 1)
        (first,) = harness.take()
        behind = harness.append(b"behind")
        harness.run()
        (second,) = harness.take()
        harness.answer(first, UNAUTHORIZED)
        harness.answer(second, TIMED_OUT)
        error = error_of(behind)
        assert isinstance(error, GaplessGuaranteeError)
        assert error.outcome_unknown
        assert "may or may not have been written" in str(error)
        harness.accumulator.close_gap(T0)
        assert_begins_anew(harness)

    def test_a_retry_before_the_gap_goes_on(self) -> None:
        harness = gapless()
        early, late = fill(harness, 2)
        first, second = harness.take()
        harness.answer(first, TIMED_OUT)
        harness.answer(second, UNAUTHORIZED)
        assert isinstance(late.exception(), TopicAuthorizationFailedError)
        harness.advance(2)
        (again,) = harness.take()
        harness.answer(again, base_offset=1)
        assert early.result().offset == 1

    def test_a_batch_is_not_sent_without_the_records_that_were_refused(self) -> None:
        harness = gapless(linger_ms=5)
        deliveries = [harness.append(b"%d" % number) for number in range(3)]
        harness.advance(0.005)
        (request,) = harness.take()
        code = InvalidRecordError.code or 0
        harness.respond(request, response({T0: answer_of(T0, code, record_errors=((1, "no"),), error_message="bad")}))
        harness.advance(2)
        assert harness.take() == []
        assert all(isinstance(delivery.exception(), InvalidRecordError) for delivery in deliveries)
        with pytest.raises(GaplessGuaranteeError):
            harness.append()

    def test_resuming_a_partition_that_never_failed_does_nothing(self) -> None:
        harness = gapless()
        harness.accumulator.close_gap(TopicPartition("nowhere", 2_000_000_000))


class TestPurge:
    @staticmethod
    def purge(harness: SenderHarness, *, in_flight: bool = False, place: TopicPartition | None = None) -> int:
        def error(place: TopicPartition, count: int, *, outcome_unknown: bool) -> KafkaError:
            return PurgedError(f"{count} of {place}", outcome_unknown=outcome_unknown)

        return harness.sender.in_flight_batches.purge(
            lambda found: place in (None, found), error, harness.now, in_flight=in_flight
        )

    def test_unsent_batches_leave_no_gap(self) -> None:
        harness = SenderHarness(linger_ms=1000, batch_size=100)
        harness.prime()
        purged = [harness.append(b"p"), harness.append(b"q", 1)]
        assert self.purge(harness, place=T1) == 1
        assert [delivery.done() for delivery in purged] == [False, True]
        assert self.purge(harness) == 1
        assert all(isinstance(error_of(delivery), PurgedError) for delivery in purged)
        assert not error_of(purged[0]).outcome_unknown
        later = harness.append(b"later")
        harness.advance(1)
        (request,) = harness.take()
        (batch,) = batches_of(request)
        assert (batch.producer_epoch, batch.base_sequence) == (0, 1)
        harness.answer(request, base_offset=5)
        assert later.result().offset == 5

    def test_records_in_a_request_stay_unless_they_are_asked_for(self) -> None:
        harness = SenderHarness()
        harness.prime()
        (in_flight,) = fill(harness, 1)
        (request,) = harness.take()
        assert self.purge(harness) == 0
        assert self.purge(harness, in_flight=True) == 1
        assert error_of(in_flight).outcome_unknown
        assert self.purge(harness, in_flight=True) == 0
        assert harness.accumulator.failed == 1
        # The answer finds that it was written: no gap, and no new epoch.
        harness.answer(request, base_offset=3)
        later = harness.append(b"later")
        harness.advance(1)
        (request,) = harness.take()
        (batch,) = batches_of(request)
        assert (batch.producer_epoch, batch.base_sequence) == (0, 2)
        harness.answer(request, base_offset=4)
        assert later.result().offset == 4
        assert harness.accumulator.buffered_bytes == 0

    def test_a_batch_that_waits_for_its_retry_is_in_flight_too_and_the_partition_starts_over(self) -> None:
        harness = SenderHarness()
        harness.prime()
        (delivery,) = fill(harness, 1)
        (request,) = harness.take()
        harness.answer(request, TIMED_OUT)
        assert self.purge(harness) == 0
        assert self.purge(harness, in_flight=True) == 1
        assert error_of(delivery).outcome_unknown
        assert_begins_anew(harness)

    def test_with_the_gapless_guarantee_it_is_a_gap_as_any(self) -> None:
        harness = gapless(linger_ms=1000)
        harness.append(b"p")
        assert self.purge(harness) == 1
        with pytest.raises(GaplessGuaranteeError):
            harness.append(b"later")
