"""Promise 2: every record has an outcome within ``delivery_timeout_ms``; ``close(timeout)`` and ``flush(timeout)``
return by their deadline; linger is measured from the first record; flush and close do not wait it out; idle costs
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey

from .observing import (
    assert_accounts_balance,
    assert_nothing_is_left,
    callbacks,
    client_tasks,
    next_timer,
    outcomes,
)
from .proxied_clusters import Cluster, DevCluster

SLACK = 10.0
"""Seconds that a machine may add that stands still now and then. A defect here takes a minute, or forever: linger and
delivery time-outs are 60 s and more wherever they are not the subject of the test. The simulation, which has a clock of
its own, tells the precision of deadlines.
"""

QUICK: dict[str, Any] = {"request_timeout_ms": 400, "delivery_timeout_ms": 1_200, "linger_ms": 0}


class Stopwatch:
    """Seconds since it was made, by the loop's own clock: uvloop's stands still for the length of one turn."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._start = self._time()

    @property
    def seconds(self) -> float:
        return round(self._time() - self._start, 6)


async def test_flush_takes_one_round_trip_with_any_linger(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    async with cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.partitions_for(topic)
        for n in range(3):
            await producer.enqueue(topic, b"", partition=n)
        await producer.flush()  # the producer id is there, the connection too, and the topic's leaders lead
        for _ in range(3):
            tasks = [asyncio.create_task(producer.send(topic, b"", partition=n % 3)) for n in range(30)]
            await asyncio.sleep(0)
            mark = cluster.net.mark()
            watch = Stopwatch()
            await producer.flush()
            assert watch.seconds < SLACK
            assert cluster.net.request_count(ApiKey.PRODUCE, since=mark) == 1
            await asyncio.wait_for(asyncio.gather(*tasks), SLACK)


async def test_close_takes_one_round_trip_with_any_linger(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
    await producer.start()
    await producer.partitions_for(topic)
    tasks = [asyncio.create_task(producer.send(topic, b"%d" % n)) for n in range(30)]
    await asyncio.sleep(0)
    assert cluster.net.request_count(ApiKey.PRODUCE) == 0
    watch = Stopwatch()
    await producer.close()
    assert watch.seconds < SLACK
    assert cluster.net.request_count(ApiKey.PRODUCE) == 1
    assert_nothing_is_left(cluster.net.ports)
    assert [metadata.offset for metadata in await asyncio.gather(*tasks)] == list(range(30))


async def test_flush_waits_for_records_before_it_and_not_for_later_ones(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.enqueue(topic, b"the first batch of a partition goes alone")
        await producer.flush()
        before = await producer.enqueue(topic, b"before")
        hold = cluster.net.hold(ApiKey.PRODUCE, times=2)
        mark = cluster.net.mark()
        flush = asyncio.create_task(producer.flush())
        await cluster.net.seen(ApiKey.PRODUCE, since=mark)
        after = await producer.enqueue(topic, b"after")
        assert not flush.done()
        mark = cluster.net.mark()
        await cluster.net.seen(ApiKey.PRODUCE, since=mark)  # during a flush nothing lingers
        stuck = cluster.net.hold(ApiKey.PRODUCE)
        hold.release()
        await asyncio.wait_for(flush, 5)
        assert before.done()
        late = await producer.enqueue(topic, b"late")
        second = asyncio.create_task(producer.flush())
        await cluster.net.seen(ApiKey.PRODUCE, 2, since=mark)
        assert not second.done()
        stuck.release()
        await asyncio.wait_for(second, 5)
        assert after.done()
        assert late.done()


async def test_flush_keeps_its_deadline_and_the_records_stay_on_their_way(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=2)
    async with cluster.producer() as producer:
        await producer.send(topic, b"0", partition=0)
        cluster.net.stall()
        deliveries = [await producer.enqueue(topic, b"%d" % n, partition=n % 2) for n in range(1, 10)]
        watch = Stopwatch()
        with pytest.raises(errors.FlushTimeoutError, match=rf"9 records.*{topic}-\d: \d"):
            await producer.flush(timeout=0.3)
        assert 0.3 <= watch.seconds < 0.3 + SLACK
        assert not any(delivery.done() for delivery in deliveries)
        with pytest.raises(errors.FlushTimeoutError):
            await producer.flush(timeout=0)
        cluster.net.resume()
        await asyncio.gather(*deliveries)
    assert sum(map(len, (await cluster.values(topic)).values())) == 10


async def test_flush_of_nothing_returns_even_when_the_cluster_is_gone(cluster: Cluster) -> None:
    async with cluster.producer() as producer:
        cluster.net.go_down()
        watch = Stopwatch()
        await producer.flush()
        assert watch.seconds < SLACK


@pytest.mark.parametrize("trouble", ["stalled", "down", "accepts and says nothing"])
async def test_close_keeps_its_deadline_with_a_dead_broker_and_leaves_nothing(cluster: Cluster, trouble: str) -> None:
    topic = await cluster.create_topic(partitions=3)
    producer = cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000, batch_size=2_000)
    await producer.start()
    first = asyncio.create_task(producer.send(topic, b"first"))
    await asyncio.sleep(0)
    await producer.flush()
    await first
    if trouble == "down":
        cluster.net.go_down()
    elif trouble == "stalled":
        cluster.net.stall()
    else:
        cluster.net.cut()
        cluster.net.stall()
    tasks = [asyncio.create_task(producer.send(topic, bytes(100), partition=n % 3)) for n in range(200)]
    tasks.append(asyncio.create_task(producer.send("unknown-topic", b"")))
    await asyncio.sleep(0)
    watch = Stopwatch()
    await producer.close(timeout=1)
    assert 1 <= watch.seconds < 1 + SLACK
    assert_nothing_is_left(cluster.net.ports)
    assert_accounts_balance(producer, settled=True)
    _, failed = outcomes(await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SLACK))
    assert len(failed) == 201
    assert sum(isinstance(error, errors.CloseTimeoutError) for error in failed) == 200
    assert all(topic in str(error) for error in failed[:-1])


async def test_close_without_a_timeout_is_bounded_by_the_records_own(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer(**QUICK)
    await producer.start()
    await producer.send(topic, b"first")
    cluster.net.go_down()
    delivery = await producer.enqueue(topic, b"lost")
    watch = Stopwatch()
    await producer.close()
    assert watch.seconds < 1.2 + SLACK
    assert isinstance(delivery.exception(), errors.DeliveryTimeoutError)
    assert_nothing_is_left(cluster.net.ports)


@pytest.mark.parametrize("trouble", ["stalled", "down", "answers nothing", "answers errors", "accepts and cuts"])
async def test_every_record_has_an_outcome_within_its_delivery_timeout(cluster: Cluster, trouble: str) -> None:
    """Records come all the time, so that no batch's time depends on another's."""
    topic = await cluster.create_topic(partitions=2)
    late: list[float] = []
    async with cluster.producer(**QUICK, retry_backoff_max_ms=100) as producer:
        await producer.send(topic, b"first")
        if trouble == "stalled":
            cluster.net.stall()
        elif trouble == "down":
            cluster.net.go_down()
        elif trouble == "answers nothing":
            hold = cluster.net.hold(ApiKey.PRODUCE)
        elif trouble == "answers errors":
            cluster.net.fail_produce(errors.NotEnoughReplicasError, times=None)
        else:
            cluster.net.on_request(ApiKey.PRODUCE, lambda request: _cut(cluster))

        async def one(n: int) -> None:
            accepted = time.monotonic()
            with pytest.raises(errors.DeliveryTimeoutError, match=f"{topic}-{n % 2}.*delivery_timeout_ms=1200"):
                await producer.send(topic, b"", partition=n % 2)
            late.append(time.monotonic() - accepted - 1.2)

        async with asyncio.TaskGroup() as group:
            for n in range(40):
                group.create_task(one(n))
                await asyncio.sleep(0.02)  # the records' own distance
        if trouble == "answers nothing":
            hold.release()
    assert len(late) == 40
    assert max(late) < SLACK
    assert_nothing_is_left(cluster.net.ports)
    assert_accounts_balance(producer, settled=True)


def _cut(cluster: Cluster) -> Any:
    cluster.net.cut()


async def test_a_partition_without_a_leader_keeps_no_record_longer_than_its_time(dev_cluster: DevCluster) -> None:
    """Dev broker only: Apache Kafka leaves no partition leaderless at a test's word."""
    topic = await dev_cluster.create_topic(partitions=2)
    async with dev_cluster.producer(**QUICK) as producer:
        await producer.send(topic, b"", partition=0)
        dev_cluster.broker.controls.set_leader(topic, 0, None)
        watch = Stopwatch()
        with pytest.raises(errors.DeliveryTimeoutError, match=r"(?i)leader"):
            await producer.send(topic, b"", partition=0)
        assert 1.2 <= watch.seconds < 1.2 + SLACK
        await producer.send(topic, b"", partition=1)


async def test_waiting_to_be_accepted_is_bounded_by_max_block(cluster3: Cluster) -> None:
    topic = await cluster3.create_topic()
    small = {"buffer_memory": 30_000, "max_request_size": 30_000, "batch_size": 5_000}
    async with cluster3.producer(**small, max_block_ms=1_000) as producer:
        watch = Stopwatch()
        with pytest.raises(errors.MetadataTimeoutError):
            await producer.send("there-is-no-such-topic", b"")
        assert 1.0 <= watch.seconds < 1.0 + SLACK
        watch = Stopwatch()
        with pytest.raises(errors.MetadataTimeoutError):
            await producer.partitions_for("nor-this-one")
        assert 1.0 <= watch.seconds < 1.0 + SLACK
        await producer.send(topic, b"")
        cluster3.net.stall()
        tasks = [asyncio.create_task(producer.send(topic, bytes(1_000))) for _ in range(100)]
        await asyncio.sleep(0)
        watch = Stopwatch()
        with pytest.raises(errors.BufferExhaustedError):
            await producer.enqueue(topic, bytes(1_000))
        assert 1.0 <= watch.seconds < 1.0 + SLACK
        done, pending = await asyncio.wait(tasks, timeout=0)
        assert pending, "accepted records are not bounded by max_block_ms"
        assert {type(task.exception()) for task in done} == {errors.BufferExhaustedError}
        cluster3.net.resume()
        await asyncio.gather(*pending)


async def test_linger_counts_from_the_first_record_of_a_batch(cluster: Cluster) -> None:
    """A steady trickle, whose records come much closer together than linger: an inactivity timer would never fire."""
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=400) as producer:
        await producer.partitions_for(topic)
        await (await producer.enqueue(topic, b""))
        mark = cluster.net.mark()
        async with asyncio.TaskGroup() as group, asyncio.timeout(60):
            trickle = Stopwatch()
            while cluster.net.request_count(ApiKey.PRODUCE, since=mark) < 5:
                group.create_task(producer.send(topic, b""))
                await asyncio.sleep(0.02)  # the records' own distance
            assert trickle.seconds > 5 * 0.4 - 0.01, "each batch gathers for 400 ms"


async def test_with_defaults_a_record_is_sent_at_once_and_a_trickle_is_never_held_back(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    async with cluster.producer() as producer:
        await producer.send(topic, b"")
        watch = Stopwatch()
        for _ in range(100):
            await producer.send(topic, b"")
        assert watch.seconds < 5, "hidden seconds: of a fixed linger of 50 ms, for instance"
        for n in range(50):
            delivery = await producer.enqueue(topic, b"%d" % n)
            watch = Stopwatch()
            await delivery
            assert watch.seconds < SLACK


async def test_an_idle_producer_runs_nothing(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    loop = asyncio.get_running_loop()
    if not hasattr(loop, "_scheduled"):
        pytest.skip("the timers of this loop cannot be seen")
    async with cluster.producer(linger_ms=5) as producer:
        await asyncio.gather(*(producer.send(topic, b"", partition=n % 3) for n in range(300)))
        await producer.flush()
        # Timers that were set while there was work run out without doing anything.
        for _ in range(50):
            remaining = next_timer() - loop.time()
            if remaining < 2:
                await asyncio.sleep(max(0.0, remaining))
            await asyncio.sleep(0)
        wake_ups = producer.statistics().wake_ups
        with callbacks() as log:
            await asyncio.sleep(1.2)  # the time that is watched
        assert log.ours == 0, log
        assert producer.statistics().wake_ups == wake_ups
        assert next_timer() - loop.time() > 2
        assert len(client_tasks()) == 1
        await producer.send(topic, b"and it wakes up")


async def test_idle_connections_are_closed_and_opened_again_when_needed(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(connections_max_idle_ms=400) as producer:
        await producer.send(topic, b"")
        assert producer.statistics().connected_nodes
        watch = Stopwatch()
        await cluster.net.until(lambda: not cluster.net.connection_count())
        assert 0.3 < watch.seconds < 0.4 + SLACK
        wake_ups, mark = producer.statistics().wake_ups, cluster.net.mark()
        await asyncio.sleep(0.8)  # the time that is watched
        assert producer.statistics().wake_ups == wake_ups, "and nobody opens one to close it again"
        assert cluster.net.mark() == mark
        assert (await producer.send(topic, b"")).offset == 1


async def test_metadata_grows_no_older_than_it_may(cluster: Cluster) -> None:
    """The one thing that an idle producer does, and no oftener than it is told to."""
    topic = await cluster.create_topic()
    async with cluster.producer(metadata_max_age_ms=400) as producer:
        await producer.send(topic, b"")
        mark, watch = cluster.net.mark(), Stopwatch()
        await cluster.net.seen(ApiKey.METADATA, 5, since=mark)
        assert watch.seconds > 4 * 0.4 - 0.01
        assert {request.api_key for request in cluster.net.requests[mark:]} == {ApiKey.METADATA}


async def test_a_slow_partition_delays_no_other(cluster3: Cluster) -> None:
    """One node answers nothing; partitions on the others go on at full speed."""
    topic = await cluster3.create_topic(partitions=3)
    leaders = {partition: await cluster3.leader_of(topic, partition) for partition in range(3)}
    assert len(set(leaders.values())) == 3
    async with cluster3.producer() as producer:
        await asyncio.gather(*(producer.send(topic, b"", partition=n) for n in range(3)))
        hold = cluster3.net.hold(ApiKey.PRODUCE, node_id=leaders[0])
        waiting = asyncio.create_task(producer.send(topic, b"", partition=0))
        watch = Stopwatch()
        for _ in range(20):
            await asyncio.gather(*(producer.send(topic, b"", partition=n) for n in (1, 2)))
        assert watch.seconds < SLACK, "a request's time-out is thirty"
        assert not waiting.done()
        assert not hold.is_released
        hold.release()
        await waiting


async def test_start_gives_up_in_time(cluster: Cluster) -> None:
    cluster.net.stall()
    producer: KafkaProducer[Any, Any] = cluster.producer(max_block_ms=700)
    watch = Stopwatch()
    with pytest.raises(errors.KafkaTimeoutError):
        await producer.start()
    assert 0.6 < watch.seconds < 0.7 + SLACK
    assert_nothing_is_left(cluster.net.ports)


@pytest.mark.parametrize("options", [{"linger_ms": 60_000}, {"manual_flush": True}])
@pytest.mark.parametrize("ends", ["flush", "close"])
async def test_records_do_not_wait_for_one_that_is_not_accepted(
    broker: DevBroker, options: dict[str, Any], ends: str
) -> None:
    """One misspelt topic must not cost the records of all others when a service ends."""
    broker.create_topic("t", partitions=1)
    producer = KafkaProducer(broker.bootstrap_servers, **options)
    await producer.start()
    await producer.partitions_for("t")
    good = [producer.send_nowait("t", b"x") for _ in range(10)]
    broker.controls.fail_next(ApiKey.METADATA, errors.UnknownTopicOrPartitionError, times=1_000)
    waits = asyncio.create_task(producer.send("misspelt", b"y"))
    await asyncio.sleep(0)
    with contextlib.suppress(errors.FlushTimeoutError):
        await (producer.flush(timeout=1) if ends == "flush" else producer.close(timeout=1))
    assert [delivery.exception() for delivery in good] == [None] * 10
    await producer.close(timeout=0)
    await asyncio.wait([waits])
    assert isinstance(waits.exception(), errors.KafkaError)


async def test_flush_waits_for_calls_that_were_waiting_to_be_accepted(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        task = asyncio.create_task(producer.send("new topic".replace(" ", "-"), b"x"))
        await asyncio.sleep(0)
        await producer.flush()
        await asyncio.wait([task], timeout=0.1)
        assert task.done()


async def test_an_idle_producer_does_not_wake_up(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("t", b"x")
        await asyncio.sleep(0.2)
        before = producer.statistics().wake_ups
        await asyncio.sleep(0.5)
        assert producer.statistics().wake_ups == before
