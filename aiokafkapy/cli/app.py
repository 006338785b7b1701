"""The program: all commands assembled, or only the requested one.

Owns the names of the commands, the global options (``--version``, ``--log-level``, ``--log-format``) and the help text;
each command's options are in its own file.

Rule: a command line that names a command imports no other command's file, and typer reads no other command's options.
That saves a tenth of the time of a short command.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Collection, Sequence
from typing import Annotated, Final

import typer

from .._form import compiled
from ..observability.programs import LogFormat, LogLevel
from .declared_options import for_typer
from .late_logging import configure_late

__all__ = ["COMMANDS", "app_for", "new_app"]

COMMANDS: Final = (
    "broker",
    "console",
    "produce",
    "read",
    "topics",
    "cluster",
    "perf",
    "doctor",
    "explain",
    "migrate",
    "record",
    "replay",
    "demo",
    "pipeline",
)
"""The commands in the order of the help; each is a function, or a group of commands, in the module of its name."""

_DECLARED: Final = frozenset(["broker", "console", "demo"])
"""The commands whose options are ``declared_options``."""

_WITH_VALUE: Final = ("--log-level", "--log-format")
"""The global options that a command's name may follow."""


def new_app(names: Collection[str] = COMMANDS) -> typer.Typer:
    """The program with these commands."""
    app = typer.Typer(
        help="Kafka from the command line: a broker for your laptop, producing, reading, topics, and a speed test.",
        epilog="Start with: aiokafkapy broker",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(common)
    for name in names:
        command = getattr(importlib.import_module(f".{name}", __package__), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command()(for_typer(command) if name in _DECLARED else command)
    return app


def app_for(words: Sequence[str]) -> typer.Typer:
    """The program for this command line: with the command that it names, or with all commands for help or a mistake."""
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith(_WITH_VALUE):
            return new_app([word]) if word in COMMANDS else new_app()
    return new_app()


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(
            f"aiokafkapy {importlib.metadata.version('aiokafkapy')} ({'compiled' if compiled else 'interpreted'})"
        )
        raise typer.Exit


def common(
    context: typer.Context,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="From which level on events are shown, on stderr.")
    ] = LogLevel.WARNING,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Lines for people, coloured on a terminal, or JSON.")
    ] = LogFormat.CONSOLE,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Kafka from the command line: a broker for your laptop, producing, reading, topics, and a speed test."""
    context.call_on_close(configure_late(log_format, log_level))
