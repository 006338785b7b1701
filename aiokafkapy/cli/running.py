"""Runs a command's coroutine: the loop, the signals, and what an error looks like.

Owns the event loop of our programs (uvloop when it is installed; a library never sets the user's loop, a program may),
the meaning of SIGINT and SIGTERM, and the exit code. Knows no command.

Rules:
- the first signal asks the command to stop (`Stop`), which then says what it has done; the second ends it at once, as
  does the first while the command still looks for a broker (`Stop.ends_at_once`);
- what a user, a file or a broker can cause ends as one line on stderr; a traceback means a bug of ours;
- a closed stdout (`| head`) is not an error.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import typer

from ..errors import ConfigurationError, KafkaConnectionError, KafkaError

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_OK", "EXIT_USAGE", "CommandError", "Stop", "counted", "run", "say"]

NOTICE_AFTER: Final = 1.0
"""Seconds that a command may take to stop before the user is told how to end it."""
EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
"""128 + SIGINT, as shells have it."""


class CommandError(Exception):
    """A command cannot do what it was asked; the text is for the user and says what to do."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Stop:
    """Whether the user asked to stop, for commands to look at and to wait on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._to_cancel: asyncio.Task[Any] | None = None

    @property
    def is_requested(self) -> bool:
        """True from the first SIGINT or SIGTERM on."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask the command to end; what a signal does."""
        self._event.set()
        if self._to_cancel is not None:
            self._to_cancel.cancel()

    @contextmanager
    def ends_at_once(self) -> Iterator[None]:
        """Within the block a request cancels the running task: nothing was done yet that is worth an orderly end."""
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
    with _errors_as_lines(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(_with_signals(command))
        # Here and not at exit: a reader that has gone away is noticed while it can still be handled.
        sys.stdout.flush()
    raise typer.Exit(code)


def say(text: str) -> None:
    """A line for the user on stderr, so that stdout stays the result."""
    typer.echo(text, err=True)


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural when it is due."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# internals


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _with_signals(command: Callable[[Stop], Awaitable[int]]) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    this = asyncio.current_task()
    notices: list[asyncio.TimerHandle] = []

    def on_signal() -> None:
        if stop.is_requested and this is not None:
            this.cancel()
        elif not stop.is_requested:
            notices.append(loop.call_later(NOTICE_AFTER, say, "stopping; Ctrl-C again ends it at once"))
        stop.request()

    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
    except (NotImplementedError, ValueError, RuntimeError):
        # Windows, or not the main thread (a test): Ctrl-C is then KeyboardInterrupt, and ends the command at once.
        return await command(stop)
    try:
        return await command(stop)
    except asyncio.CancelledError:
        if not stop.is_requested:
            raise
        say("stopped")
        return EXIT_INTERRUPTED
    finally:
        for notice in notices:
            notice.cancel()
        for number in numbers:
            loop.remove_signal_handler(number)


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
        if "no broker" in text or isinstance(error, KafkaConnectionError):
            text += "; is the broker running, and is --bootstrap-servers right?"
        _fail(text, EXIT_FAILED)
    except KeyboardInterrupt:
        _fail("stopped", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Nobody reads our stdout any more. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(EXIT_OK) from None
    except OSError as error:
        _fail(_describe(error), EXIT_FAILED)


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _fail(text: str, code: int) -> NoReturn:
    say(f"error: {text}")
    raise typer.Exit(code) from None
