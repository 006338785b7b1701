"""Our clients and other people's on a dev broker that is an older Kafka, Azure Event Hubs or Redpanda to them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.admin.diagnosis import likely_version
from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.emulation.by_name import emulation_of, known_versions
from aiokafkapy.broker.emulation.releases import release_names
from aiokafkapy.client.nodes.api_versions import NodeApiVersions
from aiokafkapy.errors import UnsupportedForMessageFormatError, UnsupportedVersionError
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.api_versions import ApiVersionsResponse
from aiokafkapy.protocol.codec import encode_response
from tests.clusters import kafka_tools
from tests.raw_client import RawClient
from tests.reading import committed_values
from tests.stock_clients import check_produced, in_log, run
from tests.tool_server import ToolServer

TRANSACTIONAL = [version for version in known_versions() if ApiKey.END_TXN in emulation_of(version).apis]
VALUES = [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("version", known_versions())
async def test_our_producer_and_reader_work_on_every_release_and_product(version: str) -> None:
    async with DevBroker(nodes=2, version=version) as broker:
        broker.create_topic("t", 1)
        async with KafkaProducer(broker.bootstrap_servers, compression_type="gzip") as producer:
            await producer.send_many("t", VALUES)
        assert await committed_values(broker.bootstrap_servers, "t") == VALUES


@pytest.mark.parametrize("version", known_versions())
async def test_our_admin_works_or_names_the_release_that_a_call_needs(version: str) -> None:
    calls: dict[ApiKey, Callable[[TopicAdmin], Awaitable[object]]] = {
        ApiKey.DESCRIBE_CONFIGS: lambda admin: admin.describe_configs(["t"]),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda admin: admin.alter_configs("t", set={"retention.ms": 1_000}),
        ApiKey.DELETE_RECORDS: lambda admin: admin.delete_records({TopicPartition("t", 0): -1}),
    }
    async with DevBroker(nodes=2, version=version) as broker, TopicAdmin(broker.bootstrap_servers) as admin:
        broker.create_topic("t", 1)
        assert len((await admin.describe_cluster()).nodes) == 2
        for api_key, call in calls.items():
            _, highest = emulation_of(version).apis.get(api_key, (-1, -1))
            if highest >= client_versions(api_key)[0]:
                await call(admin)
            else:
                with pytest.raises(UnsupportedVersionError, match=f"{api_key.name}.*: this call needs Kafka "):
                    await call(admin)


@pytest.mark.parametrize("version", TRANSACTIONAL)
async def test_our_transactions_work_where_there_are_any(version: str) -> None:
    async with DevBroker(nodes=2, version=version) as broker:
        broker.create_topic("t", 1)
        async with KafkaProducer(broker.bootstrap_servers, transactional_id="id") as producer:
            with pytest.raises(RuntimeError, match="on purpose"):
                async with producer.transaction():
                    await producer.send("t", b"aborted")
                    raise RuntimeError("on purpose")
            async with producer.transaction():
                await producer.send_many("t", VALUES)
        assert await committed_values(broker.bootstrap_servers, "t") == VALUES


async def test_where_there_are_no_transactions_the_producer_says_so() -> None:
    async with DevBroker(version="event-hubs") as broker:
        broker.create_topic("t", 1)
        async with KafkaProducer(broker.bootstrap_servers, transactional_id="id") as producer:
            with pytest.raises(UnsupportedVersionError, match="the broker does not have ADD_PARTITIONS_TO_TXN"):
                async with producer.transaction():
                    await producer.send("t", b"v")


async def test_event_hubs_refuses_lz4_and_the_producer_says_so() -> None:
    async with DevBroker(version="event-hubs") as broker:
        broker.create_topic("t", 1)
        async with KafkaProducer(broker.bootstrap_servers, compression_type="lz4") as producer:
            with pytest.raises(UnsupportedForMessageFormatError):
                await producer.send("t", b"v" * 1_000)


async def test_our_producer_logs_in_to_event_hubs() -> None:
    user, password = "$ConnectionString", "Endpoint=sb://here/"
    listeners = {"SASL_PLAINTEXT": "127.0.0.1:0"}
    async with DevBroker(version="event-hubs", listeners=listeners, sasl_users={user: password}) as broker:
        async with KafkaProducer(
            broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username=user,
            sasl_password=password,
        ) as producer:
            await producer.send("t", b"v")
        assert [record.value for record in broker.records("t")] == [b"v"]


@pytest.mark.parametrize("version", release_names())
async def test_the_doctor_recognizes_each_release(version: str) -> None:
    """The doctor has tables of the levels of features, and of the versions of Produce and Fetch."""
    newest = emulation_of(version).apis[ApiKey.API_VERSIONS][1]
    async with DevBroker(version=version) as broker, RawClient(broker.nodes[0]) as client:
        software = {"client_software_name": "doctor", "client_software_version": "1"}
        body = await client.call(ApiKey.API_VERSIONS, newest, **software)
    answer = ApiVersionsResponse.read(newest, encode_response(body, 0)[4:])
    likely = likely_version(NodeApiVersions.from_response(answer))
    first, *last = re.findall(r"[\d.]+", likely)
    number = _number(version)
    assert _number(first) <= number <= _number((last or [first])[0]), likely


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


# other people's clients


@pytest.mark.parametrize("version", ["0.11", "2.1", "2.8", "redpanda"])
async def test_librdkafka_produces_and_consumes_in_a_group(version: str) -> None:
    async with DevBroker(nodes=3, num_partitions=3, version=version) as broker:
        said = await run("confluent-produce", broker.bootstrap_servers, "t", 1000, "lz4")
        assert said == {"delivered": 1000, "left": 0, "errors": [], "in_order": True}
        check_produced(broker, "t", 1000)
        said = await run("confluent-consume", broker.bootstrap_servers, "t", "g", 1000)
        assert sorted(map(tuple, said["read"])) == sorted(in_log(broker, "t"))


async def test_librdkafka_produces_to_event_hubs() -> None:
    async with DevBroker(num_partitions=3, version="event-hubs") as broker:
        said = await run("confluent-produce", broker.bootstrap_servers, "t", 1000, "gzip")
        assert (said["delivered"], said["errors"]) == (1000, [])
        check_produced(broker, "t", 1000)


@pytest.mark.parametrize("version", ["2.1", "2.8"])
async def test_aiokafka_produces_and_two_members_share_a_group(version: str) -> None:
    async with DevBroker(nodes=3, num_partitions=3, version=version) as broker:
        said = await run("aiokafka", broker.bootstrap_servers, "t", 1000)
        assert said["delivered"] == 1000
        check_produced(broker, "t", 1000)
        assert {tuple(each) for each in said["read"]} == set(in_log(broker, "t"))


@pytest.mark.java
@pytest.mark.parametrize(
    ("tools_of", "producer", "consumer", "version"),
    [
        ("2.8.2", "kafka.tools.ConsoleProducer", "kafka.tools.ConsoleConsumer", "0.11"),
        ("3.9.1", "kafka.tools.ConsoleProducer", "org.apache.kafka.tools.consumer.ConsoleConsumer", "2.8"),
        # It speaks to no broker before 2.1 (KIP-896).
        ("4.1.0", "org.apache.kafka.tools.ConsoleProducer", "org.apache.kafka.tools.consumer.ConsoleConsumer", "2.1"),
    ],
)
async def test_javas_clients_produce_and_consume_in_a_group(
    tools_of: str, producer: str, consumer: str, version: str
) -> None:
    lines = [str(number) for number in range(100)]
    async with DevBroker(nodes=3, num_partitions=3, version=version) as broker:
        with ToolServer(kafka_tools(tools_of)) as tools:
            answers = await tools.run_all(
                broker.bootstrap_servers,
                [
                    (producer, "--topic", "t"),
                    (consumer, "--topic", "t", "--from-beginning", "--group", "g", "--max-messages", len(lines)),
                ],
                stdin="\n".join(lines).encode(),
            )
        assert [status for status, _ in answers] == [0, 0], answers
        assert sorted(answers[1][1].split()) == sorted(lines)
