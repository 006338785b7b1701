"""Promise 6: ``buffer_memory`` is a hard bound in bytes; waiters are FIFO and exactly as many wake as fit; N concurrent
sends cost O(N).
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

import aiokafkapy
from aiokafkapy import ProducerRecord, errors
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.fault_proxy import Answer, Request
from tests.loops import is_on_uvloop

from .observing import assert_accounts_balance, callbacks, resident_bytes
from .proxied_clusters import Cluster

MEBIBYTE = 1 << 20


@pytest.mark.parametrize(
    ("codec", "megabytes", "offered_bytes"),
    [("none", 12, 120_000_000), ("gzip", 12, 120_000_000), ("zstd", 12, 120_000_000), ("none", 32, 200_000_000)],
)
async def test_a_stalled_broker_holds_no_more_than_buffer_memory(
    cluster: Cluster, codec: str, megabytes: int, offered_bytes: int
) -> None:
    """Far more is offered. The process may grow by the buffer, a fifth of it, and the fixed costs of threads and of the
    proxy's sockets.
    """
    topic = await cluster.create_topic(partitions=6)
    noise = random.Random(1)
    limit = megabytes * MEBIBYTE
    async with cluster.producer(buffer_memory=limit, compression_type=codec, max_block_ms=60_000) as producer:
        await asyncio.gather(*(producer.send(topic, b"", partition=n) for n in range(6)))
        gc.collect()
        before = resident_bytes()
        cluster.net.stall()
        offered = 0

        async def offer(partition: int) -> None:
            nonlocal offered
            for _ in range(offered_bytes // 6 // 1_000):
                await producer.enqueue(topic, noise.randbytes(1_000), partition=partition)
                offered += 1

        offering = [asyncio.create_task(offer(partition)) for partition in range(6)]
        most = 0
        while (accepted := offered) < offered_bytes // 1_000:
            for _ in range(20):
                await asyncio.sleep(0.005)  # also while threads still compress
                assert_accounts_balance(producer)
                most = max(most, producer.statistics().buffered_bytes)
            if offered == accepted:
                break
        assert producer.statistics().waiters == 6
        assert 0.7 * limit < most <= limit
        grown = resident_bytes() - before
        assert grown < 1.2 * limit + 12 * MEBIBYTE, f"{grown / MEBIBYTE:.1f} MiB"
        for task in offering:
            task.cancel()
        await asyncio.wait(offering)
        cluster.net.resume()
    assert_accounts_balance(producer, settled=True)
    assert 0 <= producer.statistics().delivered - (offered + 6) <= 6, "one may get in where another gave up"


async def test_tiny_records_with_large_headers_are_counted_with_their_headers(cluster: Cluster) -> None:
    """tracemalloc, for this is about bytes that Python gives out; the compiled core's are in ``buffered_bytes``."""
    topic = await cluster.create_topic()
    limit = 4 * MEBIBYTE
    headers = [("header", b"h" * 50)]
    async with cluster.producer(buffer_memory=limit, max_request_size=MEBIBYTE) as producer:
        await producer.send(topic, b"")
        cluster.net.stall()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            try:
                while True:
                    producer.send_nowait(topic, b"", headers=headers)
            except errors.BufferExhaustedError:
                pass
            held = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert held < 1.5 * limit, f"{held / MEBIBYTE:.1f} MiB"
        assert producer.statistics().buffered_bytes <= limit
        cluster.net.resume()


async def test_ten_thousand_partitions_hold_no_more_than_their_share(dev_cluster: Cluster) -> None:
    """One small record for each: a batch must not cost ``batch_size``. Only the producer matters: dev broker."""
    topic = await dev_cluster.create_topic(partitions=2_000)
    async with dev_cluster.producer(buffer_memory=4 * MEBIBYTE, max_request_size=MEBIBYTE, linger_ms=200) as producer:
        await producer.partitions_for(topic)
        for n in range(2_000):
            producer.send_nowait(topic, b"small", partition=n)
        assert producer.statistics().batches == 2_000
        assert producer.statistics().buffered_bytes <= 4 * MEBIBYTE


async def test_a_record_larger_than_a_batch_has_one_of_its_own(cluster: Cluster) -> None:
    """A record with and without a key, also the first one, and when there is room for one only."""
    topic = await cluster.create_topic(partitions=3)
    small = {"buffer_memory": 20_000, "max_request_size": 20_000, "batch_size": 4_000}
    async with cluster.producer(**small) as producer:
        large = [producer.send(topic, bytes(9_000)) for _ in range(5)]
        keyed = [producer.send(topic, bytes(15_000), key=b"%d" % n) for n in range(5)]
        tiny = [producer.send(topic, b"") for _ in range(50)]
        await asyncio.gather(*large, *keyed, *tiny)
        await producer.send_many(topic, [bytes(9_000), b"", bytes(18_000), bytes(18_000), b""])
        assert_accounts_balance(producer, settled=True)
    assert sum(map(len, (await cluster.values(topic)).values())) == 65


