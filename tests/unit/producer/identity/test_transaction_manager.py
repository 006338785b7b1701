"""Producer id, epoch and sequences: KIP-98 and KIP-360 as Java has them."""

from __future__ import annotations

import pytest

from aiokafkapy.common import ExponentialBackoff, TopicPartition
from aiokafkapy.errors import (
    CoordinatorLoadInProgressError,
    IllegalTransitionError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumberError,
    TopicAuthorizationFailedError,
    UnknownProducerIdError,
)
from aiokafkapy.producer.identity.sequenced_batch import increment_sequence
from aiokafkapy.producer.identity.transaction import Transaction
from aiokafkapy.producer.identity.transaction_manager import (
    MAX_EPOCH,
    TRANSACTION_MANAGER_STATES,
    ProducerIdAndEpoch,
    TransactionManager,
    TransactionManagerState,
    is_before,
    last_sequence_of,
)
from tests.unit.producer.identity.bare_batches import A, B, Batch

OUT_OF_ORDER = OutOfOrderSequenceNumberError.code or 0
UNKNOWN_ID = UnknownProducerIdError.code or 0
MAX = 2**31 - 1


def nothing_on_the_wire(_: TopicPartition) -> bool:
    return False


@pytest.fixture
def manager() -> TransactionManager:
    manager = TransactionManager(ExponentialBackoff(0.1, 1.0, jitter=0))
    manager.handle_init_producer_id_sent()
    manager.handle_init_producer_id(100, 0)
    return manager


def drain(manager: TransactionManager, *batches: Batch) -> None:
    """Tell the manager of drained batches, as the accumulator does."""
    for batch in batches:
        place = batch.topic_partition
        assert not manager.should_stop_drain_batches_for_partition(place, batch)
        if not batch.has_sequence:
            manager.stamp(batch)
        batch.sequence_has_been_reset = False


def prime(manager: TransactionManager, topic_partition: TopicPartition = A) -> None:
    """Have the partition's first batch, of one record, acknowledged: several may be in flight there from now on."""
    first = Batch(topic_partition, 1)
    drain(manager, first)
    manager.handle_completed_batch(first, 0)


def fail(manager: TransactionManager, batch: Batch, code: int, log_start_offset: int = 0) -> bool:
    return manager.can_retry(code, log_start_offset, batch)


