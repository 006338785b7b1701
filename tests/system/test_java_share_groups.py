"""Java's consumer of share groups, and Kafka's tools for them, unchanged, with the dev broker (KIP-932)."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import KafkaTools
from tests.java_sources import compiled
from tests.tool_server import ToolServer

pytestmark = pytest.mark.java

SOURCE = Path(__file__).with_name("ShareConsumers.java")
TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


@pytest.fixture(scope="module")
def program(tools: KafkaTools) -> KafkaTools:
    """The tools, and the program as one of them."""
    classes = compiled(SOURCE, Path(tools.classpath).parent)
    found = copy.copy(tools)
    found.classpath = os.pathsep.join([tools.classpath, str(classes)])
    return found


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    """Three nodes, a topic of one partition, and groups that read it from the start."""
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=1)
        for group in ("together", "die", "words", "attempts", "tools"):
            broker.state.groups.configs.alter(group, {"share.auto.offset.reset": "earliest"})
        yield broker


async def test_three_consumers_share_one_partition(program: KafkaTools, broker: DevBroker) -> None:
    assert await program.run("ShareConsumers", broker.bootstrap_servers, "together") == "true 3\n"


async def test_the_records_of_a_consumer_that_dies_are_delivered_to_another(
    program: KafkaTools, broker: DevBroker
) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send_many("t", [b"a", b"b", b"c"])
    died = await program.run("ShareConsumers", broker.bootstrap_servers, "die", check=False)
    assert died == "a:1 b:1 c:1\n"
    # They were not delivered, for their consumer had said nothing of them: Kafka does not count that.
    assert await program.run("ShareConsumers", broker.bootstrap_servers, "survive") == "a:1 b:1 c:1\n"


async def test_records_are_accepted_released_rejected_and_given_up(program: KafkaTools, broker: DevBroker) -> None:
    said = await program.run("ShareConsumers", broker.bootstrap_servers, "words,admin")
    assert said.splitlines() == [
        "accept:1 release:1 reject:1",
        "committed true",
        "release:2",
        "All records must be acknowledged in explicit acknowledgement mode.",
        "words Share Empty",
        "Empty 0",
        "3",
        "1",
        "{}",
        "0",
    ]


async def test_a_record_is_delivered_five_times_at_most(program: KafkaTools, broker: DevBroker) -> None:
    said = await program.run("ShareConsumers", broker.bootstrap_servers, "attempts")
    assert said.splitlines() == [*(f"poison:{count}" for count in range(1, 6)), "next:1"]


async def test_kafkas_tools_read_list_describe_and_forget(tool_server: ToolServer, broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send_many("t", [b"a", b"b", b"c"])
    answers = await tool_server.run_all(
        broker.bootstrap_servers,
        [
            (CONSOLE, "--topic", "t", "--group", "tools", "--max-messages", 2, "--timeout-ms", 30_000),
            (CONSOLE, "--topic", "t", "--group", "tools", "--max-messages", 1, "--timeout-ms", 30_000),
            (TOOL, "--list", "--state"),
            (TOOL, "--describe", "--group", "tools", "--offsets"),
            (TOOL, "--describe", "--group", "tools", "--state"),
            (TOOL, "--describe", "--group", "tools", "--members"),
            (TOOL, "--delete-offsets", "--group", "tools", "--topic", "t"),
            (TOOL, "--delete", "--group", "tools"),
            (TOOL, "--list"),
        ],
    )
    said = [text for _, text in answers]
    assert said[0].splitlines()[:2] == ["a", "b"]
    assert "c" in said[1].splitlines()
    assert said[2].split()[-2:] == ["tools", "Empty"]
    assert said[3].split()[-4:] == ["tools", "t", "0", "3"]
    assert said[4].split()[-2:] == ["Empty", "0"]
    assert "Successful" in said[6]
    assert "successful" in said[7]
    assert "tools" not in said[8]
