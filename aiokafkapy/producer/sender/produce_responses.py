"""Turns a partition's answer to a Produce request into the batch's outcome: every case, in one pure function.

``decide`` takes an answer and a batch, and returns the Sender's next step; it does not act itself. Kafka's
counterpart is ``Sender.completeBatch`` with ``canRetry`` and ``failBatch``. It knows no clock (``now`` is an argument),
no accumulator and no sockets; it may tell the transaction manager that an epoch bump is needed, as Java's ``canRetry``.

Rules: every answer but success, split and retry fails the batch, so that no answer leaves it pending; a retry
needs attempts and time left; an error gives the partition, the broker's answer, and whether the records may have
been written.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from ...common import TopicPartition, counted
from ...errors import (
    DeliveryTimeoutError,
    DuplicateSequenceNumberError,
    GaplessGuaranteeError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NetworkError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    PurgedError,
    RecordListTooLargeError,
    RecordTooLargeError,
    RequestTimedOutError,
    UnknownProducerIdError,
    UnknownServerError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
    for_code,
    make,
)
from ...protocol.produce_response import PartitionProduceResponse
from ..identity.transaction_manager import TransactionManager

if TYPE_CHECKING:
    from ..accumulator.producer_batch import ProducerBatch

__all__ = [
    "CODEC_REFUSED",
    "REFUSALS_BY_LIMITS",
    "Decision",
    "Outcome",
    "RetryLimits",
    "answers_by_partition",
    "decide",
    "delivery_timeout_error",
    "gapless_error",
    "leader_hints",
    "no_answer",
    "record_timeout_error",
    "taken_back_error",
]

NO_ERROR: Final = 0

_IN_DOUBT: Final = frozenset(
    (
        NetworkError.code,
        RequestTimedOutError.code,
        NotEnoughReplicasAfterAppendError.code,
        UnknownServerError.code,
        NotLeaderOrFollowerError.code,
        KafkaStorageError.code,
    )
)
"""After these errors the records may be in the log. The last two also come from a leader that appended them, waited
for its followers and lost the lead or a disk meanwhile (Java's ``DelayedProduce``,
``ReplicaManager.getPartitionOrError``).
"""

_NOT_THERE: Final = frozenset((OutOfOrderSequenceNumberError.code, UnknownProducerIdError.code))
"""A broker that answers with one of these has looked for the batch among those that it remembers: it is not there."""

_TOO_LARGE: Final = frozenset((MessageTooLargeError.code, RecordListTooLargeError.code))

_NAMES_RECORDS: Final = frozenset((InvalidRecordError.code, InvalidTimestampError.code))
"""Errors that may name the records at fault (KIP-467)."""


CODEC_REFUSED: Final = UnsupportedCompressionTypeError.code

REFUSALS_BY_LIMITS: Final = _TOO_LARGE | {InvalidTimestampError.code}
"""Errors that depend on the topic's configuration."""


class Outcome(enum.Enum):
    """The Sender's actions on a batch."""

    COMPLETE = "complete"
    SPLIT = "split"
    RETRY = "retry"
    RETRY_UNCOMPRESSED = "retry at once, without the codec, which was ours to choose"
    RETRY_WITHOUT_RECORDS = "retry without the records named in errors_by_index"
    FAIL = "fail"


class Decision(NamedTuple):
    """The action on a batch, and its reason."""

    outcome: Outcome
    error: KafkaError | None = None
    refresh_metadata: bool = False
    adjust_sequence_numbers: bool = False
    """The batch failed and is known not to be on the broker: its sequences left a gap."""
    in_doubt: bool = False
    """It is not known whether this attempt wrote the records."""
    errors_by_index: Mapping[int, KafkaError] = {}
    may_be_renumbered: bool = False
    """The broker looked for the records and does not have them."""


class RetryLimits(NamedTuple):
    """The limits of sending a batch again, by the options."""

    retries: int
    delivery_timeout: float
    """In seconds."""
    may_leave_gap: bool = True
    """If False, a batch is not sent again without the records that the broker refused."""


