"""DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey

from ..socketless import codes, socketless_node
from .harness import OpenHarness

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.mark.parametrize("version", range(1, 5))
async def test_configs_of_topics_and_brokers_are_described(version: int) -> None:
    async with socketless_node(num_partitions=7) as node:
        node.broker.create_topic("t", retention_ms=99)
        resources = [
            {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None},
            {"resource_type": TOPIC, "resource_name": "t", "configuration_keys": ["cleanup.policy"]},
            {"resource_type": TOPIC, "resource_name": "u", "configuration_keys": None},
            {"resource_type": BROKER, "resource_name": "1", "configuration_keys": ["num.partitions"]},
            {"resource_type": 99, "resource_name": "x", "configuration_keys": None},
        ]
        results = node.call(ApiKey.DESCRIBE_CONFIGS, version, resources=resources).results
        assert codes(results) == [0, 0, 3, 0, 42]
        of_topic = {entry.name: (entry.value, entry.config_source) for entry in results[0].configs}
        assert of_topic["retention.ms"] == ("99", 1)
        assert of_topic["max.message.bytes"] == ("1048588", 5)
        assert [entry.value for entry in results[1].configs] == ["delete"]
        assert [(entry.value, entry.config_source, entry.read_only) for entry in results[3].configs] == [("7", 4, True)]


async def test_a_broker_describes_itself_and_no_other(open_harness: OpenHarness) -> None:
    harness = open_harness(broker_rack=["a", "b", "c"])
    harness.state.all_nodes[2] = harness.state.all_nodes[2]._replace(rack="b")

    def describe(name: str, node_id: int) -> Any:
        resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": None}
        return harness.call(ApiKey.DESCRIBE_CONFIGS, 4, node_id=node_id, resources=[resource]).results[0]

    options = {entry.name: entry.value for entry in describe("2", 2).configs}
    assert [options[name] for name in ("broker.id", "node.id", "broker.rack")] == ["2", "2", "b"]
    assert {entry.name: entry.value for entry in describe("1", 1).configs}["broker.rack"] is None
    assert (describe("", 2).error_code, describe("", 2).configs) == (0, ())
    refused = describe("1", 2)
    assert (refused.error_code, refused.configs) == (42, ())
    assert refused.error_message == "Unexpected broker id, expected 2 or empty string, but received 1"
    assert describe("one", 2).error_message == "Broker id must be an integer, but it is: one"


@pytest.mark.parametrize(
    ("api", "version"), [(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1), (ApiKey.ALTER_CONFIGS, 0), (ApiKey.ALTER_CONFIGS, 2)]
)
async def test_a_resource_twice_in_a_request_is_refused_at_each_place(api: ApiKey, version: int) -> None:
    async with socketless_node() as node:
        for name in ("t", "u"):
            node.broker.create_topic(name)
        how = {"config_operation": SET} if api is ApiKey.INCREMENTAL_ALTER_CONFIGS else {}
        resources = [
            {
                "resource_type": TOPIC,
                "resource_name": name,
                "configs": [{"name": "retention.ms", "value": value, **how}],
            }
            for name, value in (("t", "5"), ("u", "6"), ("t", "7"))
        ]
        results = node.call(api, version, resources=resources, validate_only=False).responses
        assert codes(results) == [42, 0, 42]
        assert results[0].error_message == "Each resource must appear at most once."
        overrides = {topic.name: topic.config.overrides for topic in node.state.topics}
        assert overrides == {"t": {}, "u": {"retention.ms": "6"}}


@pytest.mark.parametrize("version", range(2))
async def test_configs_are_altered_all_or_none(version: int) -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t", retention_ms=99)

        def alter(*changes: tuple[str, int, str | None], kind: int = TOPIC, **fields: Any) -> int:
            configs = [
                {"name": name, "config_operation": operation, "value": value} for name, operation, value in changes
            ]
            resource = {"resource_type": kind, "resource_name": "t", "configs": configs}
            body = node.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], **fields)
            return codes(body.responses)[0]

        topic = node.state.topics.get("t")
        assert topic is not None
        assert alter(("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact"), validate_only=True) == 0
        assert topic.config.overrides == {"retention.ms": "99"}
        assert alter(("retention.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")) == 0
        assert topic.config.overrides == {"cleanup.policy": "delete,compact"}
        assert alter(("cleanup.policy", SUBTRACT, "delete")) == 0
        assert topic.config.overrides == {"cleanup.policy": "compact"}
        assert alter(("max.message.bytes", SET, "5"), ("no.such", SET, "1")) == 40
        assert alter(("max.message.bytes", APPEND, "5")) == 40
        assert alter(("max.message.bytes", SET, None)) == 40
        assert alter(("max.message.bytes", SET, "5"), ("max.message.bytes", SET, "6")) == 42
        assert alter(("num.partitions", SET, "5"), kind=BROKER) == 40
        assert alter(("leader.replication.throttled.rate", DELETE, None), kind=BROKER) == 0
        assert topic.config.overrides == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("kind", "source", "option", "value", "default", "refusal"),
    [(32, 8, "consumer.session.timeout.ms", "5000", "45000", 40), (16, 7, "interval.ms", "1000", "300000", 42)],
    ids=["group", "client metrics"],
)
async def test_groups_and_subscriptions_have_options(
    kind: int, source: int, option: str, value: str, default: str, refusal: int
) -> None:
    async with socketless_node() as node:

        def alter(operation: int, name: str = option, value: str | None = value) -> int:
            configs = [{"name": name, "config_operation": operation, "value": value}]
            resource = {"resource_type": kind, "resource_name": "x", "configs": configs}
            return codes(node.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses)[0]

        def described() -> tuple[str | None, int]:
            resource = {"resource_type": kind, "resource_name": "x", "configuration_keys": [option]}
            (result,) = node.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
            (entry,) = result.configs
            return entry.value, entry.config_source

        assert described() == (default, 5)
        assert [alter(SET), alter(APPEND), alter(SET, "no.such"), alter(SET, value="-1")] == [0, 40, refusal, refusal]
        assert described() == (value, source)
        assert alter(DELETE, value=None) == 0
        assert described() == (default, 5)
        nameless = {"resource_type": kind, "resource_name": "", "configuration_keys": None}
        assert codes(node.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[nameless]).results) == [42]
