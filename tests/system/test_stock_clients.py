"""Other people's clients, unchanged, against the dev broker: Kafka's Java tools, librdkafka, aiokafka, kafka-python."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy, KafkaTools
from tests.stock_clients import CONSOLE_PRODUCER, LONGEST_RUN, check_produced, in_log, run
from tests.tool_server import ToolServer

PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    """Three nodes, topics of three partitions."""
    async with DevBroker(nodes=3, num_partitions=3) as broker:
        yield broker


async def members_of(broker: DevBroker, group_id: str, number: int) -> None:
    """Return when a consumer group has so many members, and each has reached its assignment."""
    async with asyncio.timeout(LONGEST_RUN):
        while True:
            group = broker.state.groups.get(group_id)
            if group is not None and len(group.members) == number and group.state.value == "Stable":
                return
            await asyncio.sleep(0.05)


# librdkafka


@pytest.mark.parametrize("codec", CODECS)
async def test_librdkafka_produces_with_every_codec(broker: DevBroker, codec: str) -> None:
    said = await run("confluent-produce", broker.bootstrap_servers, "t", 1000, codec)
    assert said == {"delivered": 1000, "left": 0, "errors": [], "in_order": True}
    check_produced(broker, "t", 1000)


async def test_librdkafka_consumes_in_a_group_commits_and_resumes(broker: DevBroker) -> None:
    await run("confluent-produce", broker.bootstrap_servers, "t", 3000, "lz4")
    first = await run("confluent-consume", broker.bootstrap_servers, "t", "g", 1000)
    second = await run("confluent-consume", broker.bootstrap_servers, "t", "g", 2000)
    assert sorted(map(tuple, first["read"] + second["read"])) == sorted(in_log(broker, "t"))
    ends = Counter(partition for partition, _, _ in in_log(broker, "t"))
    assert [tuple(each) for each in second["committed"]] == sorted(ends.items())
    another = await run("confluent-consume", broker.bootstrap_servers, "t", "another", 3000)
    assert len(another["read"]) == 3000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_ten_members_of_librdkafka_come_and_go(broker: DevBroker, protocol: str) -> None:
    broker.create_topic("t", partitions=12)
    said = await run("confluent-churn", broker.bootstrap_servers, "t", "g", protocol)
    assert sorted(map(tuple, said["read"])) == sorted(in_log(broker, "t"))
    assert [tuple(each) for each in said["committed"]] == [(partition, 150) for partition in range(12)]
    beats = broker.controls.request_count(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    assert (beats > 0) == (protocol == "consumer")


async def test_librdkafka_subscribes_by_an_expression_that_the_broker_resolves(broker: DevBroker) -> None:
    expressions: set[str | None] = set()
    broker.controls.on_request(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda context, body: expressions.add(body.subscribed_topic_regex)
    )
    for topic in ("t-a", "t-b", "u"):
        await run("confluent-produce", broker.bootstrap_servers, topic, 100, "none")
    said = await run("confluent-consume", broker.bootstrap_servers, "^t-[a-z]+$", "g", 200, "group_protocol=consumer")
    assert sorted(map(tuple, said["read"])) == sorted(in_log(broker, "t-a") + in_log(broker, "t-b"))
    assert any(expressions)


async def test_librdkafka_administers_topics(broker: DevBroker) -> None:
    said = await run("confluent-admin", broker.bootstrap_servers, "t")
    assert said == {"brokers": [1, 2, 3], "partitions": 5, "retention": "1234", "largest": "777", "deleted": True}


async def test_librdkafka_loses_and_doubles_nothing_while_leaders_move(broker: DevBroker) -> None:
    broker.create_topic("t", partitions=3)
    controls = broker.controls
    seen: list[int] = []

    def trouble(context: Any, body: Any) -> None:
        seen.append(context.node_id)
        if len(seen) == 2:
            controls.set_leader("t", 0, 2)
        elif len(seen) == 4:
            controls.drop_next(ApiKey.PRODUCE)  # appended, and nobody was told
        elif len(seen) == 6:
            asyncio.get_running_loop().call_soon(controls.stop_node, 3)
        elif len(seen) == 10:
            asyncio.get_running_loop().call_soon(controls.start_node, 3)

    controls.on_request(ApiKey.PRODUCE, trouble)
    said = await run("confluent-produce", broker.bootstrap_servers, "t", 20_000, "none")
    assert (said["delivered"], said["errors"]) == (20_000, [])
    assert len(seen) > 6
    check_produced(broker, "t", 20_000)


# aiokafka, kafka-python


async def test_aiokafka_produces_and_two_members_share_a_group(broker: DevBroker) -> None:
    said = await run("aiokafka", broker.bootstrap_servers, "t", 2000)
    assert said["delivered"] == 2000
    check_produced(broker, "t", 2000)
    assert {tuple(each) for each in said["read"]} == set(in_log(broker, "t"))


async def test_kafka_python_produces_consumes_commits_and_resumes(broker: DevBroker) -> None:
    said = await run("kafka-python", broker.bootstrap_servers, "t", 1000)
    assert said["delivered"] == 1000
    check_produced(broker, "t", 1000)
    assert sorted(map(tuple, said["read"])) == sorted(in_log(broker, "t"))


# logs that were cleaned


@pytest.fixture
async def compacted(broker: DevBroker) -> DevBroker:
    """The topic ``t`` had 60 records of three keys, and has the last of each; one more was written afterwards."""
    broker.create_topic("t", partitions=1, config={"cleanup.policy": "compact"})
    async with KafkaProducer(broker.bootstrap_servers, linger_ms=0) as producer:
        for number in range(60):
            await producer.send("t", b"%d" % number, key=b"%d" % (number % 3), partition=0)
        broker.controls.clean_logs()
        await producer.send("t", b"after", key=b"new", partition=0)
    assert in_log(broker, "t") == [(0, 57, "57"), (0, 58, "58"), (0, 59, "59"), (0, 60, "after")]
    return broker


@pytest.mark.parametrize("client", ["confluent-consume", "aiokafka-read", "kafka-python-read"])
async def test_a_compacted_topic_is_read_past_its_removed_records(compacted: DevBroker, client: str) -> None:
    group = ("g",) if client == "confluent-consume" else ()
    said = await run(client, compacted.bootstrap_servers, "t", *group, 4)
    assert list(map(tuple, said["read"])) == in_log(compacted, "t")


@pytest.mark.java
async def test_javas_consumer_reads_a_compacted_topic(compacted: DevBroker, tool_server: ToolServer) -> None:
    assert await tool_server.console_consumer(compacted.bootstrap_servers, "t", max_messages=4) == [
        "57",
        "58",
        "59",
        "after",
    ]


# racks


@pytest.fixture
async def racks() -> AsyncIterator[DevBroker]:
    """Three nodes in three racks; ``t`` has 100 records, and node 1 leads it."""
    options: dict[str, Any] = {"broker_rack": "a,b,c", "replica_selector_class": RACK_AWARE}
    async with DevBroker(nodes=3, **options) as broker:
        broker.create_topic("t", partitions=1)
        await run("confluent-produce", broker.bootstrap_servers, "t", 100, "none")
        yield broker


async def test_librdkafka_reads_from_the_replica_in_its_rack(racks: DevBroker) -> None:
    said = await run("confluent-consume", racks.bootstrap_servers, "t", "g", 100, "client_rack=b")
    assert sorted(map(tuple, said["read"])) == sorted(in_log(racks, "t"))
    assert racks.controls.request_count(ApiKey.FETCH, node_id=2) > 0
    assert racks.controls.request_count(ApiKey.FETCH, node_id=3) == 0


@pytest.mark.java
async def test_javas_consumer_reads_from_the_replica_in_its_rack(racks: DevBroker, tool_server: ToolServer) -> None:
    arguments = ("--consumer-property", "client.rack=c")
    read = await tool_server.console_consumer(racks.bootstrap_servers, "t", max_messages=100, arguments=arguments)
    assert len(read) == 100
    assert racks.controls.request_count(ApiKey.FETCH, node_id=3) > 0
    assert racks.controls.request_count(ApiKey.FETCH, node_id=2) == 0


# through the fault proxy


@pytest.fixture
async def proxy(broker: DevBroker) -> AsyncIterator[FaultProxy]:
    """A proxy that is told of one node; nobody may get past it to any."""
    async with FaultProxy(broker.bootstrap_servers.split(",")[0]) as proxy:
        yield proxy
        assert broker.metrics()["connections_accepted"] <= len(proxy.connected_at())
        assert proxy.node_ids == [1, 2, 3]


@pytest.mark.parametrize("client", ["aiokafka", "kafka-python"])
async def test_they_produce_and_consume_through_the_fault_proxy(
    broker: DevBroker, proxy: FaultProxy, client: str
) -> None:
    said = await run(client, proxy.bootstrap_servers, "t", 1000)
    assert said["delivered"] == 1000
    check_produced(broker, "t", 1000)
    assert {tuple(each) for each in said["read"]} == set(in_log(broker, "t"))


async def test_kafka_python_consumes_however_slow_its_group_is(broker: DevBroker, proxy: FaultProxy) -> None:
    proxy.delay(ApiKey.METADATA, 0.6)  # the partitions become known when the group has formed, and it forms again
    proxy.delay(ApiKey.SYNC_GROUP, 0.6)
    said = await run("kafka-python", proxy.bootstrap_servers, "t", 100)
    assert sorted(map(tuple, said["read"])) == sorted(in_log(broker, "t"))


async def test_librdkafka_loses_and_doubles_nothing_under_the_proxys_faults(
    broker: DevBroker, proxy: FaultProxy
) -> None:
    proxy.corrupt(ApiKey.METADATA)
    proxy.drop_next(ApiKey.PRODUCE)
    proxy.truncate(ApiKey.PRODUCE, after_bytes=7)
    proxy.drop_next(ApiKey.PRODUCE, after=False)
    said = await run("confluent-produce", proxy.bootstrap_servers, "t", 10_000, "lz4")
    assert (said["delivered"], said["errors"]) == (10_000, [])
    check_produced(broker, "t", 10_000)
    read = await run("confluent-consume", proxy.bootstrap_servers, "t", "g", 10_000)
    assert sorted(map(tuple, read["read"])) == sorted(in_log(broker, "t"))


@pytest.mark.java
async def test_java_clients_produce_and_consume_through_the_fault_proxy(
    broker: DevBroker, proxy: FaultProxy, tool_server: ToolServer
) -> None:
    broker.create_topic("t", partitions=3)
    said = await tool_server.run(
        PRODUCER_PERFORMANCE,
        *("--topic", "t", "--num-records", 5_000, "--record-size", 100, "--throughput", -1),
        *("--producer-props", f"bootstrap.servers={proxy.bootstrap_servers}"),
    )
    assert "5000 records sent" in said
    lines = await tool_server.console_consumer(proxy.bootstrap_servers, "t", max_messages=5_000)
    assert Counter(lines) == Counter((record.value or b"").decode() for record in broker.records("t"))


# Kafka's Java tools


@pytest.mark.java
@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_java_producer_performance_and_console_consumer(
    broker: DevBroker, tool_server: ToolServer, codec: str
) -> None:
    broker.create_topic("t", partitions=3)
    said = await tool_server.run(
        PRODUCER_PERFORMANCE,
        *("--topic", "t", "--num-records", 20_000, "--record-size", 100, "--throughput", -1),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", f"compression.type={codec}"),
    )
    assert "20000 records sent" in said
    records = broker.records("t")
    assert len(records) == 20_000
    lines = await tool_server.console_consumer(broker.bootstrap_servers, "t", max_messages=20_000)
    assert Counter(lines) == Counter((record.value or b"").decode() for record in records)


@pytest.mark.java
async def test_java_console_producer_and_a_group_that_resumes(broker: DevBroker, tool_server: ToolServer) -> None:
    lines = [f"n:{number}|k{number % 5}|{number}" for number in range(300)]
    await tool_server.run(
        CONSOLE_PRODUCER,
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "t"),
        *("--property", "parse.key=true", "--property", "key.separator=|"),
        *("--property", "parse.headers=true", "--property", "headers.delimiter=|"),
        stdin="\n".join(lines).encode(),
    )
    assert len(broker.records("t")) == 300
    shown = {"print.headers": True, "print.key": True, "key.separator": "|", "headers.separator": ","}
    read: list[str] = []
    for part in (100, 200):
        read += await tool_server.console_consumer(
            broker.bootstrap_servers, "t", max_messages=part, properties=shown, arguments=("--group", "g")
        )
    assert sorted(read) == sorted(lines)
    said = await tool_server.run(GROUPS, "--bootstrap-server", broker.bootstrap_servers, "--describe", "--group", "g")
    rows = [line.split() for line in said.splitlines() if line.startswith("g ")]
    assert sum(int(row[3]) for row in rows) == 300
    assert {row[5] for row in rows} == {"0"}


@pytest.mark.java
async def test_a_java_consumer_of_the_new_protocol_resumes_and_its_group_is_described(
    broker: DevBroker, tools: KafkaTools, tool_server: ToolServer
) -> None:
    await run("confluent-produce", broker.bootstrap_servers, "t", 300, "none")
    arguments = ("--group", "g", "--consumer-property", "group.protocol=consumer")
    server = ("--bootstrap-server", broker.bootstrap_servers)
    reading = asyncio.create_task(
        tools.console_consumer(broker.bootstrap_servers, "t", max_messages=301, arguments=arguments)
    )
    await members_of(broker, "g", 1)
    said = await tool_server.run(GROUPS, *server, "--describe", "--group", "g", "--members", "--verbose")
    (row,) = [line.split() for line in said.splitlines() if line.startswith("g ")]
    assert re.search(r"t[:(]0,1,2", said)
    assert row[3] == "console-consumer"
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("t", b"last")
    assert len(await reading) == 301
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("t", b"later")
    assert await tool_server.console_consumer(broker.bootstrap_servers, "t", max_messages=1, arguments=arguments) == [
        "later"
    ]
    assert "g" in (await tool_server.run(GROUPS, *server, "--list", "--type", "consumer")).split()
    said = await tool_server.run(GROUPS, *server, "--describe", "--group", "g")
    rows = [line.split() for line in said.splitlines() if line.startswith("g ")]
    assert sum(int(row[3]) for row in rows) == 302
    assert {row[5] for row in rows} == {"0"}


@pytest.mark.java
async def test_java_tools_administer_topics_configs_and_groups(broker: DevBroker, tool_server: ToolServer) -> None:
    server = ("--bootstrap-server", broker.bootstrap_servers)
    await tool_server.run(TOPICS, *server, "--create", "--topic", "t", "--partitions", 2, "--replication-factor", 2)
    await tool_server.run(TOPICS, *server, "--alter", "--topic", "t", "--partitions", 4)
    topic = ("--entity-type", "topics", "--entity-name", "t")
    await tool_server.run(
        CONFIGS, *server, "--alter", *topic, "--add-config", "retention.ms=4321,cleanup.policy=compact"
    )
    assert "retention.ms=4321" in await tool_server.run(CONFIGS, *server, "--describe", *topic)
    said = await tool_server.run(TOPICS, *server, "--describe", "--topic", "t")
    assert "PartitionCount: 4\tReplicationFactor: 2" in said
    assert "cleanup.policy=compact" in said
    assert said.count("Leader: ") == 4
    assert (await tool_server.run(TOPICS, *server, "--list")).split() == ["t"]
    await tool_server.run(TOPICS, *server, "--delete", "--topic", "t")
    assert broker.state.topics.get("t") is None
