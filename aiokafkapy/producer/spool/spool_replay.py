"""``SpoolReplay``: sends the records of the spool, in order, when brokers are there.

Owns the windows of records that are on their way, and the consequence of each outcome. It knows neither files nor the
way in of a record. Kafka has no counterpart.

Rules:

- A window is a run of the spool's records that are appended in one step of the loop, at most a batch of each topic,
  once all older records of these topics have an outcome: so the records of a partition are in one batch, which is
  written whole or not at all, and no record overtakes another. Such a batch is larger than others, because there is
  one per round trip; unless a broker finds it too large, or refuses it for a record that it does not name.
- A record that fails is sent again, without end, before those behind it, unless brokers refuse it for good or its
  topic stays unknown while brokers answer. Such a record goes to ``refused.jsonl``, and the next one follows. If a
  broker refuses a batch and does not name the record, as before 2.4, each record is sent alone: a record is refused
  for good only alone.
- When some records of a window are written, or may be, the others are sent again to the partitions chosen for them,
  also by the next process: the mark has these partitions.
- The mark names a window before it is sent; after a crash the next process knows from it which records may be written
  twice.
- An error of the disk does not end the replay: it is logged, and the work is tried again.

Events: ``producer.spool_drained`` (info; records), ``producer.spool_refused`` (error; topic, records, error, kept_in),
``producer.spool_retries`` (warning; records, error).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import (
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from ...observability import RateLimitedLogger, describe_error, get_logger
from ...record.builder import record_size_upper_bound
from ...record.layout import BATCH_HEADER_SIZE
from ..deliveries.delivery import Delivery, place_of
from ..deliveries.produce_request_result import ProduceRequestResult, SettlementCounter
from ..intake.partitioners import choose_partition
from ..intake.pending_record import PendingRecord
from .format import Mark, SpooledRecord
from .refused import is_for_good, may_be_of_another, refused_line
from .spool import Spool

if TYPE_CHECKING:
    from ..accumulator.producer_batch import ProducerBatch
    from .spool_runtime import SpoolRuntime

__all__ = ["SpoolReplay"]

READ_BYTES: Final = 1024 * 1024
READ_RECORDS: Final = 5_000
"""Bytes that are read at a time; a window is a part of them."""
LARGER: Final = 8
"""The size of the spool's batches, in units of ``batch_size``, up to ``max_request_size`` and ``READ_BYTES``."""
WINDOW_RECORDS: Final = 2_000
"""Records that are appended in one step of the loop."""

_logger = get_logger(__name__)


class _Sending(NamedTuple):
    record: SpooledRecord
    outcome: Delivery | Exception
    is_refused: bool = False
    """The record has no valid partition, and would not get one another time."""


