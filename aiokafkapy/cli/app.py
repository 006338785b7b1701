"""The program: all commands assembled.

Owns the names of the commands, the global options (``--version``, ``--log-level``, ``--log-format``) and the help text;
each command's options are in its own file.
"""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from .._form import compiled
from ..observability.programs import LogFormat, LogLevel
from .broker import broker
from .cluster import cluster
from .console import console
from .declared_options import for_typer
from .demo import demo
from .doctor import doctor
from .explain import explain
from .late_logging import configure_late
from .migrate import migrate
from .perf import perf
from .pipeline import pipeline
from .produce import produce
from .read import read
from .record import record
from .replay import replay
from .topics import topics

__all__ = ["app"]

app = typer.Typer(
    help="Kafka from the command line: a broker for your laptop, producing, reading, topics, and a speed test.",
    epilog="Start with: aiokafkapy broker",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(
            f"aiokafkapy {importlib.metadata.version('aiokafkapy')} ({'compiled' if compiled else 'interpreted'})"
        )
        raise typer.Exit


@app.callback()
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


app.command()(for_typer(broker))
app.command()(for_typer(console))
app.command()(produce)
app.command()(read)
app.add_typer(topics, name="topics")
app.command()(cluster)
app.command()(perf)
app.command()(doctor)
app.command()(explain)
app.command()(migrate)
app.command()(record)
app.command()(replay)
app.command()(for_typer(demo))
app.command()(pipeline)
