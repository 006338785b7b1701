"""``aiokafkapy migrate --check PATH``: the changes that a program needs to move over from another client.

Owns the options and the output, a line for each place or JSON with ``--json``; ``migration`` finds them. The exit code
is 1 if changes are needed. No file is written.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from ..common import counted
from .options import AsJson
from .reporting import EXIT_FAILED, EXIT_OK
from .running import Stop, run

__all__ = ["migrate"]


def migrate(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", exists=True, help="Python files, or folders of them. Several are fine."),
    ],
    check: Annotated[bool, typer.Option("--check", help="List the necessary changes; the only mode.")] = True,
    as_json: AsJson = False,
) -> None:
    """List what changes when a program moves over from aiokafka, confluent-kafka, kafka-python or Spark's connector."""

    async def command(stop: Stop) -> int:
        from ..migration import Change, changes_by_file

        changes: list[Change] = []
        with stop.ends_at_once():
            for found in changes_by_file(paths):
                changes += found
                await asyncio.sleep(0)  # a signal is seen between two files
        if as_json:
            typer.echo(json.dumps([change._asdict() for change in changes], indent=2))
        else:
            for change in changes:
                typer.echo(f"{change.path}:{change.line}: {change.found} -> {change.advice}")
            files = len({change.path for change in changes})
            total = f"{counted(len(changes), 'change')} in {counted(files, 'file')}" if changes else "nothing to change"
            typer.echo(total, err=True)
        return EXIT_FAILED if changes else EXIT_OK

    run(command)
