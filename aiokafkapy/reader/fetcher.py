"""The pure half of a reader: plans fetch requests and handles their responses.

Owns positions, fetched data that was not handed out yet, and back-off per partition. Awaits nothing, reads no clock
(``now`` is an argument, loop time in seconds) and sends nothing: ``PartitionReader`` does. Kafka's counterparts are
``AbstractFetch`` and ``SubscriptionState``.

Rules:

- At most one request per node is in flight, with all partitions that the node leads, and none while data of that node
  waits to be handed out. So memory is bounded by ``fetch_max_bytes`` per node, a slow reader slows down fetching, and a
  partition with records never waits for the long poll of one without (as Java since KAFKA-17439).
- A response counts only for partitions that are still assigned and still at the requested offset.
- A retriable error backs the partition off and requests metadata; leader hints of the response apply at once (KIP-951).
  Any other error is kept to be raised once to the caller, and the partition is not fetched until then.
- Topic ids are used if the cluster has one for every topic of the request; otherwise the version is limited to 12.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from ..cluster.metadata import Metadata
from ..cluster.metadata_answer import node_of
from ..common import ConsumedRecord, Node, TopicPartition
from ..errors import IllegalStateError, KafkaError, OffsetOutOfRangeError, make
from ..protocol.api import ApiKey
from ..protocol.codec import Message, Struct
from ..protocol.constants import CONSUMER_REPLICA_ID, FIRST_FETCH_WITH_TOPIC_IDS, READ_COMMITTED, READ_UNCOMMITTED
from ..protocol.messages import build_request
from ..record.columns import ReadRecords
from ..record.record_columns import OFFSET_MAX, RecordColumns
from .config import ReaderConfig
from .fetched import AbortedTransaction, CompletedFetch
from .offsets import EARLIEST, LATEST, OffsetAndTimestamp, not_found_error, refusal_of

__all__ = ["FetchPlan", "Fetcher", "PartitionRecords", "PartitionRows"]

ENOUGH_RECORDS: Final = 1_000
"""Records to decode at once, in whole batches: a few milliseconds of work."""
ENOUGH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records to put into columns at once, in whole batches: a few milliseconds of work, if not compressed."""
_RESET_TO: Final[Mapping[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}


class PartitionRecords(NamedTuple):
    """Records of one partition, in the log's order, and the partition's readable end when they were fetched."""

    topic_partition: TopicPartition
    records: list[ConsumedRecord]
    end_offset: int


class PartitionRows(NamedTuple):
    """The same as ``PartitionRecords``, in columns."""

    topic_partition: TopicPartition
    columns: ReadRecords
    end_offset: int


@dataclass(slots=True)
class PartitionState:
    """One assigned partition. ``position`` is None until the offset for ``reset_to`` is known; ``stop_at`` is
    exclusive.

    While the position is looked up: ``asked_for`` is the time in the request in flight, ``find_by`` the deadline, and
    ``last_error`` the reason why the last attempt failed.
    """

    position: int | None = None
    reset_to: int | None = EARLIEST
    is_fetching: bool = False
    has_arrived: bool = False
    retry_at: float = 0.0
    attempts: int = 0
    end_offset: int = -1
    stop_at: int = OFFSET_MAX
    asked_for: int | None = None
    find_by: float | None = None
    last_error: KafkaError | None = None

    @property
    def is_finished(self) -> bool:
        """True when the partition was read up to ``stop_at``."""
        return self.position is not None and self.position >= self.stop_at and not self.has_arrived


class FetchPosition(NamedTuple):
    """The offset that is requested of a partition, and the epoch of the leader that is asked."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """One request to one node: partitions with the requested positions, and the topics' ids."""

    node: Node
    partitions: Mapping[TopicPartition, FetchPosition]
    topic_ids: Mapping[str, UUID | None]
    config: ReaderConfig

    @property
    def max_version(self) -> int | None:
        """The highest version that may be used; None for no limit."""
        has_all_ids = all(topic_id is not None for topic_id in self.topic_ids.values())
        return None if has_all_ids else FIRST_FETCH_WITH_TOPIC_IDS - 1

    def build(self, version: int) -> Message:
        """The request's body. Fetch sessions are not used: every request lists all its partitions."""
        config = self.config
        topics: dict[str, list[dict[str, int]]] = {}
        for tp, position in self.partitions.items():
            entry = {
                "partition": tp.partition,
                "current_leader_epoch": position.leader_epoch,
                "fetch_offset": position.offset,
                "partition_max_bytes": config.max_partition_fetch_bytes,
            }
            topics.setdefault(tp.topic, []).append(entry)
        return build_request(
            ApiKey.FETCH,
            version,
            replica_id=CONSUMER_REPLICA_ID,
            max_wait=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED,
            session_epoch=-1,
            topics=[
                {"topic": name, "topic_id": self.topic_ids[name], "partitions": partitions}
                for name, partitions in topics.items()
            ],
        )

    def topic_of(self, answer: object) -> str | None:
        """The name of a topic of the response, by name or by id; None if it was not requested."""
        topic_id = getattr(answer, "topic_id", None)
        if topic_id is None:
            return getattr(answer, "topic", None)
        return next((name for name, known in self.topic_ids.items() if known == topic_id), None)


@dataclass(slots=True)
class Fetcher:
    """Positions of the assigned partitions and the data fetched for them. Belongs to one event loop."""

    config: ReaderConfig
    metadata: Metadata
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    busy_nodes: set[int] = field(default_factory=set)
    left_at: float = -math.inf
    arrived: deque[CompletedFetch] = field(default_factory=deque)
    failed: dict[TopicPartition, KafkaError] = field(default_factory=dict)
    """Errors for the caller. Until the caller has an error, its partition is neither looked up nor fetched."""

    # assignment and positions

    def assign(self, wanted: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those already assigned keep their positions."""
        start = _RESET_TO[self.config.auto_offset_reset]
        self.partitions = {tp: self.partitions.get(tp) or PartitionState(reset_to=start) for tp in wanted}
        self.arrived = deque(one for one in self.arrived if one.topic_partition in self.partitions)
        self.failed = {tp: error for tp, error in self.failed.items() if tp in self.partitions}

    def seek(self, topic_partition: TopicPartition, offset: int | None, reset_to: int | None = None) -> None:
        """Continue at ``offset``, or at the offset of ``reset_to`` (EARLIEST, LATEST, a time) once it is known."""
        state = self.state(topic_partition)
        state.position, state.reset_to = offset, reset_to
        state.retry_at, state.attempts = 0.0, 0
        state.find_by = state.last_error = None
        state.has_arrived = False
        self.arrived = deque(one for one in self.arrived if one.topic_partition != topic_partition)
        self.failed.pop(topic_partition, None)

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; IllegalStateError for any other."""
        state = self.partitions.get(topic_partition)
        if state is None:
            raise IllegalStateError(f"{topic_partition} is not assigned to this reader: call assign() first")
        return state

    # positions that are looked up

    def resume(self, now: float) -> None:
        """The caller waits for records. Nothing is requested earlier; after a long pause the time-outs start again."""
        if now - self.left_at > self.config.default_api_timeout_ms / 2000:
            for state in self.partitions.values():
                state.find_by = None

    def pause(self, now: float) -> None:
        """The caller waits no longer."""
        self.left_at = now

    def partitions_to_reset(self, now: float) -> dict[TopicPartition, int]:
        """Partitions whose position must be asked for now, with the time to look up.

        Each backs off by itself, and gets an error for the caller if it was not found within default_api_timeout_ms, or
        if there is neither a seek nor a reset.
        """
        wanted = {}
        timeout = self.config.default_api_timeout_ms / 1000
        for tp, state in self.partitions.items():
            if state.position is not None or tp in self.failed:
                continue
            if state.reset_to is None:
                if state.retry_at <= now:
                    self.failed[tp] = _no_position_error(tp)
                    self._back_off(state, now)
                continue
            if state.find_by is None:
                state.find_by = now + timeout
            if state.find_by <= now:
                self.failed[tp] = error = not_found_error(tp, timeout, state.last_error, self.metadata)
                error.__cause__ = state.last_error
                state.find_by = state.last_error = None
            elif state.retry_at <= now and state.asked_for != state.reset_to:
                wanted[tp] = state.reset_to
        return wanted

    def note_asked(self, asked: Mapping[TopicPartition, int]) -> None:
        """A request for these positions is in flight; ``handle_offset`` ends that."""
        for tp, reset_to in asked.items():
            self.partitions[tp].asked_for = reset_to

    def note_not_asked(self, topic_partition: TopicPartition, now: float) -> None:
        """No leader is known. Back off if metadata has the topic, or the reason why it is missing; otherwise wait for
        metadata.
        """
        state = self.partitions[topic_partition]
        refusal = refusal_of(topic_partition, self.metadata)
        if refusal is not None:
            self.failed[topic_partition] = refusal
            state.find_by = state.last_error = None
        if refusal is not None or self.metadata.cluster.partition_count(topic_partition.topic):
            self._back_off(state, now)

    def handle_offset(
        self, topic_partition: TopicPartition, reset_to: int, found: OffsetAndTimestamp | KafkaError | None, now: float
    ) -> None:
        """Set the position that was found, or keep the error; no effect after another ``seek`` in the meantime."""
        state = self.partitions.get(topic_partition)
        if state is None:
            return
        if state.asked_for == reset_to:
            state.asked_for = None
        if state.position is not None or state.reset_to != reset_to:
            return
        if found is None and reset_to != LATEST:
            state.reset_to = LATEST  # all records are older than the time
        elif not isinstance(found, KafkaError):
            state.position = 0 if found is None else found.offset
            state.attempts = 0
            state.find_by = state.last_error = None
        elif found.retriable:
            state.last_error = found
            self._back_off(state, now)
        else:
            self.failed[topic_partition] = found
            state.find_by = state.last_error = None
            self._back_off(state, now)

    # requests

    def plans(self, now: float, is_ready: Callable[[Node], bool]) -> list[FetchPlan]:
        """The requests to send now, to nodes for which ``is_ready`` is True. A node then counts as busy until
        ``handle_response`` or ``handle_failure``.
        """
        by_node: dict[Node, dict[TopicPartition, FetchPosition]] = {}
        occupied = self.busy_nodes | {one.node_id for one in self.arrived}
        if occupied and all(node.node_id in occupied for node in self.metadata.cluster.nodes):
            return []  # without a look at each of possibly thousands of partitions, each time data is handed out
        for tp, state in self.partitions.items():
            if state.position is None or tp in self.failed or not self._is_fetchable(state, now):
                continue
            leader, epoch = self.metadata.current_leader(tp)
            if leader is None:
                self._back_off(state, now)
                if (refusal := refusal_of(tp, self.metadata)) is not None:
                    self.failed[tp] = refusal
                self.metadata.request_update()
            elif leader.node_id not in occupied:
                by_node.setdefault(leader, {})[tp] = FetchPosition(state.position, epoch)
        plans = []
        for node, partitions in by_node.items():
            if not is_ready(node):
                continue
            ids = {topic: self._topic_id(topic) for topic in {tp.topic for tp in partitions}}
            plans.append(FetchPlan(node, partitions, ids, self.config))
            self.busy_nodes.add(node.node_id)
            for tp in partitions:
                self.partitions[tp].is_fetching = True
        return plans

    def next_retry(self, now: float) -> float | None:
        """Seconds until something is due by itself: a partition may be tried again, or its time is over. None when
        there is nothing to wait for.
        """
        due = [state.retry_at for state in self.partitions.values() if state.retry_at > now]
        due += [state.find_by for state in self.partitions.values() if state.find_by is not None]
        return max(0.0, min(due) - now) if due else None

    # responses

    def handle_failure(self, plan: FetchPlan, error: KafkaError, now: float) -> None:
        """The request failed: its partitions are retried, or the error is kept for the caller."""
        self._release(plan)
        self.metadata.request_update()
        for tp in plan.partitions:
            state = self.partitions.get(tp)
            if state is None:
                continue
            self._back_off(state, now)
            if not error.retriable:
                self.failed[tp] = error

    def handle_response(self, plan: FetchPlan, response: Struct, now: float) -> None:
        """Keep the data of a response, and handle each partition's error."""
        self._release(plan)
        if getattr(response, "error_code", 0):
            self.handle_failure(plan, make(response.error_code), now)
            return
        hints: dict[TopicPartition, tuple[int, int]] = {}
        for topic in response.responses:
            name = plan.topic_of(topic)
            for answer in topic.partitions:
                tp = TopicPartition(name or "", answer.partition_index)
                if tp not in plan.partitions:
                    continue
                leader = getattr(answer, "current_leader", None)
                if leader is not None and leader.leader_id >= 0:
                    hints[tp] = (leader.leader_id, leader.leader_epoch)
                self._handle_partition(tp, plan, answer, now)
        if hints:
            nodes = [node_of(one) for one in getattr(response, "node_endpoints", ())]
            for tp in self.metadata.update_partition_leaderships(hints, nodes):
                state = self.partitions.get(tp)
                if state is not None:  # it may have been assigned away while the request was in flight
                    state.retry_at = 0.0

    # handing out

    def take(self) -> PartitionRecords | None:
        """The next fetched records, decoded; None when there are none. Raises a partition's error, once, and before
        the records of others, which may go on for hours.
        """
        self._raise_error()
        while self.arrived:
            completed = self.arrived[0]
            records = completed.take(ENOUGH_RECORDS, self._stop_of(completed))
            self._note_taken(completed)
            if records:
                return PartitionRecords(completed.topic_partition, records, completed.end_offset)
        self._raise_error()
        return None

    def take_columns(self, columns: RecordColumns) -> PartitionRows | None:
        """As ``take``, with the records in columns."""
        self._raise_error()
        while self.arrived:
            completed = self.arrived[0]
            completed.take_columns(columns, ENOUGH_BYTES, self._stop_of(completed))
            self._note_taken(completed)
            if columns.row_count:
                return PartitionRows(completed.topic_partition, columns.take(), completed.end_offset)
        self._raise_error()
        return None

    # internals

    def _topic_id(self, topic: str) -> UUID | None:
        topic_id = self.metadata.cluster.topic_id(topic)
        return None if topic_id is None else UUID(bytes=topic_id)

    def _stop_of(self, completed: CompletedFetch) -> int:
        return self.partitions[completed.topic_partition].stop_at

    def _note_taken(self, completed: CompletedFetch) -> None:
        state = self.partitions[completed.topic_partition]
        state.position = completed.next_offset
        if completed.is_drained:
            self.arrived.popleft()
            state.has_arrived = False
            if completed.error is not None:
                self.failed[completed.topic_partition] = completed.error

    def _raise_error(self) -> None:
        if self.failed:
            raise self.failed.pop(next(iter(self.failed)))

    def _is_fetchable(self, state: PartitionState, now: float) -> bool:
        if state.is_fetching or state.has_arrived or state.is_finished:
            return False
        return state.retry_at <= now

    def _release(self, plan: FetchPlan) -> None:
        self.busy_nodes.discard(plan.node.node_id)
        for tp in plan.partitions:
            state = self.partitions.get(tp)
            if state is not None:
                state.is_fetching = False

    def _back_off(self, state: PartitionState, now: float) -> None:
        state.retry_at = now + self.config.retry_backoff.delay(state.attempts)
        state.attempts += 1

    def _handle_partition(self, tp: TopicPartition, plan: FetchPlan, answer: Struct, now: float) -> None:
        state = self.partitions.get(tp)
        requested = plan.partitions[tp].offset
        if state is None or state.position != requested or state.has_arrived:
            return
        if answer.error_code:
            self._handle_error(tp, state, make(answer.error_code, topic=tp.topic, partition=tp.partition), now)
            return
        state.attempts = 0
        is_committed = self.config.isolation_level == "read_committed"
        end_offset = answer.last_stable_offset if is_committed else answer.high_watermark
        state.end_offset = end_offset
        if not answer.records:
            return
        aborted = None
        if is_committed:
            aborted = [
                AbortedTransaction(one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()
            ]
        completed = CompletedFetch(
            answer.records,
            tp,
            requested,
            check_crcs=self.config.check_crcs,
            aborted=aborted,
            node_id=plan.node.node_id,
            end_offset=end_offset,
        )
        self.arrived.append(completed)
        state.has_arrived = True

    def _handle_error(self, tp: TopicPartition, state: PartitionState, error: KafkaError, now: float) -> None:
        self._back_off(state, now)
        if isinstance(error, OffsetOutOfRangeError):
            reset_to = _RESET_TO[self.config.auto_offset_reset]
            if reset_to is not None:
                state.position, state.reset_to, state.retry_at = None, reset_to, 0.0
                return
            text = f"{tp}: offset {state.position} is not in the log, and auto_offset_reset is none"
            self.failed[tp] = OffsetOutOfRangeError(text, topic=tp.topic, partition=tp.partition)
        elif error.retriable:
            self.metadata.request_update()
        else:
            self.failed[tp] = error


def _no_position_error(tp: TopicPartition) -> OffsetOutOfRangeError:
    text = f"{tp} has no position, and auto_offset_reset is none: seek() says where it begins"
    return OffsetOutOfRangeError(text, topic=tp.topic, partition=tp.partition)
