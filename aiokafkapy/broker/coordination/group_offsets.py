"""The offsets that groups have committed, and those that wait for the end of a transaction; and the groups' protocols.

Owns the offsets by group and topic-partition, the set of consumer groups, and the journal's entries of both;
``group_coordinator`` checks whether a member may commit. Kafka's counterparts are
``OffsetMetadataManager`` and the topic ``__consumer_offsets``.

Rules:

- a commit is in the journal before ``commit`` returns, and so are offsets of an open transaction, by its producer id;
- the topic's id is part of a commit, so a topic made again under its old name starts without offsets, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict
from uuid import UUID

from ...common import TopicPartition
from ..storage.journal import Journal

__all__ = ["CommittedOffset", "OffsetStore"]

REMEDY: Final = "remove that line, or the file, to start without the offsets that were committed there"


class CommittedOffset(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: UUID | None = None


FORGOTTEN: Final = CommittedOffset(-1)
"""The file's sign of a deleted offset."""

Offsets = Mapping[TopicPartition, CommittedOffset]


class OffsetStore:
    """All groups' offsets; in memory only without a ``data_dir``."""

    def __init__(self, data_dir: Path | str | None = None) -> None:
        """Reads the file. Raises DamagedFileError, and OSError when the file cannot be read."""
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[tuple[str, int], dict[TopicPartition, CommittedOffset]] = {}
        self.consumer_groups: set[str] = set()
        path = None if data_dir is None else Path(data_dir) / "group-offsets.jsonl"
        self._journal = Journal(path, REMEDY)
        for document in self._journal.load():
            self._apply(document)
        self._journal.rewrite(self._documents())

    def groups(self) -> list[str]:
        """The groups that have offsets, if only in an open transaction, and all consumer groups."""
        pending = (group_id for group_id, _ in self._pending)
        return list(dict.fromkeys([*self._groups, *pending, *sorted(self.consumer_groups)]))

    def note_type(self, group_id: str, *, is_consumer: bool) -> None:
        """Remember whether a group is a consumer group (KIP-848). Raises KafkaStorageError; then nothing has
        changed.
        """
        if is_consumer != (group_id in self.consumer_groups):
            self._journal.append(_type_document(group_id, is_consumer=is_consumer))
            (self.consumer_groups.add if is_consumer else self.consumer_groups.discard)(group_id)
            self._rewrite_if_stale()

    def get(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """A group's offsets, a copy."""
        return dict(self._groups.get(group_id, ()))

    def fetch(self, group_id: str, topic_partition: TopicPartition, topic_id: UUID | None) -> CommittedOffset | None:
        """One offset; None when there is none, or it is of a topic that was deleted since."""
        committed = self._groups.get(group_id, {}).get(topic_partition)
        if committed is None or committed.topic_id != topic_id:
            return None
        return committed

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Remember these offsets. Raises KafkaStorageError; then nothing has changed."""
        if offsets:
            self._journal.append(_document(group_id, offsets))
            self._groups.setdefault(group_id, {}).update(offsets)
            self._rewrite_if_stale()

    def forget(self, group_id: str, places: Iterable[TopicPartition]) -> None:
        """Forget some offsets of a group. Raises KafkaStorageError; then nothing has changed."""
        known = self._groups.get(group_id, {})
        gone = {place: FORGOTTEN for place in places if place in known}
        if gone:
            self._journal.append(_document(group_id, gone))
            for place in gone:
                del known[place]
            self._rewrite_if_stale()

    def delete(self, group_id: str) -> None:
        """Forget all offsets of a group, those of open transactions too, and its protocol. Raises KafkaStorageError."""
        self.note_type(group_id, is_consumer=False)
        for pending_group, producer_id in tuple(self._pending):
            if pending_group == group_id:
                self.end_pending(group_id, producer_id, is_commit=False)
        if group_id in self._groups:
            self._journal.append(_document(group_id, {}))
            del self._groups[group_id]
            self._rewrite_if_stale()

    # transactions

    def add_pending(self, group_id: str, producer_id: int, offsets: Offsets) -> None:
        """Keep offsets until the producer's transaction ends. Raises KafkaStorageError; then nothing has changed."""
        if offsets:
            self._journal.append(_document(group_id, offsets) | {"pending": producer_id})
            self._pending.setdefault((group_id, producer_id), {}).update(offsets)
            self._rewrite_if_stale()

    def end_pending(self, group_id: str, producer_id: int, *, is_commit: bool) -> None:
        """Commit or forget the offsets of a producer's transaction. Raises KafkaStorageError; then nothing has
        changed.
        """
        offsets = self._pending.get((group_id, producer_id))
        if offsets is None:
            return
        if is_commit:
            self.commit(group_id, offsets)
        self._journal.append(_document(group_id, {}) | {"pending": producer_id})
        del self._pending[group_id, producer_id]
        self._rewrite_if_stale()

    def is_pending(self, group_id: str, place: TopicPartition) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return any(place in offsets for (group, _), offsets in self._pending.items() if group == group_id)

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction has any offset of the group."""
        return any(group == group_id for group, _ in self._pending)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._journal.close()

    # internals

    def _rewrite_if_stale(self) -> None:
        """Called after a change is in memory: a new file has the content of memory only."""
        things = len(self._groups) + len(self._pending) + len(self.consumer_groups)
        self._journal.rewrite_if_stale(things, self._documents)

    def _documents(self) -> Iterator[_Document]:
        for group_id in self.consumer_groups:
            yield _type_document(group_id, is_consumer=True)
        for group_id, offsets in self._groups.items():
            yield _document(group_id, offsets)
        for (group_id, producer_id), offsets in self._pending.items():
            yield _document(group_id, offsets) | {"pending": producer_id}

    def _apply(self, document: _Document) -> None:
        if "is_consumer_group" in document:
            change = self.consumer_groups.add if document["is_consumer_group"] else self.consumer_groups.discard
            change(document["group"])
            return
        group_id, entries, producer_id = document["group"], document["offsets"], document.get("pending")
        if not entries:
            if producer_id is None:
                self._groups.pop(group_id, None)
            else:
                self._pending.pop((group_id, producer_id), None)
            return
        if producer_id is None:
            offsets = self._groups.setdefault(group_id, {})
        else:
            offsets = self._pending.setdefault((group_id, producer_id), {})
        for topic, partition, offset, epoch, metadata, topic_id in entries:
            identity = None if topic_id is None else UUID(topic_id)
            if offset < 0:
                offsets.pop(TopicPartition(topic, partition), None)
            else:
                offsets[TopicPartition(topic, partition)] = CommittedOffset(offset, epoch, metadata, identity)


class _Document(TypedDict, total=False):
    """A line of the journal: a group's offsets, those of a producer's open transaction, or the kind of a group."""

    group: str
    offsets: list[list[Any]]
    """Topic, partition, offset, leader epoch, metadata, and the topic's id or None."""
    pending: int
    is_consumer_group: bool


def _document(group_id: str, offsets: Offsets) -> _Document:
    entries = [
        [tp.topic, tp.partition, o.offset, o.leader_epoch, o.metadata, None if o.topic_id is None else str(o.topic_id)]
        for tp, o in offsets.items()
    ]
    return {"group": group_id, "offsets": entries}


def _type_document(group_id: str, *, is_consumer: bool) -> _Document:
    return {"group": group_id, "is_consumer_group": is_consumer}
