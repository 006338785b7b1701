"""Java's consumer, the one that Kafka's protocols are made for, in groups of the dev broker."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import KafkaTools
from tests.java_sources import compiled_into

pytestmark = pytest.mark.java

SOURCE = Path(__file__).with_name("GroupOfTen.java")


@pytest.fixture(scope="module")
def program(tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> KafkaTools:
    """The tools, and the program as one of them."""
    classes = compiled_into(tmp_path_factory.mktemp("classes"), SOURCE, Path(tools.classpath).parent)
    found = copy.copy(tools)
    found.classpath = os.pathsep.join([tools.classpath, str(classes)])
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_ten_members_come_and_go_and_read_each_record_once(program: KafkaTools, protocol: str) -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=12)
        assert await program.run("GroupOfTen", broker.bootstrap_servers, protocol) == "1800 1800\n"
        committed = broker.state.groups.offsets.get("java")
        assert sorted(each.offset for each in committed.values()) == [150] * 12
        assert (broker.controls.request_count(ApiKey.CONSUMER_GROUP_HEARTBEAT) > 0) == (protocol == "consumer")
