"""``ServerProcess``: the life of a program that serves a port of this machine, for tests; a KDC, PostgreSQL.

Owns the directory, the port, the process and its console. Knows nothing of the service: a subclass writes the
configuration, gives the command and says when the server answers.

Rule: neither process nor files outlive the owner: a ``Watchdog`` ends the process and removes the directory.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from .ports import LOOPBACK, free_port
from .watchdog import Watchdog

__all__ = ["ServerProcess"]


class ServerProcess(ABC):
    """A server that runs between the ends of a ``with`` block, with its files in a separate directory."""

    program: ClassVar[str]
    """The server's program, for messages."""
    error_class: ClassVar[type[RuntimeError]]
    """Raised when a program fails, with its output."""
    start_timeout: ClassVar[float] = 60.0
    stop_timeout: ClassVar[float] = 10.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self) -> None:
        self.port = 0
        self._directory = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix=f"aiokafkapy-{self.program}-"))
        self._watchdog = Watchdog(str(self._directory))
        try:
            self.port = free_port()
            self._prepare()
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

    def start(self) -> None:
        """Start it, at the same address as before; returns when it takes connections. Raises ``error_class``."""
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                **self._surroundings(),
            )
        assert self._watchdog is not None  # made when the block was entered
        self._watchdog.guard(self._process.pid)
        deadline = time.monotonic() + self.start_timeout
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                output = self._output().strip()
                raise self.error_class(f"{self.program} did not start: {output or 'it said nothing'}")
            time.sleep(0.02)

    def stop(self, *, kill: bool = False) -> None:
        """End it; ``kill``: by SIGKILL. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGKILL if kill else self.stop_signal)
        try:
            process.wait(self.stop_timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._watchdog is not None:
            self._watchdog.release(process.pid)

    # for subclasses

    @abstractmethod
    def _prepare(self) -> None:
        """Write the server's files, before its first start; the port is known."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """The server's program and its arguments."""

    def _surroundings(self) -> dict[str, Any]:
        """The environment, folder and user of all programs, as ``subprocess.Popen`` takes them."""
        return {}

    def _answers(self) -> bool:
        """True when the server takes connections."""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1.0):
            return True
        return False

    @property
    def _console(self) -> Path:
        return self._directory / "console.log"

    def _output(self) -> str:
        """The server's output since its start."""
        return self._console.read_text(errors="replace")

    def _run(self, *command: str, called: str) -> None:
        """Run another of its programs to its end. Raises ``error_class`` with its output, after the name ``called``."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.start_timeout,
            **self._surroundings(),
        )
        if done.returncode:
            raise self.error_class(f"{called}: {done.stderr.strip() or done.stdout.strip()}")
