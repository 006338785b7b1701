"""The response of each API when its handler fails, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import UnknownServerError
from aiokafkapy.protocol.api import ApiKey

from .group_requests import versions
from .harness import Harness

PARTITION_APIS = (ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS)
GROUP_REQUESTS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.JOIN_GROUP: {"member_id": "m"},
    ApiKey.SYNC_GROUP: {},
    ApiKey.HEARTBEAT: {},
    ApiKey.LEAVE_GROUP: {},
    ApiKey.FIND_COORDINATOR: {"key": "g", "coordinator_keys": ["g"]},
    ApiKey.OFFSET_COMMIT: {"topics": [{"name": "t", "partitions": [{"partition_index": 1}]}]},
    ApiKey.OFFSET_FETCH: {
        "topics": [{"name": "t", "partition_indexes": [1]}],
        "groups": [{"group_id": "g", "topics": None}],
    },
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g"]},
    ApiKey.LIST_GROUPS: {},
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
    ApiKey.OFFSET_DELETE: {},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {"topic_partitions": None},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["g"]},
    ApiKey.SHARE_GROUP_HEARTBEAT: {},
    ApiKey.SHARE_GROUP_DESCRIBE: {"group_ids": ["g"]},
    ApiKey.SHARE_FETCH: {},
    ApiKey.SHARE_ACKNOWLEDGE: {},
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: {"groups": [{"group_id": "g", "topics": None}]},
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: {},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {},
}


ADMIN_REQUESTS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.ALTER_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"dirs": [{"path": "/", "topics": [{"name": "t", "partitions": [0]}]}]},
    ApiKey.DESCRIBE_LOG_DIRS: {"topics": None},
    ApiKey.ELECT_LEADERS: {"topic_partitions": [{"topic": "t", "partitions": [0]}]},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {},
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": None},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {},
    ApiKey.ALTER_CLIENT_QUOTAS: {"entries": [{"entity": [{"entity_type": "user", "entity_name": None}]}]},
    ApiKey.DESCRIBE_QUORUM: {},
    ApiKey.UPDATE_FEATURES: {},
    ApiKey.LIST_CONFIG_RESOURCES: {},
}


@pytest.mark.parametrize("api", ADMIN_REQUESTS)
async def test_the_error_of_an_administrators_request_can_be_written(harness: Harness, api: ApiKey) -> None:
    for version in versions(api):
        body = harness.fail(api, version, UnknownServerError(), **ADMIN_REQUESTS[api])
        may_say_nothing = api is ApiKey.DESCRIBE_LOG_DIRS and version < 3
        assert "-1" in repr(body) or "unknown_server_error" in repr(body) or may_say_nothing, version


@pytest.mark.parametrize("api", PARTITION_APIS)
async def test_the_error_of_a_partition_can_be_written(harness: Harness, api: ApiKey) -> None:
    partitions: dict[ApiKey, dict[str, Any]] = {
        ApiKey.PRODUCE: {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 3}]}]},
        ApiKey.LIST_OFFSETS: {"topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]},
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {"topics": [{"topic": "t", "partitions": [{"partition": 3}]}]},
        ApiKey.DELETE_RECORDS: {"topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]},
    }
    for version in versions(api):
        body = harness.fail(api, version, UnknownServerError(), **partitions[api])
        topics = body.responses if api is ApiKey.PRODUCE else body.topics
        (partition,) = topics[0].partition_responses if api is ApiKey.PRODUCE else topics[0].partitions
        assert partition.error_code == -1, version


@pytest.mark.parametrize("api", GROUP_REQUESTS)
async def test_the_error_of_a_group_can_be_written(harness: Harness, api: ApiKey) -> None:
    for version in versions(api):
        body = harness.fail(api, version, UnknownServerError(), **GROUP_REQUESTS[api])
        assert "-1" in repr(body) or "unknown_server_error" in repr(body)
