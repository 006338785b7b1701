"""Each error code in a Produce response, and the action that follows from it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aiokafkapy.common import ExponentialBackoff, TopicPartition
from aiokafkapy.errors import (
    DeliveryTimeoutError,
    InvalidRecordError,
    NotLeaderOrFollowerError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnsupportedVersionError,
)
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.identity.sequenced_batch import SequencedBatch
from aiokafkapy.producer.identity.transaction_manager import TransactionManager
from aiokafkapy.producer.sender.produce_responses import (
    Outcome,
    RetryLimits,
    answers_by_partition,
    decide,
    delivery_timeout_error,
    leader_hints,
    no_answer,
)

from ..accumulator_harness import ready_manager
from ..sender_fakes import answer_of

A = TopicPartition("t", 3)


class Batch(SequencedBatch):
    """The part of a ProducerBatch that is asked for."""

    topic_partition = A

    def __init__(self, record_count: int = 10, attempts: int = 0, created: float = 0.0, is_done: bool = False) -> None:
        super().__init__(record_count=record_count)
        self.set_producer_state(0, 0, 5)
        self.attempts = attempts
        self.created = created
        self.is_done = is_done
        self.size = 1000

    def destination(self) -> TopicPartition:
        return self.topic_partition

    def has_reached_delivery_timeout(self, delivery_timeout: float, now: float) -> bool:
        return now - self.created >= delivery_timeout


def outcome(code: int, batch: Batch | None = None, manager: TransactionManager | None = None, **changes: Any) -> Any:
    limits: dict[str, Any] = {"retries": 5, "delivery_timeout": 100.0}
    limits |= {name: changes.pop(name) for name in RetryLimits._fields if name in changes}
    fields = {
        name: changes.pop(name) for name in ("record_errors", "error_message", "log_start_offset") if name in changes
    }
    answered = cast(ProducerBatch, batch or Batch())
    now = changes.pop("now", 10.0)
    return decide(answer_of(A, code, **fields), answered, manager, RetryLimits(**limits), now, **changes)


@pytest.mark.parametrize("code", [0, 46])
def test_success_and_a_duplicate_complete_the_batch(code: int) -> None:
    assert outcome(code).outcome is Outcome.COMPLETE


@pytest.mark.parametrize(
    ("code", "refreshes", "in_doubt"),
    [
        (2, False, False), (3, True, False), (5, True, False), (6, True, True), (7, False, True), (13, True, True),
        (19, False, False), (20, False, True), (56, True, True), (72, True, False), (74, True, False),
        (100, True, False),
    ],
)  # fmt: skip
def test_retriable_errors_are_retried(code: int, refreshes: bool, in_doubt: bool) -> None:
    decision = outcome(code)
    assert decision.outcome is Outcome.RETRY
    assert decision.refresh_metadata is refreshes
    assert decision.in_doubt is in_doubt
    assert decision.error.topic == "t"
    assert decision.error.partition == 3


@pytest.mark.parametrize("code", [-1, 17, 21, 29, 31, 32, 35, 38, 43, 47, 76, 87, 90, 999])
def test_other_errors_fail_the_batch(code: int) -> None:
    decision = outcome(code)
    assert decision.outcome is Outcome.FAIL
    assert decision.error is not None
    assert str(decision.error).startswith("t-3: ")


def test_an_error_code_of_a_newer_broker_is_named_by_its_number() -> None:
    decision = outcome(999)
    assert isinstance(decision.error, UnknownServerError)
    assert "999" in str(decision.error)


def test_out_of_tries_the_error_itself_is_raised_and_the_gap_is_not_closed() -> None:
    decision = outcome(6, Batch(attempts=5))
    assert decision.outcome is Outcome.FAIL
    assert isinstance(decision.error, NotLeaderOrFollowerError)
    assert not decision.adjust_sequence_numbers
    assert decision.refresh_metadata


def test_out_of_time_it_is_a_delivery_timeout_with_the_error_as_its_cause() -> None:
    decision = outcome(6, now=100.0)
    assert decision.outcome is Outcome.FAIL
    assert isinstance(decision.error, DeliveryTimeoutError)
    assert isinstance(decision.error.__cause__, NotLeaderOrFollowerError)
    assert "delivery_timeout_ms=100000" in str(decision.error)
    assert decision.error.outcome_unknown
    assert not outcome(19, now=100.0).error.outcome_unknown


def test_a_leader_that_lost_the_lead_may_have_appended_before_and_the_sequence_is_not_used_again() -> None:
    decision = outcome(6, now=100.0)
    assert decision.error.outcome_unknown
    assert not decision.adjust_sequence_numbers


def test_a_failure_is_in_doubt_when_any_attempt_was() -> None:
    assert not outcome(29).error.outcome_unknown
    assert outcome(29).adjust_sequence_numbers
    decision = outcome(29, was_in_doubt=True)
    assert decision.error.outcome_unknown
    assert not decision.adjust_sequence_numbers
    assert outcome(-1).error.outcome_unknown


@pytest.mark.parametrize(("code", "is_known"), [(19, False), (6, False), (13, False), (45, True), (59, True)])
def test_a_batch_may_be_renumbered_once_a_broker_has_looked_for_it(code: int, is_known: bool) -> None:
    decision = outcome(code, manager=TransactionManager(ExponentialBackoff(0.1, 1.0)), was_in_doubt=True)
    assert decision.outcome is Outcome.RETRY
    assert decision.may_be_renumbered is is_known


def test_a_request_that_never_left_leaves_no_doubt() -> None:
    assert outcome(13).in_doubt
    assert not outcome(13, was_sent=False).in_doubt


def test_a_refused_codec_is_left_out_where_nobody_asked_for_it() -> None:
    assert outcome(76).outcome is Outcome.FAIL
    assert outcome(76, is_codec_ours=True).outcome is Outcome.RETRY_UNCOMPRESSED
    assert outcome(76, Batch(is_done=True), is_codec_ours=True).outcome is Outcome.FAIL
    assert outcome(10, is_codec_ours=True).outcome is Outcome.SPLIT


@pytest.mark.parametrize("code", [10, 18])
def test_too_large_a_batch_is_split_and_a_single_record_fails_with_its_size(code: int) -> None:
    assert outcome(code).outcome is Outcome.SPLIT
    assert outcome(code, now=1000.0).outcome is Outcome.SPLIT
    decision = outcome(code, Batch(record_count=1), error_message="limit 500")
    assert decision.outcome is Outcome.FAIL
    assert isinstance(decision.error, RecordTooLargeError)
    assert decision.error.size == 1000
    assert "limit 500" in str(decision.error)


@pytest.mark.parametrize("code", [32, 87])
def test_records_named_by_the_broker_fail_alone(code: int) -> None:
    named = ((2, "bad"), (4, None), (99, "of no record"))
    decision = outcome(code, record_errors=named, error_message="some are bad")
    assert decision.outcome is Outcome.RETRY_WITHOUT_RECORDS
    assert set(decision.errors_by_index) == {2, 4}
    assert "bad" in str(decision.errors_by_index[2])
    assert "some are bad" in str(decision.errors_by_index[4])


def test_when_every_record_is_named_each_fails_with_its_own_error() -> None:
    decision = outcome(87, Batch(record_count=2), record_errors=((0, "a"), (1, "b")))
    assert decision.outcome is Outcome.FAIL
    assert isinstance(decision.errors_by_index[1], InvalidRecordError)
    assert "b" in str(decision.errors_by_index[1])


def test_a_batch_that_has_its_outcome_asks_for_nothing() -> None:
    manager = ready_manager()
    for code in (6, 45, 59, 10, 87):
        assert outcome(code, Batch(is_done=True), manager, record_errors=((1, "x"),)).outcome is Outcome.FAIL
    assert not manager.wants_attention()


def test_with_idempotence_the_transaction_manager_is_asked() -> None:
    manager = ready_manager()
    assert outcome(45).outcome is Outcome.FAIL
    assert outcome(45, manager=manager).outcome is Outcome.RETRY
    assert outcome(59, manager=manager, log_start_offset=7).outcome is Outcome.RETRY
    assert manager.wants_attention()
    assert outcome(29, manager=manager).outcome is Outcome.FAIL


def test_the_error_for_an_unsupported_version_has_its_meaning() -> None:
    decision = outcome(35)
    assert isinstance(decision.error, UnsupportedVersionError)
    assert "version of Produce" in str(decision.error)


def test_the_delivery_timeout_names_count_and_cause() -> None:
    cause = TopicAuthorizationFailedError("no")
    error = delivery_timeout_error(A, 1, 1.5, outcome_unknown=True, cause=cause)
    assert str(error) == (
        "t-3: 1 record had no outcome within delivery_timeout_ms=1500, may or may not have been written; last error: no"
    )
    assert error.outcome_unknown
    assert error.__cause__ is cause
    text = str(delivery_timeout_error(A, 2, 1.5, outcome_unknown=False, cause="no leader"))
    assert "2 records" in text
    assert text.endswith("not written; last error: no leader")
    assert "last error" not in str(delivery_timeout_error(A, 2, 1.5, outcome_unknown=False, cause=None))


def test_answers_are_found_by_name_or_by_topic_id() -> None:
    topic_id = bytes(15) + b"\1"
    by_id = answer_of(A, topic=None, topic_id=topic_id)
    stranger = answer_of(A, topic=None, topic_id=bytes(15) + b"\2")
    assert answers_by_partition([by_id, stranger], {topic_id: "named"}) == {TopicPartition("named", 3): by_id}
    assert answers_by_partition([answer_of(A)], {}) == {A: answer_of(A)}


def test_leader_hints_are_those_of_partitions_that_failed() -> None:
    hinted = answer_of(A, 6, current_leader=(2, 9))
    answers = {
        A: hinted,
        TopicPartition("t", 4): answer_of(A, 6, current_leader=None),
        TopicPartition("t", 5): answer_of(A, 0, current_leader=(2, 9)),
        TopicPartition("t", 6): answer_of(A, 6, current_leader=(2, -1)),
    }
    assert leader_hints(answers) == {A: (2, 9)}


def test_the_stand_in_for_a_missing_answer_is_an_answer() -> None:
    found = no_answer(A, 13, "gone")
    assert (found.topic, found.partition, found.error_code, found.error_message) == ("t", 3, 13, "gone")
    assert found.base_offset == -1
