"""Records that cannot be appended yet: their order, deadlines and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from aiokafkapy.cluster.cluster import Cluster
from aiokafkapy.errors import (
    BufferExhaustedError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.producer.accumulator.built_in_partitioner import UNKNOWN_PARTITION
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.admission import SLICE
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.testing.clock import VirtualClock
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS

from ..intake_harness import IntakeRuntime, new_admission
from ..sender_fakes import VirtualLoop, cluster_of

MAX_BLOCK = 60.0


class Harness:
    """Admission in front of a real accumulator, on a virtual loop."""

    def __init__(self, leaders: Mapping[str, Sequence[int]] | None = None, **options: Any) -> None:
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self._asyncio_loop = cast(asyncio.AbstractEventLoop, self.loop)
        self.metadata = ProducerMetadata(**PRODUCER_METADATA_OPTIONS)
        self.metadata.bootstrap([("h", 1)])
        config = ProducerConfig(bootstrap_servers="h:1", **options)
        self.accumulator = RecordAccumulator(config)
        self.chosen: list[tuple[str, object, object, object, object]] = []
        self.choice: Callable[[], int] = lambda: UNKNOWN_PARTITION
        self.admission = new_admission(
            self._asyncio_loop, self.metadata, self.accumulator, config, max_block=MAX_BLOCK, partitioner=self
        )
        self.calls = self.admission.calls
        self.metadata.add_listener(self.admission.on_metadata_update)
        if leaders:
            self.learn(leaders)

    def partition(
        self, topic: str, key_bytes: object, value_bytes: object, key: object, value: object, cluster: Cluster
    ) -> int:
        """The partitioner's call: note the arguments, and return the result of ``choice``."""
        self.chosen.append((topic, key_bytes, value_bytes, key, value))
        return self.choice()

    def learn(self, leaders: Mapping[str, Sequence[int]], **changes: object) -> None:
        """Metadata arrives: the leaders of these topics' partitions, and other fields of the cluster."""
        self.metadata.cluster = cluster_of(leaders)
        for name, value in changes.items():
            setattr(self.metadata.cluster, name, value)
        self.admission.on_metadata_update()
        self.loop.run()

    def record(
        self, value: object = b"x", topic: str = "t", partition: int | None = 0, key: object = None
    ) -> PendingRecord:
        return PendingRecord(self.admission, topic, key, value, partition, 1, None, loop=self._asyncio_loop)

    def enter(
        self, value: object = b"x", topic: str = "t", partition: int | None = 0, key: object = None
    ) -> PendingRecord:
        """The record after it has entered the admission, which may have accepted it."""
        record = self.record(value, topic, partition, key)
        self.admission.enter(record, self.clock.time())
        return record

    def deliver_oldest(self) -> None:
        """A broker has the oldest batch; its memory comes back."""
        first, now = self.accumulator.incomplete[0].topic_partition, self.clock.time()
        cluster = cluster_of({first.topic: [-1] * first.partition + [1]})
        self.accumulator.ready(cluster, now, {})
        ((oldest,),) = self.accumulator.drain(cluster, [1], 1_000_000, now).values()
        oldest.complete(0)
        self.accumulator.deallocate(oldest)

    def counted(self, name: str) -> float:
        """Kafka's metric of this name; a time in seconds."""
        value = self.calls.snapshot(self.clock.time())[name]
        return value / 1e9 if "-ns-" in name else value

    def appended(self, partition: int = 0, topic: str = "t") -> list[bytes | None]:
        """The values of the batches, in order."""
        batches = [batch for batch in self.accumulator.incomplete if batch.topic_partition == (topic, partition)]
        return [value for batch in batches for _, _, value, _ in batch.builder.records()]


def test_with_metadata_and_room_a_record_is_accepted_at_once() -> None:
    harness = Harness({"t": [1]})
    assert harness.enter().result() is not None
    assert harness.admission.waiting == 0


def test_records_wait_for_metadata_and_enter_in_call_order() -> None:
    harness = Harness()
    records = [harness.enter(b"%d" % number, partition=number % 2) for number in range(10)]
    assert harness.admission.waiting == 10
    assert harness.metadata.contains_topic("t")
    assert harness.metadata.need_partial_update
    harness.learn({"other": [1]})
    assert not any(record.done() for record in records)
    harness.learn({"t": [1, 1]})
    assert all(record.done() for record in records)
    assert harness.appended(0) == [b"0", b"2", b"4", b"6", b"8"]
    assert harness.appended(1) == [b"1", b"3", b"5", b"7", b"9"]
    assert harness.admission.waiting == 0