async def test_exactly_as_many_wake_as_fit(cluster: Cluster) -> None:
    """The first waiters of a line that fit get in when a batch is done; the others are not even looked at."""
    topic = await cluster.create_topic(partitions=4)
    async with cluster.producer(
        buffer_memory=40_000, max_request_size=40_000, batch_size=10_000, max_in_flight_requests_per_connection=1
    ) as producer:
        await producer.send(topic, b"first", partition=0)
        hold = cluster.net.hold(ApiKey.PRODUCE, times=1)
        tasks = [asyncio.create_task(producer.enqueue(topic, bytes(1_000), partition=n % 4)) for n in range(400)]
        await cluster.net.seen(ApiKey.PRODUCE, 2)
        for _ in range(10):
            await asyncio.sleep(0)  # until the tasks of accepted records know it
        before = producer.statistics()
        assert before.waiters > 300
        free_before = before.buffer_memory - before.buffered_bytes
        accepted_before = before.accepted
        done_before = sum(task.done() for task in tasks)
        answered = cluster.net.answers_sent
        second = cluster.net.hold(ApiKey.PRODUCE)
        with callbacks() as log:
            hold.release()
            await cluster.net.until(lambda: cluster.net.answers_sent > answered)
            await cluster.net.seen(ApiKey.PRODUCE, 3)
            for _ in range(10):
                await asyncio.sleep(0)
        now = producer.statistics()
        woken = sum(task.done() for task in tasks) - done_before
        assert woken == now.accepted - accepted_before > 0
        assert now.buffered_bytes <= now.buffer_memory
        assert now.buffer_memory - now.buffered_bytes < 2_500, "some that fit were not woken"
        assert now.waiters == before.waiters - woken
        assert log.all < 10 * woken + 200, "somebody was woken for nothing"
        assert free_before < 2_500
        done = [task.done() for task in tasks]
        assert done == sorted(done, reverse=True), "the first in line are the first to go"
        second.release()
        await asyncio.gather(*tasks)


