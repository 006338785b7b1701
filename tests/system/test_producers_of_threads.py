"""Producers of several threads, each on an event loop of its own, and threads that share one producer, at once.

The state that threads share is tested in tests/unit/test_sharing.py. Without a GIL they run side by
side; with one they change places as often as they can.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, deadline
from aiokafkapy.broker import DevBroker
from tests.inside import thread_sender_of


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


async def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The results of ``work(number)`` in so many threads at once; raises an exception of one of them."""
    barrier = threading.Barrier(count)

    def begun(number: int) -> Any:
        barrier.wait(30)
        return work(number)

    async with asyncio.timeout(120):
        return await asyncio.gather(*(in_thread(begun, number) for number in range(count)))


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run it in a thread, like ``asyncio.to_thread``, whose number of threads is bounded."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(outcome)


async def test_producers_of_several_threads_write_their_own_records(kafka_broker: DevBroker, switching: None) -> None:
    count, records = 4, 400
    for number in range(count):
        kafka_broker.create_topic(f"t{number}", partitions=1)

    async def produce(number: int) -> None:
        options: dict[str, Any] = {"compression_type": ("none", "lz4", "zstd", "gzip")[number], "batch_size": 4_096}
        async with KafkaProducer(kafka_broker.bootstrap_servers, **options) as producer:
            for place in range(records):
                value = b"%d-%d-" % (number, place) * (1 + place % 50)
                await producer.enqueue(f"t{number}", value, key=b"%d" % place, headers=[("thread", b"%d" % number)])
                if place % 40 == 0:
                    await producer.send(f"t{number}", b"lone")

    await in_threads(count, lambda number: asyncio.run(produce(number)))
    for number in range(count):
        found = [record for record in kafka_broker.records(f"t{number}") if record.value != b"lone"]
        wanted = [b"%d-%d-" % (number, place) * (1 + place % 50) for place in range(records)]
        assert [record.value for record in found] == wanted
        assert {record.headers for record in found} == {(("thread", b"%d" % number),)}


async def test_threads_share_a_producer_while_others_have_their_own(kafka_broker: DevBroker, switching: None) -> None:
    """Each way of sending at once: batches that threads compress, serializers in threads, deadlines, lone records."""
    sharing, own, records = 6, 3, 150
    shared_headers = [("shared", b"by all")]
    for topic in ("shared", *(f"own{number}" for number in range(own))):
        kafka_broker.create_topic(topic, partitions=1)

    def value_of(owner: str, place: int) -> bytes:
        length = (10, 300, 9_000, 40_000)[place % 4]
        return f"{owner}:{place}:".encode() + random.Random(place).randbytes(10) * (length // 10)

    def options_of(number: int) -> dict[str, Any]:
        return {
            "compression_type": ("lz4", "zstd", "gzip", "none")[number],
            "batch_size": (65_536, 1_000_000, 16_384, 300_000)[number],
            "value_serializer": bytes,
            "serialize_in_thread_above": 30_000,
        }

    async with KafkaProducer(kafka_broker.bootstrap_servers, **options_of(0)) as producer:

        def send(number: int) -> list[int]:
            futures = [
                producer.send_from_thread("shared", value_of(f"s{number}", place), headers=shared_headers)
                for place in range(records)
            ]
            return [future.result(60).offset for future in futures]

        async def produce(number: int) -> list[int]:
            topic, owner = f"own{number}", f"o{number}"
            async with KafkaProducer(kafka_broker.bootstrap_servers, **options_of(number + 1)) as own_producer:
                async with deadline(100):
                    first = [await own_producer.send(topic, value_of(owner, place)) for place in range(10)]
                later = [
                    own_producer.send(topic, value_of(owner, place), headers=shared_headers)
                    for place in range(10, records)
                ]
                return [metadata.offset for metadata in (*first, *await asyncio.gather(*later))]

        def work(number: int) -> list[int]:
            return send(number) if number < sharing else asyncio.run(produce(number - sharing))

        offsets = await in_threads(sharing + own, work)
        assert producer.metrics()["record-send-total"] == sharing * records
    shared = [record.value for record in kafka_broker.records("shared")]
    assert sorted(offset for each in offsets[:sharing] for offset in each) == list(range(sharing * records))
    for number, told in enumerate(offsets[:sharing]):
        assert told == sorted(told)
        assert [shared[offset] for offset in told] == [value_of(f"s{number}", place) for place in range(records)]
    for number, told in enumerate(offsets[sharing:]):
        assert told == list(range(records))
        found = [record.value for record in kafka_broker.records(f"own{number}")]
        assert found == [value_of(f"o{number}", place) for place in range(records)]


@pytest.mark.parametrize("end", ["flush", "close"])
async def test_a_threads_record_is_waited_for_though_another_was_to_wake_the_loop(
    kafka_broker: DevBroker, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A thread is held before it wakes the loop; the next one finds it being woken."""
    is_held, goes_on = threading.Event(), threading.Event()

    class HeldLoop:
        def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
            is_held.set()
            goes_on.wait(30)
            loop.call_soon_threadsafe(callback)

        def __getattr__(self, name: str) -> Any:
            return getattr(loop, name)

    loop = asyncio.get_running_loop()
    async with KafkaProducer(kafka_broker.bootstrap_servers) as producer:
        await in_thread(lambda: producer.send_from_thread("t", b"first").result(30))
        monkeypatch.setattr(thread_sender_of(producer), "loop", HeldLoop())
        held = asyncio.ensure_future(in_thread(producer.send_from_thread, "t", b"held"))
        await asyncio.to_thread(is_held.wait, 30)
        later = await in_thread(producer.send_from_thread, "t", b"later")
        await getattr(producer, end)()
        assert later.done()
        assert later.result().offset == 2
        goes_on.set()
        assert (await held).result().offset == 1
