"""Requests to any cluster for which ``TopicAdmin`` has no call: brokers, groups, transactions.

Owns the requests, the brokers that they go to, and the forms of their answers in any version. It must not know the
pages. Kafka's counterparts are ``KafkaAdminClient``'s ``describeCluster``, ``listGroups``, ``describeClassicGroups``,
``listConsumerGroupOffsets``, ``listTransactions`` and ``describeTransactions``.

Rules: a list of groups or transactions is requested from every broker, for each has its own; a refusing broker is left
out, and if all refuse, the error is raised. Requests are not repeated: the console asks again in a second or two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ..admin.cluster_nodes import active_controller, nodes_of
from ..admin.topics import TopicDescription, description_of
from ..client.config import ClientConfig
from ..client.coordinators import find_coordinator
from ..client.network_client import NetworkClient
from ..cluster.metadata import Metadata
from ..common import Node, TopicPartition
from ..errors import IllegalStateError, KafkaError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.constants import GROUP_COORDINATOR
from ..protocol.messages import build_request

__all__ = ["TIMEOUT", "ClusterQueries", "Described", "answers_of_some"]

T = TypeVar("T")
TIMEOUT: Final = 5.0
"""The most seconds of one request: the page asks again soon."""
_CONTROLLER_TIMEOUT: Final = 1.0
"""Seconds of the request for the controller: without a controller no broker may answer, and the rest is shown."""


class Described(NamedTuple):
    """The whole cluster: Metadata's answer about all topics."""

    cluster_id: str
    controller_id: int | None
    nodes: list[Node]
    topics: list[TopicDescription]


class ClusterQueries:
    """One client for all requests. ``start`` and ``close`` it on one loop."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._timeout = min(TIMEOUT, config.request_timeout_ms / 1000)
        self._metadata = Metadata.of(config)
        self._client: NetworkClient | None = None

    def start(self) -> None:
        """Make the client; the first request connects."""
        self._client = NetworkClient(self._config, self._metadata, loop=asyncio.get_running_loop())

    async def close(self) -> None:
        """Close the connections; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def describe(self) -> Described:
        """Brokers and topics. Never makes a topic."""
        body = await self._ask(ApiKey.METADATA, topics=None, allow_auto_topic_creation=False)
        try:
            controller = await active_controller(partial(self._send, timeout=_CONTROLLER_TIMEOUT), body)
        except KafkaError:  # there is no controller, or we may not ask: the rest is valid
            controller = None
        topics = [description_of(one) for one in body.topics if not one.error_code]
        return Described(
            getattr(body, "cluster_id", None) or "",
            None if controller is None else controller.node_id,
            sorted(nodes_of(body).values()),
            sorted(topics, key=lambda one: one.name),
        )

    async def groups(self, nodes: Iterable[Node]) -> list[tuple[Node, Struct]]:
        """Every group, as in ListGroups, with its coordinator."""

        async def of(node: Node) -> list[tuple[Node, Struct]]:
            body = await self._ask(ApiKey.LIST_GROUPS, node, states_filter=(), types_filter=())
            _check(body.error_code)
            return [(node, group) for group in body.groups]

        return await _of_all(of, nodes)

    async def described_groups(self, node: Node, group_ids: list[str]) -> list[Struct]:
        """Groups of one coordinator, with members; those that it does not describe are left out."""
        if not group_ids:
            return []
        body = await self._ask(ApiKey.DESCRIBE_GROUPS, node, groups=group_ids, include_authorized_operations=False)
        return [group for group in body.groups if not group.error_code]

    async def described_new_groups(self, api_key: ApiKey, node: Node, group_ids: list[str]) -> list[Struct]:
        """As ``described_groups``, for the groups of one newer API: CONSUMER_GROUP_DESCRIBE or SHARE_GROUP_DESCRIBE."""
        if not group_ids:
            return []
        asked = {"group_ids": group_ids, "include_authorized_operations": False}
        body = await self._ask(api_key, node, **asked)
        return [group for group in body.groups if not group.error_code]

    async def offsets(self, node: Node, group_id: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group of this coordinator."""
        body = await self._ask(
            ApiKey.OFFSET_FETCH,
            node,
            group_id=group_id,
            topics=None,
            require_stable=False,
            groups=[{"group_id": group_id, "topics": None, "member_id": None, "member_epoch": -1}],
        )
        groups = getattr(body, "groups", None)
        found = body if groups is None else groups[0]
        _check(getattr(found, "error_code", 0))
        return {
            TopicPartition(topic.name, one.partition_index): one.committed_offset
            for topic in found.topics
            for one in topic.partitions
            if not one.error_code and one.committed_offset >= 0
        }

    async def transactions(self, nodes: Iterable[Node]) -> list[tuple[Node, Struct]]:
        """Every transactional id, as in DescribeTransactions, with its coordinator."""

        async def of(node: Node) -> list[tuple[Node, Struct]]:
            body = await self._ask(ApiKey.LIST_TRANSACTIONS, node, duration_filter=-1, transactional_id_pattern=None)
            _check(body.error_code)
            ids = [one.transactional_id for one in body.transaction_states]
            if not ids:
                return []
            told = await self._ask(ApiKey.DESCRIBE_TRANSACTIONS, node, transactional_ids=ids)
            return [(node, one) for one in told.transaction_states if not one.error_code]

        return await _of_all(of, nodes)

    async def coordinator(self, group_id: str) -> Node:
        """The node that coordinates a group."""
        return await find_coordinator(self._running(), GROUP_COORDINATOR, group_id)

    # internals

    def _running(self) -> NetworkClient:
        if self._client is None:
            raise IllegalStateError("the console's client is not started")
        return self._client

    async def _ask(self, api_key: ApiKey, node: Node | None = None, **fields: object) -> Struct:
        def build(version: int) -> Message:
            return build_request(api_key, version, **fields)

        return await self._send(api_key, build, node)

    async def _send(
        self, api_key: ApiKey, build: Callable[[int], Message], node: Node | None = None, timeout: float = TIMEOUT
    ) -> Struct:
        limit = min(timeout, self._timeout)
        return await self._running().send_and_wait(api_key, build, node=node, timeout=limit)


async def answers_of_some(questions: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """The answers of brokers, and the KafkaErrors of those that refused. Raises the first if all have refused, and any
    other error at once: it is a bug of ours.
    """
    answers = await asyncio.gather(*questions, return_exceptions=True)
    errors = [each for each in answers if isinstance(each, BaseException)]
    if errors and (len(errors) == len(answers) or not all(isinstance(each, KafkaError) for each in errors)):
        raise errors[0]
    return answers


async def _of_all(ask: Callable[[Node], Awaitable[list[T]]], nodes: Iterable[Node]) -> list[T]:
    answers = await answers_of_some(map(ask, nodes))
    return [one for answer in answers if not isinstance(answer, BaseException) for one in answer]


def _check(code: int) -> None:
    if code:
        raise make(code)
