"""``LimitsInForce``: brings the limits of topics to the places where records are checked.

Owns the places where a topic's limits apply: the accumulator, whose batches they bound, and the topic's state, which
checks the times that calls give. ``LimitsReader`` learns them. Java has no counterpart.

Rule: a topic without limits costs a record nothing; one with limits costs it a look at its timestamp.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...client.network_client_utils import RequestClient
from ..accumulator.record_accumulator import RecordAccumulator
from ..deliveries.shortcuts import now_ms
from .limits_reader import KnownTopics, LimitsReader
from .topic_limits import TopicLimits, time_error

if TYPE_CHECKING:
    from ..config import ProducerConfig

__all__ = ["LimitedTopic", "LimitsInForce"]


class LimitedTopic(Protocol):
    """The part of ``TopicState`` that is needed here."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    check_time: Callable[[int], object] | None


class LimitsInForce:
    """The limits of one producer's topics; ``topics`` are those in use."""

    def __init__(
        self,
        config: ProducerConfig,
        client: RequestClient,
        metadata: KnownTopics,
        accumulator: RecordAccumulator,
        topics: Mapping[str, LimitedTopic],
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._accumulator = accumulator
        self._topics = topics
        self._clock = loop.time
        self._patience_ms = config.delivery_timeout_ms
        self.reader = LimitsReader(
            client,
            metadata,
            self.apply,
            loop=loop,
            max_age=config.metadata_max_age_ms / 1000,
            retry_backoff=config.retry_backoff_ms / 1000,
            required_acks=config.required_acks,
        )
        accumulator.appender.on_over_limit = self.reader.refused

    def use(self, topic: LimitedTopic, now: float) -> None:
        """A record is for this topic."""
        self._limit_times(topic, self.reader.use(topic.topic, now))

    def apply(self, topic: str, limits: TopicLimits | None) -> None:
        """These are the topic's limits; None: nothing is known."""
        most, until = (None, 0.0) if limits is None else (limits.max_message_bytes, limits.until)
        self._accumulator.limit_topic(topic, most, until)
        state = self._topics.get(topic)
        if state is not None:
            self._limit_times(state, limits)

    def refused(self, topic: str) -> None:
        """A broker refused a record, or a batch, of the topic for its size or its time: look again."""
        self.reader.refused(topic)

    def known(self) -> dict[str, TopicLimits]:
        """The known limits, by topic."""
        return self.reader.known()

    def on_metadata_update(self) -> None:
        """There may be new topics."""
        self.reader.on_metadata_update()

    def abort(self) -> None:
        """Stop asking. May be called again."""
        self.reader.abort()

    async def settled(self) -> None:
        """Return when its tasks have ended."""
        await self.reader.settled()

    # internals

    def _limit_times(self, topic: LimitedTopic, limits: TopicLimits | None) -> None:
        topic.check_time = None
        if limits is not None and limits.bounds_times:
            topic.check_time = partial(self._check_time, topic.topic, limits)

    def _check_time(self, topic: str, limits: TopicLimits, timestamp_ms: int) -> None:
        """Raise InvalidTimestampError for a time that the broker is sure to refuse."""
        error = time_error(topic, limits, timestamp_ms, now_ms(), self._patience_ms)
        if error is not None and self._clock() < limits.until:
            self.reader.refused(topic)
            self._accumulator.appender.on_refusal(error)
            raise error
