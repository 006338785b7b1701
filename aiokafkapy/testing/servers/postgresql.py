"""A real PostgreSQL server for tests, on a free port of this machine, with its data in a separate directory.

    with PostgreSQL() as server:
        engine = create_async_engine(server.url("asyncpg"))

Needs the programs of Debian's package postgresql, which need not be in PATH: see ``PostgreSQL.unavailable_reason()``.

Rules: a server that runs on this machine is neither used nor changed. The data is not synced to disk, since it need
not outlive the machine. PostgreSQL refuses to run as root: its programs then run as the user ``postgres``.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from .ports import LOOPBACK
from .server_process import ServerProcess

__all__ = ["PostgreSQL", "PostgreSQLError"]

USER: Final = "aiokafkapy"
_DEBIAN: Final = Path("/usr/lib/postgresql")
_PROGRAMS: Final = ("initdb", "postgres")
_INITDB: Final = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
_OPTIONS: Final = ("fsync=off", "full_page_writes=off", "max_connections=60", "unix_socket_directories=", "jit=off")


class PostgreSQLError(RuntimeError):
    """One of PostgreSQL's programs failed; the message has its output."""


class PostgreSQL(ServerProcess):
    """A server with an empty database ``postgres``; enter it with ``with``."""

    program = "postgres"
    error_class = PostgreSQLError
    stop_signal = signal.SIGQUIT

    @staticmethod
    def unavailable_reason() -> str | None:
        """The missing requirements of a server here, or None."""
        missing = [program for program in _PROGRAMS if _path_of(program) is None]
        if missing:
            return f"{', '.join(missing)} not found (Debian: postgresql)"
        if os.geteuid() == 0 and _user_for_root() is None:
            return "PostgreSQL does not run as root, and there is no user postgres"
        return None

    def __enter__(self) -> Self:
        reason = self.unavailable_reason()
        if reason is not None:
            raise PostgreSQLError(f"there is no PostgreSQL here: {reason}")
        return super().__enter__()

    def url(self, driver: str, database: str = "postgres") -> str:
        """The address for SQLAlchemy with this driver: ``asyncpg``, ``psycopg``."""
        return f"postgresql+{driver}://{USER}@{LOOPBACK}:{self.port}/{database}"

    def stop(self, *, kill: bool = False) -> None:
        """End it at once, as a crash does: open transactions are rolled back when it starts again. ``kill``: by
        SIGKILL. Idempotent.
        """
        if self._process is None:
            return
        super().stop(kill=kill)
        # Its processes for connections notice, and end a moment later.
        deadline = time.monotonic() + self.stop_timeout
        while kill and self._is_in_use() and time.monotonic() < deadline:
            time.sleep(0.02)
        self._console.unlink(missing_ok=True)

    # internals of ServerProcess

    def _prepare(self) -> None:
        user = _user_for_root()
        if user is not None:
            os.chown(self._directory, user.pw_uid, user.pw_gid)
        self._run(str(_path_of("initdb")), "-D", str(self._data), "-U", USER, *_INITDB, called="initdb")

    def _command(self) -> Sequence[str]:
        options = [part for option in _OPTIONS for part in ("-c", option)]
        return [str(_path_of(self.program)), "-D", str(self._data), "-h", LOOPBACK, "-p", str(self.port), *options]

    def _surroundings(self) -> dict[str, object]:
        return {"cwd": self._directory, **_as_another_user()}

    def _answers(self) -> bool:
        return "ready to accept connections" in self._output() and super()._answers()

    # internals

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _is_in_use(self) -> bool:
        """True if a process of a killed server is still running."""
        data = str(self._data)
        for path in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if str(path.readlink()) == data:
                    return True
        return False


def _path_of(program: str) -> Path | None:
    found = shutil.which(program)
    if found is not None:
        return Path(found)
    installed = sorted(_DEBIAN.glob(f"*/bin/{program}"), key=lambda path: int(path.parts[-3]))
    return installed[-1] if installed else None


def _user_for_root() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return None


def _as_another_user() -> dict[str, object]:
    user = _user_for_root()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
