"""The topics of a cluster on disk: a folder each, with its description and a folder for each partition's log.

Owns the names of the folders, ``topic.json`` in them, and the descriptors of all segments; without a data folder topics
are in memory only. It must not know leaders, nor the rules for names. Kafka's counterparts are the folder
half of ``LogManager``, and ``TopicRecord`` and ``PartitionRecord`` of the cluster's metadata.

On disk: ``topics/<name>.<id>/topic.json`` (replaced as a whole, atomically) and ``topics/<name>.<id>/<partition>/``.
The folder of a topic that is deleted is first renamed to ``<name>.<id>-delete``, as in Kafka, and its rest is removed
at the next start; so is a folder with neither ``topic.json`` nor a segment, which a creation that was cut short has
left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from ...errors import KafkaStorageError
from .checkpoint_file import DamagedFileError, read_checkpoint, write_checkpoint
from .log_storage import FileStorage, LogStorage, MemoryStorage, OpenFiles

__all__ = ["SavedPartition", "SavedTopic", "TopicFolders"]

MAX_NAME: Final = 200
"""Characters of a topic's name in its folder's: a file system takes 255 bytes, the id needs 33 and ``-delete`` 7."""
DELETED: Final = "-delete"
"""The suffix of a deleted topic's folder; Kafka's ``LogManager.DeleteDirSuffix``."""


class SavedPartition(NamedTuple):
    """A partition as its topic's description has it."""

    leader: int | None
    leader_epoch: int
    replicas: list[int]


class SavedTopic(NamedTuple):
    """A topic's description."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]
    partitions: list[SavedPartition]


class TopicFolders:
    """The folders of all topics. Without a data folder a topic's folder is None, and nothing is written."""

    def __init__(self, data_dir: Path | None) -> None:
        self._root = None if data_dir is None else data_dir / "topics"
        self._open_files = OpenFiles()

    def folder_of(self, name: str, topic_id: UUID) -> Path | None:
        """The folder of a new topic, which is not made yet."""
        return None if self._root is None else self._root / f"{name[:MAX_NAME]}.{topic_id.hex}"

    def storage(self, folder: Path | None, index: int) -> LogStorage:
        """The storage of a partition's log."""
        return MemoryStorage() if folder is None else FileStorage(folder / str(index), self._open_files)

    def save(self, folder: Path | None, topic: SavedTopic) -> None:
        """Replace a topic's description. Raises KafkaStorageError; then it is as it was."""
        if folder is not None:
            document = {**topic._asdict(), "topic_id": str(topic.topic_id)}
            write_checkpoint(folder / "topic.json", json.dumps(document).encode())

    def load(self) -> list[tuple[Path, SavedTopic]]:
        """Every topic, the one that was changed longest ago first. Raises DamagedFileError, OSError."""
        if self._root is None:
            return []
        self._root.mkdir(parents=True, exist_ok=True)
        found = []
        for folder in filter(Path.is_dir, sorted(self._root.iterdir())):
            path = folder / "topic.json"
            content = None if folder.name.endswith(DELETED) else read_checkpoint(path, _remedy(folder))
            if content is None:
                _remove_garbage(folder)
            else:
                found.append((path.stat().st_mtime_ns, folder, _saved_topic(content)))
        return [(folder, topic) for _, folder, topic in sorted(found, key=lambda entry: entry[:2])]

    def discard(self, folder: Path | None) -> Path | None:
        """Make a topic's folder garbage that the next start removes, and return its new name. Raises KafkaStorageError;
        then it is as it was.
        """
        if folder is None:
            return None
        try:
            return folder.rename(folder.with_name(folder.name + DELETED))
        except OSError as error:
            raise KafkaStorageError(f"cannot rename {folder}: {error}") from error

    def remove(self, folder: Path | None) -> None:
        """Remove a folder that was discarded, as far as that is possible."""
        if folder is not None:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Close all files; idempotent."""
        self._open_files.close()


def _saved_topic(content: bytes) -> SavedTopic:
    document = json.loads(content)
    partitions = [SavedPartition(*partition) for partition in document["partitions"]]
    return SavedTopic(document["name"], UUID(document["topic_id"]), document["config"], partitions)


def _remove_garbage(folder: Path) -> None:
    """Remove the rest of a creation or deletion that was cut short. DamagedFileError for a topic that has records."""
    if not folder.name.endswith(DELETED) and any(folder.glob("*/*.log")):
        raise DamagedFileError(folder / "topic.json", "it is missing, and the topic has records", _remedy(folder))
    import shutil

    shutil.rmtree(folder)


def _remedy(folder: Path) -> str:
    return f"remove {folder} to start without the topic and its records"
