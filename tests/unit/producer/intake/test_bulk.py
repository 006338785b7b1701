"""send_many: slices, order, and one outcome for each."""

from __future__ import annotations

import asyncio
import sys
from inspect import isawaitable
from itertools import pairwise
from typing import Any, cast

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaError, RecordTooLargeError
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.delivery_list import DeliveryList
from aiokafkapy.producer.intake.bulk import FIRST_SLICE, SLICE_BYTES, BulkSend, Outcomes, _taker
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.intake.record_intake import RecordIntake
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.producer.records import ProducerRecord, RecordMetadata
from aiokafkapy.record.builder import LONGEST_RUN
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS

from ...virtual_time import elapsed, on_virtual_time
from ..intake_harness import new_admission
from ..sender_fakes import cluster_of


class Runtime:
    """A runtime whose batches are delivered as soon as others run, and the intake before it."""

    takes_plain_values = True
    opening = 0

    def __init__(self, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.is_bound = True
        self.metadata = ProducerMetadata(**PRODUCER_METADATA_OPTIONS)
        self.metadata.bootstrap([("h", 1)])
        self.metadata.cluster = cluster_of({"t": [1], "u": [1]})
        config = ProducerConfig(bootstrap_servers="h:1", **options)
        self.accumulator = RecordAccumulator(config)
        self.admission = new_admission(loop, self.metadata, self.accumulator, config, max_block=5.0)
        self.next_offset = 0
        self.pause = 0.0
        self.calls: list[Any] = []

    def accept(self, topic: str, value: Any, key: Any, partition: Any, timestamp_ms: Any, headers: Any) -> Any:
        self.calls.append((topic, value, key, partition, timestamp_ms, headers))
        if isinstance(value, Exception):
            raise value
        partition = 0 if partition is None else partition
        record = PendingRecord(
            self.admission, topic, key, value, partition, 5, headers, loop=asyncio.get_running_loop()
        )
        record.is_serialized = not isawaitable(value)
        return record

    def accepting_runtime(self) -> Any:
        return self

    def lets_through(self, topic: str) -> bool:
        return True

    def takes_records(self, opening: int) -> bool:
        return self.is_bound and opening == self.opening

    def deliver_once(self) -> None:
        """The part of a Sender and a broker."""
        now, cluster = self.now(), self.metadata.cluster
        nodes = self.accumulator.ready(cluster, now, {}).ready_nodes
        for batches in self.accumulator.drain(cluster, nodes, 1_000_000, now).values():
            for batch in batches:
                offset, self.next_offset = self.next_offset, self.next_offset + batch.record_count
                batch.complete(offset)
                self.accumulator.deallocate(batch)

    async def deliver(self) -> None:
        while True:
            self.deliver_once()
            await (elapsed(self.pause) if self.pause else asyncio.sleep(0))


async def send(runtime: Runtime, items: Any, *, is_plain: bool = True) -> Outcomes:
    delivering = asyncio.create_task(runtime.deliver())
    runtime.takes_plain_values = is_plain
    bulk = BulkSend(cast(RecordIntake, runtime), "t")
    try:
        return await asyncio.wait_for(bulk.run(items), 30)
    finally:
        delivering.cancel()


async def seconds_of_send(runtime: Runtime, items: Any, *, is_plain: bool = False) -> tuple[float, Outcomes]:
    """The virtual seconds that it takes."""
    began, runtime.pause = runtime.now(), 0.01
    outcomes = await send(runtime, items, is_plain=is_plain)
    return runtime.now() - began, outcomes


def delivered(outcomes: Outcomes) -> list[RecordMetadata]:
    """All of them, without an error."""
    found = [outcome for outcome in outcomes if isinstance(outcome, RecordMetadata)]
    assert len(found) == len(outcomes)
    return found


async def test_nothing_gives_nothing() -> None:
    assert await send(Runtime(), []) == []


async def test_plain_values_go_by_the_slice_and_outcomes_are_in_order() -> None:
    runtime = Runtime()
    outcomes = delivered(await send(runtime, (b"%d" % number for number in range(10_000))))
    assert [outcome.offset for outcome in outcomes] == list(range(10_000))
    assert runtime.calls == []
    assert outcomes[9_999].serialized_value_size == 4


async def test_records_with_keys_go_one_by_one_beside_plain_values() -> None:
    runtime = Runtime()
    record = ProducerRecord("u", b"1", b"k", 0, 7, [("h", None)])
    outcomes = delivered(await send(runtime, [b"0", record, None, b"3"]))
    assert runtime.calls[1] == ("u", b"1", b"k", 0, 7, [("h", None)])
    assert [outcome.topic for outcome in outcomes] == ["t", "u", "t", "t"]


async def test_a_record_that_fails_leaves_its_error_in_its_place() -> None:
    runtime = Runtime()
    outcomes = await send(runtime, [b"0", KafkaError("serializer"), b"2"], is_plain=False)
    assert [type(outcome) for outcome in outcomes] == [RecordMetadata, KafkaError, RecordMetadata]


async def test_too_large_a_value_in_a_slice_fails_alone() -> None:
    runtime = Runtime(max_request_size=2000)
    outcomes = await send(runtime, [b"0", b"x" * 3000, b"2", b"x" * 3000])
    assert [type(outcome) for outcome in outcomes] == [
        RecordMetadata, RecordTooLargeError, RecordMetadata, RecordTooLargeError,
    ]  # fmt: skip


async def test_a_full_buffer_is_waited_for() -> None:
    runtime = Runtime(buffer_memory=5000, max_request_size=2000, batch_size=1000)
    taken = 0

    def items() -> Any:
        nonlocal taken
        for number in range(3000):
            taken += 1
            assert runtime.accumulator.buffered_bytes <= 5000
            yield b"%d" % number

    outcomes = delivered(await send(runtime, items()))
    assert taken == 3000
    # The records that waited for room were appended by the line for room; none is missing and none twice.
    assert sorted(outcome.offset for outcome in outcomes) == list(range(3000))


@on_virtual_time
async def test_a_call_waits_once_for_metadata_that_many_of_its_records_lack() -> None:
    records = [ProducerRecord("none", b"1"), ProducerRecord("t", b"2"), ProducerRecord("t", b"3", partition=7)]
    seconds, outcomes = await seconds_of_send(Runtime(), records * 20)
    assert outcomes.failed == 40
    assert all("no metadata within max_block_ms=5000" in str(outcome) for outcome in outcomes[::3])
    assert all("t-7: no such partition within max_block_ms=5000" in str(outcome) for outcome in outcomes[2::3])
    assert seconds == pytest.approx(2 * 5.0, abs=0.2)


@on_virtual_time
async def test_a_call_waits_anew_for_a_partition_that_was_there_meanwhile() -> None:
    runtime = Runtime()

    def records() -> Any:
        for partitions in (1, 8, 1):
            runtime.deliver_once()
            runtime.metadata.cluster = cluster_of({"u": [1] * partitions})
            runtime.admission.on_metadata_update()
            yield from [ProducerRecord("u", b"1", partition=7)] * FIRST_SLICE

    seconds, outcomes = await seconds_of_send(runtime, records())
    assert [isinstance(outcome, Exception) for outcome in outcomes[::FIRST_SLICE]] == [True, False, True]
    assert seconds == pytest.approx(2 * 5.0, abs=0.2)


@on_virtual_time
async def test_records_have_the_time_to_be_serialized_after_an_earlier_one_waited_in_vain() -> None:
    runtime = Runtime()

    async def serialized(value: bytes) -> bytes:
        await elapsed(0.01)
        return value

    def records() -> Any:
        for partitions in (1, 8):
            runtime.metadata.cluster = cluster_of({"u": [1] * partitions})
            runtime.admission.on_metadata_update()
            yield from (ProducerRecord("u", serialized(b"1"), partition=7) for _ in range(FIRST_SLICE))

    seconds, outcomes = await seconds_of_send(runtime, records())
    assert all("u-7: no such partition within max_block_ms=5000" in str(one) for one in outcomes[:FIRST_SLICE])
    assert outcomes.failed == FIRST_SLICE
    assert seconds == pytest.approx(5.0 + 2 * FIRST_SLICE * 0.01, abs=0.2)


@pytest.mark.parametrize("is_plain", [True, False])
@on_virtual_time
async def test_a_call_waits_once_for_room_that_does_not_come(is_plain: bool) -> None:
    runtime = Runtime(buffer_memory=5000, max_request_size=2000, batch_size=1000)
    runtime.accumulator.mute_partition(TopicPartition("u", 0))
    append, now, cluster = runtime.accumulator.appender.append, runtime.now(), runtime.metadata.cluster
    while append("u", 0, 0, None, b"x" * 100, None, now, cluster) is not None:
        pass  # until there is no room
    seconds, outcomes = await seconds_of_send(runtime, [b"x" * 900] * 30, is_plain=is_plain)
    assert outcomes.failed == 30
    assert seconds == pytest.approx(5.0, abs=0.2)


async def test_values_are_let_go_when_they_are_in_a_batch() -> None:
    runtime = Runtime()
    value = bytes(1000)
    references = sys.getrefcount(value)
    bulk = BulkSend(cast(RecordIntake, runtime), "t")
    sending = bulk.run(value for _ in range(3))
    while sending.send(None) is None:
        pass  # it lets others run; then it waits for the answers
    assert runtime.accumulator.accepted == 3
    assert sys.getrefcount(value) == references
    sending.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_outcomes_that_come_all_at_once_are_collected_by_slices(fails: bool) -> None:
    runtime = Runtime(linger_ms=100)
    runtime.takes_plain_values = False
    bulk = BulkSend(cast(RecordIntake, runtime), "t")
    value = KafkaError("serializer") if fails else b""
    sending = asyncio.create_task(bulk.run([b"first", *[value] * 9_999]))
    for _ in range(200):  # a turn for every 64 of them
        await asyncio.sleep(0)
    assert len(runtime.calls) == 10_000
    delivering = asyncio.create_task(runtime.deliver())
    collected = [0]
    while not sending.done():
        await asyncio.sleep(0)
        collected.append(len(bulk._outcomes))
    delivering.cancel()
    assert collected[-1] == 10_000
    assert max(after - before for before, after in pairwise(collected)) <= 1_000


async def test_slices_have_a_size_in_bytes() -> None:
    runtime = Runtime()
    bulk = BulkSend(cast(RecordIntake, runtime), "t")
    tiny = _taker([b"x"] * 100_000)
    taken = [bulk._next_slice(tiny)[0] for _ in range(10)][-1]
    assert taken.stop - taken.start == LONGEST_RUN
    large = _taker(iter([b"x" * 100_000] * 10_000))
    taken = [bulk._next_slice(large)[0] for _ in range(3)][-1]
    assert taken.stop - taken.start == SLICE_BYTES // 100_000


def test_a_list_is_taken_as_an_iterator_is_also_while_it_grows() -> None:
    items = list(range(10))
    for taker in (_taker(items), _taker(iter(items))):

        def take(taker: Any = taker) -> list[int]:
            taken = taker(4)
            found: list[int] = taken.items[taken.start : taken.stop]
            return found

        del items[10:]
        assert [take(), take()] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        items.append(10)
        assert [take(), take()] == [[8, 9, 10], []]


async def test_a_list_that_is_emptied_while_a_record_waits_has_sent_the_slice_that_was_taken() -> None:
    runtime = Runtime(buffer_memory=5000, max_request_size=2000, batch_size=1000)
    items = [b"%03d" % number for number in range(3 * FIRST_SLICE)] * 10
    sending = asyncio.create_task(send(runtime, items))
    while runtime.accumulator.buffered_bytes < 4000:  # noqa: ASYNC110
        await asyncio.sleep(0)
    items.clear()
    outcomes = delivered(await sending)
    assert len(outcomes) >= FIRST_SLICE
    assert sorted(outcome.offset for outcome in outcomes) == list(range(len(outcomes)))


async def test_an_exception_of_the_iterable_is_raised() -> None:
    def items() -> Any:
        yield b"0"
        raise LookupError("end of file")

    with pytest.raises(LookupError):
        await send(Runtime(), items())


class TestOutcomes:
    """A sequence that is made as it is looked at."""

    async def outcomes(self) -> Any:
        runtime = Runtime(max_request_size=2000)
        return await send(runtime, [b"0", None, b"x" * 3000, ProducerRecord("u", b"3", b"k"), *[b"v"] * 100])

    async def test_it_is_aligned_and_can_be_indexed_sliced_and_compared(self) -> None:
        found = await self.outcomes()
        assert len(found) == 104
        assert found[0].serialized_value_size == 1
        assert found[1].serialized_value_size == -1
        assert isinstance(found[2], RecordTooLargeError)
        assert found[3].topic == "u"
        assert found[-1] == found[103]
        assert found[4:7] == [found[4], found[5], found[6]]
        assert [type(each) for each in found] == [type(found[position]) for position in range(104)]
        assert found != [1, 2]
        assert found[4:] == list(found)[4:]
        with pytest.raises(IndexError):
            found[104]
        assert repr(found) == "<outcomes of 104 records, 1 failed>"

    async def test_the_first_error_and_how_many_there_are(self) -> None:
        found = await self.outcomes()
        assert (found.failed, found.first_error) == (1, found[2])
        none_failed = await send(Runtime(), [b"0"])
        assert (none_failed.failed, none_failed.first_error) == (0, None)

    async def test_values_are_not_kept(self) -> None:
        found = await self.outcomes()
        lists = [part for part in found.parts if isinstance(part, DeliveryList)]
        assert lists
        assert all(isinstance(size, int) for part in lists for size in part._values)


async def test_a_record_that_is_refused_while_it_waits_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime()
    refused = ValueError("no")
    monkeypatch.setattr(runtime.admission, "enter", lambda record, now: record.refuse(refused))
    bulk = BulkSend(cast(RecordIntake, runtime), None)
    await bulk.run([ProducerRecord("t", b"1")])
    assert list(bulk.taken()) == [refused]
    assert bulk.unsettled() == []
