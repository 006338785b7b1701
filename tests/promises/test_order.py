"""Promise 3: per partition, wire order is call order, also when the buffer was full, on retries, splits and leader
moves, with five requests in flight.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy
from aiokafkapy.testing.fault_proxy import Answer, Hold
from tests.producers import values

from .proxied_clusters import ApacheCluster, Cluster, DevCluster

SMALL: dict[str, Any] = {"buffer_memory": 60_000, "max_request_size": 60_000, "batch_size": 6_000}


def numbered(count: int, size: int = 0) -> list[bytes]:
    """Values that tell their place, of at least so many bytes."""
    return [(b"%d " % n).ljust(size, b".") for n in range(count)]


def assert_in_order(logs: Mapping[int, Sequence[bytes | None]], values: Sequence[bytes], partitions: int) -> None:
    """Every partition has each ``partitions``-th value, once, in order."""
    for partition in range(partitions):
        assert logs[partition] == list(values[partition::partitions])


@pytest.mark.parametrize("count", [16_000, 64_000])
async def test_gathered_sends_are_written_in_the_order_of_the_calls(cluster: Cluster, count: int) -> None:
    topic = await cluster.create_topic(partitions=3)
    values = numbered(count, 100)
    async with cluster.producer() as producer:
        sends = [producer.send(topic, value, partition=n % 3) for n, value in enumerate(values)]
        results = await asyncio.gather(*sends)
    assert_in_order(await cluster.values(topic), values, 3)
    assert [result.offset for result in results] == [n // 3 for n in range(count)]


async def test_when_the_buffer_is_full_the_first_to_wait_is_the_first_to_go(cluster: Cluster) -> None:
    """Records of very different sizes: a small one that would fit must not overtake a large one that does not."""
    chance = random.Random(7)
    topic = await cluster.create_topic(partitions=2)
    values = [(b"%d " % n).ljust(chance.choice([0, 100, 5_000, 20_000]), b".") for n in range(1_500)]
    most_waiting = 0
    async with cluster.producer(**SMALL) as producer:
        tasks = []
        for n, value in enumerate(values):
            tasks.append(asyncio.create_task(producer.send(topic, value, partition=n % 2)))
            if n % 100 == 0:
                await asyncio.sleep(0)
                most_waiting = max(most_waiting, producer.statistics().waiters)
        await asyncio.gather(*tasks)
    assert most_waiting > 100, "the buffer was not full"
    assert_in_order(await cluster.values(topic), values, 2)


async def test_all_ways_of_sending_share_one_order(cluster: Cluster) -> None:
    chance = random.Random(3)
    topic = await cluster.create_topic()
    values = numbered(3_000, 60)
    async with cluster.producer(**SMALL) as producer:
        await producer.partitions_for(topic)
        waiting: list[Any] = []
        rest = list(values)
        while rest:
            kind = chance.randrange(4)
            if kind == 0:
                waiting.append(asyncio.ensure_future(producer.send(topic, rest.pop(0), partition=0)))
                await asyncio.sleep(0)  # it runs up to its place in the queue
            elif kind == 1:
                waiting.append(await producer.enqueue(topic, rest.pop(0), partition=0))
            elif kind == 2:
                try:
                    waiting.append(producer.send_nowait(topic, rest[0], partition=0))
                except errors.BufferExhaustedError:
                    await asyncio.sleep(0)
                else:
                    rest.pop(0)
            else:
                some, rest = rest[:37], rest[37:]
                await producer.send_many(topic, [ProducerRecord(topic, value, partition=0) for value in some])
        await asyncio.gather(*waiting)
    assert await cluster.log(topic) == values


async def test_records_that_wait_for_their_topic_keep_their_order(cluster3: Cluster) -> None:
    name = "promise-late-" + (await cluster3.create_topic())
    values = numbered(2_000)
    async with cluster3.producer() as producer:
        tasks = [asyncio.create_task(producer.send(name, value, partition=0)) for value in values]
        await cluster3.net.seen(ApiKey.METADATA, 4)
        assert not any(task.done() for task in tasks)
        await cluster3.create_topic(name=name)
        tasks += [asyncio.create_task(producer.send(name, value, partition=0)) for value in values]
        await asyncio.gather(*tasks)
    assert await cluster3.log(name) == values * 2


async def test_async_serializers_keep_the_order_of_the_calls(cluster: Cluster) -> None:
    """The first takes longest."""
    topic = await cluster.create_topic()
    gates = [asyncio.Event() for _ in range(50)]

    async def slow(value: int) -> bytes:
        await gates[value].wait()
        return b"%d" % value

    async with cluster.producer(value_serializer=slow) as producer:
        tasks = [asyncio.create_task(producer.send(topic, n)) for n in range(50)]
        await asyncio.sleep(0)
        for gate in reversed(gates):
            gate.set()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        with pytest.raises(errors.IllegalStateError):
            producer.send_nowait(topic, 1)
    assert await cluster.log(topic) == [b"%d" % n for n in range(50)]


@pytest.mark.parametrize("failing", [1, 2, 5])
@pytest.mark.parametrize("after", [False, True], ids=["refused", "written and denied"])
async def test_five_in_flight_with_some_failing_are_written_once_in_order(
    cluster: Cluster, failing: int, after: bool
) -> None:
    """All five leave before the first is answered; the first ``failing`` are answered with a retriable error."""
    topic = await cluster.create_topic()
    values = numbered(100, 300)
    code = (errors.NotEnoughReplicasAfterAppendError if after else errors.NotEnoughReplicasError).code
    async with cluster.producer(
        linger_ms=0, batch_size=1_500, max_request_size=40_000, retry_backoff_ms=20
    ) as producer:
        await producer.send(topic, b"first")
        hold, in_flight = _failing_five(cluster, failing, code, after)
        tasks = [asyncio.create_task(producer.send(topic, value)) for value in values]
        mark = cluster.net.mark()
        await cluster.net.seen(ApiKey.PRODUCE, 5, since=mark)
        assert in_flight() == 5
        hold.release()
        results = await asyncio.gather(*tasks)
    assert await cluster.log(topic) == [b"first", *values]
    assert [result.offset for result in results] == list(range(1, 101))


def _failing_five(cluster: Cluster, failing: int, code: int, after: bool) -> Any:
    """Hold the answers of all requests, the first of them errors; also a function that counts them."""
    hold = Hold()
    seen: list[Any] = []

    def rule(request: Any) -> Answer:
        seen.append(request)
        if len(seen) <= failing:
            return Answer(forward=after, replace=lambda request, _: request.produce_error(code), hold=hold)
        return Answer(hold=hold)

    cluster.net.on_request(ApiKey.PRODUCE, rule)
    return hold, lambda: len(seen)


@pytest.mark.parametrize("acks", [1, "all"])
async def test_without_idempotence_one_in_flight_keeps_order_over_retries(cluster: Cluster, acks: Any) -> None:
    topic = await cluster.create_topic()
    values = numbered(200, 200)
    options = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "acks": acks}
    async with cluster.producer(**options, batch_size=2_000, retry_backoff_ms=5, linger_ms=0) as producer:
        await producer.send(topic, b"first")
        turn = 0

        def every_third(request: Any) -> Any:
            nonlocal turn
            turn += 1
            return _refusal(errors.NotEnoughReplicasError) if turn % 3 == 0 else None

        cluster.net.on_request(ApiKey.PRODUCE, every_third)
        await asyncio.gather(*(producer.send(topic, value) for value in values))
    assert turn > 6
    assert await cluster.log(topic) == [b"first", *values]


def _refusal(error: type[errors.KafkaError]) -> Any:
    return Answer(forward=False, replace=lambda request, _: request.produce_error(error))


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd", "snappy"])
async def test_batches_compressed_in_threads_leave_in_order(cluster: Cluster, codec: str) -> None:
    """Batches large enough for a thread, of contents that take very different times."""
    chance = random.Random(1)
    topic = await cluster.create_topic(partitions=2, config={"max.message.bytes": "4000000"})
    values = [
        b"%d " % n + (chance.randbytes(20_000) if n // 20 % 2 else bytes(chance.randrange(40_000))) for n in range(300)
    ]
    options = {"compression_type": codec, "batch_size": 500_000, "max_request_size": 2_000_000}
    async with cluster.producer(**options, linger_ms=5) as producer:
        await asyncio.gather(*(producer.send(topic, value, partition=n % 2) for n, value in enumerate(values)))
    assert_in_order(await cluster.values(topic), values, 2)


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_split_batches_keep_their_place(cluster: Cluster, codec: str) -> None:
    """Five batches over the topic's limit are in flight at once, and smaller ones behind them."""
    chance = random.Random(2)
    topic = await cluster.create_topic(config={"max.message.bytes": "2500"})
    values = [b"%d " % n + chance.randbytes(60) for n in range(3_000)]
    async with cluster.producer(batch_size=16_000, linger_ms=20, compression_type=codec) as producer:
        await producer.send(topic, b"first")  # which has to be acknowledged before five may be in flight
        results = await asyncio.gather(*(producer.send(topic, value) for value in values))
        splits = producer.metrics()["batch-split-total"]
    assert splits >= 5
    assert await cluster.log(topic) == [b"first", *values]
    assert [result.offset for result in results] == list(range(1, 3_001))


