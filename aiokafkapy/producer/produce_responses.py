"""What follows from a partition's answer to a Produce request: KAFKA.md's "Produce outcomes", as one pure function.

``decide`` looks at an answer and a batch and says what the Sender must do; it does none of it. Kafka's counterpart is
``Sender.completeBatch`` with ``canRetry`` and ``failBatch``. It knows no clock (``now`` is an argument), no accumulator
and no sockets; it may tell the transaction manager that an epoch bump is needed, as Java's ``canRetry`` does.

Rules: an answer that is not one of success, split or retry fails the batch, so that no answer leaves it pending; a retry
needs attempts and time left; an error says where, what the broker said, and whether the records may be there all the same.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ..common import TopicPartition
from ..errors import (
    DeliveryTimeoutError,
    DuplicateSequenceNumberError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    RecordListTooLargeError,
    RecordTooLargeError,
    RequestTimedOutError,
    UnknownServerError,
    for_code,
    make,
)
from .transaction_manager import SequencedBatch, TransactionManager

__all__ = ["AnsweredBatch", "Decision", "Outcome", "PartitionAnswer", "decide", "delivery_timeout_error", "leader_hints"]

NO_ERROR: Final = 0

_IN_DOUBT: Final = frozenset(
    (NetworkError.code, RequestTimedOutError.code, NotEnoughReplicasAfterAppendError.code, UnknownServerError.code)
)
"""After these the records may be in the log."""

_NAMES_RECORDS: Final = frozenset((InvalidRecordError.code, InvalidTimestampError.code))
"""Errors that may name the records at fault (KIP-467)."""


class Outcome(enum.Enum):
    """What the Sender does with a batch."""

    COMPLETE = "complete"
    SPLIT = "split"
    RETRY = "retry"
    RETRY_WITHOUT_RECORDS = "retry without the records named in errors_by_index"
    FAIL = "fail"


class Decision(NamedTuple):
    """What to do with a batch, and why."""

    outcome: Outcome
    error: KafkaError | None = None
    refresh_metadata: bool = False
    adjust_sequence_numbers: bool = False
    in_doubt: bool = False
    """The attempt ended without it being known whether the records are on the broker."""
    errors_by_index: Mapping[int, KafkaError] = {}


class AnsweredBatch(SequencedBatch, Protocol):
    """What is asked of a ProducerBatch here, besides its sequence."""

    attempts: int

    @property
    def is_done(self) -> bool:
        """True once it has an outcome."""

    @property
    def size(self) -> int:
        """Bytes on the wire."""

    @property
    def in_doubt(self) -> bool:
        """True when an earlier attempt may have been written."""

    def has_reached_delivery_timeout(self, timeout: float, now: float) -> bool:
        """True when its time is over."""


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """One partition's part of a Produce response, or what stands for it when there was none (a disconnection)."""

    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


def decide(
    answer: PartitionAnswer,
    batch: AnsweredBatch,
    transaction_manager: TransactionManager | None,
    *,
    retries: int,
    delivery_timeout: float,
    now: float,
) -> Decision:
    """The outcome of ``batch`` after ``answer``. ``retries`` is how often it may be sent again, ``delivery_timeout`` seconds."""
    code = answer.error_code
    if code == NO_ERROR or code == DuplicateSequenceNumberError.code:
        # A duplicate is on the broker already, from an attempt whose answer was lost; only its offset is not known.
        return Decision(Outcome.COMPLETE)
    is_too_large = code in (MessageTooLargeError.code, RecordListTooLargeError.code)
    if is_too_large and batch.record_count > 1 and not batch.is_done:
        return Decision(Outcome.SPLIT, make(code, answer.error_message))
    error_class = for_code(code)
    refresh = error_class.invalid_metadata
    in_doubt = code in _IN_DOUBT
    tries_left = batch.attempts <= retries
    out_of_time = batch.has_reached_delivery_timeout(delivery_timeout, now)
    named = _errors_by_index(answer, batch) if code in _NAMES_RECORDS else {}
    if 0 < len(named) < batch.record_count and tries_left and not out_of_time and not batch.is_done:
        return Decision(Outcome.RETRY_WITHOUT_RECORDS, _error_of(answer, batch), errors_by_index=named)
    retriable = (
        transaction_manager.can_retry(code, answer.log_start_offset, batch)
        if transaction_manager is not None
        else error_class.retriable
    )
    error = _error_of(answer, batch)
    if retriable and tries_left and not out_of_time and not batch.is_done:
        return Decision(Outcome.RETRY, error, refresh, in_doubt=in_doubt)
    unknown = in_doubt or batch.in_doubt
    error.outcome_unknown = unknown
    if retriable and out_of_time:
        error = delivery_timeout_error(batch.topic_partition, batch.record_count, delivery_timeout, unknown, error)
    # A gap can be closed only when it is known to be one; otherwise the records may be there, and the sequence too.
    return Decision(Outcome.FAIL, error, refresh, tries_left and not unknown, in_doubt, named)


def delivery_timeout_error(
    topic_partition: TopicPartition,
    record_count: int,
    delivery_timeout: float,
    outcome_unknown: bool,
    cause: BaseException | None,
) -> DeliveryTimeoutError:
    """The error of a batch that had no outcome in time, with what went wrong last as its cause."""
    records = f"{record_count} record" + ("s" if record_count != 1 else "")
    fate = "may or may not have been written" if outcome_unknown else "not written"
    reason = f"; last error: {cause}" if cause is not None else ""
    error = DeliveryTimeoutError(
        f"{topic_partition}: {records} had no outcome within delivery_timeout_ms={round(delivery_timeout * 1000)}, "
        f"{fate}{reason}",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        outcome_unknown=outcome_unknown,
    )
    error.__cause__ = cause
    return error


def leader_hints(answers: Mapping[TopicPartition, PartitionAnswer]) -> dict[TopicPartition, tuple[int, int]]:
    """The new leaders (id, epoch) that a Produce response named (KIP-951); only known ones."""
    return {
        topic_partition: answer.current_leader
        for topic_partition, answer in answers.items()
        if answer.current_leader is not None and answer.current_leader[0] >= 0 and answer.current_leader[1] >= 0
    }


def _error_of(answer: PartitionAnswer, batch: AnsweredBatch) -> KafkaError:
    topic, partition = batch.topic_partition
    if answer.error_code in (MessageTooLargeError.code, RecordListTooLargeError.code):
        return RecordTooLargeError(
            f"{batch.topic_partition}: the broker refused a batch of {batch.record_count} record of {batch.size} bytes: "
            f"{answer.error_message or 'it is larger than the topic’s max.message.bytes'}",
            size=batch.size,
            topic=topic,
            partition=partition,
        )
    message = answer.error_message
    if answer.error_code in _NAMES_RECORDS:
        message = (message or for_code(answer.error_code).summary()) + (
            " (the whole batch was refused for it)" if answer.record_errors else ""
        )
    return make(answer.error_code, message, topic=topic, partition=partition)


def _errors_by_index(answer: PartitionAnswer, batch: AnsweredBatch) -> dict[int, KafkaError]:
    """One error for each record that the broker named; indexes outside the batch are ignored."""
    topic, partition = batch.topic_partition
    return {
        index: make(answer.error_code, message or answer.error_message, topic=topic, partition=partition)
        for index, message in answer.record_errors
        if 0 <= index < batch.record_count
    }
