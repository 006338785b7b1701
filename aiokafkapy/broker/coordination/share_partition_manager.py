"""The partitions of all share groups: their starts, their states, and the locks on their records (KIP-932).

Owns a ``SharePartition`` for each that is in use, the journal of those that are not, and the one timer of all locks.
It knows no request, and members by name only. Kafka's counterparts are ``SharePartitionManager``,
``SharePartitionCache`` and the share coordinator with its topic ``__share_group_state``.

Rules:

- a partition is in use from the first fetch on, until its leader changes, or the connection ends that had the last
  session of its group there; then only the journal's entry is left, and no lock;
- a session that ends at a node gives back the records that its member took there, but none from a later leader;
- a change is in the journal before the call that made it returns, except for acquisitions: those last as long as their
  locks, and no longer than this process;
- a group that has never written about a partition begins where ``share.auto.offset.reset`` says, each time that it is
  taken into use;
- locks run by the wall clock of the cluster, which ``controls.advance_clock`` moves.

Events: ``broker.share_state_unsaved`` (warning).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypedDict
from uuid import UUID

from ...errors import KafkaStorageError, UnknownTopicOrPartitionError
from ...observability import get_logger
from ..config import BrokerConfig
from ..scheduler import Scheduler, TimerHandle
from ..storage.journal import Journal
from ..storage.topics import Partition, TopicRegistry
from .assignors import TopicIdPartition
from .group_configs import GroupConfigs
from .share_partition import AcknowledgementBatch, AcquiredRecords, AcquireRequest, SharePartition, StateBatch

__all__ = ["NO_OFFSET", "SharePartitionManager", "ShareState"]

logger = get_logger()

NO_OFFSET: Final = -1
"""The start of a partition that its group has never written about."""

REMEDY: Final = "remove that line, or the file, to start without the share groups' places"


class ShareState(NamedTuple):
    """A partition as the journal has it."""

    start_offset: int = NO_OFFSET
    batches: tuple[StateBatch, ...] = ()


class _InUse(NamedTuple):
    partition: Partition
    leader_epoch: int
    share: SharePartition

    @property
    def is_over(self) -> bool:
        """Whether the leader has changed since, or the partition is gone."""
        return self.partition.is_deleted or self.leader_epoch != self.partition.leader_epoch


Place = tuple[str, TopicIdPartition]
"""A group and a partition; also the key in the purgatory of requests that wait for its records."""


class SharePartitionManager:
    """All partitions of share groups; in memory only without a ``data_dir``."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicRegistry,
        configs: GroupConfigs,
        scheduler: Scheduler,
        clock: Callable[[], int],
        *,
        data_dir: Path | str | None = None,
    ) -> None:
        """Reads the file. Raises DamagedFileError, and OSError when the file cannot be read.

        ``on_available``, to be set, is called with the place of each record that came back.
        """
        self._config = config
        self._topics = topics
        self._configs = configs
        self._scheduler = scheduler
        self._clock = clock
        self.on_available: Callable[[Place], object] = _ignored
        self._groups: dict[str, dict[TopicIdPartition, ShareState]] = {}
        self._in_use: dict[Place, _InUse] = {}
        self._timer: TimerHandle | None = None
        self._due_ms = math.inf
        path = None if data_dir is None else Path(data_dir) / "share-groups.jsonl"
        self._journal = Journal(path, REMEDY)
        for document in self._journal.load():
            self._apply(document)
        self._journal.rewrite(self._documents())

    # groups

    def groups(self) -> list[str]:
        """The ids of all groups."""
        return list(self._groups)

    def add(self, group_id: str, partition_counts: Mapping[UUID, int] | None = None) -> None:
        """Remember a group, and the partitions that it is to have. Raises KafkaStorageError."""
        if group_id not in self._groups:
            self._journal.append({"group": group_id, "exists": True})
            self._groups[group_id] = {}
        known = self._groups[group_id]
        for topic_id, count in (partition_counts or {}).items():
            for index in range(count):
                place = TopicIdPartition(topic_id, index)
                if place not in known:
                    self._write(group_id, place, ShareState())

    def delete(self, group_id: str) -> None:
        """Forget a group. Raises KafkaStorageError."""
        if group_id in self._groups:
            self._journal.append({"group": group_id, "exists": False})
            del self._groups[group_id]
            self._drop(lambda place, _: place[0] == group_id)
            self._rewrite_if_stale()

    # offsets

    def offsets(self, group_id: str) -> dict[TopicIdPartition, ShareState]:
        """A group's partitions of existing topics, with their start offsets."""
        known = self._groups.get(group_id, {})
        return {place: state for place, state in known.items() if self._topics.by_id(place.topic_id) is not None}

    def begin_at(self, group_id: str, starts: Mapping[TopicIdPartition, int]) -> None:
        """Have a group start again at these offsets; the group must be empty. Raises KafkaStorageError."""
        self.add(group_id)
        for place, offset in starts.items():
            self._write(group_id, place, ShareState(offset))
            self._in_use.pop((group_id, place), None)

    def forget(self, group_id: str, topic_id: UUID) -> bool:
        """Forget a topic of a group; returns whether there was anything. Raises KafkaStorageError."""
        known = self._groups.get(group_id, {})
        gone = [place for place in known if place.topic_id == topic_id]
        for place in gone:
            self._journal.append(_document(group_id, place, None))
            del known[place]
            self._in_use.pop((group_id, place), None)
        self._rewrite_if_stale()
        return bool(gone)

    # records

    def get(self, group_id: str, partition: Partition) -> SharePartition:
        """A partition, which is in use from now on."""
        place = group_id, TopicIdPartition(partition.topic.topic_id, partition.index)
        found = self._found(place)
        if found is None:
            found = self._in_use[place] = self._opened(place, partition)
        found.share.start_at(partition.log.start_offset)
        return found.share

    def acquire(self, group_id: str, partition: Partition, request: AcquireRequest) -> list[AcquiredRecords]:
        """See ``SharePartition.acquire``; the lock begins now."""
        deadline_ms = self._clock() + self._configs.share_record_lock_duration_ms(group_id)
        acquired = self.get(group_id, partition).acquire(request, deadline_ms)
        if acquired:
            self._arm(deadline_ms)
        return acquired

    def acknowledge(
        self, group_id: str, place: TopicIdPartition, member_id: str, batches: Iterable[AcknowledgementBatch]
    ) -> None:
        """See ``SharePartition.acknowledge``.

        UnknownTopicOrPartitionError when the partition is not in use. Raises KafkaStorageError; then the records are to
        be obtained again.
        """
        found = self._found((group_id, place))
        if found is None:
            raise UnknownTopicOrPartitionError
        found.share.acknowledge(member_id, batches)
        self._save((group_id, place), found.share)
        self.on_available((group_id, place))

    def release(self, group_id: str, member_id: str, partitions: Iterable[TopicIdPartition], node_id: int) -> None:
        """Take back the records of a member whose session at a node has ended."""
        for each in partitions:
            found = self._found((group_id, each))
            if found is not None and found.partition.leader == node_id and found.share.release(member_id):
                self._save_quietly((group_id, each), found.share)
                self.on_available((group_id, each))

    def out_of_use(self, group_id: str, node_id: int) -> None:
        """A group has no member at a node any more."""
        self._drop(lambda place, found: place[0] == group_id and found.partition.leader == node_id)

    def expire(self) -> None:
        """Take back the records whose locks have run out."""
        now_ms = self._clock()
        self._drop(lambda _, found: found.is_over)
        for place, found in tuple(self._in_use.items()):
            if found.share.next_deadline_ms <= now_ms:
                found.share.expire(now_ms)
                self._save_quietly(place, found.share)
                self.on_available(place)
        self._due_ms = math.inf
        self._arm(min((found.share.next_deadline_ms for found in self._in_use.values()), default=math.inf))

    def close(self) -> None:
        """Stop the timer and close the file; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._in_use.clear()  # connections that end later find nothing to give back
        self._journal.close()

    # internals: in use

    def _found(self, place: Place) -> _InUse | None:
        found = self._in_use.get(place)
        return None if found is None or found.is_over else found

    def _opened(self, place: Place, partition: Partition) -> _InUse:
        group_id, each = place
        saved = self._groups.get(group_id, {}).get(each, ShareState())
        start = saved.start_offset
        if start == NO_OFFSET:
            start = self._configs.share_start_offset(group_id, partition.log, self._clock())
        share = SharePartition(
            start,
            saved.batches,
            max_delivery_count=self._config.group_share_delivery_count_limit,
            max_in_flight=self._config.group_share_partition_max_record_locks,
        )
        return _InUse(partition, partition.leader_epoch, share)

    def _drop(self, is_to_go: Callable[[Place, _InUse], bool]) -> None:
        for place in [place for place, found in self._in_use.items() if is_to_go(place, found)]:
            del self._in_use[place]

    def _arm(self, deadline_ms: float) -> None:
        """Have ``expire`` called at this time; if the locks are gone by then, that call finds nothing."""
        if deadline_ms >= self._due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = deadline_ms
        delay = max(0.0, deadline_ms - self._clock()) / 1000
        self._timer = self._scheduler.call_at(self._scheduler.time() + delay, self.expire)

    # internals: the journal

    def _save(self, place: Place, share: SharePartition) -> None:
        group_id, each = place
        state = ShareState(share.start_offset, tuple(share.snapshot()))
        if group_id not in self._groups or self._groups[group_id].get(each) == state:
            return
        try:
            self._write(group_id, each, state)
        except KafkaStorageError:
            self._in_use.pop(place, None)  # opened again as last written
            raise

    def _save_quietly(self, place: Place, share: SharePartition) -> None:
        """Save a change that no request asked for: a failure is logged, as nobody can be told."""
        try:
            self._save(place, share)
        except KafkaStorageError as error:
            logger.warning("broker.share_state_unsaved", group=place[0], partition=place[1].partition, error=str(error))

    def _write(self, group_id: str, place: TopicIdPartition, state: ShareState) -> None:
        self._journal.append(_document(group_id, place, state))
        self._groups[group_id][place] = state
        self._rewrite_if_stale()

    def _rewrite_if_stale(self) -> None:
        """Called after a change is in memory: a new file has the content of memory only."""
        things = sum(1 + len(places) for places in self._groups.values())
        self._journal.rewrite_if_stale(things, self._documents)

    def _documents(self) -> Iterator[_Document]:
        for group_id in self._groups:
            yield {"group": group_id, "exists": True}
            for place, state in self.offsets(group_id).items():
                yield _document(group_id, place, state)

    def _apply(self, document: _Document) -> None:
        group_id = document["group"]
        if "exists" in document:
            self._groups.pop(group_id, None)
            if document["exists"]:
                self._groups[group_id] = {}
            return
        place = TopicIdPartition(UUID(document["topic"]), document["partition"])
        self._groups.setdefault(group_id, {}).pop(place, None)
        if document["start"] is not None:
            batches = tuple(StateBatch(*batch) for batch in document["batches"])
            self._groups[group_id][place] = ShareState(document["start"], batches)


class _Document(TypedDict, total=False):
    """A line of the journal: whether a group exists, or its state of a partition."""

    group: str
    exists: bool
    topic: str
    partition: int
    start: int | None
    batches: list[list[int]]


def _document(group_id: str, place: TopicIdPartition, state: ShareState | None) -> _Document:
    return {
        "group": group_id,
        "topic": str(place.topic_id),
        "partition": place.partition,
        "start": None if state is None else state.start_offset,
        "batches": [] if state is None else [list(batch) for batch in state.batches],
    }


def _ignored(place: Place) -> None:
    pass
