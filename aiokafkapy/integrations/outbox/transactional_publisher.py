"""``TransactionalPublisher``: publishes exactly once, a batch of a shard and its marker in one transaction.

Owns a transactional producer for each shard. ``MarkerTopic`` reads the markers. Kafka's counterpart is the loop of
consume, transform and produce, with a consumer group's offsets in place of the marker.

Rules:

- A relay that takes a shard takes its transactional id first, which fences the last owner and ends its transaction, and
  then reads the marker: it sees all commits, and no commit can come later.
- The relay marks a batch in the database before it gives the next one of its shard, so that one marker is enough.
- Any failure of a transaction, except for a record's own fault, ends this producer: the shard is taken again, and the
  marker says whether the batch was committed. A batch whose marker is too large is tried again with half of its rows.
- Readers with ``read_committed`` see each row once; others see aborted ones too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

from ... import Delivery, KafkaProducer, ProducerConfig
from ...errors import InvalidProducerEpochError, KafkaError, MessageTooLargeError, ProducerFencedError
from .marker_topic import MarkerTopic
from .markers import encode_marker, marker_key
from .outcomes import Held, OnError, Outcome, cut, reason_of
from .publisher import with_options
from .rows import OutboxRow
from .sending import Sending

__all__ = ["TransactionalPublisher"]

Producer: TypeAlias = KafkaProducer[Any, Any]


class TransactionalPublisher:
    """Publishes exactly once; shard n has the transactional id ``{transactional_id}-n``."""

    def __init__(self, config: ProducerConfig, transactional_id: str, marker_topic: str, on_error: OnError) -> None:
        self._config = with_options(config, transactional_id=transactional_id)  # checked before anything runs
        self._id = transactional_id
        self._topic = marker_topic
        self._on_error = on_error
        self._markers = MarkerTopic(config, marker_topic)
        self._shards: dict[int, Producer] = {}
        self._suspected: set[int] = set()
        self._most_rows: int | None = None
        """The number of rows that a marker has room for, after one was too large."""

    async def take_over(self, shards: Collection[int]) -> tuple[Mapping[int, UUID], Outcome]:
        """As in ``Publisher``."""
        await self._close([shard for shard in self._shards if shard not in shards], 0)
        new = [shard for shard in shards if shard not in self._shards]
        if not new:
            return {}, Outcome()
        taken: dict[int, Producer] = {}
        outcome = Outcome()
        try:
            for shard, error in zip(new, await asyncio.gather(*(self._take(one, taken) for one in new)), strict=True):
                if error is not None:
                    outcome.held[Held("shard", shard)] = error
            found = await self._markers.find({marker_key(self._id_of(shard)) for shard in taken}) if taken else {}
        except KafkaError as error:
            outcome.held |= {Held("shard", shard): error for shard in taken}
            await _close_all(taken.values(), 0)
            return {}, outcome
        except BaseException:
            await _close_all(taken.values(), 0)
            raise
        self._shards |= taken
        return {number: uid for marker in found.values() for number, uid in marker.items()}, outcome

    async def publish(self, rows: Sequence[OutboxRow]) -> Outcome:
        """As in ``Publisher``: each shard's rows in a separate transaction."""
        shards: dict[int, list[OutboxRow]] = {}
        for row in rows:
            if row.shard in self._shards:
                shards.setdefault(row.shard, []).append(row)
        outcome = Outcome()
        for each in await asyncio.gather(*(self._publish(shard, its_rows) for shard, its_rows in shards.items())):
            outcome.add(each)
        return outcome

    def pop_released(self) -> Collection[Held]:
        """As in ``Publisher``: each attempt requests missing topics itself."""
        return ()

    async def close(self, timeout: float | None) -> None:
        """As in ``Publisher``."""
        await self._close(list(self._shards), timeout)

    # internals

    def _id_of(self, shard: int) -> str:
        return f"{self._id}-{shard}"

    async def _take(self, shard: int, taken: dict[int, Producer]) -> KafkaError | None:
        """Take the shard's id, which fences the relay that had it. The producer is in ``taken`` from the beginning, so
        that it is always closed.
        """
        config = with_options(self._config, transactional_id=self._id_of(shard))
        producer: Producer = KafkaProducer(config=config)
        taken[shard] = producer
        try:
            await producer.start()
        except KafkaError as error:
            del taken[shard]
            return error
        return None

    async def _publish(self, shard: int, rows: Sequence[OutboxRow]) -> Outcome:
        producer = self._shards[shard]
        rows = cut(rows[: self._most_rows], self._suspected)
        sending = Sending(producer, rows, self._on_error, is_whole_or_nothing=True)
        outcome = sending.outcome
        failure: KafkaError | None = None
        try:
            async with producer.transaction():
                await sending.enqueue()
                marker = await self._enqueue_marker(shard, rows)
                # Also when the transaction has failed by then: the records tell the cause.
                await sending.settle()
                if isinstance(marker, KafkaError):
                    raise marker
                if not sending.is_whole:
                    raise _NotWholeError
                await marker
        except _NotWholeError:
            pass
        except KafkaError as error:
            failure = reason_of(error)
        else:
            self._suspected.difference_update(row.id for row in rows)
            return outcome
        if sending.is_whole and isinstance(failure, MessageTooLargeError):  # the error is the marker's
            self._most_rows = max(1, len(rows) // 2)
        if sending.is_whole or not outcome.is_explained or any(map(_is_fenced, outcome.held.values())):
            outcome = Outcome(held={Held("shard", shard): failure or next(iter(outcome.held.values()))})
        else:
            self._suspected.difference_update(row.id for row, _ in outcome.refused)
            self._suspected |= outcome.suspected
        if failure is not None or outcome.held:
            await self._close([shard], 0)
        outcome.published.clear()
        return outcome

    async def _enqueue_marker(self, shard: int, rows: Sequence[OutboxRow]) -> Delivery | KafkaError:
        value, key = encode_marker(rows), marker_key(self._id_of(shard))
        try:
            return await self._shards[shard].enqueue(self._topic, value, key=key)
        except KafkaError as error:
            return error

    async def _close(self, shards: Sequence[int], timeout: float | None) -> None:
        await _close_all([self._shards.pop(shard) for shard in shards], timeout)


class _NotWholeError(Exception):
    """Some row of the batch is not published, so no row may be."""


async def _close_all(producers: Collection[Producer], timeout: float | None) -> None:
    try:
        await asyncio.gather(*(producer.close(timeout) for producer in producers))
    except asyncio.CancelledError:
        # A task that is cancelled before its first step runs no code: such a producer would stay open.
        await asyncio.shield(asyncio.gather(*(producer.close(0) for producer in producers)))
        raise


def _is_fenced(error: KafkaError) -> bool:
    """True if another relay has taken the transactional id."""
    return isinstance(error, ProducerFencedError | InvalidProducerEpochError)
