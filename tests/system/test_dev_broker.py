"""The dev broker over real sockets: starting and stopping of nodes, the bounds of its queues, and malformed bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.coordination.share_group_manager import ShareGroupHeartbeat
from aiokafkapy.errors import (
    ConfigurationError,
    IllegalStateError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from aiokafkapy.protocol.api import ApiKey
from tests.inside import running_nodes_of
from tests.raw_client import RawClient, connected, write_while_served
from tests.waiting import until


def open_sockets() -> set[str]:
    """The sockets of this process, by inode."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that was opened for listing
            links.append(str(entry.readlink()))
    return {link for link in links if link.startswith("socket:")}


# life


@pytest.mark.alone
async def test_three_nodes_are_ready_within_100_ms() -> None:
    async with DevBroker():
        pass  # the handlers' modules are imported once per process
    began = time.perf_counter()
    async with DevBroker(nodes=3) as broker:
        ready = time.perf_counter() - began
        assert len(broker.bootstrap_servers.split(",")) == 3
        async with RawClient(broker.nodes[2]) as client:
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert ready < 0.1


async def test_stopping_leaves_no_task_and_no_socket() -> None:
    before, tasks = open_sockets(), asyncio.all_tasks()
    broker = DevBroker(nodes=3)
    await broker.start()
    clients = [await asyncio.open_connection("127.0.0.1", node.port) for node in broker.nodes for _ in range(5)]
    await until(lambda: broker.metrics()["connections"] == len(clients))
    await broker.stop()
    assert asyncio.all_tasks() == tasks
    for reader, writer in clients:
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    await until(lambda: open_sockets() == before)
    await broker.stop()
    gc.collect()


async def test_it_starts_again_after_a_stop_on_the_same_ports() -> None:
    broker = DevBroker(nodes=2)
    await broker.start()
    servers = broker.bootstrap_servers
    with pytest.raises(IllegalStateError, match="running already"):
        await broker.start()
    await broker.stop()
    with pytest.raises(IllegalStateError, match="not running"):
        _ = broker.bootstrap_servers
    async with broker:
        assert broker.bootstrap_servers == servers


async def test_a_taken_port_is_an_os_error_and_leaves_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        tasks = asyncio.all_tasks()
        with pytest.raises(OSError, match="in use"):
            await DevBroker(port=taken.getsockname()[1]).start()
        assert asyncio.all_tasks() == tasks


async def test_sockets_that_listen_already_are_taken_with_their_clients() -> None:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in sockets]
    before = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", ports[1]))
    before.sendall(struct.pack("!ihhih", 10, ApiKey.API_VERSIONS, 0, 5, -1))
    async with DevBroker(2, listeners={"PLAINTEXT": Listener("PLAINTEXT", sockets=sockets)}) as broker:
        assert [node.port for node in broker.nodes] == ports
        with before:
            answer = await asyncio.to_thread(before.recv, 8)
            assert struct.unpack("!i", answer[4:]) == (5,)
        broker.controls.stop_node(2)
        broker.controls.start_node(2)
        assert [node.port for node in broker.nodes] == ports
    assert [each.fileno() for each in sockets] == [-1, -1]


async def test_sockets_of_a_broker_that_cannot_start_are_closed(tmp_path: Path) -> None:
    sockets = [socket.create_server(("127.0.0.1", 0))]
    async with DevBroker(data_dir=tmp_path):
        broker = DevBroker(data_dir=tmp_path, listeners={"PLAINTEXT": Listener("PLAINTEXT", sockets=sockets)})
        with pytest.raises(IllegalStateError, match="in use"):
            await broker.start()
    assert [each.fileno() for each in sockets] == [-1]


def test_wrong_options_are_refused_without_a_loop() -> None:
    with pytest.raises(ConfigurationError, match="at least one node"):
        DevBroker(nodes=0)
    with pytest.raises(ConfigurationError, match="over 65535"):
        DevBroker(nodes=3, port=65_534)
    with pytest.raises(ConfigurationError, match="did you mean 'num_partitions'"):
        DevBroker(num_partition=3)


