"""The producer on three real nodes: leaders killed, replicas missing, topics late."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.testing import ApacheKafka
from tests.oracle import read_back

pytestmark = pytest.mark.kafka

RECORDS = 60_000
WORKERS = 200


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


async def test_killing_the_leader_under_awaited_sends_loses_and_repeats_nothing(kafka3: ApacheKafka) -> None:
    topic = unique("killed")
    await kafka3.create_topic(topic, partitions=6, replication_factor=3, config={"min.insync.replicas": "2"})
    acknowledged: dict[tuple[int, int], bytes] = {}
    failures: list[BaseException] = []
    tenth = asyncio.Event()

    async def worker(number: int, producer: KafkaProducer) -> None:
        key = f"worker-{number}".encode()
        for n in range(RECORDS // WORKERS):
            value = f"{number}:{n}".encode()
            try:
                metadata = await producer.send(topic, value, key=key)
            except errors.KafkaError as error:
                failures.append(error)
            else:
                acknowledged[metadata.partition, metadata.offset] = value
            if len(acknowledged) >= RECORDS // 10:
                tenth.set()

    async with KafkaProducer(kafka3.bootstrap_servers) as producer:
        workers = [asyncio.create_task(worker(number, producer)) for number in range(WORKERS)]
        await tenth.wait()
        victim = (await producer.partitions_for(topic))[0].leader
        kafka3.kill(victim)
        assert len(acknowledged) < RECORDS, "the kill came too late to test anything"
        await kafka3.start(victim)
        await asyncio.gather(*workers)

    assert failures == []
    assert len(acknowledged) == RECORDS
    logs = await read_back(kafka3.bootstrap_servers, topic)
    on_broker = {(p, r.offset): r.value for p, records in logs.items() for r in records}
    assert on_broker == acknowledged, "lost, repeated, or acknowledged with another offset"
    by_key: dict[bytes, list[bytes]] = defaultdict(list)
    for records in logs.values():
        for record in records:
            assert record.key is not None
            assert record.value is not None
            by_key[record.key].append(record.value)
    for number in range(WORKERS):
        assert by_key[f"worker-{number}".encode()] == [f"{number}:{n}".encode() for n in range(RECORDS // WORKERS)]


async def test_a_topic_made_300_ms_after_the_first_send_is_written_to(kafka3: ApacheKafka) -> None:
    """These nodes do not create topics by themselves."""
    topic = unique("late")
    async with KafkaProducer(kafka3.bootstrap_servers) as producer:
        sends = [asyncio.create_task(producer.send(topic, str(n).encode(), partition=0)) for n in range(10)]
        await asyncio.wait(sends, timeout=0.3)
        assert not any(send.done() for send in sends)
        await kafka3.create_topic(topic, partitions=1, replication_factor=3)
        results = await asyncio.wait_for(asyncio.gather(*sends), 10)
    assert [r.offset for r in results] == list(range(10))


async def test_a_topic_that_never_comes_is_named_as_unknown(kafka3: ApacheKafka) -> None:
    async with KafkaProducer(kafka3.bootstrap_servers, max_block_ms=700) as producer:
        with pytest.raises(
            errors.MetadataTimeoutError, match=r"never-.*(UNKNOWN_TOPIC|unknown|does not exist|not host)"
        ):
            await producer.send(unique("never"), b"a")


async def test_missing_replicas_are_the_cause_of_the_time_out_and_pass_when_they_are_back(kafka3: ApacheKafka) -> None:
    topic = unique("replicated")
    await kafka3.create_topic(topic, partitions=1, replication_factor=3, config={"min.insync.replicas": "3"})
    async with KafkaProducer(
        kafka3.bootstrap_servers, request_timeout_ms=2_000, delivery_timeout_ms=3_000, linger_ms=0
    ) as producer:
        assert (await producer.send(topic, b"all there")).offset == 0
        leader = (await producer.partitions_for(topic))[0].leader
        follower = next(node for node in (1, 2, 3) if node != leader)
        await kafka3.stop(follower)
        with pytest.raises(errors.DeliveryTimeoutError, match=r"(?i)not.?enough.?replicas|insync|in-sync"):
            await producer.send(topic, b"one missing")
        await kafka3.start(follower)
        for _ in range(20):  # the follower has to catch up before it counts
            try:
                metadata = await producer.send(topic, b"back again")
                break
            except errors.DeliveryTimeoutError:
                continue
        assert metadata.offset >= 1
    values = [r.value for r in (await read_back(kafka3.bootstrap_servers, topic))[0]]
    assert values == [b"all there", b"back again"]
