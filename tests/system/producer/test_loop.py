"""Promise 7, over real sockets: others run."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import freezegun
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from tests.system.producer.observing import numbered, values


class TestLoop:
    """Promise 7: others run."""

    @pytest.mark.alone
    async def test_a_tight_enqueue_loop_starves_nobody(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            gaps: list[float] = []

            async def heartbeat() -> None:
                while True:
                    started = time.perf_counter()
                    await asyncio.sleep(0.001)
                    gaps.append(time.perf_counter() - started)

            beating = asyncio.create_task(heartbeat())
            for _ in range(200_000):
                await producer.enqueue("t", b"x" * 100)
            await producer.flush()
            beating.cancel()
        # The dev broker shares the loop and the machine is shared too: the bound is not the promise's.
        assert sorted(gaps)[len(gaps) // 2] < 0.03
        assert len(gaps) >= 5

    def test_used_from_another_loop_or_outside_it_raises_at_once(self, caplog: pytest.LogCaptureFixture) -> None:
        async def start() -> tuple[DevBroker, KafkaProducer[bytes, bytes]]:
            broker = DevBroker()
            await broker.start()
            producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
            await producer.start()
            return broker, producer

        async def use(producer: KafkaProducer[bytes, bytes]) -> None:
            with pytest.raises(errors.WrongEventLoopError):
                await producer.send("t", b"x")
            with pytest.raises(errors.WrongEventLoopError):
                await producer.close()

        with asyncio.Runner() as runner:
            broker, producer = runner.run(start())
            with pytest.raises(errors.WrongEventLoopError, match="outside of any event loop"):
                producer.send_nowait("t", b"x")
            with asyncio.Runner() as other:
                other.run(use(producer))
            runner.run(producer.close())
            runner.run(broker.stop())

    async def test_threads_that_are_all_busy_hold_up_no_metadata(self, broker: DevBroker) -> None:
        """A user's own blocking calls, in the loop's default executor. The answer is a large one."""
        broker.create_topic("large", partitions=1000)
        is_over = threading.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        blocking = asyncio.ensure_future(asyncio.to_thread(is_over.wait))
        try:
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                assert (await asyncio.wait_for(producer.send("large", b"x", partition=7), 20)).partition == 7
        finally:
            is_over.set()
            await blocking

    @pytest.mark.parametrize("real_asyncio", [True, False])
    async def test_it_works_while_time_is_frozen(self, broker: DevBroker, real_asyncio: bool) -> None:
        broker.create_topic("t", partitions=1)
        with freezegun.freeze_time("2024-01-02 03:04:05", real_asyncio=real_asyncio):
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                metadata = await producer.send("t", b"x")
                await producer.send_many("t", numbered(100))
                await producer.flush()
        assert metadata.timestamp_ms == 1_704_164_645_000
        assert len(values(broker, "t")) == 101