@pytest.mark.parametrize("turns", range(4))
async def test_a_broker_whose_stop_is_cancelled_leaves_its_data_to_another(tmp_path: Path, turns: int) -> None:
    broker = DevBroker(data_dir=tmp_path)
    await broker.start()
    broker.create_topic("t")
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("t", b"1")
    stopping = asyncio.ensure_future(broker.stop())
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.wait([stopping])
    if not turns:
        await broker.stop()  # it had not begun
    async with DevBroker(data_dir=tmp_path) as another:
        assert [record.value for record in another.records("t")] == [b"1"]


async def test_cluster_id_and_topics_survive_in_a_data_dir(tmp_path: Path) -> None:
    async with DevBroker(data_dir=tmp_path) as broker:
        broker.create_topic("kept", partitions=2)
        cluster_id, topic_id = broker.cluster_id, broker.state.topics.get("kept").topic_id  # type: ignore[union-attr]
    async with DevBroker(data_dir=tmp_path) as broker:
        topic = broker.state.topics.get("kept")
        assert topic is not None
        assert (broker.cluster_id, topic.topic_id, len(topic.partitions)) == (cluster_id, topic_id, 2)
    async with DevBroker() as broker:
        assert broker.cluster_id != cluster_id


async def test_ipv6_addresses_are_bracketed() -> None:
    async with DevBroker(host="::1") as broker:
        assert broker.bootstrap_servers == f"[::1]:{broker.nodes[0].port}"
        async with RawClient(broker.nodes[0]) as client:
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


# topics


async def test_topics_are_made_and_deleted_synchronously() -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=3, retention_ms=1000, config={"max.message.bytes": "99"})
        topic = broker.state.topics.get("t")
        assert topic is not None
        assert topic.config.overrides == {"retention.ms": "1000", "max.message.bytes": "99"}
        assert broker.records("t", 2) == broker.records("t") == []
        with pytest.raises(TopicAlreadyExistsError):
            broker.create_topic("t")
        with pytest.raises(UnknownTopicOrPartitionError, match="t-3"):
            broker.records("t", 3)
        broker.delete_topic("t")
        assert broker.records("t") == broker.records("t", 0) == []
        with pytest.raises(UnknownTopicOrPartitionError):
            broker.delete_topic("t")


async def test_every_version_of_metadata_tells_of_nodes_and_topics() -> None:
    async with DevBroker(nodes=2) as broker:
        broker.create_topic("t", partitions=2)
        async with RawClient(broker.nodes[0]) as client:
            for version in range(14):
                body = await client.call(ApiKey.METADATA, version, topics=[{"name": "t"}, {"name": f"made-{version}"}])
                assert [node.port for node in body.brokers] == [node.port for node in broker.nodes]
                assert [topic.error_code for topic in body.topics] == [0, 0]
                assert [partition.leader_id for partition in body.topics[0].partitions] == [1, 2]
                if version >= 10:
                    assert body.topics[0].topic_id == broker.state.topics.get("t").topic_id  # type: ignore[union-attr]
            everything = await client.call(ApiKey.METADATA, 13, topics=None)
            assert len(everything.topics) == 15
            assert len((await client.call(ApiKey.METADATA, 0, topics=[])).topics) == 15
            assert len((await client.call(ApiKey.METADATA, 1, topics=[])).topics) == 0


async def test_api_versions_of_the_future_is_answered_in_version_0() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        header = struct.pack(">hhih", ApiKey.API_VERSIONS, 77, 5, 2) + b"me" + b"\0"
        client.writer.write(struct.pack(">i", len(header)) + header)
        body = await client.receive(ApiKey.API_VERSIONS, 0)
        assert body.error_code == 35
        assert [(key.api_key, key.min_version, key.max_version) for key in body.api_keys] == [(18, 0, 4)]
        # and the connection goes on
        again = await client.call(ApiKey.API_VERSIONS, 4, client_software_name="x", client_software_version="1")
        assert again.error_code == 0


# nodes


