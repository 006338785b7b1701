"""Promise 5: cancelling ``send`` before the record is accepted means that it is never sent, and its room is given back;
afterwards delivery goes on and the account stays exact. Cancelling any task of ours fails pending records.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.servers.ports import free_port
from tests.inside import runtime_of
from tests.producers import numbered, values

from .observing import assert_accounts_balance, assert_nothing_is_left, client_tasks, outcomes, sender_task
from .proxied_clusters import Cluster

SMALL: dict[str, Any] = {"buffer_memory": 20_000, "max_request_size": 20_000, "batch_size": 4_000}


async def cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end, which must be that."""
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines logged that an operator would see."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_cancelled_while_waiting_for_metadata_is_never_sent(cluster3: Cluster) -> None:
    name = "promise-not-yet-" + (await cluster3.create_topic())
    async with cluster3.producer() as producer:
        tasks = [asyncio.create_task(producer.send(name, b"%d" % n, partition=0)) for n in range(6)]
        await cluster3.net.seen(ApiKey.METADATA, 3)
        for n in (0, 3, 5):
            await cancelled(tasks[n])
        assert producer.statistics().waiters == 3
        await cluster3.create_topic(name=name)
        await asyncio.gather(*(tasks[n] for n in (1, 2, 4)))
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().accepted == 3
    assert await cluster3.log(name) == [b"1", b"2", b"4"]


async def test_cancelled_while_waiting_for_room_is_never_sent_and_gives_its_place_to_the_next(
    cluster: Cluster,
) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**SMALL) as producer:
        await producer.send(topic, b"first")
        cluster.net.stall()
        filling = [await producer.enqueue(topic, bytes(2_000)) for _ in range(4)]
        fill = [asyncio.create_task(producer.enqueue(topic, bytes(4_000))) for _ in range(4)]
        await asyncio.sleep(0)
        large = asyncio.create_task(producer.send(topic, b"large" + bytes(15_000)))
        small = [asyncio.create_task(producer.send(topic, b"small %d" % n)) for n in range(20)]
        await asyncio.sleep(0)
        before = producer.statistics()
        assert before.waiters >= 21
        await cancelled(large)
        await cancelled(small[7])
        await cancelled(small[19])
        cluster.net.resume()
        await asyncio.gather(*filling, *(await asyncio.gather(*fill)))
        rest = [task for n, task in enumerate(small) if n not in (7, 19)]
        await asyncio.gather(*rest)
        assert_accounts_balance(producer, settled=True)
    log = await cluster.log(topic)
    assert not [value for value in log if value.startswith(b"large")]
    assert [value for value in log if value.startswith(b"small")] == [
        b"small %d" % n for n in range(20) if n not in (7, 19)
    ]


async def test_a_large_record_that_gives_up_lets_small_ones_in_at_once(cluster: Cluster) -> None:
    """The small ones fit; only the line kept them out. Nothing else has to happen for them to be let in."""
    topic = await cluster.create_topic()
    async with cluster.producer(**SMALL) as producer:
        await producer.send(topic, b"first")
        cluster.net.stall()
        await producer.enqueue(topic, bytes(12_000))
        large = asyncio.create_task(producer.enqueue(topic, bytes(15_000)))
        await asyncio.sleep(0)
        small = asyncio.create_task(producer.enqueue(topic, bytes(1_000)))
        await asyncio.sleep(0)
        assert not small.done()
        await cancelled(large)
        await asyncio.wait_for(small, 1)
        cluster.net.resume()


