"""The spool on a real node that is stopped and started: everything there, in order, once."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer, RecordMetadata
from aiokafkapy.testing import ApacheKafka
from tests.oracle import read_back

pytestmark = pytest.mark.kafka

RECORDS = 20_000
KEYS = 20


async def test_an_outage_and_a_restart_lose_and_repeat_nothing(kafka: ApacheKafka, tmp_path: Path) -> None:
    topic = f"spooled-{uuid.uuid4().hex[:8]}"
    await kafka.create_topic(topic, partitions=3)
    node_id = kafka.node_ids[0]
    acknowledged: dict[bytes, list[bytes]] = {b"%d" % key: [] for key in range(KEYS)}
    spooled = 0

    def producer() -> KafkaProducer:
        return KafkaProducer(
            kafka.bootstrap_servers, spool_dir=tmp_path / "spool", spool_after_ms=200, max_block_ms=20_000
        )

    async def sender(key: int, first: KafkaProducer, numbers: range) -> None:
        nonlocal spooled
        for number in numbers:
            metadata: RecordMetadata = await first.send(topic, b"%d" % number, key=b"%d" % key)
            acknowledged[b"%d" % key].append(b"%d" % number)
            spooled += metadata.is_spooled

    async def send_all(one: KafkaProducer, numbers: range) -> None:
        # The acknowledgements of many records of a key at a time would not tell their order.
        await asyncio.gather(*(sender(key, one, numbers) for key in range(KEYS)))

    count = RECORDS // KEYS // 4
    async with producer() as one:
        await send_all(one, range(count))
        await kafka.stop(node_id)
        await send_all(one, range(count, 2 * count))
        assert one.health.is_spooling
        await one.close(timeout=0.2)
    assert spooled == RECORDS // 4

    await kafka.start(node_id)
    async with producer() as two:
        assert two.statistics().spool_records == spooled
        await send_all(two, range(2 * count, 4 * count))
        async with asyncio.timeout(60):
            while two.statistics().spool_records:  # noqa: ASYNC110  # nobody tells of it
                await asyncio.sleep(0.01)
        assert two.statistics().spool_repeated == 0

    found: dict[bytes, list[bytes]] = {}
    for records in (await read_back(kafka.bootstrap_servers, topic)).values():
        for record in records:
            found.setdefault(record.key or b"", []).append(record.value or b"")
    assert found == acknowledged
