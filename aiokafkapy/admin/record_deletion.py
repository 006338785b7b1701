"""``RecordDeletion``: records before given offsets are deleted by the leaders of their partitions (KIP-107).

Owns one call's offsets and the outcome of each partition. It knows neither connections nor time-outs: its caller sends,
and calls ``ask`` again while partitions fail for a moment. Kafka's counterpart is ``DeleteRecordsHandler``.

Rules:

- Partitions succeed or fail by themselves: only those that failed for a moment are asked for again.
- A partition that is not there has failed for good, though its error passes elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from ..client.network_client_utils import request_timeout_ms
from ..common import MAX_LONG, Node, TopicPartition, number_within, topic_partition_of
from ..errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.messages import build_request, by_topic
from .cluster_nodes import nodes_of

__all__ = ["RecordDeletion"]

_WHOLE_TOPIC: Final = -1

Outcome = int | KafkaError
"""A partition's first offset afterwards, or its error."""


class Sends(Protocol):
    """Sends a request to a node, and returns the response's body."""

    def __call__(
        self, api_key: ApiKey, build: Callable[[int], Message], seconds: float, node: Node | None, /
    ) -> Awaitable[Struct]: ...


class RecordDeletion:
    """One call of ``delete_records``. Raises TypeError and ValueError for offsets that no partition has."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, int],
        send: Sends,
        metadata_of: Callable[[Sequence[str], float], Awaitable[Struct]],
    ) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        for place, offset in offsets.items():
            tp = topic_partition_of(place)
            # The broker checks the range.
            self.offsets[tp] = number_within(f"the offset of {tp}", offset, -MAX_LONG, MAX_LONG)
        self._send = send
        self._metadata_of = metadata_of
        self._found: dict[TopicPartition, int] = {}
        self._refused: dict[TopicPartition, KafkaError] = {}

    async def ask(self, seconds: float) -> None:
        """Ask the leaders of the partitions without an outcome, once; raises an error that passes."""
        passing: list[KafkaError] = []
        for tp, outcome in (await self._outcomes(seconds)).items():
            if isinstance(outcome, int):
                self._found[tp] = outcome
            elif outcome.retriable and not isinstance(outcome, UnknownTopicOrPartitionError):
                passing.append(outcome)
            else:
                self._refused[tp] = outcome
        if passing:
            raise passing[0]

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Each partition's first offset afterwards; raises the first error of a partition."""
        for error in self._refused.values():
            raise error
        return {tp: self._found[tp] for tp in self.offsets}

    # internals

    async def _outcomes(self, seconds: float) -> dict[TopicPartition, Outcome]:
        remaining = [tp for tp in self.offsets if tp not in self._found and tp not in self._refused]
        outcomes: dict[TopicPartition, Outcome] = {}
        leaders = _leaders_of(await self._metadata_of(list({tp.topic: None for tp in remaining}), seconds))
        by_leader: dict[Node, list[TopicPartition]] = {}
        for tp in remaining:
            leader = leaders.get(tp) or leaders.get(TopicPartition(tp.topic, _WHOLE_TOPIC))
            if isinstance(leader, Node):
                by_leader.setdefault(leader, []).append(tp)
            else:
                outcomes[tp] = leader or UnknownTopicOrPartitionError(
                    f"{tp.topic}-{tp.partition}: there is no such partition", topic=tp.topic, partition=tp.partition
                )
        async with asyncio.TaskGroup() as group:
            for node, partitions in by_leader.items():
                group.create_task(self._ask_leader(node, partitions, seconds, outcomes))
        return outcomes

    async def _ask_leader(
        self, leader: Node, partitions: list[TopicPartition], seconds: float, outcomes: dict[TopicPartition, Outcome]
    ) -> None:
        entries = [(tp, {"partition_index": tp.partition, "offset": self.offsets[tp]}) for tp in partitions]
        topics, timeout_ms = by_topic(entries), request_timeout_ms(seconds)
        build = partial(build_request, ApiKey.DELETE_RECORDS, topics=topics, timeout=timeout_ms)
        try:
            response = await self._send(ApiKey.DELETE_RECORDS, build, seconds, leader)
        except KafkaError as error:
            outcomes.update(dict.fromkeys(partitions, error))
            return
        for topic in response.topics:
            for each in topic.partitions:
                tp, code = TopicPartition(topic.name, each.partition_index), each.error_code
                failure = make(code, None, topic=tp.topic, partition=tp.partition) if code else None
                outcomes[tp] = failure or each.low_watermark
        for tp in partitions:
            outcomes.setdefault(tp, KafkaError(f"{tp.topic}-{tp.partition}: the answer left it out"))


def _leaders_of(response: Struct) -> dict[TopicPartition, Node | KafkaError]:
    """The leader of each partition of a Metadata response, or the error in its place; -1 stands for all partitions of a
    topic with an error.
    """
    nodes = nodes_of(response)
    leaders: dict[TopicPartition, Node | KafkaError] = {}
    for topic in response.topics:
        if topic.error_code:
            leaders[TopicPartition(topic.name, _WHOLE_TOPIC)] = make(topic.error_code, None, topic=topic.name)
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            leaders[tp] = nodes.get(each.leader_id) or LeaderNotAvailableError(
                f"{tp.topic}-{tp.partition} has no leader", topic=tp.topic, partition=tp.partition
            )
    return leaders
