"""Promise 5, over real sockets: cancelled calls leave nothing behind, and take nothing back."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.servers.ports import free_port
from tests.system.producer.observing import assert_accounts, numbered, our_tasks, values
from tests.waiting import until


class TestCancellation:
    """Promise 5."""

    async def test_cancelled_before_it_is_accepted_a_record_is_never_sent(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {
            "buffer_memory": 4_000,
            "max_request_size": 2_000,
            "batch_size": 1_000,
            "linger_ms": 0,
        }
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first")
            broker.controls.stall_connections()
            tasks = [asyncio.create_task(producer.send("t", value + b"x" * 500)) for value in numbered(12)]
            await until(lambda: producer.statistics().waiters > 3)
            accepted = producer.statistics().accepted - 1
            for task in tasks[accepted::2]:
                task.cancel()
            broker.controls.stall_connections(False)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            expected = [b"%06d" % n for n in range(12) if n < accepted or (n - accepted) % 2]
            assert [isinstance(outcome, RecordMetadata) for outcome in outcomes].count(True) == len(expected)
            assert producer.statistics().waiters == 0
            assert_accounts(producer)
        assert [value[:6] for value in values(broker, "t")[1:] if value] == expected

    async def test_cancelled_while_it_waits_for_metadata_a_record_is_never_sent(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            tasks = [asyncio.create_task(producer.send("t", value, partition=0)) for value in numbered(10)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert values(broker, "t") == numbered(10)[1::2]

    async def test_cancelled_afterwards_it_is_delivered_and_nobody_complains(
        self, broker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.create_topic("t", partitions=1)
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            broker.controls.delay(ApiKey.PRODUCE, 0.05)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", b"x"), 0.01)
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", b"refused"), 0.01)
            await producer.flush()
            numbers = producer.statistics()
            assert (numbers.accepted, numbers.delivered, numbers.failed) == (3, 2, 1)
        gc.collect()
        assert complaints == []
        assert values(broker, "t") == [b"first", b"x"]

    async def test_a_task_group_with_one_failing_record_leaves_the_others_delivered(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    for value in numbered(100):
                        group.create_task(producer.send("t", value))
                    group.create_task(producer.send("t", b"x" * 2_000_000))
            await producer.flush()
            assert_accounts(producer)
        assert values(broker, "t") == [b"first", *numbered(100)]

    async def test_cancelling_close_closes_at_once(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        delivery = await producer.enqueue("t", b"y")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert delivery.done()
        await until(lambda: not our_tasks())
        broker.controls.clear()

    async def test_cancelling_start_leaves_nothing_behind(self) -> None:
        producer = KafkaProducer(f"127.0.0.1:{free_port()}")
        starting = asyncio.create_task(producer.start())
        await asyncio.sleep(0.02)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert our_tasks() == set()
        assert producer.state.value == "new"
