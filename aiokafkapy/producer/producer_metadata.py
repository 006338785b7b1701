"""Metadata of the topics that a producer uses, for as long as it uses them.

Kafka's counterpart is ``ProducerMetadata``. It owns the topics in use and their expiry; ``cluster.metadata`` owns the
rest (versions, back-off, leader epochs). It knows no clock: ``now`` is an argument.

Rules: a topic is kept for ``metadata_max_idle_ms`` after its last use; a *new* topic, one that no answer has named yet,
is kept at any age and requested at once, alone (a partial update). A topic that was never found is forgotten when
no record waits for it any more, so that a misspelt name is not requested for five minutes. A topic that brokers do
not know is logged once, after two seconds: calls wait for it, and it may be misspelt.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final

from ..cluster.cluster import TopicMetadata
from ..cluster.metadata import Metadata
from ..cluster.metadata_answer import MetadataAnswer
from ..common import check_topic_name
from ..errors import InvalidTopicError, KafkaError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ..observability import get_logger

__all__ = ["ProducerMetadata"]

_logger = get_logger(__name__)

# A topic that is being created, or was a moment ago, is known to every broker by then.
_UNKNOWN_FOR: Final = 2.0
_MOST_SHOWN: Final = 10


class ProducerMetadata(Metadata):
    """The topics in use, with their expiry."""

    def __init__(
        self,
        *,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        metadata_max_age_ms: int,
        metadata_max_idle_ms: int,
        allow_auto_topic_creation: bool,
    ) -> None:
        super().__init__(
            retry_backoff_ms=retry_backoff_ms,
            retry_backoff_max_ms=retry_backoff_max_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            allow_auto_topic_creation=allow_auto_topic_creation,
        )
        self.max_idle = metadata_max_idle_ms / 1000
        self._expiry_by_topic: dict[str, float] = {}
        # No topic expires before this time.
        self._next_expiry = math.inf
        self._new_topics: set[str] = set()
        # The time since which brokers say that a topic does not exist; infinite once that was logged.
        self._unknown_since: dict[str, float] = {}

    def add(self, topic: str, now: float) -> None:
        """Use ``topic``: keep it from now on, and request it at once if it is not in use yet.

        Raises InvalidTopicError for a name that no broker takes, so that it never shares a request with others.
        """
        if topic not in self._expiry_by_topic:
            check_topic_name(topic)
            self._new_topics.add(topic)
            self.request_update_for_new_topics()
        self._expiry_by_topic[topic] = expiry = now + self.max_idle
        self._next_expiry = min(self._next_expiry, expiry)

    def forget(self, topic: str) -> None:
        """Stop asking for a topic that was not found; no effect on one that is known."""
        if self.cluster.topic(topic) is None:
            self._expiry_by_topic.pop(topic, None)
            self._new_topics.discard(topic)
            self._unknown_since.pop(topic, None)

    def contains_topic(self, topic: str) -> bool:
        """True when the topic is in use."""
        return topic in self._expiry_by_topic

    def refusal_of(self, topic: str, newer_than: int, what: str) -> KafkaError | None:
        """The reason why metadata of the topic will not come; None while it may. A missing right to ``what`` counts
        only in an answer newer than that version, because it may have been granted since.
        """
        if topic in self.cluster.invalid_topics:
            return InvalidTopicError(f"{topic!r} is not a valid topic name", topic=topic)
        if topic in self.cluster.unauthorized_topics and self.update_version > newer_than:
            return TopicAuthorizationFailedError(f"not authorized to {what} topic {topic!r}", topic=topic)
        return None if self.fatal_error is None else self.fatal_error.fresh()

    def request_update_for_topic(self, topic: str) -> int:
        """Request one topic: alone if it is new, else with all others. Returns the version to wait beyond."""
        if topic in self._new_topics:
            return self.request_update_for_new_topics()
        return self.request_update()

    def topics_to_request(self, *, partial: bool) -> Collection[str] | None:
        """The new topics for a partial request, else all in use."""
        return set(self._new_topics) if partial else self._expiry_by_topic.keys()

    def retain_topic(self, topic: str, *, is_internal: bool, now: float) -> bool:
        """True while the topic is in use; one whose time is over is dropped here."""
        expiry = self._expiry_by_topic.get(topic)
        if expiry is None:
            return False
        if topic in self._new_topics or expiry > now:
            return True
        del self._expiry_by_topic[topic]
        return False

    def retain_topics(self, topics: Mapping[str, TopicMetadata], now: float) -> dict[str, TopicMetadata]:
        """As ``retain_topic`` for each."""
        expiry_by_topic = self._expiry_by_topic
        if self._next_expiry <= now:
            for name in [name for name, expiry in expiry_by_topic.items() if expiry <= now and name in topics]:
                self.retain_topic(name, is_internal=topics[name].is_internal, now=now)
            self._next_expiry = min(expiry_by_topic.values(), default=math.inf)
        if topics.keys() <= expiry_by_topic.keys():
            return dict(topics)
        return {name: topic for name, topic in topics.items() if name in expiry_by_topic}

    def update(self, request_version: int, answer: MetadataAnswer, now: float, *, is_partial: bool) -> None:
        """As ``Metadata.update``; topics that the answer names, even with an error, are no longer new."""
        # An error asks for a full update, which shows the topic's further fate. This must precede the super call: the
        # listeners must find the topics settled.
        self._new_topics.difference_update(answer.topics, answer.errors)
        if answer.errors or self._unknown_since:
            self._note_unknown_topics(answer, now)
        super().update(request_version, answer, now, is_partial=is_partial)
        self.request_left_out(self._new_topics)  # not even with an error for them

    # internals

    def _note_unknown_topics(self, answer: MetadataAnswer, now: float) -> None:
        due = []
        for topic in [topic for topic in self._unknown_since if topic in answer.topics]:
            del self._unknown_since[topic]
        for topic, code in answer.errors.items():
            if code != UnknownTopicOrPartitionError.code or topic not in self._expiry_by_topic:
                self._unknown_since.pop(topic, None)
            elif self._unknown_since.setdefault(topic, now) + _UNKNOWN_FOR <= now:
                self._unknown_since[topic] = math.inf
                due.append(topic)
        if due:
            _logger.warning(
                "metadata.topics_unknown",
                count=len(due),
                topics=sorted(due)[:_MOST_SHOWN],
                hint="they do not exist so far, and calls wait for them up to max_block_ms: is a name misspelt, or may "
                "brokers not create them (auto.create.topics.enable, allow_auto_create_topics)?",
            )
