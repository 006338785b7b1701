"""FindCoordinator: which node to ask about a group."""

from __future__ import annotations

import pytest

from aiokafkapy.protocol.api import ApiKey

from .group_requests import versions
from .harness import Harness


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
async def test_find_coordinator_in_every_version(harness: Harness, version: int) -> None:
    expected = harness.coordinator_id("g")
    if version >= 4:
        body = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=0, coordinator_keys=["g", "h"])
        assert [each.key for each in body.coordinators] == ["g", "h"]
        (answer, _) = body.coordinators
    else:
        answer = harness.call(ApiKey.FIND_COORDINATOR, version, key="g")
    assert (answer.error_code, answer.node_id, answer.port) == (0, expected, 9091 + expected)


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR)[1:])
async def test_other_coordinators_are_refused_with_a_message(harness: Harness, version: int) -> None:
    if version >= 4:
        (answer,) = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=1, coordinator_keys=["tx"]).coordinators
    else:
        answer = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=1, key="tx")
    assert (answer.error_code, answer.node_id) == (42, -1)
    assert "no transactions" in answer.error_message


async def test_a_group_moves_to_another_node_when_its_coordinator_stops(harness: Harness) -> None:
    before = harness.coordinator_id("g")
    del harness.state.running_nodes[before]
    after = harness.coordinator_id("g")
    assert after != before
    harness.state.running_nodes.clear()
    (answer,) = harness.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g"]).coordinators
    assert answer.error_code == 15
