"""The way out of the spool: windows, outcomes, the mark, and records that nobody takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pytest

from aiokafkapy.errors import (
    DeliveryTimeoutError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    NotLeaderOrFollowerError,
    ProducerClosedError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from aiokafkapy.producer.accumulator.incomplete_batches import Flush
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.options.topic_options import TopicOptions
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.producer.spool import spool_replay
from aiokafkapy.producer.spool.format import Mark
from aiokafkapy.producer.spool.spool_replay import LARGER, SpoolReplay
from aiokafkapy.producer.spool.spool_runtime import SpoolRuntime

from ..spool_harness import Harness

Outcome = Callable[[ProducerBatch], KafkaError | None]


class Runtime(Harness):
    """The part of a runtime that a replay uses; ``sender`` decides each batch's outcome, and notes the batches."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **{"buffer_records": None, "retry_backoff_ms": 1, **options})
        given = {"max_request_size": 1_000, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, **options}
        self.config = ProducerConfig(bootstrap_servers="h:1", spool_dir=str(folder), **given)
        self.now = self.loop.time
        self.topic_errors: dict[str, KafkaError] = {}
        self.sent: list[list[bytes | None]] = []
        self.outcome: Outcome = lambda _: None
        self.is_out_of_reach = False
        self.changes: list[asyncio.Future[None]] = []
        self.replay = SpoolReplay(cast(SpoolRuntime, self), self.spool, lambda: self.is_out_of_reach)
        self._tasks: list[asyncio.Task[None]] = []

    async def partitions_for(self, topic: str) -> None:
        raise self.topic_errors.get(topic, MetadataTimeoutError(topic))

    async def metadata_change(self, deadline: float) -> bool:
        self.changes.append(self.loop.create_future())
        return bool((await asyncio.wait(self.changes[-1:], timeout=deadline - self.now()))[0])

    def begin_flush(self) -> tuple[Flush, Any]:
        return self.accumulator.begin_flush(lambda: None), None

    async def send(self) -> None:
        """Be the Sender: one batch at a time, when nothing else is to be done."""
        while True:
            await asyncio.sleep(0)
            for batch in self.accumulator.take_queued(lambda _: True, also_sent=True):
                self.sent.append([value for _, _, value, _ in batch.builder.records()])
                error = self.outcome(batch)
                batch.complete(0) if error is None else batch.fail(error)
                self.accumulator.deallocate(batch)

    async def begin(self) -> None:
        found = await self.spool.open()
        self.learn(t=1, u=1)
        self.replay.begin_at(found.mark)

    async def spool_values(self, *values: bytes, topic: str = "t") -> None:
        for value in values:
            assert self.spool.offer(self.record(value, topic, None), "why") is not None
        await self.spool.written()

    async def drain(self) -> None:
        """Run until the spool is empty."""
        self._tasks = [asyncio.create_task(self.replay.run()), asyncio.create_task(self.send())]
        async with asyncio.timeout(10):
            while self.spool.records:  # noqa: ASYNC110  # nobody tells of it
                await asyncio.sleep(0)
            while self.replay.is_sending:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await self.end()

    async def tried_in_vain(self) -> None:
        """Wait until the replay has backed off twice."""
        async with asyncio.timeout(10):
            while self.replay._failures < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def all_sent(self) -> list[bytes | None]:
        return [value for batch in self.sent for value in batch]

    def mark(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.spool.folder / "sent.json").read_text().partition(" ")[2])
        return found


