"""``aiokafkapy read``: a topic's records as JSON lines.

Owns the range of offsets to read and the output format; ``PartitionReader`` reads. One line per record: topic,
partition, offset, timestamp_ms, key, value, headers. UTF-8 keys and values are strings, others are
``{"base64": "…"}``, and null is null.

Rules: without ``--follow`` reading ends at the end offsets of its beginning, so it always ends; records of
a partition are in order, partitions are interleaved as they arrive; a line is written completely or not at all.
"""

from __future__ import annotations

import json
import os
import select
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from ..common import ConsumedRecord, TopicPartition, bytes_as_json, counted
from ..errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from .options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT,
    BootstrapServers,
    ConfigEntries,
    Position,
    Timeout,
    client_options,
    parse_position,
)
from .reporting import EXIT_INTERRUPTED, EXIT_OK, CommandError, say
from .running import Stop, run
from .streams import utf8_stdout

if TYPE_CHECKING:
    from ..reader import PartitionReader
    from ..reader.offsets import OffsetAndTimestamp

__all__ = ["ReadPlan", "as_json_line", "read"]

QUIET_WAIT = 0.5
"""Seconds after which a fetch without records returns, to check for Ctrl-C and the end."""
QUIET_ROUNDS = 4
"""Fetches without records after which the command checks whether the topic still exists."""


@dataclass(slots=True)
class ReadPlan:
    """The offsets to read to, and the number of records to show. ``stops`` are exclusive; None means without end."""

    stops: dict[TopicPartition, int | None]
    max_records: int | None = None
    until_ms: int | None = None
    shown: int = field(default=0, init=False)

    @property
    def is_done(self) -> bool:
        """True when no more records are to be shown."""
        return not self.stops or (self.max_records is not None and self.shown >= self.max_records)

    @property
    def has_end(self) -> bool:
        """True when reading ends by itself."""
        return self.until_ms is not None or None not in self.stops.values()

    def take(self, records: Iterable[ConsumedRecord]) -> list[ConsumedRecord]:
        """The records to show of these, which are of one partition; updates the plan."""
        taken = []
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            if tp not in self.stops or self.is_done:
                break
            stop = self.stops[tp]
            is_past = stop is not None and record.offset >= stop
            if is_past or (self.until_ms is not None and record.timestamp_ms >= self.until_ms):
                del self.stops[tp]
                break
            taken.append(record)
            self.shown += 1
            self.note_position(tp, record.offset + 1)
        return taken

    def note_position(self, tp: TopicPartition, position: int | None) -> None:
        """Note the position in the partition, even without visible records."""
        stop = self.stops.get(tp)
        if stop is not None and position is not None and position >= stop:
            del self.stops[tp]


