"""The bytes of a partition: in memory, or in append-only segment files that survive ``kill -9``.

Owns bytes and their positions (counted from the log's first byte, over all segments); knows no batch, offset or topic
beyond the base offset in a segment's name. Kafka's counterparts are ``LogSegment``, ``FileRecords`` and
``LogOffsetMetadata``'s checkpoints.

Rules:

- an append is with the operating system before ``append`` returns: that is enough to survive the death of the process;
  only ``sync`` (topic option ``flush.messages``) survives the death of the machine, and it has all before it on the
  disk, too;
- an append either is there as a whole or raises KafkaStorageError and leaves nothing that a reader could see;
- nothing is created on disk for a partition without records, and no more than ``MAX_OPEN_FILES`` descriptors
  are held, so that 10,000 partitions cost neither inodes nor descriptors;
- recovery trusts nothing: the log says how much of each segment is sound. A write that was cut short, which is only
  ever at the end of the last segment, is moved into a file beside it; any other damage is refused and left as it is.
"""

from __future__ import annotations

import errno
import mmap
import os
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ...common import Buffer
from ...errors import KafkaStorageError
from .checkpoint_file import DamagedFileError, read_checkpoint, set_aside, write_atomically, write_checkpoint

__all__ = [
    "FileStorage",
    "LogStorage",
    "MemoryStorage",
    "OpenFiles",
    "SegmentScan",
    "TornWrite",
    "write_all",
]

MAX_OPEN_FILES: Final = 128
"""A process has 1,024 descriptors by default, and the sockets want most of them."""


class SegmentScan(NamedTuple):
    """The log's judgement of a segment. Without ``damage``, a write that was cut short follows the sound bytes."""

    sound_bytes: int
    next_offset: int
    damage: str | None = None


class TornWrite(NamedTuple):
    """The bytes of a write that was cut short, which recovery moved out of the log."""

    segment: Path
    size: int
    kept_in: Path


Scan = Callable[[memoryview, int, int], SegmentScan]
"""Given a segment's bytes, their position in the log, and the base offset in the segment's name."""


class LogStorage(Protocol):
    """The storage of a ``PartitionLog``. ``size`` is the position after the last byte."""

    size: int

    def append(self, pieces: Sequence[Buffer], base_offset: int, segment_bytes: int, *, sync: bool = False) -> None:
        """Add one batch; a new segment is begun first if the last one would outgrow ``segment_bytes``.

        With ``sync`` it is on the disk itself when this returns, and so is every batch before it.
        """

    def read(self, position: int, size: int) -> list[Buffer]:
        """The batches from ``position``, in order, in any number of pieces; ``size`` is that of whole batches."""

    def discard_before(self, position: int) -> None:
        """Free the segments that lie before ``position`` as a whole."""

    def segments(self) -> list[tuple[int, int]]:
        """The position and the size of each segment, in order."""

    def replace(self, number: int, batches: Sequence[bytes]) -> None:
        """Put batches in place of a segment's; the segments after it are at other positions then.

        Raises KafkaStorageError; then nothing has changed. After a crash the segment is the old one or the new.
        """

    def recover(self, scan: Scan) -> TornWrite | None:
        """Show all segments to ``scan``; cut off a write that was cut short, and say so.

        Raises DamagedFileError; then nothing has changed.
        """

    def load_start_offset(self) -> int:
        """The saved log start offset, else the first offset that is held."""

    def first_offset(self) -> int:
        """The base offset of the first segment; without segments the log start offset."""

    def discard_all(self) -> None:
        """Free every segment; the start offset stays."""

    def save_start_offset(self, offset: int) -> None:
        """Remember the log start offset."""

    def delete(self) -> None:
        """Forget all of it, on disk too."""


class MemoryStorage:
    """Batches as they were appended, without a copy on either way."""

    __slots__ = ("_batches", "_starts", "size")

    def __init__(self) -> None:
        self.size = 0
        self._batches: list[Sequence[Buffer]] = []
        self._starts = array("q")

    def append(self, pieces: Sequence[Buffer], base_offset: int, segment_bytes: int, *, sync: bool = False) -> None:
        """Keep the pieces themselves: the caller must not change them afterwards."""
        self._batches.append(pieces)
        self._starts.append(self.size)
        self.size += sum(map(len, pieces))

    def read(self, position: int, size: int) -> list[Buffer]:
        """The pieces themselves."""
        first, last = bisect_left(self._starts, position), bisect_left(self._starts, position + size)
        return [piece for pieces in self._batches[first:last] for piece in pieces]

    def discard_before(self, position: int) -> None:
        """Every batch is its own segment."""
        count = bisect_left(self._starts, position)
        del self._batches[:count], self._starts[:count]

    def segments(self) -> list[tuple[int, int]]:
        """All is one segment."""
        return [(self._starts[0], self.size - self._starts[0])] if self._starts else []

    def replace(self, number: int, batches: Sequence[bytes]) -> None:
        """Keep these batches instead."""
        starts = array("q", accumulate(map(len, batches), initial=self._starts[0]))
        self.size = starts.pop()
        self._starts = starts
        self._batches = [(batch,) for batch in batches]

    def recover(self, scan: Scan) -> TornWrite | None:
        """Nothing to recover."""
        return None

    def load_start_offset(self) -> int:
        """Nothing saved."""
        return 0

    def first_offset(self) -> int:
        """Nothing saved."""
        return 0

    def discard_all(self) -> None:
        """Drop all batches."""
        self._batches.clear()
        del self._starts[:]

    def save_start_offset(self, offset: int) -> None:
        """Nothing to save."""

    def delete(self) -> None:
        """Drop all batches."""
        self.discard_all()