def test_the_partitioner_gets_the_given_and_the_serialized_values() -> None:
    harness = Harness()
    record = harness.record(b"bytes", partition=None, key=b"k")
    record.original = ("key", "value")
    harness.admission.enter(record, harness.clock.time())
    harness.learn({"t": [1]})
    assert harness.chosen == [("t", b"k", b"bytes", "key", "value")]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ZeroDivisionError, ZeroDivisionError),
        (asyncio.CancelledError, KafkaError),
        (GeneratorExit, KafkaError),
        (StopIteration, KafkaError),
        (KeyboardInterrupt, KeyboardInterrupt),
        (SystemExit, SystemExit),
    ],
)
def test_every_exception_of_a_partitioner_fails_its_own_record(
    raised: type[BaseException], told: type[BaseException]
) -> None:
    harness = Harness()

    def choice() -> int:
        raise raised("no")

    harness.choice = choice
    broken, fine, other = harness.enter(partition=None), harness.enter(b"fine"), harness.enter(topic="t2")
    harness.learn({"t": [1], "t2": [1]})
    error = broken.exception()
    assert type(error) is told
    if told is KafkaError:
        assert str(error) == f"the partitioner failed for a record of topic 't': {raised.__name__}: no"
        assert isinstance(error.__cause__, raised)
    assert fine.result() is not None
    assert other.result() is not None


def test_the_partition_is_chosen_once_also_when_there_is_no_room() -> None:
    harness = Harness({"t": [1, 1]}, buffer_memory=3000, max_request_size=2000, batch_size=1000)
    choices = iter(range(100))
    harness.choice = lambda: next(choices) % 2
    records = [harness.enter(b"%d" % number + b"x" * 800, partition=None) for number in range(8)]
    assert not records[-1].done()
    while not all(record.done() for record in records):
        harness.deliver_oldest()
    assert len(harness.chosen) == 8
    assert [record.result().topic_partition.partition for record in records] == [0, 1] * 4


def test_a_record_whose_partition_is_chosen_already_is_not_asked_about_again() -> None:
    harness = Harness({"t": [1, 1]})
    assert harness.enter(partition=UNKNOWN_PARTITION).result() is not None
    assert harness.enter(partition=1).result().topic_partition.partition == 1
    assert harness.chosen == []


def test_a_partitioner_that_takes_the_record_back_does_not_disturb_the_queue() -> None:
    harness = Harness()
    taken_back = harness.record(b"0", partition=None)
    harness.choice = lambda: int(not taken_back.cancel())
    harness.admission.enter(taken_back, harness.clock.time())
    later = [harness.enter(b"%d" % number) for number in range(1, 4)]
    harness.learn({"t": [1]})
    assert taken_back.cancelled()
    assert all(record.result() is not None for record in later)
    assert harness.appended() == [b"1", b"2", b"3"]
    assert harness.admission.waiting == 0


def test_nothing_overtakes_a_record_that_is_still_being_serialized() -> None:
    harness = Harness({"t": [1]})
    first = harness.record(b"1")
    first.is_serialized = False
    harness.admission.enter(first, harness.clock.time())
    second = harness.enter(b"2")
    other_topic = harness.enter(b"other", topic="t2")
    assert not second.done()
    harness.learn({"t": [1], "t2": [1]})
    assert other_topic.done()
    assert not second.done()
    harness.admission.proceed(first, harness.clock.time())
    assert first.done()
    assert second.done()
    assert harness.appended() == [b"1", b"2"]


def test_a_refused_record_lets_the_next_one_in() -> None:
    harness = Harness({"t": [1]})
    first = harness.record(b"1")
    first.is_serialized = False
    harness.admission.enter(first, harness.clock.time())
    second = harness.enter(b"2")
    harness.admission.refuse(first, KafkaError("serializer"))
    assert str(first.exception()) == "serializer"
    assert second.done()
    assert harness.appended() == [b"2"]


