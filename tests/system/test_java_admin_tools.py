"""Kafka's command-line tools for administrators, unchanged, against the dev broker: all in one JVM."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from tests.tool_server import CLUSTER, ToolServer

pytestmark = pytest.mark.java

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
Run = Callable[..., Awaitable[list[tuple[int, str]]]]


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=2, replication_factor=2)
        yield broker


@pytest.fixture
def run(broker: DevBroker, tool_server: ToolServer) -> Run:
    """Runs tools, each a class and its arguments, and returns how each ended, and its output."""
    return lambda *commands: tool_server.run_all(broker.bootstrap_servers, commands)


async def test_log_directories_leaders_and_replicas(broker: DevBroker, run: Run, tmp_path: Path) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("t", b"x" * 100, partition=0)
    broker.controls.set_leader("t", 0, 2)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 1, "replicas": [1, 3]}]}))
    reassign = f"{TOOLS}reassign.ReassignPartitionsCommand"
    answers = await run(
        (f"{TOOLS}LogDirsCommand", "--describe", "--topic-list", "t"),
        (f"{TOOLS}LeaderElectionCommand", "--election-type", "preferred", "--topic", "t", "--partition", 0),
        (f"{TOOLS}LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions"),
        (reassign, "--reassignment-json-file", plan, "--execute"),
        (reassign, "--reassignment-json-file", plan, "--verify"),
        (reassign, "--list"),
        (f"{TOOLS}MetadataQuorumCommand", "describe", "--status"),
        (f"{TOOLS}MetadataQuorumCommand", "describe", "--replication"),
        (f"{TOOLS}GetOffsetShell", "--topic", "t", "--time", -1),
        (f"{TOOLS}GetOffsetShell", "--topic", "t", "--time", "max-timestamp"),
        (f"{TOOLS}GetOffsetShell", "--topic", "t", "--time", "earliest-local"),
        (f"{TOOLS}GetOffsetShell", "--topic", "t", "--time", "latest-tiered"),
        (f"{TOOLS}BrokerApiVersionsCommand",),
        (CLUSTER, "cluster-id"),
    )
    assert [status for status, _ in answers] == [0] * len(answers)
    said = [text for _, text in answers]
    sizes = json.loads(said[0].splitlines()[-1])
    assert {each["broker"] for each in sizes["brokers"]} == {1, 2, 3}
    (on_node_1,) = [each["logDirs"] for each in sizes["brokers"] if each["broker"] == 1]
    assert [each["size"] > 100 for each in on_node_1[0]["partitions"] if each["partition"] == "t-0"] == [True]
    assert "Successfully completed leader election (PREFERRED) for partitions t-0" in said[1]
    partitions = broker.state.topics.get("t").partitions  # type: ignore[union-attr]
    assert [(each.leader, each.replicas) for each in partitions] == [(1, (1, 2)), (1, (1, 3))]
    assert "Successfully started partition reassignment for t-1" in said[3]
    assert "Reassignment of partition t-1 is completed" in said[4]
    assert "No partition reassignments found." in said[5]
    assert "LeaderId:               1" in said[6]
    assert [line.split()[-1] for line in said[7].splitlines()[1:]] == ["Leader", "Follower", "Follower"]
    assert "t:0:1" in said[8]
    assert "t:0:0" in said[9]
    assert "t:0:0" in said[10]
    assert said[12].count("UNSUPPORTED") > 0
    assert broker.cluster_id in said[13]


async def test_quotas_features_and_options(broker: DevBroker, run: Run) -> None:
    quota = ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default")
    group = ("--entity-type", "groups", "--entity-name", "g")
    answers = await run(
        (CONFIGS, "--alter", *quota, "--add-config", "producer_byte_rate=1024,request_percentage=50"),
        (CONFIGS, "--describe", "--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients"),
        (CONFIGS, "--alter", *quota, "--delete-config", "producer_byte_rate"),
        (CONFIGS, "--alter", *group, "--add-config", "consumer.session.timeout.ms=7000"),
        (CONFIGS, "--describe", *group),
        (f"{TOOLS}ClientMetricsCommand", "--alter", "--name", "m", "--metrics", "org.apache.", "--interval", 1000),
        (f"{TOOLS}ClientMetricsCommand", "--list"),
        (f"{TOOLS}ClientMetricsCommand", "--describe", "--name", "m"),
        (f"{TOOLS}ClientMetricsCommand", "--delete", "--name", "m"),
        (f"{TOOLS}FeatureCommand", "describe"),
        (f"{TOOLS}FeatureCommand", "downgrade", "--feature", "group.version=0"),
        (f"{TOOLS}FeatureCommand", "upgrade", "--feature", "group.version=9"),
        (f"{TOOLS}GroupsCommand", "--list"),
    )
    said = [text for _, text in answers]
    assert [status for status, _ in answers] == [0] * 11 + [1, 0], said
    assert "producer_byte_rate=1024.0" in said[1]
    assert [dict(quotas) for _, quotas in broker.state.quotas] == [{"request_percentage": 50.0}]
    assert "consumer.session.timeout.ms=7000" in said[4]
    assert broker.state.groups.configs.session_timeout("g") == 7.0
    assert said[6] == "m"
    assert "interval.ms=1000" in said[7]
    assert broker.state.telemetry.subscriptions == []
    assert "Feature: group.version" in said[9]
    assert broker.state.features["group.version"] == 0
    assert "Could not upgrade group.version to 9" in said[11]
