"""What to fetch from which node, and what an answer means: the deciding half of a reader.

Owns positions, what was fetched and not yet handed out, and back-off per partition. Awaits nothing, reads no clock
(`now` is an argument, loop time in seconds) and sends nothing: `PartitionReader` does. Kafka's counterparts are
`AbstractFetch` and `SubscriptionState`.

Rules:
- one request per node at a time, with all partitions that the node leads, and none while something from that node waits
  to be handed out: what is held is bounded by `fetch_max_bytes` per node, a slow reader slows the fetching, and a
  partition with records never waits for the long poll of one without (as Java since KAFKA-17439);
- an answer counts only for a partition that is still assigned and still at the offset that was asked for;
- an error that may pass backs that partition off and asks for metadata, with the leader hints of the answer taken at
  once (KIP-951); any other is kept for the caller, once, and the partition rests until the caller has seen it;
- topic ids are used when the cluster has one for every topic of the request, else the version is held below 13.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from uuid import UUID

from ..cluster.metadata import Metadata
from ..common import ConsumedRecord, Node, TopicPartition
from ..errors import IllegalStateError, KafkaError, OffsetOutOfRangeError, make
from ..protocol.api import ApiKey
from ..protocol.messages import build_request
from ..record.columns import ReadRecords
from ..record.record_columns import OFFSET_MAX, RecordColumns
from .config import ReaderConfig
from .fetched import AbortedTransaction, CompletedFetch
from .offset_lookup import EARLIEST, LATEST

__all__ = ["FetchPlan", "Fetcher", "PartitionRecords", "PartitionRows"]

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
ENOUGH_RECORDS: Final = 1_000
"""Records decoded at once, in whole batches: a few milliseconds' work."""
ENOUGH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records put into columns at once, in whole batches: a few milliseconds' work, if they are not compressed."""
_CONSUMER_REPLICA_ID: Final = -1
_RESET_TO: Final[Mapping[str, int | None]] = {"earliest": EARLIEST, "latest": LATEST, "none": None}


class PartitionRecords(NamedTuple):
    """Records of one partition, in the log's order, and the end of what may be read there when they were fetched."""

    topic_partition: TopicPartition
    records: list[ConsumedRecord]
    end_offset: int


class PartitionRows(NamedTuple):
    """As `PartitionRecords`, in columns."""

    topic_partition: TopicPartition
    columns: ReadRecords
    end_offset: int


@dataclass(slots=True)
class PartitionState:
    """One assigned partition: where reading stands. `position` is None until the offset for `reset_to` is known;
    nothing from `stop_at` on is read.
    """

    position: int | None = None
    reset_to: int | None = EARLIEST
    is_fetching: bool = False
    has_arrived: bool = False
    retry_at: float = 0.0
    attempts: int = 0
    end_offset: int = -1
    stop_at: int = OFFSET_MAX
    error: KafkaError | None = None

    @property
    def is_finished(self) -> bool:
        """True when nothing more of it is wanted."""
        return self.position is not None and self.position >= self.stop_at and not self.has_arrived


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """One request to one node: partitions with the offset and leader epoch asked for, and the topics' ids."""

    node: Node
    partitions: Mapping[TopicPartition, tuple[int, int]]
    topic_ids: Mapping[str, UUID | None]
    config: ReaderConfig

    @property
    def max_version(self) -> int | None:
        """The highest version that may be spoken; None for no limit."""
        has_all_ids = all(topic_id is not None for topic_id in self.topic_ids.values())
        return None if has_all_ids else FIRST_VERSION_WITH_TOPIC_IDS - 1

    def build(self, version: int) -> Any:
        """The request's body. No fetch session: every request names all that it wants."""
        config = self.config
        topics: dict[str, list[dict[str, Any]]] = {}
        for tp, (offset, epoch) in self.partitions.items():
            entry = {
                "partition": tp.partition,
                "current_leader_epoch": epoch,
                "fetch_offset": offset,
                "partition_max_bytes": config.max_partition_fetch_bytes,
            }
            topics.setdefault(tp.topic, []).append(entry)
        return build_request(
            ApiKey.FETCH,
            version,
            replica_id=_CONSUMER_REPLICA_ID,
            max_wait=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.isolation_level == "read_committed"),
            session_epoch=-1,
            topics=[
                {"topic": name, "topic_id": self.topic_ids[name], "partitions": partitions}
                for name, partitions in topics.items()
            ],
        )

    def topic_of(self, answer: Any) -> str | None:
        """The name of a topic of the answer, by name or by id; None when it was not asked for."""
        topic_id = getattr(answer, "topic_id", None)
        if topic_id is None:
            return getattr(answer, "topic", None)
        return next((name for name, known in self.topic_ids.items() if known == topic_id), None)


