"""DescribeCluster."""

from __future__ import annotations

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..socketless import socketless_node


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(version: int) -> None:
    async with socketless_node(nodes=3) as node:
        del node.state.running_nodes[1]
        body = node.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1)
        assert (body.cluster_id, body.controller_id) == (node.broker.cluster_id, 2)
        assert [broker.broker_id for broker in body.brokers] == [2, 3]
        if version >= 1:
            assert node.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=2).error_code == 114
        if version >= 2:
            body = node.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1, include_fenced_brokers=True)
            assert [(broker.broker_id, broker.is_fenced) for broker in body.brokers] == [
                (1, True),
                (2, False),
                (3, False),
            ]