async def test_cancelled_while_it_is_being_serialized_is_never_sent_and_holds_up_nobody(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    gate = asyncio.Event()
    stopped: list[bytes] = []

    async def serialize(value: bytes) -> bytes:
        try:
            if value == b"slow":
                await gate.wait()
        except asyncio.CancelledError:
            stopped.append(value)
            raise
        return value

    async with cluster.producer(value_serializer=serialize) as producer:
        slow = asyncio.create_task(producer.send(topic, b"slow"))
        quick = asyncio.create_task(producer.send(topic, b"quick"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not quick.done()
        await cancelled(slow)
        assert (await asyncio.wait_for(quick, 5)).offset == 0
        assert stopped == [b"slow"]
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"quick"]


async def test_a_record_cancelled_after_it_was_accepted_is_still_delivered(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer() as producer:
        await producer.send(topic, b"first")
        cluster.net.stall()
        tasks = [asyncio.create_task(producer.send(topic, b"%d" % n)) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            await cancelled(task)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.send(topic, b"out of time"), 0.05)
        delivery = await producer.enqueue(topic, b"shared")
        waiters = [asyncio.ensure_future(delivery) for _ in range(3)]
        await asyncio.sleep(0)
        await cancelled(waiters[1])
        cluster.net.resume()
        await asyncio.gather(*tasks[1::2], waiters[0], waiters[2], delivery)
        await producer.flush()
        assert_accounts_balance(producer, settled=True)
        assert (producer.statistics().delivered, producer.statistics().failed) == (13, 0)
    assert await cluster.log(topic) == [b"first", *(b"%d" % n for n in range(10)), b"out of time", b"shared"]
    assert warnings_in(caplog) == []


async def test_a_failure_after_its_sender_was_cancelled_is_logged_once_and_by_us(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is "never retrieved" (the fixture ``silent_loop`` looks), and it is not lost either."""
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=30) as producer:
        await producer.send(topic, b"first")
        cluster.net.fail_produce(errors.InvalidRecordError)
        tasks = [asyncio.create_task(producer.send(topic, b"%d" % n)) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks:
            await cancelled(task)
        await producer.flush()
        assert producer.statistics().failed == 10
    (line,) = [line for line in warnings_in(caplog) if topic in line]
    assert "10" in line


async def test_cancel_at_every_turn_of_the_loop_is_exact(cluster: Cluster) -> None:
    """A send cancelled in its n-th turn, waiting for anything, either was never accepted or is delivered."""
    topic = await cluster.create_topic()
    gave_up: list[bytes] = []
    async with cluster.producer(**SMALL) as producer:
        await producer.send(topic, b"first")
        for turns in range(60):
            # One that waits for metadata or nothing, and some that wait for room.
            tasks = [
                asyncio.create_task(producer.send(topic, b"%d-%d " % (turns, n) + bytes(2_000))) for n in range(12)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks[turns % 3 :: 3]:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            gave_up += [b"%d-%d " % (turns, n) for n, r in enumerate(results) if isinstance(r, asyncio.CancelledError)]
            assert not [result for result in results if isinstance(result, Exception)]
        await producer.flush()
        assert_accounts_balance(producer, settled=True)
        delivered = producer.statistics().delivered
    log = [value.rstrip(b"\0") for value in await cluster.log(topic)]
    assert len(log) == len(set(log)) == delivered
    expected = {b"%d-%d " % (turns, n) for turns in range(60) for n in range(12)} | {b"first"}
    assert expected - set(log) <= set(gave_up)
    assert set(log) <= expected


async def test_send_many_that_is_cancelled_stops_taking_and_delivers_its_records(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    taken = 0

    def values() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"%d" % taken

    async with cluster.producer(**SMALL) as producer:
        await producer.partitions_for(topic)
        task = asyncio.create_task(producer.send_many(topic, values()))
        await cluster.net.seen(ApiKey.PRODUCE, 3)
        await cancelled(task)
        taken_then = taken
        await producer.flush()
        assert taken == taken_then
        assert_accounts_balance(producer, settled=True)
        accepted = producer.statistics().delivered
    log = await cluster.log(topic)
    assert log == [b"%d" % n for n in range(1, accepted + 1)]
    assert 0 < accepted <= taken


async def test_flush_that_is_cancelled_ends_its_hurry(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        await producer.partitions_for(topic)
        await producer.enqueue(topic, b"first")
        hold = cluster.net.hold(ApiKey.PRODUCE)
        flush = asyncio.create_task(producer.flush())
        await cluster.net.seen(ApiKey.PRODUCE)
        await cancelled(flush)
        mark = cluster.net.mark()
        hold.release()
        lingering = await producer.enqueue(topic, b"lingering")
        await producer.ping()
        assert cluster.net.request_count(ApiKey.PRODUCE, since=mark) == 0
        assert not lingering.done()
        await producer.flush()
        assert lingering.done()


async def test_close_that_is_cancelled_closes_at_once(cluster: Cluster) -> None:
    told: list[str] = []

    class Interceptor:
        def on_acknowledgement(self, metadata: object, error: object, headers: object) -> None:
            told.append("delivered" if error is None else "failed")

        def close(self) -> None:
            told.append("closed")

    topic = await cluster.create_topic()
    producer = cluster.producer(interceptors=[Interceptor()])
    await producer.start()
    await producer.send(topic, b"first")
    cluster.net.stall()
    tasks = [asyncio.create_task(producer.send(topic, b"")) for _ in range(10)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    await cancelled(closing)
    assert producer.state is ProducerState.CLOSED
    assert told == ["delivered", *["failed"] * 10, "closed"]
    _, failed = outcomes(await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10))
    assert len(failed) == 10
    await producer.close()
    assert_nothing_is_left(cluster.net.ports)
    assert_accounts_balance(producer, settled=True)


async def test_start_that_is_cancelled_leaves_nothing_and_can_be_repeated(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer()
    for turns in range(12):
        cluster.net.stall()
        start = asyncio.create_task(producer.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        await cancelled(start)
        assert_nothing_is_left(cluster.net.ports)
        cluster.net.resume()
    async with producer:
        await producer.send(topic, b"")


async def test_partitions_for_and_ping_can_be_cancelled(cluster3: Cluster) -> None:
    topic = await cluster3.create_topic()
    async with cluster3.producer() as producer:
        await producer.send(topic, b"")
        looking = asyncio.create_task(producer.partitions_for("promise-no-such-topic"))
        await asyncio.sleep(0)
        await cancelled(looking)
        cluster3.net.stall()
        pinging = asyncio.create_task(producer.ping())
        await asyncio.sleep(0)
        await cancelled(pinging)
        cluster3.net.resume()
        await producer.send(topic, b"")
        assert_accounts_balance(producer, settled=True)


@pytest.mark.parametrize("how", ["cancelled", "crashed"])
async def test_the_senders_end_fails_pending_records_at_once_and_later_ones_too(
    cluster: Cluster, how: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await cluster.create_topic()
    producer: KafkaProducer[Any, Any] = cluster.producer(**SMALL)
    await producer.start()
    await producer.send(topic, b"first")
    cluster.net.stall()
    tasks = [asyncio.create_task(producer.send(topic, bytes(1_000))) for _ in range(50)]
    flush = asyncio.create_task(producer.flush())
    unknown = asyncio.create_task(producer.send("promise-no-such-topic", b""))
    looking = asyncio.create_task(producer.partitions_for("promise-nor-this"))
    await asyncio.sleep(0)
    assert producer.statistics().waiters > 0
    if how == "cancelled":
        sender_task().cancel()
    else:
        runtime = runtime_of(producer)
        nothing: dict[str, float] = {}
        monkeypatch.setattr(runtime.sender, "run_once", lambda now: nothing["a bug"])
        runtime.sender.wakeup()
    # At once, and not with the records' twenty seconds.
    results = await asyncio.wait_for(asyncio.gather(*tasks, unknown, looking, flush, return_exceptions=True), 15)
    assert all(isinstance(result, errors.KafkaError) for result in results[:-1]), results
    pending = [result for result in results[:50] if isinstance(result, errors.SenderCrashedError)]
    assert len(pending) == 50
    assert topic in str(pending[0])
    assert isinstance(results[50], errors.SenderCrashedError), "the one that waited for its topic"
    if how == "crashed":
        assert isinstance(pending[0].__cause__, KeyError)
    assert ("cancelled" if how == "cancelled" else "a bug") in str(pending[0])
    assert results[-1] is None or isinstance(results[-1], errors.KafkaError)
    for call in (producer.send, producer.enqueue):
        with pytest.raises(errors.SenderCrashedError):
            await call(topic, b"later")
    with pytest.raises(errors.SenderCrashedError):
        producer.send_nowait(topic, b"later")
    with pytest.raises(errors.SenderCrashedError):
        await producer.send_many(topic, [b"later"])
    with pytest.raises(errors.SenderCrashedError):
        await producer.flush()
    assert producer.health.state == "crashed"
    assert not producer.health.is_healthy
    assert_accounts_balance(producer, settled=True)
    await asyncio.wait_for(producer.close(), 1)
    assert_nothing_is_left(cluster.net.ports)
    assert [line for line in warnings_in(caplog) if "producer.crashed" in line]


async def test_nothing_hangs_when_any_task_of_ours_is_cancelled(cluster: Cluster) -> None:
    """The cancelled task may also be the one that connects: the next attempt has another."""
    topic = await cluster.create_topic()
    async with cluster.producer(max_block_ms=20_000) as producer:
        await producer.send(topic, b"first")
        hold = cluster.net.hold(ApiKey.API_VERSIONS)
        cluster.net.cut()
        task = asyncio.create_task(producer.send(topic, b"second"))
        hit = 0
        async with asyncio.timeout(10):
            while hit < 4:
                for each in client_tasks():
                    if each.get_name() != "aiokafkapy-sender" and not each.cancelling():
                        each.cancel()
                        hit += 1
                await asyncio.sleep(0)
        hold.release()
        assert (await asyncio.wait_for(task, 25)).offset == 1


async def test_one_bad_record_of_a_task_group_does_not_take_its_siblings_along(cluster: Cluster) -> None:
    """The group cancels their tasks; their records were accepted, and are delivered."""
    topic = await cluster.create_topic()
    async with cluster.producer(max_request_size=10_000, batch_size=5_000) as producer:
        await producer.partitions_for(topic)
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                for n in range(20):
                    group.create_task(producer.send(topic, b"%d" % n if n != 10 else bytes(20_000)))
        assert raised.group_contains(errors.RecordTooLargeError)
        await producer.flush()
        assert_accounts_balance(producer, settled=True)
        accepted = producer.statistics().accepted
    assert await cluster.log(topic) == [b"%d" % n for n in range(20) if n != 10][:accepted]
    assert accepted >= 10


async def _call(producer: KafkaProducer[Any, Any], topic: str, what: str, turns: int) -> Any:
    if what == "start":
        return await producer.start()
    if what == "flush":
        return await producer.flush()
    if what == "close":
        return await producer.close()
    values = [b"%s %d %d " % (what.encode(), turns, n) + bytes(2_500) for n in range(12)]
    if what == "send_many":
        return await producer.send_many(topic, values)
    for value in values:
        await producer.enqueue(topic, value)
    return None


@pytest.mark.parametrize("what", ["start", "enqueue", "send_many", "flush", "close"])
async def test_each_call_may_be_cancelled_at_every_turn_of_the_loop(cluster: Cluster, what: str) -> None:
    """The call is cancelled later and later, until it has ended by itself. Every record that others sent meanwhile has
    one outcome, which is true, and nothing is left.
    """
    topic = await cluster.create_topic()
    delivered: list[bytes] = []
    turns, hits, is_over = 0, 0, False
    while not is_over and turns < 2_000:
        producer = cluster.producer(**SMALL)
        tasks = []
        if what != "start":
            await producer.start()
            values = [b"other %d %d" % (turns, n) for n in range(6)]
            tasks = [asyncio.create_task(producer.send(topic, value)) for value in values]
        call = asyncio.create_task(_call(producer, topic, what, turns))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_over = call.done()
        if not is_over:
            hits += 1
            await cancelled(call)
        await asyncio.wait_for(producer.close(), 10)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
        _, failed = outcomes(results)
        assert not failed or what == "close", "nobody else is harmed"
        if tasks:
            delivered += [value for value, each in zip(values, results, strict=True) if isinstance(each, tuple)]
        assert_accounts_balance(producer, settled=True)
        assert_nothing_is_left(cluster.net.ports)
        turns += 1 + turns // 8
    assert hits > 2
    log = await cluster.log(topic)
    assert len(log) == len(set(log)), "nothing twice"
    assert set(delivered) <= set(log)


@pytest.mark.parametrize("seed", range(5))
async def test_waiters_that_are_cancelled_in_any_order_leave_every_byte(cluster: Cluster, seed: int) -> None:
    """The line has large and small ones. As many waiting records as fit are let in when others leave, in the order of
    the line.
    """
    chance = random.Random(seed)
    topic = await cluster.create_topic()
    async with cluster.producer(**SMALL) as producer:
        await producer.send(topic, b"first")
        hold = cluster.net.hold(ApiKey.PRODUCE)
        sizes = [chance.choice([100, 1_000, 6_000, 15_000]) for _ in range(60)]
        line = [asyncio.create_task(producer.enqueue(topic, b"%03d" % n + bytes(size))) for n, size in enumerate(sizes)]
        await asyncio.sleep(0)
        assert producer.statistics().waiters > 30
        for task in chance.sample(line, len(line)):
            task.cancel()
            await asyncio.sleep(0)
            assert_accounts_balance(producer)
        await asyncio.wait(line)
        assert producer.statistics().waiters == 0
        hold.release()
        let_in = [task.result() for task in line if not task.cancelled()]
        await asyncio.gather(*let_in)
        assert_accounts_balance(producer, settled=True)
        # Were a byte missing, this would wait forever.
        await asyncio.wait_for(producer.send(topic, b"all of it" + bytes(18_000)), 10)
    # One that was let in as it was cancelled is accepted, and delivered.
    values = [value[:3] for value in (await cluster.log(topic))[1:-1]]
    assert values == sorted(values)
    assert len(values) == producer.statistics().accepted - 2
    assert {b"%03d" % n for n, task in enumerate(line) if not task.cancelled()} <= set(values)


async def test_a_stream_of_small_records_does_not_starve_a_large_one(cluster: Cluster) -> None:
    """As many small records as fit into its room wait behind it, and new ones come as fast as old ones leave."""
    topic = await cluster.create_topic()
    is_in = asyncio.Event()
    after = 0
    async with cluster.producer(**SMALL, linger_ms=0) as producer:
        await producer.send(topic, b"first")

        async def stream() -> None:
            nonlocal after
            while after < 200:
                await producer.send(topic, bytes(1_000))
                after += is_in.is_set()

        streams = [asyncio.create_task(stream()) for _ in range(60)]
        await cluster.net.seen(ApiKey.PRODUCE, 5)
        assert producer.statistics().waiters > 20
        mark = cluster.net.mark()
        delivery = await asyncio.wait_for(producer.enqueue(topic, bytes(18_500)), 30)
        is_in.set()
        waited = cluster.net.request_count(ApiKey.PRODUCE, since=mark)
        await asyncio.gather(delivery, *streams)
    assert waited < 200, "the large record was let in when the records before it in the line were"


async def test_a_task_group_with_one_failing_record_leaves_the_others_delivered(broker: DevBroker) -> None:
    broker.create_topic("t", partitions=1)
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("t", b"first")
        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for value in numbered(100):
                    group.create_task(producer.send("t", value))
                group.create_task(producer.send("t", b"x" * 2_000_000))
        await producer.flush()
        assert_accounts_balance(producer)
    assert values(broker, "t") == [b"first", *numbered(100)]


async def test_cancelling_start_leaves_nothing_behind() -> None:
    producer = KafkaProducer(f"127.0.0.1:{free_port()}")
    starting = asyncio.create_task(producer.start())
    await asyncio.sleep(0.02)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert client_tasks() == []
    assert producer.state.value == "new"
