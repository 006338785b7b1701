"""Plain command lines, read as typer reads them."""

from __future__ import annotations

import functools
import inspect
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from aiokafkapy.cli.broker import broker
from aiokafkapy.cli.declared_options import Option, for_typer, parsed


def as_typer_reads(words: list[str]) -> dict[str, Any]:
    """The arguments that typer calls the broker's command with."""
    found: dict[str, Any] = {}

    @functools.wraps(broker)
    def take(**arguments: Any) -> None:
        found.update(arguments)

    app = typer.Typer()
    app.command()(for_typer(take))
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return found


LINES = [
    "",
    "--port 0",
    "-p 9092 -n 3",
    "--nodes=2 --port=19092",
    "--topic a --topic b:3 -t c",
    "-X num.partitions=6 --config @file",
    "--data-dir /tmp/x --host 0.0.0.0 --advertised-host me",
    "--tls --user a=b --user c=d --authorizer --super-user a",
    "--listener A=SSL://h:1 -l B=PLAINTEXT://h:2",
    "--emulate 2.8 --console --console-address h:1 --console-token 0123456789abcdef --schema-registry http://h",
    "--port 1 --port 2",
    "--user name=pass=word",
]


@pytest.mark.parametrize("line", LINES)
def test_a_plain_line_is_read_as_typer_reads_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOKAFKAPY_CONSOLE_TOKEN", raising=False)
    defaults = {name: each.default for name, each in inspect.signature(broker).parameters.items()}
    found = parsed(broker, line.split())
    assert found is not None
    assert {**defaults, **found} == as_typer_reads(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "--help", "-h", "--prot 1", "extra", "--port", "--port x", "--port -1", "--port 70000", "--nodes 0", "-p9092",
        "--no-tls", "--tls=yes", "--topic --tls", "--port ٣", "--", "--show-completion",
    ],
)  # fmt: skip
def test_all_else_is_left_to_typer(line: str) -> None:
    assert parsed(broker, line.split()) is None


def test_where_the_environment_has_a_say_typer_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOKAFKAPY_CONSOLE_TOKEN", "0123456789abcdef")
    assert parsed(broker, ["--console"]) is None


def test_a_command_may_declare_some_options_by_typer_itself() -> None:
    found: dict[str, Any] = {}

    def command(
        with_report: Annotated[bool, typer.Option("--report/--no-report")] = True,
        nodes: Annotated[int, Option("--nodes", "-n", min=1)] = 3,
    ) -> None:
        found.update(with_report=with_report, nodes=nodes)

    app = typer.Typer()
    app.command()(for_typer(command))
    assert CliRunner().invoke(app, ["--no-report", "-n", "2"]).exit_code == 0
    assert found == {"with_report": False, "nodes": 2}
