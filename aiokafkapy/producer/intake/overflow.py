"""``Overflow``: decides the fate of a record without room, by the policy of its topic or of its call.

Owns the policies other than waiting, and the count of the records they dropped. It knows neither calls nor callers:
``Admission`` asks it instead of putting a record into the line. Java has only the wait, and librdkafka only the error.

Rules:

- Only unsent records are dropped: a batch in a request, or one that waits for its retry, is not.
- ``drop_oldest`` gives up whole batches, the oldest of all topics with that policy; their batches are small for that
  (``DROPPED_AT_ONCE``). The room goes first to the records of other topics that wait for it, and then to the new one.
  When nothing is left that could be dropped, the new record is.
- The work of ``spool`` is ``SpoolingAdmission``'s; here it is only a name.
- Each dropped record has an outcome, RecordDroppedError; it is counted, and told in the log now and then.

Events: ``producer.records_dropped`` (warning; topic, policy, records, total, reason).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ...common import TopicPartition
from ...errors import RecordDroppedError
from ...observability import RateLimitedLogger, get_logger
from ..accumulator.built_in_partitioner import UNKNOWN_PARTITION
from ..accumulator.producer_batch import ProducerBatch
from ..accumulator.serialized_record import WaitingRecord
from ..deliveries.delivery import Delivery, new_delivery
from ..deliveries.produce_request_result import ProduceRequestResult
from ..options.overflow_policy import DROP_NEWEST, DROP_OLDEST, RAISE, WAIT, OverflowPolicy
from ..records import serialized_size

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ..accumulator.record_accumulator import RecordAccumulator
    from ..config import ProducerConfig
    from ..metrics import SenderMetrics
    from .pending_record import PendingRecord

__all__ = ["Overflow"]

_logger = get_logger(__name__)


class Overflow:
    """The policies of one producer. ``dropped`` counts records, whether they had been accepted or not."""

    def __init__(self, config: ProducerConfig, accumulator: RecordAccumulator, metrics: SenderMetrics) -> None:
        self._default = config.overflow
        self._by_topic = {
            topic: options.overflow for topic, options in config.topics.items() if options.overflow is not None
        }
        self._accumulator = accumulator
        self._metrics = metrics
        self._log = RateLimitedLogger(_logger)
        self.dropped = 0

    def policy(self, topic: str) -> OverflowPolicy:
        """The topic's policy."""
        return self._by_topic.get(topic, self._default)

    def waits(self, record: PendingRecord) -> bool:
        """True when the record waits for room."""
        return self._policy_of(record) == WAIT

    def drops(self, record: PendingRecord) -> bool:
        """True when this record or another is dropped, so that the call neither waits nor fails."""
        return self._policy_of(record) in (DROP_NEWEST, DROP_OLDEST)

    def append(self, record: PendingRecord, now: float, cluster: Cluster) -> Delivery:
        """Accept a record that does not wait. Without room: raises BufferExhaustedError, or drops an older
        record, or this one, whose delivery has failed then. Raises as ``RecordAppender.append`` does.
        """
        delivery = self.append_if_room(record, now, cluster)
        if delivery is not None:
            return delivery
        appender, policy = self._accumulator.appender, self._policy_of(record)
        appender.check_record(record, now)  # a record that can never be accepted makes no room
        if policy == RAISE:
            raise appender.buffer_exhausted_error(record.topic, _partition_of(record))
        while policy == DROP_OLDEST and self._drop_oldest(now):
            delivery = self.append_if_room(record, now, cluster)
            if delivery is not None:
                return delivery
        return self._drop(record, policy, now)

    def append_if_room(self, record: WaitingRecord, now: float, cluster: Cluster) -> Delivery | None:
        """Accept the record as it is; None without room. Raises as ``RecordAppender.append`` does."""
        return self._accumulator.appender.append_record(record, now, cluster)

    # internals

    def _policy_of(self, record: PendingRecord) -> str:
        return self.policy(record.topic) if record.overflow is None else record.overflow

    def _drop_oldest(self, now: float) -> int:
        reason = self._accumulator.appender.describe_fullness()
        return self._accumulator.drop_oldest(self._may_lose_some, partial(self._error_of_batch, reason, now))

    def _may_lose_some(self, topic: str) -> bool:
        return self.policy(topic) == DROP_OLDEST

    def _error_of_batch(self, reason: str, now: float, batch: ProducerBatch) -> RecordDroppedError:
        topic, partition = batch.topic_partition
        count = batch.record_count
        error = RecordDroppedError(
            f"{batch.topic_partition}: dropped with {count - 1} others, the oldest that were not sent, for overflow is "
            f"drop_oldest: {reason}",
            policy=DROP_OLDEST,
            topic=topic,
            partition=partition,
        )
        self._metrics.record_failure(count, error, now)
        self._tell(topic, DROP_OLDEST, count, reason, now)
        return error

    def _drop(self, record: WaitingRecord, policy: str, now: float) -> Delivery:
        """A delivery that has failed: the record never was in a batch."""
        reason, partition = self._accumulator.appender.describe_fullness(), _partition_of(record)
        error = RecordDroppedError(
            f"a record of topic {record.topic!r} was dropped, for overflow is {policy}"
            + (" and nothing else could be" if policy == DROP_OLDEST else "")
            + f": {reason}",
            policy=policy,
            topic=record.topic,
            partition=None if partition < 0 else partition,
        )
        self._metrics.errors_by_code[type(error).__name__] += 1
        self._tell(record.topic, policy, 1, reason, now)
        result = ProduceRequestResult(TopicPartition(record.topic, partition))
        result.record_count = 1
        result.fail(error)
        return new_delivery(result, 0, record.timestamp_ms, serialized_size(record.key), serialized_size(record.value))

    def _tell(self, topic: str, policy: str, count: int, reason: str, now: float) -> None:
        self.dropped += count
        fields = {"topic": topic, "policy": policy, "records": count, "total": self.dropped, "reason": reason}
        self._log.log((topic, policy), now, logging.WARNING, "producer.records_dropped", **fields)


def _partition_of(record: WaitingRecord) -> int:
    return UNKNOWN_PARTITION if record.partition is None else record.partition