@dataclass(slots=True)
class Fetcher:
    """Positions of the assigned partitions, and what has arrived for them. Belongs to one event loop."""

    config: ReaderConfig
    metadata: Metadata
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    busy_nodes: set[int] = field(default_factory=set)
    arrived: deque[CompletedFetch] = field(default_factory=deque)

    # what is read, and from where

    def assign(self, wanted: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those that were assigned before keep their positions."""
        start = _RESET_TO[self.config.auto_offset_reset]
        self.partitions = {
            TopicPartition(*tp): self.partitions.get(TopicPartition(*tp)) or PartitionState(reset_to=start)
            for tp in wanted
        }
        self.arrived = deque(one for one in self.arrived if one.topic_partition in self.partitions)

    def seek(self, topic_partition: TopicPartition, offset: int | None, reset_to: int | None = None) -> None:
        """Read on at `offset`, or at the place of `reset_to` (EARLIEST, LATEST, a time) once that is known."""
        state = self.state(topic_partition)
        state.position, state.reset_to = offset, reset_to
        state.retry_at, state.attempts, state.error = 0.0, 0, None
        state.has_arrived = False
        self.arrived = deque(one for one in self.arrived if one.topic_partition != topic_partition)

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; IllegalStateError for any other."""
        state = self.partitions.get(topic_partition)
        if state is None:
            raise IllegalStateError(f"{topic_partition} is not assigned to this reader: call assign() first")
        return state

    def partitions_to_reset(self, now: float) -> dict[TopicPartition, int]:
        """Partitions whose position is to be looked up, with what to look up."""
        return {
            tp: state.reset_to
            for tp, state in self.partitions.items()
            if state.position is None and state.reset_to is not None and state.error is None and state.retry_at <= now
        }

    def complete_reset(self, topic_partition: TopicPartition, reset_to: int, offset: int) -> None:
        """The place was looked up. Of no effect when somebody has sought elsewhere meanwhile."""
        state = self.partitions.get(topic_partition)
        if state is not None and state.position is None and state.reset_to == reset_to:
            state.position = offset
            state.attempts = 0

    # requests

    def plans(self, now: float, is_ready: Callable[[Node], bool]) -> list[FetchPlan]:
        """The requests to send now, to nodes that are ready for one; each counts as busy until `handle_response` or
        `handle_failure`. A node that is not ready is asked for again by the next call, if it still leads.
        """
        by_node: dict[Node, dict[TopicPartition, tuple[int, int]]] = {}
        occupied = self.busy_nodes | {one.node_id for one in self.arrived}
        if occupied and all(node.node_id in occupied for node in self.metadata.cluster.nodes):
            return []  # before each of what may be thousands of partitions is looked at, for each that is handed out
        for tp, state in self.partitions.items():
            if state.position is None or not self._is_fetchable(state, now):
                continue
            leader, epoch = self.metadata.current_leader(tp)
            if leader is None:
                self._back_off(state, now)
                self.metadata.request_update()
            elif leader.node_id not in occupied:
                by_node.setdefault(leader, {})[tp] = (state.position, epoch)
        plans = []
        for node, partitions in by_node.items():
            if not is_ready(node):
                continue
            ids = {tp.topic: self.metadata.cluster.topic_id(tp.topic) for tp in partitions}
            plans.append(FetchPlan(node, partitions, ids, self.config))
            self.busy_nodes.add(node.node_id)
            for tp in partitions:
                self.partitions[tp].is_fetching = True
        return plans

    def next_retry(self, now: float) -> float | None:
        """Seconds until a partition that is backing off may be tried again; None when none is."""
        waiting = [state.retry_at for state in self.partitions.values() if state.retry_at > now]
        return min(waiting) - now if waiting else None

    # answers

    def handle_failure(self, plan: FetchPlan, error: KafkaError, now: float) -> None:
        """The request came to nothing: its partitions are tried again, or it is an error for the caller."""
        self._release(plan)
        self.metadata.request_update()
        for tp in plan.partitions:
            state = self.partitions.get(tp)
            if state is None:
                continue
            self._back_off(state, now)
            if not error.retriable:
                state.error = error

    def handle_response(self, plan: FetchPlan, response: Any, now: float) -> None:
        """Take an answer: keep what arrived, and note what went wrong where."""
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
            nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in getattr(response, "node_endpoints", ())]
            for tp in self.metadata.update_partition_leaderships(hints, nodes):
                self.partitions[tp].retry_at = 0.0

    # what is handed out

    def take(self) -> PartitionRecords | None:
        """The next records that arrived, decoded; None when there are none. Raises a partition's error, once."""
        while self.arrived:
            completed = self.arrived[0]
            records = completed.take(ENOUGH_RECORDS, self._stop_of(completed))
            self._note_taken(completed)
            if records:
                return PartitionRecords(completed.topic_partition, records, completed.end_offset)
        self._raise_error()
        return None

    def take_columns(self, columns: RecordColumns) -> PartitionRows | None:
        """As `take`, with the records in columns."""
        while self.arrived:
            completed = self.arrived[0]
            completed.take_columns(columns, ENOUGH_BYTES, self._stop_of(completed))
            self._note_taken(completed)
            if columns.row_count:
                return PartitionRows(completed.topic_partition, columns.take(), completed.end_offset)
        self._raise_error()
        return None

    # internals

    def _stop_of(self, completed: CompletedFetch) -> int:
        return self.partitions[completed.topic_partition].stop_at

    def _note_taken(self, completed: CompletedFetch) -> None:
        state = self.partitions[completed.topic_partition]
        state.position = completed.next_offset
        if completed.is_drained:
            self.arrived.popleft()
            state.has_arrived = False
            state.error = completed.error

    def _raise_error(self) -> None:
        for state in self.partitions.values():
            if state.error is not None:
                error, state.error = state.error, None
                raise error

    def _is_fetchable(self, state: PartitionState, now: float) -> bool:
        if state.is_fetching or state.has_arrived or state.is_finished:
            return False
        return state.retry_at <= now and state.error is None

    def _release(self, plan: FetchPlan) -> None:
        self.busy_nodes.discard(plan.node.node_id)
        for tp in plan.partitions:
            state = self.partitions.get(tp)
            if state is not None:
                state.is_fetching = False

    def _back_off(self, state: PartitionState, now: float) -> None:
        state.retry_at = now + self.config.retry_backoff.delay(state.attempts)
        state.attempts += 1

    def _handle_partition(self, tp: TopicPartition, plan: FetchPlan, answer: Any, now: float) -> None:
        state = self.partitions.get(tp)
        asked_for, _ = plan.partitions[tp]
        if state is None or state.position != asked_for or state.has_arrived:
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
            asked_for,
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
            state.error = OffsetOutOfRangeError(text, topic=tp.topic, partition=tp.partition)
        elif error.retriable:
            self.metadata.request_update()
        else:
            state.error = error
