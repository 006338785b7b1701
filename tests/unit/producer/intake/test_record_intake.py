"""A record's way in its caller's step. Most of it is tested through the producer, in test_producer."""

from __future__ import annotations

import asyncio
from collections import deque
from enum import StrEnum
from typing import Any, cast

import pytest

from aiokafkapy.errors import IllegalStateError, InvalidTimestampError, InvalidTopicError, ProducerNotStartedError
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.partitioners import CallablePartitioner, DefaultPartitioner, choose_partition
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.intake.record_intake import RecordIntake
from aiokafkapy.record.murmur2 import partition_for_key

from ..intake_harness import IntakeRuntime, new_intake
from ..sender_fakes import cluster_of


class Topic(StrEnum):
    ORDERS = "orders"


def accept(taker: RecordIntake, topic: Any = "orders", key: bytes | None = None) -> Any:
    return taker.accept(topic, b"value", key, None, None, None)


def refuses(taker: RecordIntake) -> bool:
    with pytest.raises(ProducerNotStartedError):
        accept(taker)
    with pytest.raises(ProducerNotStartedError):
        taker.usable_runtime()
    return True


async def test_an_intake_takes_nothing_while_it_is_bound_to_no_runtime() -> None:
    taker, runtime = new_intake(), IntakeRuntime()
    assert refuses(taker)
    taker.bind(cast(Any, runtime))
    assert isinstance(accept(taker), Delivery)
    assert cast(Any, taker.usable_runtime()) is runtime
    taker.unbind()
    assert refuses(taker)


async def test_calls_under_way_go_on_when_the_gate_opens_again_but_not_in_another_transaction() -> None:
    taker = new_intake()
    taker.bind(cast(Any, IntakeRuntime()))
    opening = taker.opening
    taker.shut_gate()
    assert not taker.takes_records(opening)
    taker.reopen_gate()
    assert taker.takes_records(opening)
    taker.accepting_runtime(opening)
    taker.shut_gate()
    taker.open_gate()
    assert not taker.takes_records(opening)
    with pytest.raises(IllegalStateError, match="has ended without this record"):
        taker.accepting_runtime(opening)


async def test_a_time_that_is_given_is_checked_where_the_topic_has_bounds() -> None:
    taker, runtime = new_intake(), IntakeRuntime()
    taker.bind(cast(Any, runtime))
    accept(taker)
    seen: list[int] = []
    runtime.topics["orders"].check_time = seen.append
    accept(taker)
    assert isinstance(taker.accept("orders", b"value", None, None, 7, None), Delivery)
    assert seen == [7]

    def refuse(timestamp_ms: int) -> None:
        raise InvalidTimestampError(str(timestamp_ms))

    runtime.topics["orders"].check_time = refuse
    with pytest.raises(InvalidTimestampError, match="8"):
        taker.accept("orders", b"value", None, None, 8, None)
    assert runtime.values() == [b"value"] * 3


def test_an_intake_takes_nothing_where_no_loop_runs() -> None:
    taker = new_intake()

    async def bind() -> None:
        taker.bind(cast(Any, IntakeRuntime()))
        assert isinstance(accept(taker), Delivery)

    asyncio.run(bind())
    assert refuses(taker)

    async def elsewhere() -> None:
        assert refuses(taker)

    asyncio.run(elsewhere())


async def test_an_intake_takes_nothing_once_the_runtime_has_ended() -> None:
    runtime = IntakeRuntime()
    taker = new_intake(runtime)
    accept(taker)
    runtime.end()
    assert refuses(taker)


async def test_a_record_waits_behind_those_that_its_partitioner_has_sent() -> None:
    """Those may have gone to the spool, with older records of the topic."""
    runtime = IntakeRuntime()

    def partition(*_: object) -> int:
        runtime.topics["orders"].waiting = deque()
        return 0

    taker = new_intake(runtime, partitioner=CallablePartitioner(partition))
    record = accept(taker)
    assert isinstance(record, PendingRecord)
    assert (record.partition, runtime.values()) == (0, [])
    record.cancel()


async def test_a_record_whose_partitioner_unbinds_it_still_finds_its_place() -> None:
    runtime = IntakeRuntime()

    def partition(*_: Any) -> int:
        taker.unbind()
        return 4

    taker = new_intake(runtime, partitioner=CallablePartitioner(partition))
    assert accept(taker).topic_partition.partition == 4
    assert refuses(taker)


async def test_a_record_that_cannot_be_appended_is_given_back_without_a_place() -> None:
    runtime = IntakeRuntime()
    taker = new_intake(runtime)
    data = bytearray(b"now")
    for topic, partition in (("new", None), ("orders", 6)):
        record = taker.accept(topic, data, None, partition, 5, [("a", b"b")])
        assert isinstance(record, PendingRecord)
        data[:] = b"new"
        assert (record.topic, record.partition, record.timestamp_ms) == (topic, partition, 5)
        assert (record.value, record.headers, record.is_serialized) == (b"now", (("a", b"b"),), True)
        data[:] = b"now"
    assert runtime.admission.waiting == 0


