"""DeleteRecords: the start of a log moves forward."""

from __future__ import annotations

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..support import make_batch
from .harness import Harness
from .partition_requests import fetch, fetched, produce


@pytest.mark.parametrize("version", range(3))
async def test_delete_records(harness: Harness, version: int) -> None:
    produce(harness, make_batch([b"a"] * 5))

    def delete(offset: int, partition: int = 0) -> tuple[int, int]:
        topics = [{"name": "t", "partitions": [{"partition_index": partition, "offset": offset}]}]
        body = harness.call(ApiKey.DELETE_RECORDS, version, topics=topics, timeout=1)
        (answer,) = body.topics[0].partitions
        return answer.error_code, answer.low_watermark

    waiting = fetch(harness, 0, max_wait=60_000, min_bytes=10_000)
    assert delete(2) == (0, 2)
    assert fetched(waiting.result())[0].error_code == 1
    assert delete(-1) == (0, 5)
    assert delete(6) == (1, -1)
    assert delete(0, partition=1) == (6, -1)
