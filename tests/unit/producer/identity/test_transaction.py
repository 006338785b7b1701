"""The states of a transaction, and the effects of errors on it: KIP-98, KIP-588 and KIP-890 as Java has them."""

from __future__ import annotations

import pytest

from aiokafkapy.common import ExponentialBackoff, TopicPartition
from aiokafkapy.errors import (
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    MessageTooLargeError,
    OutOfOrderSequenceNumberError,
    ProducerClosedError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
)
from aiokafkapy.errors.broker import make
from aiokafkapy.producer.identity.transaction import Transaction, TransactionState
from aiokafkapy.producer.identity.transaction_manager import TransactionManager

from .bare_batches import A, B, Batch

S = TransactionState


class Harness:
    """A transaction, with its identity, and the number of times that a partition was to be added."""

    def __init__(self, version: int = 2) -> None:
        self.asked = 0
        self.transaction = Transaction("tx", self._ask)
        self.manager = TransactionManager(ExponentialBackoff(0.1, 1.0, jitter=0), self.transaction)
        self.transaction.initialize()
        self.manager.use_identity(7, 0)
        self.transaction.version = version
        self.transaction.initialized()

    def _ask(self) -> None:
        self.asked += 1

    def stamped(self, topic_partition: TopicPartition = A) -> Batch:
        batch = Batch(topic_partition)
        assert not self.must_wait(batch)
        self.manager.stamp(batch)
        return batch

    def must_wait(self, batch: Batch) -> bool:
        return self.manager.should_stop_drain_batches_for_partition(batch.topic_partition, batch)


def test_a_transaction_goes_round_its_states() -> None:
    harness = Harness()
    transaction = harness.transaction
    for end in (transaction.start_commit, transaction.start_abort):
        transaction.begin()
        assert (transaction.is_open, transaction.is_unfinished) == (True, True)
        end()
        assert (transaction.is_open, transaction.is_unfinished) == (False, True)
        transaction.ended()
        assert transaction.state is S.READY


def test_in_version_2_the_first_batch_adds_its_partition() -> None:
    harness = Harness(2)
    harness.transaction.begin()
    assert not harness.transaction.is_known_to_the_broker
    harness.stamped()
    assert harness.transaction.partitions == {A}
    assert harness.asked == 0
    harness.transaction.start_commit()
    harness.transaction.ended()
    assert not harness.transaction.is_known_to_the_broker


def test_a_request_without_an_answer_may_have_reached_the_broker() -> None:
    harness = Harness(1)
    harness.transaction.begin()
    harness.transaction.unanswered += 1
    assert harness.transaction.is_known_to_the_broker
    assert not harness.transaction.has_begun_at_broker
    harness.transaction.start_abort()
    harness.transaction.ended()
    assert not harness.transaction.is_known_to_the_broker


def test_in_version_1_a_batch_waits_until_its_partition_is_added() -> None:
    harness = Harness(1)
    harness.transaction.begin()
    for _ in range(2):
        assert harness.must_wait(Batch(A))
        assert harness.must_wait(Batch(B))
    assert harness.asked == 2, "once for each"
    harness.transaction.start_commit()
    assert harness.transaction.takes_partitions, "those of a commit, too"
    harness.transaction.added({A})
    assert harness.stamped(A).base_sequence == 0
    assert harness.must_wait(Batch(B))
    assert harness.transaction.new_partitions == {B}


def test_another_epoch_restarts_the_sequences() -> None:
    harness = Harness()
    harness.transaction.begin()
    batch = harness.stamped()
    harness.manager.handle_completed_batch(batch, 0)
    harness.manager.use_identity(7, 1)
    batch = harness.stamped()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


@pytest.mark.parametrize(
    "error",
    [MessageTooLargeError(), TopicAuthorizationFailedError(), InvalidProducerEpochError(), TransactionAbortableError()],
    ids=lambda error: type(error).__name__,
)
def test_an_abortable_error_leaves_only_an_abort(error: KafkaError) -> None:
    transaction = Harness().transaction
    transaction.begin()
    transaction.fail(error)
    transaction.fail(KafkaError("a later one"))
    for call in (transaction.start_commit, transaction.begin):
        with pytest.raises((type(error), IllegalStateError)):
            call()
    assert type(transaction.why_no_record()) is type(error)
    transaction.start_abort()
    transaction.ended()
    assert transaction.error is None
    transaction.begin()


