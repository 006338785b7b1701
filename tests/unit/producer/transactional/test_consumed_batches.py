"""A batch is committed with its offsets, or the consumer goes back to its beginning, however the loop is left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, cast

import numpy
import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
)
from aiokafkapy.producer.transactional.attempts import Patience
from aiokafkapy.producer.transactional.consumed_batches import SECONDS_TO_GO_BACK, ConsumedBatches
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata, OffsetToCommit
from aiokafkapy.producer.transactional.transaction_requests import PARTITIONS_HAVE_MOVED
from aiokafkapy.producer.transactional.transactions import Transactions
from tests.unit.virtual_time import on_virtual_time

from .harness import NO_JITTER, A, B
from .scripted import Scripted


class Record(NamedTuple):
    """A consumed record."""

    offset: int


class Consumer:
    """Gives its batches, then nothing for ever; writes its calls into the transactions' log."""

    def __init__(self, log: list[str], *batches: dict[TopicPartition, list[Record]]) -> None:
        self.log = log
        self.batches = list(batches)
        self.generation = 3
        self.back: list[tuple[dict[TopicPartition, int], int]] = []
        self.trouble: Exception | None = None
        self.closed: Exception | None = None
        self.is_stuck = False

    async def read(self, max_records: int) -> Mapping[TopicPartition, Sequence[Record]]:
        self.log.append(f"read {max_records}")
        return self.batches.pop(0)

    def next_offset(self, record: Record) -> OffsetToCommit:
        return OffsetToCommit(record.offset + 1)

    def offset(self, record: Record) -> int:
        return record.offset

    def group(self) -> GroupMetadata:
        if self.closed is not None:
            raise self.closed
        return GroupMetadata("g", self.generation, "m")

    async def go_back(self, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        self.log.append("back")
        if self.is_stuck:
            await asyncio.Event().wait()
        if self.trouble is not None:
            raise self.trouble
        self.back.append((dict(offsets), generation))


class Work(Scripted):
    """Scripted transactions that take offsets, with a consumer of one batch."""

    def __init__(self, *batches: dict[TopicPartition, list[Record]]) -> None:
        super().__init__()
        self.consumer = Consumer(self.log, *(batches or (BATCH,)))
        self.offsets: list[tuple[dict[TopicPartition, OffsetToCommit], GroupMetadata]] = []
        self.offset_errors: list[BaseException] = []
        self.was_committed = False

    async def settled(self) -> None:
        self.log.append("settled")

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetToCommit], group: GroupMetadata) -> None:
        self.log.append("offsets")
        if self.offset_errors:
            raise self.offset_errors.pop(0)
        self.offsets.append((dict(offsets), group))

    def batches(self, max_records: int = 10) -> ConsumedBatches[Record]:
        transactions = cast(Transactions, self)
        patience = Patience(transactions, 60.0, NO_JITTER, PARTITIONS_HAVE_MOVED)
        return ConsumedBatches(transactions, self.consumer, max_records, patience)

    async def run(self, *_: object) -> int:
        """Run batches until one is committed."""
        runs = 0
        async for batch in self.batches():
            async with batch:
                runs += 1
            if self.offsets and self.log[-1] == "end":
                break
        return runs


BATCH = {A: [Record(5), Record(6)], B: [Record(2)]}


@on_virtual_time
async def test_the_offsets_behind_a_batch_are_committed_with_it() -> None:
    work = Work()
    assert await work.run() == 1
    assert work.log == ["read 10", "begin", "offsets", "end"]
    ((offsets, group),) = work.offsets
    assert offsets == {A: OffsetToCommit(7), B: OffsetToCommit(3)}
    assert group == GroupMetadata("g", 3, "m")


@on_virtual_time
async def test_the_group_s_generation_is_that_in_which_the_batch_was_read() -> None:
    work = Work()
    async for batch in work.batches():
        async with batch:
            assert batch.generation == 3
            work.consumer.generation = 4
        break
    assert work.offsets[0][1].generation_id == 3


@on_virtual_time
async def test_a_batch_has_its_records_by_partition_and_one_after_the_other() -> None:
    work = Work(BATCH)
    batch = await anext(aiter(work.batches()))
    assert list(batch) == [Record(5), Record(6), Record(2)]
    assert len(batch) == 3
    assert dict(batch.by_partition) == BATCH


@on_virtual_time
async def test_a_consumer_is_read_until_there_are_records() -> None:
    work = Work({}, {}, BATCH)
    assert len(await anext(aiter(work.batches(3)))) == 3
    assert work.log == ["read 3"] * 3


@pytest.mark.parametrize("error", [KafkaTimeoutError("no"), *(kind("moved") for kind in PARTITIONS_HAVE_MOVED)])
@on_virtual_time
async def test_a_batch_that_is_not_committed_is_read_again(error: KafkaError) -> None:
    work = Work(BATCH, BATCH)
    work.ends = [error]
    assert await work.run() == 2
    assert work.log == ["read 10", "begin", "offsets", "end", "back", "read 10", "begin", "offsets", "end"]
    assert work.consumer.back == [({A: 5, B: 2}, 3)]


@on_virtual_time
async def test_offsets_that_are_refused_abort_the_transaction() -> None:
    work = Work(BATCH, BATCH)
    work.offset_errors = [IllegalGenerationError("moved")]
    assert await work.run() == 2
    assert work.log[:5] == ["read 10", "begin", "offsets", "abort", "back"]


