"""Start, stop, fork, and being forgotten."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.inside import runtime_of
from tests.producers import numbered, our_tasks, values
from tests.waiting import until


class TestLife:
    """Start, stop, fork, and being forgotten."""

    async def test_before_start_and_after_close_calls_raise(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        with pytest.raises(errors.ProducerNotStartedError):
            await producer.send("t", b"x")
        await producer.start()
        await producer.start()
        await asyncio.gather(producer.close(), producer.close(timeout=1))
        await producer.close()
        with pytest.raises(errors.ProducerClosedError):
            await producer.send("t", b"x")
        with pytest.raises(errors.ProducerClosedError):
            await producer.start()

    async def test_close_before_start_is_legal(self) -> None:
        producer = KafkaProducer("127.0.0.1:1")
        await producer.close()
        await producer.close()

    async def test_close_delivers_accepted_records(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=1000) as producer:
            deliveries = [await producer.enqueue("t", value) for value in numbered(5000)]
        assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)
        assert values(broker, "t") == numbered(5000)
        assert our_tasks() == set()

    async def test_dropped_without_close_there_is_one_resource_warning(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] | None = KafkaProducer(broker.bootstrap_servers)
        assert producer is not None
        await producer.start()
        await producer.send("t", b"x")
        with pytest.warns(ResourceWarning, match="unclosed") as caught:  # noqa: PT031
            producer = None
            gc.collect()
            await until(lambda: not our_tasks())
            gc.collect()
        assert len(caught) == 1

    async def test_used_after_fork_it_raises_at_once(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            unstarted = KafkaProducer(broker.bootstrap_servers)
            await producer.send("t", b"x")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                code = 1
                try:
                    try:
                        producer.send_nowait("t", b"x")
                    except errors.ForkedProducerError:
                        code = 0 if unstarted.state.value == "new" else 2
                finally:
                    os._exit(code)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            # The parent's connection is unharmed.
            await producer.send("t", b"y")

    @pytest.mark.parametrize("is_started", [False, True])
    async def test_tasks_that_end_in_the_child_of_a_fork_leave_the_parent_its_connections(
        self, broker: DevBroker, is_started: bool
    ) -> None:
        """``asyncio.run`` ends the tasks so, when the child leaves it by ``sys.exit()``."""
        broker.create_topic("t", partitions=1)
        broker.controls.delay(ApiKey.METADATA, seconds=0.1)
        producer = KafkaProducer(broker.bootstrap_servers)
        starting = asyncio.create_task(producer.start())
        await until(lambda: broker.controls.request_count(ApiKey.METADATA) > 0)
        if is_started:
            await starting
        runtime = runtime_of(producer)
        tasks = [runtime.sender_task] if is_started else [starting, runtime.sender_task]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            ended = 0
            try:
                for task in tasks:
                    try:
                        task.get_coro().throw(asyncio.CancelledError())
                    except asyncio.CancelledError:
                        ended += 1
                if producer.state.value != "forked" or not runtime.client.is_active:
                    ended = -1
            finally:
                os._exit(len(tasks) - ended)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await starting
        await producer.send("t", b"x")
        await producer.close()
