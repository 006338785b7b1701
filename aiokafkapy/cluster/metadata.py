"""The client's knowledge of the cluster, and the decision when to update it.

Owns the current ``Cluster``, the versions that waiters compare, and the back-off of metadata requests; ``LeaderEpochs``
finds the newer of two leaders. Knows no socket and no task: ``client.metadata_updater`` sends the requests, listeners
wake the waiters. Kafka's counterpart is ``org.apache.kafka.clients.Metadata``; ``ProducerMetadata`` extends
it with topics that expire.

Rules:

- ``update_version`` grows with every accepted response; waiters compare it. ``request_version`` grows with every new
  topic, so a response to an older request does not clear later wishes.
- A failed update only changes the time of the last attempt; a response without brokers is a failed update.
- A topic for which a broker may have closed the connection is requested separately, so that it delays no other; see
  ``isolated_topics``.
- Requests are at least the back-off apart, for any number of records, topics and callers, except for the first
  request for a new topic while the cluster answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol, Self

from ..common import (
    NO_LEADER_EPOCH,
    ExponentialBackoff,
    Node,
    TopicPartition,
    check_topic_name,
)
from ..errors import InvalidTopicError, KafkaError, TopicAuthorizationFailedError, make
from ..protocol.metadata import encode_metadata_request
from .cluster import Cluster, TopicMetadata
from .isolated_topics import IsolatedTopics
from .leader_epochs import LeaderEpochs
from .metadata_answer import MetadataAnswer
from .metadata_cache import MetadataCache
from .update_times import UpdateTimes

__all__ = ["Metadata", "MetadataRequestAndVersion"]

# Responses without news slow down the next requests, except for these first ones: a topic created shortly after its
# first record should be found within one back-off.
_EQUIVALENT_ANSWERS_AT_FULL_RATE: Final = 5
# Last errors by address are only for messages: the newest of them are enough.
_MAX_REMEMBERED_ADDRESSES: Final = 32
# A request on which a broker closes the connection fails everything else in flight on it: retry it seldom.
_ISOLATED_BACKOFF_FACTOR: Final = 10


class MetadataRequestAndVersion(NamedTuple):
    """A metadata request to send, and the token to pass to ``Metadata.update`` with its response.

    ``topics`` are in order; None requests all.
    """

    topics: Sequence[str] | None
    allow_auto_topic_creation: bool
    request_version: int
    is_partial: bool

    def encode(self, version: int, correlation_id: int, client_id: str | None) -> list[bytes]:
        """The whole frame, in one piece."""
        return encode_metadata_request(version, correlation_id, client_id, self.topics, self.allow_auto_topic_creation)


class MetadataOptions(Protocol):
    """The options of a client that say when its metadata is updated."""

    @property
    def retry_backoff_ms(self) -> int:
        """Milliseconds before a request is sent again."""

    @property
    def retry_backoff_max_ms(self) -> int:
        """The most of these milliseconds: they double up to here."""

    @property
    def metadata_max_age_ms(self) -> int:
        """Milliseconds after which metadata is requested again."""


class Metadata:
    """The cluster as last seen, and the times of its updates. Not thread-safe: it belongs to one event loop.

    This class requests the topics given to ``add_topics``; a subclass requests others by overriding
    ``topics_to_request`` and ``retain_topic``, and may do something with each answer by extending ``update``.
    """

    def __init__(
        self,
        *,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        metadata_max_age_ms: int,
        allow_auto_topic_creation: bool = False,
    ) -> None:
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self._backoff = ExponentialBackoff(retry_backoff_ms / 1000, retry_backoff_max_ms / 1000)
        self._max_age = metadata_max_age_ms / 1000
        self._isolated = IsolatedTopics(
            ExponentialBackoff(retry_backoff_ms / 1000, _ISOLATED_BACKOFF_FACTOR * retry_backoff_max_ms / 1000)
        )
        # the view
        self._cache = MetadataCache()
        self.cluster: Cluster = self._cache.cluster
        self._bootstrap_addresses: tuple[tuple[str, int], ...] = ()
        self._bootstrap_nodes: tuple[Node, ...] = ()
        self._leader_epochs = LeaderEpochs()
        # compared by waiters
        self.update_version = 0
        self.request_version = 0
        # the times of requests
        self.times = UpdateTimes()
        self.last_refresh = -math.inf
        self.last_successful_refresh = -math.inf
        self._failed_attempts = 0
        self._equivalent_answers = 0
        self._asked_isolated: Collection[str] = ()
        # failures
        self.fatal_error: KafkaError | None = None
        self.last_failure: KafkaError | None = None
        self._latest_failure: KafkaError | None = None  # also after an update: of topics that are asked for alone
        self._topic_errors: dict[str, KafkaError] = {}
        self._address_errors: dict[str, BaseException] = {}
        # listeners
        self._listeners: list[Callable[[], None]] = []
        self.on_update_requested: Callable[[], None] | None = None
        self._topics: set[str] = set()

    @classmethod
    def of(cls, config: MetadataOptions) -> Self:
        """The metadata of a client with these options."""
        return cls(
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            metadata_max_age_ms=config.metadata_max_age_ms,
        )

    # topics: overridden by subclasses

    def retain_topic(self, topic: str, *, is_internal: bool, now: float) -> bool:
        """True when the topic is still wanted; others are dropped from the view."""
        return True

    def retain_topics(self, topics: Mapping[str, TopicMetadata], now: float) -> dict[str, TopicMetadata]:
        """The names in ``topics`` for which ``retain_topic`` is True; a subclass may do it faster."""
        return {
            name: topic
            for name, topic in topics.items()
            if self.retain_topic(name, is_internal=topic.is_internal, now=now)
        }

    def topics_to_request(self, *, partial: bool) -> Collection[str] | None:
        """Names to request; None requests every topic, an empty collection only the brokers. ``partial``: only topics
        that are not known yet.
        """
        if not partial:
            return self._topics
        return [topic for topic in self._topics if self.cluster.topic(topic) is None]

    def add_topics(self, topics: Iterable[str]) -> None:
        """Also request these topics from now on; new ones are requested at once.

        Raises InvalidTopicError for a name that no broker accepts; then none of them is added.
        """
        new = set(topics) - self._topics
        for topic in new:
            check_topic_name(topic)
        if new:
            self._topics |= new
            self.request_update_for_new_topics()

    # requesting an update

    @property
    def need_full_update(self) -> bool:
        """All topics are to be requested again."""
        return self.times.need_full_update

    @need_full_update.setter
    def need_full_update(self, is_needed: bool) -> None:
        self.times.need_full_update = is_needed

    @property
    def need_partial_update(self) -> bool:
        """New topics are to be requested."""
        return self.times.need_partial_update

    @need_partial_update.setter
    def need_partial_update(self, is_needed: bool) -> None:
        self.times.need_partial_update = is_needed

    @property
    def is_update_requested(self) -> bool:
        """True when an update was requested and has not arrived yet."""
        return self.times.is_requested

    def request_update(self, reset_backoff: bool = False) -> int:
        """Request all topics again as soon as the back-off allows; returns the update version that it must exceed.

        ``reset_backoff`` undoes the slow-down by responses without news.
        """
        self.need_full_update = True
        if reset_backoff and self._equivalent_answers:
            self._equivalent_answers = 0
            self.times.allowed_at = min(self.times.allowed_at, self.last_refresh + self._backoff.initial)
        return self._tell_request()

    def request_update_for_new_topics(self) -> int:
        """Request the new topics, at once unless the cluster is not answering; returns as ``request_update``."""
        self.need_partial_update = True
        self._equivalent_answers = 0
        self.request_version += 1
        # Java always skips the back-off here: in an outage that is one request per new topic.
        if not self._failed_attempts:
            self.times.allowed_at = -math.inf
        return self._tell_request()

    def request_left_out(self, topics: AbstractSet[str]) -> None:
        """Request new topics that the last answer has left out, and that are not requested separately: nothing else
        would ask for them again. The back-off applies.
        """
        if not self.need_partial_update and not topics <= self._isolated.names:
            self.need_partial_update = True
            self._tell_request()

    def time_to_next_update(self, now: float) -> float:
        """Seconds until the next request is due; never before the back-off since the last one is over."""
        return self.times.time_to_next(now)

    def is_update_due(self, now: float) -> bool:
        """True when ``time_to_next_update`` is 0."""
        return self.times.is_due(now)

    def new_request(self, now: float) -> MetadataRequestAndVersion:
        """The request to send now: a partial one if only new topics are wanted and the rest is not stale."""
        is_partial = not self.need_full_update and self.last_successful_refresh + self._max_age > now
        topics = self.topics_to_request(partial=is_partial)
        if self._isolated and topics is not None:
            self._isolated.settle(self._isolated.names.difference(self.topics_to_request(partial=True) or ()))
            # After a failure, request all other topics first, to see whether the cluster answers at all.
            self._asked_isolated = () if self._failed_attempts else self._isolated.next_group(now)
            is_partial = is_partial or bool(self._asked_isolated)
            topics = self._asked_isolated or set(topics) - self._isolated.names
        wanted = None if topics is None else sorted(topics)
        return MetadataRequestAndVersion(wanted, self.allow_auto_topic_creation, self.request_version, is_partial)

    def read_answer(self, version: int, frame: bytes) -> MetadataAnswer:
        """Decode a response frame for ``update``; raises MalformedFrameError. May be called in any thread."""
        return MetadataAnswer.read(version, frame, self._cache)

    # outcomes

    def update(self, request_version: int, answer: MetadataAnswer, now: float, *, is_partial: bool) -> None:
        """Take a response. Calls the listeners.

        ``request_version`` and ``is_partial`` are those of its request.
        """
        self.need_partial_update = request_version < self.request_version
        self.last_refresh = now
        self.update_version += 1
        if not is_partial:
            self.need_full_update = False
            self.last_successful_refresh = now
        self._failed_attempts = 0
        self._equivalent_answers += 1
        self.fatal_error = self.last_failure = None
        if self._isolated:
            self._isolated.settle((*self._asked_isolated, *answer.topics, *answer.errors))
        self._handle_metadata_response(answer, is_partial=is_partial, now=now)
        self._note_expiry()
        if self.need_partial_update or self._isolated.next_at <= now:
            # A topic was added while this request was in flight, or is requested separately: no need for the back-off.
            self.times.allowed_at = now
        else:
            slowed = max(0, self._equivalent_answers - _EQUIVALENT_ANSWERS_AT_FULL_RATE)
            self.times.allowed_at = now + self._backoff.delay(slowed)
        self._tell_listeners()

    def suspect_topics(self, request: MetadataRequestAndVersion, now: float) -> None:
        """Note that a broker closed the connection on the request, perhaps because of a topic in it. Call it before
        ``failed_update``.
        """
        if not self._failed_attempts and request.topics is not None:
            self._isolated.suspect(set(request.topics).intersection(self.topics_to_request(partial=True) or ()), now)
            self._note_expiry()

    def failed_update(self, now: float, error: KafkaError | None = None) -> None:
        """Note that a request failed: the next one waits for the back-off, which grows. Calls the listeners."""
        self.last_refresh = now
        self.times.allowed_at = now + self._backoff.delay(self._failed_attempts)
        self._failed_attempts += 1
        self._equivalent_answers = 0
        if error is not None:
            self.last_failure = self._latest_failure = error
        self._tell_listeners()

    def set_fatal_error(self, error: KafkaError) -> None:
        """Set an error that retries cannot cure, such as refused credentials; the next update clears it."""
        self.fatal_error = self.last_failure = error
        self._tell_listeners()

    def update_partition_leaderships(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Sequence[Node]
    ) -> set[TopicPartition]:
        """Apply a response's leader hints, (leader id, leader epoch) by partition (KIP-951); returns those applied.

        Skipped are unknown partitions, hints not newer than the known leader, and leaders without an address.
        """
        told = {node.node_id: node for node in nodes if not node.is_empty}
        addresses = {node.node_id: node for node in self.cluster.nodes} | told
        changed = []
        for topic_partition, (leader_id, leader_epoch) in leaders.items():
            known = self.cluster.partition(topic_partition)
            if known is None or leader_id not in addresses or leader_epoch <= known.leader_epoch:
                continue
            changed.append(known._replace(leader=leader_id, leader_epoch=leader_epoch))
            self._leader_epochs.note(known.topic, known.partition, leader_epoch)
        if changed:
            self._replace_cache(self._cache.with_partitions(changed, addresses))
            self._tell_listeners()
        return {TopicPartition(partition.topic, partition.partition) for partition in changed}

    # start and restart

    def bootstrap(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Start from these addresses: the view has no topics until the first answer."""
        self._bootstrap_addresses = tuple(addresses)
        self.need_full_update = True
        self.update_version += 1
        # Another cluster, or a restored one, counts its epochs again.
        self._leader_epochs.clear()
        self._replace_cache(MetadataCache.bootstrap(self._bootstrap_addresses))
        self._bootstrap_nodes = self.cluster.nodes

    def rebootstrap(self) -> None:
        """Forget the cluster and return to the bootstrap addresses (KIP-899, KIP-1102)."""
        self.bootstrap(self._bootstrap_addresses)
        self._tell_request()
        self._tell_listeners()

    @property
    def bootstrap_nodes(self) -> tuple[Node, ...]:
        """The addresses given at the start, as nodes with negative ids."""
        return self._bootstrap_nodes

    # look-ups

    def current_leader(self, topic_partition: TopicPartition) -> tuple[Node | None, int]:
        """The partition's leader (None if there is none or it is not known) and leader epoch (-1 if unknown)."""
        partition = self.cluster.partition(topic_partition)
        if partition is None:
            return None, NO_LEADER_EPOCH
        return self.cluster.node_by_id(partition.leader), partition.leader_epoch

    def topic_error(self, topic: str) -> KafkaError | None:
        """The error of this topic in the last response, or None."""
        return self._topic_errors.get(topic)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each update, failed update and fatal error. It must not raise."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``; unknown listeners are ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    # causes, for time-out messages

    def note_address_failure(self, address: str, error: BaseException) -> None:
        """Remember the last error of an address (``host:port``, or ``host:port (ip:port)``)."""
        self._address_errors.pop(address, None)
        self._address_errors[address] = error
        if len(self._address_errors) > _MAX_REMEMBERED_ADDRESSES:
            del self._address_errors[next(iter(self._address_errors))]

    def address_reached(self, address: str) -> None:
        """Forget the errors of ``host:port``: a connection to it succeeded."""
        for known in [known for known in self._address_errors if known == address or known.startswith(f"{address} (")]:
            del self._address_errors[known]

    @property
    def has_unreachable_addresses(self) -> bool:
        """True when the last connection to some address failed."""
        return bool(self._address_errors)

    def describe_failure(self, topic: str | None = None, partition: int | None = None) -> str:
        """The reason why there is no metadata (of ``topic``, or no leader of its ``partition``), in one line with the
        last error of each address.
        """
        causes = []
        if topic is not None and topic in self._topic_errors:
            causes.append(str(self._topic_errors[topic]))
        if self.fatal_error is not None:
            causes.append(str(self.fatal_error))
        elif topic is not None and (attempts := self._isolated.attempts(topic)):
            causes.append(f"asked for it alone {attempts} times, the last time: {self._latest_failure}")
        elif self.last_failure is not None:
            causes.append(f"the last metadata request failed: {self.last_failure}")
        if topic is not None and partition is not None and (fault := self._describe_partition(topic, partition)):
            causes.append(fault)
        if self._address_errors:
            errors = "; ".join(f"{address}: {_describe(error)}" for address, error in self._address_errors.items())
            causes.append(("no broker is reachable: " if self.cluster.is_bootstrap else "unreachable: ") + errors)
        if not causes:
            causes.append(self._describe_silence())
        return "; ".join(causes)

    # internals

    def _note_expiry(self) -> None:
        """Compute when the metadata is stale and must be updated unasked."""
        self.times.expires_at = min(self.last_successful_refresh + self._max_age, self._isolated.next_at)

    def _describe_partition(self, topic: str, partition: int) -> str | None:
        """The gap in the view of a partition of a known topic; None without a gap."""
        count = self.cluster.partition_count(topic)
        if not count:
            return None
        if self.cluster.partition(TopicPartition(topic, partition)) is None:
            return f"no such partition; the topic has 0 to {count - 1}"
        leader, _ = self.current_leader(TopicPartition(topic, partition))
        return None if leader is not None else f"partition {partition} has no leader"

    def _describe_silence(self) -> str:
        if not self.cluster.is_bootstrap:
            return "no error was reported"
        asked = ", ".join(node.address for node in self._bootstrap_nodes)
        return f"no answer came yet from {asked}" if asked else "no broker has answered yet"

    def _handle_metadata_response(self, answer: MetadataAnswer, *, is_partial: bool, now: float) -> None:
        """Select the part of the response that counts, then replace the view or merge into it.

        For the sake of ten thousand topics, each line here concerns only a few of them or is one call for all.
        """
        is_another_cluster = self._cache.cluster_id is not None and answer.cluster_id != self._cache.cluster_id
        if is_another_cluster:
            self._leader_epochs.clear()  # another cluster at the same address
        for name in [name for name in self._topic_errors if name in answer.topics or name in answer.errors]:
            del self._topic_errors[name]
        topics = self.retain_topics(answer.topics, now)
        is_base_current = answer.base is self._cache and not is_another_cluster
        names = answer.changed if is_base_current else answer.topics
        if self._leader_epochs.take(answer, names, topics, {} if is_another_cluster else self._cache.topics):
            self._equivalent_answers = 0
        if not answer.stale.isdisjoint(topics):
            self.need_full_update = True
        invalid: set[str] = set()
        unauthorized: set[str] = set()
        for name, code in answer.errors.items():
            if self.retain_topic(name, is_internal=False, now=now):
                self._note_topic_error(name, code, invalid, unauthorized)
        update = MetadataCache(
            nodes=answer.nodes,
            topics=topics,
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            invalid_topics=frozenset(invalid),
            unauthorized_topics=frozenset(unauthorized),
        )
        if is_partial:
            kept = self.retain_topics(self._cache.topics, now)
            for name in answer.errors:
                kept.pop(name, None)
            update = self._cache.merge_with(
                update,
                kept,
                lambda name: (
                    name not in answer.topics
                    and name not in answer.errors
                    and self.retain_topic(name, is_internal=False, now=now)
                ),
            )
        self._replace_cache(update)
        self._forget_dropped_topics(now)

    def _note_topic_error(self, name: str, code: int, invalid: set[str], unauthorized: set[str]) -> None:
        error = make(code, topic=name)
        self._topic_errors[name] = error
        if error.invalid_metadata:
            self.need_full_update = True
        elif isinstance(error, InvalidTopicError):
            invalid.add(name)
        elif isinstance(error, TopicAuthorizationFailedError):
            unauthorized.add(name)

    def _forget_dropped_topics(self, now: float) -> None:
        self._leader_epochs.forget(self._cache.topics, lambda name: self.retain_topic(name, is_internal=False, now=now))
        for name in [name for name in self._topic_errors if not self.retain_topic(name, is_internal=False, now=now)]:
            del self._topic_errors[name]

    def _replace_cache(self, cache: MetadataCache) -> None:
        self._cache = cache
        self.cluster = cache.cluster

    def _tell_request(self) -> int:
        if self.on_update_requested is not None:
            self.on_update_requested()
        return self.update_version

    def _tell_listeners(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
