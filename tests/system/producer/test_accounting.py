"""Promise 1, over real sockets: accepted = delivered + failed, under all faults."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.inside import runtime_of
from tests.system.producer.observing import assert_accounts, our_tasks, values


class TestAccounting:
    """Promise 1: accepted = delivered + failed, under all faults, and no future is left pending."""

    async def test_numbers_agree_when_some_records_fail(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await producer.send("t", b"0")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
            with pytest.raises(errors.TopicAuthorizationFailedError):
                await producer.send("t", b"1")
            await producer.send("t", b"2")
            assert_accounts(producer)
            numbers = producer.statistics()
            assert (numbers.accepted, numbers.delivered, numbers.failed) == (3, 2, 1)
        assert values(broker, "t") == [b"0", b"2"]

    async def test_a_sender_that_dies_fails_everything_and_later_calls_raise(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        deliveries = [await producer.enqueue("t", b"y") for _ in range(100)]
        waiting = asyncio.create_task(producer.send("unknown", b"z"))
        await asyncio.sleep(0)
        (sender,) = [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-sender"]
        sender.cancel()
        for outcome in await asyncio.gather(*deliveries, waiting, return_exceptions=True):
            assert isinstance(outcome, errors.SenderCrashedError)
        with pytest.raises(errors.SenderCrashedError):
            await producer.send("t", b"more")
        with pytest.raises(errors.SenderCrashedError):
            await producer.flush()
        assert producer.health.state == "crashed"
        assert_accounts(producer)
        await producer.close()
        assert our_tasks() == set()

    async def test_a_sender_that_dies_ends_a_send_many_that_goes_on(self, broker: DevBroker) -> None:
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

    async def test_a_bug_in_the_sender_is_the_cause_of_every_error(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
            runtime = runtime_of(producer)
            runtime.sender.run_once = lambda now: 1 / 0
            with pytest.raises(errors.SenderCrashedError) as caught:
                await producer.send("t", b"y")
            assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_the_end_of_asyncio_run_leaves_no_future_pending(self) -> None:
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