def decide(
    answer: PartitionProduceResponse,
    batch: ProducerBatch,
    transaction_manager: TransactionManager | None,
    limits: RetryLimits,
    now: float,
    *,
    was_in_doubt: bool = False,
    was_sent: bool = True,
    is_codec_ours: bool = False,
) -> Decision:
    """The outcome of ``batch`` after ``answer``.

    ``was_in_doubt`` says that an earlier attempt may have been written, ``was_sent`` that a part of this one may have
    reached the broker. ``is_codec_ours``: the batch is compressed with a codec that we chose.
    """
    code = answer.error_code
    if code in (NO_ERROR, DuplicateSequenceNumberError.code):
        # A duplicate is on the broker already, from an attempt whose answer was lost; only its offset is unknown.
        return Decision(Outcome.COMPLETE)
    if code in _TOO_LARGE and batch.record_count > 1 and not batch.is_done:
        return Decision(Outcome.SPLIT, make(code, answer.error_message))
    if code == CODEC_REFUSED and is_codec_ours and not batch.is_done:
        return Decision(Outcome.RETRY_UNCOMPRESSED, make(code, answer.error_message))
    refresh = for_code(code).invalid_metadata
    in_doubt = code in _IN_DOUBT and was_sent
    out_of_time = batch.has_reached_delivery_timeout(limits.delivery_timeout, now)
    has_tries_left = batch.attempts < limits.retries
    may_go_on = has_tries_left and not out_of_time and not batch.is_done
    named = _errors_by_index(answer, batch)
    # In a transaction the other records are of no use without them, and later batches would need another epoch.
    may_leave_gap = limits.may_leave_gap and (transaction_manager is None or transaction_manager.transaction is None)
    if 0 < len(named) < batch.record_count and may_go_on and may_leave_gap:
        return Decision(Outcome.RETRY_WITHOUT_RECORDS, _error_of(answer, batch), errors_by_index=named)
    is_retriable = _is_retriable(answer, batch, transaction_manager)
    error = _error_of(answer, batch)
    if is_retriable and may_go_on:
        return Decision(
            Outcome.RETRY,
            error,
            refresh_metadata=refresh,
            in_doubt=in_doubt,
            may_be_renumbered=code in _NOT_THERE,
        )
    unknown = in_doubt or was_in_doubt
    error.outcome_unknown = unknown
    if is_retriable and out_of_time:
        error = delivery_timeout_error(
            batch.topic_partition, batch.record_count, limits.delivery_timeout, outcome_unknown=unknown, cause=error
        )
    # A gap can be closed only when it is certain; otherwise the records may be on the broker, under these sequences.
    return Decision(
        Outcome.FAIL,
        error,
        refresh_metadata=refresh,
        adjust_sequence_numbers=has_tries_left and not unknown,
        in_doubt=in_doubt,
        errors_by_index=named,
    )


def delivery_timeout_error(
    topic_partition: TopicPartition,
    record_count: int,
    delivery_timeout: float,
    *,
    outcome_unknown: bool,
    cause: BaseException | str | None,
) -> DeliveryTimeoutError:
    """The error of a batch that had no outcome in time; ``cause`` is the last error of its partition, if any."""
    fate = "may or may not have been written" if outcome_unknown else "not written"
    reason = f"; last error: {cause}" if cause is not None else ""
    error = DeliveryTimeoutError(
        f"{topic_partition}: {counted(record_count, 'record')} had no outcome within "
        f"delivery_timeout_ms={round(delivery_timeout * 1000)}, {fate}{reason}",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        outcome_unknown=outcome_unknown,
    )
    error.__cause__ = cause if isinstance(cause, BaseException) else None
    return error


def record_timeout_error(topic_partition: TopicPartition, *, outcome_unknown: bool) -> DeliveryTimeoutError:
    """The error of records without an outcome within the time that their call gave them."""
    fate = "they are in a request, and may or may not be written" if outcome_unknown else "not sent"
    return DeliveryTimeoutError(
        f"{topic_partition}: no outcome within the time of the call (delivery_timeout_ms, or deadline()): {fate}",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        outcome_unknown=outcome_unknown,
    )