@pytest.mark.parametrize("error", [ProducerFencedError(), TransactionalIdAuthorizationFailedError()])
@pytest.mark.parametrize("state", [S.READY, S.IN_TRANSACTION, S.COMMITTING_TRANSACTION, S.ABORTABLE_ERROR])
def test_a_fatal_error_ends_it_in_any_state(error: KafkaError, state: TransactionState) -> None:
    transaction = Harness().transaction
    if state is not S.READY:
        transaction.begin()
    if state is S.COMMITTING_TRANSACTION:
        transaction.start_commit()
    if state is S.ABORTABLE_ERROR:
        transaction.fail(MessageTooLargeError())
    assert transaction.state is state
    transaction.fail(error)
    transaction.fail(MessageTooLargeError())
    for call in (transaction.begin, transaction.start_commit, transaction.start_abort):
        with pytest.raises(type(error)):
            call()
    assert type(transaction.why_no_record()) is type(error)
    assert transaction.state is S.FATAL_ERROR


def test_an_error_is_fatal_to_a_transaction_when_its_class_says_so() -> None:
    for code in range(-1, 134):
        transaction = Harness().transaction
        transaction.begin()
        error = make(code)
        transaction.fail(error)
        assert transaction.state is (S.FATAL_ERROR if error.fatal else S.ABORTABLE_ERROR), code


def test_an_error_of_the_client_is_not_fatal_to_a_transaction() -> None:
    transaction = Harness().transaction
    transaction.begin()
    transaction.fail(ProducerClosedError())
    assert transaction.state is S.ABORTABLE_ERROR


