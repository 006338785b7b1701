"""Committing offsets to a consumer group that has no members: FindCoordinator and OffsetCommit.

Owns the requests and their retries while the coordinator moves. Kafka's counterparts are ``ConsumerCoordinator`` of a
consumer with manual assignment, and ``Admin.alterConsumerGroupOffsets``.

Rules:

- Commits are standalone (generation -1, no member id): a group with members refuses them with UnknownMemberIdError.
- A group's coordinator is looked up once, and again after an error that says that it has moved.
- Retriable errors are retried with back-off until the time-out; any other error is raised at once. A broker that does
  not answer has a third of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..client.coordinators import find_coordinator, offset_entry
from ..client.network_client_utils import attempt_timeout, retry_until
from ..common import ExponentialBackoff, Node, TopicPartition
from ..errors import make
from ..protocol.api import ApiKey
from ..protocol.codec import Message
from ..protocol.constants import GROUP_COORDINATOR
from ..protocol.messages import build_request, by_topic

if TYPE_CHECKING:
    from ..client.network_client import NetworkClient

__all__ = ["GroupOffsets"]

_NO_GENERATION: Final = -1
_BROKERS_RETENTION: Final = -1


class GroupOffsets:
    """Commits for groups. Uses its owner's client, and caches the coordinator of each group. ``request_timeout`` bounds
    each request, in seconds.
    """

    def __init__(
        self, client: NetworkClient, backoff: ExponentialBackoff, *, request_timeout: float = math.inf
    ) -> None:
        self._client = client
        self._backoff = backoff
        self._request_timeout = request_timeout
        self._coordinators: dict[str, Node] = {}

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int], timeout: float) -> None:
        """Commit for each partition the offset to read next.

        Raises KafkaTimeoutError with the last cause after ``timeout`` seconds, and any error that is not retriable at
        once.
        """
        seconds = attempt_timeout(timeout, self._request_timeout)
        await retry_until(
            lambda: self._commit(group, offsets, seconds),
            timeout,
            self._backoff,
            before_next=lambda _: self._coordinators.pop(group, None),
            describe=lambda limit, last: (
                f"the offsets of group {group!r} were not committed within {limit:g} s: {last or 'no answer'}"
            ),
        )

    # internals

    async def _commit(self, group: str, offsets: Mapping[TopicPartition, int], seconds: float) -> None:
        topics = by_topic((tp, offset_entry(tp.partition, offset)) for tp, offset in offsets.items())

        def build(version: int) -> Message:
            return build_request(
                ApiKey.OFFSET_COMMIT,
                version,
                group_id=group,
                generation_id_or_member_epoch=_NO_GENERATION,
                member_id="",
                retention_time=_BROKERS_RETENTION,
                topics=topics,
            )

        node = self._coordinators.get(group)
        if node is None:
            node = self._coordinators[group] = await find_coordinator(self._client, GROUP_COORDINATOR, group, seconds)
        response = await self._client.send_and_wait(ApiKey.OFFSET_COMMIT, build, node=node, timeout=seconds)
        for topic in response.topics:
            for answer in topic.partitions:
                if answer.error_code:
                    raise make(answer.error_code, topic=topic.name, partition=answer.partition_index)
