"""A command's end: exit codes, and errors as one line."""

from __future__ import annotations

import os
import signal

import pytest
import typer

from aiokafkapy.cli.reporting import EXIT_INTERRUPTED, CommandError
from aiokafkapy.cli.running import Stop, run
from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, KafkaError, MetadataTimeoutError


def exit_code_of(error: BaseException | int) -> int:
    async def command(stop: Stop) -> int:
        if isinstance(error, BaseException):
            raise error
        return error

    with pytest.raises(typer.Exit) as caught:
        run(command)
    return caught.value.exit_code


@pytest.mark.parametrize("code", [0, 1])
def test_the_code_is_the_command_s_result(code: int) -> None:
    assert exit_code_of(code) == code


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CommandError("do this"), 1, "error: do this\n"),
        (CommandError("not so", 2), 2, "error: not so\n"),
        (ConfigurationError("linger_ms=x"), 2, "error: linger_ms=x\n"),
        (KafkaError("no"), 1, "error: no\n"),
        (
            MetadataTimeoutError("no broker"),
            1,
            "error: no broker; is the broker running, and is --bootstrap-servers right?\n",
        ),
        (KafkaConnectionError("h:1 speaks TLS: do this"), 1, "error: h:1 speaks TLS: do this\n"),
        (MetadataTimeoutError("no broker: a certificate"), 1, "error: no broker: a certificate\n"),
        (FileNotFoundError(2, "No such file or directory", "a.csv"), 1, "error: a.csv: No such file or directory\n"),
        (KeyboardInterrupt(), 130, "error: stopped\n"),
    ],
)
def test_an_error_is_one_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(error) == code
    assert capsys.readouterr().err == line


def test_a_bug_is_not_hidden() -> None:
    async def command(stop: Stop) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(command)


def test_the_first_signal_asks_the_command_to_stop_and_the_second_ends_it() -> None:
    seen: list[bool] = []

    async def polite(stop: Stop) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        seen.append(stop.is_requested)
        return 7

    with pytest.raises(typer.Exit) as caught:
        run(polite)
    assert (seen, caught.value.exit_code) == ([True], 7)

    async def stubborn(stop: Stop) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await Stop().wait()
        return 0

    with pytest.raises(typer.Exit) as caught:
        run(stubborn)
    assert caught.value.exit_code == EXIT_INTERRUPTED
