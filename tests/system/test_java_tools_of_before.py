"""The Java tools of earlier versions of Kafka, unchanged, against the dev broker: each version's in one JVM."""

from __future__ import annotations

import pytest

from aiokafkapy.broker import DevBroker
from tests.clusters import kafka_tools
from tests.tool_server import ToolServer

pytestmark = pytest.mark.java

CONFIGS = "kafka.admin.ConfigCommand"
NAMES = {
    "2.8.2": {
        "produce": "kafka.tools.ConsoleProducer",
        "consume": "kafka.tools.ConsoleConsumer",
        "groups": "kafka.admin.ConsumerGroupCommand",
        "topics": "kafka.admin.TopicCommand",
        "log dirs": "kafka.admin.LogDirsCommand",
    },
    "3.9.1": {
        "produce": "kafka.tools.ConsoleProducer",
        "consume": "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "topics": "org.apache.kafka.tools.TopicCommand",
        "log dirs": "org.apache.kafka.tools.LogDirsCommand",
    },
}


@pytest.mark.parametrize("version", list(NAMES))
async def test_they_produce_consume_in_a_group_commit_resume_and_administer(version: str) -> None:
    names = NAMES[version]
    topic = ("--topic", "t")
    consume = (names["consume"], *topic, "--from-beginning", "--group", "g", "--timeout-ms", 30_000)
    group = (names["groups"], "--group", "g")
    retention = ("--add-config", "retention.ms=-1")
    lines = [str(number) for number in range(100)]
    async with DevBroker(nodes=3) as broker:
        with ToolServer(kafka_tools(version)) as tools:
            answers = await tools.run_all(
                broker.bootstrap_servers,
                [
                    (names["topics"], "--create", *topic, "--partitions", 3, "--replication-factor", 2),
                    (names["produce"], *topic),
                    (*consume, "--max-messages", 60),
                    # The tool of 2.8 goes on counting within one JVM.
                    (*consume, "--max-messages", 100 if version == "2.8.2" else 40),
                    (*group, "--describe"),
                    (*group, "--reset-offsets", "--to-earliest", *topic, "--execute"),
                    (names["groups"], "--list"),
                    (CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "t", *retention),
                    (names["topics"], "--describe", *topic),
                    (names["log dirs"], "--describe"),
                    (*group, "--delete"),
                ],
                stdin="\n".join(lines).encode(),
            )
        said = [text for _, text in answers]
        assert [status for status, _ in answers] == [0] * len(answers), said
        assert sorted(said[2].split() + said[3].split()) == sorted(lines)
        rows = [line.split() for line in said[4].splitlines() if line.startswith("g ")]
        assert (sum(int(row[3]) for row in rows), {row[5] for row in rows}) == (100, {"0"})
        assert said[6].split() == ["g"]
        assert "retention.ms=-1" in said[8]
        assert "t-0" in said[9]
        assert broker.state.groups.get("g") is None
