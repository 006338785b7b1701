"""``aiokafkapy produce``: lines, CSV or JSON lines, from files or stdin, to a topic.

Owns the options, the sending and the summary; ``sources`` turns lines into records.

Rules:

- Records are sent in the order of the input, and lines of stdin as soon as they arrive.
- A line that cannot be sent is written with the reason to the file of ``--failed``, or reported on stderr, and the
  others are still sent.
- The summary counts records as sent once the broker has acknowledged them. The exit code is 1 if a line failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeAlias

import typer

from ..common import counted
from ..errors import KafkaError
from .input_lines import STDIN, is_regular_file, lines_of, stat_of
from .input_queue import feed
from .options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT,
    BootstrapServers,
    ConfigEntries,
    Timeout,
    client_options,
)
from .producing import FIRST_FEW, Sending, started_producer
from .progress import Progress, progress
from .properties import parse_pairs
from .reporting import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, CommandError, say
from .running import Stop, run
from .sources import FORMATS, InputRecord, RecordShape, RejectedLine, format_of, read_records

if TYPE_CHECKING:
    from ..producer.producer import KafkaProducer
    from ..producer.records import RecordMetadata

__all__ = ["Outcome", "produce"]

MAX_UNCONFIRMED = 20_000
"""The most records with an unchecked delivery; the producer's buffer_memory bounds their bytes."""

Block: TypeAlias = list[InputRecord | RejectedLine]


@dataclass(slots=True)
class Outcome:
    """The outcome of the input, and of each partition by its number."""

    failed_file: TextIO | None = None
    sent: int = 0
    failed: int = 0
    bytes: int = 0
    partitions: dict[int, PartitionOutcome] = field(default_factory=dict)

    def note_delivered(self, record: InputRecord, metadata: RecordMetadata) -> None:
        """Count a record that the broker has acknowledged."""
        self.sent += 1
        self.bytes += len(record.key or b"") + len(record.value or b"")
        offset = metadata.offset
        found = self.partitions.get(metadata.partition)
        if found is None:
            found = self.partitions[metadata.partition] = PartitionOutcome(first_offset=offset, last_offset=offset)
        found.note(offset)

    def note_failed(self, item: InputRecord | RejectedLine, reason: str) -> None:
        """Count a line that was not sent, or whose outcome is unknown; the reason says which."""
        self.failed += 1
        if self.failed_file is None:
            if self.failed <= FIRST_FEW:
                say(f"{item.line.source}:{item.line.number}: {reason}")
            elif self.failed == FIRST_FEW + 1:
                say("more lines failed; give --failed FILE to keep them all")
            return
        source, number, text = item.line
        entry = {"source": source, "line": number, "reason": reason, "text": text.decode(errors="backslashreplace")}
        self.failed_file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def as_json(self, topic: str, seconds: float) -> dict[str, object]:
        """The summary for programs."""
        return {
            "topic": topic,
            "sent": self.sent,
            "failed": self.failed,
            "bytes": self.bytes,
            "seconds": round(seconds, 3),
            "partitions": {number: asdict(found) for number, found in sorted(self.partitions.items())},
        }


@dataclass(slots=True, kw_only=True)
class PartitionOutcome:
    """The records that one partition acknowledged."""

    records: int = 0
    first_offset: int
    last_offset: int

    def note(self, offset: int) -> None:
        """Count a record."""
        self.records += 1
        self.first_offset = min(self.first_offset, offset)
        self.last_offset = max(self.last_offset, offset)


