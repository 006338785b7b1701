"""Records for the page: the newest are shown, the rest is counted, and a feed is always closed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from aiokafkapy.common import ConsumedRecord
from aiokafkapy.console.follow import (
    MOST_PAGE_EXAMINED,
    MOST_PENDING,
    ROWS,
    Asked,
    follow,
    read_one,
    read_page,
)
from aiokafkapy.console.source import MOST_EXAMINED, Place, Start
from aiokafkapy.errors import UnknownTopicOrPartitionError

from ..virtual_time import on_virtual_time
from .sources import FakeFeed, FakeSource


def records(count: int, first: int = 0) -> list[ConsumedRecord]:
    return [
        ConsumedRecord(offset, b"key", b"even" if offset % 2 == 0 else b"odd", (), 0, "t", 0)
        for offset in range(first, first + count)
    ]


def source(feed: FakeFeed) -> FakeSource:
    made = FakeSource()
    made.feeds = [feed]
    return made


def asked(**parameters: str) -> Asked:
    return Asked.of({"topic": "t", **parameters})


async def messages(feed: FakeFeed, wanted: Asked, count: int) -> list[Any]:
    found: list[Any] = []
    async with aclosing(follow(source(feed), wanted, None)) as stream:
        async for message in stream:
            found.append(message)
            if len(found) == count:
                break
    return found


@on_virtual_time
async def test_the_newest_records_of_a_flood_are_shown_and_the_rest_is_counted() -> None:
    feed = FakeFeed(records(5_000), batch=2_500)  # 10,000 a second
    for number, message in enumerate(await messages(feed, asked(), 2)):
        assert [row["offset"] for row in message["rows"]] == list(
            range(2_500 * (number + 1) - ROWS, 2_500 * (number + 1))
        )
        assert (message["seen"], message["left_out"]) == (2_500, 2_500 - ROWS)
    assert feed.is_closed
    assert feed.polls[0] == (ROWS, True)  # no more is decoded than is shown


@on_virtual_time
async def test_a_filter_looks_at_all_records_up_to_a_limit_and_counts_those_skipped() -> None:
    feed = FakeFeed(records(MOST_EXAMINED + 1_000), batch=MOST_EXAMINED + 1_000)
    (message,) = await messages(feed, asked(filter="even"), 1)
    assert feed.polls == [(MOST_EXAMINED, True)]
    half = MOST_EXAMINED // 2
    assert (message["seen"], message["passed_over"], message["fitting"]) == (MOST_EXAMINED + 1_000, 1_000, half)
    assert message["left_out"] == half - ROWS
    end = MOST_EXAMINED + 1_000
    assert [row["offset"] for row in message["rows"]] == list(range(end - 2 * ROWS, end, 2))


@on_virtual_time
async def test_records_of_several_partitions_come_in_the_order_of_their_times() -> None:
    came = [
        ConsumedRecord(offset, None, b"v", (), time, "t", 0) for offset, time in ((1, 30), (2, 40), (7, 10), (8, 20))
    ]
    (message,) = await messages(FakeFeed(came), asked(), 1)
    assert [row["offset"] for row in message["rows"]] == [7, 8, 1, 2]


@on_virtual_time
async def test_messages_are_paced() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await messages(FakeFeed([]), asked(), 5)
    assert loop.time() - began == pytest.approx(1.0)


async def test_a_page_has_the_first_that_fit_and_says_whether_it_is_the_end() -> None:
    page: Any = await read_page(source(FakeFeed(records(100))), asked(filter="odd", **{"from": "earliest"}), None, 10)
    assert [row["offset"] for row in page["rows"]] == list(range(1, 21, 2))
    assert not page["is_at_end"]
    page = await read_page(source(FakeFeed(records(7))), asked(**{"from": "earliest"}), None, 10)
    assert (len(page["rows"]), page["examined"], page["is_at_end"], page["next"]) == (7, 7, True, "at:0=7")


async def test_a_page_ends_though_nothing_fits() -> None:
    feed = FakeFeed(records(MOST_PAGE_EXAMINED + 1_000))
    page: Any = await read_page(source(feed), asked(filter="nothing"), None, 500)
    assert page["rows"] == []
    assert page["examined"] == MOST_PAGE_EXAMINED
    assert feed.is_closed


@pytest.mark.parametrize("limit", [0, 501])
async def test_a_page_has_a_limit(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit={limit}: from 1 to 500"):
        await read_page(source(FakeFeed([])), asked(), None, limit)


async def test_one_record_is_shown_whole_or_not_at_all() -> None:
    long = ConsumedRecord(5, None, b"x" * 10_000, (), 0, "t", 0)
    found: Any = await read_one(source(FakeFeed([long])), asked(partition="0", **{"from": "offset:5"}), None)
    assert found is not None
    assert len(found["value"]["text"]) == 10_000
    assert await read_one(source(FakeFeed([long])), asked(partition="0", **{"from": "offset:4"}), None) is None
    assert await read_one(source(FakeFeed([])), asked(partition="0", **{"from": "offset:5"}), None) is None


async def test_a_feed_is_closed_when_reading_fails() -> None:
    class Failing(FakeFeed):
        async def poll(self, most: int, *, newest: bool) -> Any:
            raise UnknownTopicOrPartitionError("gone")

    feed = Failing([])
    with pytest.raises(UnknownTopicOrPartitionError):
        await messages(feed, asked(), 1)
    assert feed.is_closed


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"topic": ""}, "topic is missing"),
        ({"partition": "x"}, "partition='x': it is a number"),
        ({"partition": "-1"}, "partition='-1': it is a number"),
        ({"key_form": "xml"}, "'xml' is not a form: write one of auto, text, json, hex, registry"),
        ({"from": "yesterday"}, "from='yesterday': write latest, earliest, last:N, offset:N or time:MILLISECONDS"),
        ({"from": "offset:-1"}, "from='offset:-1'"),
        ({"from": "latest:3"}, "from='latest:3'"),
        ({"from": "at:0"}, "from='at:0'"),
        ({"from": "at:0=1,x=2"}, "from='at:0=1,x=2'"),
        ({"filter": '"'}, "a quote that is not closed"),
    ],
)
def test_a_wrong_parameter_is_named(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        Asked.of({"topic": "t", **parameters})
    assert message in str(raised.value)


def test_a_start_is_an_offset_within_each_partition() -> None:
    offsets = {
        text: Start.of(text).offset_in(1, 100, 200, 4)
        for text in ("latest", "earliest", "last:10", "last:4000", "offset:5", "offset:150", "offset:900", "time:5")
    }
    assert list(offsets.values()) == [200, 100, 197, 100, 100, 150, 200, None]
    at = Start.of("at:0=7,1=120")
    assert [at.offset_in(partition, 100, 200, 4) for partition in (0, 1, 2)] == [100, 120, 200]


def test_a_start_is_read() -> None:
    assert [Start.of(text) for text in ("latest", "earliest", "last:100", "offset:0", "time:1700000000000")] == [
        *(Start("latest"), Start("earliest"), Start("last", 100), Start("offset", 0)),
        Start("time", 1_700_000_000_000),
    ]


@on_virtual_time
async def test_shown_records_of_transactions_are_marked_and_a_later_message_tells_their_outcome() -> None:
    feed = FakeFeed(records(ROWS + 3), batch=ROWS + 3)
    first, second, third = Place(0, ROWS), Place(0, ROWS + 1), Place(0, ROWS + 2)
    feed.known = {Place(0, 0): "aborted", first: "aborted", second: "pending", third: "pending"}
    found: list[Any] = []
    async with aclosing(follow(source(feed), asked(), None)) as stream:
        found.append(await anext(stream))
        feed.known |= {second: "aborted"}
        del feed.known[third]  # it was committed
        found += [await anext(stream), await anext(stream)]
    marks = {row["offset"]: row["outcome"] for row in found[0]["rows"]}
    assert [marks[ROWS - 1], marks[ROWS], marks[ROWS + 1], marks[ROWS + 2]] == ["", "aborted", "pending", "pending"]
    assert [message["decided"] for message in found] == [[], [(*second, "aborted"), (*third, "")], []]
    assert Place(0, 0) not in feed.asked_outcomes[0]  # it is not shown
    assert feed.asked_outcomes[1:] == [{second, third}, set()]


@on_virtual_time
async def test_no_more_records_of_open_transactions_are_waited_for_than_are_shown() -> None:
    feed = FakeFeed(records(10_000), batch=ROWS)
    feed.known = {Place(0, offset): "pending" for offset in range(10_000)}
    await messages(feed, asked(), 10)
    assert len(feed.asked_outcomes[-1]) == MOST_PENDING + ROWS


@on_virtual_time
async def test_committed_records_are_asked_for_as_such_and_not_marked() -> None:
    feed = FakeFeed(records(1))
    made = source(feed)
    await read_page(made, asked(isolation="read_committed"), None, 10)
    assert made.was_committed
    assert feed.asked_outcomes == []
    with pytest.raises(ValueError, match="isolation='dirty': write read_uncommitted or read_committed"):
        asked(isolation="dirty")
