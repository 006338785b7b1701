"""Looks up offsets by time, including the start and the end of a partition: ListOffsets to each partition's leader.

Owns the requests and their retries while leaders move. Kafka's counterpart is ``OffsetFetcher``.

Rules:

- One request per leader with all of its partitions, all in parallel; only the partitions that failed are retried.
- ``look_up`` retries retriable errors with back-off until the time-out, and raises any other error at once. A leader
  that does not answer, or is not reached, has a third of it, then metadata is requested to find the present leader; no
  connection is closed for that, since fetches may be under way there.
- ``ask_leaders`` and ``answers`` are its two halves, for the reader's positions, where each partition has its
  own outcome.
- With read_committed, the end is the last stable offset.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from ..client.network_client_utils import attempt_timeout
from ..client.nodes.client_request import ClientRequest, ClientResponse
from ..common import ExponentialBackoff, Node, TopicPartition
from ..errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.constants import CONSUMER_REPLICA_ID, READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.messages import build_request, by_topic
from .offsets import MAX_TIMESTAMP, OffsetAndTimestamp, not_found_error, refusal_of

if TYPE_CHECKING:
    from ..client.network_client import NetworkClient
    from ..cluster.metadata import Metadata

__all__ = ["OffsetLookup"]

_FIRST_VERSION_WITH_MAX_TIMESTAMP: Final = 7

Answer: TypeAlias = OffsetAndTimestamp | KafkaError | None
"""A partition's outcome; None if it has no record at or after the time."""


class OffsetLookup:
    """Looks up offsets. Uses its owner's client and metadata, and keeps no state between calls. ``request_timeout``
    bounds each request, in seconds.
    """

    def __init__(
        self,
        client: NetworkClient,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        *,
        read_committed: bool,
        request_timeout: float = math.inf,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._backoff = backoff
        self._isolation_level = READ_COMMITTED if read_committed else READ_UNCOMMITTED
        self._request_timeout = request_timeout

    async def look_up(
        self, wanted: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The offset of each partition's time: EARLIEST, LATEST, MAX_TIMESTAMP, or milliseconds since the epoch, which
        finds the first record not older than that, None if there is none.

        Raises KafkaTimeoutError with the last cause after ``timeout`` seconds, and any error that is not retriable at
        once.
        """
        self._metadata.add_topics({tp.topic for tp in wanted})
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        seconds = attempt_timeout(timeout, self._request_timeout)
        now = asyncio.get_running_loop().time
        looks_again = now() + seconds
        try:
            async with asyncio.timeout(timeout):
                attempts = 0
                while len(found) < len(wanted):
                    missing = {tp: time for tp, time in wanted.items() if tp not in found}
                    for tp in missing:
                        if (refusal := refusal_of(tp, self._metadata)) is not None:
                            raise refusal
                    asked = self.ask_leaders(missing)
                    for tp, answer in (await self._answers_within(seconds, asked)).items():
                        if not isinstance(answer, KafkaError):
                            found[tp] = answer
                        elif answer.retriable:
                            errors[tp] = answer
                        else:
                            raise answer
                    if len(found) < len(wanted):
                        if now() >= looks_again:
                            self._metadata.request_update()
                            looks_again = now() + seconds
                        await self._wait(self._backoff.delay(attempts), has_asked=bool(asked))
                        attempts += bool(asked)
        except TimeoutError:
            first = next(tp for tp in wanted if tp not in found)
            last = errors.get(first)
            raise not_found_error(first, timeout, last, self._metadata) from last
        return found

    def ask_leaders(
        self, wanted: Mapping[TopicPartition, int]
    ) -> list[tuple[Mapping[TopicPartition, int], asyncio.Future[ClientResponse]]]:
        """Send a request to each leader that is ready; begin to connect to the others, or request metadata. Returns
        the partitions of each request.
        """
        loop = asyncio.get_running_loop()
        by_leader: dict[Node, dict[TopicPartition, int]] = {}
        for tp, time in wanted.items():
            leader, _ = self._metadata.current_leader(tp)
            if leader is None:
                self._metadata.request_update()
            else:
                by_leader.setdefault(leader, {})[tp] = time
        return [
            (partitions, self._client.send(self._request(leader, partitions), loop.time()))
            for leader, partitions in by_leader.items()
            if self._client.ready(leader, loop.time())
        ]

    def answers(self, asked: Iterable[TopicPartition], response: ClientResponse) -> dict[TopicPartition, Answer]:
        """The outcome of each partition of a request. After a retriable error new metadata is requested."""
        try:
            body = response.body_or_raise()
        except KafkaError as error:
            found: dict[TopicPartition, Answer] = {tp: error.fresh() for tp in asked}
        else:
            answered = {
                TopicPartition(topic.name, one.partition_index): one
                for topic in body.topics
                for one in topic.partitions
            }
            found = {tp: _answer(tp, answered.get(tp)) for tp in asked}
        if any(isinstance(answer, KafkaError) and answer.retriable for answer in found.values()):
            self._metadata.request_update()
        return found

    # internals

    async def _answers_within(
        self, seconds: float, asked: Sequence[tuple[Mapping[TopicPartition, int], asyncio.Future[ClientResponse]]]
    ) -> dict[TopicPartition, Answer]:
        if asked:
            await asyncio.wait([future for _, future in asked], timeout=seconds)
        found: dict[TopicPartition, Answer] = {}
        for partitions, future in asked:
            if future.done():
                found |= self.answers(partitions, future.result())
            else:
                for tp in partitions:
                    text = f"its leader did not answer within {seconds:g} s"
                    found[tp] = KafkaTimeoutError(text, topic=tp.topic, partition=tp.partition)
        return found

    def _request(self, leader: Node, wanted: Mapping[TopicPartition, int]) -> ClientRequest:
        def build(version: int) -> Message:
            return build_request(
                ApiKey.LIST_OFFSETS,
                version,
                replica_id=CONSUMER_REPLICA_ID,
                isolation_level=self._isolation_level,
                topics=self._topics(wanted),
            )

        wants_newest = MAX_TIMESTAMP in wanted.values()
        least = _FIRST_VERSION_WITH_MAX_TIMESTAMP if wants_newest else None
        return ClientRequest(leader.node_id, ApiKey.LIST_OFFSETS, build, min_version=least)

    async def _wait(self, delay: float, *, has_asked: bool) -> None:
        """Wait before a retry: for the back-off, or, if no leader was ready, until one may be."""
        if has_asked:
            await asyncio.sleep(delay)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._client.wait_for_change()

    def _topics(self, wanted: Mapping[TopicPartition, int]) -> list[dict[str, object]]:
        def entry(tp: TopicPartition, time: int) -> dict[str, int]:
            _, epoch = self._metadata.current_leader(tp)
            # A time before 1970 finds the first record, as 1970 does. Numbers below MAX_TIMESTAMP are special times of
            # later versions.
            asked = 0 if time < MAX_TIMESTAMP else time
            return {"partition_index": tp.partition, "current_leader_epoch": epoch, "timestamp": asked}

        return by_topic((tp, entry(tp, time)) for tp, time in wanted.items())


def _answer(tp: TopicPartition, answer: Struct | None) -> Answer:
    if answer is None:
        return UnknownTopicOrPartitionError("it is not in the answer", topic=tp.topic, partition=tp.partition)
    if answer.error_code:
        return make(answer.error_code, topic=tp.topic, partition=tp.partition)
    if answer.offset < 0:
        return None
    return OffsetAndTimestamp(answer.offset, answer.timestamp, getattr(answer, "leader_epoch", -1))