# The options with their help texts, to keep the command's signature short.
Topic = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic to write to; with --resume the records name theirs.")
]
Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILES]...", help="Files to read, or - for stdin, which is the default."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help=f"{', '.join(FORMATS)}; otherwise by the file's ending, else lines."),
]
Key = Annotated[str | None, typer.Option("--key", "-k", help="The column or field that is the key.")]
KeySeparator = Annotated[str | None, typer.Option("--key-separator", help="For lines: the text between key and value.")]
Value = Annotated[
    str | None, typer.Option("--value", help="The column or field that is the value; otherwise the whole line.")
]
Header = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for every record.")
]
HeaderField = Annotated[
    list[str] | None,
    typer.Option(
        "--header-field",
        metavar="NAME=FIELD",
        help="A header from a column or field of each line; NAME=FIELD? leaves it out where there is none.",
    ),
]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Write to this partition.")]
PartitionField = Annotated[
    str | None, typer.Option("--partition-field", help="The column or field with the partition's number.")
]
TimestampField = Annotated[
    str | None,
    typer.Option("--timestamp-field", help="The column or field with the time: milliseconds, or ISO 8601."),
]
Null = Annotated[
    str | None, typer.Option("--null", help="The text that means null, such as NA; a null value is a tombstone.")
]
Delimiter = Annotated[str, typer.Option("--delimiter", help=r"Between the columns of a CSV; \t for a tab.")]
Columns = Annotated[str | None, typer.Option("--columns", help="Names for a CSV that has no header line: a,b,c.")]
Failed = Annotated[
    Path | None, typer.Option("--failed", help="Write lines that failed to this file, as JSON with the reason.")
]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", help="Send a service's undelivered records, from its file, and mark the sent ones."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
# Not ``options.AsJson``: the text of the summary is on stderr.
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")]


def produce(
    topic: Topic = None,
    files: Files = None,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    kind: Format = None,
    key: Key = None,
    key_separator: KeySeparator = None,
    value: Value = None,
    header: Header = None,
    header_field: HeaderField = None,
    partition: Partition = None,
    partition_field: PartitionField = None,
    timestamp_field: TimestampField = None,
    null: Null = None,
    delimiter: Delimiter = ",",
    columns: Columns = None,
    failed: Failed = None,
    resume: Resume = None,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    quiet: Quiet = False,
    as_json: SummaryAsJson = False,
) -> None:
    """Write lines, CSV rows or JSON lines to a topic, from files or stdin.

    A row of a CSV becomes a JSON object unless --value names a column. Lines that fail do not stop the rest.
    """
    options = client_options(bootstrap_servers, config, is_producer=True)
    if resume is not None:
        from .resume import resume_file

        resume_file(resume, topic, options, timeout, quiet=quiet, as_json=as_json)
    if topic is None:
        raise typer.BadParameter("a topic is missing", param_hint="TOPIC")
    shape = RecordShape(
        key_field=key,
        key_separator=None if key_separator is None else os.fsencode(_unescaped(key_separator)),
        value_field=value,
        headers=tuple((name, os.fsencode(text)) for name, text in parse_pairs(header, "--header").items()),
        header_fields=parse_pairs(header_field, "--header-field"),
        partition=partition,
        partition_field=partition_field,
        timestamp_field=timestamp_field,
        null_text=null,
        delimiter=_unescaped(delimiter),
        columns=None if columns is None else columns.split(","),
    )
    inputs = Inputs(files or [STDIN], kind, shape)
    inputs.check(failed)

    async def command(stop: Stop) -> int:
        begun = time.perf_counter()
        async with started_producer(options, timeout, stop) as producer:
            with open_for_failed(failed) if failed is not None else contextlib.nullcontext() as failed_file:
                outcome = Outcome(failed_file)
                with progress("sending", None, is_shown=not quiet) as bar:
                    await inputs.send(producer, topic, outcome, bar, stop)
        return _conclude(outcome, topic, time.perf_counter() - begun, stop, quiet=quiet, as_json=as_json)

    run(command)


# internals


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files to read, ``-`` for stdin, and the form of their lines; ``kind`` None goes by each file's ending."""

    names: list[str]
    kind: str | None
    shape: RecordShape

    def check(self, failed: Path | None) -> None:
        """Exit with code 2 for options that do not fit together. ``failed`` is the file for failed lines."""
        if failed is not None:
            self._check_kept(failed)
        shape = self.shape
        if self.kind is not None and self.kind not in FORMATS:
            raise typer.BadParameter(f"{self.kind!r} is not one of {', '.join(FORMATS)}", param_hint="--format")
        kinds = {self.kind or format_of(name) for name in self.names}
        if kinds == {"lines"} and (shape.fields or shape.header_fields):
            raise typer.BadParameter(
                "lines have no fields: give --format csv or --format jsonl, or --key-separator for the key",
                param_hint="--key",
            )
        if len(shape.delimiter) != 1:
            raise typer.BadParameter("must be exactly one character", param_hint="--delimiter")
        if shape.partition is not None and shape.partition_field is not None:
            raise typer.BadParameter("give either --partition or --partition-field", param_hint="--partition")

    def _check_kept(self, failed: Path) -> None:
        """Refuse a file that is an input: it would be emptied before it is read."""
        for name in self.names:
            # A file without a readable status is an error when it is opened.
            with contextlib.suppress(OSError, ValueError):
                if failed.is_file() and os.path.samestat(failed.stat(), stat_of(name)):
                    raise typer.BadParameter(f"{failed} is an input, and would be emptied", param_hint="--failed")

    async def send(self, producer: KafkaProducer, topic: str, outcome: Outcome, bar: Progress, stop: Stop) -> None:
        """Send the records of all files, in order, and wait for every delivery, until the user asks to stop."""
        for name in self.names:
            with _blocks_of(name, self.kind, self.shape) as blocks:
                async with contextlib.aclosing(_until_stopped(blocks, stop)) as stoppable:
                    await send_blocks(producer, topic, stoppable, outcome, bar)


