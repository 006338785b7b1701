"""Promise 1: accepted = delivered + failed, always, also across cancel, close, crash of the Sender and loop shutdown.
No future is left pending.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.inside import runtime_of
from tests.producers import values

from .observing import assert_accounts_balance, assert_nothing_is_left, outcomes, sender_task
from .proxied_clusters import Cluster

SMALL: dict[str, Any] = {"buffer_memory": 60_000, "max_request_size": 60_000, "batch_size": 5_000}


async def test_every_way_of_sending_is_counted_once(cluster: Cluster) -> None:
    topic = await cluster.create_topic(partitions=3)
    async with cluster.producer() as producer:
        await producer.partitions_for(topic)
        await producer.send(topic, b"send")
        await (await producer.enqueue(topic, b"enqueue"))
        await producer.send_nowait(topic, b"nowait")
        await producer.send_many(topic, [b"many", None, ProducerRecord(topic, b"record", key=b"k"), b"more"])
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().delivered == 7
    assert producer.statistics().accepted == 7
    values = [value for log in (await cluster.values(topic)).values() for value in log]
    assert Counter(values) == Counter([b"send", b"enqueue", b"nowait", b"many", None, b"record", b"more"])


async def test_a_storm_of_cancels_cuts_and_failures_loses_count_of_nothing(cluster: Cluster) -> None:
    """Each record is exactly one of: never accepted, delivered and in the log once, failed. Faults come at random."""
    chance = random.Random(5)
    topic = await cluster.create_topic(partitions=4)
    refused: set[bytes] = set()
    doubtful: set[bytes] = set()
    delivered: dict[bytes, Any] = {}
    async with cluster.producer(
        **SMALL, request_timeout_ms=2_000, delivery_timeout_ms=20_000, max_block_ms=20_000
    ) as producer:

        async def one(n: int) -> None:
            value = b"%05d" % n + bytes(chance.randrange(300))
            try:
                delivered[value] = await producer.send(topic, value, partition=n % 4)
            except asyncio.CancelledError:
                doubtful.add(value)
                raise
            except errors.KafkaError as error:
                (doubtful if error.outcome_unknown else refused).add(value)

        faults: list[Callable[[], object]] = [
            cluster.net.cut,
            lambda: cluster.net.drop_next(ApiKey.PRODUCE),
            lambda: cluster.net.fail_produce(errors.NotEnoughReplicasError, times=2),
            lambda: cluster.net.fail_produce(errors.InvalidRecordError),
        ]
        tasks: list[asyncio.Task[None]] = []
        for n in range(4_000):
            tasks.append(asyncio.create_task(one(n)))
            if n % 40 == 0:
                await asyncio.sleep(0)
                assert_accounts_balance(producer)
            if n % 9 == 0:
                chance.choice(tasks).cancel()
            if n % 500 == 250:
                await cluster.net.seen(ApiKey.PRODUCE, since=cluster.net.mark())
                chance.choice(faults)()
        await asyncio.wait(tasks)
        await producer.flush()
        assert_accounts_balance(producer, settled=True)
    counts = Counter(value for log in (await cluster.values(topic)).values() for value in log)
    now = producer.statistics()
    assert max(counts.values()) == 1
    assert delivered.keys() <= counts.keys()
    assert not refused & counts.keys()
    assert counts.keys() <= delivered.keys() | doubtful
    assert now.delivered == len(counts)
    assert len(delivered) > 1_000
    assert doubtful, "no cancel hit anything"
    assert all(task.done() for task in tasks)


async def test_the_account_balances_at_every_moment(cluster: Cluster) -> None:
    """Looked at from a callback in every turn of the loop, while batches are split, retried and failed."""
    topic = await cluster.create_topic(partitions=2, config={"max.message.bytes": "3000"})
    loop = asyncio.get_running_loop()
    looks = 0
    handle: asyncio.Handle
    async with cluster.producer(linger_ms=5, retry_backoff_ms=5, batch_size=16_000) as producer:

        def look() -> None:
            nonlocal looks, handle
            assert_accounts_balance(producer)
            looks += 1
            handle = loop.call_soon(look)

        handle = loop.call_soon(look)
        cluster.net.fail_produce(errors.NotEnoughReplicasAfterAppendError, times=2, after_append=True)
        sizes = [400] * 150 + [5_000] + [400] * 150
        sends = [producer.send(topic, bytes(size), partition=n % 2) for n, size in enumerate(sizes)]
        results = await asyncio.gather(*sends, return_exceptions=True)
        handle.cancel()
    delivered, failed = outcomes(results)
    assert (len(delivered), len(failed)) == (300, 1)
    assert looks > 100
    assert_accounts_balance(producer, settled=True)


@pytest.mark.parametrize("how", ["close", "close at once", "crash", "cancel"])
async def test_no_end_of_the_producer_leaves_a_future_pending(cluster: Cluster, how: str) -> None:
    topic = await cluster.create_topic(partitions=2)
    async with cluster.producer(**SMALL) as producer:
        await producer.send(topic, b"first")
        cluster.net.stall()
        tasks = [asyncio.create_task(producer.send(topic, bytes(500), partition=n % 2)) for n in range(500)]
        await asyncio.sleep(0)
        late = asyncio.create_task(producer.send("no-such-topic-yet", b""))
        await asyncio.sleep(0)
        before = producer.statistics()
        assert before.pending > 0
        assert before.waiters > 0
        if how == "close":
            await producer.close(timeout=0.2)
        elif how == "close at once":
            await producer.close(timeout=0)
        elif how == "crash":
            runtime = runtime_of(producer)
            runtime.sender.run_once = lambda now: 1 / 0
            runtime.sender.wakeup()
        else:
            sender_task().cancel()
        results = await asyncio.wait_for(asyncio.gather(*tasks, late, return_exceptions=True), 2)
        delivered, failed = outcomes(results)
        assert len(failed) == 501
        assert delivered == []
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().failed == before.accepted - 1
        cluster.net.resume()


async def test_a_failure_that_nobody_awaits_is_logged_once_with_topic_and_count(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=50) as producer:
        cluster.net.fail_produce(errors.InvalidRecordError)
        for n in range(20):
            await producer.enqueue(topic, b"%d" % n)  # the delivery is dropped
        await producer.flush()
        gc.collect()
        await asyncio.sleep(0)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    (line,) = [text for text in lines if topic in text]
    assert re.search(r"\b20\b", line)
    assert "retrieved" not in "\n".join(lines)


async def test_a_failure_that_is_awaited_is_the_awaiters(cluster: Cluster, silent_loop: list[dict[str, Any]]) -> None:
    """Each of many waiters of one batch gets an error of its own, whose traceback is its own too and does not grow
    with their number.
    """
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=50) as producer:
        await producer.partitions_for(topic)
        cluster.net.fail_produce(errors.InvalidRecordError, times=10)
        results = await asyncio.gather(*(producer.send(topic, b"") for _ in range(1_000)), return_exceptions=True)
        cluster.net.clear(ApiKey.PRODUCE)
    _, failed = outcomes(results)
    assert [type(error) for error in failed] == [errors.InvalidRecordError] * 1_000
    assert len({id(error) for error in failed}) == 1_000
    depths = {len(traceback.extract_tb(error.__traceback__)) for error in failed}
    assert max(depths) < 8, depths


async def test_counts_survive_the_producer_and_start_again_with_it(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer: KafkaProducer[Any, Any] = cluster.producer()
    assert producer.statistics().accepted == 0
    async with producer:
        await asyncio.gather(*(producer.send(topic, b"") for _ in range(10)))
    assert (producer.statistics().accepted, producer.statistics().delivered) == (10, 10)
    with pytest.raises(errors.ProducerClosedError):
        await producer.send(topic, b"")
    assert producer.statistics().accepted == 10


@pytest.mark.parametrize("turns", [0, 1, 3, 10, 30, 100])
async def test_close_that_races_with_a_thousand_sends_settles_each_of_them(cluster: Cluster, turns: int) -> None:
    """Each is delivered or told that the producer was closed; the delivered ones are those in the log."""
    topic = await cluster.create_topic(partitions=3)
    options = {"buffer_memory": 60_000, "max_request_size": 60_000, "batch_size": 4_000}
    producer = cluster.producer(**options, linger_ms=1)
    await producer.start()
    await producer.partitions_for(topic)

    async def one(n: int) -> Any:
        for _ in range(n % 50):
            await asyncio.sleep(0)
        return await producer.send(topic, b"%d " % n + bytes(300), partition=n % 3)

    tasks = [asyncio.create_task(one(n)) for n in range(1_000)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(producer.close(), producer.close()), 20)
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    delivered, failed = outcomes(results)
    assert {type(error) for error in failed} <= {errors.ProducerClosedError}
    assert_accounts_balance(producer, settled=True)
    assert producer.statistics().delivered == len(delivered)
    assert_nothing_is_left(cluster.net.ports)
    logs = await cluster.values(topic)
    for partition, log in logs.items():
        expected = {
            n: result for n, result in enumerate(results) if n % 3 == partition and isinstance(result, RecordMetadata)
        }
        numbers = [int(value.split()[0]) for value in log if value is not None]
        assert sorted(numbers) == sorted(expected)
        assert all(numbers[result.offset] == n for n, result in expected.items())


async def test_numbers_agree_when_some_records_fail(broker: DevBroker) -> None:
    broker.create_topic("t", partitions=1)
    async with KafkaProducer(broker.bootstrap_servers, linger_ms=0) as producer:
        await producer.send("t", b"0")
        broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
        with pytest.raises(errors.TopicAuthorizationFailedError):
            await producer.send("t", b"1")
        await producer.send("t", b"2")
        assert_accounts_balance(producer)
        numbers = producer.statistics()
        assert (numbers.accepted, numbers.delivered, numbers.failed) == (3, 2, 1)
    assert values(broker, "t") == [b"0", b"2"]


async def test_a_sender_that_dies_ends_a_send_many_that_goes_on(broker: DevBroker) -> None:
    producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers, max_block_ms=60_000)
    await producer.start()
    broker.controls.stall_connections()
    sending = asyncio.create_task(producer.send_many("unknown", [b"x"] * 200, return_exceptions=True))
    await asyncio.sleep(0)
    (sender,) = [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-sender"]
    sender.cancel()
    async with asyncio.timeout(10):
        outcomes = await sending
    assert {type(outcome) for outcome in outcomes} == {errors.SenderCrashedError}
    assert producer.statistics().waiters == 0
    await producer.close()


def test_the_end_of_asyncio_run_leaves_no_future_pending() -> None:
    outcomes: list[Any] = []

    async def main() -> None:
        broker = DevBroker()
        await broker.start()
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        deliveries.extend([await producer.enqueue("t", b"y") for _ in range(10)])
        kept.extend([producer, broker])
        # Ends without close(): the loop cancels all tasks.

    deliveries: list[Any] = []
    kept: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(main())
        outcomes = [delivery.exception() for delivery in deliveries]
        numbers = kept[0].statistics()
        kept.clear()
        gc.collect()
    assert len(outcomes) == 10
    assert all(isinstance(error, errors.SenderCrashedError) for error in outcomes)
    assert (numbers.accepted, numbers.delivered, numbers.failed, numbers.pending) == (11, 1, 10, 0)
