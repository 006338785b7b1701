"""Small files that are replaced as a whole and carry their checksum: topics, ids, start offsets.

Owns the writing and the checks of such a file; knows nothing of its content. Kafka's counterpart is ``CheckpointFile``,
which has a version line instead of a checksum.

Rules:

- after a crash the file has its old content or its new one, never a part of either;
- the last line is ``# crc32c`` and the checksum of all bytes before it, so that no damaged byte is ever believed;
- a damaged file is refused by name and left as it is.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final

from ...errors import KafkaStorageError
from ...record.crc import crc32c

__all__ = ["DamagedFileError", "read_checkpoint", "set_aside", "write_atomically", "write_checkpoint"]

_MARK: Final = b"# crc32c "


class DamagedFileError(KafkaStorageError):
    """A file of the data folder is not as the broker wrote it; the broker does not start on it."""

    def __init__(self, path: Path, damage: str, remedy: str) -> None:
        """``remedy`` says how to start without the file's content, for a user without a copy of it."""
        super().__init__(f"{path} is damaged: {damage}. Restore the file from a copy, or {remedy}.")
        self.path = path


def write_checkpoint(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace the file, which is made with this mode. Raises KafkaStorageError; then it is as it was."""
    content = content.rstrip(b"\n") + b"\n"
    write_atomically(path, content + _MARK + b"%08x\n" % crc32c(content), mode)


def read_checkpoint(path: Path, remedy: str) -> bytes | None:
    """The content, None when there is no such file. Raises DamagedFileError, and OSError when it cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    content, mark, checksum = data.rpartition(_MARK)
    if not mark:
        damage = "its last line, the checksum, is missing: it was cut short, or written by an earlier version"
        raise DamagedFileError(path, damage, remedy)
    if checksum != b"%08x\n" % crc32c(content):
        raise DamagedFileError(path, "its checksum does not fit its content", remedy)
    return content


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace a small file: after a crash it has the old content or the new, never a part.

    Makes its folder, too. Raises KafkaStorageError; then the file is as it was.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)  # or its mode would stay
        temporary.touch(mode)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        try:
            temporary.unlink(missing_ok=True)  # a full disk has no room for it
        except OSError:
            pass
        raise KafkaStorageError(f"cannot write to {path}: {error}") from error


def set_aside(path: Path, torn: bytes) -> Path:
    """Keep the end of a file that is about to be cut off, and return the new file's path. Raises OSError.

    No client was told that the broker has these bytes; but if they are damaged rather than torn, they are not lost.
    """
    kept_in = next(new for number in count(1) if not (new := path.with_name(f"{path.stem}.torn-{number}")).exists())
    kept_in.write_bytes(torn)
    return kept_in
