"""UpdateFeatures, DescribeQuorum, ListConfigResources and AlterConfigs."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..support import topic_of
from .group_requests import versions
from .harness import Harness


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_FEATURES))
async def test_a_feature_is_taken_away_and_clients_are_told(harness: Harness, version: int) -> None:
    def update(level: int, **fields: Any) -> int:
        updates = [{"feature": "group.version", "max_version_level": level, **fields}]
        return int(harness.call(ApiKey.UPDATE_FEATURES, version, feature_updates=updates).error_code)

    agreed: dict[str, Any] = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}
    assert [update(0), update(7), update(0, **agreed)] == [95, 95, 0]
    told = harness.call(ApiKey.API_VERSIONS, 4, client_software_name="a", client_software_version="1")
    assert [each.name for each in told.finalized_features] == ["share.version", "transaction.version"]
    assert told.finalized_features_epoch == 1
    assert update(1) == 0
    if version > 0:
        assert update(1, upgrade_type=9) == 42


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_QUORUM))
async def test_the_controller_leads_the_nodes(harness: Harness, version: int) -> None:
    def describe(topic: str, *partitions: int) -> Any:
        topics = [{"topic_name": topic, "partitions": [{"partition_index": each} for each in partitions]}]
        return harness.call(ApiKey.DESCRIBE_QUORUM, version, topics=topics)

    body = describe("__cluster_metadata", 0)
    (partition,) = body.topics[0].partitions
    assert (partition.leader_id, [each.replica_id for each in partition.current_voters]) == (1, [1, 2, 3])
    if version == 2:
        assert [node.node_id for node in body.nodes] == [1, 2, 3]
    for body in (describe("t", 0), describe("__cluster_metadata", 0, 1)):
        assert body.error_code == 0
        assert {each.error_code for each in body.topics[0].partitions} == {3}


async def test_the_things_that_have_options_are_listed(harness: Harness) -> None:
    def listed(version: int = 1, **fields: Any) -> Any:
        body = harness.call(ApiKey.LIST_CONFIG_RESOURCES, version, **fields)
        kinds = [getattr(each, "resource_type", 16) for each in body.config_resources]
        return int(body.error_code), list(
            zip(kinds, [each.resource_name for each in body.config_resources], strict=True)
        )

    harness.state.groups.configs.alter("g", {"consumer.session.timeout.ms": "5000"})
    harness.state.telemetry.configure("all", {"metrics": ""})
    everything = [(2, "t"), (4, "1"), (4, "2"), (4, "3"), (16, "all"), (32, "g")]
    assert listed() == (0, everything)
    assert listed(resource_types=[32, 2]) == (0, [(32, "g"), (2, "t")])
    assert listed(resource_types=[99]) == (35, [])
    assert listed(version=0) == (0, [(16, "all")])


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_CONFIGS))
async def test_options_that_are_not_named_go_back(harness: Harness, version: int) -> None:
    def alter(*options: tuple[str, str | None], kind: int = 2, **fields: Any) -> int:
        configs = [{"name": name, "value": value} for name, value in options]
        resources = [{"resource_type": kind, "resource_name": "t", "configs": configs}]
        return int(harness.call(ApiKey.ALTER_CONFIGS, version, resources=resources, **fields).responses[0].error_code)

    topic = topic_of(harness.topics)
    assert alter(("retention.ms", "5"), ("cleanup.policy", "compact")) == 0
    assert alter(("retention.ms", "7"), validate_only=True) == 0
    assert topic.config.overrides == {"retention.ms": "5", "cleanup.policy": "compact"}
    assert alter(("retention.ms", "7")) == 0
    assert topic.config.overrides == {"retention.ms": "7"}
    assert [alter(("retention.ms", None)), alter(("retention.ms", "1"), ("retention.ms", "2"))] == [40, 42]
    assert [alter(("a", "1"), kind=4), alter(("a", "1"), kind=99)] == [40, 42]
    assert topic.config.overrides == {"retention.ms": "7"}
