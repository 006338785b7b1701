"""``SpoolSegment``: one file of a spool's records. Everything here blocks.

Owns the file's name, its reading, and the treatment of bytes that are not records. It knows neither the other
segments nor the mark. Kafka's counterpart is ``LogSegment``.

Rules:

- Bytes that are not a record are kept, under another name: no file is overwritten.
- The salt is also in the file's name: damage to the header loses no record.
- A block that the disk cannot read loses only the records in it.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from .format import HEADER_SIZE, MAGIC, salt_of

__all__ = ["SetAside", "SpoolSegment", "keep_beside", "write_all", "write_at"]

BLOCK: Final = 4096
"""Bytes that are lost with one sector, at most."""

_NAME: Final = re.compile(r"\d{20}(?:-([0-9a-f]{8}))?\.spool")


class SetAside(NamedTuple):
    """Bytes that are not a record, and the file that has them; ``kept_in`` is None if they are gone."""

    file: Path
    position: int
    size: int
    kept_in: Path | None


class SpoolSegment:
    """One file of the spool. ``size`` is the number of bytes written, ``last`` the last sequence in it."""

    __slots__ = ("_is_given_up", "damaged", "descriptor", "first", "has_only_copy", "last", "path", "salt", "size")

    def __init__(self, path: Path, first: int, salt: bytes = b"", descriptor: int = -1) -> None:
        self.path = path
        self.first = first
        self.last = first - 1
        self.salt = salt
        self.descriptor = descriptor  # while it is written to, and after that if it has lost its name
        self.size = 0
        self.damaged: set[int] = set()
        self.has_only_copy = False  # positions of damaged bytes that the disk had no room for
        self._is_given_up = False

    def recognize(self, data: bytes) -> ValueError | None:
        """Find the salt, in the file's name or header; returns the problem of the header."""
        named = _NAME.fullmatch(self.path.name)
        self.salt = data[len(MAGIC) : HEADER_SIZE]
        if named is not None and named[1]:
            self.salt = bytes.fromhex(named[1])
        try:
            salt = salt_of(data)
        except ValueError as error:
            return error
        return None if salt in (None, self.salt) else ValueError("its salt is not that of its name")

    def is_of_others(self, data: bytes) -> bool:
        """True when the file may belong to another version or another program."""
        has_other_version = data.startswith(MAGIC[:-1]) and not data.startswith(MAGIC)
        return has_other_version or _NAME.fullmatch(self.path.name) is None

    def read(self, start: int) -> bytes:
        """The file's bytes from ``start`` on, with zeros for unreadable blocks. Raises OSError if none can be read."""
        size = self.size - start
        with self.path.open("rb") if self.descriptor < 0 else os.fdopen(os.dup(self.descriptor), "rb") as file:
            try:
                file.seek(start)
                data = file.read(size)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = _readable(file, start, self.size)
                self.has_only_copy = True  # the disk may read them another time
        return data.ljust(size, b"\0")

    def set_aside(self, position: int, torn: bytes) -> list[SetAside]:
        """Copy damaged bytes into a file beside it, once; without room for that they stay here."""
        if position in self.damaged:
            return []
        self.damaged.add(position)
        found = keep_beside(self.path, position, torn)
        self.has_only_copy |= any(one.kept_in == self.path for one in found)
        return found

    def give_up(self) -> SetAside:
        """The file cannot be read: keep all of it under another name, if it exists."""
        self.close()
        self._is_given_up = True
        kept_in = self.path
        try:
            for kept_in in _names(self.path.with_name(f"{self.path.name}.damaged")):
                if not kept_in.exists():
                    break
            self.path.replace(kept_in)
        except FileNotFoundError:
            return SetAside(self.path, 0, self.size, None)
        except OSError:
            kept_in = self.path
        return SetAside(self.path, 0, self.size, kept_in)

    def remove(self) -> None:
        """Remove the file: all its records are dealt with."""
        self.close()
        if self._is_given_up:
            return
        if self.has_only_copy:
            self.give_up()
        else:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close its descriptor; idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def keep_beside(path: Path, position: int, torn: bytes) -> list[SetAside]:
    """Copy the bytes that are not a record into a file of their own, unless an earlier start did. Without room on the
    disk they stay in place.
    """
    for kept_in in _names(path.with_name(f"{path.name}.damaged-{position}")):
        if not kept_in.exists():
            break
        if kept_in.read_bytes() == torn:
            return []
    try:
        descriptor = os.open(kept_in, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, torn, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        with suppress(OSError):
            kept_in.unlink(missing_ok=True)  # a part of them
        kept_in = path
    return [SetAside(path, position, len(torn), kept_in)]


def write_at(descriptor: int, data: bytes | memoryview, position: int) -> int:
    """Write some of the bytes; returns their number. Windows has no ``pwrite``."""
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.write(descriptor, data)


def write_all(descriptor: int, data: bytes, position: int) -> None:
    """Write all of them. Raises OSError, perhaps after a part."""
    view = memoryview(data)
    while view:
        written = write_at(descriptor, view, position)
        view, position = view[written:], position + written


# internals


def _names(path: Path) -> Iterator[Path]:
    """The name, then variants of it: no file is overwritten."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}-{number}")


def _readable(file: BinaryIO, start: int, end: int) -> bytes:
    """The bytes on the disk, with zeros in place of the blocks that it cannot read. Raises OSError if it can read
    none.
    """
    found: list[bytes] = []
    failed: OSError | None = None
    has_any = False
    for position in range(start, end, BLOCK):
        size = min(BLOCK, end - position)
        try:
            file.seek(position)
            found.append(file.read(size))
            has_any = True
        except OSError as error:
            failed = error
            found.append(bytes(size))
    if failed is not None and not has_any:
        raise failed
    return b"".join(found)
