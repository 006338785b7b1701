"""ListOffsets: offsets by time, and the negative times that have a meaning."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..support import log_of, make_batch
from .harness import Harness
from .partition_requests import produce


def list_offset(
    harness: Harness,
    timestamp: int,
    *,
    version: int = 10,
    partition: int = 0,
    times: int = 1,
    isolation_level: int = 0,
    **fields: Any,
) -> Any:
    wanted = {"partition_index": partition, "timestamp": timestamp, **fields}
    topics = [{"name": "t", "partitions": [wanted] * times}]
    body = harness.call(
        ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation_level, timeout=1_000, topics=topics
    )
    return body.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 11))
async def test_list_offsets_in_every_version(harness: Harness, version: int) -> None:
    produce(harness, make_batch([b"a", b"b"], timestamps=[100, 200]))
    log_of(harness.topics).delete_records(1)
    found = {time: list_offset(harness, time, version=version) for time in (-1, -2, 150, 201)}
    assert {time: (each.error_code, each.offset, each.timestamp) for time, each in found.items()} == {
        -1: (0, 2, -1),
        -2: (0, 1, -1),
        150: (0, 1, 200),
        201: (0, -1, -1),
    }
    assert list_offset(harness, -1, version=version, partition=1).error_code == 6
    assert list_offset(harness, -1, version=version, partition=2).error_code == 3


@pytest.mark.parametrize(("time", "since", "offset"), [(-3, 7, 1), (-4, 8, 0), (-5, 9, -1)])
async def test_special_times_have_their_first_version(harness: Harness, time: int, since: int, offset: int) -> None:
    produce(harness, make_batch([b"a", b"b"], timestamps=[100, 200]))
    answer = list_offset(harness, time, version=since)
    assert (answer.error_code, answer.offset) == (0, offset)
    assert list_offset(harness, time, version=since - 1).error_code == 35
    assert list_offset(harness, -6).error_code == 35


async def test_an_empty_log_starts_in_the_present_epoch(harness: Harness) -> None:
    harness.topics.set_leader("t", 0, 1)
    assert (list_offset(harness, -2).offset, list_offset(harness, -2).leader_epoch) == (0, 1)


async def test_an_empty_log_has_no_max_timestamp(harness: Harness) -> None:
    answer = list_offset(harness, -3)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


@pytest.mark.parametrize("time", [100, -3])
async def test_a_time_finds_no_record_of_an_open_transaction_for_readers_of_committed_records(
    harness: Harness, time: int
) -> None:
    log = log_of(harness.topics)
    log.append(make_batch([b"a"], producer=(7, 0, 0), timestamps=[100], is_transactional=True), 0, 1_000)
    assert [list_offset(harness, time, isolation_level=level).offset for level in (0, 1)] == [0, -1]


async def test_a_strange_time_is_refused_before_the_partition_is_looked_for(harness: Harness) -> None:
    assert list_offset(harness, -6, partition=9).error_code == 35


async def test_list_offsets_compares_epochs_and_refuses_to_be_asked_twice(harness: Harness) -> None:
    assert list_offset(harness, -1, current_leader_epoch=4).error_code == 75
    assert list_offset(harness, -1, times=2).error_code == 42
    harness.controls.fail_next(ApiKey.LIST_OFFSETS, 78, "t", 0)
    assert list_offset(harness, -1).error_code == 78
