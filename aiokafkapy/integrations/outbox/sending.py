"""``Sending``: the rows of one batch on their way through a producer, and the outcome of each.

Owns the order of the calls: a topic's rows one after the other, topics beside each other, so that a topic without
metadata delays others by ``max_block_ms`` at most: its rows do not wait for the same condition again. ``outcomes``
knows the meaning of errors.

Rules: once a row could not be sent, no row that it holds back is sent in this batch. With ``on_error="stop"`` a
refused row holds its lane. An acknowledged row is published, even if other rows failed. In a transaction the first
failure ends the batch: later calls fail with its error, which does not concern their own records. If the transaction
itself is refused, as its partitions may be before transaction.version 2, every record failed because of it, and the
scope that its error names is held.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ... import Delivery, KafkaProducer
from ...common import TopicPartition
from ...errors import KafkaError, MetadataTimeoutError
from .absent_topics import AbsentTopics
from .outcomes import Held, OnError, Outcome, Verdict, held_by, judge, reason_of
from .rows import OutboxRow

__all__ = ["Sending"]


class Sending:
    """One batch."""

    def __init__(
        self,
        producer: KafkaProducer[Any, Any],
        rows: Sequence[OutboxRow],
        on_error: OnError,
        *,
        is_whole_or_nothing: bool = False,
        absent: AbsentTopics | None = None,
    ) -> None:
        self.outcome = Outcome()
        self.failed_partitions: set[TopicPartition] = set()
        self._producer = producer
        self._rows = rows
        self._on_error = on_error
        self._is_whole_or_nothing = is_whole_or_nothing
        self._absent = absent
        self._is_over = False
        self._behind: KafkaError | None = None
        self._stopped: set[Held] = set()
        self._deliveries: list[tuple[OutboxRow, Delivery]] = []

    @property
    def is_whole(self) -> bool:
        """True if every row is published."""
        return len(self.outcome.published) == len(self._rows)

    async def enqueue(self) -> None:
        """Give the rows to the producer, until it takes no more."""
        topics = defaultdict(list)
        for row in self._rows:
            topics[row.topic].append(row)
        async with asyncio.TaskGroup() as group:
            for rows in topics.values():
                group.create_task(self._enqueue(rows))

    async def settle(self) -> None:
        """Wait for the outcome of each row, not for ``linger_ms``: no row of this batch follows. A refused row is
        certainly at fault if it was alone.
        """
        with suppress(KafkaError):  # the deliveries have it too
            await self._producer.flush()
        for row, delivery in self._deliveries:
            try:
                await delivery
            except KafkaError as error:
                if error.partition is not None:
                    self.failed_partitions.add(TopicPartition(row.topic, error.partition))
                verdict = judge(error)
                if verdict is Verdict.REFUSED and len(self._rows) > 1:
                    self.outcome.suspected.add(row.id)
                elif verdict is Verdict.REFUSED:
                    self._refuse(row, error)
                elif verdict is Verdict.HELD:
                    self.outcome.held.setdefault(held_by(row), error)
                else:
                    self._behind = error
            else:
                self.outcome.published.append(row)
        if self._behind is not None and self._is_whole_or_nothing and not self.outcome.is_explained:
            self._hold_transaction(reason_of(self._behind))

    # internals

    async def _enqueue(self, rows: Sequence[OutboxRow]) -> None:
        self._hold_absent(rows)
        for row in rows:
            if self._is_over:
                return
            if Held("lane", row.lane) in self._stopped or Held("topic", row.topic) in self._stopped:
                continue
            try:
                record = row.record
            except Exception as error:  # any error: an outbox did not write these headers
                self._not_taken(row, error)
                continue
            try:
                delivery = await self._producer.enqueue(
                    record.topic,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=record.headers,
                )
            except Exception as error:  # a user's partitioner may raise any error
                self._not_taken(row, error)
                if isinstance(error, MetadataTimeoutError):
                    await self._hold_alike(row, rows, error)
            else:
                self._deliveries.append((row, delivery))

    def _not_taken(self, row: OutboxRow, error: Exception) -> None:
        if self._is_over:
            return
        self._is_over = self._is_whole_or_nothing
        verdict = judge(error)
        if verdict is Verdict.REFUSED:
            if self._is_over and len(self._rows) > 1:
                self.outcome.suspected.add(row.id)
            else:
                self._refuse(row, error)
            return
        self._stopped.add(held_by(row))  # also by a row that is only behind another
        if isinstance(error, KafkaError):
            if error.partition is not None:
                self.failed_partitions.add(TopicPartition(row.topic, error.partition))
            if verdict is Verdict.HELD:
                self._hold(held_by(row), error)
            else:
                self._behind = error

    def _hold_absent(self, rows: Sequence[OutboxRow]) -> None:
        """Hold the topic, or its missing partitions, which would wait again as in an earlier batch."""
        topic = rows[0].topic
        found = None if self._absent is None else self._absent.found(topic)
        if self._absent is None or found is None:
            return
        if isinstance(found, KafkaError):
            if judge(found) is Verdict.HELD:
                self._hold(Held("topic", topic), found)
                self._absent.ask(topic, Held("topic", topic))
            return
        for row in rows:
            if row.partition is not None and row.partition >= found:
                text = f"{topic}-{row.partition}: no such partition: the topic has {found}"
                self._hold(held_by(row), MetadataTimeoutError(text, topic=topic, partition=row.partition))
                self._absent.ask(topic, held_by(row))

    async def _hold_alike(self, failed: OutboxRow, rows: Sequence[OutboxRow], error: MetadataTimeoutError) -> None:
        """Hold the topic, or its other missing partitions, which would also wait for ``max_block_ms``."""
        topic = failed.topic
        if self._absent is not None:
            self._absent.ask(topic, held_by(failed) if error.partition is not None else Held("topic", topic))
        if error.partition is None:
            self._hold(Held("topic", topic), error)
            return
        with suppress(KafkaError):
            count = len(await self._producer.partitions_for(topic))  # it is known: this does not wait
            for row in rows:
                if row.partition is not None and row.partition >= count:
                    self._hold(held_by(row), error)

    def _hold_transaction(self, error: KafkaError) -> None:
        topic = error.topic if error.topic in {row.topic for row in self._rows} else None
        self._hold(Held("shard", self._rows[0].shard) if topic is None else Held("topic", topic), error)

    def _hold(self, what: Held, error: KafkaError) -> None:
        self._stopped.add(what)
        self.outcome.held.setdefault(what, error)

    def _refuse(self, row: OutboxRow, error: BaseException) -> None:
        self.outcome.refused.append((row, f"{type(error).__name__}: {error}"))
        if self._on_error == "stop":
            self._stopped.add(Held("lane", row.lane))
