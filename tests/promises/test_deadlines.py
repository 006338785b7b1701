"""Promises 2 and 5, for calls with their own deadlines: ``deadline()`` is the time of the records that are sent in it,
and with ``cancel_takes_back`` a cancelled call leaves nothing behind that was not sent.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, deadline, errors
from aiokafkapy.integrations.asgi import DeadlineMiddleware
from tests.waiting import until

from .observing import assert_accounts_balance
from .proxied_clusters import Cluster

HELD: dict[str, Any] = {"linger_ms": 9_000}
"""Nothing leaves by itself."""


async def test_records_that_were_not_sent_leave_with_the_block_and_others_stay(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**HELD) as producer:
        kept = await producer.enqueue(topic, b"kept", partition=0)
        with pytest.raises(errors.DeliveryTimeoutError, match=r"deadline\(\)\): not sent") as caught:
            async with deadline(0.05):
                await producer.send(topic, b"late", partition=0)
        assert not caught.value.outcome_unknown
        assert not kept.done()
        later = await producer.enqueue(topic, b"later", partition=0)
        await producer.flush()
        assert (kept.result().offset, later.result().offset) == (0, 1)
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"kept", b"later"]


async def test_a_record_in_a_request_is_protected_and_the_error_says_so(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=0) as producer:
        await producer.send(topic, b"first", partition=0)
        cluster.net.stall()
        with pytest.raises(errors.DeliveryTimeoutError) as caught:
            async with deadline(0.1):
                await producer.send(topic, b"second", partition=0)
        assert caught.value.outcome_unknown
        cluster.net.resume()
        await producer.send(topic, b"third", partition=0)
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().failed == 0
    assert await cluster.log(topic) == [b"first", b"second", b"third"]


async def test_records_of_a_request_that_was_answered_in_time_are_not_lost_with_it(cluster: Cluster) -> None:
    """Records of any call that nobody awaits, also of a synchronous route's thread; no broker takes them meanwhile."""
    topic = await cluster.create_topic()

    async with cluster.producer(**HELD) as producer:

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await producer.enqueue(topic, b"enqueue", partition=0)
            producer.send_nowait(topic, b"nowait", partition=0)
            await asyncio.to_thread(producer.send_from_thread, topic, b"thread", partition=0)
            await until(lambda: producer.statistics().pending == 3)  # it has crossed
            await send({"type": "http.response.start", "status": 202, "headers": []})
            await producer.enqueue(topic, b"after the answer", partition=0)

        async def send(message: Any) -> None:
            pass

        await DeadlineMiddleware(app, 0.2)({"type": "http", "headers": []}, None, send)
        await asyncio.sleep(0.3)
        await producer.flush()
        assert producer.statistics().failed == 0
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"enqueue", b"nowait", b"thread", b"after the answer"]


async def test_every_way_of_sending_inherits_it_in_tasks_and_threads_too(cluster: Cluster) -> None:
    # Each has a partition of its own: the rest of a batch that loses records is sent at once, and they begin in turn.
    ways = (_send, _enqueue, _nowait, _in_tasks, _from_thread)
    topic = await cluster.create_topic(len(ways))
    async with cluster.producer(**HELD) as producer:
        await producer.partitions_for(topic)
        await asyncio.to_thread(int)  # there is a thread
        outcomes: list[Any] = []
        async with asyncio.TaskGroup() as users:
            for partition, way in enumerate(ways):
                users.create_task(_within(0.5, way(producer, topic, partition), outcomes))
        assert len(outcomes) == 5
        assert sum(isinstance(error, errors.DeliveryTimeoutError) for error in outcomes) >= 3
        assert sum(isinstance(error, ExceptionGroup) for error in outcomes) == 1
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().accepted == 6
    assert await cluster.values(topic) == {partition: [] for partition in range(len(ways))}


async def test_a_record_that_crosses_late_from_a_thread_has_no_more_time_than_the_block(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**HELD) as producer:
        await producer.partitions_for(topic)
        sent: list[concurrent.futures.Future[RecordMetadata]] = []

        def send() -> None:
            sent.append(producer.send_from_thread(topic, b"late", partition=0))

        with pytest.raises(TimeoutError):
            async with deadline(0.1):
                thread = threading.Thread(target=contextvars.copy_context().run, args=(send,))
                thread.start()
                thread.join()
                # The loop stands still, and the record waits to be taken by it.
                time.sleep(0.2)  # noqa: ASYNC251
                await asyncio.sleep(10)
        with pytest.raises(errors.DeliveryTimeoutError, match=r"deadline\(\) of this call is over: not sent"):
            sent[0].result(0)
        assert producer.statistics().accepted == 0
    assert await cluster.log(topic) == []


