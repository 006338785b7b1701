"""Fetch (1): read record batches, waiting for some if there are none.

versions: 4-18
kept: min_bytes and max_wait (parked in the purgatory), max_bytes of the request and of each partition with the rule
    that the first batch always comes (KIP-74), the request's limit also capped by the client's quota, sessions (v7+,
    KIP-227), leader epochs (v9+), the replica in the client's rack (v11+, KIP-392), topic ids (v13+), leader hints
    (v12+) with addresses (v16+)
dropped: diverging epochs (logs never diverge here); the replica's fields; without ``replica_selector_class`` nobody but
    the leader answers, where Kafka's followers do
notes: an answer over the quota comes with its records, where Kafka takes them out. Batches come whole, so the first may
    begin below the offset asked for. With read_committed nothing from the last stable offset on is read, and the answer
    names the aborted transactions. v13+ name topics by id only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from ...common import Buffer
from ...errors import KafkaError, OffsetOutOfRangeError
from ...protocol.api import ApiKey
from ...protocol.constants import FIRST_FETCH_WITH_TOPIC_IDS, READ_COMMITTED
from ..context import RequestContext
from ..coordination.fetch_sessions import FetchSession, NamedPartition, SessionPartition, SessionRequest
from ..security.acls import Operation
from ..storage.topics import Partition
from .leadership import (
    MISROUTED,
    check_leader,
    current_leader,
    find_partition,
    find_topic,
    node_endpoints,
)
from .registry import Answer, Body, Response, register

__all__ = ["handle"]

WITHOUT_SESSION: Final = -1
RACK_FROM_VERSION: Final = 11
NO_REPLICA: Final = -1


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """At the top from v7 on, before on every partition."""
    if context.api_version >= 7:
        return context.respond(error_code=error.code, session_id=0, responses=[])
    wanted = [_Wanted(each, error=error) for each in _named(body)]
    return _Fetch(context, body, wanted).response()


@register(ApiKey.FETCH, versions=(4, 18), error=error_response)
def handle(context: RequestContext, body: Body) -> Answer:
    """The records, if there are ``min_bytes`` of them; else a future of the response."""
    request = SessionRequest(
        session_id=getattr(body, "session_id", 0),
        epoch=getattr(body, "session_epoch", WITHOUT_SESSION),
        partitions=_named(body),
        forgotten=_forgotten(body),
        uses_topic_ids=context.api_version >= FIRST_FETCH_WITH_TOPIC_IDS,
    )
    session, partitions = context.state.fetch_sessions_of(context.node_id).begin(request, context.now)
    fetch = _Fetch(context, body, [_found(context, each) for each in partitions], session)
    if fetch.is_satisfied():
        return fetch.response()
    max_wait = body.max_wait.total_seconds()
    return context.state.purgatory.wait(fetch.partitions(), max_wait, fetch.try_complete)


@dataclass(slots=True)
class _Wanted:
    """One requested partition; with an ``error`` it has no records."""

    asked: SessionPartition
    partition: Partition | None = None
    error: KafkaError | None = None
    preferred_replica: int = NO_REPLICA

    @property
    def offset(self) -> int:
        """The offset to read from."""
        return self.asked.offset


def _named(body: Body) -> list[SessionPartition]:
    """The partitions that a request names."""
    return [
        SessionPartition(
            getattr(topic, "topic", None),
            getattr(topic, "topic_id", None),
            each.partition,
            each.fetch_offset,
            each.partition_max_bytes,
            getattr(each, "current_leader_epoch", -1),
        )
        for topic in body.topics
        for each in topic.partitions
    ]


def _forgotten(body: Body) -> list[NamedPartition]:
    return [
        NamedPartition(getattr(topic, "topic", None), getattr(topic, "topic_id", None), index)
        for topic in getattr(body, "forgotten_topics_data", ())
        for index in topic.partitions
    ]


def _found(context: RequestContext, asked: SessionPartition) -> _Wanted:
    wanted = _Wanted(asked)
    try:
        found = find_topic(context, Operation.READ, asked.name, asked.topic_id)
        wanted.partition = find_partition(found, asked.index)
        context.check_topic(found.name, asked.index)
    except KafkaError as error:
        wanted.error = error
    return wanted


class _Fetch:
    """One request, looked at when it comes and again whenever one of its partitions changes."""

    __slots__ = ("body", "context", "is_incremental", "max_bytes", "min_bytes", "session", "wanted")

    def __init__(
        self, context: RequestContext, body: Body, wanted: list[_Wanted], session: FetchSession | None = None
    ) -> None:
        self.context = context
        self.body = body
        self.wanted = wanted
        self.session = session
        self.max_bytes = context.most_fetched_bytes(body.max_bytes)
        self.min_bytes = min(body.min_bytes, self.max_bytes)  # or it would wait for bytes that it cannot have
        # The first answer of a session has all partitions.
        self.is_incremental = session is not None and body.session_id == session.session_id

    def partitions(self) -> list[Partition]:
        """The partitions to watch, as keys of the purgatory."""
        return [each.partition for each in self.wanted if each.partition is not None]

    def try_complete(self, is_over: bool) -> Response | None:
        """The answer, None when it is not due and the time is not over. Called by the purgatory."""
        return self.response() if self.is_satisfied() or is_over else None

    def is_satisfied(self) -> bool:
        """Whether an answer is due now: enough bytes, anything wrong, nothing asked for, or no wish to wait."""
        available = 0
        for each in self.wanted:
            self._check(each)
            if each.error is not None or each.preferred_replica != NO_REPLICA:
                return True
            if each.partition is not None:
                available += min(
                    each.partition.log.bytes_from(each.offset, before=self._before(each.partition)),
                    each.asked.max_bytes,
                )
        return available >= self.min_bytes or not self.wanted or self.body.max_wait.total_seconds() <= 0

    def response(self) -> Response:
        """Read, within the limits; the first partition that has anything gives at least one batch."""
        left = self.max_bytes
        minimum_one = True
        topics: dict[tuple[str | None, UUID | None], list[dict[str, Any]]] = {}
        for each in self.wanted:
            records: list[Buffer] = []
            self._check(each)
            if each.error is None and each.partition is not None and each.preferred_replica == NO_REPLICA:
                try:
                    limit = min(each.asked.max_bytes, max(left, 0))
                    before = self._before(each.partition)
                    records = each.partition.log.read(each.offset, limit, minimum_one=minimum_one, before=before)
                except KafkaError as error:
                    each.error = error
            size = sum(map(len, records))
            if size:
                left -= size
                minimum_one = False
            answer = self._partition(each, records)
            if self._is_told(each, answer, size):
                topics.setdefault((each.asked.name, each.asked.topic_id), []).append(answer)
        return self.context.respond(
            error_code=0,
            session_id=0 if self.session is None else self.session.session_id,
            responses=[
                {"topic": name, "topic_id": topic_id, "partitions": partitions}
                for (name, topic_id), partitions in topics.items()
            ],
            node_endpoints=node_endpoints(self.context, self._misrouted()),
        )

    # internals

    def _is_told(self, each: _Wanted, answer: dict[str, Any], size: int) -> bool:
        """Whether the answer has this partition: without a session, all."""
        if self.session is None:
            return True
        is_news = self.session.is_news(
            each.asked,
            error_code=answer["error_code"],
            size=size,
            high_watermark=answer["high_watermark"],
            log_start_offset=answer.get("log_start_offset", -1),
        )
        return is_news or not self.is_incremental or each.preferred_replica != NO_REPLICA

    def _before(self, partition: Partition) -> int | None:
        """The offset before which this request may read; None for the end of the log."""
        return partition.log.last_stable_offset if self.body.isolation_level == READ_COMMITTED else None

    def _check(self, each: _Wanted) -> None:
        if each.error is not None or each.partition is None:
            return
        try:
            check_leader(self.context, each.partition, each.asked.leader_epoch, followers_too=self._may_follow())
            log = each.partition.log
            if not log.start_offset <= each.offset <= log.end_offset:
                raise OffsetOutOfRangeError
            each.preferred_replica = self._nearer_replica(each.partition)
        except KafkaError as error:
            each.error = error

    def _may_follow(self) -> bool:
        return self.context.state.selects_by_rack and self.context.api_version >= RACK_FROM_VERSION

    def _nearer_replica(self, partition: Partition) -> int:
        """The replica that the leader recommends: one in the client's rack, unless the leader is there itself."""
        state = self.context.state
        rack = getattr(self.body, "rack_id", "")
        if not rack or not self._may_follow() or partition.leader != self.context.node_id:
            return NO_REPLICA
        near = [node_id for node_id in state.in_sync_replicas(partition) if state.all_nodes[node_id].rack == rack]
        return near[0] if near and self.context.node_id not in near else NO_REPLICA

    def _misrouted(self) -> Sequence[Partition]:
        return [
            each.partition for each in self.wanted if each.partition is not None and isinstance(each.error, MISROUTED)
        ]

    def _partition(self, each: _Wanted, records: list[Buffer]) -> dict[str, Any]:
        if each.error is not None or each.partition is None:
            answer: dict[str, Any] = {
                "partition_index": each.asked.index,
                "error_code": -1 if each.error is None or each.error.code is None else each.error.code,
                "high_watermark": -1,
                "records": b"",
                "aborted_transactions": None,
            }
            if each.partition is not None and isinstance(each.error, MISROUTED):
                answer["current_leader"] = current_leader(each.partition)
            return answer
        log = each.partition.log
        aborted = None
        if self.body.isolation_level == READ_COMMITTED:
            aborted = [
                {"producer_id": one.producer_id, "first_offset": one.first_offset}
                for one in log.aborted_transactions(each.offset, log.last_stable_offset)
            ]
        return {
            "partition_index": each.asked.index,
            "error_code": 0,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.start_offset,
            "aborted_transactions": aborted,
            "preferred_read_replica": each.preferred_replica,
            "records": records,
        }
