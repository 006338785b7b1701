"""The life of a producer: forks, other loops, frozen clocks, debug mode, being dropped, failed starts, close in every
state, and programs that just end.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import freezegun
import pytest

import aiokafkapy
from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.producers import numbered, values

from .observing import assert_accounts_balance, assert_nothing_is_left, client_sockets, client_tasks
from .proxied_clusters import Cluster

ROOT = Path(aiokafkapy.__file__).parent.parent


# processes and loops


async def test_after_a_fork_the_child_is_told_at_once_and_the_parent_is_not_harmed(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer() as producer:
        await producer.send(topic, b"before")
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: forking with threads
            child = os.fork()
        if child == 0:
            os.write(writing, _outcomes_in_the_child(producer, topic).encode())
            os._exit(0)
        os.close(writing)
        said = await asyncio.to_thread(_read_all, reading)
        await asyncio.to_thread(os.waitpid, child, 0)
        assert said.splitlines() == [
            "send: ForkedProducerError",
            "send_nowait: ForkedProducerError",
            "enqueue: ForkedProducerError",
            "flush: ForkedProducerError",
            "start: ForkedProducerError",
            "close: None",
            "state: forked",
        ]
        assert (await producer.send(topic, b"after")).offset == 1
    assert await cluster.log(topic) == [b"before", b"after"]


def _outcomes_in_the_child(producer: KafkaProducer[Any, Any], topic: str) -> str:
    """Each call and its outcome; run in the child, inside the parent's running loop, and then in one of its own."""
    lines = []

    async def calls() -> None:
        for name, call in {
            "send": lambda: producer.send(topic, b""),
            "send_nowait": lambda: producer.send_nowait(topic, b""),
            "enqueue": lambda: producer.enqueue(topic, b""),
            "flush": producer.flush,
            "start": producer.start,
            "close": producer.close,
        }.items():
            try:
                result: Any = call()
                if hasattr(result, "__await__"):
                    result = await result
            except BaseException as error:
                result = type(error).__name__
            lines.append(f"{name}: {result}")

    try:
        calls().send(None)  # in the loop that the child has inherited; nothing may wait
    except StopIteration:
        pass
    lines.append(f"state: {producer.state.value}")
    return "\n".join(lines)


def _read_all(descriptor: int) -> str:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read().decode()