@pytest.mark.parametrize("is_plain", [True, False])
async def test_the_records_of_send_many_inherit_it(cluster: Cluster, is_plain: bool) -> None:
    topic = await cluster.create_topic()
    values = [b"%d" % number for number in range(500)]
    given = values if is_plain else [ProducerRecord(topic, value, key=value, partition=0) for value in values]
    async with cluster.producer(**HELD) as producer:
        await producer.partitions_for(topic)
        with pytest.raises(TimeoutError):
            async with deadline(0.2):
                await producer.send_many(topic, given)
        assert_accounts_balance(producer, settled=True)
        assert producer.statistics().failed == producer.statistics().accepted > 0
    assert await cluster.log(topic) == []


async def test_a_call_after_the_time_is_refused_and_nothing_of_it_is_sent(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=0) as producer:
        await producer.partitions_for(topic)
        with pytest.raises(TimeoutError):
            async with deadline(0.02):
                try:
                    await asyncio.Event().wait()
                finally:
                    with pytest.raises(errors.DeliveryTimeoutError, match="is over: not sent"):
                        producer.send_nowait(topic, b"too late", partition=0)
                    async with deadline(None):
                        await producer.send(topic, b"audit", partition=0)
        assert producer.statistics().accepted == 1
    assert await cluster.log(topic) == [b"audit"]


async def test_a_cancelled_call_takes_its_record_back_and_says_so(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**HELD, cancel_takes_back=True) as producer:
        kept = await producer.enqueue(topic, b"kept", partition=0)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.05):
                await producer.send(topic, b"cancelled", partition=0)
        cause: Any = caught.value.__context__
        assert cause.outcome_unknown is False
        assert cause.__notes__ == ["1 record taken back: not sent"]
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.2):
                await producer.send_many(topic, [b"%d" % number for number in range(100)])
        assert "100 records taken back" in caught.value.__context__.__notes__[0]  # type: ignore[union-attr]
        await producer.flush()
        assert kept.result().offset == 0
        assert_accounts_balance(producer, settled=True)
        assert producer.metrics()["record-error-total"] == 101
    assert await cluster.log(topic) == [b"kept"]


async def test_a_cancelled_call_whose_record_is_in_a_request_leaves_it_there_and_says_so(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(linger_ms=0, cancel_takes_back=True) as producer:
        await producer.send(topic, b"first", partition=0)
        cluster.net.stall()
        before = producer.statistics().delivered
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.1):
                await producer.send(topic, b"second", partition=0)
        cause: Any = caught.value.__context__
        assert cause.outcome_unknown is True
        assert "delivery goes on" in cause.__notes__[0]
        cluster.net.resume()
        await producer.flush()
        assert producer.statistics().delivered == before + 1
        assert_accounts_balance(producer, settled=True)
    assert await cluster.log(topic) == [b"first", b"second"]


async def test_without_the_option_a_cancelled_call_leaves_its_record_on_its_way(cluster: Cluster) -> None:
    topic = await cluster.create_topic()
    async with cluster.producer(**HELD) as producer:
        await producer.partitions_for(topic)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.05):
                await producer.send(topic, b"goes on", partition=0)
        assert not hasattr(caught.value.__context__, "__notes__")
        await producer.flush()
    assert await cluster.log(topic) == [b"goes on"]


async def _within(seconds: float, sending: Any, outcomes: list[Any]) -> None:
    try:
        async with deadline(seconds):
            await sending
    except (TimeoutError, ExceptionGroup) as error:
        outcomes.append(error)


async def _send(producer: KafkaProducer, topic: str, partition: int) -> None:
    await asyncio.create_task(producer.send(topic, b"send", partition=partition))


async def _in_tasks(producer: KafkaProducer, topic: str, partition: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(producer.send(topic, b"in a task", partition=partition))


async def _enqueue(producer: KafkaProducer, topic: str, partition: int) -> None:
    await (await producer.enqueue(topic, b"enqueue", partition=partition))


async def _nowait(producer: KafkaProducer, topic: str, partition: int) -> None:
    await producer.send_nowait(topic, b"nowait", partition=partition)


async def _from_thread(producer: KafkaProducer, topic: str, partition: int) -> None:
    sent = await asyncio.to_thread(producer.send_from_thread, topic, b"thread", partition=partition)
    error = await asyncio.to_thread(sent.exception, 10)
    assert error is not None
    raise error
