"""tests.tool_server: Kafka's tools end in a JVM that stays as they do in a JVM of their own."""

from __future__ import annotations

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import KafkaToolError, KafkaTools
from tests.tool_server import ToolServer

pytestmark = pytest.mark.java

TOPICS = "org.apache.kafka.tools.TopicCommand"


async def test_a_tool_that_fails_or_does_not_end_leaves_the_others_alone(tools: KafkaTools) -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", 1)
        server = ("--bootstrap-server", broker.bootstrap_servers)
        with ToolServer(tools) as kept:
            with pytest.raises(KafkaToolError, match=r"(?s)TopicCommand ended with 1:.*Topic 'u' does not exist"):
                await kept.run(TOPICS, *server, "--describe", "--topic", "u")
            assert await kept.run(TOPICS, *server, "--list") == await tools.run(TOPICS, *server, "--list") == "t\n"
            with pytest.raises(KafkaToolError, match="ConsoleConsumer did not end within 3 s"):
                await kept.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *server, "--topic", "t", timeout=3)
            assert await kept.run(TOPICS, *server, "--list") == "t\n"
