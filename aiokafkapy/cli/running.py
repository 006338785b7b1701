"""Runs a command's coroutine: event loop, signals, errors, exit code (``reporting`` has the codes).

Owns the event loop of our programs (uvloop if it is installed; a program may choose the loop, a library may not), the
handling of SIGINT and SIGTERM, and the exit code. It knows no command.

Rules:

- The first signal asks the command to stop (``Stop``) and to report its work so far; the second ends it at once, as
  does the first while the command still looks for a broker (``Stop.ends_at_once``). If the loop is blocked, as by a
  write to a pipe without a reader, the process ends without a message, which might block too. That happens at the
  second signal, or a few seconds after the first if the output is not read.
- An error that a user, a file or a broker can cause is one line on stderr; a traceback means a bug of ours.
- A closed stdout (``| head``) is not an error.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from ..errors import ConfigurationError, KafkaConnectionError, KafkaError
from ..event_loops import new_event_loop
from .reporting import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, CommandError, say

if TYPE_CHECKING:
    from ..testing import TestCertificates

__all__ = ["Stop", "explained_port", "run", "say_client_tls"]

NOTICE_AFTER: Final = 1.0
"""Seconds that a command may take to stop before the user is told how to end it."""
HELD_AFTER: Final = 0.5
"""Seconds after which a loop that has not seen a signal counts as blocked: the next signal ends the process."""
STUCK_AFTER: Final = 3.0
"""Seconds after which such a process ends by itself if its output is not read: longer than a reader's pause."""


_ANSWERED: Final = ("TLS", "certificate", "security_protocol")
"""Words of errors with their own remedy: a server was reached, so the address is right."""


class Stop:
    """The user's request to stop, which commands can poll or await."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._to_cancel: asyncio.Task[object] | None = None

    @property
    def is_requested(self) -> bool:
        """True from the first SIGINT or SIGTERM on."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask the command to stop; called by the signal handler."""
        self._event.set()
        if self._to_cancel is not None:
            self._to_cancel.cancel()

    @contextmanager
    def ends_at_once(self) -> Iterator[None]:
        """Within the block a request cancels the running task: there is no work to end in order yet."""
        self._to_cancel = asyncio.current_task()
        if self.is_requested and self._to_cancel is not None:
            self._to_cancel.cancel()
        try:
            yield
        finally:
            self._to_cancel = None

    async def wait(self) -> None:
        """Returns when the user asked to stop."""
        await self._event.wait()


def run(command: Callable[[Stop], Awaitable[int]]) -> NoReturn:
    """Run a command to its end and exit with the code it returns; errors become one line on stderr."""
    with _errors_as_lines(), asyncio.Runner(loop_factory=new_event_loop) as runner:
        code = runner.run(_with_signals(command))
        # Flushed here and not at exit, where a broken pipe could not be handled any more.
        sys.stdout.flush()
    raise _exit(code)


# internals


async def _with_signals(command: Callable[[Stop], Awaitable[int]]) -> int:
    stop = Stop()
    signals = _Signals(stop, asyncio.get_running_loop(), asyncio.current_task())
    try:
        signals.take()
    except ValueError:
        # Not the main thread (a test): Ctrl-C is then KeyboardInterrupt, and ends the command at once.
        return await command(stop)
    try:
        return await command(stop)
    except asyncio.CancelledError:
        if not stop.is_requested:
            raise
        say("stopped")
        return EXIT_INTERRUPTED
    finally:
        signals.give_back()


class _Signals:
    """SIGINT and SIGTERM, taken while a command runs.

    Their handler is Python's, because the loop's would not be called while the loop is blocked.
    """

    def __init__(self, stop: Stop, loop: asyncio.AbstractEventLoop, task: asyncio.Task[int] | None) -> None:
        self._stop = stop
        self._loop = loop
        self._task = task
        self._before: dict[signal.Signals, Any] = {}
        self._notice: asyncio.TimerHandle | None = None
        self._has_alarm = False
        # The time of the first signal that the loop has not seen yet
        self._unseen_since: float | None = None

    def take(self) -> None:
        """From now on signals ask the command to stop. Raises ValueError outside the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)

    def give_back(self) -> None:
        """Restore the previous handlers."""
        if self._notice is not None:
            self._notice.cancel()
        if self._has_alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: object) -> None:
        now = time.monotonic()
        if self._unseen_since is None:
            self._unseen_since = now
            self._begin_alarms()
        elif now - self._unseen_since > HELD_AFTER:
            os._exit(EXIT_INTERRUPTED)
        self._loop.call_soon_threadsafe(self._on_seen)

    def _on_alarm(self, _number: int, _frame: object) -> None:
        if self._unseen_since is None:
            self._unseen_since = time.monotonic()
            self._loop.call_soon_threadsafe(self._on_answer)
        elif _is_output_stuck():
            os._exit(EXIT_INTERRUPTED)

    def _begin_alarms(self) -> None:
        """From now on check regularly, by the system's timer: it interrupts a blocked write. Windows has none."""
        if hasattr(signal, "setitimer") and not self._has_alarm:
            self._has_alarm = True
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, STUCK_AFTER, STUCK_AFTER)

    # asyncio callbacks

    def _on_answer(self) -> None:
        self._unseen_since = None

    def _on_seen(self) -> None:
        self._on_answer()
        if not self._stop.is_requested:
            self._notice = self._loop.call_later(NOTICE_AFTER, say, "stopping; Ctrl-C again ends it at once")
        elif self._task is not None:
            self._task.cancel()
        self._stop.request()


def _is_output_stuck() -> bool:
    """True if stdout or stderr takes no byte now."""
    outputs = (1, 2)  # which are open: see ``streams``
    return len(select.select([], outputs, [], 0)[1]) < len(outputs)


@contextmanager
def _errors_as_lines() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        _fail(str(error), error.exit_code)
    except ConfigurationError as error:
        _fail(str(error), EXIT_USAGE)
    except KafkaError as error:
        text = str(error)
        is_unreached = "no broker" in text or isinstance(error, KafkaConnectionError)
        if is_unreached and not any(word in text for word in _ANSWERED):
            text += "; is the broker running, and is --bootstrap-servers right?"
        _fail(text, EXIT_FAILED)
    except KeyboardInterrupt:
        _fail("stopped", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout has gone. Without this, Python's flush at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise _exit(EXIT_OK) from None
    except OSError as error:
        _fail(_describe(error), EXIT_FAILED)


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _fail(text: str, code: int) -> NoReturn:
    say(f"error: {text}")
    raise _exit(code) from None


@contextmanager
def explained_port(port: int) -> Iterator[None]:
    """Turn the error of a taken port, within the block, into a CommandError with advice."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise CommandError(f"port {port} is in use: give another --port, or --port 0 for a free one") from error


def say_client_tls(certificates: TestCertificates | None) -> None:
    """Print the options by which clients trust a throw-away CA, if there is one."""
    if certificates is not None:
        say(f"Clients need security.protocol=SSL and ssl.truststore.location={certificates.ca_file}")


def _exit(code: int) -> BaseException:
    """The exit of the program: typer's, if typer reads the command line."""
    typer = sys.modules.get("typer")
    return SystemExit(code) if typer is None else cast("BaseException", typer.Exit(code))
