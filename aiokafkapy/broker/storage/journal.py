"""A file of JSON documents that are applied in order, so that the last one about a key wins.

Owns the lines and their checksums; knows nothing of the documents' content. Kafka's counterparts are its compacted
internal topics, ``__consumer_offsets`` and ``__transaction_state``.

Rules:

- a document is with the operating system before ``append`` returns: that survives the death of the process;
- a line is a checksum (CRC-32C) and a document; a last line that was cut short by a crash is moved into a file beside
  it, since no client was answered about it; any other line that does not fit its checksum is damage, and the broker
  does not start on it;
- the owner gives the entries that still count; the file is rewritten with them at start, and when most of it is
  stale. The owner asks for that after a change is in its memory: the new file has the content of its memory only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from ...errors import KafkaStorageError
from ...observability import get_logger
from ...record.crc import crc32c
from .checkpoint_file import DamagedFileError, set_aside, write_atomically
from .log_storage import write_all

__all__ = ["Journal"]

logger = get_logger()

REWRITE_FROM: Final = 10_000
"""Lines below which the file is left as it is."""

CHECKSUM_SIZE: Final = 8
"""Hexadecimal digits before the document of a line."""


class Journal:
    """One file; without a path it remembers nothing."""

    __slots__ = ("_descriptor", "_lines", "_path", "_remedy", "_size", "_tried_at")

    def __init__(self, path: Path | None, remedy: str) -> None:
        """``remedy`` says how to start without a damaged line."""
        self._path = path
        self._remedy = remedy
        self._descriptor = -1
        self._size = 0
        self._lines = 0
        self._tried_at = 0  # the number of lines when a rewrite failed

    def load(self) -> list[Any]:
        """The documents, oldest first. To be followed by ``rewrite``, which also drops a torn line.

        Raises DamagedFileError, and OSError when the file cannot be read.
        """
        path = self._path
        if path is None or not path.exists():
            return []
        *lines, torn = path.read_bytes().split(b"\n")
        if _is_whole(torn[:-1]):
            # Not cut short: the byte that ends the line is damaged.
            lines.append(torn)
        documents = []
        for number, line in enumerate(lines, 1):
            if not _is_whole(line):
                raise DamagedFileError(path, f"line {number} does not fit its checksum", self._remedy)
            documents.append(json.loads(line[CHECKSUM_SIZE:]))
        if torn and lines[-1:] != [torn]:
            kept_in = set_aside(path, torn)
            logger.warning("broker.journal_truncated", file=str(path), bytes=len(torn), kept_in=str(kept_in))
        return documents

    def append(self, document: object) -> None:
        """Add one document. Raises KafkaStorageError; then it is not there."""
        if self._path is None:
            return
        line = _line(document)
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

    def rewrite_if_stale(self, things: int, documents: Callable[[], Iterable[object]]) -> None:
        """Rewrite when most lines are stale: ``things`` lines would be enough.

        Appended documents are on disk whether or not the file can be replaced, so a failure is only logged.
        """
        if self._lines - self._tried_at < REWRITE_FROM or self._lines <= 2 * things:
            return
        try:
            self.rewrite(documents())
        except KafkaStorageError as error:
            self._tried_at = self._lines
            logger.warning("broker.journal_rewrite_failed", file=str(self._path), error=str(error))

    def rewrite(self, documents: Iterable[object]) -> None:
        """Replace the content by these documents. Raises KafkaStorageError; then it is as it was."""
        if self._path is None:
            return
        self.close()
        lines = [_line(document) for document in documents]
        if lines or self._path.exists():
            write_atomically(self._path, b"".join(lines))
        self._size = sum(map(len, lines))
        self._lines = len(lines)
        self._tried_at = 0

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _line(document: object) -> bytes:
    data = b" " + json.dumps(document).encode()
    return b"%08x%s\n" % (crc32c(data), data)


def _is_whole(line: bytes) -> bool:
    return len(line) > CHECKSUM_SIZE and line[:CHECKSUM_SIZE] == b"%08x" % crc32c(line[CHECKSUM_SIZE:])
