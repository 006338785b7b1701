"""``Publisher``, and ``PlainPublisher``, which publishes at least once.

Owns a producer: with ``enable_gapless_guarantee``, so that no record is written behind a failed one of its partition,
and the rows of a whole batch can be on their way at once without overtaking each other.

Rules: a producer that can no longer be used is closed and recreated. When a batch is over, the partitions of failed
rows take records again: the next batch begins with the first row that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from ... import KafkaProducer, ProducerConfig
from ...errors import IllegalStateError, KafkaError
from ...producer.state import ProducerState
from .absent_topics import AbsentTopics
from .outcomes import EVERYTHING, Held, OnError, Outcome, cut
from .rows import OutboxRow
from .sending import Sending

__all__ = ["PlainPublisher", "Publisher", "with_options"]


class Publisher(Protocol):
    """Publishes batches for the relay. Calls come one at a time."""

    async def take_over(self, shards: Collection[int]) -> tuple[Mapping[int, UUID], Outcome]:
        """Own these shards and no others. Returns the rows of new shards that are known to be published, which must be
        marked before the next call, and an outcome that holds the shards that cannot be published yet.
        """

    async def publish(self, rows: Sequence[OutboxRow]) -> Outcome:
        """Send rows in their order, and wait for the outcome of each. Rows that are not in the outcome stay pending."""

    def pop_released(self) -> Collection[Held]:
        """The scopes released since the last call."""

    async def close(self, timeout: float | None) -> None:
        """Close the producers within ``timeout`` seconds."""


class PlainPublisher:
    """Publishes at least once, for all shards by one producer. ``on_news`` is called when a scope is released."""

    def __init__(self, config: ProducerConfig, on_error: OnError, on_news: Callable[[], None]) -> None:
        self._config = with_options(config, enable_gapless_guarantee=True)
        self._on_error = on_error
        self._on_news = on_news
        self._producer: KafkaProducer[Any, Any] | None = None
        self._absent: AbsentTopics | None = None
        self._suspected: set[int] = set()

    async def take_over(self, shards: Collection[int]) -> tuple[Mapping[int, UUID], Outcome]:
        """Returns no rows: those that other relays have published are not known."""
        return {}, Outcome()

    async def publish(self, rows: Sequence[OutboxRow]) -> Outcome:
        """As in ``Publisher``."""
        try:
            producer = await self._usable_producer()
        except KafkaError as error:
            return Outcome(held={EVERYTHING: error})
        rows = cut(rows, self._suspected)
        sending = Sending(producer, rows, self._on_error, absent=self._absent)
        await sending.enqueue()
        await sending.settle()
        self._suspected.difference_update(row.id for row in rows)
        self._suspected |= sending.outcome.suspected
        try:
            for topic, partition in sending.failed_partitions:
                producer.resume(topic, partition)
        except IllegalStateError:  # it has crashed or was closed; a new one has no gaps
            await self.close(0)
        return sending.outcome

    def pop_released(self) -> Collection[Held]:
        """As in ``Publisher``."""
        return () if self._absent is None else self._absent.pop_released()

    async def close(self, timeout: float | None) -> None:
        """As in ``Publisher``."""
        producer, self._producer = self._producer, None
        absent, self._absent = self._absent, None
        try:
            if absent is not None:
                await absent.close()
        finally:
            if producer is not None:
                await producer.close(timeout)

    # internals

    async def _usable_producer(self) -> KafkaProducer[Any, Any]:
        if self._producer is not None and self._producer.state is not ProducerState.RUNNING:
            await self.close(0)
        if self._producer is None:
            producer: KafkaProducer[Any, Any] = KafkaProducer(config=self._config)
            await producer.start()
            self._producer, self._absent = producer, AbsentTopics(producer, self._on_news)
        return self._producer


def with_options(config: ProducerConfig, **options: object) -> ProducerConfig:
    """The configuration with other values of some options. Raises ConfigurationError if they contradict each other."""
    given = {name: getattr(config, name) for name in config.model_fields_set}
    return ProducerConfig(**{**given, **options})