def read(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest, latest, an offset, -N for the last N of each partition, or a time as 2024-01-31T12:00:00Z.",
        ),
    ] = "earliest",
    stop_at: Annotated[
        str | None, typer.Option("--to", help="Where to end, not included: latest, an offset, or a time.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new records, until Ctrl-C.")] = False,
    max_records: Annotated[int | None, typer.Option("--max", "-n", min=1, help="End after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", min=0, help="Only this partition; may be given several times.")
    ] = None,
    read_committed: Annotated[bool, typer.Option("--committed", help="Only committed records.")] = False,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Read a topic's records as JSON lines, from the start to the present end; with --follow without end.

    Keys and values are strings when they are UTF-8, else {"base64": "…"}.
    """
    begin = parse_position(start, "--from")
    end = None if stop_at is None else parse_position(stop_at, "--to")
    if follow and end is not None:
        raise typer.BadParameter("--follow has no end: leave out one of the two", param_hint="--to")
    if end is not None and end.kind in ("earliest", "last"):
        raise typer.BadParameter("the end is latest, an offset or a time", param_hint="--to")
    options = client_options(bootstrap_servers, config)
    options.setdefault("default.api.timeout.ms", str(int(timeout * 1000)))
    if read_committed:
        options["isolation.level"] = "read_committed"

    async def command(stop: Stop) -> int:
        from ..reader import PartitionReader, ReaderConfig

        async with PartitionReader(config=ReaderConfig.from_properties(options)) as reader:
            with stop.ends_at_once():
                partitions = await _choose_partitions(reader, topic, partition, timeout)
                stops = await _find_places(reader, partitions, begin, None if follow else end or Position("latest"))
            until_ms = end.number if end is not None and end.kind == "timestamp" else None
            plan = ReadPlan(stops, max_records, until_ms)
            await show_records(reader, plan, stop, utf8_stdout())
        if stop.is_requested:
            say(counted(plan.shown, "record"))
            return EXIT_OK if follow else EXIT_INTERRUPTED
        return EXIT_OK

    run(command)


async def show_records(reader: PartitionReader, plan: ReadPlan, stop: Stop, output: TextIO) -> None:
    """Write the records of the plan, until it is done or the user asks to stop."""
    quiet = 0
    while not plan.is_done and not stop.is_requested:
        _check_listener(output)
        found = await reader.fetch(QUIET_WAIT)
        quiet = 0 if found else quiet + 1
        if quiet == QUIET_ROUNDS and plan.has_end:
            quiet = 0
            await _check_topics(reader, plan)
        lines = [as_json_line(record) for record in plan.take(found)]
        if lines:
            output.write("".join(lines))
            output.flush()
        for tp in list(plan.stops):
            plan.note_position(tp, reader.position(tp))
        reader.assign(plan.stops)


def as_json_line(record: ConsumedRecord) -> str:
    """One record as a line of JSON, with its line end."""
    shown: Mapping[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(value)] for name, value in record.headers],
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")) + "\n"


# internals


def _check_listener(output: TextIO) -> None:
    """Raise BrokenPipeError if the pipe's reader has gone, which a write would notice only at the next record.

    Without ``poll``, as on Windows, only the write notices.
    """
    if not hasattr(select, "poll"):
        return
    try:
        descriptor = output.fileno()
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return
    except (OSError, ValueError):
        return
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise BrokenPipeError


async def _check_topics(reader: PartitionReader, plan: ReadPlan) -> None:
    """Raise CommandError if a topic is gone, because its end would never be reached."""
    from ..reader.existing_topics import UNKNOWN_TOPIC_TIMEOUT

    for topic in {tp.topic for tp in plan.stops}:
        try:
            await reader.partitions_for(topic, UNKNOWN_TOPIC_TIMEOUT)
        except UnknownTopicOrPartitionError:
            shown = counted(plan.shown, "record")
            raise CommandError(f"topic {topic} was deleted while it was read; shown: {shown}") from None
        except KafkaTimeoutError:
            continue  # no broker answers: they may come back


async def _choose_partitions(
    reader: PartitionReader, topic: str, wanted: list[int] | None, timeout: float
) -> list[TopicPartition]:
    from ..reader.existing_topics import existing_partitions

    try:
        found = [one.partition for one in await existing_partitions(reader, topic, timeout)]
    except UnknownTopicOrPartitionError:
        raise CommandError(f"there is no topic {topic}; see them with: aiokafkapy topics list") from None
    missing = sorted(set(wanted or ()) - set(found))
    if missing:
        raise CommandError(f"topic {topic} has no partition {missing[0]}: it has 0 to {found[-1]}")
    return [TopicPartition(topic, number) for number in (sorted(set(wanted)) if wanted else found)]


async def _find_places(
    reader: PartitionReader, partitions: list[TopicPartition], begin: Position, end: Position | None
) -> dict[TopicPartition, int | None]:
    """Assign the partitions with their start offsets, and return their stops; empty partitions are left out."""
    reader.assign(partitions)
    first = await reader.beginning_offsets(partitions)
    latest = await reader.end_offsets(partitions)
    at_time: Mapping[TopicPartition, OffsetAndTimestamp | None] = {}
    if begin.kind == "timestamp":
        at_time = await reader.list_offsets(dict.fromkeys(partitions, begin.number))
    stops: dict[TopicPartition, int | None] = {}
    for tp in partitions:
        place = at_time.get(tp)
        start = {
            "earliest": first[tp],
            "latest": latest[tp],
            "offset": max(begin.number, first[tp]),
            "last": max(latest[tp] - begin.number, first[tp]),
            "timestamp": latest[tp] if place is None else place.offset,
        }[begin.kind]
        if start > latest[tp]:
            # A fetch from there would be out of range, and silently start at another offset.
            say(f"{tp.topic}-{tp.partition} ends at offset {latest[tp]}, before --from {start}")
            start = latest[tp]
        reader.seek(tp, start)
        stop = None
        if end is not None:
            stop = min(end.number, latest[tp]) if end.kind == "offset" else latest[tp]
        if stop is None or start < stop:
            stops[tp] = stop
    reader.assign(stops)
    return stops