def taken_back_error(topic_partition: TopicPartition, *, outcome_unknown: bool) -> PurgedError | None:
    """The error of records whose calls were cancelled before they were sent; None for records that stay."""
    if outcome_unknown:
        return None
    topic, partition = topic_partition
    return PurgedError(f"{topic_partition}: not sent, because the call was cancelled", topic=topic, partition=partition)


def gapless_error(
    topic_partition: TopicPartition, record_count: int, *, outcome_unknown: bool, cause: BaseException
) -> GaplessGuaranteeError:
    """The error of a batch behind one that failed, which left a gap; ``cause`` is the error of that batch."""
    fate = "may or may not have been written" if outcome_unknown else "not written"
    error = GaplessGuaranteeError(
        f"{topic_partition}: {counted(record_count, 'record')} {fate}, because an earlier one of the partition failed "
        f"(enable_gapless_guarantee): {cause}",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        outcome_unknown=outcome_unknown,
    )
    error.__cause__ = cause
    return error


def answers_by_partition(
    partitions: Iterable[PartitionProduceResponse], topic_names: Mapping[bytes | None, str]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """A response's parts by partition; ``topic_names`` are those of the ids in the request. Other ids are left out."""
    found = {}
    for answer in partitions:
        topic = answer.topic if answer.topic is not None else topic_names.get(answer.topic_id)
        if topic is not None:
            # As TopicPartition(topic, answer.partition), without a Python call for each.
            found[tuple.__new__(TopicPartition, (topic, answer.partition))] = answer
    return found


def no_answer(topic_partition: TopicPartition, code: int, message: str | None = None) -> PartitionProduceResponse:
    """The substitute for a missing answer: a disconnection, a time-out, a response without the partition."""
    return PartitionProduceResponse(
        topic=topic_partition.topic,
        topic_id=None,
        partition=topic_partition.partition,
        error_code=code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=-1,
        error_message=message,
    )


def leader_hints(
    answers: Mapping[TopicPartition, PartitionProduceResponse],
) -> dict[TopicPartition, tuple[int, int]]:
    """The new leaders (id, epoch) that a Produce response named (KIP-951)."""
    return {
        topic_partition: answer.current_leader
        for topic_partition, answer in answers.items()
        if answer.error_code and answer.current_leader is not None and answer.current_leader[1] >= 0
    }


def _is_retriable(
    answer: PartitionProduceResponse, batch: ProducerBatch, transaction_manager: TransactionManager | None
) -> bool:
    if batch.is_done:
        return False  # nor may it ask for an epoch bump
    if transaction_manager is not None:
        return transaction_manager.can_retry(answer.error_code, answer.log_start_offset, batch)
    return for_code(answer.error_code).retriable


def _error_of(answer: PartitionProduceResponse, batch: ProducerBatch) -> KafkaError:
    topic, partition = batch.topic_partition
    if answer.error_code in _TOO_LARGE:
        reason = answer.error_message or "it is larger than max.message.bytes of the topic"
        return RecordTooLargeError(
            f"{batch.topic_partition}: the broker refused a record: the batch with it alone has {batch.size} bytes; "
            f"{reason}",
            size=batch.size,
            topic=topic,
            partition=partition,
        )
    message = answer.error_message
    if answer.error_code == UnsupportedVersionError.code and message is None:
        message = "the broker does not speak a version of Produce that these records need"
    return make(answer.error_code, message, topic=topic, partition=partition)


def _errors_by_index(answer: PartitionProduceResponse, batch: ProducerBatch) -> dict[int, KafkaError]:
    """One error for each record that the broker named; indexes outside the batch are ignored."""
    if answer.error_code not in _NAMES_RECORDS:
        return {}
    topic, partition = batch.topic_partition
    return {
        index: make(answer.error_code, message or answer.error_message, topic=topic, partition=partition)
        for index, message in answer.record_errors
        if 0 <= index < batch.record_count
    }