def open_for_failed(path: Path) -> TextIO:
    """The file of ``--failed``; text that is not UTF-8, as in a name, is escaped as in JSON.

    Open it only once a broker was reached: the file of an earlier run may be the only list of the lines to send.
    """
    return path.open("w", encoding="utf-8", errors="backslashreplace")


def _unescaped(text: str) -> str:
    return text.replace("\\t", "\t")


@contextlib.contextmanager
def _blocks_of(name: str, kind: str | None, shape: RecordShape) -> Iterator[AsyncGenerator[Block, None]]:
    """A file's records; while they are read, an error in the file ends the command."""
    source = "stdin" if name == STDIN else name
    records = read_records(lines_of(name, source), source, kind or format_of(name), shape)
    try:
        yield feed(records, lambda item: len(item.line.text), in_thread=not is_regular_file(name))
    except ValueError as error:
        if isinstance(error, KafkaError):
            raise
        raise CommandError(str(error)) from error


async def send_blocks(
    producer: KafkaProducer,
    topic: str,
    blocks: AsyncIterator[Block],
    outcome: Outcome,
    bar: Progress,
) -> None:
    """Send all blocks in order and wait for every delivery, even if the blocks end with an error or are stopped."""
    sending = Sending(producer, outcome.note_delivered, outcome.note_failed)
    try:
        async for block in blocks:
            for item in block:
                if isinstance(item, RejectedLine):
                    outcome.note_failed(item, item.reason)
                else:
                    await sending.send(topic, item)
            await sending.confirm(MAX_UNCONFIRMED)
            bar.update(outcome.sent)
    finally:
        await sending.confirm(0)
        bar.update(outcome.sent)


async def _until_stopped(blocks: AsyncGenerator[Any, None], stop: Stop) -> AsyncGenerator[Any, None]:
    """The blocks, until the user asks to stop, even while waiting for the next block."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while True:
            coming = asyncio.ensure_future(anext(blocks, None))
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
                return
            block = coming.result()
            if block is None or stop.is_requested:
                return
            yield block
    finally:
        stopping.cancel()
        await blocks.aclose()


def _conclude(outcome: Outcome, topic: str, seconds: float, stop: Stop, *, quiet: bool, as_json: bool) -> int:
    """Print the outcome, as the options ask; returns the exit code."""
    if as_json:
        typer.echo(json.dumps(outcome.as_json(topic, seconds)))
    if not quiet:
        _summarize(outcome, topic, seconds, stop)
    if stop.is_requested:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if outcome.failed else EXIT_OK


def _summarize(outcome: Outcome, topic: str, seconds: float, stop: Stop) -> None:
    rate = outcome.sent / seconds if seconds > 0 else 0.0
    ending = "stopped; " if stop.is_requested else ""
    say(f"{ending}{counted(outcome.sent, 'record')} to {topic} in {seconds:.1f} s ({rate:,.0f} a second)")
    for number, found in sorted(outcome.partitions.items()):
        offsets = "" if found.first_offset < 0 else f", offsets {found.first_offset} to {found.last_offset}"
        say(f"  partition {number}: {counted(found.records, 'record')}{offsets}")
    if outcome.failed:
        where = "" if outcome.failed_file is None else f": see {outcome.failed_file.name}"
        say(f"{counted(outcome.failed, 'line')} failed{where}")
