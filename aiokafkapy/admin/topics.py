"""``TopicAdmin``: create, delete, list and describe topics, and add partitions.

Owns these requests, the node that they go to (the controller, if it is known), and their retries. Kafka's counterpart
is ``KafkaAdminClient``.

Rules:

- One topic per call; its error is raised as it is: TopicAlreadyExistsError, UnknownTopicOrPartitionError, …
- Transient errors (the controller moves, a broker is starting) are retried until the time-out.
- When ``create`` or ``create_partitions`` returns, every partition has a leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeVar
from uuid import UUID

from ..client.config import MAX_INT, ClientConfig, given_config
from ..client.network_client import NetworkClient
from ..client.network_client_utils import retry_until, unless_refused
from ..cluster.metadata import Metadata
from ..common import NO_LEADER, PartitionInfo
from ..errors import IllegalStateError, KafkaError, UnknownTopicOrPartitionError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.messages import build_request

__all__ = ["TopicAdmin", "TopicDescription", "description_of"]

T = TypeVar("T")
BROKER_DEFAULT: Final = -1
_TOPIC_RESOURCE: Final = 2
"""DescribeConfigs' number for a topic."""
_TOPIC_CONFIG_SOURCE: Final = 1
"""The source of a value that was set for the topic itself."""


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
        self.timeout = timeout
        # Requests no topics, only the brokers and the controller.
        self.metadata = Metadata(
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            metadata_max_age_ms=config.metadata_max_age_ms,
        )
        self._client: NetworkClient | None = None

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
        if client is not None:
            await client.close()

    async def ping(self, timeout: float | None = None) -> None:
        """Return once a broker has answered; raises KafkaTimeoutError, with the cause, if none does within ``timeout``
        seconds.
        """
        await self._retry(lambda: self._metadata_of([]), timeout)

    async def list_topics(self, timeout: float | None = None) -> list[TopicDescription]:
        """All topics that may be described, by name. Raises KafkaTimeoutError after ``timeout`` seconds."""
        response = await self._retry(lambda: self._metadata_of(None), timeout)
        return sorted(description_of(topic) for topic in response.topics if not topic.error_code)

    async def describe_existing(
        self, names: Collection[str], timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        """Those of these topics that exist, by name, from one request. Raises InvalidTopicError,
        TopicAuthorizationFailedError, or another error of a topic, and KafkaTimeoutError after ``timeout`` seconds.
        """

        async def ask() -> dict[str, TopicDescription]:
            response = await self._metadata_of(list(names))
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
        return await self._retry(lambda: self._describe(name), timeout, but_not=UnknownTopicOrPartitionError)

    async def configs(self, name: str, timeout: float | None = None) -> dict[str, str | None]:
        """The options set for this topic itself, by Kafka's names; the value of a secret one is None.

        Raises UnknownTopicOrPartitionError if there is no such topic, TopicAuthorizationFailedError, and
        KafkaTimeoutError after ``timeout`` seconds.
        """

        def build(version: int) -> Message:
            resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None}
            return build_request(ApiKey.DESCRIBE_CONFIGS, version, resources=[resource])

        async def ask() -> dict[str, str | None]:
            response = await self._send(ApiKey.DESCRIBE_CONFIGS, build)
            for result in response.results:
                _check(result, name)
                return {
                    entry.name: None if getattr(entry, "is_sensitive", False) else entry.value
                    for entry in result.configs
                    if _is_own(entry)
                }
            return {}

        return await self._retry(ask, timeout, but_not=UnknownTopicOrPartitionError)

    async def create(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> TopicDescription:
        """Create a topic and wait until each partition has a leader; -1 is the broker's default (KIP-464, Kafka 2.4).

        Raises TopicAlreadyExistsError, InvalidTopicError, InvalidPartitionsError, InvalidReplicationFactorError,
        InvalidConfigError, and the broker's other errors. Raises KafkaTimeoutError after ``timeout`` seconds (default:
        the admin's); then, and after a cancellation, the topic may exist.
        """

        def build(version: int) -> Message:
            topic = {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": replication_factor,
                "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
            }
            return build_request(ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=self._timeout_ms(timeout))

        begun = asyncio.get_running_loop().time()
        await self._change(ApiKey.CREATE_TOPICS, build, "topics", name, timeout)
        return await self._with_leaders(name, max(partitions, 1), timeout, begun)

    async def create_partitions(self, name: str, total: int, *, timeout: float | None = None) -> TopicDescription:
        """Raise the number of partitions to ``total`` and wait for their leaders (KIP-195).

        Raises InvalidPartitionsError if it is not more than there are, UnknownTopicOrPartitionError, and the broker's
        other errors. Raises KafkaTimeoutError after ``timeout`` seconds (default: the admin's); then, and after a
        cancellation, the partitions may be there.
        """

        def build(version: int) -> Message:
            topic = {"name": name, "count": total, "assignments": None}
            return build_request(ApiKey.CREATE_PARTITIONS, version, topics=[topic], timeout=self._timeout_ms(timeout))

        begun = asyncio.get_running_loop().time()
        await self._change(ApiKey.CREATE_PARTITIONS, build, "results", name, timeout)
        return await self._with_leaders(name, total, timeout, begun)

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

        await self._change(ApiKey.DELETE_TOPICS, build, "responses", name, timeout)

    # internals

    async def _send(self, api_key: ApiKey, build: Callable[[int], Message], *, to_controller: bool = False) -> Struct:
        if self._client is None:
            raise IllegalStateError("the admin is not started: use `async with`")
        node = self.metadata.cluster.controller if to_controller else None
        answer = self._client.send_and_wait(api_key, build, node=node)
        return await unless_refused(answer, self._refusal(self._client))

    async def _refusal(self, client: NetworkClient) -> NoReturn:
        """Raises the next AuthenticationFailedError: as in Java it ends a call at once, but not the calls after it."""
        before = self.metadata.fatal_error
        while (error := self.metadata.fatal_error) is None or error is before:
            await client.wait_for_change()
        raise error.fresh()

    def _timeout_ms(self, timeout: float | None) -> int:
        """For a request, whose field takes 24 days."""
        return int(min((self.timeout if timeout is None else timeout) * 1000, MAX_INT))

    async def _change(
        self, api_key: ApiKey, build: Callable[[int], Message], answers: str, name: str, timeout: float | None
    ) -> None:
        async def ask() -> None:
            response = await self._send(api_key, build, to_controller=True)
            for answer in getattr(response, answers):
                _check(answer, name)

        await self._retry(ask, timeout, but_not=UnknownTopicOrPartitionError)

    async def _metadata_of(self, names: Sequence[str] | None) -> Struct:
        """Metadata of these topics, or of all; never creates one."""

        def build(version: int) -> Message:
            topics = None if names is None else [{"name": name, "topic_id": None} for name in names]
            return build_request(ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=False)

        body: Struct = await self._send(ApiKey.METADATA, build)
        return body

    async def _describe(self, name: str) -> TopicDescription:
        response = await self._metadata_of([name])
        for topic in response.topics:
            _check(topic, name)
            return description_of(topic)
        raise UnknownTopicOrPartitionError(f"{name}: there is no such topic", topic=name)

    async def _with_leaders(self, name: str, least: int, timeout: float | None, begun: float) -> TopicDescription:
        """The topic once it has this many partitions, each with a leader; brokers learn of it with a delay.

        ``begun`` is the loop time at which the whole call, and so its time-out, began.
        """

        async def ask() -> TopicDescription:
            found = await self._describe(name)
            if len(found.partitions) < least or any(one.leader == NO_LEADER for one in found.partitions):
                raise _NotSpreadError(f"{name}: some of its {least} partitions have no leader yet", topic=name)
            return found

        return await self._retry(ask, timeout, spent=asyncio.get_running_loop().time() - begun)

    async def _retry(
        self,
        ask: Callable[[], Awaitable[T]],
        timeout: float | None,
        but_not: type[KafkaError] | tuple[()] = (),
        *,
        spent: float = 0.0,
    ) -> T:
        limit = self.timeout if timeout is None else timeout
        return await retry_until(
            ask,
            limit - spent,
            self.config.retry_backoff,
            before_next=lambda _: self.metadata.request_update(),
            describe=lambda _, last: f"no answer within {limit:g} s: {last or self.metadata.describe_failure()}",
            but_not=but_not,
        )


class _NotSpreadError(UnknownTopicOrPartitionError):
    """A broker does not know all partitions and leaders of a topic yet."""


def _check(answer: Struct, name: str) -> None:
    if answer.error_code:
        raise make(answer.error_code, getattr(answer, "error_message", None), topic=name)


def _is_own(entry: object) -> bool:
    source = getattr(entry, "config_source", None)
    return source == _TOPIC_CONFIG_SOURCE if source is not None else not getattr(entry, "is_default", True)


def description_of(topic: Struct) -> TopicDescription:
    """A topic of a Metadata response."""
    partitions = [
        PartitionInfo(
            topic.name,
            one.partition_index,
            one.leader_id if one.leader_id >= 0 else NO_LEADER,
            getattr(one, "leader_epoch", -1),
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(getattr(one, "offline_replicas", ())),
        )
        for one in topic.partitions
    ]
    partitions.sort(key=lambda one: one.partition)
    topic_id = getattr(topic, "topic_id", None)
    return TopicDescription(topic.name, topic_id, bool(getattr(topic, "is_internal", False)), tuple(partitions))