def test_a_partition_that_does_not_exist_holds_up_no_others() -> None:
    harness = Harness({"t": [1]})
    missing, more = harness.enter(b"0", partition=3), harness.enter(b"1", partition=3)
    assert harness.enter(b"2", partition=0).done()
    assert not missing.done()
    assert harness.metadata.is_update_requested
    harness.learn({"t": [1, 1]})
    assert not missing.done()
    harness.learn({"t": [1, 1, 1, 1]})
    assert missing.done()
    assert more.done()
    assert harness.appended(3) == [b"0", b"1"]
    assert harness.admission._missing_partitions == {}


def test_a_record_that_waited_for_its_topic_moves_aside_when_its_partition_is_missing() -> None:
    harness = Harness()
    missing, fine = harness.enter(b"0", partition=3), harness.enter(b"1")
    harness.learn({"t": [1]})
    assert fine.done()
    assert not missing.done()
    harness.learn({"t": [1, 1, 1, 1]})
    assert missing.done()


class TestRoom:
    """Waiting for buffer_memory happens in the accumulator's line."""

    def full(self) -> Harness:
        harness = Harness({"t": [1]}, buffer_memory=3000, max_request_size=2000, batch_size=1000)
        first = harness.enter(b"x" * 1500).result()
        assert first is not None
        while harness.enter(b"x" * 500).done():
            pass
        return harness

    def test_records_are_let_in_in_order_when_memory_comes_back(self) -> None:
        harness = self.full()
        second, third = harness.enter(b"2" * 100), harness.enter(b"3" * 100)
        assert not second.done()
        harness.deliver_oldest()
        assert second.done()
        assert third.done()
        assert harness.appended()[-2:] == [b"2" * 100, b"3" * 100]
        assert harness.admission.waiting == 0

    def test_a_record_that_gives_up_leaves_the_line(self) -> None:
        harness = self.full()
        record = harness.enter(b"y" * 500)
        waiting = harness.accumulator.appender.waiting
        assert record.cancel()
        assert harness.accumulator.appender.waiting == waiting - 1
        assert not record.cancel()

    def test_when_the_first_gives_up_the_next_may_fit(self) -> None:
        harness = Harness({"t": [1]}, buffer_memory=3000, max_request_size=2000, batch_size=1000)
        harness.enter(b"x" * 1500)
        large = harness.enter(b"y" * 1900)
        small = harness.enter(b"z" * 100)
        assert (large.done(), small.done()) == (False, False)
        assert large.cancel()
        assert small.result() is not None
        assert harness.admission.waiting == 0

    def test_when_the_time_of_the_first_is_over_the_next_may_fit(self) -> None:
        harness = Harness({"t": [1]}, buffer_memory=3000, max_request_size=2000, batch_size=1000)
        harness.enter(b"x" * 1500)
        large = harness.enter(b"y" * 1900)
        harness.clock.advance(1)
        small = harness.enter(b"z" * 100)
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK - 1)
        assert isinstance(large.exception(), BufferExhaustedError)
        assert small.result() is not None

    def test_a_closed_accumulator_refuses_waiting_records(self) -> None:
        harness = self.full()
        record = harness.enter(b"y" * 500)
        harness.accumulator.close()
        assert isinstance(record.exception(), ProducerClosedError)
        assert harness.admission.waiting == harness.accumulator.appender.waiting == 0

    def test_the_error_of_a_record_that_waits_too_long_says_how_full_the_buffer_is(self) -> None:
        harness = self.full()
        record = harness.enter(b"y" * 500)
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK)
        error = record.exception()
        assert isinstance(error, BufferExhaustedError)
        assert "max_block_ms=60000" in str(error)
        assert "3000" in str(error)
        assert harness.accumulator.appender.waiting == 0

    def test_closing_refuses_those_in_the_line_too(self) -> None:
        harness = self.full()
        waiting = harness.admission.snapshot()
        assert waiting
        harness.admission.close(lambda topic: ProducerClosedError(topic))
        assert all(isinstance(record.exception(), ProducerClosedError) for record in waiting)
        assert harness.accumulator.appender.waiting == 0


