"""The ACLs and the SCRAM credentials of a cluster in its data folder.

Owns the file ``acls``, one ACL a line, as JSON, and the file ``scram-credentials``, which its owner alone may read: a
line has the mechanism, the user and the credential as Kafka writes it. Knows nothing of their meaning. Kafka's
counterparts are the ``AccessControlEntryRecord`` and ``UserScramCredentialRecord`` of its metadata log.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from ...errors import ConfigurationError, InvalidRequestError
from ...security.sasl.scram_credential import ScramCredential
from ..storage.checkpoint_file import DamagedFileError, read_checkpoint, write_checkpoint
from .acls import AclBinding, check_binding

__all__ = ["AclFile", "ScramFile"]

_REMEDY: Final = "delete it to start without ACLs"
_SCRAM_REMEDY: Final = "delete it to start with the users of sasl_users only"

ScramCredentials = Mapping[str, Mapping[str, ScramCredential | None]]
"""The credentials, by mechanism and user; None for one that was taken away."""


class AclFile:
    """Keeps ACLs; in no file without a ``data_dir``."""

    __slots__ = ("_path",)

    def __init__(self, data_dir: Path | None) -> None:
        self._path = None if data_dir is None else data_dir / "acls"

    def load(self) -> list[AclBinding]:
        """The ACLs of the file. Raises DamagedFileError, and OSError when it cannot be read."""
        content = None if self._path is None else read_checkpoint(self._path, _REMEDY)
        if self._path is None or content is None:
            return []
        try:
            lines = [json.loads(line) for line in content.splitlines() if line]
            return [check_binding(**dict(zip(AclBinding._fields, line, strict=True))) for line in lines]
        except (ValueError, TypeError, InvalidRequestError) as error:
            raise DamagedFileError(self._path, f"a line of it is not an ACL ({error})", _REMEDY) from None

    def save(self, bindings: Collection[AclBinding]) -> None:
        """Replace the ACLs of the file. Raises KafkaStorageError; then it is as it was."""
        if self._path is not None:
            _replace(self._path, [json.dumps(binding) for binding in bindings])


class ScramFile:
    """Keeps SCRAM credentials; in no file without a ``data_dir``."""

    __slots__ = ("_path",)

    def __init__(self, data_dir: Path | None) -> None:
        self._path = None if data_dir is None else data_dir / "scram-credentials"

    def load(self) -> dict[str, dict[str, ScramCredential | None]]:
        """The credentials of the file. Raises DamagedFileError, and OSError when it cannot be read."""
        found: dict[str, dict[str, ScramCredential | None]] = {}
        content = None if self._path is None else read_checkpoint(self._path, _SCRAM_REMEDY)
        if self._path is None or content is None:
            return found
        try:
            for line in filter(None, content.splitlines()):
                mechanism, user, text = json.loads(line)
                credential = None if text is None else ScramCredential.parse(text)
                found.setdefault(mechanism, {})[user] = credential
        except (ValueError, TypeError, AttributeError, ConfigurationError):
            # Not the error's words: they may have a part of a key in them.
            raise DamagedFileError(self._path, "a line of it is not a credential", _SCRAM_REMEDY) from None
        return found

    def save(self, credentials: ScramCredentials) -> None:
        """Replace the credentials of the file. Raises KafkaStorageError; then it is as it was."""
        if self._path is None:
            return
        lines = [
            json.dumps([mechanism, user, None if credential is None else credential.format()])
            for mechanism, users in credentials.items()
            for user, credential in users.items()
        ]
        _replace(self._path, lines, mode=0o600)


def _replace(path: Path, lines: Collection[str], mode: int = 0o644) -> None:
    write_checkpoint(path, "\n".join(lines).encode(), mode)
