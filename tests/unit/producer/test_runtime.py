"""One life of a producer, with nobody at the other end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from aiokafkapy.errors import (
    CloseTimeoutError,
    DeliveryTimeoutError,
    FlushTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
    SenderCrashedError,
)
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.intake.record_deadlines import Accepted
from aiokafkapy.producer.runtime import ProducerRuntime
from aiokafkapy.testing.servers.ports import free_port

from .sender_fakes import cluster_of


@pytest.fixture
async def runtime() -> AsyncIterator[ProducerRuntime]:
    config = ProducerConfig(bootstrap_servers=f"127.0.0.1:{free_port()}", max_block_ms=100)
    runtime = ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())
    yield runtime
    await runtime.close(-math.inf)


def append(runtime: ProducerRuntime, partition: int = 0) -> Delivery:
    cluster = cluster_of({"t": [-1, -1]})
    delivery = runtime.accumulator.appender.append("t", partition, 1, None, b"x", None, runtime.now(), cluster)
    assert delivery is not None
    return delivery


def new_record(runtime: ProducerRuntime, value: bytes) -> PendingRecord:
    return PendingRecord(runtime.admission, "t", None, value, 0, 1, None, loop=runtime.loop)


async def test_without_a_broker_it_says_which_addresses_failed(runtime: ProducerRuntime) -> None:
    with pytest.raises(MetadataTimeoutError, match=r"max_block_ms=100: .*127\.0\.0\.1:\d+"):
        await runtime.wait_until_connected()
    with pytest.raises(MetadataTimeoutError, match="topic 't'"):
        await runtime.partitions_for("t")


async def test_a_fatal_error_ends_the_wait_at_once(runtime: ProducerRuntime) -> None:
    waiting = asyncio.gather(runtime.wait_until_connected(), runtime.partitions_for("t"), return_exceptions=True)
    await asyncio.sleep(0)
    runtime.metadata.set_fatal_error(KafkaError("credentials"))
    assert [str(outcome) for outcome in await waiting] == ["credentials", "credentials"]


async def test_closing_ends_the_wait(runtime: ProducerRuntime) -> None:
    waiting = asyncio.create_task(runtime.wait_until_connected())
    await asyncio.sleep(0)
    await runtime.close(runtime.now())
    with pytest.raises(ProducerClosedError):
        await waiting


async def test_flush_keeps_its_deadline_and_names_the_pending_records(runtime: ProducerRuntime) -> None:
    delivery = append(runtime)
    append(runtime, 1)
    append(runtime, 1)
    with pytest.raises(FlushTimeoutError, match=r"3 records without an outcome \(t-0: 1, t-1: 2\)"):
        await runtime.flush(runtime.now() + 0.01)
    assert not delivery.done()
    assert not runtime.accumulator.ready(cluster_of({"t": [1, 1]}), runtime.now(), {}).ready_nodes


async def test_flush_with_nothing_to_do_returns(runtime: ProducerRuntime) -> None:
    await runtime.flush(math.inf)


async def test_overdue_records_all_expire_though_one_of_them_is_refused_meanwhile(runtime: ProducerRuntime) -> None:
    """The end of the first lets in those behind it, and only then one turns out to be too large."""
    runtime.metadata.cluster = cluster_of({"t": [-1, -1]})
    too_large = b"x" * (runtime.config.max_request_size + 1)
    slow, refused, let_in = (new_record(runtime, value) for value in (b"x", too_large, b"x"))
    slow.is_serialized = False
    for record in (slow, refused, let_in):
        runtime.admission.enter(record, runtime.now())
    appended = append(runtime)
    deadline = runtime.now() + 60
    overdue: list[Accepted] = [slow, refused, let_in, appended]
    for each in overdue:
        runtime.deadlines.add(each, deadline)
    runtime.deadlines.expire_until(deadline)
    assert isinstance(slow.exception(), DeliveryTimeoutError)
    assert isinstance(refused.exception(), RecordTooLargeError)
    assert isinstance(let_in.result().exception(), DeliveryTimeoutError)
    assert isinstance(appended.exception(), DeliveryTimeoutError)


async def test_close_fails_the_rest_with_place_and_count(runtime: ProducerRuntime) -> None:
    first, second = append(runtime, 1), append(runtime, 1)
    await asyncio.gather(runtime.close(runtime.now() + 0.01), runtime.close(math.inf))
    error = first.exception()
    assert isinstance(error, CloseTimeoutError)
    assert "t-1: close() ended after" in str(error)
    assert "2 records of this partition" in str(error)
    assert (error.topic, error.partition) == ("t", 1)
    assert second.done()
    assert runtime.sender_task.done()
    assert not runtime.is_bound


async def test_being_cancelled_while_closing_closes_at_once(runtime: ProducerRuntime) -> None:
    delivery = append(runtime)
    closing = asyncio.create_task(runtime.close(math.inf))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert delivery.done()


async def test_the_sender_s_death_fails_everything_with_its_cause(runtime: ProducerRuntime) -> None:
    delivery = append(runtime)
    nothing: dict[str, float] = {}
    runtime.sender.run_once = lambda now: nothing["bug"]  # type: ignore[method-assign]
    runtime.sender.wakeup()
    await asyncio.wait([runtime.sender_task])
    error = delivery.exception()
    assert isinstance(error, SenderCrashedError)
    assert isinstance(error.__cause__, KeyError)
    assert runtime.crash is not None
    assert "KeyError" in str(runtime.crash)
    assert not runtime.is_bound


async def test_a_sender_that_is_cancelled_before_it_began_is_dead_too(runtime: ProducerRuntime) -> None:
    delivery = append(runtime)
    runtime.sender_task.cancel()
    await asyncio.wait([runtime.sender_task])
    await asyncio.sleep(0)
    assert isinstance(delivery.exception(), SenderCrashedError)
    assert not runtime.is_bound


async def test_aborting_says_that_nobody_closed_it(runtime: ProducerRuntime) -> None:
    delivery = append(runtime)
    runtime.abort()
    runtime.abort()
    assert "dropped without close()" in str(delivery.exception())