class _Segment:
    __slots__ = ("path", "size", "start")

    def __init__(self, path: Path, start: int, size: int) -> None:
        self.path = path
        self.start = start
        self.size = size


class FileStorage:
    """Segments named by their first offset, as Kafka names them, so that Kafka's ``DumpLogSegments`` reads them."""

    __slots__ = ("_folder", "_has_new_name", "_open_files", "_segments", "_unsynced", "size")

    def __init__(self, folder: Path, open_files: OpenFiles) -> None:
        self.size = 0
        self._folder = folder
        self._open_files = open_files
        self._segments: list[_Segment] = []
        self._has_new_name = True
        self._unsynced: dict[Path, None] = {}  # segments that may not all be on the disk
        # A partition without records has no folder.
        for path in sorted(folder.glob("*.log")) if folder.is_dir() else ():
            if not path.stem.isdecimal():
                continue
            self._segments.append(_Segment(path, self.size, path.stat().st_size))
            self.size += self._segments[-1].size
            self._unsynced[path] = None  # the process that wrote it may not have synced it

    def append(self, pieces: Sequence[Buffer], base_offset: int, segment_bytes: int, *, sync: bool = False) -> None:
        """Write behind the last byte. Raises KafkaStorageError; then the log is as it was."""
        size = sum(map(len, pieces))
        segment = self._segments[-1] if self._segments else None
        if segment is None or (segment.size and segment.size + size > segment_bytes):
            segment = self._roll(base_offset)
        try:
            descriptor = self._open_files.descriptor(segment.path)
            write_all(descriptor, pieces, segment.size)
            self._unsynced[segment.path] = None
            if sync:
                self._sync()
        except OSError as error:
            self._cut(segment, segment.size)
            raise KafkaStorageError(f"cannot write {size} bytes to {segment.path}: {error}") from error
        segment.size += size
        self.size += size

    def read(self, position: int, size: int) -> list[Buffer]:
        """One piece per segment touched. Raises KafkaStorageError."""
        end = min(position + size, self.size)
        found: list[Buffer] = []
        for segment in self._segments:
            start, stop = max(position, segment.start), min(end, segment.start + segment.size)
            if start < stop:
                found.append(self._read(segment, start - segment.start, stop - start))
        return found

    def discard_before(self, position: int) -> None:
        """Remove whole segments; the last one stays, since it says where the log ends."""
        while len(self._segments) > 1 and self._segments[0].start + self._segments[0].size <= position:
            self._remove(self._segments.pop(0))

    def discard_all(self) -> None:
        """Remove every segment."""
        while self._segments:
            self._remove(self._segments.pop(0))

    def segments(self) -> list[tuple[int, int]]:
        """One for each file."""
        return [(segment.start, segment.size) for segment in self._segments]

    def replace(self, number: int, batches: Sequence[bytes]) -> None:
        """Replace the file atomically."""
        segment = self._segments[number]
        data = b"".join(batches)
        write_atomically(segment.path, data)
        self._open_files.forget(segment.path)
        self._unsynced[segment.path] = None
        self._has_new_name = True
        change = len(data) - segment.size
        segment.size = len(data)
        self.size += change
        for later in self._segments[number + 1 :]:
            later.start += change

    def recover(self, scan: Scan) -> TornWrite | None:
        """See ``LogStorage.recover``."""
        position, sound = 0, 0
        for segment in self._segments:
            segment.start = position
            found = _scan_file(segment, scan)
            sound, damage = found.sound_bytes, found.damage
            if damage is None and sound < segment.size and segment is not self._segments[-1]:
                damage = f"it ends in the middle of the batch at byte {sound}, and other segments follow"
            if damage is not None:
                raise DamagedFileError(segment.path, damage, _remedy(found))
            position += sound
        self.size = position
        if not self._segments or sound == self._segments[-1].size:
            return None
        return self._cut_torn_write(self._segments[-1], sound)

    def load_start_offset(self) -> int:
        """From the checkpoint, else from the first segment's name. Raises DamagedFileError."""
        path = self._folder / "log-start-offset"
        remedy = "delete it: deleted records whose segments are still there are then in the log again"
        content = read_checkpoint(path, remedy)
        if content is not None:
            return int(content)
        return int(self._segments[0].path.stem) if self._segments else 0

    def first_offset(self) -> int:
        """From the first segment's name, else the start offset."""
        return int(self._segments[0].path.stem) if self._segments else self.load_start_offset()

    def save_start_offset(self, offset: int) -> None:
        """Replace the checkpoint atomically. Raises KafkaStorageError."""
        write_checkpoint(self._folder / "log-start-offset", b"%d" % offset)

    def delete(self) -> None:
        """Close and remove everything."""
        for segment in self._segments:
            self._open_files.forget(segment.path)
        self._segments.clear()
        self._unsynced.clear()
        import shutil

        shutil.rmtree(self._folder, ignore_errors=True)

    # internals

    def _roll(self, base_offset: int) -> _Segment:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KafkaStorageError(f"cannot create {self._folder}: {error}") from error
        self._segments.append(_Segment(self._folder / f"{base_offset:020d}.log", self.size, 0))
        self._has_new_name = True
        return self._segments[-1]

    def _sync(self) -> None:
        """Sync every segment to the disk, and their names when one is new. Raises OSError."""
        for path in self._unsynced:
            os.fsync(self._open_files.descriptor(path))
        if self._has_new_name:
            _sync_names(self._folder)
            self._has_new_name = False
        self._unsynced.clear()

    def _read(self, segment: _Segment, start: int, size: int) -> bytes:
        try:
            data = os.pread(self._open_files.descriptor(segment.path), size, start)
        except OSError as error:
            raise KafkaStorageError(f"cannot read {size} bytes of {segment.path}: {error}") from error
        if len(data) < size:
            raise KafkaStorageError(f"{segment.path} is shorter than it was: {len(data)} of {size} bytes at {start}")
        return data

    def _cut_torn_write(self, segment: _Segment, sound: int) -> TornWrite:
        torn = segment.path.read_bytes()[sound:]
        kept_in = set_aside(segment.path, torn)
        self._cut(segment, sound)
        segment.size = sound
        return TornWrite(segment.path, len(torn), kept_in)

    def _cut(self, segment: _Segment, size: int) -> None:
        try:
            os.ftruncate(self._open_files.descriptor(segment.path), size)
        except OSError:
            # The bytes behind ``size`` are out of every reader's sight, the next append overwrites them, and recovery
            # checks all of them; nothing more can be done on a disk that fails.
            self._open_files.forget(segment.path)

    def _remove(self, segment: _Segment) -> None:
        self._open_files.forget(segment.path)
        self._unsynced.pop(segment.path, None)
        segment.path.unlink(missing_ok=True)


