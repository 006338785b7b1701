"""A conversation with a real Kafka, recorded and played again to the same client: other people's clients, unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import ApacheKafka, FaultProxy, KafkaTools, Recording, ReplayBroker
from tests.stock_clients import CONSOLE_PRODUCER, run

COUNT = 5


@pytest.mark.parametrize("is_hashed", [False, True], ids=["kept", "hashed"])
@pytest.mark.parametrize(
    ("client", "options", "group_requests"),
    [
        ("confluent-lone", ("classic",), {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}),
        ("confluent-lone", ("consumer",), {ApiKey.CONSUMER_GROUP_HEARTBEAT}),
        ("aiokafka-lone", (), {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}),
    ],
    ids=["confluent", "confluent-KIP-848", "aiokafka"],
)
async def test_a_stock_client_gets_the_same_from_a_recording_of_kafka_each_time(
    kafka: ApacheKafka,
    topic: str,
    tmp_path: Path,
    client: str,
    options: tuple[str, ...],
    group_requests: set[ApiKey],
    is_hashed: bool,
) -> None:
    file = tmp_path / "it.jsonl"
    await kafka.create_topic(topic, partitions=2)
    async with FaultProxy(kafka.bootstrap_servers, record=file, hash_payloads=is_hashed) as proxy:
        recorded = await run(client, proxy.bootstrap_servers, topic, COUNT, *options)
    assert recorded["offsets"] == list(range(COUNT))
    recording = Recording.read(file)
    assert recording.ended is not None
    expected = group_requests | {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT}
    assert expected <= {exchange.api_key for exchange in recording.exchanges}
    for _ in range(2):
        async with ReplayBroker(recording) as broker:
            try:
                played = await run(client, broker.bootstrap_servers, topic, COUNT, *options)
            finally:
                broker.check()
        assert without_values(played) == without_values(recorded)
        assert is_hashed or played == recorded


def without_values(result: dict[str, Any]) -> dict[str, Any]:
    """Digests are no numbers, and may be no text, but as long."""
    read = [(partition, offset, len(value)) for partition, offset, value in result["read"]]
    return result | {"read": read}


async def test_javas_console_tools_produce_to_and_read_in_a_group_from_a_recording_of_kafka(
    kafka: ApacheKafka, tools: KafkaTools, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "it.jsonl"
    await kafka.create_topic(topic)

    async def conversation(servers: str) -> list[str]:
        await tools.run(CONSOLE_PRODUCER, "--bootstrap-server", servers, "--topic", topic, stdin=b"one\n")
        group = ("--group", f"{topic}-readers")
        return await tools.console_consumer(servers, topic, max_messages=1, arguments=group)

    async with FaultProxy(kafka.bootstrap_servers, record=file) as proxy:
        recorded = await conversation(proxy.bootstrap_servers)
    assert recorded == ["one"]
    async with ReplayBroker(file) as broker:
        assert await conversation(broker.bootstrap_servers) == recorded
        broker.check()
