"""The console over a real Kafka: the same views by requests, and nothing written unless asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import aiokafka
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.console.cluster_source import ClusterSource
from aiokafkapy.console.follow import Asked, follow, read_one, read_page
from aiokafkapy.console.source import NewRecord
from aiokafkapy.console.watch import Watch
from aiokafkapy.errors import GroupIdNotFoundError, UnknownTopicOrPartitionError
from aiokafkapy.testing import ApacheKafka

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def opened(kafka: ApacheKafka) -> AsyncIterator[ClusterSource]:
    source = ClusterSource(kafka.bootstrap_servers)
    await source.start()
    try:
        yield source
    finally:
        await source.stop()


async def made(kafka: ApacheKafka, topic: str, partitions: int = 3) -> None:
    async with TopicAdmin(kafka.bootstrap_servers) as admin:
        await admin.create(topic, partitions=partitions, configs={"retention.ms": "-1"})


def asked(topic: str, **parameters: str) -> Asked:
    return Asked.of({"topic": topic, **parameters})


async def test_topics_groups_and_transactions_are_as_kafka_has_them(kafka: ApacheKafka, topic: str) -> None:
    await made(kafka, topic)
    group, transactional_id = f"group-of-{topic}", f"producer-of-{topic}"
    async with KafkaProducer(kafka.bootstrap_servers, transactional_id=transactional_id) as producer:
        async with producer.transaction():
            for partition in range(3):
                await producer.send(topic, b"book", partition=partition)
        await producer.begin_transaction()
        await producer.send(topic, b"lamp", partition=0)
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            client_id="bill",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            await consumer.commit({aiokafka.TopicPartition(topic, 2): 1})
            async with opened(kafka) as source:
                await _check_views(source, topic, group, transactional_id)
        finally:
            await consumer.stop()
            await producer.abort_transaction()


async def _check_views(source: ClusterSource, topic: str, group: str, transactional_id: str) -> None:
    sample = await source.sample()
    assert sample.records[topic] == 7  # four records, and three markers
    cluster = await source.cluster()
    assert [node.node_id for node in cluster.nodes] == [1]
    detail = await source.topic(topic)
    assert (detail.topic.partitions, detail.topic.without_leader, detail.configs["retention.ms"]) == (3, 0, "-1")
    assert [(each.first_offset, each.end_offset, each.leader) for each in detail.partitions] == [
        *[(0, 3, 1), (0, 2, 1), (0, 2, 1)]
    ]
    assert [(lag.group_id, lag.committed, lag.lag) for lag in detail.partitions[2].lags] == [(group, 1, 1)]
    listed = {each.group_id: each for each in await source.groups()}[group]
    assert (listed.state, listed.members, listed.lag, listed.topics) == ("Stable", 1, 1, [topic])
    described = await source.group(group)
    (member,) = described.members
    assert (member.client_id, member.assignment) == ("bill", [f"{topic}-{index}" for index in range(3)])
    assert {(one.partition, one.committed, one.lag, one.member) for one in described.offsets} == {
        *[(0, -1, None, "bill"), (1, -1, None, "bill"), (2, 1, 1, "bill")]
    }
    transactions = {each.transactional_id: each for each in await source.transactions()}
    ours = transactions[transactional_id]
    assert (ours.state, ours.partitions) == ("Ongoing", [f"{topic}-0"])
    assert (ours.started_ms or 0) > 0
    with pytest.raises(UnknownTopicOrPartitionError):
        await source.topic("nowhere")
    with pytest.raises(GroupIdNotFoundError):
        await source.group("no-such-group")


async def test_records_are_read_followed_and_written(kafka: ApacheKafka, topic: str) -> None:
    await made(kafka, topic)
    async with opened(kafka) as source:
        written = [await source.produce(NewRecord(topic, b"%d" % n, b"key-%d" % n)) for n in range(20)]
        page: Any = await read_page(source, asked(topic, **{"from": "earliest"}), None, 100)
        assert sorted(int(row["value"]["text"]) for row in page["rows"]) == list(range(20))
        assert page["is_at_end"]
        some: Any = await read_page(source, asked(topic, filter="key:key-1", **{"from": "last:300"}), None, 3)
        assert (len(some["rows"]), some["is_at_end"]) == (3, False)
        rest: Any = await read_page(source, asked(topic, filter="key:key-1", **{"from": some["next"]}), None, 100)
        found = [row["key"]["text"] for row in [*some["rows"], *rest["rows"]]]
        assert sorted(found) == sorted(f"key-{n}" for n in (1, *range(10, 20)))
        place = {"partition": str(written[7].partition), "from": f"offset:{written[7].offset}"}
        one: Any = await read_one(source, asked(topic, **place), None)
        assert one is not None
        assert one["value"]["text"] == "7"
        seen = 0
        async with aclosing(follow(source, asked(topic), None)) as messages:
            await anext(messages)
            async with KafkaProducer(kafka.bootstrap_servers) as producer:
                await producer.send_many(topic, [b"x" * 100] * 30_000)
            async for message in messages:
                assert len(cast("list[Any]", message["rows"])) <= 50
                seen += message["seen"]
                if seen >= 30_000:
                    break
        assert seen == 30_000
        with pytest.raises(UnknownTopicOrPartitionError):
            await source.feed(topic, 7, asked(topic).start)


async def test_it_is_asked_only_while_somebody_looks_and_a_kafka_that_is_away_is_a_problem(topic: str) -> None:
    source = ClusterSource("127.0.0.1:1", request_timeout_ms=300, socket_connection_setup_timeout_ms=200)
    watch = Watch(source)
    await source.start()
    await watch.start()
    try:
        async with aclosing(watch.look("topics")) as messages:
            found = await anext(messages)
        assert "127.0.0.1:1" in found["problem"]
        assert found["view"] is None
    finally:
        await watch.stop()
        await source.stop()


async def test_records_that_kafka_has_aborted_are_marked_or_left_out(kafka: ApacheKafka, topic: str) -> None:
    await made(kafka, topic, 1)
    async with (
        opened(kafka) as source,
        KafkaProducer(kafka.bootstrap_servers, transactional_id=f"producer-of-{topic}") as producer,
    ):
        for value, ends_well in ((b"kept", True), (b"lost", False)):
            await producer.begin_transaction()
            await producer.send(topic, value)
            await (producer.commit_transaction() if ends_well else producer.abort_transaction())
        await producer.begin_transaction()
        await producer.send(topic, b"open")
        page: Any = await read_page(source, asked(topic, **{"from": "earliest"}), None, 100)
        marks = {row["value"]["text"]: row["outcome"] for row in page["rows"]}
        assert marks == {"kept": "", "lost": "aborted", "open": "pending"}
        committed = asked(topic, isolation="read_committed", **{"from": "earliest"})
        page = await read_page(source, committed, None, 100)
        assert [row["value"]["text"] for row in page["rows"]] == ["kept"]
        await producer.abort_transaction()