class OpenFiles:
    """The descriptors of all segments in use; the least recently used one is closed when there are too many."""

    def __init__(self, limit: int = MAX_OPEN_FILES) -> None:
        self._limit = limit
        self._descriptors: OrderedDict[Path, int] = OrderedDict()

    def descriptor(self, path: Path) -> int:
        """A descriptor open for reading and writing; the file is made if need be. Not to be kept. Raises OSError."""
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        while len(self._descriptors) >= self._limit:
            os.close(self._descriptors.popitem(last=False)[1])
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._descriptors[path] = descriptor
        return descriptor

    def forget(self, path: Path) -> None:
        """Close this file if it is open."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close all."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _sync_names(folder: Path) -> None:
    """Sync the names of a log's segments to the disk, its own, its topic's, and the topic's files. Raises OSError."""
    files = [path for path in folder.parent.iterdir() if path.is_file()]
    for each in (*files, folder, folder.parent, folder.parent.parent):
        descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(descriptor: int, pieces: Sequence[Buffer], position: int) -> None:
    """Write all pieces at ``position``. Raises OSError; then some of it may be there."""
    size = sum(map(len, pieces))
    written = os.pwritev(descriptor, pieces, position)
    if written == size:
        return
    rest = memoryview(b"".join(pieces))
    while written < size:
        step = os.pwrite(descriptor, rest[written:], position + written)
        if step == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        written += step


def _scan_file(segment: _Segment, scan: Scan) -> SegmentScan:
    base_offset = int(segment.path.stem)
    if segment.size == 0:
        return scan(memoryview(b""), segment.start, base_offset)
    with segment.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        return scan(memoryview(mapped), segment.start, base_offset)


def _remedy(found: SegmentScan) -> str:
    if found.sound_bytes == 0:
        do = "remove it and the later segments beside it"
    else:
        do = f"cut it to its first {found.sound_bytes} bytes and remove the later segments beside it"
    return f"{do}: the broker then starts without the records from offset {found.next_offset} on"