class TestMetrics:
    """Kafka's metrics of the waits."""

    METADATA = "metadata-wait-time-ns-total"
    ROOM = "bufferpool-wait-time-ns-total"

    def full(self) -> Harness:
        harness = Harness({"t": [1]}, buffer_memory=3000, max_request_size=2000, batch_size=1000)
        harness.enter(b"x" * 1500)
        return harness

    def test_each_record_s_wait_for_metadata_counts_once_it_is_over(self) -> None:
        harness = Harness()
        harness.enter()
        harness.clock.advance(2)
        harness.enter()
        harness.clock.advance(1)
        assert harness.counted(self.METADATA) == 0
        harness.learn({"t": [1]})
        assert harness.counted(self.METADATA) == pytest.approx(4)
        harness.enter()
        assert harness.counted(self.METADATA) == pytest.approx(4)
        assert harness.counted(self.ROOM) == 0

    def test_a_wait_for_metadata_in_vain_does_not_count(self) -> None:
        harness = Harness()
        harness.enter()
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK)
        assert harness.counted(self.METADATA) == 0

    def test_the_wait_for_a_partition_that_is_missing_counts(self) -> None:
        harness = Harness({"t": [1]})
        harness.enter(partition=1)
        harness.clock.advance(3)
        harness.learn({"t": [1, 1]})
        assert harness.counted(self.METADATA) == pytest.approx(3)

    def test_a_wait_for_room_counts_however_it_ends(self) -> None:
        harness = self.full()
        granted, cancelled, late = (harness.enter(b"y" * 1900) for _ in range(3))
        harness.clock.advance(2)
        assert cancelled.cancel()
        assert harness.counted(self.ROOM) == pytest.approx(2)
        harness.clock.advance(3)
        harness.deliver_oldest()
        assert granted.done()
        assert harness.counted(self.ROOM) == pytest.approx(7)
        assert harness.counted("bufferpool-wait-ratio") == pytest.approx(7 / 35)
        assert harness.counted("buffer-exhausted-total") == 0
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK)
        assert isinstance(late.exception(), BufferExhaustedError)
        assert harness.counted(self.ROOM) == pytest.approx(7 + MAX_BLOCK)
        assert harness.counted("buffer-exhausted-total") == 1
        assert harness.counted(self.METADATA) == 0

    def test_a_record_that_may_not_wait_and_finds_no_room_counts(self) -> None:
        harness = self.full()
        assert isinstance(harness.admission.why_not_at_once(harness.record()), BufferExhaustedError)
        assert harness.counted("buffer-exhausted-total") == 1
        assert isinstance(harness.admission.why_not_at_once(harness.record(topic="new")), KafkaError)
        assert harness.counted("buffer-exhausted-total") == 1

    def test_a_record_whose_own_time_is_over_without_room_counts(self) -> None:
        harness = self.full()
        record = harness.enter(b"y" * 1900)
        record.own_deadline = record.deadline
        harness.admission.expire_early(record)
        assert record.exception() is not None
        assert harness.counted("buffer-exhausted-total") == 1