async def test_a_stopped_node_is_gone_and_its_partitions_move_with_a_higher_epoch() -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", partitions=3)
        before = {p.index: (p.leader, p.leader_epoch) for p in broker.state.topics.get("t").partitions}  # type: ignore[union-attr]
        address = broker.nodes[0]
        async with RawClient(address) as on_the_node:
            await on_the_node.call(ApiKey.API_VERSIONS, 0)
            broker.controls.stop_node(1)
            assert await on_the_node.is_closed_by_peer()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)
        async with RawClient(broker.nodes[1]) as client:
            body = await client.call(ApiKey.METADATA, 13, topics=[{"name": "t"}])
            assert [node.node_id for node in body.brokers] == [2, 3]
            assert body.controller_id == 2
            for partition in body.topics[0].partitions:
                leader, epoch = before[partition.partition_index]
                if leader == 1:
                    assert partition.leader_id in (2, 3)
                    assert partition.leader_epoch == epoch + 1
                else:
                    assert (partition.leader_id, partition.leader_epoch) == (leader, epoch)
                assert partition.offline_replicas == (1,)
        broker.controls.start_node(1)
        assert broker.nodes[0] == address
        async with RawClient(address) as client:
            body = await client.call(ApiKey.METADATA, 13, topics=None)
            assert [node.node_id for node in body.brokers] == [1, 2, 3]


async def test_a_node_that_stops_and_starts_moves_only_the_coordinators_that_it_had() -> None:
    names = [f"group-{each}" for each in range(30)]
    async with DevBroker(nodes=3) as broker:

        def places() -> dict[str, int]:
            return {name: node.node_id for name in names if (node := broker.state.coordinator_for(name))}

        before = places()
        assert set(before.values()) == {1, 2, 3}
        broker.controls.stop_node(3)
        broker.controls.start_node(3)
        assert places() == {name: 1 if place == 3 else place for name, place in before.items()}


async def test_while_no_node_coordinates_a_group_no_session_of_it_runs() -> None:
    async with DevBroker(nodes=2) as broker:
        controls, groups = broker.controls, broker.state.groups
        groups.share_groups.heartbeat(
            ShareGroupHeartbeat(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        )
        member = groups.share_groups.find("g").members["m"]
        timers = [member.session_timer]
        coordinator = broker.state.coordinator_for("g")
        assert coordinator is not None
        first = coordinator.node_id
        for change in (
            lambda: controls.stop_node(first),  # the other one begins the session anew
            lambda: controls.start_node(first),  # which moves nothing
            lambda: controls.move_coordinator("g", None),
            lambda: controls.move_coordinator("g", first),
            lambda: [controls.stop_node(node_id) for node_id in (1, 2)],
            lambda: controls.start_node(first),
        ):
            change()
            timers.append(member.session_timer)
    assert [timer is None for timer in timers] == [False, False, False, True, False, True, False]
    assert [before is after for before, after in itertools.pairwise(timers)][:2] == [False, True]


async def test_nobody_else_gets_the_port_of_a_stopped_node() -> None:
    """Neither by asking for it, nor, as a system chooses ports, by asking for any."""
    async with DevBroker(nodes=2) as broker:
        address = broker.nodes[0]
        broker.controls.stop_node(1)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((address.host, address.port))
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)
        broker.controls.start_node(1)
        async with RawClient(address) as client:
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        broker.controls.stop_node(1)
    with socket.socket() as other:
        other.bind((address.host, address.port))


async def test_with_the_last_node_stopped_there_is_no_leader_until_one_starts() -> None:
    async with DevBroker(nodes=2) as broker:
        broker.create_topic("t")
        for node_id in (1, 2):
            broker.controls.stop_node(node_id)
        assert broker.running_nodes == []
        assert broker.state.topics.partition("t", 0).leader is None  # type: ignore[union-attr]
        broker.controls.start_node(2)
        assert broker.state.topics.partition("t", 0).leader == 2  # type: ignore[union-attr]
        async with RawClient(broker.nodes[1]) as client:
            body = await client.call(ApiKey.METADATA, 13, topics=[{"name": "t"}])
            assert body.topics[0].partitions[0].leader_id == 2


