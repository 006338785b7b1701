"""``kafka_cluster`` on a real Kafka, as ``pytest --kafka=real`` gives it to a test: topics, records, and its end."""

from __future__ import annotations

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.admin.topics import TopicAdmin
from aiokafkapy.testing import ApacheKafka
from aiokafkapy.testing.kafka_cluster import Kind, kafka_cluster


@pytest.mark.parametrize("kind", ["real", "proxy"])
async def test_a_test_reads_committed_records_and_leaves_no_topic(kafka: ApacheKafka, kind: Kind) -> None:
    async with kafka_cluster(kind, kafka.bootstrap_servers) as cluster:
        topic = await cluster.create_topic("orders", partitions=2, max_message_bytes=2_000)
        assert await cluster.records(topic) == []
        servers, transactional_id = cluster.bootstrap_servers, cluster.unique("shop")
        async with KafkaProducer(servers, transactional_id=transactional_id) as producer:
            async with producer.transaction():
                await producer.send(topic, b"kept", partition=1)
            with pytest.raises(LookupError):
                async with producer.transaction():
                    await producer.send(topic, b"dropped", partition=0)
                    raise LookupError
        assert [(each.partition, each.value) for each in await cluster.records(topic)] == [(1, b"kept")]
        await cluster.assert_produced(topic, value=b"kept", count=1)
        async with TopicAdmin(kafka.bootstrap_servers) as admin:
            assert (await admin.configs(topic))["max.message.bytes"] == "2000"
    async with TopicAdmin(kafka.bootstrap_servers) as admin:
        assert topic not in {each.name for each in await admin.list_topics()}
