"""``TopicAdmin``: create, delete, list and describe topics, add partitions, change options, and delete records.

Owns these requests, the node that they go to (the controller, if it is known), and their retries; ``RecordDeletion``
knows the records to delete, and the nodes that delete them. Kafka's counterpart is ``KafkaAdminClient``.

Rules:

- Changes are of one topic per call, deletions of records apart; its error is raised as it is:
  TopicAlreadyExistsError, UnknownTopicOrPartitionError, …
- Transient errors (the controller moves, a broker is starting or hangs) are retried until the time-out.
- When ``create`` or ``create_partitions`` returns, every new partition has a leader.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeVar
from uuid import UUID

from ..client.config import ClientConfig, given_config
from ..client.network_client import NetworkClient
from ..client.network_client_utils import (
    ATTEMPTS,
    attempt_timeout,
    next_refusal,
    request_timeout_ms,
    retry_until,
    unless_refused,
)
from ..cluster.metadata import Metadata
from ..cluster.metadata_answer import Replicas, partition_of
from ..common import (
    MAX_INT,
    MAX_SHORT,
    NO_LEADER,
    Node,
    PartitionInfo,
    TopicPartition,
    check_topic_name,
    integer_of,
    timeout_of,
)
from ..errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    make,
)
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.constants import TOPIC_RESOURCE
from ..protocol.messages import build_request
from .cluster_nodes import active_controller, nodes_of
from .configs import ConfigEntry, ConfigValue, config_changes, config_text, entry_of
from .record_deletion import RecordDeletion

__all__ = ["ClusterDescription", "TopicAdmin", "TopicDescription", "description_of"]

T = TypeVar("T")
BROKER_DEFAULT: Final = -1
_ATTEMPTS_AT_A_CHANGE: Final = 2
"""Fewer than for a query: a change whose response is late is carried out all the same."""
_FIRST_RELEASES: Final[Mapping[int, str]] = {
    ApiKey.DELETE_RECORDS: "0.11 (KIP-107)",
    ApiKey.DESCRIBE_CONFIGS: "1.1 (KIP-133, KIP-226)",
    ApiKey.CREATE_PARTITIONS: "1.0 (KIP-195)",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3 (KIP-339)",
}
"""The first Kafka release with each request, in a version that we support."""


class ClusterDescription(NamedTuple):
    """A cluster as one of its brokers sees it; its nodes, with their racks, in order of their ids."""

    cluster_id: str | None
    controller: Node | None
    """The active controller; with KRaft perhaps not a broker. None if there is none, or we may not describe it."""
    nodes: tuple[Node, ...]


class TopicDescription(NamedTuple):
    """A topic as the cluster sees it; its partitions in order of their numbers."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