async def test_cut_connections_change_no_order(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    values = numbered(6_000, 200)
    async with cluster.producer(batch_size=4_000, linger_ms=0, reconnect_backoff_ms=10) as producer:
        tasks = []
        for n, value in enumerate(values):
            tasks.append(asyncio.create_task(producer.send(topic, value, partition=n % 3)))
            if n % 50 == 0:
                await asyncio.sleep(0)
            if n % 1_000 == 700:
                mark = cluster.net.mark()
                if n % 2_000 == 700:
                    cluster.net.drop_next(ApiKey.PRODUCE)
                await cluster.net.seen(ApiKey.PRODUCE, since=mark)
                cluster.net.cut()
        await asyncio.gather(*tasks)
        assert producer.metrics()["record-retry-total"] > 0
    assert_in_order(await cluster.values(topic), values, 3)


async def test_leaders_that_move_change_no_order(cluster3: Cluster) -> None:
    topic = await cluster3.create_topic(partitions=3)
    values = numbered(9_000, 100)
    async with cluster3.producer(batch_size=4_000, linger_ms=0) as producer:
        tasks = []
        mover = None
        for n, value in enumerate(values):
            tasks.append(asyncio.create_task(producer.send(topic, value, partition=n % 3)))
            if n % 50 == 0:
                await asyncio.sleep(0)
            if n == 2_000:
                mover = asyncio.create_task(_move_leaders(cluster3, topic))
            if n % 500 == 0:
                await tasks[n // 2]
        assert mover is not None
        await mover
        await asyncio.gather(*tasks)
        tail = numbered(300, 300)
        await asyncio.gather(*(producer.send(topic, value, partition=n % 3) for n, value in enumerate(tail)))
    logs = await cluster3.values(topic)
    for partition in range(3):
        assert logs[partition] == values[partition::3] + tail[partition::3]


async def _move_leaders(cluster: Cluster, topic: str) -> None:
    """Let each partition be led by another node, more than once."""
    if isinstance(cluster, DevCluster):
        for turn in range(1, 8):
            for partition in range(3):
                cluster.broker.controls.set_leader(topic, partition, 1 + (partition + turn) % 3)
            mark = cluster.net.mark()
            await cluster.net.seen(ApiKey.PRODUCE, 3, since=mark)
    else:
        assert isinstance(cluster, ApacheCluster)
        # An orderly stop moves the leaders away, under the producer's eyes.
        victim = await cluster.leader_of(topic, 0)
        await cluster.kafka.stop(victim)
        await cluster.kafka.start(victim)


@pytest.mark.parametrize("later", [1, 5, 8])
async def test_batches_of_a_new_leader_do_not_make_brokers_forget_those_of_the_old_one(later: int) -> None:
    """The old leader wrote five batches whose answers are lost; meanwhile metadata tells of a new leader."""
    async with DevBroker(nodes=2) as broker:
        for topic, leader in (("t", 1), ("other", 2)):
            broker.create_topic(topic, partitions=1)
            broker.controls.set_leader(topic, 0, leader)
        options: dict[str, Any] = {"linger_ms": 0, "batch_size": 1, "retry_backoff_ms": 20}
        async with (
            FaultProxy(broker.bootstrap_servers) as net,
            KafkaProducer(net.bootstrap_servers, delivery_timeout_ms=60_000, **options) as producer,
        ):
            await producer.send("t", b"first")
            await producer.send("other", b"first")
            net.hold(ApiKey.PRODUCE, node_id=1)
            old = [producer.send_nowait("t", b"old %d" % number) for number in range(5)]
            await net.until(lambda: len(broker.records("t")) == 6)
            broker.controls.set_leader("t", 0, 2)
            mark = net.mark()
            net.fail_produce(errors.NotLeaderOrFollowerError, node_id=2)
            await producer.send("other", b"refused once, so all metadata are asked for")
            await net.until(lambda: net.request_count(ApiKey.METADATA, 2, since=mark) == 1)
            await producer.send("other", b"answered behind the metadata")
            new = [producer.send_nowait("t", b"new %d" % number) for number in range(later)]
            await asyncio.sleep(0.1)
            net.cut(1)
            async with asyncio.timeout(20):
                found = await asyncio.gather(*old, *new)
        assert [one.offset for one in found] == list(range(1, 6 + later))
        expected = [
            b"first",
            *(b"old %d" % number for number in range(5)),
            *(b"new %d" % number for number in range(later)),
        ]
        assert [record.value for record in broker.records("t")] == expected


async def test_with_the_gapless_guarantee_nothing_is_written_behind_a_record_that_failed(cluster: Cluster) -> None:
    """An application that sends the failed records again, from the first on, gets a log without a gap, though a third
    is refused.
    """
    topic = await cluster.create_topic(config={"max.message.bytes": "2000"})
    chance = random.Random(7)
    values = [b"%d" % n for n in range(300)]
    too_large = {n for n in range(10, 300) if chance.random() < 0.03}
    failures, refusals = 0, []
    options: dict[str, Any] = {"linger_ms": 0, "batch_size": 600, "retry_backoff_ms": 1}
    async with cluster.producer(enable_gapless_guarantee=True, **options) as producer:
        written = 0
        while written < len(values):
            deliveries = []
            for n in range(written, len(values)):
                value = values[n] + b" " * (3_000 if n in too_large else 100)
                try:
                    deliveries.append(await producer.enqueue(topic, value, partition=0))
                except errors.GaplessGuaranteeError as error:
                    refusals.append(str(error))
                    break
                if chance.random() < 0.1:
                    await asyncio.sleep(0)
            outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
            successes = [isinstance(outcome, RecordMetadata) for outcome in outcomes]
            count = successes.index(False) if False in successes else len(successes)
            assert not any(successes[count:]), "written behind one that failed"
            written += count
            if count < len(successes):
                assert isinstance(outcomes[count], errors.RecordTooLargeError)
                behind = {type(error) for error in outcomes[count + 1 :]}  # size is looked at before sequences
                assert behind <= {errors.GaplessGuaranteeError, errors.RecordTooLargeError}
                failures += len(successes) - count
                too_large.remove(written)  # it is made smaller, and sent again first
            producer.resume(topic, 0)
        assert producer.statistics().failed == failures > 10
    assert all(f"resume('{topic}', 0)" in refusal for refusal in refusals)
    assert [value.strip() for value in await cluster.log(topic)] == values


async def test_retriable_errors_reorder_nothing_while_requests_in_flight_adapt(broker: DevBroker) -> None:
    broker.create_topic("t", partitions=1)
    options: dict[str, Any] = {
        "max_in_flight_requests_per_connection": "auto", "batch_size": 500, "retry_backoff_ms": 5, "linger_ms": 0,
        "retry_backoff_max_ms": 20, "metrics_per_node": True,
    }  # fmt: skip
    async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
        deliveries, most = [], 0
        for number, value in enumerate(numbered(3000)):
            if number % 200 == 0:
                broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError)
            deliveries.append(await producer.enqueue("t", value))
            if number % 10 == 0:
                await asyncio.sleep(0)
                most = max(most, *producer.statistics().in_flight.values())
        await asyncio.gather(*deliveries)
        (limit,) = producer.statistics().in_flight_limits.values()
        assert 1 <= limit <= 5
        assert most <= 6, "with one of the metadata's"
        found = [metrics.get("requests-in-flight-limit") for metrics in producer.node_metrics().values()]
        assert limit in found
    assert values(broker, "t") == numbered(3000)