class TestTruncation:
    """A log that took records at offsets that it had acknowledged was cut."""

    def test_it_is_seen_once_with_the_last_offset_acknowledged(self, manager: TransactionManager) -> None:
        batches = [Batch(record_count=3) for _ in range(4)]
        drain(manager, batches[0])
        assert manager.handle_completed_batch(batches[0], 10) == -1
        drain(manager, *batches[1:])
        assert manager.handle_completed_batch(batches[1], 13) == -1
        assert manager.handle_completed_batch(batches[2], 15) == 15
        assert manager.handle_completed_batch(batches[3], 18) == -1

    def test_a_duplicate_of_an_earlier_batch_is_not_a_truncation(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(record_count=3), Batch(record_count=3)
        drain(manager, first, second)
        assert manager.handle_completed_batch(second, 4) == -1
        assert manager.handle_completed_batch(first, 1) == -1

    def test_an_offset_that_no_broker_returned_is_unknown(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        assert manager.handle_completed_batch(first, -1) == -1
        assert manager.handle_completed_batch(second, 2) == -1

    def test_a_new_identity_forgets_no_offset(self, manager: TransactionManager) -> None:
        prime(manager)
        manager.request_epoch_bump(A)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        batch = Batch()
        drain(manager, batch)
        assert manager.handle_completed_batch(batch, 0) == 0


class TestSequences:
    def test_they_follow_one_another_per_partition(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second, other = Batch(record_count=3), Batch(record_count=5), Batch(B)
        drain(manager, first, second, other)
        assert (first.base_sequence, second.base_sequence, other.base_sequence) == (1, 4, 0)
        manager.handle_completed_batch(first, 10)
        manager.handle_completed_batch(second, 13)
        assert not manager.has_in_flight_batches(A)
        assert manager.has_in_flight_batches(B)
        third = Batch()
        drain(manager, third)
        assert third.base_sequence == 9

    def test_they_wrap_after_the_largest_int(self, manager: TransactionManager) -> None:
        assert increment_sequence(MAX, 1) == 0
        assert increment_sequence(MAX - 1, 5) == 3
        assert is_before(MAX, 0)
        assert is_before(MAX - 5, 3)
        assert not is_before(3, MAX - 5)
        assert not is_before(4, 4)
        before = Batch(record_count=MAX - 5)
        drain(manager, before)
        manager.handle_completed_batch(before, 0)
        prime(manager)
        first, second = Batch(record_count=10), Batch(record_count=10)
        drain(manager, first, second)
        assert (first.base_sequence, second.base_sequence) == (MAX - 4, 5)
        assert last_sequence_of(first) == 4
        manager.handle_completed_batch(first, 0)
        assert fail(manager, second, OUT_OF_ORDER)
        assert manager.wants_attention()  # the number is the next one, so there is a gap

    def test_the_pieces_of_a_split_batch_take_its_place(self, manager: TransactionManager) -> None:
        prime(manager)
        big, after = Batch(record_count=10), Batch(record_count=10)
        drain(manager, big, after)
        manager.remove_in_flight_batch(big)
        left, right = Batch(record_count=4), Batch(record_count=6)
        left.set_producer_state(100, 0, 1)
        right.set_producer_state(100, 0, 5)
        manager.add_in_flight_batch(right)
        manager.add_in_flight_batch(left)
        for behind in (right, after):
            assert manager.should_stop_drain_batches_for_partition(A, behind)
        drain(manager, left)
        manager.remove_in_flight_batch(left)
        assert manager.should_stop_drain_batches_for_partition(A, after)
        drain(manager, right)
        manager.remove_in_flight_batch(right)
        drain(manager, after)
        assert after.base_sequence == 11


class TestDrain:
    def test_nothing_is_drained_without_a_producer_id(self) -> None:
        manager = TransactionManager(ExponentialBackoff(0.1, 1.0))
        assert manager.should_stop_drain_batches_for_partition(A, Batch())

    def test_a_retry_goes_only_as_the_first_in_flight(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        assert manager.should_stop_drain_batches_for_partition(A, second)
        assert not manager.should_stop_drain_batches_for_partition(A, first)
        manager.handle_completed_batch(first, 0)
        assert not manager.should_stop_drain_batches_for_partition(A, second)

    def test_new_batches_follow_freely_behind_those_in_flight(self, manager: TransactionManager) -> None:
        prime(manager)
        drain(manager, *(Batch() for _ in range(5)))


class TestFirstBatch:
    """A broker that knows nothing of a producer takes any sequence, so nothing may overtake the first batch."""

    def test_nothing_follows_it_until_it_is_acknowledged(self, manager: TransactionManager) -> None:
        first, second = Batch(), Batch()
        drain(manager, first, Batch(B))
        assert manager.should_stop_drain_batches_for_partition(A, second)
        assert fail(manager, first, NotEnoughReplicasError.code or 0)
        assert manager.should_stop_drain_batches_for_partition(A, second)
        drain(manager, first)  # its retry goes
        assert manager.should_stop_drain_batches_for_partition(A, second)
        manager.handle_completed_batch(first, 0)
        drain(manager, second, *(Batch() for _ in range(4)))
        assert second.base_sequence == 10
        assert manager.should_stop_drain_batches_for_partition(B, Batch(B)), "one partition's answer frees no other"

    def test_nothing_follows_the_first_of_a_new_epoch(self, manager: TransactionManager) -> None:
        prime(manager)
        manager.request_epoch_bump(A)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        first, second = Batch(), Batch()
        drain(manager, first)
        assert (first.producer_epoch, first.base_sequence) == (1, 0)
        assert manager.should_stop_drain_batches_for_partition(A, second)
        manager.handle_completed_batch(first, 1)
        drain(manager, second, *(Batch() for _ in range(4)))

    def test_nothing_follows_the_first_when_another_partition_made_the_epoch_grow(
        self, manager: TransactionManager
    ) -> None:
        prime(manager)
        manager.request_epoch_bump(B)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        first = Batch()
        drain(manager, first)
        assert (first.producer_epoch, first.base_sequence) == (1, 0)
        assert manager.should_stop_drain_batches_for_partition(A, Batch())
        manager.handle_completed_batch(first, 1)
        drain(manager, *(Batch() for _ in range(5)))

    def test_renumbered_ones_go_one_by_one_and_the_new_ones_behind_them(self, manager: TransactionManager) -> None:
        prime(manager)
        lost, behind, new = Batch(), Batch(), Batch()
        drain(manager, lost, behind)
        for batch in (lost, behind):
            assert fail(manager, batch, OUT_OF_ORDER)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        drain(manager, lost)
        for batch in (behind, new):
            assert manager.should_stop_drain_batches_for_partition(A, batch)
        manager.handle_completed_batch(lost, 1)
        drain(manager, behind, new)
        assert [batch.base_sequence for batch in (lost, behind, new)] == [0, 10, 20]

    def test_a_late_answer_from_before_a_bump_is_not_an_acknowledgement(self, manager: TransactionManager) -> None:
        old, first = Batch(), Batch()
        drain(manager, old)
        manager.handle_failed_batch(old, TimeoutError(), adjust_sequence_numbers=True)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        drain(manager, first)
        manager.handle_completed_batch(old, 0)
        assert manager.should_stop_drain_batches_for_partition(A, Batch())

    def test_when_it_fails_the_next_is_the_first(self, manager: TransactionManager) -> None:
        failed, first = Batch(), Batch()
        drain(manager, failed)
        manager.handle_failed_batch(failed, TopicAuthorizationFailedError(), adjust_sequence_numbers=True)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        drain(manager, first)
        assert (first.producer_epoch, first.base_sequence) == (1, 0)
        assert manager.should_stop_drain_batches_for_partition(A, Batch())


class TestEpochBump:
    def test_only_the_partition_that_asked_is_renumbered(self, manager: TransactionManager) -> None:
        prime(manager)
        done, lost, behind, other = Batch(), Batch(), Batch(), Batch(B)
        drain(manager, done, lost, behind, other)
        manager.handle_completed_batch(done, 1)
        assert fail(manager, lost, OUT_OF_ORDER)
        assert fail(manager, behind, OUT_OF_ORDER)
        assert manager.should_stop_drain_batches_for_partition(A, lost)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert manager.producer_id_and_epoch == ProducerIdAndEpoch(100, 1)
        assert [(b.producer_epoch, b.base_sequence) for b in (lost, behind, other)] == [(1, 0), (1, 10), (0, 0)]
        # The other partition finishes under the old epoch before it takes the new one.
        new = Batch(B)
        assert manager.should_stop_drain_batches_for_partition(B, new)
        manager.handle_completed_batch(other, 0)
        drain(manager, new)
        assert (new.producer_epoch, new.base_sequence) == (1, 0)
        manager.handle_completed_batch(lost, 11)
        following = Batch()
        drain(manager, following)
        assert following.base_sequence == 20

    def test_it_waits_until_nothing_of_the_partition_is_on_the_wire(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        fail(manager, first, OUT_OF_ORDER)
        assert not manager.bump_epoch_if_needed(lambda place: place == A)
        assert second.base_sequence == 11
        assert manager.bump_epoch_if_needed(lambda place: place == B)
        assert (first.base_sequence, second.base_sequence) == (0, 10)
        assert second.producer_epoch == 1

    def test_it_waits_until_a_broker_has_answered_whether_the_first_was_written(
        self, manager: TransactionManager
    ) -> None:
        """A broker that has the batch would take it again under another number."""
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        first.may_be_renumbered = False  # its answer was lost
        fail(manager, second, OUT_OF_ORDER)
        manager.request_epoch_bump(A)
        assert not manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert not manager.should_stop_drain_batches_for_partition(A, first)  # as it is
        assert manager.should_stop_drain_batches_for_partition(A, second)
        manager.handle_completed_batch(first, 1)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert (second.producer_epoch, second.base_sequence) == (1, 0)

    def test_a_batch_in_doubt_behind_a_refused_one_cannot_have_been_written(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        second.may_be_renumbered = False
        fail(manager, first, OUT_OF_ORDER)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert (second.producer_epoch, second.base_sequence) == (1, 10)

    def test_nothing_is_bumped_when_nobody_asked(self, manager: TransactionManager) -> None:
        assert not manager.bump_epoch_if_needed(nothing_on_the_wire)

    def test_a_used_up_epoch_asks_for_a_new_id_and_renumbers_when_it_comes(self, manager: TransactionManager) -> None:
        manager.reset_sequences()
        for _ in range(MAX_EPOCH):
            manager.request_epoch_bump(A)
            manager.bump_epoch_if_needed(nothing_on_the_wire)
        batch = Batch()
        drain(manager, batch)
        assert batch.producer_epoch == MAX_EPOCH
        fail(manager, batch, OUT_OF_ORDER)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert manager.time_to_init_producer_id(5.0) == 0
        assert manager.should_stop_drain_batches_for_partition(A, batch)
        manager.handle_init_producer_id_sent()
        manager.handle_init_producer_id(101, 0)
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (101, 0, 0)
        assert not manager.should_stop_drain_batches_for_partition(A, batch)

    def test_in_another_cluster_a_new_id_is_asked_for_and_everything_renumbered(
        self, manager: TransactionManager
    ) -> None:
        """Our id may be another producer's there. Nothing is drained meanwhile, of no partition."""
        prime(manager)
        batch, other = Batch(), Batch(B)
        drain(manager, batch, other)
        assert (batch.producer_epoch, batch.base_sequence) == (0, 1)
        manager.request_new_producer_id()
        assert manager.wants_attention()
        unknown = TopicPartition("t", 9)
        assert manager.should_stop_drain_batches_for_partition(unknown, Batch(unknown))
        assert not manager.bump_epoch_if_needed(lambda place: place == B)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert manager.time_to_init_producer_id(5.0) == 0
        manager.handle_init_producer_id_sent()
        manager.handle_init_producer_id(7, 0)
        for each in (batch, other):
            assert (each.producer_id, each.producer_epoch, each.base_sequence) == (7, 0, 0)
        assert (manager.wants_attention(), manager.should_stop_drain_batches_for_partition(A, batch)) == (False, False)

    def test_an_id_that_comes_while_the_cluster_changes_is_given_up_too(self) -> None:
        """Nobody can tell which of both clusters gave it."""
        manager = TransactionManager(ExponentialBackoff(0.1, 1.0, jitter=0.0))
        manager.handle_init_producer_id_sent()
        manager.request_new_producer_id()
        assert not manager.bump_epoch_if_needed(nothing_on_the_wire)
        manager.handle_init_producer_id(3, 0)
        assert manager.wants_attention()
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert manager.time_to_init_producer_id(5.0) == 0


class TestErrors:
    def test_a_batch_that_was_only_too_early_is_retried_without_a_bump(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        assert fail(manager, second, OUT_OF_ORDER)
        assert not manager.wants_attention()

    def test_in_a_transaction_that_failed_one_that_was_too_early_is_not_retried(self) -> None:
        """The one before has failed, perhaps, and would never come."""
        transaction = Transaction("tx", lambda: None)
        manager = TransactionManager(ExponentialBackoff(0.1, 1.0, jitter=0), transaction)
        transaction.initialize()
        manager.use_identity(100, 0)
        transaction.initialized()
        transaction.version = 2
        transaction.begin()
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        assert fail(manager, second, OUT_OF_ORDER)
        manager.handle_failed_batch(first, TopicAuthorizationFailedError("no"), adjust_sequence_numbers=True)
        assert not fail(manager, second, OUT_OF_ORDER)

    def test_an_unknown_producer_id_begins_again(self, manager: TransactionManager) -> None:
        prime(manager)
        first, second = Batch(), Batch()
        drain(manager, first, second)
        manager.handle_completed_batch(first, 1)
        assert fail(manager, second, UNKNOWN_ID, log_start_offset=-1)
        assert not manager.wants_attention()  # the partition was moving: ask again
        assert fail(manager, second, UNKNOWN_ID, log_start_offset=50)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert second.base_sequence == 0
        assert fail(manager, second, UNKNOWN_ID, log_start_offset=50)
        assert not manager.wants_attention()  # that was for its earlier state

    def test_other_errors_are_as_retriable_as_they_say(self, manager: TransactionManager) -> None:
        batch = Batch()
        drain(manager, batch)
        assert fail(manager, batch, NotEnoughReplicasError.code or 0)
        assert not fail(manager, batch, TopicAuthorizationFailedError.code or 0)

    def test_a_failed_batch_leaves_a_gap_that_a_bump_closes(self, manager: TransactionManager) -> None:
        prime(manager)
        failed, behind = Batch(), Batch()
        drain(manager, failed, behind)
        manager.handle_failed_batch(failed, TopicAuthorizationFailedError(), adjust_sequence_numbers=True)
        assert fail(manager, behind, OUT_OF_ORDER)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert (behind.producer_epoch, behind.base_sequence) == (1, 0)

    def test_a_batch_without_a_sequence_leaves_no_gap(self, manager: TransactionManager) -> None:
        manager.handle_failed_batch(Batch(), TopicAuthorizationFailedError(), adjust_sequence_numbers=True)
        assert not manager.wants_attention()


class TestUnresolved:
    def test_an_expired_batch_that_had_arrived_needs_no_bump(self, manager: TransactionManager) -> None:
        prime(manager)
        expired, behind = Batch(), Batch()
        drain(manager, expired, behind)
        manager.handle_failed_batch(expired, TimeoutError(), adjust_sequence_numbers=False)
        manager.mark_sequence_unresolved(expired)
        assert manager.should_stop_drain_batches_for_partition(A, Batch())
        manager.maybe_resolve_sequences(nothing_on_the_wire)
        assert manager.should_stop_drain_batches_for_partition(A, Batch())  # the one behind it will tell
        manager.handle_completed_batch(behind, 11)
        manager.maybe_resolve_sequences(nothing_on_the_wire)
        assert not manager.wants_attention()

    def test_an_expired_batch_that_had_not_arrived_needs_one(self, manager: TransactionManager) -> None:
        prime(manager)
        expired, behind, last = Batch(), Batch(), Batch()
        drain(manager, expired, behind, last)
        manager.handle_failed_batch(expired, TimeoutError(), adjust_sequence_numbers=False)
        manager.mark_sequence_unresolved(expired)
        assert fail(manager, last, OUT_OF_ORDER)
        assert not manager.bump_epoch_if_needed(nothing_on_the_wire)  # the one before it may have arrived
        assert fail(manager, behind, OUT_OF_ORDER)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)
        assert not manager.wants_attention()
        assert (behind.base_sequence, last.base_sequence) == (0, 10)

    def test_when_all_expired_the_epoch_is_bumped_once_the_wire_is_silent(self, manager: TransactionManager) -> None:
        expired = Batch()
        drain(manager, expired)
        manager.handle_failed_batch(expired, TimeoutError(), adjust_sequence_numbers=False)
        manager.mark_sequence_unresolved(expired)
        manager.maybe_resolve_sequences(lambda _: True)
        assert not manager.bump_epoch_if_needed(nothing_on_the_wire)
        manager.maybe_resolve_sequences(nothing_on_the_wire)
        assert manager.bump_epoch_if_needed(nothing_on_the_wire)

    def test_a_late_answer_settles_it(self, manager: TransactionManager) -> None:
        expired = Batch()
        drain(manager, expired)
        manager.handle_failed_batch(expired, TimeoutError(), adjust_sequence_numbers=False)
        manager.mark_sequence_unresolved(expired)
        manager.handle_completed_batch(expired, 0)
        manager.maybe_resolve_sequences(nothing_on_the_wire)
        assert not manager.wants_attention()

    def test_a_late_answer_from_before_a_bump_counts_for_nothing(self, manager: TransactionManager) -> None:
        old = Batch()
        drain(manager, old)
        manager.handle_failed_batch(old, TimeoutError(), adjust_sequence_numbers=True)
        manager.bump_epoch_if_needed(nothing_on_the_wire)
        manager.handle_completed_batch(old, 0)
        new = Batch()
        drain(manager, new)
        assert new.base_sequence == 0


class TestProducerId:
    def test_failures_are_repeated_with_growing_back_off(self) -> None:
        manager = TransactionManager(ExponentialBackoff(0.1, 1.0, jitter=0))
        assert manager.time_to_init_producer_id(0.0) == 0
        manager.handle_init_producer_id_sent()
        assert manager.time_to_init_producer_id(0.0) is None
        error = CoordinatorLoadInProgressError()
        manager.handle_init_producer_id_failed(error, 10.0)
        failed_with = manager.last_error
        assert manager.time_to_init_producer_id(10.04) == pytest.approx(0.06)
        manager.handle_init_producer_id_sent()
        manager.handle_init_producer_id_failed(error, 11.0)
        assert manager.time_to_init_producer_id(11.0) == pytest.approx(0.2)
        manager.handle_init_producer_id_sent()
        manager.handle_init_producer_id(1, 0)
        assert (failed_with, manager.last_error) == (error, None)
        assert manager.state is TransactionManagerState.READY

    def test_states_change_only_as_the_table_says(self, manager: TransactionManager) -> None:
        with pytest.raises(IllegalTransitionError):
            manager.handle_init_producer_id(1, 1)
        assert "UNINITIALIZED --> INITIALIZING" in TRANSACTION_MANAGER_STATES.diagram()
