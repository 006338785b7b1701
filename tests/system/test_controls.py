"""Faults on demand, seen by a client that counts every byte."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import (
    KafkaTimeoutError,
    NotControllerError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.protocol.api import ApiKey
from tests.raw_client import RawClient

NEW_TOPIC: dict[str, Any] = {"num_partitions": 1, "replication_factor": 1}


def new_topics(*names: str) -> dict[str, Any]:
    return {"topics": [{"name": name, **NEW_TOPIC} for name in names], "timeout": 1000}


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


async def test_fail_next_fails_as_many_requests_as_said_and_changes_nothing() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        broker.controls.fail_next(ApiKey.CREATE_TOPICS, NotControllerError, times=2)
        codes = [
            int((await client.call(ApiKey.CREATE_TOPICS, 7, **new_topics("t"))).topics[0].error_code) for _ in range(3)
        ]
        assert codes == [41, 41, 0]


async def test_after_append_the_work_is_done_and_the_answer_denies_it() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        broker.controls.fail_next(ApiKey.CREATE_TOPICS, NotControllerError, after_append=True)
        codes = [
            int((await client.call(ApiKey.CREATE_TOPICS, 7, **new_topics("t"))).topics[0].error_code) for _ in range(2)
        ]
        assert codes == [41, 36]  # not controller; already exists


async def test_a_fault_of_one_topic_leaves_the_others_alone_and_counts_once_per_request() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        for name in ("a", "b"):
            broker.create_topic(name)
        broker.controls.fail_next(ApiKey.METADATA, TopicAuthorizationFailedError, topic="b", times=2)
        names = [{"name": name} for name in ("a", "b", "b")]
        seen = [
            [int(t.error_code) for t in (await client.call(ApiKey.METADATA, 13, topics=names)).topics] for _ in "123"
        ]
        assert seen == [[0, 29, 29], [0, 29, 29], [0, 0, 0]]
        broker.controls.fail_next(ApiKey.METADATA, TopicAuthorizationFailedError, topic="b")
        await client.call(ApiKey.METADATA, 13, topics=[{"name": "a"}])  # does not use it up
        body = await client.call(ApiKey.METADATA, 13, topics=[{"name": "b"}])
        assert body.topics[0].error_code == 29


async def test_api_keys_and_errors_may_be_numbers_even_unknown_ones() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        broker.controls.fail_next(3, 4321)
        body = await client.call(ApiKey.METADATA, 13, topics=[{"name": "t"}])
        assert int(body.error_code) == int(body.topics[0].error_code) == 4321
        broker.controls.fail_next(3, 4322, topic="t", times=None)
        for _ in range(3):
            body = await client.call(ApiKey.METADATA, 13, topics=[{"name": "t"}])
            assert int(body.topics[0].error_code) == 4322
        assert broker.controls.request_count(3) == 4


async def test_an_error_that_no_broker_sends_is_refused() -> None:
    async with DevBroker() as broker:
        with pytest.raises(ValueError, match="it has no code"):
            broker.controls.fail_next(ApiKey.PRODUCE, KafkaTimeoutError)
        with pytest.raises(ValueError, match="times=0: it is from 1 to"):
            broker.controls.fail_next(ApiKey.PRODUCE, NotLeaderOrFollowerError, times=0)


@pytest.mark.parametrize("after", [True, False])
async def test_drop_next_closes_the_connection_instead_of_answering(after: bool) -> None:
    async with DevBroker() as broker:
        broker.controls.drop_next(ApiKey.CREATE_TOPICS, after=after)
        async with RawClient(broker.nodes[0]) as client:
            client.send(ApiKey.CREATE_TOPICS, 7, **new_topics("t"))
            assert await client.is_closed_by_peer()
        assert (broker.state.topics.get("t") is not None) == after
        async with RawClient(broker.nodes[0]) as client:
            await client.call(ApiKey.CREATE_TOPICS, 7, **new_topics("u"))


async def test_delay_holds_the_response_back_and_not_the_work() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client, RawClient(broker.nodes[0]) as other:
        broker.controls.delay(ApiKey.CREATE_TOPICS, 0.5)
        began = time.monotonic()
        await client.call(ApiKey.CREATE_TOPICS, 7, **new_topics("t"))
        assert time.monotonic() - began >= 0.5
        broker.controls.delay(ApiKey.CREATE_TOPICS, 600)
        client.send(ApiKey.CREATE_TOPICS, 7, **new_topics("u"))
        async with asyncio.timeout(20):
            await other.call(ApiKey.METADATA, 13, topics=None)
            assert broker.state.topics.get("u") is not None
            broker.controls.delay(ApiKey.CREATE_TOPICS, 0)
            await other.call(ApiKey.CREATE_TOPICS, 7, **new_topics("v"))


async def test_a_delayed_response_dies_with_the_broker() -> None:
    broker = DevBroker()
    await broker.start()
    broker.controls.delay(ApiKey.API_VERSIONS, 60)
    async with RawClient(broker.nodes[0]) as client:
        client.send(ApiKey.API_VERSIONS, 0)
        await turns()
        assert broker.controls.request_count(ApiKey.API_VERSIONS) == 1
        await broker.stop()
        assert await client.is_closed_by_peer()


async def test_dropped_connections_may_come_back() -> None:
    async with DevBroker(nodes=2) as broker:
        async with RawClient(broker.nodes[0]) as first, RawClient(broker.nodes[1]) as second:
            await first.call(ApiKey.API_VERSIONS, 0)
            await second.call(ApiKey.API_VERSIONS, 0)
            assert broker.controls.drop_connections(node_id=1) == 1
            assert await first.is_closed_by_peer()
            assert (await second.call(ApiKey.API_VERSIONS, 0)).error_code == 0
            assert broker.controls.drop_connections() == 1
            assert await second.is_closed_by_peer()
        async with RawClient(broker.nodes[0]) as client:
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_stalled_connections_read_and_write_nothing_and_then_go_on() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        parked: list[asyncio.Future[Any]] = []

        def park(context: Any, body: Any) -> Any:
            parked.append(asyncio.get_running_loop().create_future())
            return parked[-1]

        broker.controls.on_request(ApiKey.METADATA, park)
        client.send(ApiKey.METADATA, 1, topics=[])
        await turns()
        broker.controls.on_request(ApiKey.METADATA, None)
        broker.controls.stall_connections(True)
        parked[0].set_exception(NotControllerError())
        client.send(ApiKey.API_VERSIONS, 0)
        async with RawClient(broker.nodes[0]) as new:  # connects, and that is all
            new.send(ApiKey.API_VERSIONS, 0)
            await turns()
            assert broker.controls.request_count(ApiKey.API_VERSIONS) == 0
            broker.controls.stall_connections(False)
            assert (await new.receive(ApiKey.API_VERSIONS, 0)).error_code == 0
        await client.receive(ApiKey.METADATA, 1)
        assert (await client.receive(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_throttle_tells_the_client_and_is_deaf_to_it_for_as_long() -> None:
    async with DevBroker() as broker:
        broker.controls.throttle("greedy", 400)
        async with RawClient(broker.nodes[0], "greedy") as greedy, RawClient(broker.nodes[0], "modest") as modest:
            began = time.monotonic()
            body = await greedy.call(ApiKey.METADATA, 13, topics=None)
            assert body.throttle_time.total_seconds() == 0.4
            body = await modest.call(ApiKey.METADATA, 13, topics=None)
            assert body.throttle_time.total_seconds() == 0
            await greedy.call(ApiKey.METADATA, 13, topics=None)
            assert time.monotonic() - began >= 0.4
            broker.controls.throttle("greedy", 600_000)
            async with asyncio.timeout(20):  # KIP-219: the answer itself does not wait
                body = await greedy.call(ApiKey.METADATA, 13, topics=None)
            assert body.throttle_time.total_seconds() == 600
        broker.controls.throttle(None, 30)
        async with RawClient(broker.nodes[0], "anybody") as client:
            assert (await client.call(ApiKey.METADATA, 13, topics=None)).throttle_time.total_seconds() == 0.03


async def test_set_leader_moves_with_a_higher_epoch_and_none_leaves_the_partition_alone() -> None:
    async with DevBroker(nodes=3) as broker, RawClient(broker.nodes[0]) as client:
        broker.create_topic("t")
        for leader, expected in ((2, (0, 2, 1)), (None, (5, -1, 2)), (3, (0, 3, 3))):
            broker.controls.set_leader("t", 0, leader)
            partition = (await client.call(ApiKey.METADATA, 13, topics=[{"name": "t"}])).topics[0].partitions[0]
            assert (partition.error_code, partition.leader_id, partition.leader_epoch) == expected
        broker.controls.stop_node(2)
        with pytest.raises(ValueError, match=r"node 2 cannot lead: the running nodes are \[1, 3\]"):
            broker.controls.set_leader("t", 0, 2)


async def test_a_function_on_requests_may_watch_answer_or_raise() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        seen: list[Any] = []

        def watch(context: Any, body: Any) -> None:
            seen.append((context.api_version, context.client_id, [topic.name for topic in body.topics]))

        broker.controls.on_request(ApiKey.METADATA, watch)
        await client.call(ApiKey.METADATA, 12, topics=[{"name": "t"}])
        assert seen == [(12, "raw", ["t"])]

        broker.controls.on_request(ApiKey.METADATA, lambda context, body: context.respond(cluster_id="mine"))
        assert (await client.call(ApiKey.METADATA, 13, topics=None)).cluster_id == "mine"

        def refuse(context: Any, body: Any) -> None:
            raise NotControllerError("no")

        broker.controls.on_request(ApiKey.METADATA, refuse)
        assert (await client.call(ApiKey.METADATA, 13, topics=None)).error_code == 41


async def test_an_exception_in_a_handler_is_that_apis_own_error_and_nothing_else() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:

        def fail(context: Any, body: Any) -> None:
            raise ZeroDivisionError

        broker.controls.on_request(ApiKey.CREATE_TOPICS, fail)
        body = await client.call(ApiKey.CREATE_TOPICS, 7, **new_topics("t"))
        assert body.topics[0].error_code == -1
        assert "ZeroDivisionError" in body.topics[0].error_message
        assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_clear_forgets_faults_counts_and_stalls() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        controls = broker.controls
        controls.fail_next(ApiKey.METADATA, NotControllerError)
        controls.drop_next(ApiKey.METADATA)
        controls.delay(ApiKey.METADATA, 60)
        controls.throttle("raw", 60_000)
        controls.on_request(ApiKey.METADATA, lambda context, body: 1 / 0)  # type: ignore[arg-type,return-value]
        controls.stall_connections(True)
        controls.clear()
        body = await client.call(ApiKey.METADATA, 13, topics=None)
        assert (body.error_code, body.throttle_time.total_seconds()) == (0, 0)
        assert controls.request_count(ApiKey.METADATA) == 1
        assert controls.request_count(ApiKey.METADATA, node_id=2) == 0
        controls.clear()
        assert controls.request_count(ApiKey.METADATA) == 0


async def test_when_time_goes_on_old_records_go_and_new_ones_get_a_later_time() -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", retention_ms=3_600_000, message_timestamp_type="LogAppendTime")
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            first = await producer.send("t", b"old")
            broker.controls.advance_clock(3_500)
            assert len(broker.records("t")) == 1
            broker.controls.advance_clock(200)
            assert broker.records("t") == []
            second = await producer.send("t", b"new")
        assert second.offset == 1
        assert second.timestamp_ms - first.timestamp_ms >= 3_700_000
        with pytest.raises(ValueError, match="seconds=-1: it is from 0 to"):
            broker.controls.advance_clock(-1)


async def test_a_share_groups_lock_of_half_a_minute_ends_at_once() -> None:
    arrived = asyncio.Event()
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as one, RawClient(broker.nodes[0]) as other:
        broker.create_topic("t")
        broker.state.groups.configs.alter("g", {"share.auto.offset.reset": "earliest"})
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"record")
        topic = broker.state.topics.get("t")
        assert topic is not None
        topics = [{"topic_id": topic.topic_id, "partitions": [{"partition_index": 0}]}]
        wanted = {"max_wait": 60_000, "min_bytes": 1, "max_records": 10, "batch_size": 10, "topics": topics}

        async def acquired(client: RawClient) -> list[tuple[int, int]]:
            (partition,) = (await client.receive(ApiKey.SHARE_FETCH, 1)).responses[0].partitions
            return [(each.first_offset, each.delivery_count) for each in partition.acquired_records]

        one.send(ApiKey.SHARE_FETCH, 1, group_id="g", member_id="one", share_session_epoch=0, **wanted)
        assert await acquired(one) == [(0, 1)]
        broker.controls.on_request(ApiKey.SHARE_FETCH, lambda context, body: arrived.set())
        other.send(ApiKey.SHARE_FETCH, 1, group_id="g", member_id="other", share_session_epoch=0, **wanted)
        await arrived.wait()
        await turns(1)  # it waits now
        broker.controls.advance_clock(29)
        await turns(1)
        broker.controls.advance_clock(2)
        assert await acquired(other) == [(0, 2)]


async def test_a_fetch_that_waits_hears_that_its_offset_is_gone() -> None:
    arrived = asyncio.Event()
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        broker.create_topic("t", retention_ms=1_000)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"old")
        broker.controls.on_request(ApiKey.FETCH, lambda context, body: arrived.set())
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000, "current_leader_epoch": -1}
        limits = {"max_wait": 60_000, "min_bytes": 1_000, "max_bytes": 1_000, "session_epoch": -1}
        client.send(ApiKey.FETCH, 12, **limits, topics=[{"topic": "t", "partitions": [wanted]}])
        await arrived.wait()
        await turns(1)  # it waits now
        broker.controls.advance_clock(10)
        body = await client.receive(ApiKey.FETCH, 12)
        assert body.responses[0].partitions[0].error_code == 1