async def test_no_room_is_an_error_at_once_for_send_nowait_and_in_time_for_others(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    small = {"buffer_memory": 20_000, "max_request_size": 20_000, "batch_size": 4_000}
    async with cluster.producer(**small, max_block_ms=1_000) as producer:
        await producer.send(topic, b"first")
        cluster.net.stall()
        deliveries = []
        with pytest.raises(errors.BufferExhaustedError, match="20000"):
            while True:
                deliveries.append(producer.send_nowait(topic, bytes(1_000)))
        assert 10 <= len(deliveries) <= 20
        started = time.monotonic()
        with pytest.raises(errors.BufferExhaustedError, match=r"max_block_ms=1000.*20000"):
            while True:  # the sealing of drained batches may have made a little room
                started = time.monotonic()
                deliveries.append(await producer.enqueue(topic, bytes(1_000)))
        assert time.monotonic() - started >= 0.99, "uvloop's clock stands still for the length of one turn"
        cluster.net.resume()
        await asyncio.gather(*deliveries)
        await producer.send(topic, b"there is room again")
        assert_accounts_balance(producer, settled=True)


async def test_memory_comes_back_with_any_outcome_of_the_records(cluster: Cluster) -> None:
    """Delivered, split, refused by name, failed, expired: in the end nothing is held."""
    topic = await cluster.create_topic(config={"max.message.bytes": "4000"})
    options: dict[str, Any] = {"request_timeout_ms": 300, "delivery_timeout_ms": 700, "linger_ms": 10}
    async with cluster.producer(**options, batch_size=20_000, compression_type="lz4") as producer:
        noise = random.Random(4)

        async def some(count: int, size: int) -> None:
            values = [noise.randbytes(size) for _ in range(count)]
            await asyncio.gather(*(producer.send(topic, value) for value in values), return_exceptions=True)

        await some(200, 100)
        await some(3, 6_000)
        cluster.net.fail_produce(
            errors.InvalidRecordError, record_errors=[{"batch_index": 1, "batch_index_error_message": None}]
        )
        await some(10, 100)
        cluster.net.fail_produce(errors.InvalidRecordError)
        await some(10, 100)
        cluster.net.stall()
        await some(300, 100)
        assert_accounts_balance(producer, settled=True)
        cluster.net.resume()
        cluster.net.go_down()
        await some(300, 100)
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().failed >= 600
        await cluster.net.come_back()


@pytest.mark.parametrize("buffer_memory", [200_000, 33_554_432], ids=["waiting", "accepted at once"])
async def test_gathered_sends_cost_the_same_each_however_many_there_are(
    dev_cluster: Cluster, buffer_memory: int
) -> None:
    """Counted in callbacks of the loop, which no busy machine can blur; the benchmarks measure their time
    (``gathered``). Only the producer matters: dev broker.
    """
    if is_on_uvloop():
        pytest.skip("callbacks cannot be counted on uvloop")
    topic = await dev_cluster.create_topic()
    per_record = {}
    options = {"buffer_memory": buffer_memory, "max_request_size": 200_000, "batch_size": 20_000}
    async with dev_cluster.producer(**options) as producer:
        await producer.send(topic, b"")
        for count in (1_000, 4_000, 16_000):
            with callbacks() as log:
                await asyncio.gather(*(producer.send(topic, bytes(1_000)) for _ in range(count)))
            per_record[count] = log.all / count
    assert per_record[16_000] < 8, per_record
    assert per_record[16_000] < 1.5 * per_record[1_000], per_record


async def test_a_waiting_send_has_fewer_collectable_objects_than_a_waiting_task(dev_cluster: Cluster) -> None:
    """The collector's walk makes the 32,000th of gathered sends dearer than the first. Nothing of ours is: a
    future, and the iterator that awaits it, are two things more than our waiter.
    """
    if not aiokafkapy.compiled:
        pytest.skip("interpreted objects are always tracked")
    topic = await dev_cluster.create_topic()
    answers: list[asyncio.Future[None]] = []

    async def wait_for_an_answer() -> None:
        answers.append(asyncio.get_running_loop().create_future())
        await answers[-1]

    async with dev_cluster.producer() as producer:
        await producer.send(topic, b"first")
        hold = dev_cluster.net.hold(ApiKey.PRODUCE)
        async with tracked_objects_of_a_task(wait_for_an_answer) as of_any:
            for answer in answers:
                answer.set_result(None)
        async with tracked_objects_of_a_task(lambda: producer.send(topic, bytes(1_000))) as of_ours:
            hold.release()
    assert of_any > 3
    assert of_ours < of_any - 1.5  # a batch and its request are some, shared by all of their records


@asynccontextmanager
async def tracked_objects_of_a_task(work: Callable[[], Coroutine[Any, Any, Any]]) -> AsyncIterator[float]:
    """The number of objects that the collector walks through for each of a thousand waiting tasks; ends with them."""
    count = 1_000
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        tasks = [asyncio.create_task(work()) for _ in range(count)]
        for _ in range(5):
            await asyncio.sleep(0)
        found = (len(gc.get_objects()) - before) / count
        assert not any(task.done() for task in tasks)
        yield found
        await asyncio.gather(*tasks)
    finally:
        gc.enable()


@asynccontextmanager
async def flat(cluster: Cluster, code: int, **fields: Any) -> AsyncIterator[Callable[[], int]]:
    """Produce requests are answered with a code and go no further, so that no broker's memory grows in this process;
    gives the bytes that Python holds now, by its own account.
    """

    def rule(request: Request) -> Answer:
        cluster.net.forget_requests()
        return Answer(forward=False, replace=lambda request, _: request.produce_error(code, **fields))

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    cluster.net.on_request(ApiKey.PRODUCE, rule)
    tracemalloc.start()
    try:
        yield held
    finally:
        tracemalloc.stop()


def rounds() -> int:
    """20; half of that where Python is slow, for the same is told there."""
    return 20 if aiokafkapy.compiled and not asyncio.get_running_loop().get_debug() else 10


def assert_flat(sizes: list[int]) -> None:
    """The second half of the rounds leaves as much memory in use as the first, except for noise."""
    half = len(sizes) // 2
    assert max(sizes[half:]) - max(sizes[2:half]) < 100_000, sizes


async def test_four_hundred_thousand_sends_leave_nothing_behind(dev_cluster: Cluster) -> None:
    """A byte for each would be a fifth of a megabyte. Only the producer matters: dev broker."""
    topic = await dev_cluster.create_topic(partitions=3)
    values = [b"%d" % n for n in range(20_000)]
    async with dev_cluster.producer() as producer:
        await producer.send(topic, b"")
        async with flat(dev_cluster, 0) as held:
            sizes = []
            for _ in range(rounds()):
                results = await producer.send_many(topic, values)
                assert len(results) == len(values)
                del results
                producer.metrics()  # sums up its samples, of which it keeps 512 of each kind at most
                sizes.append(held())
        assert producer.statistics().delivered == 1 + rounds() * len(values)
        assert_accounts_balance(producer, settled=True)
    assert_flat(sizes)


async def test_twenty_thousand_failed_sends_with_headers_leave_nothing_behind(dev_cluster: Cluster) -> None:
    """Neither the records, nor the errors and their references. Only the producer matters: dev broker."""
    topic = await dev_cluster.create_topic(partitions=3)
    async with dev_cluster.producer() as producer:
        await producer.send(topic, b"")
        async with flat(dev_cluster, errors.InvalidRecordError.code, error_message="no") as held:
            sizes = []
            for turn in range(rounds()):
                records = [
                    ProducerRecord(topic, b"%d" % n, headers=[("name", b"%d" % turn), ("other", bytes(50))])
                    for n in range(1_000)
                ]
                results = await producer.send_many(topic, records, return_exceptions=True)
                assert {type(result) for result in results} == {errors.InvalidRecordError}
                del results, records
                producer.metrics()
                sizes.append(held())
        assert producer.statistics().failed == rounds() * 1_000
        assert_accounts_balance(producer, settled=True)
    assert_flat(sizes)
