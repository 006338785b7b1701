"""The controller: the node that DescribeQuorum names, or Metadata where no broker offers that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.admin.cluster_nodes import active_controller, nodes_of
from aiokafkapy.common import Node
from aiokafkapy.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    NotLeaderOrFollowerError,
    UnsupportedVersionError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_request, build_response

FIRST, SECOND = Node(1, "one", 9092, "r"), Node(2, "two", 9092)
BROKERS = [
    {"node_id": 2, "host": "two", "port": 9092},
    {"node_id": 1, "host": "one", "port": 9092, "rack": "r"},
]
METADATA = build_response(ApiKey.METADATA, 12, brokers=BROKERS, controller_id=2)


async def controller(version: int, leader: int = -1, code: int = 0, partition_code: int = 0) -> Node | None:
    async def ask(api_key: ApiKey, build: Callable[[int], Any]) -> Any:
        assert api_key == ApiKey.DESCRIBE_QUORUM
        assert build(version) == build_request(
            api_key, version, topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        )
        partition = {"partition_index": 0, "leader_id": leader, "error_code": partition_code}
        topics = [] if code else [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
        nodes = [{"node_id": 3000, "listeners": [{"name": "CONTROLLER", "host": "three", "port": 9093}]}]
        return build_response(api_key, version, error_code=code, topics=topics, nodes=nodes)

    return await active_controller(ask, METADATA)


@pytest.mark.parametrize("version", range(3))
async def test_the_controller_is_the_quorum_leader_not_the_one_in_metadata(version: int) -> None:
    assert await controller(version, 1) == FIRST
    assert await controller(version, -1) is None


async def test_a_controller_that_is_not_a_broker_has_its_address_from_the_quorum() -> None:
    assert await controller(2, 3000) == Node(3000, "three", 9093)
    for version, leader in ((0, 3000), (1, 3000), (2, 3001)):
        found = await controller(version, leader)
        assert found is not None
        assert (found.node_id, found.is_empty) == (leader, True)


@pytest.mark.parametrize("version", range(3))
async def test_a_refusal_is_raised(version: int) -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        await controller(version, code=31)
    with pytest.raises(NotLeaderOrFollowerError):
        await controller(version, 1, partition_code=6)


async def test_where_no_broker_knows_a_quorum_metadata_is_true() -> None:
    async def refuse(*_: object) -> Any:
        raise UnsupportedVersionError("no such request")

    assert await active_controller(refuse, METADATA) == SECOND
    assert await active_controller(refuse, build_response(ApiKey.METADATA, 12, controller_id=-1)) is None


async def test_a_failure_to_ask_is_raised() -> None:
    async def fail(*_: object) -> Any:
        raise KafkaError("gone")

    with pytest.raises(KafkaError, match="gone"):
        await active_controller(fail, METADATA)


def test_brokers_have_their_racks() -> None:
    assert nodes_of(METADATA) == {1: FIRST, 2: SECOND}
