"""ShareFetch (78): acquire records for a share group's member, and acknowledge earlier ones (KIP-932).

versions: 1-1
kept: share sessions, which end with their connection; min_bytes and max_wait (parked in the purgatory), max_bytes and
    max_records, both with the rule that the first batch comes whole; the isolation level of the group; leader hints
dropped: batch_size, for one range of offsets says as much as several; share_acquire_mode and renewal (v2), which Kafka
    4.1 does not have either
notes: a range is acquired by whole batches. Batches without a record for this member are left out. A client with a
    session may fetch, member of the group or not, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from uuid import UUID

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...record.batch import iter_batches
from ..context import RequestContext
from ..coordination.assignors import TopicIdPartition
from ..coordination.share_partition import AcquiredRecords, AcquireRequest, SharePartition
from ..coordination.share_partition_manager import GroupPartition
from ..coordination.share_sessions import FINAL_EPOCH, ShareSession, ShareSessionRequest
from ..security.acls import Operation, ResourceType
from ..storage.topics import Partition
from .leadership import MISROUTED, current_leader, node_endpoints
from .registry import Answer, Body, Response, entry_code, register
from .share_acknowledgements import acknowledge_all, find_led_partition
from .share_group_heartbeat import check_share_version

__all__ = ["handle"]


@register(ApiKey.SHARE_FETCH, versions=(1, 1))
def handle(context: RequestContext, body: Body) -> Answer:
    """The records, if there are ``min_bytes`` of them; else a future of the response."""
    check_share_version(context)
    context.check_right(Operation.READ, ResourceType.GROUP, body.group_id)
    sessions = context.state.share_sessions_of(context.node_id)
    connection_id = context.connection.connection_id
    request = ShareSessionRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.share_session_epoch,
        connection_id=connection_id,
        named=[
            TopicIdPartition(topic.topic_id, each.partition_index) for topic in body.topics for each in topic.partitions
        ],
        forgotten=[
            TopicIdPartition(topic.topic_id, index)
            for topic in body.forgotten_topics_data
            for index in topic.partitions
        ],
        acknowledges=any(each.acknowledgement_batches for topic in body.topics for each in topic.partitions),
    )
    session = sessions.begin_fetch(request)
    context.connection.on_closed[__name__] = partial(sessions.end_of_connection, connection_id)
    fetch = _ShareFetch(context, body, session, acknowledge_all(context, body))
    if body.share_session_epoch == FINAL_EPOCH:
        sessions.end(session)
        return fetch.response(reads=False)
    if fetch.is_satisfied():
        return fetch.response()
    max_wait = body.max_wait.total_seconds()
    return context.state.purgatory.wait(fetch.keys(), max_wait, fetch.try_complete)


class _ShareFetch:
    """One request, looked at when it comes and again whenever records appear or come back."""

    __slots__ = ("acknowledged", "body", "context", "max_bytes", "places", "session")

    def __init__(
        self,
        context: RequestContext,
        body: Body,
        session: ShareSession,
        acknowledged: dict[TopicIdPartition, KafkaError | None],
    ) -> None:
        self.context = context
        self.body = body
        self.session = session
        self.acknowledged = acknowledged
        self.max_bytes = context.most_fetched_bytes(body.max_bytes)
        self.places = session.rotated()

    def keys(self) -> list[Hashable]:
        """The keys to watch in the purgatory: the logs, and the group's view of them."""
        found = [self._found(place) for place in self.places]
        logs = [partition for partition in found if isinstance(partition, Partition)]
        return [*logs, *(GroupPartition(self.body.group_id, place) for place in self.places)]

    def try_complete(self, is_over: bool) -> Response | None:
        """The answer, None when it is not due and the time is not over. Called by the purgatory."""
        return self.response() if self.is_satisfied() or is_over else None

    def is_satisfied(self) -> bool:
        """Whether an answer is due now: enough bytes, records that came back, anything wrong, or no wish to wait."""
        body = self.body
        if not self.places or body.max_wait.total_seconds() <= 0 or body.max_records < 1 or body.max_bytes < 1:
            return True
        available = 0
        for place in self.places:
            partition = self._found(place)
            if isinstance(partition, KafkaError):
                return True
            share = self._share(partition)
            if not share.can_acquire:
                continue
            offset = share.next_fetch_offset
            size = partition.log.bytes_from(offset, before=self._before(partition))
            if size and offset < share.end_offset:
                return True
            available += size
        return bool(0 < available >= min(body.min_bytes, self.max_bytes))

    def response(self, *, reads: bool = True) -> Response:
        """Acquire, within the limits."""
        places = self.places if reads else []
        records_left = self.body.max_records
        bytes_left = self.max_bytes
        answers: dict[TopicIdPartition, dict[str, object]] = {}
        misrouted: list[Partition] = []
        for index, place in enumerate(places):
            partition = self._found(place)
            if isinstance(partition, KafkaError):
                answers[place] = self._failed(place, partition, misrouted)
                self.session.untold.add(place)
                continue
            share = self._share(partition)
            if not share.can_acquire:
                continue
            data: bytes = b""
            acquired: list[AcquiredRecords] = []
            if records_left > 0 and bytes_left > 0:
                limit = max(1, bytes_left // (len(places) - index))
                data, acquired = self._acquire(partition, share, limit, records_left)
            records_left -= sum(last - first + 1 for first, last, _ in acquired)
            bytes_left -= len(data)
            if acquired or place in self.session.untold:
                answers[place] = _answer(place, data, acquired)
                self.session.untold.discard(place)
        return self._respond(answers, misrouted)

    # internals

    def _found(self, place: TopicIdPartition) -> Partition | KafkaError:
        try:
            partition = find_led_partition(self.context, place)
            self._share(partition)  # raises when the group's start is not known
            return partition
        except KafkaError as error:
            return error

    def _share(self, partition: Partition) -> SharePartition:
        return self.context.state.groups.share_partitions.get(self.body.group_id, partition)

    def _before(self, partition: Partition) -> int | None:
        is_committed = self.context.state.groups.configs.share_reads_committed(self.body.group_id)
        return partition.log.last_stable_offset if is_committed else None

    def _acquire(
        self, partition: Partition, share: SharePartition, max_bytes: int, max_records: int
    ) -> tuple[bytes, list[AcquiredRecords]]:
        log, offset, before = partition.log, share.next_fetch_offset, self._before(partition)
        if offset >= log.end_offset:
            return b"", []
        batches = list(iter_batches(b"".join(log.read(offset, max_bytes, before=before))))
        request = AcquireRequest(
            self.body.member_id,
            [(batch.base_offset, batch.last_offset) for batch in batches],
            max_records,
            [(each.base_offset, each.last_offset) for each in batches if before is not None and log.is_aborted(each)],
        )
        acquired = self.context.state.groups.share_partitions.acquire(self.body.group_id, partition, request)
        wanted = [
            batch
            for batch in batches
            if any(first <= batch.last_offset and batch.base_offset <= last for first, last, _ in acquired)
        ]
        return b"".join(bytes(batch.buffer) for batch in wanted), acquired

    def _failed(self, place: TopicIdPartition, error: KafkaError, misrouted: list[Partition]) -> dict[str, object]:
        answer: dict[str, object] = {"partition_index": place.partition, "error_code": error.code, "records": b""}
        topic = self.context.state.topics.by_id(place.topic_id)
        if topic is not None and isinstance(error, MISROUTED):
            misrouted.append(topic.partitions[place.partition])
            answer["current_leader"] = current_leader(misrouted[-1])
        return answer

    def _respond(self, answers: dict[TopicIdPartition, dict[str, object]], misrouted: list[Partition]) -> Response:
        for place, error in self.acknowledged.items():
            answer = answers.setdefault(place, {"partition_index": place.partition, "records": b""})
            answer["acknowledge_error_code"] = entry_code(error)
        topics: dict[UUID, list[dict[str, object]]] = {}
        for place, answer in answers.items():
            topics.setdefault(place.topic_id, []).append(answer)
        lock_ms = self.context.state.groups.configs.share_record_lock_duration_ms(self.body.group_id)
        return self.context.respond(
            error_code=0,
            acquisition_lock_timeout=lock_ms,
            responses=[{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
            node_endpoints=node_endpoints(self.context, misrouted),
        )


def _answer(place: TopicIdPartition, data: bytes, acquired: list[AcquiredRecords]) -> dict[str, object]:
    return {
        "partition_index": place.partition,
        "error_code": 0,
        "records": data,
        "acquired_records": [each._asdict() for each in acquired],
    }