@pytest.fixture
async def new(tmp_path: Path) -> AsyncIterator[Callable[..., Runtime]]:
    made: list[Runtime] = []

    def make(**options: Any) -> Runtime:
        made.append(Runtime(tmp_path / "spool", **options))
        return made[-1]

    yield make
    for runtime in made:
        await runtime.end()
        runtime.admission.close(ProducerClosedError)
        await runtime.spool.close(None)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def test_all_is_sent_in_order_no_more_than_a_batch_of_a_topic_at_a_time(new: Callable[..., Runtime]) -> None:
    runtime = new(batch_size=200 // LARGER)
    await runtime.begin()
    await runtime.spool_values(*numbers(100))
    await runtime.drain()
    assert runtime.all_sent == numbers(100)
    assert 1 < max(map(len, runtime.sent)) < 20
    assert runtime.spool.replayed == 100
    assert not list(runtime.spool.folder.glob("*.spool"))
    assert (runtime.mark()["next"], runtime.mark()["sent_to"]) == (100, 100)


async def test_replayed_batches_are_larger_than_those_of_calls(new: Callable[..., Runtime]) -> None:
    """There is one in a round trip: records that come meanwhile must not be more."""
    runtime = new(batch_size=200, max_request_size=100_000)
    await runtime.begin()
    await runtime.spool_values(*numbers(100))
    sizes: list[int] = []
    runtime.outcome = lambda batch: sizes.append(batch.builder.size)
    await runtime.drain()
    assert runtime.all_sent == numbers(100)
    assert 200 < max(sizes) <= 200 * LARGER
    runtime.enter(b"newer")
    (batch,) = runtime.accumulator.incomplete
    assert batch.limit == 200


async def test_a_large_batch_that_a_broker_splits_is_the_last(new: Callable[..., Runtime]) -> None:
    runtime = new(batch_size=200, max_request_size=100_000)
    await runtime.begin()
    await runtime.spool_values(*numbers(100))
    sizes: list[int] = []

    def outcome(batch: ProducerBatch) -> None:
        sizes.append(batch.builder.size)
        if len(sizes) == 1:
            runtime.accumulator.split_and_reenqueue(batch)

    runtime.outcome = outcome
    await runtime.drain()
    (large, *others) = runtime.sent
    assert [value for batch in others for value in batch] == numbers(100)
    behind = 1 + list(accumulate(map(len, others))).index(len(large))
    assert sizes[0] > 200
    assert all(size <= 200 for size in sizes[1 + behind :])


async def test_a_window_has_no_more_of_a_topic_than_its_limit_allows(new: Callable[..., Runtime]) -> None:
    """Two batches of a partition would pass each other where the first is sent again."""
    runtime = new(batch_size=400)
    await runtime.begin()
    runtime.accumulator.limit_topic("t", 200, runtime.loop.time() + 60)
    await runtime.spool_values(*numbers(20))
    batches: list[int] = []
    runtime.outcome = lambda _: batches.append(runtime.accumulator.batch_count)
    await runtime.drain()
    assert runtime.all_sent == numbers(20)
    assert batches == [1] * len(runtime.sent)
    assert len(batches) > 2


async def test_a_large_batch_that_is_refused_is_sent_in_smaller_ones_first(new: Callable[..., Runtime]) -> None:
    runtime = new(batch_size=200)
    await runtime.begin()
    await runtime.spool_values(*numbers(10))
    runtime.outcome = lambda _: InvalidTimestampError("no") if b"4" in runtime.sent[-1] else None
    await runtime.drain()
    assert runtime.sent == [
        numbers(10),
        [b"0", b"1", b"2"],
        [b"3", b"4", b"5"],
        [b"3"], [b"4"], [b"5"],
        [b"6", b"7", b"8"],
        [b"9"],
    ]  # fmt: skip
    assert (runtime.spool.refused, runtime.spool.replayed) == (1, 9)


async def test_a_record_that_fails_is_sent_again_before_those_behind_it(new: Callable[..., Runtime]) -> None:
    runtime = new(batch_size=200)
    await runtime.begin()
    await runtime.spool_values(*numbers(30))
    failures = [DeliveryTimeoutError("late", outcome_unknown=True), DeliveryTimeoutError("late")]
    runtime.outcome = lambda _: failures.pop() if failures else None
    await runtime.drain()
    assert runtime.sent[0] == runtime.sent[1] == runtime.sent[2]
    assert [value for batch in runtime.sent[2:] for value in batch] == numbers(30)
    assert runtime.spool.repeated == len(runtime.sent[0]), "one of the two may have been written"


async def test_a_topic_without_failures_is_not_sent_again_beside_one_with_failures(new: Callable[..., Runtime]) -> None:
    runtime = new()
    await runtime.begin()
    await runtime.spool_values(b"t1", b"t2")
    await runtime.spool_values(b"u1", topic="u")
    failing = [DeliveryTimeoutError("late")]
    marks: list[dict[str, Any]] = []

    def outcome(batch: ProducerBatch) -> KafkaError | None:
        marks.append(runtime.mark())
        return failing.pop() if failing and batch.topic_partition.topic == "t" else None

    runtime.outcome = outcome
    await runtime.drain()
    assert sorted(map(str, runtime.sent)) == sorted(map(str, [[b"t1", b"t2"], [b"u1"], [b"t1", b"t2"]]))
    assert marks[0] == {"version": 1, "next": 0, "sent_to": 3, "delivered": [], "partitions": []}
    assert marks[-1] == {"version": 1, "next": 0, "sent_to": 3, "delivered": [2], "partitions": [[0, 0], [1, 0]]}


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_the_last_to_be_delivered_is_written_down_at_the_end(
    new: Callable[..., Runtime], is_cancelled: bool
) -> None:
    """Otherwise the next process would send it again, after an orderly end."""
    runtime = new(batch_size=0)
    await runtime.begin()
    await runtime.spool_values(*numbers(3))

    def outcome(_: ProducerBatch) -> None:
        runtime.is_out_of_reach, runtime.replay.is_ending = True, not is_cancelled

    runtime.outcome = outcome
    draining = asyncio.create_task(runtime.drain())
    while not runtime.changes and not runtime.replay.is_ending:  # noqa: ASYNC110
        await asyncio.sleep(0)
    (replaying, _) = runtime._tasks
    if is_cancelled:
        replaying.cancel()
    await asyncio.wait([replaying], timeout=10)
    assert replaying.done()
    assert runtime.mark()["next"] == 1
    draining.cancel()


async def test_a_record_refused_for_good_makes_way(new: Callable[..., Runtime]) -> None:
    runtime = new(batch_size=0)
    await runtime.begin()
    await runtime.spool_values(*numbers(3))
    runtime.outcome = lambda _: InvalidRecordError("no") if len(runtime.sent) == 2 else None
    await runtime.drain()
    assert (runtime.spool.refused, runtime.spool.replayed) == (1, 2)
    (line,) = (runtime.spool.folder / "refused.jsonl").read_text().splitlines()
    assert json.loads(line)["value"] == "1"


async def test_the_other_records_of_a_batch_are_sent_when_one_is_refused(new: Callable[..., Runtime]) -> None:
    """A broker before 2.4 does not name the record."""
    runtime = new()
    await runtime.begin()
    await runtime.spool_values(*numbers(3))
    await runtime.spool_values(b"u", topic="u")
    await runtime.spool_values(b"3")
    runtime.outcome = lambda _: InvalidTimestampError("no") if b"1" in runtime.sent[-1] else None
    await runtime.drain()
    assert runtime.sent == [[*numbers(4)], [b"u"], [b"0"], [b"1"], [b"2"], [b"3"]]
    assert (runtime.spool.refused, runtime.spool.replayed) == (1, 4)
    (line,) = (runtime.spool.folder / "refused.jsonl").read_text().splitlines()
    assert json.loads(line)["value"] == "1"


async def test_a_batch_without_the_right_to_write_is_refused_as_a_whole(new: Callable[..., Runtime]) -> None:
    runtime = new()
    await runtime.begin()
    await runtime.spool_values(*numbers(3))
    runtime.outcome = lambda _: TopicAuthorizationFailedError("no")
    await runtime.drain()
    assert runtime.sent == [numbers(3)]
    assert runtime.spool.refused == 3


@pytest.fixture
def no_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers answer that there is no such topic, whatever is asked."""
    monkeypatch.setattr(ProducerMetadata, "topic_error", lambda self, topic: UnknownTopicOrPartitionError(topic))


@pytest.mark.usefixtures("no_topic")
@pytest.mark.parametrize("error", [MetadataTimeoutError("nothing"), InvalidTopicError("no name")])
async def test_a_topic_that_stays_unknown_makes_way(new: Callable[..., Runtime], error: KafkaError) -> None:
    runtime = new()
    await runtime.begin()
    runtime.topic_errors["gone"] = error
    await runtime.spool_values(b"1", b"2", topic="gone")
    await runtime.spool_values(b"3")
    await runtime.drain()
    assert runtime.sent == [[b"3"]]
    assert runtime.spool.refused == 2


@pytest.mark.usefixtures("no_topic")
async def test_a_topic_that_is_gone_is_waited_for_once(
    new: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records may lie between those of others, in more than one read."""
    monkeypatch.setattr(spool_replay, "READ_RECORDS", 4)
    runtime = new()
    await runtime.begin()
    asked: list[str] = []

    async def partitions_for(topic: str) -> None:
        asked.append(topic)
        raise MetadataTimeoutError(topic)

    monkeypatch.setattr(runtime, "partitions_for", partitions_for)
    for value in numbers(6):
        await runtime.spool_values(value)
        await runtime.spool_values(value, topic="gone")
    await runtime.drain()
    assert runtime.all_sent == numbers(6)
    assert (runtime.spool.refused, asked) == (6, ["gone"])
    assert not runtime.metadata.contains_topic("gone")
    await runtime.spool_values(b"again", topic="gone")
    await runtime.drain()
    assert asked == ["gone", "gone"], "it may be there by now"


@pytest.mark.usefixtures("no_topic")
async def test_a_topic_that_comes_back_is_sent_to(new: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_replay, "READ_RECORDS", 2)
    runtime = new()
    await runtime.begin()
    for value in numbers(4):
        await runtime.spool_values(value, topic="gone")
    refuse = runtime.spool.refuse

    async def refused(lines: Any) -> Path:
        path = await refuse(lines)
        runtime.learn(t=1, u=1, gone=1)
        return path

    monkeypatch.setattr(runtime.spool, "refuse", refused)
    await runtime.drain()
    assert (runtime.spool.refused, runtime.all_sent) == (2, [b"2", b"3"])


async def test_a_topic_is_sent_to_as_soon_as_the_right_is_granted(
    new: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While records of the topic come, only the replay asks."""
    monkeypatch.setattr(spool_replay, "READ_RECORDS", 1)
    runtime = new()
    await runtime.begin()
    asked: list[str] = []

    async def partitions_for(topic: str) -> None:
        asked.append(topic)
        if len(asked) == 1:
            raise TopicAuthorizationFailedError("no", topic=topic)
        runtime.learn(t=1, u=1, secret=1)

    monkeypatch.setattr(runtime, "partitions_for", partitions_for)
    await runtime.spool_values(b"before", b"after", topic="secret")
    await runtime.drain()
    assert (runtime.all_sent, runtime.spool.refused) == ([b"after"], 1)


@pytest.mark.parametrize("failure", [KafkaError("nobody"), None], ids=["out of reach", "late"])
async def test_a_topic_is_not_given_up_while_no_broker_answers(
    new: Callable[..., Runtime], failure: KafkaError | None
) -> None:
    runtime = new()
    await runtime.begin()
    runtime.metadata.last_failure = failure
    runtime.learn(u=1)
    await runtime.spool_values(b"1")
    draining = asyncio.create_task(runtime.drain())
    await runtime.tried_in_vain()
    assert (runtime.sent, runtime.spool.refused) == ([], 0)
    runtime.learn(t=1)
    await draining
    assert runtime.sent == [[b"1"]]


async def test_nothing_is_sent_while_there_is_no_broker(new: Callable[..., Runtime]) -> None:
    runtime = new()
    await runtime.begin()
    runtime.is_out_of_reach = True
    await runtime.spool_values(b"1")
    draining = asyncio.create_task(runtime.drain())
    await runtime.tried_in_vain()
    assert runtime.accumulator.accepted == 0
    assert runtime.metadata.need_full_update, "somebody has to look for one"
    runtime.is_out_of_reach = False
    await draining
    assert runtime.sent == [[b"1"]]


async def test_a_replay_goes_on_with_the_first_sign_of_life(new: Callable[..., Runtime]) -> None:
    """At the end of the back-off the connection may be idle, and closed again."""
    runtime = new(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    await runtime.begin()
    runtime.is_out_of_reach = True
    await runtime.spool_values(b"1")
    draining = asyncio.create_task(runtime.drain())
    while not runtime.changes:  # noqa: ASYNC110
        await asyncio.sleep(0)
    runtime.changes[0].set_result(None)  # of another broker, in vain
    while len(runtime.changes) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    runtime.is_out_of_reach = False
    runtime.changes[1].set_result(None)
    await draining
    assert runtime.sent == [[b"1"]]


async def test_older_records_in_memory_go_first(new: Callable[..., Runtime]) -> None:
    runtime = new()
    await runtime.begin()
    runtime.enter(b"older")
    await runtime.spool_values(b"newer")
    await runtime.drain()
    assert runtime.sent == [[b"older"], [b"newer"]]


class OnceAround:
    """A partitioner that gives the first four records 1, 0, 1 and 0, and 0 to all others."""

    asked = 0

    def partition(self, *_: Any) -> int:
        self.asked += 1
        return self.asked % 2 if self.asked <= 4 else 0


async def spool_by_turns(runtime: Runtime) -> None:
    """Spool four records, which ``OnceAround`` gives to both partitions."""
    runtime.partitioner = OnceAround()
    await runtime.begin()
    runtime.learn(t=2)
    await runtime.spool_values(*numbers(4))


@pytest.mark.parametrize("first", [None, DeliveryTimeoutError("late", outcome_unknown=True)])
async def test_retried_records_go_to_the_same_partitions_where_others_may_be_written(
    new: Callable[..., Runtime], first: KafkaError | None
) -> None:
    """An older record would come behind a younger one otherwise."""
    runtime = new()
    await spool_by_turns(runtime)
    outcomes = [DeliveryTimeoutError("late"), first]
    runtime.outcome = lambda _: outcomes.pop() if outcomes else None
    await runtime.drain()
    again = [] if first is None else [[b"0", b"2"]]
    assert runtime.sent == [[b"0", b"2"], [b"1", b"3"], *again, [b"1", b"3"]]
    assert runtime.partitioner.asked == 4


@pytest.mark.parametrize("is_unknown", [False, True])
async def test_the_records_of_a_refused_batch_keep_their_partitions_and_are_told_where_they_may_be_written(
    new: Callable[..., Runtime], is_unknown: bool
) -> None:
    """The records are sent again one by one; a broker may have written the batch before it refused its repetition."""
    runtime = new()
    await spool_by_turns(runtime)
    partitions: list[int] = []

    def outcome(batch: ProducerBatch) -> KafkaError | None:
        partitions.append(batch.topic_partition.partition)
        return UnknownServerError("no", outcome_unknown=is_unknown) if len(partitions) == 2 else None

    runtime.outcome = outcome
    await runtime.drain()
    assert runtime.sent == [[b"0", b"2"], [b"1", b"3"], [b"1"], [b"3"]]
    assert partitions == [1, 0, 0, 0]
    assert runtime.partitioner.asked == 4
    assert runtime.spool.repeated == 2 * is_unknown


async def test_the_next_process_knows_the_partitions_too(new: Callable[..., Runtime]) -> None:
    class Turns:
        asked = 0

        def partition(self, *_: Any) -> int:
            self.asked += 1
            return self.asked % 2

    before = new()
    before.partitioner = Turns()
    await before.begin()
    before.learn(t=2)
    await before.spool_values(*numbers(4))
    before.outcome = lambda batch: None if batch.topic_partition.partition == 0 else DeliveryTimeoutError("late")
    draining = asyncio.create_task(before.drain())
    await before.tried_in_vain()
    draining.cancel()
    await before.end()
    await before.spool.close(None)
    assert before.sent[:2] == [[b"0", b"2"], [b"1", b"3"]]

    after = new()
    after.partitioner = None  # is not asked
    await after.begin()
    after.learn(t=2)
    partitions: list[int] = []
    after.outcome = lambda batch: partitions.append(batch.topic_partition.partition)
    await after.drain()
    assert (after.sent, partitions) == ([[b"0", b"2"]], [1])


async def test_a_partition_is_chosen_again_for_records_that_were_not_written(new: Callable[..., Runtime]) -> None:
    class Next:
        asked = 0

        def partition(self, *_: Any) -> int:
            self.asked += 1
            return 0

    runtime = new()
    runtime.partitioner = Next()
    await runtime.begin()
    await runtime.spool_values(b"0")
    runtime.outcome = lambda _: None if len(runtime.sent) > 1 else DeliveryTimeoutError("late")
    await runtime.drain()
    assert runtime.partitioner.asked == 2


@pytest.mark.parametrize("chosen", [0, None])
async def test_the_partitioner_is_asked_once_for_a_record_that_finds_no_room_at_first(
    new: Callable[..., Runtime], chosen: int | None
) -> None:
    asked: list[bytes] = []

    class Noting:
        def partition(self, topic: str, key_bytes: Any, value_bytes: bytes, *_: Any) -> int | None:
            asked.append(value_bytes)
            return chosen

    runtime = new(buffer_records=2)
    runtime.partitioner = Noting()
    await runtime.begin()
    runtime.enter(b"u", topic="u")
    await runtime.spool_values(*numbers(7))
    await runtime.drain()
    assert asked == numbers(7)
    assert runtime.all_sent == [b"u", *numbers(7)]


class Unprintable(Exception):
    """An error whose ``str`` raises."""

    def __str__(self) -> str:
        raise LookupError("hostile")


@pytest.mark.parametrize(
    "error", [LookupError("odd"), NotLeaderOrFollowerError("retriable"), asyncio.CancelledError(), Unprintable()]
)
@pytest.mark.parametrize("buffer_records", [None, 1])
async def test_a_partitioner_that_fails_harms_its_record_alone(
    new: Callable[..., Runtime], error: BaseException, buffer_records: int | None
) -> None:
    """The error may be any: the spool is one line, and would wait for the record without end."""

    class Odd:
        def partition(self, topic: str, key: Any, value: Any, *_: Any) -> int:
            if value == b"1":
                raise error
            return 0

    runtime = new(buffer_records=buffer_records)
    runtime.partitioner = Odd()
    await runtime.begin()
    await runtime.spool_values(*numbers(3))
    await runtime.drain()
    assert runtime.all_sent == [b"0", b"2"]
    assert runtime.spool.refused == 1


async def test_a_refused_record_is_not_passed_while_the_disk_cannot_set_it_aside(
    new: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record would be sent again, and if a broker took it this time, it would come behind younger ones."""
    runtime = new(batch_size=0)
    await runtime.begin()
    await runtime.spool_values(*numbers(3))
    runtime.outcome = lambda _: InvalidRecordError("no") if len(runtime.sent) == 1 else None
    seen: list[list[bytes | None]] = []

    async def full(_: Any) -> Any:
        seen.append(runtime.all_sent)
        if len(seen) == 3:
            monkeypatch.undo()
        raise OSError("disk full")

    monkeypatch.setattr(runtime.spool, "refuse", full)
    await runtime.drain()
    assert seen == [[b"0"]] * 3
    assert runtime.all_sent == numbers(3)
    assert (runtime.spool.refused, runtime.spool.replayed) == (1, 2)
    assert runtime.mark()["next"] == 3


async def test_without_room_one_record_waits_in_line(new: Callable[..., Runtime]) -> None:
    runtime = new(buffer_records=1)
    await runtime.begin()
    runtime.enter(b"u", topic="u")
    await runtime.spool_values(*numbers(3))
    await runtime.drain()
    assert runtime.all_sent == [b"u", *numbers(3)]


async def test_a_topic_with_priority_uses_the_share_that_is_kept_for_it(new: Callable[..., Runtime]) -> None:
    runtime = new(buffer_records=10, priority_reserve_percent=50, topics={"t": TopicOptions(priority="high")})
    await runtime.begin()
    for _ in range(5):
        runtime.enter(b"u", topic="u")
    await runtime.spool_values(*numbers(3))
    replay = asyncio.create_task(runtime.replay.run())
    async with asyncio.timeout(10):
        while not runtime.replay.is_sending:  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert runtime.in_memory() == [b"u"] * 5 + numbers(3)
    replay.cancel()


async def test_a_disk_that_takes_no_mark_keeps_nothing_back(
    new: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = new(batch_size=0)
    await runtime.begin()
    await runtime.spool_values(*numbers(3))

    async def full(_: Mark) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(runtime.spool, "mark", full)
    await runtime.drain()
    assert runtime.all_sent == numbers(3)
    assert "producer.spool_retries" in caplog.text


async def test_a_disk_that_cannot_be_read_is_tried_again(
    new: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = new()
    await runtime.begin()
    await runtime.spool_values(b"1")

    async def broken(*_: Any) -> Any:
        raise OSError("i/o error")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.spool, "read", broken)
        draining = asyncio.create_task(runtime.drain())
        await runtime.tried_in_vain()
        assert runtime.replay.error == "the spool cannot go on: OSError: i/o error"
    await draining
    assert runtime.sent == [[b"1"]]
    assert runtime.replay.error is None


async def test_unsent_records_are_given_back_at_the_end(new: Callable[..., Runtime]) -> None:
    runtime = new()
    await runtime.begin()
    await runtime.spool_values(*numbers(3))
    task = asyncio.create_task(runtime.replay.run())
    async with asyncio.timeout(5):
        while not runtime.replay.is_sending:  # noqa: ASYNC110
            await asyncio.sleep(0)
    runtime.replay.is_ending = True
    runtime.replay.give_back()
    await asyncio.wait_for(task, 5)
    assert (runtime.accumulator.accepted, runtime.spool.records) == (0, 3)
    assert runtime.mark()["next"] == 0