@pytest.mark.parametrize("error", [LookupError(), asyncio.CancelledError(), MessageTooLargeError("x")])
@on_virtual_time
async def test_an_exception_of_the_block_leaves_the_consumer_at_the_batch_s_beginning(error: BaseException) -> None:
    work = Work()
    with pytest.raises(type(error)):
        async for batch in work.batches():
            async with batch:
                raise error
    assert work.log == ["read 10", "begin", "abort", "settled", "back"]
    assert work.offsets == []


@on_virtual_time
async def test_a_consumer_that_was_closed_leaves_by_the_transaction() -> None:
    work = Work()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        async for batch in work.batches():
            async with batch:
                work.consumer.closed = RuntimeError("Consumer closed")
    assert work.log[:3] == ["read 10", "begin", "abort"]


@on_virtual_time
async def test_a_caller_that_is_cancelled_while_offsets_are_sent_leaves_by_the_transaction() -> None:
    work = Work()
    work.offset_errors = [asyncio.CancelledError()]
    with pytest.raises(asyncio.CancelledError):
        await work.run()
    assert work.log == ["read 10", "begin", "offsets", "abort", "settled", "back"]


@on_virtual_time
async def test_a_batch_whose_commit_came_to_its_end_is_not_read_again() -> None:
    work = Work()
    work.ends, work.was_committed = [MessageTooLargeError("x")], True
    with pytest.raises(MessageTooLargeError) as caught:
        await work.run()
    assert work.consumer.back == []
    assert not hasattr(caught.value, "__notes__")


@on_virtual_time
async def test_an_unknown_outcome_is_noted_and_the_consumer_stays() -> None:
    work = Work()
    work.ends, work.in_doubt, work.is_usable = [KafkaTimeoutError("no answer")], 1, False
    with pytest.raises(KafkaTimeoutError) as caught:
        await work.run()
    assert caught.value.__notes__ == ["whether the batch was committed is not known, so begin with a new consumer"]
    assert work.consumer.back == []


@on_virtual_time
async def test_a_beginning_that_fails_goes_back_too() -> None:
    work = Work()
    work.begins = [MessageTooLargeError("x")]
    with pytest.raises(MessageTooLargeError):
        await work.run()
    assert work.log == ["read 10", "begin", "back"]


@on_virtual_time
async def test_a_consumer_that_cannot_go_back_is_noted_on_the_error() -> None:
    work = Work()
    work.consumer.trouble = ConnectionError("gone")
    with pytest.raises(LookupError) as caught:
        async for batch in work.batches():
            async with batch:
                raise LookupError
    assert caught.value.__cause__ is work.consumer.trouble
    assert caught.value.__notes__ == [
        "the consumer is not back at its committed offsets, so begin with a new one: gone",
    ]


@on_virtual_time
async def test_a_consumer_that_hangs_is_waited_for_a_while_only() -> None:
    work = Work()
    work.consumer.is_stuck = True
    begun = asyncio.get_running_loop().time()
    with pytest.raises(LookupError) as caught:
        async for batch in work.batches():
            async with batch:
                raise LookupError
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert asyncio.get_running_loop().time() == pytest.approx(begun + SECONDS_TO_GO_BACK)


class Counting(Patience):
    """Counts the beginnings."""

    begun_anew = -1

    def begin_anew(self) -> None:
        self.begun_anew += 1
        super().begin_anew()


@on_virtual_time
async def test_a_committed_batch_is_progress() -> None:
    work = Work(BATCH, BATCH)
    work.ends = [KafkaTimeoutError("no"), None]
    patience = Counting(cast(Transactions, work), 60.0, NO_JITTER)
    batches: ConsumedBatches[Record] = ConsumedBatches(cast(Transactions, work), work.consumer, 1, patience)
    for progress in (0, 1):
        async with await anext(batches):
            pass
        assert patience.begun_anew == progress


class TestUse:
    """The form in which the loop must be written."""

    @on_virtual_time
    async def test_a_batch_that_was_not_entered_is_an_error(self) -> None:
        batches = Work(BATCH, BATCH).batches()
        await anext(batches)
        with pytest.raises(IllegalStateError, match="was not entered"):
            await anext(batches)

    @on_virtual_time
    async def test_a_batch_is_entered_once(self) -> None:
        batch = await anext(Work().batches())
        async with batch:
            pass
        entering: AbstractAsyncContextManager[object] = batch
        with pytest.raises(IllegalStateError, match="entered once"):
            await entering.__aenter__()

    @on_virtual_time
    async def test_a_batch_has_a_record_at_least(self) -> None:
        with pytest.raises(ValueError, match="max_records is 0: write 1 to 2147483647"):
            Work().batches(0)

    @pytest.mark.parametrize("given", ["5", 5.0, True, None])
    async def test_the_number_of_records_is_an_int(self, given: Any) -> None:
        with pytest.raises(TypeError, match=f"max_records is a {type(given).__name__}, not an int"):
            Work().batches(given)

    @on_virtual_time
    async def test_the_number_of_records_may_be_numpy_s(self) -> None:
        work = Work()
        await anext(work.batches(cast(int, numpy.int64(5))))
        assert work.log == ["read 5"]
