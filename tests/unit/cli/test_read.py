"""``read`` ends when its output is closed or its topic gone; the records it prints are in ``test_commands``."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import select
import signal
from collections.abc import Iterator, Sequence
from typing import TextIO

import pytest

from aiokafkapy.cli.read import ReadPlan, show_records
from aiokafkapy.cli.reporting import CommandError
from aiokafkapy.cli.running import Stop
from aiokafkapy.common import ConsumedRecord, TopicPartition
from aiokafkapy.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

PLACE = TopicPartition("t", 0)


class Reader:
    """Has nothing but those records, and then nothing forever."""

    def __init__(self, *records: ConsumedRecord) -> None:
        self.fetches = 0
        self.looked_for = 0
        self._records = list(records)

    async def fetch(self, _: float) -> list[ConsumedRecord]:
        self.fetches += 1
        await asyncio.sleep(0)
        records, self._records = self._records, []
        return records

    async def partitions_for(self, topic: str, _: float) -> None:
        self.looked_for += 1
        if self.looked_for < 3:
            raise KafkaTimeoutError("no broker is there")
        raise UnknownTopicOrPartitionError("gone", topic=topic)

    def position(self, _: TopicPartition) -> int | None:
        return None

    def assign(self, _: Sequence[TopicPartition]) -> None:
        pass


@pytest.fixture
def pipe_without_a_reader() -> Iterator[TextIO]:
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    reading, writing = os.pipe()
    os.close(reading)
    output = os.fdopen(writing, "w")
    yield output
    with contextlib.suppress(BrokenPipeError):  # bytes that could not be written are still in its buffer
        output.close()
    signal.signal(signal.SIGPIPE, before)


async def test_reading_ends_where_nobody_reads_the_pipe_though_no_record_comes(pipe_without_a_reader: TextIO) -> None:
    reader = Reader()
    with pytest.raises(BrokenPipeError):
        await show_records(reader, ReadPlan({PLACE: None}), Stop(), pipe_without_a_reader)  # type: ignore[arg-type]
    assert reader.fetches == 0


async def test_where_there_is_no_poll_reading_ends_with_the_next_record(
    pipe_without_a_reader: TextIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "poll")
    record = ConsumedRecord(0, b"key", b"value", (), 1_000, "t", 0)
    reader = Reader(record)
    with pytest.raises(BrokenPipeError):
        await show_records(reader, ReadPlan({PLACE: None}), Stop(), pipe_without_a_reader)  # type: ignore[arg-type]
    assert reader.fetches == 1


async def test_reading_to_an_end_ends_when_the_topic_is_deleted() -> None:
    record = ConsumedRecord(0, b"key", b"value", (), 1_000, "t", 0)
    reader, output = Reader(record), io.StringIO()
    with pytest.raises(CommandError, match="topic t was deleted while it was read; shown: 1 record"):
        await show_records(reader, ReadPlan({PLACE: 5}), Stop(), output)  # type: ignore[arg-type]
    assert output.getvalue().count("\n") == 1


async def test_new_records_are_waited_for_and_the_topic_is_not_looked_for() -> None:
    reader = Reader()
    following = asyncio.ensure_future(show_records(reader, ReadPlan({PLACE: None}), Stop(), io.StringIO()))  # type: ignore[arg-type]
    for _ in range(100):
        await asyncio.sleep(0)
    following.cancel()
    assert reader.fetches > 10
    assert reader.looked_for == 0
