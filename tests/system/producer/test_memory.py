"""Promise 6, over real sockets: memory has a hard bound, and waiting sends are served in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from tests.waiting import until


class TestMemory:
    """Promise 6: a hard bound, first come first served, linear."""

    async def test_buffer_memory_is_a_hard_bound_and_the_error_says_so(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {
            "buffer_memory": 50_000,
            "max_request_size": 10_000,
            "batch_size": 5_000,
            "max_block_ms": 1_000,
        }
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first")
            broker.controls.stall_connections()
            with pytest.raises(errors.BufferExhaustedError):
                for _ in range(100):
                    producer.send_nowait("t", b"x" * 1000)
            tasks = [asyncio.create_task(producer.send("t", b"x" * 1000)) for _ in range(50)]
            await until(lambda: producer.statistics().waiters == 50)
            assert producer.statistics().buffered_bytes <= 50_000
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, errors.BufferExhaustedError) for outcome in outcomes)
            assert "50000" in str(outcomes[0])
            assert "max_block_ms=1000" in str(outcomes[0])
            broker.controls.clear()
            await producer.send("t", b"last")
