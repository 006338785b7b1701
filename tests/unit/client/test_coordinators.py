from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.client.coordinators import find_coordinator
from aiokafkapy.common import Node
from aiokafkapy.errors import CoordinatorNotAvailableError, NotCoordinatorError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.constants import GROUP_COORDINATOR
from tests.unit.client.fakes import ClientUnderTest, FakeCluster


@pytest.mark.parametrize(
    ("coordinators", "found"),
    [
        ([{"key": "g", "node_id": 2, "host": "two", "port": 2}], Node(2, "two", 2)),
        ([{"key": "g", "error_code": NotCoordinatorError.code}], NotCoordinatorError),
        ([], CoordinatorNotAvailableError),
        ([{"key": "g", "node_id": 2, "host": "", "port": 2}], CoordinatorNotAvailableError),
        ([{"key": "g", "node_id": 2, "host": "two", "port": -1}], CoordinatorNotAvailableError),
    ],
    ids=["a node", "an error", "none", "no host", "no port"],
)
async def test_a_coordinator_has_an_address(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster, coordinators: list[dict[str, Any]], found: Any
) -> None:
    under_test = await make_client().started()
    for broker in cluster.brokers.values():
        broker.answering[ApiKey.FIND_COORDINATOR] = lambda request: request.respond(coordinators=coordinators)
    asking = asyncio.ensure_future(find_coordinator(under_test.client, GROUP_COORDINATOR, "g"))
    await under_test.loop.settle()
    if isinstance(found, Node):
        assert asking.result() == found
    else:
        error = asking.exception()
        assert isinstance(error, found)
        assert error.retriable
