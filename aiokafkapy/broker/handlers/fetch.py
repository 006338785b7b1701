"""Fetch (1): read record batches, waiting for some if there are none.

versions: 4-18
kept: min_bytes and max_wait (parked in the purgatory), max_bytes of the request and of each partition with the rule
    that the first batch always comes (KIP-74), leader epochs (v9+), topic ids (v13+), leader hints (v12+) with
    addresses (v16+)
dropped: fetch sessions: session id 0 in an answer asks the client to name all its partitions each time
    (KIP-227); fetching from followers and racks; diverging epochs (logs never diverge here); the replica's fields
notes: batches come whole, so the first may begin below the offset asked for. With read_committed nothing from the last
    stable offset on is read, and the answer names the aborted transactions. v13+ name topics by id only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from ...errors import (
    FencedLeaderEpochError,
    FetchSessionIdNotFoundError,
    KafkaError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
)
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation
from ..storage.topics import Partition
from . import Body, register
from .leadership import check_leader, current_leader, find_partition, find_topic, node_endpoints

__all__ = ["handle"]

READ_COMMITTED: Final = 1
SESSION_EPOCHS_WITHOUT_SESSION: Final = (0, -1)
"""First request of a session, and none (or no longer) of one; every other epoch continues a session."""

MISROUTED: Final = (NotLeaderOrFollowerError, FencedLeaderEpochError)
"""Errors that come with the leader's address."""


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Body:
    """At the top from v7 on, before on every partition."""
    if context.api_version >= 7:
        return context.respond(error_code=error.code, session_id=0, responses=[])
    wanted = _wanted(context, body)
    for each in wanted:
        each.error = error
    return _Fetch(context, body, wanted).response()


@register(ApiKey.FETCH, versions=(4, 18), error=error_response)
def handle(context: RequestContext, body: Body) -> Body:
    """The records, if there are ``min_bytes`` of them; else a future of the response."""
    if getattr(body, "session_id", 0) and body.session_epoch not in SESSION_EPOCHS_WITHOUT_SESSION:
        raise FetchSessionIdNotFoundError
    fetch = _Fetch(context, body, _wanted(context, body))
    if fetch.is_satisfied():
        return fetch.response()
    max_wait = body.max_wait.total_seconds()
    return context.state.purgatory.wait(fetch.partitions(), max_wait, fetch.try_complete)


@dataclass(slots=True)
class _Wanted:
    """One requested partition; with an ``error`` it has no records."""

    name: str | None
    topic_id: UUID | None
    index: int
    offset: int
    max_bytes: int
    leader_epoch: int
    partition: Partition | None = None
    error: KafkaError | None = None


def _wanted(context: RequestContext, body: Body) -> list[_Wanted]:
    wanted = []
    for topic in body.topics:
        name, topic_id = getattr(topic, "topic", None), getattr(topic, "topic_id", None)
        for each in topic.partitions:
            entry = _Wanted(
                name,
                topic_id,
                each.partition,
                each.fetch_offset,
                each.partition_max_bytes,
                getattr(each, "current_leader_epoch", -1),
            )
            wanted.append(entry)
            try:
                found = find_topic(context, Operation.READ, name, topic_id)
                entry.partition = find_partition(found, each.partition)
                context.check_topic(found.name, each.partition)
            except KafkaError as error:
                entry.error = error
    return wanted


class _Fetch:
    """One request, looked at when it comes and again whenever one of its partitions changes."""

    __slots__ = ("body", "context", "wanted")

    def __init__(self, context: RequestContext, body: Body, wanted: list[_Wanted]) -> None:
        self.context = context
        self.body = body
        self.wanted = wanted

    def partitions(self) -> list[Partition]:
        """The partitions to watch, as keys of the purgatory."""
        return [each.partition for each in self.wanted if each.partition is not None]

    def try_complete(self, is_over: bool) -> Body | None:
        """For the purgatory."""
        return self.response() if self.is_satisfied() or is_over else None

    def is_satisfied(self) -> bool:
        """Whether an answer is due now: enough bytes, anything wrong, nothing asked for, or no wish to wait."""
        available = 0
        for each in self.wanted:
            self._check(each)
            if each.error is not None:
                return True
            if each.partition is not None:
                log = each.partition.log
                available += min(log.bytes_from(each.offset, before=self._before(each.partition)), each.max_bytes)
        return available >= self.body.min_bytes or not self.wanted or self.body.max_wait.total_seconds() <= 0

    def response(self) -> Body:
        """Read, within the limits; the first partition that has anything gives at least one batch."""
        left = min(self.body.max_bytes, self.context.state.config.fetch_max_bytes)
        minimum_one = True
        topics: dict[tuple[str | None, UUID | None], list[dict[str, Any]]] = {}
        for each in self.wanted:
            records = b""
            self._check(each)
            if each.error is None and each.partition is not None:
                try:
                    limit = min(each.max_bytes, max(left, 0))
                    before = self._before(each.partition)
                    found = each.partition.log.read(each.offset, limit, minimum_one=minimum_one, before=before)
                    records = b"".join(found)
                except KafkaError as error:
                    each.error = error
            if records:
                left -= len(records)
                minimum_one = False
            topics.setdefault((each.name, each.topic_id), []).append(self._partition(each, records))
        return self.context.respond(
            error_code=0,
            session_id=0,
            responses=[
                {"topic": name, "topic_id": topic_id, "partitions": partitions}
                for (name, topic_id), partitions in topics.items()
            ],
            node_endpoints=node_endpoints(self.context, self._misrouted()),
        )

    # internals

    def _before(self, partition: Partition) -> int | None:
        """Where the part ends that this request may read; None for the end of the log."""
        return partition.log.last_stable_offset if self.body.isolation_level == READ_COMMITTED else None

    def _check(self, each: _Wanted) -> None:
        if each.error is not None or each.partition is None:
            return
        try:
            check_leader(self.context, each.partition, each.leader_epoch)
            log = each.partition.log
            if not log.start_offset <= each.offset <= log.end_offset:
                raise OffsetOutOfRangeError
        except KafkaError as error:
            each.error = error

    def _misrouted(self) -> Sequence[Partition]:
        return [
            each.partition for each in self.wanted if each.partition is not None and isinstance(each.error, MISROUTED)
        ]

    def _partition(self, each: _Wanted, records: bytes) -> dict[str, object]:
        if each.error is not None or each.partition is None:
            answer: dict[str, object] = {
                "partition_index": each.index,
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
            "partition_index": each.index,
            "error_code": 0,
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_start_offset": log.start_offset,
            "aborted_transactions": aborted,
            "records": records,
        }
