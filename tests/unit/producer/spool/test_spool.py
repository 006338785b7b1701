"""Records on disk, and on their way there, as the event loop sees them: shared writes, the bound, accounts, ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import SpoolError
from aiokafkapy.producer.accumulator.serialized_record import serialized_record
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.outcome_teller import OutcomeTeller
from aiokafkapy.producer.spool.format import FRAME_OVERHEAD, Mark
from aiokafkapy.producer.spool.spool import Spool
from aiokafkapy.producer.spool.spool_files import SpoolFiles
from aiokafkapy.record.encoding import BatchRecord


def record(value: bytes = b"x", topic: str = "t", partition: int = -1) -> Any:
    return serialized_record(topic, partition, 1, None, value, None)


def spool_of(folder: Path, **options: Any) -> Spool:
    config = ProducerConfig(bootstrap_servers="h:1", spool_dir=str(folder), **options)
    loop = asyncio.get_running_loop()
    return Spool(config, loop, OutcomeTeller(loop))


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = spool_of(tmp_path / "spool")
    await spool.open()
    yield spool
    await spool.close(None)


class Held:
    """Holds the spool's thread in a write, and counts the writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go, self.sizes, self.written = threading.Event(), list[int](), list[int]()
        real = SpoolFiles.append

        def append(files: SpoolFiles, frames: Any, first: int, last: int) -> None:
            self.sizes.append(len(frames))
            self.let_go.wait(20)
            real(files, frames, first, last)
            self.written.append(len(frames))

        monkeypatch.setattr(SpoolFiles, "append", append)