class TestGivingUp:
    def test_a_cancelled_record_is_never_sent_and_the_next_moves_up(self) -> None:
        harness = Harness()
        records = [harness.enter(b"%d" % number) for number in range(6)]
        for record in records[::2]:
            assert record.cancel()
        assert harness.admission.waiting == 3
        harness.learn({"t": [1]})
        assert harness.appended() == [b"1", b"3", b"5"]
        assert not records[1].cancel()
        assert records[1].result() is not None

    def test_a_cancelled_record_lets_go_of_its_data(self) -> None:
        harness = Harness()
        record = harness.enter(b"large")
        record.cancel()
        assert record.value is None
        assert record.original == (None, None)

    def test_an_unknown_topic_times_out_and_is_not_asked_for_any_more(self) -> None:
        harness = Harness()
        records = [harness.enter() for _ in range(3)]
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK - 1)
        later = harness.enter()
        harness.loop.run_until(harness.clock.time() + 1)
        assert all(isinstance(record.exception(), MetadataTimeoutError) for record in records)
        assert "no metadata within max_block_ms=60000" in str(records[0].exception())
        assert not later.done()
        assert harness.metadata.contains_topic("t")
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK)
        assert isinstance(later.exception(), MetadataTimeoutError)
        assert not harness.metadata.contains_topic("t")
        assert harness.admission.topics == {}
        assert harness.loop.pending_timers == 0

    def test_a_missing_partition_is_the_cause_it_names(self) -> None:
        harness = Harness({"t": [1, 1]})
        record = harness.enter(partition=5)
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK)
        assert "has 2 partitions, 0 to 1" in str(record.exception())

    def test_a_serializer_that_hangs_is_the_cause_for_it_and_for_those_behind(self) -> None:
        harness = Harness({"t": [1]})
        first = harness.record(b"1")
        first.is_serialized = False
        harness.admission.enter(first, harness.clock.time())
        harness.clock.advance(1)
        second = harness.enter(b"2")
        harness.loop.run_until(harness.clock.time() + MAX_BLOCK - 1)
        assert isinstance(first.exception(), KafkaTimeoutError)
        assert "the serializer did not answer" in str(first.exception())
        assert second.done()
        assert harness.appended() == [b"2"]

    @pytest.mark.parametrize(
        ("field", "error"),
        [("invalid_topics", InvalidTopicError), ("unauthorized_topics", TopicAuthorizationFailedError)],
    )
    def test_a_lasting_failure_is_raised_at_once(self, field: str, error: type[KafkaError]) -> None:
        harness = Harness()
        record = harness.enter()
        harness.learn({}, **{field: frozenset({"t"})})
        assert isinstance(record.exception(), error)

    def test_a_fatal_error_of_metadata_fails_all_waiting_records(self) -> None:
        harness = Harness()
        records = [harness.enter(), harness.enter(topic="t2")]
        harness.metadata.set_fatal_error(KafkaError("credentials"))
        assert [str(record.exception()) for record in records] == ["credentials", "credentials"]

    def test_too_large_a_record_is_refused(self) -> None:
        harness = Harness()
        record = harness.enter(b"x" * 2_000_000)
        harness.learn({"t": [1]})
        assert isinstance(record.exception(), RecordTooLargeError)

    def test_closing_refuses_everybody_and_leaves_no_timer(self) -> None:
        harness = Harness()
        records = [harness.enter() for _ in range(3)]
        harness.admission.close(lambda topic: ProducerClosedError(f"closed {topic}"))
        assert all(str(record.exception()) == "closed t" for record in records)
        assert harness.loop.pending_timers == 0
        harness.admission.on_metadata_update()


def test_a_long_queue_is_let_in_by_slices() -> None:
    harness = Harness()
    records = [harness.enter(b"%d" % number) for number in range(3 * SLICE)]
    harness.metadata.cluster = cluster_of({"t": [1]})
    harness.admission.on_metadata_update()
    assert sum(record.done() for record in records) == SLICE
    harness.loop.run()
    assert all(record.done() for record in records)
    assert harness.appended() == [b"%d" % number for number in range(3 * SLICE)]


def test_the_listener_hears_of_topics_in_use_but_not_at_every_record() -> None:
    harness = Harness({"t": [1], "u": [1]})
    told: list[tuple[str, float]] = []
    harness.admission.on_use = lambda state, now: told.append((state.topic, now))
    began = harness.clock.time()
    for topic in ("t", "u", "t", "t"):
        harness.enter(topic=topic)
    assert told == [("t", began), ("u", began)]
    harness.clock.advance(harness.metadata.max_idle / 10)
    harness.enter()
    assert told[2:] == [("t", harness.clock.time())]


def test_a_topic_in_use_is_renewed_but_not_at_every_record() -> None:
    harness = Harness({"t": [1]})
    metadata = harness.metadata
    add, calls = metadata.add, []

    def counting(topic: str, now: float) -> None:
        calls.append(now)
        add(topic, now)

    metadata.add = counting  # type: ignore[method-assign]
    for _ in range(100):
        harness.clock.advance(1)
        harness.admission.refresh("t", harness.clock.time())
    assert metadata.retain_topic("t", is_internal=False, now=harness.clock.time() + 0.8 * metadata.max_idle)
    assert 3 <= len(calls) <= 5


async def test_a_task_that_is_cancelled_takes_its_record_back_in_the_same_step() -> None:
    """Between the cancellation and the task's next step the record must not slip in."""
    runtime = IntakeRuntime()
    loop, metadata, admission, accumulator = runtime.loop, runtime.metadata, runtime.admission, runtime.accumulator
    record = PendingRecord(admission, "t", None, b"x", 0, 1, None, loop=loop)
    admission.enter(record, loop.time())

    async def wait() -> Any:
        return await record

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    metadata.cluster = cluster_of({"t": [1]})
    admission.on_metadata_update()
    assert accumulator.accepted == 0
    with pytest.raises(asyncio.CancelledError):
        await task
    admission.close(lambda topic: ProducerClosedError(topic))
