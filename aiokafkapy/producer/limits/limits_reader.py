"""``LimitsReader``: reads the limits of topics from DescribeConfigs, in the background, and hands it on.

Owns the timer and the one task that asks; ``LimitsBook`` decides about which topics to ask and when, and ``apply``
gets the limits that were learnt. It knows neither batches nor records. Java's producer has no counterpart.

Rules: nothing waits for it; one request at a time, to any broker, about many topics; without the right, or if no
broker has the API, there are no limits, and one event reports it; a failure here harms no record.

Events: ``topic_limits.unavailable`` (debug; topic, error), ``topic_limits.acks_mismatch`` (warning; topic, problem).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ...client.network_client_utils import RequestClient
from ...cluster.cluster import Cluster
from ...common import ExponentialBackoff
from ...errors import KafkaError, UnsupportedVersionError, make
from ...observability import RateLimitedLogger, get_logger
from ...protocol.api import ApiKey
from ...protocol.codec import Message, Struct
from ...protocol.constants import TOPIC_RESOURCE
from ...protocol.messages import build_request
from .topic_limits import CONFIG_NAMES, LimitsBook, TopicLimits, acks_problem, limits_of

__all__ = ["KnownTopics", "LimitsReader"]

LONGEST_BACKOFF: Final = 60.0

_logger = get_logger(__name__)


class KnownTopics(Protocol):
    """The part of ``ProducerMetadata`` that is needed here."""

    cluster: Cluster

    def contains_topic(self, topic: str) -> bool:
        """True when the topic is in use."""


class LimitsReader:
    """Asks about the topics in use, until ``abort``. ``apply`` is called with a topic and its limits, or None when
    its limits are no longer known.
    """

    def __init__(
        self,
        client: RequestClient,
        metadata: KnownTopics,
        apply: Callable[[str, TopicLimits | None], object],
        *,
        loop: asyncio.AbstractEventLoop,
        max_age: float,
        retry_backoff: float,
        required_acks: int,
    ) -> None:
        """``max_age`` and ``retry_backoff`` in seconds."""
        self.book = LimitsBook(max_age, ExponentialBackoff(retry_backoff, max(retry_backoff, LONGEST_BACKOFF)))
        self._client = client
        self._metadata = metadata
        self._apply = apply
        self._loop = loop
        self._required_acks = required_acks
        self._log = RateLimitedLogger(_logger)
        self._warned: set[str] = set()
        self._is_silent = False  # it was logged that there are no limits
        # Tasks and timers
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def use(self, topic: str, now: float) -> TopicLimits | None:
        """A record is for ``topic``; returns its limits, as far as they are known."""
        limits = self.book.use(topic, now)
        self._rearm()
        return limits

    def refused(self, topic: str) -> None:
        """A record, or a batch, of the topic was too large, or had a wrong timestamp: look again."""
        self.book.hurry(topic, self._loop.time())
        self._rearm()

    def known(self) -> dict[str, TopicLimits]:
        """The known limits, by topic."""
        return self.book.known()

    def on_metadata_update(self) -> None:
        """There may be new topics."""
        for topic in self.book.noticed(self._metadata.cluster.topics, self._loop.time()):
            self._apply(topic, None)
        self._rearm()

    def abort(self) -> None:
        """Stop asking. May be called again."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None and not self._loop.is_closed():
            self._task.cancel()

    async def settled(self) -> None:
        """Return when the task has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    # asyncio callbacks

    def _on_timer(self) -> None:
        self._timer = None
        due = self.book.take_due(self._loop.time(), self._is_known)
        if due:
            self._task = self._loop.create_task(self._read(due), name="aiokafkapy topic limits")
        else:
            self._rearm()

    # internals

    def _is_known(self, topic: str) -> bool:
        return self._metadata.contains_topic(topic) and self._metadata.cluster.partition_count(topic) > 0

    def _rearm(self) -> None:
        if self._is_over or (self._task is not None and not self._task.done()):
            return  # the task arms it
        due = self.book.next_due()
        if self._timer is not None:
            if self._timer_at <= due:
                return  # an early one sets itself again
            self._timer.cancel()
            self._timer = None
        if due < float("inf"):
            self._timer_at = due
            self._timer = self._loop.call_at(due, self._on_timer)

    async def _read(self, topics: list[str]) -> None:
        unanswered = dict.fromkeys(topics)
        error: KafkaError = KafkaError("the answer left the topic out")
        try:
            answer = await self._client.send_and_wait(ApiKey.DESCRIBE_CONFIGS, _question(topics))
            for result in answer.results:
                if result.resource_name in unanswered:
                    del unanswered[result.resource_name]
                    self._handle(result)
        except KafkaError as failure:
            error = failure
        except Exception as failure:  # the root of the task: limits are not worth a record
            error = KafkaError(repr(failure))
        for topic in unanswered:
            self._fail(topic, error)
        self._task = None
        self._rearm()

    def _handle(self, result: Struct) -> None:
        topic, now = result.resource_name, self._loop.time()
        if result.error_code:
            self._fail(topic, make(int(result.error_code), result.error_message, topic=topic))
            return
        limits = limits_of(((entry.name, entry.value) for entry in result.configs), now, self.book.max_age)
        cluster = self._metadata.cluster
        self.book.learned(topic, limits, cluster.topic_id(topic), now)
        self._apply(topic, limits)
        problem = acks_problem(limits, self._required_acks, cluster.partitions_for_topic(topic))
        if problem is not None and topic not in self._warned:
            self._warned.add(topic)
            fields = {"topic": topic, "problem": problem}
            self._log.log("acks", now, logging.WARNING, "topic_limits.acks_mismatch", **fields)

    def _fail(self, topic: str, error: KafkaError) -> None:
        # An old broker beside new ones, in an upgrade, is not a reason to ask for ever.
        is_final = not error.retriable or isinstance(error, UnsupportedVersionError)
        if is_final and not self._is_silent:
            self._is_silent = True
            _logger.debug("topic_limits.unavailable", topic=topic, error=str(error))
        if self.book.failed(topic, self._loop.time(), is_final=is_final):
            self._apply(topic, None)


def _question(topics: Iterable[str]) -> Callable[[int], Message]:
    resources = [
        {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": CONFIG_NAMES}
        for topic in topics
    ]
    return lambda version: build_request(ApiKey.DESCRIBE_CONFIGS, version, resources=resources)
