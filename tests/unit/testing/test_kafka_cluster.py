"""``kafka_cluster`` and ``pytest --kafka=``: the same tests on a dev broker, in memory, behind a proxy and on a cluster
that runs already; topics of their own, also in the processes of pytest-xdist.
"""

from __future__ import annotations

import os
import re

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.admin.topics import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.kafka_cluster import KafkaCluster
from aiokafkapy.testing.kafka_cluster import kafka_cluster as new_cluster

pytestmark = pytest.mark.slow

# None of the other plugins, each of which would be imported, is needed.
ALONE = ("-p", "no:randomly", "-p", "no:faker", "-p", "no:hypothesispytest")
LOOP_SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function", *ALONE)

TESTS = """
import pytest

pytestmark = pytest.mark.asyncio

@pytest.mark.parametrize("number", range(4))
async def test_orders(kafka_cluster, kafka_producer, number):
    topic = await kafka_cluster.create_topic("orders", partitions=2)
    print("RUN", kafka_cluster.kind, topic, kafka_cluster.bootstrap_servers)
    await kafka_producer.send(topic, b"book", partition=number % 2)
    await kafka_cluster.assert_produced(topic, value=b"book", count=1)
    assert [record.partition for record in await kafka_cluster.records(topic)] == [number % 2]

async def test_needs_a_dev_broker(kafka_broker, kafka_producer):
    await kafka_producer.send("orders", b"1")
    assert len(kafka_broker.records("orders")) == 1
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(TESTS)
    return pytester.runpytest_subprocess("-rA", *LOOP_SCOPE, *options)


def runs(result: pytest.RunResult) -> list[tuple[str, str, str]]:
    """Kind, topic and address of each test that ran."""
    found = re.findall(r"^RUN (\S+) (\S+) (\S+)$", result.stdout.str(), re.MULTILINE)
    return [(kind, topic, servers) for kind, topic, servers in found]


@pytest.mark.parametrize("kind", ["dev", "memory", "proxy"])
def test_tests_run_on_each_kind_of_dev_broker(pytester: pytest.Pytester, kind: str) -> None:
    result = run(pytester, *([] if kind == "dev" else [f"--kafka={kind}"]))
    result.assert_outcomes(passed=5)
    assert {each[0] for each in runs(result)} == {kind}


async def test_tests_run_on_an_existing_cluster_and_leave_only_the_existing_topics(
    pytester: pytest.Pytester, kafka_broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    kafka_broker.create_topic("mine")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka_broker.bootstrap_servers)
    result = await asyncio.to_thread(run, pytester, "--kafka=real", "-n", "2")
    result.assert_outcomes(passed=4, skipped=1)
    result.stdout.fnmatch_lines(["*SKIPPED*kafka_broker is a DevBroker, and this run is on a real Kafka*"])
    found = runs(result)
    assert {servers for _, _, servers in found} == {kafka_broker.bootstrap_servers}
    topics = {topic for _, topic, _ in found}
    assert len(topics) == 4
    assert {topic.split("-")[1] for topic in topics} == {"gw0", "gw1"}
    assert kafka_broker.controls.request_count(ApiKey.CREATE_TOPICS) == 4
    assert [topic.name for topic in kafka_broker.state.topics] == ["mine"]


def test_each_process_of_xdist_has_brokers_of_its_own(pytester: pytest.Pytester) -> None:
    result = run(pytester, "-n", "2")
    result.assert_outcomes(passed=5)
    found = runs(result)
    assert {topic.split("-")[1] for _, topic, _ in found} == {"gw0", "gw1"}
    assert len({topic for _, topic, _ in found}) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kafka=real"], "--kafka=real: say where it is, by --kafka-bootstrap-servers or KAFKA_BOOTSTRAP_SERVERS"),
        (["--kafka-bootstrap-servers=h:1"], "--kafka-bootstrap-servers=h:1: it is for --kafka=real and --kafka=proxy"),
        (["--kafka=cloud"], "invalid choice: 'cloud'"),
        (["--kafka-seeds=0"], "--kafka-seeds=0: without a seed nothing is tested"),
    ],
)
def test_wrong_options_are_usage_errors(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    result = run(pytester, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


async def test_a_proxy_breaks_connections_of_the_service_and_not_the_test_s() -> None:
    async with new_cluster("proxy") as cluster:
        assert cluster.proxy is not None
        assert cluster.broker is not None
        assert cluster.bootstrap_servers != cluster.broker.bootstrap_servers
        topic = await cluster.create_topic()
        async with KafkaProducer(cluster.bootstrap_servers) as producer:
            cluster.proxy.drop_next(ApiKey.PRODUCE)
            await producer.send(topic, b"book")
        cluster.proxy.refuse()
        await cluster.assert_produced(topic, value=b"book", count=1)


async def test_a_real_cluster_may_be_behind_the_proxy(kafka_broker: DevBroker) -> None:
    async with new_cluster("proxy", kafka_broker.bootstrap_servers) as cluster:
        topic = await cluster.create_topic()
        assert cluster.broker is None
        async with KafkaProducer(cluster.bootstrap_servers) as producer:
            await producer.send(topic, b"book")
        assert [record.value for record in kafka_broker.records(topic)] == [b"book"]
    assert not list(kafka_broker.state.topics)


async def test_records_are_those_that_are_committed(kafka_cluster: KafkaCluster) -> None:
    topic = await kafka_cluster.create_topic(partitions=2, max_message_bytes=2_000)
    assert await kafka_cluster.records(topic) == []
    async with KafkaProducer(
        kafka_cluster.bootstrap_servers, transactional_id=kafka_cluster.unique("shop")
    ) as producer:
        async with producer.transaction():
            await producer.send(topic, b"kept", partition=1)
        with pytest.raises(LookupError):
            async with producer.transaction():
                await producer.send(topic, b"dropped", partition=0)
                raise LookupError
    assert [(each.partition, each.value) for each in await kafka_cluster.records(topic)] == [(1, b"kept")]
    assert await kafka_cluster.records(topic, 0) == []
    with pytest.raises(AssertionError, match="the nearest"):
        await kafka_cluster.assert_produced(topic, value=b"dropped")
    async with TopicAdmin(kafka_cluster.bootstrap_servers) as admin:
        assert (await admin.configs(topic))["max.message.bytes"] == "2000"


async def test_a_topic_that_is_not_there_has_no_records(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokafkapy.testing.kafka_cluster._TIMEOUT", 0.2)
    assert kafka_cluster.broker is not None
    with pytest.raises(errors.InvalidTopicError):
        await kafka_cluster.records("a topic of no valid name")
    assert await kafka_cluster.records("never-sent") == []
    await kafka_cluster.assert_produced("never-sent", count=0)


def test_unique_names_are_those_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw7")
    cluster = KafkaCluster("real", "h:1")
    name = cluster.unique("Ann's orders/1")
    assert re.fullmatch(r"Ann-s-orders-1-gw7-[0-9a-f]{12}", name)
    assert cluster.unique("a") != cluster.unique("a")
    assert len(cluster.unique("x" * 500)) <= 249
    assert os.environ["PYTEST_XDIST_WORKER"] == "gw7"
