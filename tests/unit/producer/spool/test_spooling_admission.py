"""The way of a record: into a batch, to the spool, or into a line; none overtakes another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import TopicOptions
from aiokafkapy.errors import BufferExhaustedError, MetadataNotReadyError, MetadataTimeoutError, RecordTooLargeError
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.pending_record import PendingRecord

from ..spool_harness import Harness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path / "spool")
    await harness.spool.open()
    harness.learn(t=2, u=1)
    yield harness
    harness.admission.close(lambda topic: BufferExhaustedError(topic))
    await harness.spool.close(None)


async def test_a_topic_keeps_to_the_spool_until_it_is_empty(harness: Harness) -> None:
    records = [harness.enter(b"%d" % number) for number in range(4)]
    assert all(record.done() for record in records)
    assert harness.in_memory() == [b"0", b"1"]
    harness.deliver_all()
    assert harness.admission.refresh("t", harness.loop.time()).waiting is not None, "no fast path passes it by"
    records.append(harness.enter(b"4", partition=None))
    assert harness.in_memory() == []
    assert await harness.on_disk() == [b"2", b"3", b"4"]
    assert harness.admission.topics["t"].waiting is None
    harness.enter(b"5")
    assert harness.in_memory() == [b"5"]
    assert [record.result().done() for record in records] == [True] * 5
    assert [record.result().result().is_spooled for record in records] == [False, False, True, True, True]


async def test_other_topics_go_on_as_long_as_there_is_room(harness: Harness) -> None:
    for number in range(3):
        harness.enter(b"%d" % number)
    harness.deliver_all()
    harness.enter(b"u", topic="u")
    assert harness.in_memory() == [b"u"]


async def test_records_unsent_for_long_go_along_in_order(harness: Harness) -> None:
    moved = [harness.enter(b"%d" % number).result() for number in range(2)]
    harness.is_connected = False
    harness.enter(b"2")
    assert harness.in_memory() == []
    assert harness.accumulator.accepted == 0
    assert await harness.on_disk() == [b"0", b"1", b"2"]
    assert all(delivery.result().is_spooled for delivery in moved)


async def test_records_of_other_topics_in_the_line_for_room_keep_none_out(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "spool", topics={"u": TopicOptions(overflow="wait")})
    await harness.spool.open()
    harness.learn(t=1, u=1)
    moved = [harness.enter(b"0").result(), harness.enter(b"1").result()]
    waiting = harness.enter(b"u", topic="u")
    assert not waiting.done()
    harness.admission.evacuate(["t"], "not sent")
    assert harness.in_memory() == [b"u"], "it got the room"
    assert await harness.on_disk() == [b"0", b"1"]
    assert all(delivery.result().is_spooled for delivery in moved)
    harness.admission.close(lambda topic: BufferExhaustedError(topic))
    await harness.spool.close(None)


async def test_a_topic_with_records_in_the_line_stays_in_memory(tmp_path: Path) -> None:
    """Those in the line are younger, and would come before those in the spool."""
    harness = Harness(tmp_path / "spool")
    harness.spool.max_bytes = 0
    await harness.spool.open()
    harness.learn(t=1)
    records = [harness.enter() for _ in range(3)]
    assert not records[2].done()
    harness.spool.max_bytes = 10_000
    harness.admission.evacuate(["t"], "not sent")
    assert len(harness.in_memory()) == 2
    harness.admission.close(lambda topic: BufferExhaustedError(topic))
    await harness.spool.close(None)


async def test_the_line_is_looked_at_once_for_all_topics_that_stay(tmp_path: Path) -> None:
    class Line(OrderedDict[PendingRecord, None]):
        looks = 0

        def __iter__(self) -> Iterator[PendingRecord]:
            self.looks += 1
            return super().__iter__()

    harness = Harness(tmp_path / "spool")
    harness.spool.max_bytes = 0
    await harness.spool.open()
    harness.learn(t=1, u=1)
    for topic in ("t", "u", "t", "u"):
        harness.enter(topic=topic)
    line = harness.admission._by_deadline = Line(harness.admission._by_deadline)
    assert len(line) == 2
    line.looks = 0
    harness.spool.max_bytes = 10_000
    harness.admission.evacuate(["t", "u"], "not sent")
    assert (line.looks, len(harness.in_memory())) == (1, 2)
    harness.admission.close(lambda topic: BufferExhaustedError(topic))
    await harness.spool.close(None)


async def test_a_record_that_could_never_be_accepted_is_not_spooled(harness: Harness) -> None:
    harness.enter(b"1")
    harness.enter(b"2")
    record = harness.enter(bytes(5_000))
    assert isinstance(record.exception(), RecordTooLargeError)
    with pytest.raises(RecordTooLargeError):
        harness.admission.append_at_once(harness.record(bytes(5_000)))
    assert not harness.spool.has("t")


async def test_a_record_that_could_never_be_accepted_is_not_spooled_in_an_outage_either(
    harness: Harness,
) -> None:
    for _ in range(3):
        harness.enter()
    assert harness.spool.has("t")
    assert isinstance(harness.enter(bytes(5_000)).exception(), RecordTooLargeError)
    with pytest.raises(RecordTooLargeError):
        harness.admission.append_at_once(harness.record(bytes(5_000)))
    unanswered = harness.enter(bytes(5_000), topic="other")
    harness.metadata.last_successful_refresh = 0.0
    harness.admission.expire(unanswered)
    assert isinstance(unanswered.exception(), RecordTooLargeError)
    waiting = harness.enter(bytes(5_000), topic="new")
    harness.is_connected = False
    harness.metadata.note_address_failure("h:1", OSError("refused"))
    last = harness.enter(topic="new")
    assert isinstance(waiting.exception(), RecordTooLargeError)
    assert last.done()
    assert await harness.on_disk() == [b"x", b"x"]


async def test_a_record_that_must_not_wait(harness: Harness) -> None:
    admission = harness.admission
    unknown = harness.record(topic="new")
    admission.refresh("new", harness.loop.time())
    assert admission.append_at_once(unknown) is None
    assert isinstance(admission.why_not_at_once(unknown), MetadataNotReadyError)
    admission.refresh("t", harness.loop.time())
    found = [admission.append_at_once(harness.record(b"%d" % number)) for number in range(4)]
    assert all(isinstance(delivery, Delivery) for delivery in found)
    astray = harness.record(partition=7)
    assert admission.append_at_once(astray) is None
    assert isinstance(admission.why_not_at_once(astray), MetadataNotReadyError), "the spool is not full"
    assert await harness.on_disk() == [b"2", b"3"]


async def test_an_unknown_topic_is_spooled_when_nobody_can_be_asked(harness: Harness) -> None:
    first = harness.enter(b"1", topic="new")
    second = harness.enter(b"2", topic="new")
    assert not first.done()
    harness.is_connected = False
    harness.metadata.note_address_failure("h:1", OSError("refused"))
    third = harness.enter(b"3", topic="new")
    assert all(record.done() for record in (first, second, third))
    assert await harness.on_disk() == [b"1", b"2", b"3"]


async def test_the_admission_says_which_topics_it_takes_without_their_partitions(harness: Harness) -> None:
    admission = harness.admission
    assert [admission.takes_unknown(topic) for topic in ("t", "new")] == [False, False]
    harness.is_connected = False
    harness.metadata.note_address_failure("h:1", OSError("refused"))
    assert [admission.takes_unknown(topic) for topic in ("t", "new")] == [False, True]
    harness.enter(topic="new")
    harness.is_connected = True
    assert [admission.takes_unknown(topic) for topic in ("new", "other")] == [True, False]


async def test_a_lone_one_is_looked_at_again(harness: Harness) -> None:
    record = harness.enter(b"1", topic="new")
    harness.is_connected = False
    harness.metadata.note_address_failure("h:1", OSError("refused"))
    harness.admission._on_recheck_timer()
    assert record.result() is not None
    assert harness.admission.is_unreachable


async def test_an_unknown_topic_fails_as_ever_and_a_topic_without_an_answering_broker_is_spooled(
    harness: Harness,
) -> None:
    with pytest.raises(MetadataTimeoutError):
        await harness.enter(b"1", topic="misspelt")
    harness.metadata.last_successful_refresh = 0.0
    assert (await (await harness.enter(b"1", topic="other"))).is_spooled


async def test_a_partition_that_is_not_there_is_waited_for(harness: Harness) -> None:
    for _ in range(3):
        harness.enter()
    with pytest.raises(MetadataTimeoutError, match="no such partition"):
        await harness.enter(partition=5)


async def test_a_full_spool_is_waited_for_and_named(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "spool", spool_max_bytes=1_000)
    await harness.spool.open()
    harness.learn(t=1)
    records = [harness.enter(bytes(200)) for _ in range(8)]
    full = [record for record in records if not record.done()]
    assert 2 <= len(full) < 5
    assert "older records of it wait" in str(harness.admission.why_not_at_once(harness.record()))
    with pytest.raises(BufferExhaustedError, match=r"max_block_ms=200: spool_max_bytes is full \(\d+ of 1000 bytes"):
        await full[0]
    refused = harness.calls.records_exhausted
    assert refused >= 1
    assert "spool_max_bytes is full" in str(harness.admission.why_not_at_once(harness.record()))
    assert harness.calls.records_exhausted == refused + 1
    last = harness.enter(bytes(200))
    await harness.on_disk()  # the topic is free
    harness.deliver_all()
    await last
    harness.admission.close(lambda topic: BufferExhaustedError(topic))
    await harness.spool.close(None)


async def test_a_record_comes_behind_those_that_its_partitioner_has_sent(harness: Harness) -> None:
    """Those took the room that the record had seen, and older ones with them to the spool."""

    class Nested:
        def partition(self, topic: str, key: object, value: object, *_: object) -> int:
            if value == b"outer":
                assert harness.admission.append_at_once(harness.record(b"inner")) is not None
            return 0

    nested: Any = Nested()
    harness.partitioner = harness.admission._partitioner = nested
    for value in (b"0", b"1"):
        harness.enter(value)
    harness.is_connected = False
    assert harness.admission.append_at_once(harness.record(b"outer", partition=None)) is not None
    assert harness.in_memory() == []
    assert await harness.on_disk() == [b"0", b"1", b"inner", b"outer"]
