"""The console and records that cannot be decoded, which any producer may write: those after them are shown, too."""

from __future__ import annotations

import struct
from contextlib import aclosing

from aiokafkapy.broker import DevBroker
from aiokafkapy.record.crc import crc32c
from tests.system.console_pages import events, page_of

NOW_MS = 1_700_000_000_000


def batch_of(section: bytes) -> bytes:
    """A batch with one record whose header is sound, whatever the record is."""
    body = struct.pack(">hiqqqhii", 0, 0, NOW_MS, NOW_MS, -1, -1, -1, 1) + section
    return struct.pack(">qiibI", 0, 9 + len(body), -1, 2, crc32c(body)) + body


def good(value: bytes) -> bytes:
    record = b"\0\0\0\x01" + bytes([2 * len(value)]) + value + b"\0"
    return batch_of(bytes([2 * len(record)]) + record)


async def test_records_after_one_that_cannot_be_decoded_are_shown() -> None:
    async with DevBroker(console=True) as broker, page_of(broker.console.url) as page:
        broker.create_topic("t", 1)
        partition = broker.state.topics.partition("t", 0)
        assert partition is not None

        def write(*batches: bytes) -> None:
            for batch in batches:
                partition.log.append(batch, partition.leader_epoch, NOW_MS)
            broker.state.topics.on_change(partition)

        bad = batch_of(b"\x7fthis is no record")
        write(good(b"before"), bad, bad, good(b"after"))
        for isolation in ("read_uncommitted", "read_committed"):
            asked = {"topic": "t", "from": "earliest", "isolation": isolation}
            found = (await page.get("/api/records", params=asked)).json()
            assert [row["value"]["text"] for row in found["rows"]] == ["before", "after"]
            assert (found["unreadable"], found["is_at_end"], found["next"]) == (2, True, "at:0=4")
        refused = await page.get("/api/record", params={"topic": "t", "partition": "0", "from": "offset:1"})
        assert (refused.status_code, "offset 1 cannot be decoded" in refused.json()["error"]) == (409, True)

        async with aclosing(events(page, "/api/follow", topic="t")) as messages:
            await anext(messages)
            write(good(b"one"), bad, good(b"two"))
            rows: list[str] = []
            unreadable = 0
            while len(rows) < 2:
                message = await anext(messages)
                rows += [row["value"]["text"] for row in message["rows"]]
                unreadable += message["unreadable"]
            assert (rows, unreadable) == (["one", "two"], 1)
