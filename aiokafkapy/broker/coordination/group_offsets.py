"""The offsets that groups have committed.

Owns group → topic-partition → offset, and the file that remembers it; does not check whether a member may commit,
which ``groups`` does. Kafka's counterparts are ``OffsetMetadataManager`` and the topic ``__consumer_offsets``.

Rules:

- a commit is in the file before ``commit`` returns; a line of the file is a checksum (CRC-32C) and a JSON document, and
  the last word wins;
- a last line that was cut short by a crash is moved into a file beside it, for no client was told of it; any
  other line that does not fit its checksum is damage, and the broker does not start on it;
- the topic's id is part of a commit, so a topic made again under its old name starts without offsets, as in Kafka;
- the file is rewritten when most of its lines say nothing any more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from ...common import TopicPartition
from ...errors import KafkaStorageError
from ...observability import get_logger
from ..storage.checkpoint_file import DamagedFileError, set_aside, write_atomically
from ..storage.log_storage import write_all

__all__ = ["CommittedOffset", "OffsetStore"]

logger = get_logger()

REWRITE_FROM: Final = 10_000
"""Lines below which the file is left as it is."""

CHECKSUM_SIZE: Final = 8
"""Hexadecimal digits before the document of a line."""


class CommittedOffset(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: UUID | None = None


FORGOTTEN: Final = CommittedOffset(-1)
"""How the file says that an offset was deleted."""

Offsets = Mapping[TopicPartition, CommittedOffset]


class OffsetStore:
    """All groups' offsets; in memory only without a ``data_dir``."""

    def __init__(self, data_dir: Path | str | None = None) -> None:
        """Reads the file. Raises DamagedFileError, and OSError when the file cannot be read."""
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._path = None if data_dir is None else Path(data_dir) / "group-offsets.jsonl"
        self._descriptor = -1
        self._size = 0
        self._lines = 0
        if self._path is not None and self._path.exists():
            self._load(self._path)

    def groups(self) -> list[str]:
        """The groups that have offsets."""
        return list(self._groups)

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
            self._write(group_id, offsets)
            self._groups.setdefault(group_id, {}).update(offsets)

    def forget(self, group_id: str, places: Iterable[TopicPartition]) -> None:
        """Forget some offsets of a group. Raises KafkaStorageError; then nothing has changed."""
        known = self._groups.get(group_id, {})
        gone = {place: FORGOTTEN for place in places if place in known}
        if gone:
            self._write(group_id, gone)
            for place in gone:
                del known[place]

    def delete(self, group_id: str) -> None:
        """Forget all offsets of a group. Raises KafkaStorageError."""
        if group_id in self._groups:
            self._write(group_id, {})
            del self._groups[group_id]

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # internals

    def _write(self, group_id: str, offsets: Offsets) -> None:
        if self._path is None:
            return
        line = _line(group_id, offsets)
        try:
            if self._descriptor < 0:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            # At a position, so that the next line goes over the rest of a failed write.
            write_all(self._descriptor, (line,), self._size)
        except OSError as error:
            raise KafkaStorageError(f"cannot write to {self._path}: {error}") from error
        self._size += len(line)
        self._lines += 1
        if self._lines >= REWRITE_FROM and self._lines > 2 * len(self._groups):
            self._rewrite(self._path)

    def _rewrite(self, path: Path) -> None:
        self.close()
        content = b"".join(_line(group_id, offsets) for group_id, offsets in self._groups.items())
        write_atomically(path, content)
        self._size = len(content)
        self._lines = len(self._groups)

    def _load(self, path: Path) -> None:
        *lines, torn = path.read_bytes().split(b"\n")
        if _is_whole(torn[:-1]):
            # Not cut short: the byte that ends the line is damaged.
            lines.append(torn)
        for number, line in enumerate(lines, 1):
            if not _is_whole(line):
                remedy = "remove that line, or the file, to start without the offsets that were committed there"
                raise DamagedFileError(path, f"line {number} does not fit its checksum", remedy)
            self._apply(json.loads(line[CHECKSUM_SIZE:]))
        if torn and lines[-1:] != [torn]:
            kept_in = set_aside(path, torn)
            logger.warning("broker.offsets_truncated", file=str(path), bytes=len(torn), kept_in=str(kept_in))
        # Also drops the torn line, which the next append would otherwise run into.
        self._rewrite(path)

    def _apply(self, document: Any) -> None:
        group_id, entries = document["group"], document["offsets"]
        if not entries:
            self._groups.pop(group_id, None)
            return
        offsets = self._groups.setdefault(group_id, {})
        for topic, partition, offset, epoch, metadata, topic_id in entries:
            identity = None if topic_id is None else UUID(topic_id)
            if offset < 0:
                offsets.pop(TopicPartition(topic, partition), None)
            else:
                offsets[TopicPartition(topic, partition)] = CommittedOffset(offset, epoch, metadata, identity)


def _line(group_id: str, offsets: Offsets) -> bytes:
    entries = [
        [tp.topic, tp.partition, o.offset, o.leader_epoch, o.metadata, None if o.topic_id is None else str(o.topic_id)]
        for tp, o in offsets.items()
    ]
    document = b" " + json.dumps({"group": group_id, "offsets": entries}).encode()
    return b"%08x%s\n" % (crc32c(document), document)


def _is_whole(line: bytes) -> bool:
    return len(line) > CHECKSUM_SIZE and line[:CHECKSUM_SIZE] == b"%08x" % crc32c(line[CHECKSUM_SIZE:])