class SpoolReplay:
    """The replay of one producer's spool; ``run`` is its task."""

    def __init__(self, runtime: SpoolRuntime, spool: Spool, is_out_of_reach: Callable[[], bool]) -> None:
        """``is_out_of_reach`` is true while no broker is known to be reachable."""
        self._runtime = runtime
        self._spool = spool
        self._is_out_of_reach = is_out_of_reach
        self._loop = runtime.loop
        self._log = RateLimitedLogger(_logger)
        self._backoff = runtime.config.retry_backoff
        self._failures = 0
        # Records read and not dealt with, in order; and records delivered out of turn, behind the first of them
        self._pending: deque[SpooledRecord] = deque()
        self._delivered: set[int] = set()
        # The partitions of records that are sent again, by sequence, see ``_keep_partitions``
        self._kept_partitions: dict[int, int] = {}
        # The partitions chosen for records that have found no room yet, by sequence
        self._chosen_partitions: dict[int, int] = {}
        self._sent_to = self._dealt_to = 0
        self._is_marked = True  # the mark has all records that are dealt with
        # Refused for good, and not set aside yet: the disk may not have taken them
        self._refused: list[tuple[SpooledRecord, Exception]] = []
        # Records to be sent alone: one of their batch was refused, and the broker did not say which
        self._suspected: set[int] = set()
        # Topics of which the last window had more than ``batch_size``, and topics that must not have so much
        self._large: set[str] = set()
        self._not_large: set[str] = set()
        # Topics all of whose records are refused, with the reason, as long as records of them are here
        self._gone: dict[str, Exception] = {}
        self._replayed = 0
        self.error: str | None = None  # the reason why no record is sent, if it is not a broker's fault
        self.is_ending = False
        self.is_sending = False  # records are in batches, and the mark does not have their outcomes yet

    def begin_at(self, mark: Mark) -> None:
        """Continue from the mark of an earlier process."""
        self._delivered = set(mark.delivered)
        self._kept_partitions = dict(mark.partitions)
        self._sent_to, self._dealt_to = mark.sent_to, mark.next

    async def run(self) -> None:
        """Send until cancelled, or until ``is_ending``; then the mark is written, or the next process would send the
        last delivered records again.
        """
        try:
            await self._send_all()
        finally:
            if not self._is_marked:
                await self._mark()

    def give_back(self) -> None:
        """Take the unsent records of the window out of memory: they are in the spool."""
        if not self.is_sending:
            return
        topics = {record.topic for record in self._pending if self._spool.has(record.topic)}
        # The accumulator has no other records of these topics, see above.
        self._runtime.accumulator.move_out(lambda topic_partition: topic_partition.topic in topics, _given_back)

    # internals

    async def _send_all(self) -> None:
        while not self.is_ending:
            try:
                if self._refused:
                    await self._set_aside()
                    await self._note_progress()
                elif not self._pending:
                    await self._spool.readable()
                    self._pending.extend(await self._spool.read(READ_BYTES, READ_RECORDS))
                elif self._is_out_of_reach():
                    # In memory the records would keep flush() waiting, and take the room of others.
                    await self._brokers_come_back()
                elif not await self._send_window():
                    await self._back_off()
            except ProducerClosedError:
                return
            except Exception as error:  # an error of the disk, for example: no record in the spool is given up for it
                self.error = f"the spool cannot go on: {describe_error(error)}"
                self._retry_later(len(self._pending), error)
                await self._back_off()
            else:
                self.error = None

    async def _send_window(self) -> bool:
        """Send the next window and handle its outcomes. False if a record must be tried again later."""
        topic = self._pending[0].topic
        problem = await self._problem_of(topic)
        if problem is not None:
            return await self._without_topic(topic, problem)
        window = self._next_window()
        flush, _ = self._runtime.begin_flush()
        try:
            await self._settled([batch.produce_result for batch in self._batches_of({one.topic for one in window})])
            if self.is_ending:
                return True
            await self._mark(window[-1].sequence + 1)
            sending = self._append(window) or [await self._append_when_there_is_room(window[0])]
            self.is_sending = True
            self._spool.note_sending(one.record for one in sending)
            await self._settled([place_of(one.outcome)[0] for one in sending if isinstance(one.outcome, Delivery)])
        finally:
            flush.end()
        try:
            return await self._conclude(sending)
        finally:
            self.is_sending = False

    async def _problem_of(self, topic: str) -> Exception | None:
        """The reason why a topic's partitions are not known; None if they are. A missing topic is waited for once, and
        requested as long as records of it are here. Other refusals need no wait and may end, as when a right is
        granted: such a topic is requested each time.
        """
        runtime = self._runtime
        runtime.admission.refresh(topic, runtime.now())
        if runtime.metadata.cluster.partition_count(topic):
            self._gone.pop(topic, None)
            return None
        gone = self._gone.get(topic)
        if isinstance(gone, MetadataTimeoutError):
            return gone
        try:
            await runtime.partitions_for(topic)
        except KafkaError as error:
            return error
        return None

    async def _without_topic(self, topic: str, error: Exception) -> bool:
        metadata = self._runtime.metadata
        is_gone = isinstance(error, InvalidTopicError | TopicAuthorizationFailedError)
        if isinstance(error, MetadataTimeoutError):
            # That there is no such topic, a broker has to have said: its answer may merely be late.
            is_answered = metadata.last_failure is None and not metadata.cluster.is_bootstrap
            is_gone = is_answered and metadata.topic_error(topic) is not None
        if not is_gone:
            self._retry_later(len(self._pending), error)
            return False
        self._gone[topic] = error
        return await self._conclude([_Sending(one, error) for one in self._pending if one.topic == topic])

    def _next_window(self) -> list[SpooledRecord]:
        """The records from the front, of topics that are known, as far as one batch of each topic takes them."""
        runtime = self._runtime
        cluster, sizes = runtime.metadata.cluster, dict[str, int]()
        window: list[SpooledRecord] = []
        total = 0
        for record in self._pending:
            size = record_size_upper_bound(record.key, record.value, record.headers) - BATCH_HEADER_SIZE
            left = sizes.get(record.topic)
            if left is None:
                left = self._most_in_batch(record.topic) - BATCH_HEADER_SIZE
            total += size
            is_too_much = left < size or total > runtime.config.buffer_memory // 2 or len(window) >= WINDOW_RECORDS
            is_alone = record.sequence in self._suspected
            if window and (is_too_much or is_alone or not cluster.partition_count(record.topic)):
                break
            sizes[record.topic] = left - size
            window.append(record)
            if is_alone:
                break
        self._large = {
            topic for topic, left in sizes.items() if self._most_in_batch(topic) - left > self._own_size(topic)
        }
        return window

    def _own_size(self, topic: str) -> int:
        return self._runtime.config.for_topic(topic).batch_size

    def _most_in_batch(self, topic: str) -> int:
        """The most bytes of a batch of the spool."""
        size = self._own_size(topic)
        if topic not in self._not_large:
            size = max(size, min(LARGER * size, self._runtime.config.max_request_size, READ_BYTES))
        return self._runtime.accumulator.allowed_of(topic, size)

    def _append(self, window: Sequence[SpooledRecord]) -> list[_Sending]:
        """Append from the front for as long as there is room, without a step of the loop between."""
        accumulator = self._runtime.accumulator
        for topic in self._large:
            accumulator.fill_batches(topic, self._most_in_batch(topic))
        try:
            return self._append_all(window)
        finally:
            for topic in self._large:
                accumulator.fill_batches(topic, self._own_size(topic))

    def _append_all(self, window: Sequence[SpooledRecord]) -> list[_Sending]:
        runtime, sending = self._runtime, []
        for record in window:
            placed = self._placed(record)
            if isinstance(placed, _Sending):
                sending.append(placed)
                continue
            try:
                delivery = runtime.accumulator.appender.append_record(placed, runtime.now(), runtime.metadata.cluster)
            except ProducerClosedError:
                raise
            except Exception as error:  # the error is this record's
                sending.append(_Sending(record, error))
                continue
            if delivery is None:
                break
            sending.append(_Sending(record, delivery))
        return sending

    async def _append_when_there_is_room(self, record: SpooledRecord) -> _Sending:
        """Append one record alone, in the line for room, first in, first out with other records."""
        runtime = self._runtime
        placed = self._placed(record)
        if isinstance(placed, _Sending):
            return placed
        try:
            waiting = PendingRecord(
                runtime.admission, placed.topic, placed.key, placed.value, placed.partition, placed.timestamp_ms,
                placed.headers, loop=self._loop,
            )  # fmt: skip
            delivery = runtime.accumulator.appender.append_or_wait(waiting, runtime.now(), runtime.metadata.cluster)
            return _Sending(record, delivery if delivery is not None else await waiting)
        except ProducerClosedError:
            raise
        except Exception as error:  # as above
            return _Sending(record, error)

    def _placed(self, record: SpooledRecord) -> SpooledRecord | _Sending:
        """The record with its partition, or its refusal: by the user's partitioner, with any error, or because its
        topic has no such partition.
        """
        try:
            return record._replace(partition=self._partition_of(record))
        except Exception as error:
            return _Sending(record, error, is_refused=True)

    def _partition_of(self, record: SpooledRecord) -> int:
        runtime = self._runtime
        cluster = runtime.metadata.cluster
        partition = record.partition
        count = cluster.partition_count(record.topic)
        if partition is None:
            known = self._kept_partitions.get(record.sequence, self._chosen_partitions.get(record.sequence))
            if known is not None and known < count:
                return known
            partition = choose_partition(
                runtime.partitioner, record.topic, record.key, record.value, record.key, record.value, cluster
            )
            self._chosen_partitions[record.sequence] = partition
            return partition
        if partition >= count:
            raise UnknownTopicOrPartitionError(
                f"the topic has {count} partitions", topic=record.topic, partition=partition
            )
        return partition

    async def _conclude(self, sending: Sequence[_Sending]) -> bool:
        """Handle the outcomes; False if some records must be sent again."""
        done: list[SpooledRecord] = []
        again: list[Exception] = []
        apart: list[Exception] = []
        for record, outcome, is_refused in sending:
            self._chosen_partitions.pop(record.sequence, None)
            if record.topic in self._large and isinstance(outcome, Delivery) and _was_split(outcome):
                self._not_large.add(record.topic)
            error = outcome.exception() if isinstance(outcome, Delivery) else outcome
            if error is None:
                done.append(record)
            elif isinstance(error, Exception) and (
                is_refused or self._is_refused(error, is_sent=isinstance(outcome, Delivery))
            ):
                if isinstance(outcome, Delivery) and _was_not_alone(outcome) and may_be_of_another(error):
                    if record.topic in self._large:  # not so many one by one
                        self._not_large.add(record.topic)
                    else:
                        self._suspected.add(record.sequence)
                    apart.append(error)
                else:
                    self._refused.append((record, error))
            else:
                again.append(error if isinstance(error, Exception) else RuntimeError(str(error)))
        may_be_written = sum(bool(getattr(error, "outcome_unknown", False)) for error in (*again, *apart))
        self._spool.repeated += may_be_written
        self._replayed += len(done)
        self._spool.replayed += len(done)
        self._forget(done)
        if may_be_written or (done and (again or apart)):
            self._keep_partitions(sending)
        if again:
            self._retry_later(len(again), again[0])
        else:
            self._failures = 0
        if self._refused:
            await self._set_aside()
        await self._note_progress(is_held_up=bool(again))
        return not again

    async def _note_progress(self, *, is_held_up: bool = False) -> None:
        """The mark is written before the next window, or now if no window follows soon."""
        if is_held_up or not self._pending:
            await self._mark()
        if not self._spool.records:
            _logger.info("producer.spool_drained", records=self._replayed)
            self._replayed = 0
            self._not_large.clear()

    def _keep_partitions(self, sending: Sequence[_Sending]) -> None:
        """Some records are written, or may be: those that are sent again go to the same partitions. In another
        partition an older record could come after a younger one that is already there.
        """
        self._kept_partitions |= {
            one.record.sequence: place_of(one.outcome)[0].topic_partition.partition
            for one in sending
            if isinstance(one.outcome, Delivery)
        }

    def _forget(self, dealt_with: Sequence[SpooledRecord]) -> None:
        if not dealt_with:
            return
        self._is_marked = False
        sequences = {record.sequence for record in dealt_with}
        self._delivered |= sequences
        self._suspected -= sequences
        self._dealt_to = max(self._dealt_to, dealt_with[-1].sequence + 1)
        pending, left = self._pending, len(dealt_with)
        while left and pending[0].sequence in self._delivered:
            pending.popleft()
            left -= 1
        if left:
            self._pending = deque(record for record in pending if record.sequence not in self._delivered)
        self._spool.settle(dealt_with)
        for topic in [topic for topic in self._gone if not self._spool.has(topic)]:
            del self._gone[topic]
            self._runtime.admission.give_up_topic(topic)

    def _is_refused(self, error: Exception, *, is_sent: bool) -> bool:
        # Before it is sent, only the record's own fault refuses it.
        if isinstance(error, MetadataTimeoutError | UnknownTopicOrPartitionError):
            return not is_sent
        return is_for_good(error) or not (is_sent or isinstance(error, KafkaError))

    async def _set_aside(self) -> None:
        """Keep the refused records. Until the disk takes them no other record is sent: it would overtake them, and a
        refused one that is sent again may be accepted this time, and come late.
        """
        refused = self._refused
        kept_in = await self._spool.refuse([refused_line(record, error) for record, error in refused])
        self._refused = []
        self._spool.refused += len(refused)
        record, error = refused[0]
        fields = {
            "topic": record.topic,
            "records": len(refused),
            "error": describe_error(error),
            "kept_in": str(kept_in),
        }
        self._log.log(record.topic, self._runtime.now(), logging.ERROR, "producer.spool_refused", **fields)
        self._forget([record for record, _ in refused])

    async def _mark(self, sent_to: int = 0) -> None:
        """Write the mark. A full disk that refuses it must not keep the records back: sending them makes room."""
        self._sent_to = max(self._sent_to, sent_to)
        first = self._pending[0].sequence if self._pending else self._dealt_to
        self._delivered = {number for number in self._delivered if number > first}
        self._kept_partitions = {
            number: partition
            for number, partition in self._kept_partitions.items()
            if number >= first and number not in self._delivered
        }
        kept = tuple(self._kept_partitions.items())
        try:
            await self._spool.mark(Mark(first, max(first, self._sent_to), tuple(sorted(self._delivered)), kept))
            self._is_marked = True
        except OSError as error:
            self._retry_later(0, error)

    def _batches_of(self, topics: set[str]) -> list[ProducerBatch]:
        return [batch for batch in self._runtime.accumulator.incomplete if batch.topic_partition.topic in topics]

    async def _settled(self, results: Sequence[ProduceRequestResult]) -> None:
        """Return when all these have an outcome."""
        counter = SettlementCounter()
        for result in {id(result): result for result in results}.values():
            counter.watch(result)
        if not counter.is_settled:
            await counter.wait()

    def _retry_later(self, records: int, error: Exception) -> None:
        fields = {"records": records, "error": describe_error(error)}
        self._log.log("retry", self._runtime.now(), logging.WARNING, "producer.spool_retries", **fields)

    async def _back_off(self) -> None:
        self._failures += 1
        await asyncio.sleep(self._backoff.delay(self._failures))

    async def _brokers_come_back(self) -> None:
        """Ask a broker for a sign of life; return with the answer, or after the back-off. The answer ends the wait at
        once, since the connection that gave it may later be closed as idle.
        """
        self._failures += 1
        deadline = self._runtime.now() + self._backoff.delay(self._failures)
        self._runtime.metadata.request_update()
        while self._is_out_of_reach() and await self._runtime.metadata_change(deadline):
            pass


def _was_not_alone(delivery: Delivery) -> bool:
    result, index = place_of(delivery)
    return result.follow(index)[0].record_count > 1


def _was_split(delivery: Delivery) -> bool:
    result, index = place_of(delivery)
    return result.follow(index)[0] is not result


def _given_back(batch: ProducerBatch) -> ProduceRequestResult:
    result = ProduceRequestResult(batch.topic_partition)
    result.record_count = batch.record_count
    result.fail(ProducerClosedError("the record stays in the spool, because the producer was closed"))
    return result
