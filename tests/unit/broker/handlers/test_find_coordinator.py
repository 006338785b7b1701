"""FindCoordinator: the node to ask about a group."""

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
async def test_transactions_have_coordinators_and_share_groups_none(harness: Harness, version: int) -> None:
    for key_type, code in ((1, 0), (2, 42)):
        if version >= 4:
            found = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=key_type, coordinator_keys=["tx"])
            (answer,) = found.coordinators
        else:
            answer = harness.call(ApiKey.FIND_COORDINATOR, version, key_type=key_type, key="tx")
        assert answer.error_code == code
        assert (answer.node_id == -1) is bool(code)


async def test_a_group_moves_to_another_node_when_its_coordinator_stops(harness: Harness) -> None:
    before = harness.coordinator_id("g")
    del harness.state.running_nodes[before]
    after = harness.coordinator_id("g")
    assert after != before
    harness.state.running_nodes.clear()
    (answer,) = harness.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["g"]).coordinators
    assert answer.error_code == 15
