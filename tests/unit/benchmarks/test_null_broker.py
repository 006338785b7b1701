"""benchmarks.micro.null_broker and the workloads that are measured against it."""

from __future__ import annotations

import pytest

from aiokafkapy import KafkaProducer
from benchmarks.micro import producer_sink
from benchmarks.micro.null_broker import NullBroker, null_network

WORKLOADS = [
    producer_sink.lone_await,
    producer_sink.workers,
    producer_sink.pipelined,
    producer_sink.send_nowait,
    producer_sink.send_nowait_kept,
    producer_sink.send_many,
    producer_sink.keyed,
    producer_sink.keyed_by_turns,
    producer_sink.send_arrow,
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.__name__)
@pytest.mark.parametrize("size", [100, 5000])
async def test_every_record_of_a_workload_is_delivered(workload: producer_sink.Workload, size: int) -> None:
    if workload is producer_sink.send_arrow:
        pytest.importorskip("pyarrow")
    broker = NullBroker({producer_sink.TOPIC: 300})
    with null_network(broker):
        async with KafkaProducer("h:1") as producer:
            await producer.partitions_for(producer_sink.TOPIC)
            await workload(producer, b"v" * size, 2000)
            assert producer.statistics().delivered == 2000
            assert producer.statistics().failed == 0
    assert 0 < broker.requests <= broker.batches <= 2000


async def test_the_broker_answers_for_several_topics_in_one_request() -> None:
    broker = NullBroker({"a": 2, "b": 200})
    with null_network(broker):
        async with KafkaProducer("h:1", linger_ms=5) as producer:
            for topic in ("a", "b"):
                await producer.partitions_for(topic)
            sent = [
                producer.send_nowait(topic, b"v" * size, partition=partition)
                for topic, partition in (("a", 0), ("a", 1), ("b", 0), ("b", 199))
                for size in (10, 3000)  # copied into the request, and a piece of its own
            ]
            found = [await delivery for delivery in sent]
    assert [(metadata.topic, metadata.partition) for metadata in found[::2]] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("b", 199),
    ]


async def test_compressed_batches_are_answered_too() -> None:
    with null_network(NullBroker({"t": 1})):
        async with KafkaProducer("h:1", compression_type="zstd") as producer:
            assert (await producer.send("t", b"v" * 100_000)).offset == -1  # it keeps none
