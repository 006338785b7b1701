"""Programs without an event loop, and threads beside one: ``BlockingProducer`` and ``send_from_thread``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import dataclasses
import gc
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from aiokafkapy import BlockingProducer, KafkaProducer, ProducerRecord, errors
from aiokafkapy.blocking.blocking_producer import _Start
from aiokafkapy.broker import DevBroker
from aiokafkapy.producer import thread_sender
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.producer.thread_sender import ThreadSender
from aiokafkapy.protocol.api import ApiKey
from tests.inside import is_starting
from tests.reading import committed_values
from tests.waiting import until

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("t", 1)
        yield broker


async def in_thread(function: Callable[[], Any]) -> Any:
    async with asyncio.timeout(60):
        return await asyncio.to_thread(function)


async def values(broker: DevBroker) -> list[bytes | None]:
    return await committed_values(broker.bootstrap_servers, "t")


class TestSendFromThread:
    @pytest.fixture
    async def producer(self, broker: DevBroker) -> AsyncIterator[KafkaProducer]:
        async with KafkaProducer(broker.bootstrap_servers, max_block_ms=2_000) as producer:
            yield producer

    async def test_threads_at_once_each_in_order(self, broker: DevBroker, producer: KafkaProducer) -> None:
        def send(thread: int) -> list[int]:
            futures = [producer.send_from_thread("t", b"%d:%d" % (thread, n)) for n in range(3_000)]
            return [future.result(60).offset for future in futures]

        offsets = await asyncio.gather(*(in_thread(partial(send, thread)) for thread in range(4)))
        assert sorted(offset for each in offsets for offset in each) == list(range(12_000))
        found = await values(broker)
        for thread, own in enumerate(offsets):
            assert [found[offset] for offset in own] == [b"%d:%d" % (thread, n) for n in range(3_000)]

    async def test_threads_whose_first_calls_meet_share_one_line(
        self, broker: DevBroker, producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise a thread's second record is in another line than its first, and may overtake it."""
        other_sends, goes_on = threading.Event(), threading.Event()
        sent: list[Any] = []

        def send_two() -> None:
            sent.extend(producer.send_from_thread("t", value) for value in (b"first", b"second"))

        other = threading.Thread(target=send_two)

        class Meeting(ThreadSender):
            """Made by the first call here, then by that of the other thread, which goes on when this one has sent."""

            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                if threading.current_thread() is not other:
                    other.start()
                    assert other_sends.wait(30)

            def send(self, *arguments: Any, **options: Any) -> Any:
                if threading.current_thread() is other:
                    other_sends.set()
                    assert goes_on.wait(30)
                return super().send(*arguments, **options)

        monkeypatch.setattr(thread_sender, "ThreadSender", Meeting)
        # On the loop's own thread, so that it takes none meanwhile
        sent.append(producer.send_from_thread("t", b"here"))
        goes_on.set()
        other.join()
        for future in sent:
            await asyncio.wrap_future(future)
        assert await values(broker) == [b"here", b"first", b"second"]

    async def test_order_is_kept_when_some_wait(self, broker: DevBroker) -> None:
        """Records wait for metadata at first, for an async serializer, and for room."""

        async def slowly(value: int) -> bytes:
            await asyncio.sleep(0.001)
            return b"%d" % value + bytes(400)

        def either(value: int) -> Any:
            return slowly(value) if value % 7 == 0 else b"%d" % value + bytes(400)

        async with KafkaProducer(
            broker.bootstrap_servers,
            value_serializer=either,
            batch_size=1_000,
            buffer_memory=5_000,
            max_request_size=5_000,
        ) as producer:

            def send() -> None:
                futures = [producer.send_from_thread("t", n) for n in range(500)]
                assert [future.result(60).offset for future in futures] == list(range(500))

            await in_thread(send)
        assert [int((value or b"").rstrip(b"\0")) for value in await values(broker)] == list(range(500))

    async def test_an_error_is_the_record_s_own(self, producer: KafkaProducer) -> None:
        def send() -> None:
            wrong = [
                producer.send_from_thread("t", "no bytes"),  # type: ignore[arg-type]
                producer.send_from_thread("not/a/topic", b""),
                producer.send_from_thread("t", b"", partition=9),
            ]
            right = producer.send_from_thread("t", b"right")
            for future, kind in zip(
                wrong, (errors.SerializationError, errors.InvalidTopicError, errors.KafkaError), strict=True
            ):
                assert isinstance(future.exception(60), kind)
            assert right.result(60).offset == 0

        await in_thread(send)

    async def test_a_call_on_the_loop_sends_and_waits_for_nothing(self, producer: KafkaProducer) -> None:
        future = producer.send_from_thread("t", b"")
        for call in (future.result, future.exception):
            with pytest.raises(RuntimeError, match=r"would block it forever.*wrap_future"):
                call()
        assert (await asyncio.wrap_future(future)).offset == 0
        assert future.result().offset == 0
        with pytest.raises(errors.BufferExhaustedError, match="1000 records"):
            for _ in range(1_001):
                producer.send_from_thread("t", b"")
        await asyncio.sleep(0)
        assert (await asyncio.wrap_future(producer.send_from_thread("t", b""))).offset == 1_001

    async def test_a_record_that_has_not_crossed_can_be_cancelled(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        sent: list[Any] = []
        thread = threading.Thread(target=lambda: sent.append(producer.send_from_thread("t", b"never")))
        thread.start()
        thread.join()  # the loop is kept busy here
        assert sent[0].cancel()
        await producer.send("t", b"after")
        assert sent[0].cancelled()
        assert await values(broker) == [b"after"]

    async def test_each_record_is_taken_in_the_context_of_its_own_call(self, broker: DevBroker) -> None:
        """As in a service whose handlers run in threads: a record never has the headers of another request."""
        seen: list[tuple[bytes, str]] = []

        class Tenants:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return dataclasses.replace(record, headers=[("tenant", TENANT.get().encode())])

        async def serializer(value: bytes) -> bytes:
            await asyncio.sleep(0)
            seen.append((value, TENANT.get()))
            return value

        async with KafkaProducer(
            broker.bootstrap_servers, interceptors=[Tenants()], value_serializer=serializer
        ) as producer:
            sent: list[Any] = []

            def send(tenant: str) -> None:
                TENANT.set(tenant)
                sent.append(producer.send_from_thread("t", tenant.encode()))

            for tenant in ("ann", "bob", "cyd"):
                thread = threading.Thread(target=send, args=(tenant,))
                thread.start()
                thread.join()  # the loop is kept busy here, and woken once
            for future in sent:
                await asyncio.wrap_future(future)
        assert [(record.value, dict(record.headers)) for record in broker.records("t", 0)] == [
            (tenant, {"tenant": tenant}) for tenant in (b"ann", b"bob", b"cyd")
        ]
        assert seen == [(b"ann", "ann"), (b"bob", "bob"), (b"cyd", "cyd")]

    async def test_a_client_that_is_too_fast_waits(self, broker: DevBroker) -> None:
        sent = 0
        async with KafkaProducer(
            broker.bootstrap_servers, buffer_memory=100_000, max_request_size=100_000, max_block_ms=60_000
        ) as producer:

            def send() -> None:
                nonlocal sent
                for _ in range(5_000):
                    producer.send_from_thread("t", bytes(1_000))
                    sent += 1

            broker.controls.stall_connections()
            task = asyncio.create_task(in_thread(send))
            await asyncio.wait([task], timeout=0.5)
            assert not task.done()
            assert 1_000 <= sent < 1_200
            broker.controls.stall_connections(False)
            await task
        assert len(await values(broker)) == 5_000

    async def test_a_closed_producer_refuses_and_fails_waiting_records(self, broker: DevBroker) -> None:
        producer = KafkaProducer(broker.bootstrap_servers)
        with pytest.raises(errors.KafkaError, match="start"):
            producer.send_from_thread("t", b"")
        await producer.start()
        broker.controls.stall_connections()
        futures = await in_thread(lambda: [producer.send_from_thread("t", b"") for _ in range(10)])
        await producer.close(0)
        for future in futures:
            assert isinstance(await in_thread(future.exception), errors.KafkaError)
        with pytest.raises(errors.ProducerClosedError):
            await in_thread(lambda: producer.send_from_thread("t", b""))

    @pytest.mark.filterwarnings("ignore::ResourceWarning")
    async def test_nobody_waits_for_a_loop_that_has_ended(self, broker: DevBroker) -> None:
        broker.controls.delay(ApiKey.PRODUCE, 30)
        failed: list[str] = []

        def waits(producer: KafkaProducer) -> None:
            future = producer.send_from_thread("t", b"")
            for call in (future.result, partial(producer.send_from_thread, "t", b"")):
                try:
                    call()
                except errors.KafkaError as error:
                    failed.append(type(error).__name__)

        async def serve() -> threading.Thread:
            producer = KafkaProducer(broker.bootstrap_servers)
            await producer.start()
            thread = threading.Thread(target=waits, args=(producer,))
            thread.start()
            await asyncio.sleep(0.2)
            return thread  # and leaves the producer unclosed

        def program() -> None:
            asyncio.run(serve()).join(30)

        await in_thread(program)
        assert len(failed) == 2
        gc.collect()


class TestBlockingProducer:
    async def test_a_program_s_life(self, broker: DevBroker) -> None:
        def program() -> None:
            with BlockingProducer(broker.bootstrap_servers, value_serializer=str.encode) as producer:
                assert producer.send("t", "0").result(30).offset == 0
                assert [outcome.offset for outcome in producer.send_many("t", ["1", "2"])] == [1, 2]
                last = producer.send("t", "3")
                producer.flush()
                assert last.done()
                assert [each.partition for each in producer.partitions_for("t")] == [0]
                assert producer.ping() > 0
                assert producer.health.is_healthy
                assert producer.statistics().delivered == 4
                assert producer.metrics()["record-send-total"] == 4
                producer.send("t", "4")
            with pytest.raises(errors.ProducerClosedError):
                producer.send("t", "late")
            producer.close()
            assert producer.statistics().delivered == 5

        await in_thread(program)
        assert await values(broker) == [b"0", b"1", b"2", b"3", b"4"]
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("aiokafkapy")]

    def test_options_are_checked_when_it_is_made_and_nothing_is_started(self) -> None:
        with pytest.raises(errors.ConfigurationError, match="linger_ms"):
            BlockingProducer("127.0.0.1:1", linger_ms=-1)
        producer = BlockingProducer("127.0.0.1:1", max_block_ms=200)
        assert producer.health.state == ProducerState.NEW.value
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("aiokafkapy")]
        with pytest.raises(errors.KafkaTimeoutError, match=r"127\.0\.0\.1:1"):
            producer.send("t", b"")
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("aiokafkapy")]
        producer.close()

    async def test_transactions(self, broker: DevBroker) -> None:
        def program() -> None:
            with BlockingProducer(broker.bootstrap_servers, transactional_id="scripts") as producer:
                with producer.transaction():
                    producer.send("t", b"committed")
                with pytest.raises(LookupError), producer.transaction():
                    producer.send("t", b"never").result(30)
                    raise LookupError
                assert isinstance(producer.send("t", b"outside").exception(30), errors.IllegalStateError)

        await in_thread(program)
        assert await values(broker) == [b"committed"]

    async def test_a_callback_may_send_and_not_wait(self, broker: DevBroker) -> None:
        def program() -> None:
            with BlockingProducer(broker.bootstrap_servers) as producer:
                refused: list[str] = []

                def follow(_: Any) -> None:
                    producer.send("t", b"second")
                    try:
                        producer.flush()
                    except RuntimeError as error:
                        refused.append(str(error))

                producer.send("t", b"first").add_done_callback(follow)
                producer.flush()
                assert ["it would wait for itself" in text for text in refused] == [True]

        await in_thread(program)
        assert await values(broker) == [b"first", b"second"]

    async def test_an_exit_in_a_callback_ends_neither_the_records_nor_close(
        self, broker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Leaving:
            def on_acknowledgement(self, *_: object) -> None:
                raise SystemExit("of an interceptor")

        def leave(_: object) -> None:
            raise SystemExit("of a callback")

        def program() -> None:
            with BlockingProducer(broker.bootstrap_servers, interceptors=[Leaving()]) as producer:
                wrong = producer.send("t", b"x", partition="one")  # type: ignore[arg-type]
                wrong.add_done_callback(leave)
                sent = [producer.send("t", b"%d" % n) for n in range(50)]
                for future in sent[::10]:
                    future.add_done_callback(leave)
                assert [future.result(30).offset for future in sent] == list(range(50))
                producer.flush()
                last = producer.send("t", b"last")
            assert last.result(0).offset == 50

        await in_thread(program)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("aiokafkapy")]
        told = [record.exc_info[1] for record in caplog.records if record.exc_info is not None]
        assert {str(error) for error in told} == {"of an interceptor", "of a callback"}

    async def test_each_of_two_closes_waits(self, broker: DevBroker) -> None:
        """Otherwise the end of the program would go on while a daemon thread still closes."""
        producer = BlockingProducer(broker.bootstrap_servers)
        await in_thread(producer.start)
        broker.controls.stall_connections()
        sent = producer.send("t", b"")
        closing = [asyncio.create_task(in_thread(producer.close)) for _ in range(2)]
        returned, _ = await asyncio.wait(closing, timeout=0.5)
        assert not returned
        broker.controls.stall_connections(False)
        await asyncio.gather(*closing)
        assert sent.done()
        assert sent.result().offset == 0

    async def test_a_close_that_is_refused_changes_nothing(self, broker: DevBroker) -> None:
        def program() -> None:
            with BlockingProducer(broker.bootstrap_servers) as producer:
                with pytest.raises(TypeError, match="not a number of seconds"):
                    producer.close("5")  # type: ignore[arg-type]
                refused: concurrent.futures.Future[None] = concurrent.futures.Future()

                def close(_: Any) -> None:
                    try:
                        producer.close()
                    except RuntimeError as error:
                        refused.set_exception(error)

                producer.send("t", b"first").add_done_callback(close)
                with pytest.raises(RuntimeError, match="it would wait for itself"):
                    refused.result(30)
                producer.send("t", b"second")

        await in_thread(program)
        assert await values(broker) == [b"first", b"second"]

    async def test_a_close_ends_a_start_and_does_not_wait_for_it(self) -> None:
        producer = BlockingProducer("127.0.0.1:1", max_block_ms=60_000)
        starting = asyncio.create_task(in_thread(producer.start))
        await until(lambda: is_starting(producer))
        await in_thread(producer.close)
        with pytest.raises(errors.ProducerClosedError):
            await starting
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("aiokafkapy")]

    async def test_threads_whose_first_calls_meet_share_one_start_and_its_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise the last of them would wait ``max_block_ms`` for each of the others."""
        begun = threading.Event()
        waiting: list[None] = []
        starts: list[errors.KafkaError] = []
        wait = _Start.wait

        async def fail(_: KafkaProducer) -> None:
            begun.set()
            while len(waiting) < 4:  # noqa: ASYNC110  # another thread tells of it
                await asyncio.sleep(0.001)
            starts.append(errors.KafkaTimeoutError("no broker"))
            raise starts[-1]

        def noted(start: _Start) -> None:
            waiting.append(None)
            wait(start)

        monkeypatch.setattr(KafkaProducer, "start", fail)
        monkeypatch.setattr(_Start, "wait", noted)
        producer = BlockingProducer("127.0.0.1:1")
        calls: list[Callable[[], Any]] = [
            lambda: producer.send("t", b""),
            lambda: producer.send_many("t", [b""]),
            producer.flush,
            producer.ping,
        ]
        first = asyncio.create_task(in_thread(producer.start))
        await in_thread(begun.wait)
        outcomes = await asyncio.gather(first, *(in_thread(call) for call in calls), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [errors.KafkaTimeoutError] * 5
        assert len(starts) == 1
        producer.close()

    async def test_an_interrupt_is_of_the_thread_that_starts_alone(self) -> None:
        """The others go on, and one of them starts again."""
        start = _Start()
        start.end(KeyboardInterrupt())
        await in_thread(start.wait)
        start.thread.stop()

    async def test_a_close_ends_the_calls_of_other_threads(self, broker: DevBroker) -> None:
        producer = BlockingProducer(broker.bootstrap_servers)
        await in_thread(producer.start)
        await in_thread(lambda: producer.partitions_for("t"))
        broker.controls.stall_connections()
        sending = asyncio.create_task(in_thread(lambda: producer.send_many("t", [b""])))
        while not producer.statistics().pending:  # noqa: ASYNC110  # then there is something to flush
            await asyncio.sleep(0.001)
        calls: list[Callable[[], Any]] = [
            producer.flush,
            producer.ping,
            lambda: producer.partitions_for("unknown"),
            lambda: producer.request(3, {"topics": []}),
        ]
        called = [sending, *(asyncio.create_task(in_thread(call)) for call in calls)]
        returned, _ = await asyncio.wait(called, timeout=0.5)
        assert not returned
        await in_thread(lambda: producer.close(0))
        outcomes = await asyncio.gather(*called, return_exceptions=True)
        del outcomes[1]  # a flush raises no errors of records
        assert all(isinstance(each, errors.KafkaError) for each in outcomes), outcomes
        with pytest.raises(errors.ProducerClosedError):  # and no warning of a coroutine that was never awaited
            producer.request(3, {"topics": []})
        gc.collect()
        assert producer.health.state == ProducerState.CLOSED.value

    async def test_left_unclosed_it_warns_and_its_thread_ends(self, broker: DevBroker) -> None:
        def program() -> None:
            BlockingProducer(broker.bootstrap_servers).start()
            (thread,) = (each for each in threading.enumerate() if each.name.startswith("aiokafkapy"))
            gc.collect()
            thread.join(30)
            assert not thread.is_alive()

        with pytest.warns(ResourceWarning, match="unclosed <BlockingProducer"):
            await in_thread(program)


PROGRAMS = {
    "ends without close": """
        for number in range(200):
            producer.send("t", b"%d" % number + bytes(20_000))
        """,
    "ends without close, and large values are serialized in threads": """
        producer = BlockingProducer(
            producer.config.bootstrap_servers, value_serializer=lambda value: value, serialize_in_thread_above=1_000
        )
        for number in range(200):
            producer.send("t", b"%d" % number + bytes(20_000))
        """,
    "ends without close, in a process of multiprocessing's": """
        import multiprocessing
        def work():
            for number in range(200):
                producer.send("t", b"%d" % number)
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        sys.exit(process.exitcode)
        """,
    "ends without close, in a pool of multiprocessing's": """
        import multiprocessing
        def work(numbers):
            for number in numbers:
                producer.send("t", b"%d" % number)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(work, [range(200)])
            pool.close()
            pool.join()
        """,
    "in the child of a fork": """
        producer.send("t", b"0").result(30)
        child = os.fork()
        if child == 0:
            producer.send("t", b"1").result(30)
            producer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        producer.send("t", b"2").result(30)
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_every_program_sends_its_records_and_ends_well(broker: DevBroker, name: str) -> None:
    code = await ran(broker, PROGRAMS[name])
    assert code == 0
    count = 3 if name == "in the child of a fork" else 200
    assert [int((value or b"").rstrip(b"\0")) for value in await values(broker)] == list(range(count))


async def test_ctrl_c_ends_a_wait(broker: DevBroker) -> None:
    broker.controls.delay(ApiKey.PRODUCE, 60)
    began = time.monotonic()
    code = await ran(
        broker,
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for programs in the background
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            producer.send_many("t", [b""])
        except KeyboardInterrupt:
            producer.close(0)
            sys.exit(7)
        """,
    )
    assert code == 7
    assert time.monotonic() - began < 30


async def ran(broker: DevBroker, program: str) -> int:
    head = f"""
        import os, signal, sys, threading
        from aiokafkapy import BlockingProducer
        producer = BlockingProducer({broker.bootstrap_servers!r}, compression_type="gzip")
        """
    text = textwrap.dedent(head) + textwrap.dedent(program)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stderr=subprocess.PIPE)
    try:
        async with asyncio.timeout(90):
            _, told = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert b"Traceback" not in told, told.decode()
    assert process.returncode is not None
    return process.returncode