def test_a_commit_without_an_answer_may_be_asked_for_again_and_not_be_aborted() -> None:
    transaction = Harness().transaction
    transaction.begin()
    transaction.start_commit()
    with pytest.raises(IllegalStateError, match="its outcome is not known"):
        transaction.start_abort()
    transaction.start_commit()
    transaction.ended()


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        ProducerFencedError(),
        TransactionAbortableError(),
        UnknownProducerIdError(),
        InvalidTxnStateError(),
        InvalidProducerIdMappingError(),
        KafkaError("something new"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_end_that_is_refused_leaves_an_abort_after_a_commit_or_nothing(error: KafkaError, is_commit: bool) -> None:
    transaction = Harness().transaction
    transaction.begin()
    if is_commit:
        transaction.start_commit()
    else:
        transaction.start_abort()
    transaction.end_failed(error)
    leaves_an_abort = is_commit and isinstance(error, TransactionAbortableError | UnknownProducerIdError)
    assert transaction.state is (S.ABORTABLE_ERROR if leaves_an_abort else S.FATAL_ERROR)
    with pytest.raises(type(error)):
        transaction.start_commit()
    if leaves_an_abort:
        transaction.start_abort()
        transaction.ended()


@pytest.mark.parametrize("error", [InvalidTxnStateError(), InvalidProducerIdMappingError()])
def test_a_coordinator_that_knows_another_state_is_fatal(error: KafkaError) -> None:
    transaction = Harness().transaction
    transaction.begin()
    transaction.fail(error)
    assert transaction.state is S.FATAL_ERROR


def test_a_batch_that_fails_makes_it_abortable_and_needs_another_epoch() -> None:
    harness = Harness(1)
    harness.transaction.begin()
    harness.transaction.added({A})
    batch = harness.stamped()
    harness.manager.handle_failed_batch(batch, MessageTooLargeError(), adjust_sequence_numbers=True)
    assert harness.transaction.state is S.ABORTABLE_ERROR
    assert harness.transaction.needs_new_epoch
    assert not harness.manager.wants_attention(), "nothing is bumped or settled within a transaction"


def test_a_gap_in_the_sequences_is_retried_only_while_an_earlier_batch_is() -> None:
    harness = Harness()
    code = OutOfOrderSequenceNumberError.code or 0
    harness.transaction.begin()
    first = harness.stamped()
    harness.manager.handle_completed_batch(first, 0)
    second, third = harness.stamped(), harness.stamped()
    assert harness.manager.can_retry(code, -1, third), "the second comes first"
    assert not harness.manager.can_retry(code, -1, second)


def test_no_id_is_asked_for_by_the_way_of_idempotence() -> None:
    manager = TransactionManager(ExponentialBackoff(0.1, 1.0), Transaction("tx", lambda: None))
    assert manager.time_to_init_producer_id(0.0) is None


def test_another_cluster_is_another_epoch() -> None:
    harness = Harness()
    harness.transaction.begin()
    harness.manager.request_new_producer_id()
    assert isinstance(harness.transaction.error, InvalidProducerEpochError)
    assert harness.transaction.needs_new_epoch


def test_records_are_refused_in_words() -> None:
    transaction = Harness().transaction
    assert "transactional_id='tx'; send inside `async with" in str(transaction.why_no_record())
    transaction.begin()
    transaction.start_commit()
    assert "takes no more records: it is committing_transaction" in str(transaction.why_no_record())


def test_held_records_of_version_2_wait_but_for_partitions_that_the_broker_has_taken() -> None:
    harness = Harness()
    transaction = harness.transaction
    transaction.is_held = True
    transaction.begin()
    assert transaction.must_wait(A, 0)
    transaction.is_held = False
    assert not transaction.must_wait(A, 0)
    transaction.is_held = True
    assert not transaction.must_wait(A, 0)
    assert transaction.must_wait(B, 0)
    assert harness.asked == 0


def test_while_one_is_committed_the_next_takes_records_that_wait() -> None:
    harness = Harness()
    transaction = harness.transaction
    transaction.begin()
    transaction.start_commit_and_begin({A: 10})
    assert not transaction.must_wait(A, 9)
    assert transaction.must_wait(A, 10)
    assert transaction.must_wait(B, 0), "nothing of the first one is left there"
    transaction.ended()
    transaction.begin()
    assert not transaction.must_wait(A, 10)
    assert not transaction.must_wait(B, 0)


def test_an_error_after_the_cut_is_the_next_ones() -> None:
    harness = Harness()
    transaction = harness.transaction
    transaction.begin()
    transaction.start_commit_and_begin({A: 10})
    error = MessageTooLargeError()
    transaction.fail_batch(A, 10, error)
    transaction.fail_accepting(KafkaError("a later one"))
    assert transaction.state is TransactionState.COMMITTING_TRANSACTION
    transaction.ended()
    transaction.begin()
    assert (transaction.state, transaction.error) == (TransactionState.ABORTABLE_ERROR, error)


def test_an_error_before_the_cut_is_the_first_ones_and_the_next_is_forgotten() -> None:
    harness = Harness()
    transaction = harness.transaction
    transaction.begin()
    transaction.start_commit_and_begin({A: 10})
    transaction.fail_accepting(KafkaError("the next one's"))
    transaction.fail_batch(A, 9, MessageTooLargeError())
    assert transaction.state is TransactionState.ABORTABLE_ERROR
    transaction.forget_next()
    transaction.start_abort()
    transaction.ended()
    transaction.begin()
    assert transaction.is_open


def test_a_late_event_of_a_batch_that_had_its_outcome_harms_no_later_transaction() -> None:
    """The batch's time was over before its request was."""
    harness = Harness()
    transaction = harness.transaction
    transaction.begin()
    batch = harness.stamped()
    harness.manager.handle_failed_batch(batch, KafkaError("too late"), adjust_sequence_numbers=False)
    batch.is_done = True
    assert transaction.state is TransactionState.ABORTABLE_ERROR
    transaction.start_abort()
    transaction.ended()
    transaction.begin()
    harness.manager.handle_failed_batch(batch, KafkaError("no answer"), adjust_sequence_numbers=False)
    assert transaction.is_open
    assert not transaction.needs_new_epoch


def test_once_a_commit_is_sent_nothing_but_its_answer_fails_the_transaction() -> None:
    transaction = Harness().transaction
    transaction.begin()
    transaction.start_commit()
    transaction.is_commit_in_doubt = True
    transaction.fail(MessageTooLargeError())
    assert transaction.error is None
    transaction.end_failed(TransactionAbortableError())
    assert transaction.state is TransactionState.ABORTABLE_ERROR


def test_a_commit_that_succeeds_counts_though_the_producer_is_fenced_meanwhile() -> None:
    transaction = Harness().transaction
    transaction.begin()
    transaction.start_commit()
    transaction.is_commit_in_doubt = True
    transaction.fail(ProducerFencedError())
    transaction.ended()
    assert transaction.state is TransactionState.FATAL_ERROR
