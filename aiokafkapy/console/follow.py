"""Records for the page: followed live, or read from a position; filtered, decoded, and bounded.

Owns the pace and the counts: each message of ``follow`` has only the newest rows, and tells the numbers of matching
and omitted ones. It must not know HTTP.

Rules:

- without a filter only the shown records are decoded; with one, up to ``MOST_EXAMINED`` per message: others are
  counted as not examined, so a number on the page is never a guess;
- a message waits for the reader: if the tab is slow, the next one has newer records, and not more of them;
- shown records that ``read_committed`` would not return are marked; while a transaction is still open, a later message
  tells their outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict, cast

from ..common import ConsumedRecord, JsonLike
from ..errors import CorruptMessageError, KafkaError
from .decoding import FORMS, Decoder, Form, RecordView, view_of
from .filters import RecordFilter
from .model import as_json, fields_as_json
from .source import MOST_EXAMINED, Feed, Place, Source, Start

__all__ = ["Asked", "Followed", "Page", "follow", "read_one", "read_page"]

PACE: Final = 0.25
"""Seconds between two messages."""
ROWS: Final = 50
"""Rows of a message: more than a person can read in its time."""
MOST_PENDING: Final = 300
"""The most rows of open transactions that wait for their outcome: as many as the page shows."""
MOST_PAGE_ROWS: Final = 500
MOST_PAGE_EXAMINED: Final = 50_000
FILTERED_CUT_AT: Final = 100_000
"""Characters of a key or value that a filter examines."""
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
SLICE: Final = 100
"""Records that are examined before other tasks get their turn of the loop."""


class Followed(TypedDict):
    """A message about records as they are written. ``fitting`` of the ``seen`` records match the filter; ``decided``
    are partition, offset and outcome of rows that came before; ``unreadable`` counts further records, which cannot be
    decoded.
    """

    rows: JsonLike
    decided: list[tuple[int, int, str]]
    seen: int
    fitting: int
    passed_over: int
    left_out: int
    note: str
    unreadable: int


class Page(TypedDict):
    """Records from a position on; ``next`` is the position of the rest. ``unreadable`` more cannot be decoded."""

    rows: JsonLike
    examined: int
    is_at_end: bool
    next: str
    note: str
    unreadable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A page's request."""

    topic: str
    partition: int | None
    start: Start
    filter: RecordFilter
    key_form: Form
    value_form: Form
    is_committed: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        """The request in a query's parameters. Raises ValueError that names the wrong one."""
        topic, partition = parameters.get("topic", ""), parameters.get("partition", "")
        if not topic:
            raise ValueError("topic is missing")
        if partition and not (partition.isdigit() and len(partition) < 10):
            raise ValueError(f"partition={partition!r}: it is a number")
        key_form, value_form = _form(parameters, "key_form"), _form(parameters, "value_form")
        isolation = parameters.get("isolation", "read_uncommitted")
        if isolation not in ISOLATION_LEVELS:
            raise ValueError(f"isolation={isolation!r}: write {' or '.join(ISOLATION_LEVELS)}")
        return cls(
            topic=topic,
            partition=int(partition) if partition else None,
            start=Start.of(parameters.get("from", "latest")),
            filter=RecordFilter.of(parameters.get("filter", "")),
            key_form=key_form,
            value_form=value_form,
            is_committed=isolation == "read_committed",
        )


def _form(parameters: Mapping[str, str], name: str) -> Form:
    form = parameters.get(name, "auto")
    if form not in FORMS:
        raise ValueError(f"{form!r} is not a form: write one of {', '.join(FORMS)}")
    return cast("Form", form)


async def follow(source: Source, asked: Asked, decoder: Decoder | None) -> AsyncGenerator[Followed, None]:
    """Messages with the records that are written from now on, until it is closed."""
    feed = await _feed(source, asked)
    pending: dict[Place, None] = {}
    try:
        while True:
            polled = await feed.poll(MOST_EXAMINED if asked.filter else ROWS, newest=True)
            rows, fitting = await _fitting(polled.records, asked, decoder, ROWS)
            rows, decided = await _marked(feed, rows, asked, pending)
            yield {
                "rows": as_json(rows),
                "decided": decided,
                "seen": len(polled.records) + polled.passed_over,
                "fitting": fitting,
                "passed_over": polled.passed_over,
                "left_out": fitting - len(rows) + (0 if asked.filter else polled.passed_over),
                "note": polled.note,
                "unreadable": polled.unreadable,
            }
            await asyncio.sleep(PACE)
    finally:
        await feed.close()


