"""The least that options may be: everything still arrives, nothing hangs, and an idle producer stays idle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import MetadataTimeoutError
from aiokafkapy.protocol.api import ApiKey

PATIENCE = 20.0
RECORDS = 20
EXTREMES: list[dict[str, Any]] = [
    {"connections_max_idle_ms": 1},
    {"connections_max_idle_ms": 1, "metadata_max_age_ms": 1, "retry_backoff_ms": 1, "reconnect_backoff_ms": 0},
    {"metadata_max_age_ms": 0},
    {"metadata_max_age_ms": 1},
    {"retry_backoff_ms": 0, "retry_backoff_max_ms": 0},
    {"reconnect_backoff_ms": 0, "reconnect_backoff_max_ms": 0},
    {"metadata_recovery_rebootstrap_trigger_ms": 0},
    {"partitioner_availability_timeout_ms": 1},
    {"batch_size": 0},
    {"buffer_memory": 200, "max_request_size": 200},
    {"send_buffer_bytes": 1, "receive_buffer_bytes": 1},
    {"receive_message_max_bytes": 1_000},
]


@pytest.mark.parametrize("options", EXTREMES, ids=lambda options: " ".join(options))
async def test_the_least_of_an_option_loses_nothing(options: dict[str, Any]) -> None:
    async with DevBroker() as broker, asyncio.timeout(PATIENCE):
        broker.create_topic("t", partitions=2)
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await asyncio.gather(*(producer.send("t", b"%d" % n, partition=n % 2) for n in range(RECORDS)))
            broker.controls.stop_node(1)
            waiting = asyncio.ensure_future(producer.send("t", b"in the outage", partition=0))
            await asyncio.wait([waiting], timeout=0.05)
            broker.controls.start_node(1)
            await waiting
        values = [record.value or b"" for partition in (0, 1) for record in broker.records("t", partition)]
        assert sorted(values) == sorted([b"in the outage", *(b"%d" % n for n in range(RECORDS))])


async def test_metadata_that_is_never_new_enough_is_asked_for_at_the_pace_of_the_back_off() -> None:
    async with (
        DevBroker() as broker,
        KafkaProducer(broker.bootstrap_servers, metadata_max_age_ms=0, retry_backoff_ms=50) as producer,
    ):
        await producer.send("t", b"value")
        before = broker.controls.request_count(ApiKey.METADATA)
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(0.4)
        passed = asyncio.get_running_loop().time() - started
        assert 1 <= broker.controls.request_count(ApiKey.METADATA) - before <= passed / (0.8 * 0.05) + 1


async def test_records_that_gather_for_longer_than_anybody_waits_go_with_a_flush() -> None:
    async with DevBroker() as broker, asyncio.timeout(PATIENCE):
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=2**31) as producer:
            flushed = await producer.enqueue("t", b"flushed")
            await producer.flush()
            assert flushed.done()
            await producer.enqueue("t", b"closed")
        assert {record.value for record in broker.records("t", 0)} == {b"flushed", b"closed"}


async def test_an_answer_over_the_limit_is_told_with_the_option() -> None:
    async with DevBroker() as broker, asyncio.timeout(PATIENCE):
        broker.create_topic("wide", partitions=200)
        async with KafkaProducer(broker.bootstrap_servers, receive_message_max_bytes=1_000, max_block_ms=500) as small:
            with pytest.raises(MetadataTimeoutError, match=r"the limit is 1000 \(receive_message_max_bytes\)"):
                await small.send("wide", b"v")
