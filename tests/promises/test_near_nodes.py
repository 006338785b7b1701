"""Promise 8: metadata requests are few, and go to nodes that answer soonest."""

from __future__ import annotations

from aiokafkapy.protocol.api import ApiKey

from .proxied_clusters import Cluster


async def test_metadata_is_asked_of_near_nodes_and_a_distant_one_still_gets_its_records(cluster3: Cluster) -> None:
    topic = await cluster3.create_topic(partitions=6)
    net = cluster3.net
    async with cluster3.producer() as producer:
        await producer.partitions_for(topic)  # the proxy learns of the nodes with it
    far = net.node_ids[0]
    net.delay(None, 0.1, far)
    async with cluster3.producer(linger_ms=0, metadata_max_age_ms=60) as producer:
        for partition in range(6):
            await producer.send(topic, b"x", partition=partition)  # by now it is connected to all
        mark = net.mark()
        await net.until(lambda: net.request_count(ApiKey.METADATA, since=mark) >= 12, timeout=30)
        asked = [request.node_id for request in net.requests_of(ApiKey.METADATA, since=mark)]
        assert far not in asked
        await producer.send(topic, b"y", partition=0)
        net.delay(None, 0, far)