async def test_a_call_from_another_loop_is_a_clear_error(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer() as producer:
        await producer.send(topic, b"")

        async def use() -> list[str]:
            found = []
            for call in (
                lambda: producer.send(topic, b""),
                lambda: producer.enqueue(topic, b""),
                producer.flush,
                producer.close,
                producer.start,
                lambda: producer.partitions_for(topic),
            ):
                with pytest.raises(errors.WrongEventLoopError) as raised:
                    await call()
                found.append(str(raised.value))
            with pytest.raises(errors.WrongEventLoopError):
                producer.send_nowait(topic, b"")
            return found

        texts = await asyncio.to_thread(lambda: asyncio.run(use()))
        assert all("loop" in text for text in texts)
        with pytest.raises(errors.WrongEventLoopError, match="outside of any event loop"):
            await asyncio.to_thread(lambda: producer.send_nowait(topic, b""))
        assert (await producer.send(topic, b"")).offset == 1


def test_one_loop_after_the_other_has_its_own_producer(loopless_servers: str) -> None:
    async def life() -> int:
        async with KafkaProducer(loopless_servers) as producer:
            return (await producer.send("promise-loops", b"")).offset

    assert [asyncio.run(life()) for _ in range(3)] == [0, 1, 2]


def test_made_where_no_loop_is_and_used_where_one_is(loopless_servers: str) -> None:
    producer: KafkaProducer[Any, Any] = KafkaProducer(loopless_servers)

    async def life() -> None:
        async with producer:
            await producer.send("promise-made-early", b"")

    with pytest.raises(errors.ProducerNotStartedError):
        producer.send_nowait("promise-made-early", b"")
    asyncio.run(life())
    with pytest.raises(errors.ProducerClosedError):
        producer.send_nowait("promise-made-early", b"")


@pytest.fixture
def loopless_servers() -> Any:
    """A dev broker on a loop in another thread, for tests that run loops themselves."""
    from aiokafkapy.broker import DevBroker

    ready, stop, servers = threading.Event(), asyncio.Event(), []
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with DevBroker() as broker:
            servers.append(broker.bootstrap_servers)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    ready.wait(10)
    yield servers[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(10)
    loop.close()


# clocks


async def test_time_that_stands_still_stops_nothing(cluster: Cluster) -> None:
    """Nothing stops even where freezegun stops the loop's own clock."""
    topic = await cluster.create_topic()
    async with cluster.producer() as producer:
        await producer.send(topic, b"before")  # a fresh Apache Kafka has to be asked twice for a producer id
    with freezegun.freeze_time("2020-02-02 02:02:02"):
        # The loop's clock stands still too: no timer fires, so a call that needs none must finish.
        async with cluster.producer() as producer:
            results = await asyncio.gather(*(producer.send(topic, b"%d" % n) for n in range(100)))
            await (await producer.enqueue(topic, b"again"))
            await producer.flush()
            await producer.ping()
    assert {result.timestamp_ms for result in results} == {1_580_608_922_000}
    assert len(await cluster.log(topic)) == 102


async def test_a_wall_clock_that_jumps_breaks_nothing(cluster: Cluster) -> None:
    """Only the loop's own clock counts; the wall clock goes into timestamps, and only there."""
    topic = await cluster.create_topic()
    stamps = []
    with freezegun.freeze_time("2020-02-02", real_asyncio=True) as clock:
        async with cluster.producer(linger_ms=20, retry_backoff_ms=10) as producer:
            for jump in (10**8, -(10**8), 86_400 * 400):
                cluster.net.drop_next(ApiKey.PRODUCE)
                stamps.append((await producer.send(topic, b"")).timestamp_ms)
                clock.tick(jump)
    assert [stamp - stamps[0] for stamp in stamps] == [0, 10**11, 0]
    assert len(await cluster.log(topic)) == 3


# start and close


async def test_a_failed_start_leaves_nothing_and_can_be_repeated(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer(max_block_ms=1_500)
    cluster.net.go_down()
    for _ in range(2):
        with pytest.raises(errors.KafkaTimeoutError):
            await producer.start()
        assert_nothing_is_left(cluster.net.ports)
    with pytest.raises(errors.ProducerNotStartedError):
        await producer.send(topic, b"")
    await cluster.net.come_back()
    async with producer:
        await producer.send(topic, b"")
    assert_nothing_is_left(cluster.net.ports)


async def test_async_with_that_cannot_start_leaves_nothing(cluster: Cluster) -> None:
    cluster.net.go_down()
    with pytest.raises(errors.KafkaTimeoutError):
        async with cluster.producer(max_block_ms=200):
            pytest.fail("it cannot have started")
    assert_nothing_is_left(cluster.net.ports)


async def test_close_before_start_is_the_end(cluster: Cluster) -> None:
    producer = cluster.producer()
    await producer.close()
    await producer.close()
    with pytest.raises(errors.ProducerClosedError):
        await producer.start()
    with pytest.raises(errors.ProducerClosedError):
        await producer.send("t", b"")


async def test_close_twice_at_once_and_again(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
    await producer.start()
    await producer.partitions_for(topic)
    delivery = await producer.enqueue(topic, b"")
    await asyncio.gather(producer.close(), producer.close(timeout=5), producer.close())
    assert delivery.result().offset == 0
    await producer.close()
    await producer.close(timeout=0)
    assert_nothing_is_left(cluster.net.ports)


async def test_the_earlier_deadline_of_two_closes_counts(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer()
    await producer.start()
    await producer.send(topic, b"")
    cluster.net.stall()
    delivery = await producer.enqueue(topic, b"")
    started = time.monotonic()
    await asyncio.gather(producer.close(), producer.close(timeout=0.3))
    assert 0.3 <= time.monotonic() - started < 10, "without a deadline it is the record's, of twenty seconds"
    assert isinstance(delivery.exception(), errors.CloseTimeoutError)
    assert_nothing_is_left(cluster.net.ports)


async def test_close_while_it_starts(cluster: Cluster) -> None:
    cluster.net.stall()
    producer = cluster.producer()
    start = asyncio.create_task(producer.start())
    for _ in range(20):
        await asyncio.sleep(0)
    await asyncio.wait_for(producer.close(), 2)
    with pytest.raises(errors.KafkaError):
        await asyncio.wait_for(start, 2)
    assert_nothing_is_left(cluster.net.ports)


async def test_while_it_closes_nothing_new_is_accepted_and_everything_old_is_delivered(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer = cluster.producer()
    await producer.start()
    await producer.send(topic, b"first")
    hold = cluster.net.hold(ApiKey.PRODUCE)
    deliveries = [await producer.enqueue(topic, b"%d" % n) for n in range(20)]
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0)
    with pytest.raises(errors.ProducerClosedError):
        await producer.send(topic, b"late")
    assert not closing.done()
    hold.release()
    await closing
    assert [delivery.result().offset for delivery in deliveries] == list(range(1, 21))
    assert_accounts_balance(producer, settled=True)


async def test_an_error_inside_async_with_still_delivers_and_closes(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    with pytest.raises(ZeroDivisionError):
        async with cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
            await producer.enqueue(topic, b"accepted")
            raise ZeroDivisionError
    assert await cluster.log(topic) == [b"accepted"]
    assert_nothing_is_left(cluster.net.ports)


# dropped


async def test_dropped_without_close_is_one_warning_and_leaves_nothing(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer: Any = cluster.producer()
    await producer.start()
    await producer.send(topic, b"")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del producer
        gc.collect()
        async with asyncio.timeout(5):
            while client_tasks() or client_sockets(cluster.net.ports):
                await asyncio.sleep(0)
                gc.collect()
    (warning,) = [each for each in caught if issubclass(each.category, ResourceWarning)]
    assert re.search(r"unclosed.*KafkaProducer.*close", str(warning.message))
    assert len(caught) == 1
    assert_nothing_is_left(cluster.net.ports)


async def test_dropped_with_records_pending_tells_each_of_them(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    producer: Any = cluster.producer()
    await producer.start()
    await producer.send(topic, b"")
    cluster.net.stall()
    deliveries = [await producer.enqueue(topic, b"") for _ in range(5)]
    dropping = [producer]
    del producer
    with pytest.warns(ResourceWarning, match="unclosed"):
        dropping.clear()
    results = await asyncio.wait_for(asyncio.gather(*deliveries, return_exceptions=True), 5)
    assert {type(result) for result in results} == {errors.ProducerClosedError}


async def test_never_started_or_closed_warns_of_nothing(cluster: Cluster) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        producer: Any = cluster.producer()
        del producer
        async with cluster.producer() as used:
            await used.ping()
        del used
        gc.collect()
    assert caught == []


# programs


@pytest.fixture
async def program(cluster: Cluster) -> AsyncIterator[Any]:
    """Runs the body of an ``async def main(servers, topic)`` as a program; its process is returned."""
    running: list[asyncio.subprocess.Process] = []

    async def start(body: str, topic: str, warnings: str = "error", **environment: str) -> asyncio.subprocess.Process:
        source = (
            "import asyncio, signal, sys\n"
            # A shell that runs the tests in the background ignores SIGINT, and programs inherit that.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from aiokafkapy import KafkaProducer, errors\nasync def main(servers, topic):\n"
            + textwrap.indent(textwrap.dedent(body), "    ")
            + "\nasyncio.run(main(*sys.argv[1:]))\n"
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-X", "faulthandler", "-W", warnings, "-c", source, cluster.bootstrap_servers, topic,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=os.environ | environment,
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    """Exit status, output and errors."""
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_whole_life_is_clean_with_warnings_as_errors_and_debug_mode(cluster: Cluster, program: Any) -> None:
    topic = await cluster.create_topic(partitions=2)
    process = await program(
        """
        async with KafkaProducer(servers, compression_type="gzip") as producer:
            await asyncio.gather(*(producer.send(topic, b"%d" % n, partition=n % 2) for n in range(2000)))
            await producer.send_many(topic, [bytes(50_000)] * 40)
            await (await producer.enqueue(topic, b""))
            task = asyncio.create_task(producer.send(topic, b""))
            await asyncio.sleep(0)
            task.cancel()
            await producer.flush()
            print(await producer.ping() < 5, producer.health.is_healthy)
        """,
        topic,
        PYTHONASYNCIODEBUG="1",
    )
    status, out, err = await ended(process)
    slow = re.compile(r"^Executing .* took .* seconds$", re.MULTILINE)
    assert (status, out, slow.sub("", err).strip()) == (0, "True True\n", "")


async def test_a_program_that_ends_with_sends_pending_gets_only_the_warning_of_its_mistake(
    cluster: Cluster, program: Any
) -> None:
    """``asyncio.run`` cancels all tasks, ours too. Nothing hangs, and nothing is "never retrieved"."""
    topic = await cluster.create_topic()
    cluster.net.hold(ApiKey.PRODUCE)
    process = await program(
        """
        producer = KafkaProducer(servers)
        await producer.start()
        await producer.partitions_for(topic)
        main.tasks = [asyncio.create_task(producer.send(topic, b"%d" % n)) for n in range(100)]
        main.delivery = await producer.enqueue(topic, b"")
        main.producer = producer
        """,
        topic,
        warnings="default",
    )
    status, _, err = await ended(process)
    assert "never retrieved" not in err
    assert "Traceback" not in err
    assert err.count("unclosed <KafkaProducer") <= 1
    assert status == 0


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM"])
async def test_a_program_that_is_interrupted_delivers_accepted_records(
    cluster: Cluster, program: Any, how: str
) -> None:
    """Ctrl-C cancels the main task, whose ``async with`` closes: all accepted records are on the broker."""
    topic = await cluster.create_topic()
    process = await program(
        """
        import signal
        if hasattr(signal, "SIGTERM"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
        accepted = 0
        try:
            async with KafkaProducer(servers, linger_ms=200) as producer:
                print("started", flush=True)
                while True:
                    await producer.enqueue(topic, b"%d" % accepted)
                    accepted += 1
                    if accepted % 50 == 0:
                        await asyncio.sleep(0.001)
        finally:
            now = producer.statistics()
            print(accepted, now.accepted, now.delivered, now.failed, flush=True)
        """,
        topic,
    )
    assert await process.stdout.readline() == b"started\n"
    await cluster.net.seen(ApiKey.PRODUCE, 2)
    process.send_signal(getattr(signal, how))
    status, out, err = await ended(process)
    called, accepted, delivered, failed = map(int, out.split())
    assert status != 0
    assert ("KeyboardInterrupt" if how == "SIGINT" else "CancelledError") in err
    assert "never retrieved" not in err
    assert "ResourceWarning" not in err
    assert accepted == delivered
    assert failed == 0
    assert called <= accepted <= called + 1
    assert await cluster.log(topic) == [b"%d" % n for n in range(accepted)]


async def test_a_program_that_dies_leaves_the_broker_with_whole_records(cluster: Cluster, program: Any) -> None:
    """kill -9 in full flight: the log has the first of the sent records, and the broker serves others."""
    topic = await cluster.create_topic()
    process = await program(
        """
        async with KafkaProducer(servers) as producer:
            await producer.send_many(topic, (b"%d" % n for n in range(10**9)))
        """,
        topic,
    )
    await cluster.net.seen(ApiKey.PRODUCE, 20)
    process.kill()
    await process.wait()
    log = await cluster.log(topic)
    assert log == [b"%d" % n for n in range(len(log))]
    async with cluster.producer() as producer:
        await producer.send(topic, b"next")


async def test_ten_lives_in_one_loop_leave_nothing(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    threads = threading.active_count()
    lives: weakref.WeakSet[KafkaProducer] = weakref.WeakSet()
    for _ in range(10):
        async with cluster.producer(compression_type="gzip", batch_size=100_000) as producer:
            lives.add(producer)
            await producer.send_many(topic, [os.urandom(1_000)] * 100)
        assert_nothing_is_left(cluster.net.ports)
    del producer
    gc.collect()
    assert threading.active_count() <= threads + 2, "the threads that compress end with their producer"
    assert list(lives) == []


@pytest.mark.parametrize("real_asyncio", [True, False])
async def test_it_works_while_time_is_frozen(broker: DevBroker, real_asyncio: bool) -> None:
    broker.create_topic("t", partitions=1)
    with freezegun.freeze_time("2024-01-02 03:04:05", real_asyncio=real_asyncio):
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send("t", b"x")
            await producer.send_many("t", numbered(100))
            await producer.flush()
    assert metadata.timestamp_ms == 1_704_164_645_000
    assert len(values(broker, "t")) == 101
