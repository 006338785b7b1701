"""``SpoolFiles``: the folder of a spool. Everything here blocks, and runs on the spool's own thread.

Owns the files: the segments, the mark ``sent.json`` and the one before it, ``refused.jsonl`` with the records that
brokers refused, and ``.lock``. It knows no event loop and no producer. Kafka's counterparts are ``Log`` and
``FileLock``.

Rules:

- One process has a folder. The lock belongs to the open file: it ends with the process, even if that is killed.
- A write is in the file as a whole, or it is cut off again and raises; the file is then as it was.
- Recovery takes a record with a valid checksum. Other bytes are first copied into a file beside the segment, whether a
  write was cut short (only ever at the end of the last segment) or the disk has damaged them. No file is overwritten.
  Without room for the copy the segment itself is kept.
- An unreadable or missing segment is reported and set aside, and the next one is read.
- A segment is removed when all its records are dealt with, and the mark says so. A segment that another program
  removes is read on for as long as it is open, and is not written to any more.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from ...errors import SpoolError
from ..options.option_values import FsyncPolicy
from .format import HEADER_SIZE, SALT_SIZE, Damage, Mark, SpooledRecord, decode_mark, encode_mark, header, scan
from .spool_segment import SetAside, SpoolSegment, keep_beside, write_all

try:
    import fcntl
except ImportError:  # Windows, where no lock keeps two processes apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["SYNC_INTERVAL", "Recovered", "SpoolFiles", "TornWriteError"]

SYNC_INTERVAL: Final = 1.0
"""Seconds between two fsyncs with ``every_second``."""
LARGEST_SEGMENT: Final = 16 * 1024 * 1024
"""Bytes: a segment is read as a whole."""
SMALLEST_SEGMENT: Final = 64 * 1024
SEGMENTS: Final = 8
"""A full spool has at least about so many segments, so that room comes back long before all of it is sent."""
MOST_READ_ERRORS: Final = 10
"""Failed reads in a row after which a segment is given up."""

MARK: Final = "sent.json"
MARK_BEFORE: Final = "sent.before.json"
"""The mark before the last: a loss of power may leave the last one empty if it was not synced."""


class TornWriteError(OSError):
    """A write failed, and so did cutting it off again: the next start may find any part of it."""


class Recovered(NamedTuple):
    """The contents of the folder."""

    mark: Mark
    next_sequence: int
    records: int
    size: int
    topics: Counter[str]
    maybe_sent: int
    """Records that an earlier process may have sent."""
    set_aside: list[SetAside]


class SpoolFiles:
    """One folder, for one process."""

    def __init__(
        self, folder: Path, max_bytes: int, fsync: FsyncPolicy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder = folder
        self.salt = os.urandom(SALT_SIZE)
        self._segment_size = min(LARGEST_SEGMENT, max(SMALLEST_SEGMENT, max_bytes // SEGMENTS))
        self._fsync = fsync
        self._clock = clock
        self._lock = -1
        self._segments: list[SpoolSegment] = []
        self._mark = Mark()
        self._delivered: frozenset[int] = frozenset()
        self._writing: SpoolSegment | None = None
        self._synced_at = 0.0
        self._is_dirty = False
        # The segment that is read, and its records that were not taken yet
        self._reading: SpoolSegment | None = None
        self._read_from = self._read_to = self._read_errors = 0
        self._read_last = -1
        self._read_data = b""
        self._frames: Iterator[SpooledRecord | Damage] = iter(())
        self._set_aside: list[SetAside] = []  # and not reported yet

    # life

    def open(self) -> Recovered:
        """Lock the folder, making it if it is missing, and read its state.

        Raises SpoolError if another process has it, if it cannot be used, or if it has a file of another format.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._acquire()
            return self._recover()
        except OSError as error:
            self.close()
            raise SpoolError(f"spool_dir={str(self.folder)!r} cannot be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder; idempotent. All written bytes are on disk when this returns, unless fsync is never."""
        try:
            with suppress(OSError):
                self.sync()
        finally:
            self._close_segments()
            self.release()

    def __del__(self) -> None:
        """For a loop that ended without its producer's close()."""
        self._close_segments()
        self.release()

    def release(self) -> None:
        """Close the lock's file: the lock ends, unless this is the child of a fork, which only shares it."""
        descriptor, self._lock = self._lock, -1
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def size(self) -> int:
        """Bytes of all segments, without their headers."""
        return sum(segment.size - HEADER_SIZE for segment in self._segments)

    # writing

    def append(self, frames: Sequence[bytes], first: int, last: int) -> None:
        """Add frames with these sequences. They are in the file when this returns, and on disk too with ``always``.

        Raises OSError; the file then has none of them.
        """
        data = b"".join(frames)
        segment = self._writing
        if segment is not None and not segment.path.exists():
            segment = self._writing = None  # the file was removed: no more records may be lost with it
        if segment is None or (segment.size > HEADER_SIZE and segment.size + len(data) > self._segment_size):
            segment = self._new_segment(first)
        try:
            write_all(segment.descriptor, data, segment.size)
            self._is_dirty = True
            if self._fsync == "always" or (
                self._fsync == "every_second" and self._clock() - self._synced_at >= SYNC_INTERVAL
            ):
                self.sync()
        except OSError as error:
            # The file is not written to again: a later fsync does not report data that a failed one has lost.
            try:
                os.ftruncate(segment.descriptor, segment.size)
            except OSError:
                raise TornWriteError(*error.args) from error
            finally:
                self._close_segment()
            if segment.size == HEADER_SIZE:  # each file is a block of a disk that may be full
                self._segments.remove(segment)
                with suppress(OSError):
                    segment.remove()
            raise
        segment.size += len(data)
        segment.last = last

    def sync(self) -> None:
        """Bring all written bytes to the disk, unless the policy is never."""
        if self._is_dirty and self._writing is not None and self._fsync != "never":
            os.fsync(self._writing.descriptor)
            self._synced_at = self._clock()
        self._is_dirty = False

    # reading

    def read(self, max_bytes: int, max_records: int) -> tuple[list[SpooledRecord], list[SetAside]]:
        """The next records that are not dealt with, in order, at least one if possible, and the damaged bytes."""
        found: list[SpooledRecord] = []
        set_aside, self._set_aside = self._set_aside, []
        size = 0
        while len(found) < max_records and size < max_bytes:
            item = next(self._frames, None)
            if item is None:
                self._read_data = b""
                try:
                    has_more = self._load_more()
                except OSError as error:
                    self._read_errors += 1
                    if isinstance(error, FileNotFoundError) or self._read_errors >= MOST_READ_ERRORS:
                        set_aside.append(self._give_up())
                        continue
                    if not found:
                        self._set_aside = set_aside
                        raise
                    has_more = False  # the read is tried again next time; these records are not given again
                if not has_more:
                    break
            elif isinstance(item, Damage):
                set_aside += self._damage_read(item)
            else:
                self._read_last = item.sequence
                if item.sequence >= self._mark.next and item.sequence not in self._delivered:
                    found.append(item)
                    size += item.size
        return found, set_aside

    # the mark

    def mark(self, mark: Mark) -> tuple[int, OSError | None]:
        """Write the progress of sending into the mark, and remove records that are dealt with; returns the bytes that
        came free, and the error that kept the mark from being written: a full disk has room once the segments are
        gone.
        """
        freed = 0
        while self._segments and self._segments[0].last < mark.next:
            segment = self._segments.pop(0)
            if segment is self._writing:
                self._writing = None
            if segment is self._reading:
                self._reading, self._frames = None, iter(())
            segment.remove()
            freed += segment.size - HEADER_SIZE
        self._mark, self._delivered = mark, frozenset(mark.delivered)
        try:
            self._write_mark(mark)
        except OSError as error:
            return freed, error
        return freed, None

    def refuse(self, lines: Sequence[bytes]) -> Path:
        """Add to the refused records; they are on disk when this returns. Raises OSError; the file then has none of
        them.
        """
        self._require_folder()
        path = self.folder / "refused.jsonl"
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = os.fstat(descriptor).st_size
            data = b"".join(lines)
            if end and os.lseek(descriptor, -1, os.SEEK_END) >= 0 and os.read(descriptor, 1) != b"\n":
                data = b"\n" + data  # a crash has torn the last line
            try:
                write_all(descriptor, data, end)
                os.fsync(descriptor)
                if not end:
                    _sync_folder(self.folder)  # the file's name too
            except OSError:
                with suppress(OSError):
                    os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
        return path

    # internals

    def _acquire(self) -> None:
        self._lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if self._lock < 0 or fcntl is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise SpoolError(
                f"spool_dir={str(self.folder)!r} is in use by another producer: each one, and each worker process, "
                "needs a folder of its own"
            ) from None

    def _require_folder(self) -> None:
        """Make the folder again, and its lock, if it was removed."""
        if self._lock < 0 or not self.folder.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.release()
            self._acquire()

    def _recover(self) -> Recovered:
        set_aside: list[SetAside] = []
        mark, is_mark_damaged = self._read_mark(set_aside)
        self._mark = mark
        topics: Counter[str] = Counter()
        delivered = self._delivered = frozenset(mark.delivered)
        last, maybe_sent = -1, 0
        for path in sorted(self.folder.glob("*.spool")):
            segment = SpoolSegment(path, last + 1)
            for item in self._recovered(segment, set_aside):
                last = segment.last = item.sequence
                if last >= mark.next and last not in delivered:
                    topics[item.topic] += 1
                    maybe_sent += is_mark_damaged or last < mark.sent_to
            if segment.last < max(segment.first, mark.next):
                segment.remove()  # no record in it is left to be sent
            else:
                self._segments.append(segment)
        next_sequence = max(last + 1, mark.next, mark.sent_to)
        if is_mark_damaged:  # it may have had any of them
            mark = self._mark = mark._replace(sent_to=next_sequence)
        return Recovered(mark, next_sequence, topics.total(), self.size, topics, maybe_sent, set_aside)

    def _recovered(self, segment: SpoolSegment, set_aside: list[SetAside]) -> Iterator[SpooledRecord]:
        """The segment's records; all other bytes are set aside. Raises SpoolError for a file that is not ours."""
        segment.size = segment.path.stat().st_size
        try:
            data = segment.read(0)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            set_aside.append(segment.give_up())
            return
        problem = segment.recognize(data)
        damages: list[Damage] = []
        has_records = False
        for item in scan(data, segment.salt, after=segment.last) if len(data) > HEADER_SIZE else ():
            if isinstance(item, Damage):
                damages.append(item)
            else:
                has_records = True
                yield item
        if problem is not None and not has_records:
            if segment.is_of_others(data):
                raise SpoolError(
                    f"{segment.path} is not a file of a spool that this version reads: {problem}; move it away"
                )
            set_aside.append(segment.give_up())
            return
        if problem is not None:
            damages.insert(0, Damage(0, HEADER_SIZE))
        for damage in damages:
            set_aside += segment.set_aside(damage.position, data[damage.position : damage.end])

    def _read_mark(self, set_aside: list[SetAside]) -> tuple[Mark, bool]:
        """The mark, and whether it was damaged: then it is the mark before it, or an empty one, and records are sent
        again.
        """
        is_damaged = False
        for name in (MARK, MARK_BEFORE):
            path = self.folder / name
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            try:
                return decode_mark(data), is_damaged
            except (ValueError, KeyError, TypeError):
                is_damaged = True
                set_aside += keep_beside(path, 0, data)
        return Mark(), is_damaged

    def _write_mark(self, mark: Mark) -> None:
        path = self.folder / MARK
        temporary = path.with_suffix(".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, encode_mark(mark), 0)
            if self._fsync == "always":
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with suppress(FileNotFoundError):
            path.replace(self.folder / MARK_BEFORE)
        temporary.replace(path)

    def _damage_read(self, damage: Damage) -> list[SetAside]:
        """Damage in a segment that is being read; damage that recovery has seen is already set aside."""
        segment = self._reading
        assert segment is not None
        return segment.set_aside(damage.position + self._read_from, self._read_data[damage.position : damage.end])

    def _new_segment(self, first: int) -> SpoolSegment:
        self.sync()
        self._close_segment()
        self._require_folder()
        path = self.folder / f"{first:020}-{self.salt.hex()}.spool"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, header(self.salt), 0)
            if self._fsync != "never":
                _sync_folder(self.folder)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        segment = self._writing = SpoolSegment(path, first, self.salt, descriptor)
        segment.size = HEADER_SIZE
        self._segments.append(segment)
        return segment

    def _close_segment(self) -> None:
        segment, self._writing = self._writing, None
        if segment is not None:
            segment.close()

    def _close_segments(self) -> None:
        self._writing = None
        for segment in self._segments:
            segment.close()

    def _load_more(self) -> bool:
        """Go on with the next segment; False at the end."""
        segment = self._reading
        if segment is None or (self._read_to >= segment.size and segment is not self._segments[-1]):
            place = 0 if segment is None else self._segments.index(segment) + 1
            if place >= len(self._segments):
                return False
            segment = self._reading = self._segments[place]
            self._read_to = 0
        if self._read_to >= segment.size:
            return False
        start = max(self._read_to, HEADER_SIZE)
        self._read_data = segment.read(start)
        self._read_from, self._read_to, self._read_errors = start, segment.size, 0
        self._frames = scan(self._read_data, segment.salt, 0, self._read_last)
        return True

    def _give_up(self) -> SetAside:
        """Give up the segment that cannot be read, and go on with the next."""
        segment = self._reading
        assert segment is not None
        self._read_to, self._read_errors = segment.size, 0
        if segment is self._writing:
            self._writing = None
        return segment.give_up()


def _sync_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