async def test_the_partition_is_chosen_once_also_of_a_record_without_room() -> None:
    asked: list[Any] = []

    def partition(topic: str, key: Any, value: Any, *_: Any) -> int:
        asked.append(value)
        return len(asked) % 6

    runtime = IntakeRuntime(buffer_memory=9_000, max_request_size=8_000)
    taker = new_intake(runtime, partitioner=CallablePartitioner(partition))
    record: Any = None
    while not isinstance(record, PendingRecord):
        record = taker.accept("orders", bytes(2_000), None, None, None, None)
    assert record.partition == len(asked) % 6
    runtime.admission.enter(record, runtime.now())
    assert not record.done()
    before = len(asked)
    for batch in runtime.accumulator.incomplete:
        batch.close()
        batch.complete(0)
        runtime.accumulator.deallocate(batch)
    runtime.admission.on_room()
    assert record.result().topic_partition.partition == record.partition
    assert len(asked) == before


async def test_an_intake_tells_whether_code_of_the_users_sees_each_record() -> None:
    plain = new_intake()
    assert plain.takes_plain_values
    assert not plain.shows_each_record
    assert not new_intake(value_serializer=lambda topic, data: data).takes_plain_values
    own = new_intake(partitioner=CallablePartitioner(lambda *_: 0))
    assert own.shows_each_record
    assert not own.takes_plain_values


async def test_a_key_goes_where_java_sends_it() -> None:
    taker = new_intake(IntakeRuntime())
    for key in (b"", b"a", bytearray(b"ab"), memoryview(b"abc"), b"abcdefgh"):
        assert accept(taker, key=cast(bytes, key)).topic_partition == ("orders", partition_for_key(key, 6))


async def test_a_new_view_of_the_cluster_counts_from_the_next_record_on() -> None:
    life = IntakeRuntime()
    taker = new_intake(life)
    key = next(key for key in map(b"%d".__mod__, range(100)) if partition_for_key(key, 60) >= 6)
    assert accept(taker, key=key).topic_partition.partition == partition_for_key(key, 6)
    life.learn({"orders": 60})
    assert accept(taker, key=key).topic_partition.partition == partition_for_key(key, 60)


async def test_a_topic_may_be_a_member_of_an_enum() -> None:
    taker = new_intake(IntakeRuntime())
    delivery = accept(taker, Topic.ORDERS)
    assert type(delivery.topic_partition.topic) is str
    assert delivery.topic_partition.topic == "orders"


async def test_an_invalid_topic_is_refused() -> None:
    taker = new_intake(IntakeRuntime())
    wrong: list[Any] = ["", None, 1, b"orders", [], ".."]
    for topic in wrong:
        with pytest.raises(InvalidTopicError, match="name of a topic"):
            accept(taker, topic)


async def test_an_intake_asks_the_clock_where_a_batch_is_opened_and_renews_the_topic_there() -> None:
    life = IntakeRuntime()
    asked: list[float] = []
    at = 1000.0

    def now() -> float:
        asked.append(at)
        return at

    life.now = now
    taker = new_intake(life)
    for _ in range(1000):
        taker.accept("orders", b"value", None, 0, None, None)
    before = len(asked)
    assert before < 100  # the batch was opened, and grew
    at += 0.9 * life.metadata.max_idle
    taker.accept("orders", b"value", None, 1, None, None)
    assert len(asked) == before + 1
    assert life.metadata.retain_topic("orders", is_internal=False, now=at + 0.9 * life.metadata.max_idle)


async def test_an_intake_counts_the_records_it_took() -> None:
    taker = new_intake(IntakeRuntime())
    accept(taker)
    taker.accept("orders", None, b"key", None, None, None)
    assert taker.unyielded == 100 + len(b"value") + 100  # tiny ones take their time too


async def test_the_topic_of_the_last_record_is_looked_up_again_once_it_was_given_up() -> None:
    runtime = IntakeRuntime()
    taker = new_intake(runtime)
    name = "later"
    waiting = accept(taker, name)
    assert isinstance(waiting, PendingRecord)
    runtime.admission.enter(waiting, runtime.now())
    waiting.deadline = 0.0
    runtime.admission.expire(waiting)
    assert waiting.exception() is not None
    assert name not in runtime.topics
    runtime.learn({"orders": 6, "later": 1})
    assert isinstance(accept(taker, name), Delivery)
    assert isinstance(accept(taker), Delivery)
    assert isinstance(accept(taker, str(b"later", "ascii")), Delivery)
    assert runtime.values("later") == [b"value"] * 2
    runtime.end()
    assert all(refuses(taker) for _ in range(2))


def test_a_partitioner_that_does_not_choose_means_the_sticky_partition() -> None:
    cluster = cluster_of({"orders": [-1]})
    assert choose_partition(DefaultPartitioner(), "orders", None, b"", None, b"", cluster) == -1
