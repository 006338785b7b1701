"""OffsetForLeaderEpoch: the end of the records of an epoch."""

from __future__ import annotations

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..support import make_batch
from .harness import Harness
from .partition_requests import produce


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_offset_for_leader_epoch(harness: Harness, version: int) -> None:
    produce(harness, make_batch([b"a", b"b"]))
    harness.topics.set_leader("t", 0, 1)
    produce(harness, make_batch())

    def end_offset(leader_epoch: int, current: int = 1, partition: int = 0) -> tuple[int, int, int]:
        wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
        topics = [{"topic": "t", "partitions": [wanted]}]
        body = harness.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=topics)
        (answer,) = body.topics[0].partitions
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end_offset(0) == (0, 0, 2)
    assert end_offset(1) == (0, 1, 3)
    assert end_offset(2) == (0, -1, -1)
    assert end_offset(0, current=0) == (74, -1, -1)
    assert end_offset(0, partition=5) == (3, -1, -1)
