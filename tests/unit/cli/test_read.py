"""``read`` ends when its output is closed; the records it prints are in ``test_commands``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Iterator, Sequence
from typing import TextIO

import pytest

from aiokafkapy.cli.read import ReadPlan, show_records
from aiokafkapy.cli.running import Stop
from aiokafkapy.common import ConsumedRecord, TopicPartition

PLACE = TopicPartition("t", 0)


class Reader:
    """Has nothing but those records, and then nothing for ever."""

    def __init__(self, *records: ConsumedRecord) -> None:
        self.fetches = 0
        self._records = list(records)

    async def fetch(self, _: float) -> list[ConsumedRecord]:
        self.fetches += 1
        await asyncio.sleep(0)
        records, self._records = self._records, []
        return records

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
