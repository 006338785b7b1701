"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.security.authorizer import Authorizer
from aiokafkapy.protocol.api import ApiKey

from ..support import log_of, make_batch
from .group_requests import versions
from .harness import Harness, OpenHarness


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
async def test_the_partitions_of_a_node_have_their_sizes(harness: Harness, version: int) -> None:
    harness.topics.create("u", assignments={0: [2]})
    log_of(harness.topics).append(make_batch(), 0, 0)
    (result,) = harness.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None).results
    sizes = {
        (topic.name, each.partition_index): each.partition_size for topic in result.topics for each in topic.partitions
    }
    assert (result.log_dir, sizes) == ("memory", {("t", 0): log_of(harness.topics).size, ("t", 1): 0})
    wanted = [{"topic": "t", "partitions": [1, 7]}]
    (result,) = harness.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=wanted).results
    assert [[each.partition_index for each in topic.partitions] for topic in result.topics] == [[1]]


async def test_a_data_dir_has_a_path_and_a_size(open_harness: OpenHarness, tmp_path: Path) -> None:
    harness = open_harness(data_dir=tmp_path)
    (result,) = harness.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    assert result.log_dir == str(tmp_path)
    assert result.total_bytes > result.usable_bytes > 0


async def test_a_client_without_the_right_gets_no_directories(harness: Harness) -> None:
    harness.state.authorizer = Authorizer()
    answer = harness.call(ApiKey.DESCRIBE_LOG_DIRS, 3, topics=None)
    assert (answer.error_code, answer.results) == (31, ())
    assert harness.call(ApiKey.DESCRIBE_LOG_DIRS, 1, topics=None).results == ()


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_REPLICA_LOG_DIRS))
async def test_there_is_no_other_directory_to_move_to(harness: Harness, version: int) -> None:
    def move(path: str, name: str = "t") -> Any:
        dirs = [{"path": path, "topics": [{"name": name, "partitions": [0]}]}]
        body = harness.call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
        return body.results[0].partitions[0].error_code

    assert [move("/elsewhere"), move("memory"), move("memory", "no")] == [57, 0, 9]