async def read_page(source: Source, asked: Asked, decoder: Decoder | None, limit: int) -> Page:
    """The first matching records from a position on, at most ``limit``; and ``next``, the position of the rest."""
    if not 1 <= limit <= MOST_PAGE_ROWS:
        raise ValueError(f"limit={limit}: from 1 to {MOST_PAGE_ROWS}")
    feed = await _feed(source, asked)
    rows: list[RecordView] = []
    examined = unreadable = 0
    is_at_end = False
    note = ""
    try:
        while len(rows) < limit and examined < MOST_PAGE_EXAMINED and not is_at_end:
            polled = await feed.poll(limit - len(rows), newest=False)
            found, _ = await _fitting(polled.records, asked, decoder, limit)
            rows += found
            examined += len(polled.records)
            unreadable += polled.unreadable
            is_at_end = polled.is_at_end or not polled.records
            note = polled.note
        rows, _ = await _marked(feed, rows, asked, {})
        places = ",".join(f"{partition}={offset}" for partition, offset in feed.positions().items())
    finally:
        await feed.close()
    return {
        "rows": as_json(rows),
        "examined": examined,
        "is_at_end": is_at_end,
        "next": f"at:{places}",
        "note": note,
        "unreadable": unreadable,
    }


async def read_one(source: Source, asked: Asked, decoder: Decoder | None) -> dict[str, JsonLike] | None:
    """The record at ``asked.start`` in full; None without one. Raises KafkaError if it cannot be read."""
    feed = await _feed(source, asked)
    try:
        polled = await feed.poll(1, newest=False)
        if polled.note and not polled.records:
            raise KafkaError(polled.note)
        if polled.unreadable:
            raise CorruptMessageError(f"the record at offset {asked.start.number} cannot be decoded")
        if not polled.records or polled.records[0].offset != asked.start.number:
            return None
        view = await view_of(polled.records[0], asked.key_form, asked.value_form, decoder, cut_at=0)
        ((view,), _) = await _marked(feed, [view], asked, {})
    finally:
        await feed.close()
    return fields_as_json(view)


async def _feed(source: Source, asked: Asked) -> Feed:
    return await source.feed(asked.topic, asked.partition, asked.start, is_committed=asked.is_committed)


async def _marked(
    feed: Feed, rows: list[RecordView], asked: Asked, pending: dict[Place, None]
) -> tuple[list[RecordView], list[tuple[int, int, str]]]:
    """The rows with their outcomes, and the outcomes of the rows in ``pending``, which keeps only undecided ones."""
    if asked.is_committed:
        return rows, []
    outcomes = await feed.outcomes({Place(row.partition, row.offset) for row in rows} | pending.keys())
    decided = [(*place, outcomes.get(place, "")) for place in pending if outcomes.get(place) != "pending"]
    for partition, offset, _ in decided:
        del pending[Place(partition, offset)]
    rows = [replace(row, outcome=outcomes.get(Place(row.partition, row.offset), "")) for row in rows]
    pending |= dict.fromkeys(Place(row.partition, row.offset) for row in rows if row.outcome == "pending")
    for place in list(pending)[:-MOST_PENDING]:
        del pending[place]
    return rows, decided


async def _fitting(
    records: Sequence[ConsumedRecord], asked: Asked, decoder: Decoder | None, most: int
) -> tuple[list[RecordView], int]:
    """The newest matching records in the form of the page, ordered by time, and the number of matches."""
    forms = asked.key_form, asked.value_form
    records = sorted(records, key=lambda record: record.timestamp_ms)  # records come partition by partition
    if not asked.filter:
        return [await view_of(each, *forms, decoder) for each in records[-most:]], len(records)
    fitting: list[ConsumedRecord] = []
    for number, record in enumerate(records):
        if asked.filter.fits(await view_of(record, *forms, decoder, cut_at=FILTERED_CUT_AT)):
            fitting.append(record)
        if number % SLICE == SLICE - 1:
            await asyncio.sleep(0)
    return [await view_of(each, *forms, decoder) for each in fitting[-most:]], len(fitting)
