"""The ACLs of a cluster in its data folder.

Owns the file `acls`: one ACL a line, as JSON. Knows nothing of what they mean. Kafka's counterpart is the
`AccessControlEntryRecord` of its metadata log.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Final

from ...errors import InvalidRequestError, KafkaStorageError
from ..storage.checkpoint_file import DamagedFileError, read_checkpoint, write_checkpoint
from .acls import AclBinding, check_binding

__all__ = ["AclFile"]

_REMEDY: Final = "delete it to start without ACLs"


class AclFile:
    """Where ACLs are kept; in no file without a `data_dir`."""

    __slots__ = ("_path",)

    def __init__(self, data_dir: Path | None) -> None:
        self._path = None if data_dir is None else data_dir / "acls"

    def load(self) -> list[AclBinding]:
        """The ACLs of the file. Raises DamagedFileError, and OSError when it cannot be read."""
        content = None if self._path is None else read_checkpoint(self._path, _REMEDY)
        if self._path is None or content is None:
            return []
        try:
            return [check_binding(*json.loads(line)) for line in content.splitlines() if line]
        except (ValueError, TypeError, InvalidRequestError) as error:
            raise DamagedFileError(self._path, f"a line of it is no ACL ({error})", _REMEDY) from None

    def save(self, bindings: Collection[AclBinding]) -> None:
        """Replace the ACLs of the file. Raises KafkaStorageError; then it is as it was."""
        if self._path is None:
            return
        try:
            write_checkpoint(self._path, "".join(f"{json.dumps(binding)}\n" for binding in bindings).encode())
        except OSError as error:
            raise KafkaStorageError(f"cannot write to {self._path}: {error}") from error
