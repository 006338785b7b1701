"""The cluster as the page shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.common import Node
from aiokafkapy.console.cluster_queries import ClusterQueries
from aiokafkapy.errors import ClusterAuthorizationFailedError, KafkaError, KafkaTimeoutError, UnsupportedVersionError
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.messages import build_response

BROKERS = [{"node_id": node_id, "host": f"b{node_id}", "port": 9092, "rack": None} for node_id in (2, 1)]


class FakeClient:
    """Says that node 2 is the controller, and ``leader`` the quorum's leader."""

    def __init__(self, leader: int | KafkaError) -> None:
        self.leader = leader
        self.timeouts: dict[int, float] = {}

    async def send_and_wait(self, api_key: ApiKey, build: Callable[[int], Any], *, node: Any, timeout: float) -> Any:
        self.timeouts[api_key] = timeout
        _, version = client_versions(api_key)
        build(version)
        if api_key == ApiKey.METADATA:
            return build_response(api_key, version, brokers=BROKERS, cluster_id="c", controller_id=2, topics=())
        if isinstance(self.leader, KafkaError):
            raise self.leader
        partition = {"partition_index": 0, "leader_id": self.leader, "current_voters": (), "observers": ()}
        topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
        return build_response(api_key, version, error_code=0, topics=topics, nodes=())


def queries_of(client: FakeClient) -> ClusterQueries:
    queries = ClusterQueries(ClientConfig(bootstrap_servers="h:1"))
    queries._client = client  # type: ignore[assignment]
    return queries


@pytest.mark.parametrize(
    ("leader", "controller"),
    [
        (1, 1),
        (3_000, 3_000),
        (UnsupportedVersionError("older than KRaft"), 2),
        (ClusterAuthorizationFailedError(), None),
        (KafkaTimeoutError("there is none"), None),
    ],
)
async def test_the_controller_is_the_quorums_leader_and_not_any_broker(
    leader: int | KafkaError, controller: int | None
) -> None:
    described = await queries_of(FakeClient(leader)).describe()
    assert (described.cluster_id, described.controller_id) == ("c", controller)
    assert described.nodes == [Node(1, "b1", 9092), Node(2, "b2", 9092)]


async def test_the_page_does_not_wait_long_for_a_controller() -> None:
    client = FakeClient(KafkaTimeoutError("there is none"))
    await queries_of(client).describe()
    assert client.timeouts == {ApiKey.METADATA: 5.0, ApiKey.DESCRIBE_QUORUM: 1.0}
