"""What a record meets in its caller's step. Most of it is tested through the producer, in test_producer."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any, cast

import pytest

from aiokafkapy.errors import InvalidTopicError
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.interceptors import ProducerInterceptors
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner, choose_partition
from aiokafkapy.producer.intake.record_intake import RecordIntake
from aiokafkapy.producer.records import ProducerRecord
from aiokafkapy.producer.runtime import ProducerRuntime
from aiokafkapy.record.murmur2 import partition_for_key

from ..sender_fakes import cluster_of


class Topic(StrEnum):
    ORDERS = "orders"


@pytest.fixture
def runtime() -> Any:
    """A runtime by hand: what an intake needs of it."""

    class Runtime:
        def __init__(self) -> None:
            from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
            from aiokafkapy.producer.config import ProducerConfig
            from aiokafkapy.producer.intake.admission import Admission
            from aiokafkapy.producer.producer_metadata import ProducerMetadata

            self.loop = asyncio.get_running_loop()
            self.now = self.loop.time
            self.is_bound = True
            self.metadata = ProducerMetadata()
            self.metadata.cluster = cluster_of({"orders": [-1] * 6})
            self.metadata.add("orders", self.now())
            self.accumulator = RecordAccumulator(ProducerConfig(bootstrap_servers="h:1"))
            self.admission = Admission(self.loop, self.metadata, self.accumulator, _no_partition, max_block=1.0)
            self.topics = self.admission.topics

        def end(self) -> None:
            self.is_bound = False
            self.admission.close(lambda topic: AssertionError(topic))

    return lambda: cast(ProducerRuntime, Runtime())


def _no_partition(*_: Any) -> int:
    raise AssertionError("nobody waits here")


def intake() -> RecordIntake:
    return RecordIntake(None, None, DefaultPartitioner(), None)


def accept(taker: RecordIntake, topic: Any = "orders", key: bytes | None = None) -> Any:
    return taker.accept(topic, b"value", key, None, None, None)


async def test_takes_nothing_while_it_is_bound_to_no_runtime(runtime: Any) -> None:
    taker = intake()
    assert accept(taker) is None
    taker.bind(runtime())
    assert isinstance(accept(taker), Delivery)
    taker.unbind()
    assert accept(taker) is None


def test_takes_nothing_where_no_loop_runs(runtime: Any) -> None:
    taker = intake()

    async def bind() -> None:
        taker.bind(runtime())
        assert accept(taker) is not None

    asyncio.run(bind())
    assert accept(taker) is None

    async def elsewhere() -> None:
        assert accept(taker) is None

    asyncio.run(elsewhere())


async def test_takes_nothing_once_the_runtime_has_ended(runtime: Any) -> None:
    taker, life = intake(), runtime()
    taker.bind(life)
    assert accept(taker) is not None
    life.end()
    assert accept(taker) is None


async def test_interceptors_are_shown_no_record_that_they_would_not_be_told_of(runtime: Any) -> None:
    """Of a runtime that has ended, as of one whose Sender has crashed, nobody tells them any more."""
    shown: list[ProducerRecord] = []

    class Watching:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            shown.append(record)
            return record

    taker = RecordIntake(None, None, DefaultPartitioner(), ProducerInterceptors([Watching()], lambda *_: None))
    life = runtime()
    taker.bind(life)
    assert accept(taker) is not None
    assert len(shown) == 1
    life.end()
    assert accept(taker) is None
    assert len(shown) == 1


async def test_a_key_goes_where_java_sends_it(runtime: Any) -> None:
    taker = intake()
    taker.bind(runtime())
    for key in (b"", b"a", bytearray(b"ab"), memoryview(b"abc"), b"abcdefgh"):
        assert accept(taker, key=cast(bytes, key)).topic_partition == ("orders", partition_for_key(key, 6))


async def test_a_new_view_of_the_cluster_counts_from_the_next_record_on(runtime: Any) -> None:
    taker, life = intake(), runtime()
    taker.bind(life)
    key = next(key for key in map(b"%d".__mod__, range(100)) if partition_for_key(key, 60) >= 6)
    assert accept(taker, key=key).topic_partition.partition == partition_for_key(key, 6)
    life.metadata.cluster = cluster_of({"orders": [-1] * 60})
    life.admission.on_metadata_update()
    assert accept(taker, key=key).topic_partition.partition == partition_for_key(key, 60)


async def test_a_topic_may_be_a_member_of_an_enum(runtime: Any) -> None:
    taker = intake()
    taker.bind(runtime())
    delivery = accept(taker, Topic.ORDERS)
    assert type(delivery.topic_partition.topic) is str
    assert delivery.topic_partition.topic == "orders"


async def test_a_topic_that_is_none_is_refused(runtime: Any) -> None:
    taker = intake()
    taker.bind(runtime())
    for topic in ("", None, 1, b"orders", [], ".."):
        with pytest.raises(InvalidTopicError, match="name of a topic"):
            accept(taker, topic)


async def test_asks_the_clock_where_a_batch_is_opened_and_renews_the_topic_there(runtime: Any) -> None:
    taker, life = intake(), runtime()
    asked: list[float] = []
    at = 1000.0

    def now() -> float:
        asked.append(at)
        return at

    life.now = now
    taker.bind(life)
    for _ in range(1000):
        taker.accept("orders", b"value", None, 0, None, None)
    before = len(asked)
    assert before < 100  # the batch was opened, and grew
    at += 0.9 * life.metadata.max_idle
    taker.accept("orders", b"value", None, 1, None, None)
    assert len(asked) == before + 1
    assert life.metadata.retain_topic("orders", False, at + 0.9 * life.metadata.max_idle)


async def test_counts_what_it_took(runtime: Any) -> None:
    taker = intake()
    taker.bind(runtime())
    accept(taker)
    taker.accept("orders", None, b"key", None, None, None)
    assert taker.unyielded == 100 + len(b"value") + 100  # tiny ones take their time too


def test_a_partitioner_that_does_not_choose_means_the_sticky_partition() -> None:
    cluster = cluster_of({"orders": [-1]})
    assert choose_partition(DefaultPartitioner(), "orders", None, b"", None, b"", cluster) == -1
