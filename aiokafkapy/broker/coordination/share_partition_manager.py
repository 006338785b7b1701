"""The partitions of all share groups: their starts, their states, and the locks on their records (KIP-932).

Owns a ``SharePartition`` for each that is in use, the journal of those that are not, and the one timer of all locks.
It knows no request, and members by name only. Kafka's counterparts are ``SharePartitionManager``,
``SharePartitionCache`` and the share coordinator with its topic ``__share_group_state``.

Rules:

- a partition is in use from the first fetch on, until its leader changes, or until the last session of its group at
  the leader's node ends with its connection; then only the journal's entry is left, and no lock;
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

__all__ = ["NO_OFFSET", "GroupPartition", "SharePartitionManager", "ShareState"]

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


class GroupPartition(NamedTuple):
    """A group's view of a partition; also the key in the purgatory of requests that wait for its records."""

    group_id: str
    partition: TopicIdPartition


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

        ``on_available``, to be set, is called with the partition of each record that came back.
        """
        self._config = config
        self._topics = topics
        self._configs = configs
        self._scheduler = scheduler
        self._clock = clock
        self.on_available: Callable[[GroupPartition], object] = _ignored
        self._groups: dict[str, dict[TopicIdPartition, ShareState]] = {}
        self._in_use: dict[GroupPartition, _InUse] = {}
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
                partition = TopicIdPartition(topic_id, index)
                if partition not in known:
                    self._write(GroupPartition(group_id, partition), ShareState())

    def delete(self, group_id: str) -> None:
        """Forget a group. Raises KafkaStorageError."""
        if group_id in self._groups:
            self._journal.append({"group": group_id, "exists": False})
            del self._groups[group_id]
            self._drop(lambda key, _: key.group_id == group_id)
            self._rewrite_if_stale()

    # offsets

    def offsets(self, group_id: str) -> dict[TopicIdPartition, ShareState]:
        """A group's partitions of existing topics, with their start offsets."""
        known = self._groups.get(group_id, {})
        return {each: state for each, state in known.items() if self._topics.by_id(each.topic_id) is not None}

    def begin_at(self, group_id: str, starts: Mapping[TopicIdPartition, int]) -> None:
        """Have a group start again at these offsets; the group must be empty. Raises KafkaStorageError."""
        self.add(group_id)
        for partition, offset in starts.items():
            key = GroupPartition(group_id, partition)
            self._write(key, ShareState(offset))
            self._in_use.pop(key, None)

    def forget(self, group_id: str, topic_id: UUID) -> bool:
        """Forget a topic of a group; returns whether there was anything. Raises KafkaStorageError."""
        known = self._groups.get(group_id, {})
        gone = [partition for partition in known if partition.topic_id == topic_id]
        for partition in gone:
            key = GroupPartition(group_id, partition)
            self._journal.append(_document(key, None))
            del known[partition]
            self._in_use.pop(key, None)
        self._rewrite_if_stale()
        return bool(gone)

    # records

    def get(self, group_id: str, partition: Partition) -> SharePartition:
        """A partition, which is in use from now on."""
        key = GroupPartition(group_id, TopicIdPartition(partition.topic.topic_id, partition.index))
        found = self._found(key)
        if found is None:
            found = self._in_use[key] = self._opened(key, partition)
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
        self, group_id: str, partition: TopicIdPartition, member_id: str, batches: Iterable[AcknowledgementBatch]
    ) -> None:
        """See ``SharePartition.acknowledge``.

        UnknownTopicOrPartitionError when the partition is not in use. Raises KafkaStorageError; then the records are to
        be obtained again.
        """
        key = GroupPartition(group_id, partition)
        found = self._found(key)
        if found is None:
            raise UnknownTopicOrPartitionError
        found.share.acknowledge(member_id, batches)
        self._save(key, found.share)
        self.on_available(key)

    def release(self, group_id: str, member_id: str, partitions: Iterable[TopicIdPartition], node_id: int) -> None:
        """Take back the records of a member whose session at a node has ended."""
        for partition in partitions:
            key = GroupPartition(group_id, partition)
            found = self._found(key)
            if found is not None and found.partition.leader == node_id and found.share.release(member_id):
                self._save_quietly(key, found.share)
                self.on_available(key)

    def out_of_use(self, group_id: str, node_id: int) -> None:
        """A group has no member at a node any more."""
        self._drop(lambda key, found: key.group_id == group_id and found.partition.leader == node_id)

    def expire(self) -> None:
        """Take back the records whose locks have run out."""
        now_ms = self._clock()
        self._drop(lambda _, found: found.is_over)
        for key, found in tuple(self._in_use.items()):
            if found.share.next_deadline_ms <= now_ms:
                found.share.expire(now_ms)
                self._save_quietly(key, found.share)
                self.on_available(key)
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

    def _found(self, key: GroupPartition) -> _InUse | None:
        found = self._in_use.get(key)
        return None if found is None or found.is_over else found

    def _opened(self, key: GroupPartition, partition: Partition) -> _InUse:
        saved = self._groups.get(key.group_id, {}).get(key.partition, ShareState())
        start = saved.start_offset
        if start == NO_OFFSET:
            start = self._configs.share_start_offset(key.group_id, partition.log, self._clock())
        share = SharePartition(
            start,
            saved.batches,
            max_delivery_count=self._config.group_share_delivery_count_limit,
            max_in_flight=self._config.group_share_partition_max_record_locks,
        )
        return _InUse(partition, partition.leader_epoch, share)

    def _drop(self, is_to_go: Callable[[GroupPartition, _InUse], bool]) -> None:
        for key in [key for key, found in self._in_use.items() if is_to_go(key, found)]:
            del self._in_use[key]

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

    def _save(self, key: GroupPartition, share: SharePartition) -> None:
        state = ShareState(share.start_offset, tuple(share.snapshot()))
        if key.group_id not in self._groups or self._groups[key.group_id].get(key.partition) == state:
            return
        try:
            self._write(key, state)
        except KafkaStorageError:
            self._in_use.pop(key, None)  # opened again as last written
            raise

    def _save_quietly(self, key: GroupPartition, share: SharePartition) -> None:
        """Save a change that no request asked for: a failure is logged, as nobody can be told."""
        try:
            self._save(key, share)
        except KafkaStorageError as error:
            logger.warning(
                "broker.share_state_unsaved", group=key.group_id, partition=key.partition.partition, error=str(error)
            )

    def _write(self, key: GroupPartition, state: ShareState) -> None:
        self._journal.append(_document(key, state))
        self._groups[key.group_id][key.partition] = state
        self._rewrite_if_stale()

    def _rewrite_if_stale(self) -> None:
        """Called after a change is in memory: a new file has the content of memory only."""
        things = sum(1 + len(states) for states in self._groups.values())
        self._journal.rewrite_if_stale(things, self._documents)

    def _documents(self) -> Iterator[_Document]:
        for group_id in self._groups:
            yield {"group": group_id, "exists": True}
            for partition, state in self.offsets(group_id).items():
                yield _document(GroupPartition(group_id, partition), state)

    def _apply(self, document: _Document) -> None:
        group_id = document["group"]
        if "exists" in document:
            self._groups.pop(group_id, None)
            if document["exists"]:
                self._groups[group_id] = {}
            return
        partition = TopicIdPartition(UUID(document["topic"]), document["partition"])
        self._groups.setdefault(group_id, {}).pop(partition, None)
        if document["start"] is not None:
            batches = tuple(StateBatch(*batch) for batch in document["batches"])
            self._groups[group_id][partition] = ShareState(document["start"], batches)


class _Document(TypedDict, total=False):
    """A line of the journal: whether a group exists, or its state of a partition."""

    group: str
    exists: bool
    topic: str
    partition: int
    start: int | None
    batches: list[list[int]]


def _document(key: GroupPartition, state: ShareState | None) -> _Document:
    return {
        "group": key.group_id,
        "topic": str(key.partition.topic_id),
        "partition": key.partition.partition,
        "start": None if state is None else state.start_offset,
        "batches": [] if state is None else [list(batch) for batch in state.batches],
    }


def _ignored(key: GroupPartition) -> None:
    pass
