"""The promise: a user's partitioner, serializers and interceptors are called as documented. An exception of one of them
is the error of its own record: it ends no connection and delays no other record.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, RoundRobinPartitioner
from aiokafkapy.errors import KafkaError, SerializationError

from .proxied_clusters import Cluster, DevCluster

Send = Callable[[KafkaProducer[Any, Any], str, Any], Awaitable[object]]

RAISED = [ZeroDivisionError, asyncio.CancelledError, GeneratorExit, StopIteration, StopAsyncIteration]
"""KeyboardInterrupt and SystemExit are for the caller, and end the loop: they are tried in the unit tests."""


async def by_send(producer: KafkaProducer[Any, Any], topic: str, value: Any) -> object:
    return await producer.send(topic, value, key=b"k")


async def by_enqueue(producer: KafkaProducer[Any, Any], topic: str, value: Any) -> object:
    return await (await producer.enqueue(topic, value, key=b"k"))


async def by_send_many(producer: KafkaProducer[Any, Any], topic: str, value: Any) -> object:
    record = ProducerRecord(topic, value, b"k")
    (outcome,) = await producer.send_many(topic, [record], return_exceptions=True)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


WAYS = pytest.mark.parametrize(
    ("send", "raised"),
    [(by_send, raised) for raised in RAISED] + [(way, asyncio.CancelledError) for way in (by_enqueue, by_send_many)],
)
KNOWN = pytest.mark.parametrize("is_known", [True, False], ids=["topic known", "topic not known"])


class Failing:
    """Raises for the topic or the value that is named bad."""

    wants_topic = True

    def __init__(self, raised: type[BaseException]) -> None:
        self.raised = raised

    def __call__(self, topic: str, data: Any) -> Any:
        if topic == "bad":
            raise self.raised("no")
        return data

    def partition(self, topic: str, *_: Any) -> None:
        self(topic, None)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self(record.topic, None)
        return record


async def fails_alone(cluster: Cluster, send: Send, *, is_known: bool, **options: Any) -> BaseException | object:
    """Send to the bad topic and to another at once: the other one arrives. Returns the outcome of the bad one."""
    async with KafkaProducer(cluster.bootstrap_servers, max_block_ms=5_000, **options) as producer:
        if is_known:
            await producer.partitions_for("bad")
        bad, good = await asyncio.wait_for(
            asyncio.gather(
                send(producer, "bad", b"x"), send(producer, f"good-{is_known}", b"x"), return_exceptions=True
            ),
            4,
        )
        assert not isinstance(good, BaseException)
        assert (await producer.send("good", b"afterwards")).topic == "good"
    assert {request.connection for request in cluster.net.requests} <= {1, 2}  # none was made anew
    return bad


@WAYS
@KNOWN
async def test_an_exception_of_a_partitioner_is_its_records_error(
    dev_cluster: Cluster, send: Send, raised: type[BaseException], is_known: bool
) -> None:
    found = await fails_alone(dev_cluster, send, is_known=is_known, partitioner=Failing(raised))
    if raised in (ZeroDivisionError, StopAsyncIteration):
        assert isinstance(found, raised)
    else:
        assert isinstance(found, KafkaError)
        assert isinstance(found.__cause__, raised)
        assert "the partitioner failed for a record of topic 'bad'" in str(found)


@WAYS
@pytest.mark.parametrize("part", ["key", "value"])
async def test_an_exception_of_a_serializer_is_its_records_error(
    dev_cluster: Cluster, send: Send, raised: type[BaseException], part: str
) -> None:
    found = await fails_alone(dev_cluster, send, is_known=True, **{f"{part}_serializer": Failing(raised)})
    assert isinstance(found, SerializationError)
    assert isinstance(found.__cause__, raised)


@pytest.mark.parametrize("send", [by_send, by_enqueue, by_send_many])
@pytest.mark.parametrize("raised", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_exception_of_an_async_serializer_is_its_records_error(
    dev_cluster: Cluster, send: Send, raised: type[BaseException]
) -> None:
    class Later(Failing):
        def __call__(self, topic: str, data: Any) -> Any:
            async def serialized() -> Any:
                await asyncio.sleep(0)
                return Failing.__call__(self, topic, data)

            return serialized()

    found = await fails_alone(dev_cluster, send, is_known=True, value_serializer=Later(raised))
    assert isinstance(found, SerializationError)
    assert isinstance(found.__cause__, raised)


@WAYS
async def test_an_exception_of_an_interceptor_stops_no_record(
    dev_cluster: Cluster, send: Send, raised: type[BaseException]
) -> None:
    class Both(Failing):
        def on_acknowledgement(self, metadata: RecordMetadata | None, *_: Any) -> None:
            raise self.raised("no")

    found = await fails_alone(dev_cluster, send, is_known=True, interceptors=[Both(raised)])
    assert not isinstance(found, BaseException)


class Recording(RoundRobinPartitioner):
    """Round robin, which keeps its arguments."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def partition(self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Any) -> Any:
        self.asked.append((key_bytes, value_bytes, key, value))
        return super().partition(topic, key_bytes, value_bytes, key, value, cluster)


@KNOWN
async def test_round_robin_is_uniform_however_full_the_buffer_is(dev_cluster: DevCluster, is_known: bool) -> None:
    dev_cluster.broker.create_topic("six", partitions=6)
    partitioner = Recording()
    options: Any = {"buffer_memory": 50_000, "batch_size": 5_000, "max_request_size": 20_000}
    values = [b"%06d" % number + b"x" * 500 for number in range(1_200)]
    async with KafkaProducer(dev_cluster.bootstrap_servers, partitioner=partitioner, **options) as producer:
        if is_known:
            await producer.partitions_for("six")
        found = await asyncio.gather(*[producer.send("six", value) for value in values])
    assert Counter(metadata.partition for metadata in found) == dict.fromkeys(range(6), 200)
    assert [value for _, value, _, _ in partitioner.asked] == values


@KNOWN
async def test_a_partitioner_is_asked_once_in_call_order_with_the_bytes_of_async_serializers(
    dev_cluster: DevCluster, is_known: bool
) -> None:
    dev_cluster.broker.create_topic("six", partitions=6)
    partitioner = Recording()

    def key_serializer(key: int) -> Any:
        async def serialized() -> bytes:
            for _ in range(key % 3):
                await asyncio.sleep(0)
            return b"%d" % key

        return serialized() if key % 2 else b"%d" % key

    async with KafkaProducer(
        dev_cluster.bootstrap_servers, partitioner=partitioner, key_serializer=key_serializer
    ) as producer:
        if is_known:
            await producer.partitions_for("six")
        found = await asyncio.gather(*[producer.send("six", b"v%d" % number, key=number) for number in range(60)])
    assert partitioner.asked == [(b"%d" % number, b"v%d" % number, number, b"v%d" % number) for number in range(60)]
    assert Counter(metadata.partition for metadata in found) == dict.fromkeys(range(6), 10)
    for partition in range(6):
        keys = [int(record.key or b"") for record in dev_cluster.broker.records("six", partition)]
        assert keys == sorted(keys)
