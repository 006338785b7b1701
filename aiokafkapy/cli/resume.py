"""``aiokafkapy produce --resume FILE``: sends the records that a service had not delivered when it ended.

Owns the sending and the summary; ``integrations.undelivered`` has the file's form.

Rules: records are sent in the order of the file. Each is marked in the file once it is acknowledged, so that the next
run continues a stopped or killed one: after a kill between the two the record is sent again. A line that cannot be
sent is reported and stays unmarked; the exit code is then 1.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from ..common import counted
from ..integrations.undelivered import StoredRecord, UndeliveredFile
from .producing import FIRST_FEW, Sending, started_producer
from .progress import progress
from .reporting import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, CommandError, say
from .running import Stop, run

if TYPE_CHECKING:
    from ..producer.producer import KafkaProducer
    from ..producer.records import RecordMetadata

__all__ = ["resume_file"]

MAX_UNCONFIRMED: Final = 1_000
"""The most records that are sent and not marked yet: at most so many are sent again after a kill."""


@dataclass(slots=True)
class Resumed:
    """The outcome so far."""

    sent: int = 0
    failed: int = 0

    def note_failed(self, record: StoredRecord, reason: str) -> None:
        """Count and report a line that was not sent."""
        self.failed += 1
        if self.failed <= FIRST_FEW:
            say(f"line {record.line}: {reason}")


def resume_file(
    path: Path,
    topic: str | None,
    properties: Mapping[str, object],
    timeout: float,
    *,
    quiet: bool = False,
    as_json: bool = False,
) -> NoReturn:
    """Run the command to its end. Exits with code 2 for a ``topic``, which would have no effect."""
    if topic is not None:
        raise typer.BadParameter("the records of the file name their topics: give no TOPIC", param_hint="--resume")

    async def command(stop: Stop) -> int:
        resumed = Resumed()
        with _opened(path) as file:
            async with started_producer(properties, timeout, stop) as producer:
                with progress("sending", None, is_shown=not quiet) as bar:
                    await _send(producer, file, resumed, stop)
                    bar.update(resumed.sent)
        if as_json:
            typer.echo(json.dumps({"file": str(path), "sent": resumed.sent, "failed": resumed.failed}))
        if not quiet:
            _summarize(path, resumed, stop)
        if stop.is_requested:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if resumed.failed else EXIT_OK

    run(command)


# internals


def _opened(path: Path) -> UndeliveredFile:
    try:
        return UndeliveredFile(path)
    except BlockingIOError:
        raise CommandError(f"{path} is being resumed by another process") from None


async def _send(producer: KafkaProducer[Any, Any], file: UndeliveredFile, resumed: Resumed, stop: Stop) -> None:
    def note_delivered(record: StoredRecord, _: RecordMetadata) -> None:
        file.mark(record.position)
        resumed.sent += 1

    sending = Sending(producer, note_delivered, resumed.note_failed)
    try:
        for record in file.pending():
            if stop.is_requested:
                break
            if record.problem is not None:
                resumed.note_failed(record, record.problem)
                continue
            await sending.send(record.topic, record)
            if len(sending) >= MAX_UNCONFIRMED:
                await sending.confirm(0)
                await asyncio.to_thread(file.sync)
        await sending.confirm(0)
        await asyncio.to_thread(file.sync)
    finally:
        # After a second Ctrl-C the known outcomes are marked.
        for record in sending.delivered():
            file.mark(record.position)
        file.sync()


def _summarize(path: Path, resumed: Resumed, stop: Stop) -> None:
    ending = "stopped; " if stop.is_requested else ""
    say(f"{ending}{counted(resumed.sent, 'record')} of {path} sent, and marked there")
    if resumed.failed:
        say(f"{counted(resumed.failed, 'line')} failed")
    elif not stop.is_requested:
        say("nothing is left in it: it may be removed")