async def test_records_that_come_during_a_write_share_the_next(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    deliveries = [spool.offer(record(), "why") for _ in range(3)]
    await asyncio.sleep(0)
    deliveries += [spool.offer(record(), "why") for _ in range(50)]
    await asyncio.sleep(0)
    assert not any(delivery is None or delivery.done() for delivery in deliveries)
    held.let_go.set()
    await spool.written()
    assert all(delivery is not None and delivery.result().is_spooled for delivery in deliveries)
    assert held.sizes == [3, 50]
    assert (spool.spooled, spool.records, dict(spool.topics)) == (53, 53, {"t": 53})


async def test_at_the_interpreters_end_the_loop_does_the_work_of_the_thread(tmp_path: Path) -> None:
    """Executors are over before the functions of atexit run, in which a producer may still be closed."""
    spool = spool_of(tmp_path, spool_fsync="every_second")
    await spool.open()
    before = spool.offer(record(b"before"), "why")
    await spool.written()
    spool._thread.shutdown()
    after = [spool.offer(record(b"%d" % number), "why") for number in range(3)]
    await spool.written()
    assert [one.value for one in await spool.read(10_000, 10)] == [b"before", b"0", b"1", b"2"]
    last = spool.offer(record(b"last"), "why")
    spool._on_sync_timer()
    await spool.close(None)
    assert all(each is not None and each.result().is_spooled for each in (before, *after, last))
    again = spool_of(tmp_path)
    assert (await again.open()).topics == {"t": 5}
    await again.close(None)


async def test_at_the_interpreters_end_the_loop_waits_until_the_thread_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor takes no more before its thread is joined: two at once would remove a file that is written to."""
    spool = spool_of(tmp_path)
    await spool.open()
    first = spool.offer(record(b"first"), "why")
    await spool.written()
    held = Held(monkeypatch)
    second = spool.offer(record(b"second"), "why")
    await asyncio.sleep(0)
    written_before: list[int] = []
    shutdown, real = spool._thread.shutdown, SpoolFiles.mark

    def refuse(*_: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    def let_go(wait: bool = True) -> None:
        held.let_go.set()
        shutdown(wait)

    def mark(files: SpoolFiles, at: Mark) -> Any:
        written_before.extend(held.written)
        return real(files, at)

    monkeypatch.setattr(spool._thread, "submit", refuse)
    monkeypatch.setattr(spool._thread, "shutdown", let_go)
    monkeypatch.setattr(SpoolFiles, "mark", mark)
    await spool.mark(Mark(1, 1))
    held.let_go.set()
    await spool.written()
    await spool.close(None)
    assert written_before == [1]
    assert all(one is not None and one.result().is_spooled for one in (first, second))
    again = spool_of(tmp_path)
    assert (await again.open()).topics == {"t": 1}
    await again.close(None)


async def test_a_topic_is_here_from_the_offer_to_the_last_of_its_records(spool: Spool) -> None:
    free: list[str] = []
    spool.on_free = free.append
    assert not spool.has("t")
    spool.offer(record(b"1"), "why")
    spool.offer(record(b"2"), "why")
    spool.offer(record(topic="other"), "why")
    assert spool.has("t")
    await spool.written()
    found = await spool.read(10_000, 10)
    assert [one.value for one in found] == [b"1", b"2", b"x"]
    spool.settle(found[:1])
    assert (free, spool.has("t")) == ([], True)
    spool.settle(found[1:2])
    assert (free, spool.has("t"), spool.records) == (["t"], False, 1)
    spool.settle(found[2:])
    await spool.mark(Mark(3, 3))
    assert (spool.size, spool.records) == (0, 0)


async def test_the_records_of_a_batch_have_one_result_and_their_order(spool: Spool) -> None:
    spool.offer(record(b"0"), "why")
    batch = [BatchRecord(1, None, b"%d" % number, ()) for number in range(1, 4)]
    result = spool.adopt(TopicPartition("t", 1), lambda: batch, 3, 1_000_000, "why")
    spool.offer(record(b"4"), "why")
    await spool.written()
    assert result.has_succeeded
    assert (result.record_count, spool.spooled) == (3, 5)
    assert 5 * FRAME_OVERHEAD < spool.size < 1_000, "the real size"
    found = await spool.read(10_000, 10)
    assert [one.value for one in found] == [b"%d" % number for number in range(5)]
    assert [one.partition for one in found] == [None, 1, 1, 1, None]


async def test_records_not_written_yet_are_bounded_too(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    spool.offer(record(), "why")
    await asyncio.sleep(0)
    count = 0
    while spool.offer(record(bytes(1_000_000)), "why") is not None:
        count += 1
    assert count == 5
    assert "the spool's disk is behind" in spool.why_full()
    called: list[bool] = []
    spool.on_room = lambda: called.append(True)
    held.let_go.set()
    await spool.written()
    assert called
    assert spool.offer(record(), "why") is not None


async def test_closing_writes_the_records_taken(tmp_path: Path) -> None:
    spool = spool_of(tmp_path / "spool", spool_fsync="never")
    await spool.open()
    deliveries = [spool.offer(record(), "why") for _ in range(10)]
    await spool.close(5)
    assert all(delivery is not None and delivery.result().is_spooled for delivery in deliveries)
    assert spool.offer(record(), "why") is None
    await spool.close(5)
    again = spool_of(tmp_path / "spool")
    assert (await again.open()).records == 10
    again.end()
    await again.close(None)


async def test_a_disk_that_does_not_answer_keeps_no_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spool_of(tmp_path / "spool")
    await spool.open()
    held = Held(monkeypatch)
    delivery = spool.offer(record(), "why")
    assert delivery is not None
    await asyncio.sleep(0)
    await spool.close(0.01)
    error = delivery.exception()
    assert isinstance(error, SpoolError)
    assert error.outcome_unknown
    held.let_go.set()
    await spool.close(None)


@pytest.mark.parametrize("is_busy", [False, True])
async def test_records_that_are_gone_from_the_disk_hold_nobody_up(
    spool: Spool, is_busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That holds even if there is always a write under way."""
    free: list[str] = []
    spool.on_free = free.append
    spool.offer(record(), "why")
    await spool.written()
    (path,) = spool.folder.glob("*.spool")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"?")
    if is_busy:

        def full(*_: Any) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(SpoolFiles, "append", full)
        spool.offer(record(topic="u"), "why")
        await asyncio.sleep(0)
    assert await spool.read(10_000, 10) == []
    assert await spool.read(10_000, 10) == []
    assert "t" in free
    assert not spool.has("t")


async def test_a_file_that_somebody_removed_is_reported(spool: Spool, caplog: pytest.LogCaptureFixture) -> None:
    spool.offer(record(), "why")
    await spool.written()
    spool._files._close_segment()
    (path,) = spool.folder.glob("*.spool")
    path.unlink()
    assert await spool.read(10_000, 10) == []
    assert not spool.has("t")
    assert f"producer.spool_damaged file={path}" in caplog.text
    assert "kept_in=None" in caplog.text


async def test_an_unopened_spool_takes_nothing(tmp_path: Path) -> None:
    spool = spool_of(tmp_path / "spool")
    assert spool.offer(record(), "why") is None
    assert "is not open" in spool.why_full()
    await spool.close(None)
