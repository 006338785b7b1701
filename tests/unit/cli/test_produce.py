"""``produce`` sends each line that it can, and keeps the others with the reason; the process and its broker are in the
system tests.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.cli.produce import Block, Outcome, open_for_failed, send_blocks
from aiokafkapy.cli.progress import progress
from aiokafkapy.cli.sources import InputRecord, SourceLine
from aiokafkapy.errors import RecordTooLargeError
from aiokafkapy.producer.records import RecordMetadata


class Producer:
    """Refuses the values that it has an error for."""

    def __init__(self, **errors: Exception) -> None:
        self._errors = errors

    async def enqueue(self, topic: str, value: bytes, **_: Any) -> asyncio.Future[RecordMetadata]:
        error = self._errors.get(value.decode())
        if error is not None:
            raise error
        delivery: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        delivery.set_result(RecordMetadata(topic, 0, 7, -1))
        return delivery


async def blocks_of(*values: bytes) -> AsyncIterator[Block]:
    for line, value in enumerate(values, 1):
        yield [InputRecord(SourceLine("a.jsonl", line, value), None, value, (), None, None)]


@pytest.mark.parametrize("error", [RecordTooLargeError("no"), ValueError("no"), TypeError("no")])
async def test_a_line_that_the_producer_refuses_is_kept_and_the_later_ones_are_sent(error: Exception) -> None:
    kept = io.StringIO()
    outcome = Outcome(kept)
    producer: Any = Producer(bad=error)
    with progress("sending", None, is_shown=False) as bar:
        await send_blocks(producer, "t", blocks_of(b"good", b"bad", b"last"), outcome, bar)
    assert (outcome.sent, outcome.failed) == (2, 1)
    (entry,) = [json.loads(line) for line in kept.getvalue().splitlines()]
    assert (entry["line"], entry["reason"], entry["text"]) == (2, "no", "bad")


def test_a_failed_line_of_a_file_whose_name_is_not_utf8_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "failed.jsonl"
    with open_for_failed(path) as kept:
        Outcome(kept).note_failed(InputRecord(SourceLine("\udcff.csv", 1, b"text"), None, None, (), None, None), "no")
    assert json.loads(path.read_text())["source"] == "\udcff.csv"