async def test_stop_and_start_in_one_breath_leaves_the_node_up() -> None:
    async with DevBroker() as broker:
        for _ in range(20):
            broker.controls.stop_node(1)
            broker.controls.start_node(1)
        async with RawClient(broker.nodes[0]) as client:
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_nodes_that_do_not_exist_are_refused() -> None:
    async with DevBroker() as broker:
        for call in (broker.controls.stop_node, broker.controls.start_node, broker.controls.drop_connections):
            with pytest.raises(ValueError, match="there is no node 7"):
                call(7)


# bounds


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">i", 104_857_601),
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        struct.pack(">i", 4) + b"\0\0\0\0",
        struct.pack(">ihhih", 10, 999, 0, 1, -1),  # an API nobody knows
        struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 1, -1),  # a version nobody knows
        struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 1, -1, 2**31 - 1),  # two billion topics claimed
        struct.pack(">ihhihi", 14, ApiKey.METADATA, 1, 1, 9999, 0),  # a client id longer than the frame
    ],
    ids=["negative", "too-large", "http", "no-header", "api", "version", "array", "client-id"],
)
async def test_bytes_that_are_not_a_request_close_that_connection_only(bytes_sent: bytes) -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as other, RawClient(broker.nodes[0]) as hostile:
        await other.call(ApiKey.API_VERSIONS, 0)
        hostile.writer.write(bytes_sent)
        assert await hostile.is_closed_by_peer()
        assert (await other.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_bytes_after_a_requests_body_are_ignored() -> None:
    # librdkafka asks for all topics with three bytes too many; Java's broker does not mind.
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        header = struct.pack(">hhih", ApiKey.METADATA, 13, 3, 7) + b"rdkafka" + b"\0"
        request = header + bytes.fromhex("00000000010000")
        client.writer.write(struct.pack(">i", len(request)) + request)
        assert (await client.receive(ApiKey.METADATA, 13)).cluster_id == broker.cluster_id


async def test_pipelined_requests_are_answered_in_order_one_at_a_time() -> None:
    async with DevBroker() as broker, RawClient(broker.nodes[0]) as client:
        in_progress: list[asyncio.Future[Any]] = []

        def park(context: Any, body: Any) -> Any:
            in_progress.append(asyncio.get_running_loop().create_future())
            return in_progress[-1]

        broker.controls.on_request(ApiKey.METADATA, park)
        for _ in range(3):
            client.send(ApiKey.METADATA, 1, topics=[])
        client.send(ApiKey.API_VERSIONS, 0)
        await until(lambda: in_progress)
        for turn in range(3):
            assert len(in_progress) == turn + 1
            assert broker.controls.request_count(ApiKey.API_VERSIONS) == 0
            in_progress[turn].set_exception(KafkaError("never mind"))
            await client.receive(ApiKey.METADATA, 1)
            expected = min(3, turn + 2)
            await until(lambda: len(in_progress) == expected)  # noqa: B023
        assert (await client.receive(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_a_parked_request_frees_its_handler_and_ends_with_its_connection() -> None:
    async with DevBroker(num_io_threads=1) as broker:
        parked: list[asyncio.Future[Any]] = []

        def park(context: Any, body: Any) -> Any:
            parked.append(asyncio.get_running_loop().create_future())
            return parked[-1]

        broker.controls.on_request(ApiKey.METADATA, park)
        async with RawClient(broker.nodes[0]) as waiting, RawClient(broker.nodes[0]) as other:
            waiting.send(ApiKey.METADATA, 1, topics=[])
            await until(lambda: parked)
            assert (await other.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        await until(lambda: parked[0].cancelled())


async def test_a_full_request_queue_stops_reading_and_loses_nothing() -> None:
    async with DevBroker(queued_max_requests=2, num_io_threads=1, num_network_threads=2) as broker:
        clients = [RawClient(broker.nodes[0]) for _ in range(20)]
        for client in clients:
            await client.__aenter__()
        for client in clients:
            for _ in range(3):
                client.send(ApiKey.METADATA, 1, topics=[])
        async with asyncio.timeout(10):
            for client in clients:
                for _ in range(3):
                    await client.receive(ApiKey.METADATA, 1)
        assert broker.controls.request_count(ApiKey.METADATA) == 60
        for client in clients:
            await client.__aexit__(None, None, None)


async def test_a_client_that_never_reads_is_not_served_further() -> None:
    async with DevBroker(socket_send_buffer_bytes=4096) as broker:
        for number in range(200):
            broker.create_topic(f"a-topic-with-quite-a-long-name-{number}", partitions=10)
        with await connected(broker, receive_buffer=4096) as deaf:
            assert await write_while_served(broker, [deaf]) > 100
            assert 1 <= broker.controls.request_count(ApiKey.METADATA) < 20
            async with RawClient(broker.nodes[0]) as other:
                assert (await other.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_idle_connections_are_closed_the_least_recently_used_first() -> None:
    async with DevBroker(connections_max_idle_ms=1_500, num_network_threads=1) as broker:
        node = broker.nodes[0]
        async with RawClient(node) as idle, RawClient(node) as busy:
            ended = asyncio.create_task(idle.is_closed_by_peer())
            while not ended.done():
                await busy.call(ApiKey.API_VERSIONS, 0)
                await asyncio.sleep(0.01)
            assert ended.result()
            assert broker.metrics()["connections_expired"] == 1
            assert (await busy.call(ApiKey.API_VERSIONS, 0)).error_code == 0


async def test_connections_over_the_limit_of_an_address_are_closed_at_once() -> None:
    async with DevBroker(max_connections_per_ip=2) as broker:
        async with RawClient(broker.nodes[0]) as first, RawClient(broker.nodes[0]) as second:
            await first.call(ApiKey.API_VERSIONS, 0)
            await second.call(ApiKey.API_VERSIONS, 0)
            async with RawClient(broker.nodes[0]) as third:
                assert await third.is_closed_by_peer()
            assert broker.metrics()["connections_refused"] == 1
        await until(lambda: broker.metrics()["connections"] == 0)
        async with RawClient(broker.nodes[0]) as client:
            await client.call(ApiKey.API_VERSIONS, 0)


async def test_connections_over_the_total_wait_for_a_slot() -> None:
    async with DevBroker(max_connections=1) as broker, RawClient(broker.nodes[0]) as waiting:
        await waiting.call(ApiKey.API_VERSIONS, 0)
        async with RawClient(broker.nodes[0]) as second:
            answer = asyncio.create_task(second.call(ApiKey.API_VERSIONS, 0))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not answer.done()
            waiting.writer.close()
            assert (await answer).error_code == 0


async def test_many_connections_at_once_are_all_served_and_spread_evenly() -> None:
    async with DevBroker(num_network_threads=3) as broker:
        clients = [RawClient(broker.nodes[0]) for _ in range(150)]
        await asyncio.gather(*(client.__aenter__() for client in clients))
        await asyncio.gather(*(client.call(ApiKey.API_VERSIONS, 0) for client in clients))
        shares = [len(processor.connections) for processor in running_nodes_of(broker)[1].server.processors]
        assert shares == [50, 50, 50]
        await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))
        await until(lambda: broker.metrics()["connections"] == 0)


async def test_request_time_over_the_quota_is_throttled_and_muted() -> None:
    async with DevBroker(request_percentage=0.0001, quota_window_num=2) as broker:
        node = broker.nodes[0]
        async with RawClient(node) as client:
            began = time.monotonic()
            body = await client.call(ApiKey.METADATA, 13, topics=None)
            assert body.throttle_time.total_seconds() > 0
            assert time.monotonic() - began < body.throttle_time.total_seconds(), "KIP-219: the answer does not wait"
            broker.controls.clear()
            client.send(ApiKey.API_VERSIONS, 0)
            for _ in range(10):
                await asyncio.sleep(0.001)
            assert broker.controls.request_count(ApiKey.API_VERSIONS) == 0


async def test_an_idle_broker_wakes_up_for_nothing() -> None:
    async with DevBroker(nodes=3) as broker, RawClient(broker.nodes[0]) as client:
        await client.call(ApiKey.API_VERSIONS, 0)
        loop: Any = asyncio.get_running_loop()
        if not hasattr(loop, "_ready"):
            pytest.skip("only asyncio's own loop shows its queue")
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(loop._ready) == 0
