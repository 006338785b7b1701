"""The outbox on real Kafka: in order, and exactly once also where the relay before could not tell its database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.integrations.outbox.database import RelayDatabase
from aiokafkapy.testing import ApacheKafka
from tests.outboxes import opened_outbox
from tests.reading import committed_values
from tests.waiting import until

pytestmark = pytest.mark.kafka

NUMBERS = [b"%03d" % number for number in range(60)]


@pytest.mark.parametrize("is_exactly_once", [False, True], ids=["at least once", "exactly once"])
async def test_rows_are_published_in_order_and_the_next_relay_knows_of_them(
    kafka: ApacheKafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_exactly_once: bool
) -> None:
    await kafka.create_topic(topic, 1)
    mode: dict[str, Any] = {"transactional_id": topic, "marker_topic": f"{topic}-markers"} if is_exactly_once else {}
    patience = {"max_block_ms": 20_000, "request_timeout_ms": 10_000, "delivery_timeout_ms": 20_000}
    mark = RelayDatabase.mark
    untold: list[int] = []

    async def failing(self: RelayDatabase, rows: Any) -> int:
        if not rows:
            return 0
        untold.append(len(rows))
        raise ConnectionError("the database is away")

    async with opened_outbox(tmp_path, shards=2) as outbox:
        for number in NUMBERS:
            await outbox.add(number, topic=topic, key=b"%d" % (int(number) % 5))
        monkeypatch.setattr(RelayDatabase, "mark", failing)
        async with outbox.relay(kafka.bootstrap_servers, batch_rows=20, **mode, **patience) as relay:
            await until(lambda: untold, 60)
            await relay.stop(0)
        monkeypatch.setattr(RelayDatabase, "mark", mark)
        assert len(await outbox.rows()) == len(NUMBERS), "the database knows of nothing"
        async with outbox.relay(kafka.bootstrap_servers, batch_rows=20, **mode, **patience) as relay:
            await until(outbox.is_empty, 60)
            assert relay.statistics().found_published == (untold[0] if is_exactly_once else 0)
    seen = [value for value in await committed_values(kafka.bootstrap_servers, topic) if value is not None]
    assert len(seen) == len(NUMBERS) + (0 if is_exactly_once else untold[0])
    for key in range(5):
        of_key = [value for value in dict.fromkeys(seen) if int(value) % 5 == key]
        assert of_key == [number for number in NUMBERS if int(number) % 5 == key]
