"""A real PostgreSQL server for tests, on a free port of this machine, with its data in a directory of its own.

    with PostgreSQL() as server:
        engine = create_async_engine(server.url("asyncpg"))

Needs the programs of Debian's package postgresql, which need not be in PATH: see ``PostgreSQL.unavailable_reason()``.

Rules: a server that runs on this machine is neither used nor changed. Nothing is synced to disk, since it need not
outlive the machine. PostgreSQL refuses to run as root: its programs then run as the user ``postgres``. Nothing outlives
the owner: a ``Watchdog`` ends the server and removes its files.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

from .ports import LOOPBACK, free_port
from .watchdog import Watchdog

__all__ = ["PostgreSQL", "PostgreSQLError"]

START_TIMEOUT: Final = 60.0
STOP_TIMEOUT: Final = 10.0
USER: Final = "aiokafkapy"
_DEBIAN: Final = Path("/usr/lib/postgresql")
_PROGRAMS: Final = ("initdb", "postgres")
_INITDB: Final = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
_OPTIONS: Final = ("fsync=off", "full_page_writes=off", "max_connections=60", "unix_socket_directories=", "jit=off")


class PostgreSQLError(RuntimeError):
    """One of PostgreSQL's programs failed; the message has its output."""


class PostgreSQL:
    """A server with an empty database ``postgres``; enter it with ``with``."""

    def __init__(self) -> None:
        self.port = 0
        self._directory = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @staticmethod
    def unavailable_reason() -> str | None:
        """What is missing for a server here, or None."""
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
        self._directory = Path(tempfile.mkdtemp(prefix="aiokafkapy-postgresql-"))
        self._watchdog = Watchdog(str(self._directory))
        try:
            user = _user_for_root()
            if user is not None:
                os.chown(self._directory, user.pw_uid, user.pw_gid)
            self._make()
            self.port = free_port()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    def url(self, driver: str, database: str = "postgres") -> str:
        """The address for SQLAlchemy with this driver: ``asyncpg``, ``psycopg``."""
        return f"postgresql+{driver}://{USER}@{LOOPBACK}:{self.port}/{database}"

    def start(self) -> None:
        """Start it, at the same address as before; returns when it takes connections."""
        options = [part for option in _OPTIONS for part in ("-c", option)]
        console = self._directory / "console.log"
        with console.open("ab") as log:
            self._process = subprocess.Popen(
                [str(_path_of("postgres")), "-D", str(self._data), "-h", LOOPBACK, "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self._directory,
                **_as_another_user(),
            )
        assert self._watchdog is not None  # made just before
        self._watchdog.guard(self._process.pid)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers(console):
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = console.read_text(errors="replace")
                raise PostgreSQLError(f"postgres did not start: {said.strip() or 'it said nothing'}")
            time.sleep(0.02)

    def stop(self, *, kill: bool = False) -> None:
        """End it at once, as a crash does: open transactions are rolled back when it starts again. ``kill``: by
        SIGKILL. Idempotent.
        """
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGKILL if kill else signal.SIGQUIT)
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._watchdog is not None:
            self._watchdog.release(process.pid)
        # Its processes for connections notice, and end a moment later.
        deadline = time.monotonic() + STOP_TIMEOUT
        while kill and self._is_in_use() and time.monotonic() < deadline:
            time.sleep(0.02)
        (self._directory / "console.log").unlink(missing_ok=True)

    # internals

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _make(self) -> None:
        done = subprocess.run(
            [str(_path_of("initdb")), "-D", str(self._data), "-U", USER, *_INITDB],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_TIMEOUT,
            cwd=self._directory,
            **_as_another_user(),
        )
        if done.returncode:
            raise PostgreSQLError(f"initdb: {done.stderr.strip() or done.stdout.strip()}")

    def _answers(self, console: Path) -> bool:
        if "ready to accept connections" not in console.read_text(errors="replace"):
            return False
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1.0):
            return True
        return False

    def _is_in_use(self) -> bool:
        """Whether a process of a killed server is still there."""
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


def _as_another_user() -> dict[str, Any]:
    user = _user_for_root()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
