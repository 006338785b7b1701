"""Calls that wait for metadata: the end of their wait, and its error."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.cluster.cluster import Cluster
from aiokafkapy.errors import (
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.metadata_waits import MetadataWaits

from .intake_harness import IntakeRuntime
from .sender_fakes import NODES


@pytest.fixture
async def runtime() -> IntakeRuntime:
    return IntakeRuntime()


def waits_of(runtime: IntakeRuntime, max_block_ms: int = 60_000) -> MetadataWaits:
    config = ProducerConfig(bootstrap_servers="h:1", max_block_ms=max_block_ms)
    return MetadataWaits(config, runtime.metadata, runtime.admission, runtime.loop, runtime.calls)


def new_record(runtime: IntakeRuntime, topic: str) -> PendingRecord:
    return PendingRecord(runtime.admission, topic, None, b"x", None, 1, None, loop=runtime.loop)


async def test_partitions_that_are_known_are_not_waited_for(runtime: IntakeRuntime) -> None:
    partitions = await waits_of(runtime).partitions_for("orders")
    assert [part.partition for part in partitions] == [0, 1, 2, 3, 4, 5]


async def test_a_new_topic_is_waited_for_over_answers_that_do_not_have_it(runtime: IntakeRuntime) -> None:
    waits = waits_of(runtime)
    waiting = asyncio.create_task(waits.partitions_for("new"))
    await asyncio.sleep(0)
    assert runtime.metadata.retain_topic("new", is_internal=False, now=runtime.now())
    waits.wake()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    runtime.learn({"new": 2})
    waits.wake()
    assert len(await waiting) == 2
    assert runtime.calls.snapshot(runtime.now())["metadata-wait-time-ns-total"] > 0


async def test_a_topic_that_does_not_come_is_named_with_the_limit_and_not_asked_for_again(
    runtime: IntakeRuntime,
) -> None:
    with pytest.raises(MetadataTimeoutError, match=r"topic 'new': no metadata within max_block_ms=5"):
        await waits_of(runtime, max_block_ms=5).partitions_for("new")
    assert not runtime.metadata.retain_topic("new", is_internal=False, now=runtime.now())


async def test_a_topic_is_asked_for_while_anything_waits_for_it(runtime: IntakeRuntime) -> None:
    """Whichever of them gives up first: a record, or one of two calls."""

    def is_asked_for() -> bool:
        return runtime.metadata.retain_topic("new", is_internal=False, now=runtime.now())

    patient = asyncio.create_task(waits_of(runtime).partitions_for("new"))
    await asyncio.sleep(0)
    with pytest.raises(MetadataTimeoutError):
        await waits_of(runtime, max_block_ms=5).partitions_for("new")
    assert is_asked_for()
    record = new_record(runtime, "new")
    runtime.admission.enter(record, runtime.now())
    runtime.admission.expire(record)
    assert isinstance(record.exception(), MetadataTimeoutError)
    assert is_asked_for()
    patient.cancel()
    await asyncio.wait([patient])
    record = new_record(runtime, "new")
    runtime.admission.enter(record, runtime.now())
    with pytest.raises(MetadataTimeoutError):
        await waits_of(runtime, max_block_ms=5).partitions_for("new")
    assert is_asked_for()
    runtime.admission.expire(record)
    assert not is_asked_for()
    runtime.end()


async def test_a_topic_without_rights_is_asked_for_once_more_before_it_is_refused(runtime: IntakeRuntime) -> None:
    waits = waits_of(runtime)
    runtime.metadata.cluster = Cluster(NODES, {}, unauthorized_topics=frozenset({"secret"}))
    waiting = asyncio.create_task(waits.partitions_for("secret"))
    await asyncio.sleep(0)
    assert runtime.metadata.need_partial_update
    waits.wake()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    runtime.metadata.update_version += 1  # the answer to that request
    waits.wake()
    with pytest.raises(TopicAuthorizationFailedError, match="'secret'"):
        await waiting


async def test_refused_credentials_end_every_wait_with_an_error_of_its_own(runtime: IntakeRuntime) -> None:
    waits = waits_of(runtime)
    waiting = [asyncio.create_task(waits.partitions_for("new")) for _ in range(2)]
    await asyncio.sleep(0)
    runtime.metadata.set_fatal_error(KafkaError("credentials"))
    waits.wake()
    first, second = await asyncio.gather(*waiting, return_exceptions=True)
    assert str(first) == str(second) == "credentials"
    assert first is not second


async def test_closed_no_call_waits_any_more(runtime: IntakeRuntime) -> None:
    waits = waits_of(runtime)
    waiting = asyncio.create_task(waits.refreshed())
    await asyncio.sleep(0)
    assert runtime.metadata.need_full_update
    waits.close()
    with pytest.raises(ProducerClosedError):
        await waiting


async def test_a_wait_whose_time_is_over_leaves_nothing_behind(runtime: IntakeRuntime) -> None:
    waits = waits_of(runtime)
    assert not await waits.change(runtime.now())
    assert waits._waiters == []