class TopicAdmin:
    """``async with TopicAdmin("host:9092") as admin: …``. Options are those of ``ClientConfig``.

    ``timeout`` is the default time-out of each call, in seconds. A call raises KafkaTimeoutError, with the last cause,
    when it expires; AuthenticationFailedError, at once, when the brokers refuse the credentials; and IllegalStateError
    outside the block. Cancelling a call ends the waiting only: a broker may still carry out a change.

    A broker that does not answer has a third of the time-out, with a change half of it; then another is asked. A change
    whose answer is lost is requested again, so the error of a call may be that its own change was made before. Brokers
    learn of a change one after the other: another may not know it for a moment after the call has returned.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ClientConfig | None = None,
        timeout: float = 30.0,
        **options: Any,
    ) -> None:
        self.config = config = given_config(ClientConfig, bootstrap_servers, config, options)
        limit = timeout_of("TopicAdmin", timeout)
        self.timeout = math.inf if limit is None else limit
        # Requests no topics, only the brokers and the controller.
        self.metadata = Metadata.of(config)
        self._client: NetworkClient | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        if self._client is None:
            loop = asyncio.get_running_loop()
            self._client = NetworkClient(self.config, self.metadata, loop=loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        client, self._client = self._client, None
        self._is_closed = True
        if client is not None:
            await client.close()

    async def ping(self, timeout: float | None = None) -> None:
        """Return once a broker has answered; raises KafkaTimeoutError, with the cause, if none does within ``timeout``
        seconds.
        """
        await self._retry(lambda seconds: self._metadata_of([], seconds), timeout)

    async def list_topics(self, timeout: float | None = None) -> list[TopicDescription]:
        """All topics that may be described, by name. Raises KafkaTimeoutError after ``timeout`` seconds."""
        response = await self._retry(lambda seconds: self._metadata_of(None, seconds), timeout)
        return sorted(description_of(topic) for topic in response.topics if not topic.error_code)

    async def describe_existing(
        self, names: Collection[str], timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """The topics among these that exist, by name, from one request. Raises InvalidTopicError,
        TopicAuthorizationFailedError, or another error of a topic, and KafkaTimeoutError after ``timeout`` seconds.
        """
        if isinstance(names, str):
            raise TypeError(f"names={names!r}: give a list of names")

        async def ask(seconds: float) -> dict[str, TopicDescription]:
            response = await self._metadata_of(list(names), seconds)
            found = {}
            for topic in response.topics:
                if topic.error_code != UnknownTopicOrPartitionError.code:
                    _check(topic, topic.name)
                    found[topic.name] = description_of(topic)
            return found

        return await self._retry(ask, timeout)

    async def describe(self, name: str, timeout: float | None = None) -> TopicDescription:
        """One topic. Raises UnknownTopicOrPartitionError if it does not exist, InvalidTopicError,
        TopicAuthorizationFailedError, and KafkaTimeoutError after ``timeout`` seconds.
        """
        return await self._retry(partial(self._describe, name), timeout, but_not=UnknownTopicOrPartitionError)

    async def configs(self, name: str, timeout: float | None = None) -> dict[str, str | None]:
        """The options set for this topic itself, by Kafka's names; the value of a secret one is None.

        Raises UnknownTopicOrPartitionError if there is no such topic, TopicAuthorizationFailedError, and
        KafkaTimeoutError after ``timeout`` seconds.
        """
        entries = (await self.describe_configs([name], timeout)).get(name, {})
        return {entry.name: entry.value for entry in entries.values() if entry.is_own}

    async def describe_configs(
        self, topics: Collection[str], timeout: float | None = None
    ) -> dict[str, dict[str, ConfigEntry]]:
        """All options of these topics, by topic and by Kafka's name, from one request.

        Raises the error of the first topic that has one: UnknownTopicOrPartitionError if there is no such topic,
        TopicAuthorizationFailedError, …; UnsupportedVersionError before Kafka 1.1, and KafkaTimeoutError after
        ``timeout`` seconds.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics={topics!r}: give a list of names")
        for topic in topics:
            check_topic_name(topic)
        resources = [
            {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None}
            for name in dict.fromkeys(topics)  # Kafka refuses a topic that is named twice
        ]

        def build(version: int) -> Message:
            return build_request(ApiKey.DESCRIBE_CONFIGS, version, resources=resources)

        async def ask(seconds: float) -> dict[str, dict[str, ConfigEntry]]:
            response = await self._send(ApiKey.DESCRIBE_CONFIGS, build, seconds)
            found = {}
            for result in response.results:
                _check(result, result.resource_name)
                found[result.resource_name] = {entry.name: entry_of(entry) for entry in result.configs}
            return found

        return await self._retry(ask, timeout, but_not=UnknownTopicOrPartitionError) if resources else {}

    async def alter_configs(
        self,
        topic: str,
        *,
        set: Mapping[str, ConfigValue] | None = None,  # noqa: A002 - AlterConfigOp's own name
        delete: Iterable[str] = (),
        append: Mapping[str, ConfigValue] | None = None,
        subtract: Mapping[str, ConfigValue] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change options of a topic, and leave its others as they are (KIP-339); all of the changes or none.

        ``set`` gives values, ``delete`` takes options back to the broker's default, ``append`` and ``subtract`` change
        the parts of a list, such as ``cleanup.policy``. ``validate_only`` only has the broker check them. Brokers use
        the new values a moment later.

        Raises TypeError for a value that cannot be one, InvalidConfigError for a value or a name that the broker
        refuses, UnknownTopicOrPartitionError, TopicAuthorizationFailedError, and the broker's other errors;
        UnsupportedVersionError before Kafka 2.3. Raises KafkaTimeoutError after ``timeout`` seconds (default: the
        admin's); then, and after a cancellation, the options may be changed.
        """
        changes = config_changes(set, delete, append, subtract)
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": changes}

        def build(version: int) -> Message:
            return build_request(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=validate_only
            )

        call = _Call.beginning_now(timeout)
        await self._change(ApiKey.INCREMENTAL_ALTER_CONFIGS, build, answers="responses", name=topic, call=call)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets (KIP-107); returns each partition's first offset afterwards. An
        offset of -1 is the high watermark: all present records.

        Each partition's leader is asked, and partitions succeed or fail by themselves; then the first error is raised,
        with its topic and partition: OffsetOutOfRangeError for an offset past the end, UnknownTopicOrPartitionError,
        TopicAuthorizationFailedError, PolicyViolationError for a topic that is compacted only, …. A call may be
        repeated: records that are already deleted are no error. Raises KafkaTimeoutError after ``timeout`` seconds
        (default: the admin's); then, and after a cancellation, some of the records may be deleted.
        """
        deletion = RecordDeletion(offsets, self._send, self._metadata_of)
        if deletion.offsets:
            await self._retry(deletion.ask, timeout)
        return deletion.first_offsets()

    async def describe_cluster(self, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id, its controller, and its running brokers with their racks. Raises KafkaTimeoutError after
        ``timeout`` seconds.
        """
        loop = asyncio.get_running_loop()
        limit = self._limit(timeout)
        ends_at = loop.time() + limit
        # Metadata has the rest on every broker; DescribeCluster came with Kafka 2.8 and knows no better controller.
        response = await self._retry(lambda seconds: self._metadata_of([], seconds), timeout)
        seconds = min(attempt_timeout(limit, self.config.request_timeout_ms / 1000), ends_at - loop.time())
        try:
            controller = await active_controller(lambda api_key, build: self._send(api_key, build, seconds), response)
        except KafkaError:  # the cluster has no controller, or we may not ask: the rest is valid
            controller = None
        in_order = tuple(node for _, node in sorted(nodes_of(response).items()))
        return ClusterDescription(getattr(response, "cluster_id", None), controller, in_order)

    async def create(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, ConfigValue] | None = None,
        timeout: float | None = None,
    ) -> TopicDescription:
        """Create a topic and wait until each partition has a leader; -1 is the broker's default (KIP-464, Kafka 2.4).

        Raises TopicAlreadyExistsError, InvalidTopicError, InvalidPartitionsError, InvalidReplicationFactorError,
        InvalidConfigError, and the broker's other errors. Raises KafkaTimeoutError after ``timeout`` seconds (default:
        the admin's); then, and after a cancellation, the topic may exist.
        """
        options = [{"name": key, "value": config_text(key, value)} for key, value in (configs or {}).items()]
        partitions = _count_of("partitions", partitions, MAX_INT)
        replication_factor = _count_of("replication_factor", replication_factor, MAX_SHORT)

        def build(version: int) -> Message:
            topic = {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": replication_factor,
                "configs": options,
            }
            return build_request(ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=self._timeout_ms(timeout))

        call = _Call.beginning_now(timeout)
        await self._change(ApiKey.CREATE_TOPICS, build, answers="topics", name=name, call=call)
        return await self._with_leaders(name, max(partitions, 1), call)

    async def create_partitions(self, name: str, total: int, *, timeout: float | None = None) -> TopicDescription:
        """Raise the number of partitions to ``total`` and wait for the leaders of the new ones (KIP-195).

        Raises InvalidPartitionsError if it is not more than there are, UnknownTopicOrPartitionError, and the broker's
        other errors. Raises KafkaTimeoutError after ``timeout`` seconds (default: the admin's); then, and after a
        cancellation, the partitions may be there.
        """
        total = _count_of("total", total, MAX_INT)

        def build(version: int) -> Message:
            topic = {"name": name, "count": total, "assignments": None}
            return build_request(ApiKey.CREATE_PARTITIONS, version, topics=[topic], timeout=self._timeout_ms(timeout))

        call = _Call.beginning_now(timeout)
        # One of the old partitions may have no leader, and get none.
        present = len((await self.describe(name, timeout)).partitions)
        await self._change(ApiKey.CREATE_PARTITIONS, build, answers="results", name=name, call=call)
        return await self._with_leaders(name, total, call, first=present)

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a topic with its records; brokers may know it for a moment longer.

        Raises UnknownTopicOrPartitionError if it does not exist, and the broker's other errors. Raises
        KafkaTimeoutError after ``timeout`` seconds (default: the admin's); then, and after a cancellation, the topic
        may be deleted.
        """

        def build(version: int) -> Message:
            return build_request(
                ApiKey.DELETE_TOPICS,
                version,
                topics=[{"name": name, "topic_id": None}],
                topic_names=[name],
                timeout=self._timeout_ms(timeout),
            )

        call = _Call.beginning_now(timeout)
        await self._change(ApiKey.DELETE_TOPICS, build, answers="responses", name=name, call=call)

    # internals

    async def _send(
        self, api_key: ApiKey, build: Callable[[int], Message], seconds: float, node: Node | None = None
    ) -> Struct:
        if self._client is None:
            is_closed = self._is_closed
            raise IllegalStateError(
                "the admin is closed" if is_closed else "the admin is not started: use `async with`"
            )
        answer = self._client.send_and_wait(api_key, build, node=node, timeout=seconds)
        try:
            return await unless_refused(answer, self._refusal(self._client))
        except UnsupportedVersionError as error:
            first = _FIRST_RELEASES.get(api_key)
            if first is None:
                raise
            raise UnsupportedVersionError(f"{error}: this call needs Kafka {first} or later") from error

    async def _refusal(self, client: NetworkClient) -> NoReturn:
        """Raises the next AuthenticationFailedError: as in Java it ends a call at once, but not the calls after it."""
        error = await next_refusal(self.metadata, client, known=self.metadata.fatal_error)
        raise IllegalStateError("the admin is closed") if error is None else error.fresh()

    def _timeout_ms(self, timeout: float | None) -> int:
        return request_timeout_ms(self._limit(timeout))

    def _limit(self, timeout: float | None) -> float:
        """A call's time-out, by default the admin's. Raises TypeError and ValueError for anything else."""
        seconds = timeout_of("TopicAdmin", timeout)
        return self.timeout if seconds is None else seconds

    async def _change(
        self, api_key: ApiKey, build: Callable[[int], Message], *, answers: str, name: str, call: _Call
    ) -> None:
        """Send a change and check its outcome; ``answers`` is the response's field that has it."""
        check_topic_name(name)
        silent: set[Node | None] = set()

        async def ask(seconds: float) -> None:
            controller = self.metadata.cluster.controller
            # With KRaft any broker passes it on to the controller.
            node = None if controller in silent else controller
            try:
                response = await self._send(api_key, build, seconds, node)
            except KafkaTimeoutError:
                silent.add(node)
                raise
            for answer in getattr(response, answers):
                _check(answer, name)

        await self._retry(
            ask,
            call.timeout,
            but_not=UnknownTopicOrPartitionError,
            spent=call.spent(),
            attempts=_ATTEMPTS_AT_A_CHANGE,
        )

    async def _metadata_of(self, names: Sequence[str] | None, seconds: float) -> Struct:
        """Metadata of these topics, or of all; never creates one."""
        for name in names or ():
            check_topic_name(name)  # a name that is not valid UTF-8 could not be sent

        def build(version: int) -> Message:
            topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
            return build_request(ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=False)

        body: Struct = await self._send(ApiKey.METADATA, build, seconds)
        return body

    async def _describe(self, name: str, seconds: float) -> TopicDescription:
        response = await self._metadata_of([name], seconds)
        for topic in response.topics:
            _check(topic, name)
            return description_of(topic)
        raise UnknownTopicOrPartitionError(f"{name}: there is no such topic", topic=name)

    async def _with_leaders(self, name: str, least: int, call: _Call, first: int = 0) -> TopicDescription:
        """The topic once it has this many partitions, each from ``first`` on with a leader; brokers learn of it with a
        delay.
        """

        async def ask(seconds: float) -> TopicDescription:
            found = await self._describe(name, seconds)
            if len(found.partitions) < least or any(one.leader == NO_LEADER for one in found.partitions[first:]):
                raise _NotSpreadError(f"{name}: some of its {least} partitions have no leader yet", topic=name)
            return found

        return await self._retry(ask, call.timeout, spent=call.spent())

    async def _retry(
        self,
        ask: Callable[[float], Awaitable[T]],
        timeout: float | None,
        but_not: type[KafkaError] | tuple[()] = (),
        *,
        spent: float = 0.0,
        attempts: int = ATTEMPTS,
    ) -> T:
        """Return the result of ``ask``, which gets the seconds that it may take."""
        limit = self._limit(timeout)
        seconds = attempt_timeout(limit - spent, self.config.request_timeout_ms / 1000, attempts)
        return await retry_until(
            lambda: ask(seconds),
            limit - spent,
            self.config.retry_backoff,
            before_next=lambda _: self.metadata.request_update(),
            describe=lambda _, last: f"no answer within {limit:g} s: {last or self.metadata.describe_failure()}",
            but_not=but_not,
        )


class _Call(NamedTuple):
    """A call of several requests, which share its time-out: the time-out as given, and the call's beginning."""

    timeout: float | None
    begun: float

    @classmethod
    def beginning_now(cls, timeout: float | None) -> Self:
        return cls(timeout, asyncio.get_running_loop().time())

    def spent(self) -> float:
        """The seconds since it began."""
        return asyncio.get_running_loop().time() - self.begun


class _NotSpreadError(UnknownTopicOrPartitionError):
    """A broker does not know all partitions and leaders of a topic yet."""


def _check(answer: Struct, name: str) -> None:
    if answer.error_code:
        raise make(answer.error_code, getattr(answer, "error_message", None), topic=name)


def description_of(topic: Struct) -> TopicDescription:
    """A topic of a Metadata response."""
    shared: Replicas = {}
    partitions = [partition_of(topic.name, one, topic.__version__, shared) for one in topic.partitions]
    partitions.sort(key=lambda one: one.partition)
    topic_id = getattr(topic, "topic_id", None)
    return TopicDescription(topic.name, topic_id, bool(getattr(topic, "is_internal", False)), tuple(partitions))


def _count_of(name: str, given: object, most: int) -> int:
    """A number that fits into the request; the broker decides whether it makes sense."""
    number = integer_of(name, given)
    if not -1 <= number <= most:
        raise ValueError(f"{name}={given!r:.40}: write a number up to {most:,}, or -1 for the broker's default")
    return number
