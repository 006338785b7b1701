"""Java's consumer, the one that Kafka's protocols are made for, in groups of the dev broker."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import KafkaTools
from tests.clusters import kafka_tools
from tests.java_sources import compiled

pytestmark = pytest.mark.java

SOURCE = Path(__file__).with_name("GroupOfTen.java")


@pytest.fixture(scope="module")
def classes(tools: KafkaTools) -> Path:
    """The folder of the program, compiled against the newest Kafka; it calls nothing that 2.8 lacks."""
    return compiled(SOURCE, Path(tools.classpath).parent)


def with_program(tools: KafkaTools, classes: Path) -> KafkaTools:
    """The tools, and the program as one of them."""
    found = copy.copy(tools)
    found.classpath = os.pathsep.join([tools.classpath, str(classes)])
    return found


@pytest.fixture(scope="module")
def program(tools: KafkaTools, classes: Path) -> KafkaTools:
    """The program with the newest Kafka's consumer."""
    return with_program(tools, classes)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_ten_members_come_and_go_and_read_each_record_once(program: KafkaTools, protocol: str) -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=12)
        assert await program.run("GroupOfTen", broker.bootstrap_servers, protocol) == "1800 1800\n"
        committed = broker.state.groups.offsets.get("java")
        assert sorted(each.offset for each in committed.values()) == [150] * 12
        assert (broker.controls.request_count(ApiKey.CONSUMER_GROUP_HEARTBEAT) > 0) == (protocol == "consumer")


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1"])
async def test_ten_members_of_an_earlier_version_come_and_go_and_read_each_record_once(
    version: str, classes: Path
) -> None:
    tools = kafka_tools(version)
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=12)
        assert (
            await with_program(tools, classes).run("GroupOfTen", broker.bootstrap_servers, "classic") == "1800 1800\n"
        )
        committed = broker.state.groups.offsets.get("java")
        assert sorted(each.offset for each in committed.values()) == [150] * 12


async def test_members_of_both_protocols_come_and_go_and_read_each_record_once(program: KafkaTools) -> None:
    states: list[str] = []
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=12)

        def kinds(context: object, body: object) -> None:
            kind = type(broker.state.groups.get("java")).__name__
            if states[-1:] != [kind]:
                states.append(kind)

        for api in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT):
            broker.controls.on_request(api, kinds)
        assert await program.run("GroupOfTen", broker.bootstrap_servers, "both") == "3000 3000\n"
        assert states == ["ClassicGroup", "ConsumerGroup", "ClassicGroup"]
        committed = broker.state.groups.offsets.get("java")
        assert sorted(each.offset for each in committed.values()) == [250] * 12
