"""The batches in Produce requests, and their outcomes, with an answer or without one.

Owns the batches on the wire, their expiry, the attempts that ended in doubt, and the last error of each partition.
``produce_responses`` decides, this class acts: it completes, fails, splits, or queues again. It sends nothing and
knows no sockets and no clock. Kafka's counterparts are ``Sender.inFlightBatches`` and ``completeBatch`` to
``failBatch``.

Rules:

- An answered batch has its outcome, or is queued again, before the next one is handled; a bug harms only one.
- Memory of a batch is given back when its request is over, not before: the transport may hold its bytes until then.
- A batch is *in doubt* if it was on the wire when its time was over, or if an attempt of it had no answer: its error
  says ``outcome_unknown``, and its sequence counts as unresolved.
- Gapless guarantee: with a batch all waiting batches behind it fail; those in flight complete or fail, and are not
  sent again. Brokers take no batch whose sequence does not follow, so nothing after the gap is written meanwhile.

Events: ``produce.retry`` (warning; topic, partition, error, attempts), ``produce.failed`` (error; topic, partition,
records, error), ``produce.split`` (info; topic, partition, records), ``produce.records_expired`` (warning; records,
in_doubt), ``produce.records_lost`` (error; topic, partition, offset, acknowledged),
``produce.handler_failed`` (error: a bug).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ...common import TopicPartition
from ...errors import DeliveryTimeoutError, KafkaError, NetworkError, PurgedError
from ...observability import RateLimitedLogger, get_logger
from ...protocol.produce_response import PartitionProduceResponse
from ..accumulator.producer_batch import BatchState, ProducerBatch
from ..accumulator.record_accumulator import RecordAccumulator
from ..deliveries.produce_request_result import ProduceRequestResult
from ..identity.transaction_manager import TransactionManager
from ..metrics import SenderMetrics
from ..observation.batch_watch import BatchWatcher
from ..producer_metadata import ProducerMetadata
from .produce_responses import (
    CODEC_REFUSED,
    NO_ERROR,
    REFUSALS_BY_LIMITS,
    Decision,
    Outcome,
    RetryLimits,
    decide,
    delivery_timeout_error,
    gapless_error,
    no_answer,
    record_timeout_error,
    taken_back_error,
)

if TYPE_CHECKING:
    from ..config import ProducerConfig

__all__ = ["InFlightBatches"]

_NEVER: Final = math.inf

# Looked up once: reading a member off its class costs more than the comparison.
_IN_FLIGHT: Final = BatchState.IN_FLIGHT

_logger = get_logger(__name__)


class MakesError(Protocol):
    """Makes the error of a batch with so many records."""

    def __call__(self, topic_partition: TopicPartition, count: int, /, *, outcome_unknown: bool) -> KafkaError: ...


class InFlightBatches:
    """The batches on the wire, and the handling of their answers."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        transaction_manager: TransactionManager | None,
        metrics: SenderMetrics,
    ) -> None:
        self._metadata = metadata
        self._accumulator = accumulator
        self._transaction_manager = transaction_manager
        self._metrics = metrics
        self._log = RateLimitedLogger(_logger)
        # Options
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._guarantee_message_order = config.guarantee_message_order
        self._is_gapless = config.enable_gapless_guarantee
        self._limits = RetryLimits(config.retries, self._delivery_timeout, may_leave_gap=not self._is_gapless)
        # The batches on the wire, and the time before which no batch of them expires
        self._requests: list[list[ProducerBatch]] = []
        self._next_expiry = _NEVER
        self.last_errors: dict[TopicPartition, KafkaError] = {}
        self.watch: BatchWatcher | None = None
        self.on_refused: Callable[[str], object] | None = None
        """Called with the topic of a batch that a broker found too large, or whose timestamps it does not take."""
        self.on_codec_refused: Callable[[str, int], bool] | None = None
        """Called with the topic and the codec of a batch that a broker refused for its codec; True if we chose that
        codec.
        """

    def __len__(self) -> int:
        return sum(map(len, self._requests))

    def partitions(self) -> set[TopicPartition]:
        """The partitions that have a batch in a request without an answer yet. Walks over the batches."""
        return {batch.topic_partition for batches in self._requests for batch in batches}

    def add(self, batches: list[ProducerBatch]) -> None:
        """These batches go into a request."""
        self._requests.append(batches)
        for batch in batches:
            self._next_expiry = min(self._next_expiry, batch.created + self._delivery_timeout)
            if self._guarantee_message_order:
                self._accumulator.mute_partition(batch.topic_partition)

    def over(self, batches: list[ProducerBatch]) -> None:
        """The request of ``batches``, the very list that was added, is over; their answers are to be handled next."""
        for position, candidate in enumerate(self._requests):
            if candidate is batches:
                del self._requests[position]
                break
        if not self._requests:
            self._next_expiry = _NEVER

    def handle_answers(
        self,
        batches: list[ProducerBatch],
        answers: Mapping[TopicPartition, PartitionProduceResponse],
        now: float,
        was_sent: bool = True,
    ) -> None:
        """``over`` and the answers. ``was_sent``: a byte of the request may have reached the broker."""
        self.over(batches)
        for batch in batches:
            self.handle_answer(batch, answers.get(batch.topic_partition), now, was_sent)

    def handle_answer(
        self, batch: ProducerBatch, answer: PartitionProduceResponse | None, now: float, was_sent: bool
    ) -> None:
        """As ``handle_answers``, for one batch whose request is ``over``; None: the response left it out."""
        topic_partition = batch.topic_partition
        if answer is None:
            answer = no_answer(topic_partition, NetworkError.code, "the response left the partition out")
        try:
            if answer.error_code == NO_ERROR:  # nearly always
                self._complete(batch, answer, now)
            else:
                self._act_on(batch, answer, now, was_sent)
        except Exception as error:
            # A bug of ours must not keep the other partitions from their outcomes.
            _logger.error("produce.handler_failed", topic=topic_partition.topic, error=repr(error), exc_info=error)
            self.fail(batch, error, now)
        if self._guarantee_message_order:
            self._accumulator.unmute_partition(topic_partition)

    def fail(
        self,
        batch: ProducerBatch,
        error: BaseException,
        now: float,
        *,
        adjust_sequence_numbers: bool = False,
        named: Mapping[int, KafkaError] | None = None,
        is_over: bool = True,
        is_told: bool = True,
    ) -> None:
        """Fail a batch for good. ``named`` records have errors of their own; ``is_over``: the batch is not on the
        wire; ``is_told``: the error is worth a line in the log.
        """
        manager = self._transaction_manager
        if manager is not None:
            manager.handle_failed_batch(batch, error, adjust_sequence_numbers=adjust_sequence_numbers)
            if batch.has_sequence and not adjust_sequence_numbers and not batch.is_done:
                manager.mark_sequence_unresolved(batch)
        if self.watch is not None and not batch.is_done:
            self.watch.failed(batch, batch.record_count, error, now)
        if batch.fail(partial(_error_of_record, named, error) if named else error):
            self._metrics.record_failure(batch.record_count, error, now)
            if is_told:
                self._log_failure(batch, batch.record_count, error, now)
            if self._is_gapless:
                self._fail_followers(batch, error, now)
        if is_over:
            self._accumulator.deallocate(batch)
        else:
            self._accumulator.settled_on_the_wire()

    def expire(self, now: float) -> None:
        """Fail the batches older than ``delivery_timeout_ms``, whether they wait or are on the wire."""
        for batch in self._accumulator.expired_batches(now):
            self._expire(batch, now, is_over=True)
        if now >= self._next_expiry:
            self._expire_on_the_wire(now)

    def purge(
        self,
        is_meant: Callable[[TopicPartition], bool],
        make_error: MakesError,
        now: float,
        *,
        in_flight: bool,
    ) -> int:
        """Fail the batches of these partitions that were never sent, and with ``in_flight`` all others too; returns
        the number of records.

        As with expiry, a batch that was sent leaves no gap: its sequence counts as unresolved until that is settled.
        """
        count = 0
        for batch in self._accumulator.take_queued(is_meant, also_sent=in_flight):
            error = make_error(batch.topic_partition, batch.record_count, outcome_unknown=batch.is_in_doubt)
            count += batch.record_count
            self.fail(batch, error, now, is_told=False)
        if not in_flight:
            return count
        for batch in [batch for batches in self._requests for batch in batches]:
            if batch.state is _IN_FLIGHT and is_meant(batch.topic_partition):
                count += batch.record_count
                error = make_error(batch.topic_partition, batch.record_count, outcome_unknown=True)
                self.fail(batch, error, now, is_over=False, is_told=False)
        return count

    def expire_records(self, overdue: Mapping[ProduceRequestResult, Collection[int]], now: float) -> None:
        """These records are overdue by the time of their calls; see ``RecordAccumulator.expire_records``."""
        left, told = self._accumulator.expire_records(overdue, record_timeout_error)
        if left:
            self._metrics.record_failure(left, DeliveryTimeoutError(), now)
        if left or told:
            topics = sorted({result.topic_partition.topic for result in overdue})
            fields = {"records": left, "in_doubt": told, "topics": topics}
            self._log.log("expired", now, logging.WARNING, "produce.records_expired", **fields)

    def take_back(self, records: Mapping[ProduceRequestResult, Collection[int]], now: float) -> int:
        """The calls of these records were cancelled: those in batches that were never sent leave them and fail;
        returns their number. The others stay as they are.
        """
        left, _ = self._accumulator.expire_records(records, taken_back_error)
        if left:
            self._metrics.record_failure(left, PurgedError(), now)
        return left

    def time_to_expiry(self, now: float) -> float:
        """Seconds until ``expire`` has something to do; infinity when nothing is pending."""
        earliest = self._accumulator.next_expiry_time()
        if self._next_expiry < earliest:
            earliest = self._next_expiry
        return earliest - now if earliest > now else 0.0

    # internals

    def _expire_on_the_wire(self, now: float) -> None:
        self._next_expiry = _NEVER
        for batch in [batch for batches in self._requests for batch in batches]:
            if batch.state is not _IN_FLIGHT:
                continue  # the batch has its outcome, though no answer
            if batch.has_reached_delivery_timeout(self._delivery_timeout, now):
                self._expire(batch, now, is_over=False)
            else:
                self._next_expiry = min(self._next_expiry, batch.created + self._delivery_timeout)

    def _act_on(self, batch: ProducerBatch, answer: PartitionProduceResponse, now: float, was_sent: bool) -> None:
        decision = decide(
            answer,
            batch,
            self._transaction_manager,
            self._limits,
            now,
            was_in_doubt=batch.is_in_doubt,
            was_sent=was_sent,
            is_codec_ours=answer.error_code == CODEC_REFUSED and self._is_codec_ours(batch),
        )
        if decision.refresh_metadata:
            self._metadata.request_update()
        if self.on_refused is not None and answer.error_code in REFUSALS_BY_LIMITS:
            self.on_refused(batch.topic_partition.topic)
        if decision.outcome is Outcome.COMPLETE:
            self._complete(batch, answer, now)
        elif decision.outcome is not Outcome.FAIL and (gap := self._accumulator.gap_before(batch)) is not None:
            self._fail_behind(batch, gap, now, is_in_doubt=batch.is_in_doubt or decision.in_doubt)
        elif decision.outcome is Outcome.SPLIT:
            self._split(batch, now)
        elif decision.outcome is Outcome.RETRY:
            self._retry(batch, decision, now)
        elif decision.outcome is Outcome.RETRY_UNCOMPRESSED:
            self._metrics.record_retry(batch.record_count, decision.error or KafkaError("the codec was refused"), now)
            self._accumulator.reenqueue_uncompressed(batch)
        elif decision.outcome is Outcome.RETRY_WITHOUT_RECORDS:
            self._retry_without_records(batch, decision, now)
        else:
            self.fail(
                batch,
                decision.error or KafkaError("the broker refused the batch"),
                now,
                adjust_sequence_numbers=decision.adjust_sequence_numbers,
                named=decision.errors_by_index,
            )

    def _is_codec_ours(self, batch: ProducerBatch) -> bool:
        codec = batch.builder.compression
        return bool(codec and self.on_codec_refused and self.on_codec_refused(batch.topic_partition.topic, codec))

    def _fail_followers(self, batch: ProducerBatch, error: BaseException, now: float) -> None:
        for follower in self._accumulator.leave_gap(batch, error):
            self._fail_behind(follower, error, now, is_in_doubt=follower.is_in_doubt)

    def _fail_behind(self, batch: ProducerBatch, gap: BaseException, now: float, *, is_in_doubt: bool) -> None:
        error = gapless_error(batch.topic_partition, batch.record_count, outcome_unknown=is_in_doubt, cause=gap)
        self.fail(batch, error, now, adjust_sequence_numbers=batch.has_sequence and not is_in_doubt)

    def _complete(self, batch: ProducerBatch, answer: PartitionProduceResponse, now: float) -> None:
        if self._transaction_manager is not None:
            lost_from = self._transaction_manager.handle_completed_batch(batch, answer.base_offset)
            if lost_from >= 0:
                self._tell_of_truncation(batch.topic_partition, answer.base_offset, lost_from, now)
        if self.watch is not None and not batch.is_done:
            self.watch.completed(batch, answer.base_offset, now)
        if batch.complete(answer.base_offset, answer.log_append_time_ms):
            self._metrics.last_success = now
        if self.last_errors:
            self.last_errors.pop(batch.topic_partition, None)
        self._accumulator.deallocate(batch)

    def _tell_of_truncation(self, topic_partition: TopicPartition, offset: int, acknowledged: int, now: float) -> None:
        self._metrics.log_truncations += 1
        topic, partition = topic_partition
        fields = {"topic": topic, "partition": partition, "offset": offset, "acknowledged": acknowledged}
        self._log.log("records_lost", now, logging.ERROR, "produce.records_lost", **fields)

    def _split(self, batch: ProducerBatch, now: float) -> None:
        topic, partition = batch.topic_partition
        self._metrics.record_split(now)
        _logger.info("produce.split", topic=topic, partition=partition, records=batch.record_count)
        self._accumulator.split_and_reenqueue(batch)

    def _retry(self, batch: ProducerBatch, decision: Decision, now: float) -> None:
        topic, partition = batch.topic_partition
        error = decision.error or KafkaError("the broker refused the batch")
        self.last_errors[batch.topic_partition] = error
        if decision.in_doubt:
            batch.is_in_doubt = True
            batch.may_be_renumbered = False
        elif decision.may_be_renumbered:
            batch.may_be_renumbered = True
        self._metrics.record_retry(batch.record_count, error, now)
        if self._metrics.topics is not None:
            self._metrics.topics.retried(topic, batch.record_count, now)
        fields = {"topic": topic, "partition": partition, "error": str(error), "attempts": batch.attempts + 1}
        self._log.log(("retry", type(error)), now, logging.WARNING, "produce.retry", **fields)
        self._accumulator.reenqueue(batch, now)

    def _retry_without_records(self, batch: ProducerBatch, decision: Decision, now: float) -> None:
        refused = decision.errors_by_index
        for error in refused.values():
            self._metrics.record_failure(1, error, now)
        self._log_failure(batch, len(refused), decision.error, now)
        if self.watch is not None:
            self.watch.failed(batch, len(refused), decision.error or KafkaError("the broker refused records"), now)
        self._accumulator.remove_records_and_reenqueue(batch, refused)

    def _expire(self, batch: ProducerBatch, now: float, *, is_over: bool) -> None:
        cause: BaseException | str | None = self.last_errors.get(batch.topic_partition)
        if not batch.has_been_sent:
            cause = self._why_not_sent(batch.topic_partition)
        is_unknown = not is_over or batch.is_in_doubt
        error = delivery_timeout_error(
            batch.topic_partition, batch.record_count, self._delivery_timeout, outcome_unknown=is_unknown, cause=cause
        )
        self.fail(batch, error, now, is_over=is_over)

    def _why_not_sent(self, topic_partition: TopicPartition) -> BaseException | str:
        manager = self._transaction_manager
        if manager is not None and manager.last_error is not None:
            return manager.last_error
        failure = self._metadata.describe_failure(topic_partition.topic)
        if self._metadata.cluster.leader_for(topic_partition) is None:
            return f"no leader is known ({failure})"
        return f"the leader could not be reached ({failure})"

    def _log_failure(self, batch: ProducerBatch, records: int, error: BaseException | None, now: float) -> None:
        topic, partition = batch.topic_partition
        fields = {"topic": topic, "partition": partition, "records": records, "error": str(error)}
        self._log.log(("failed", type(error)), now, logging.ERROR, "produce.failed", **fields)


def _error_of_record(named: Mapping[int, KafkaError], error: BaseException, index: int) -> BaseException:
    return named.get(index, error)
