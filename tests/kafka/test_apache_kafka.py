"""``ApacheKafka`` itself: it starts, answers Kafka's own tools, survives its faults and leaves
nothing behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    InvalidReplicaAssignmentError,
    PreferredLeaderNotAvailableError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from aiokafkapy.reader import PartitionReader
from aiokafkapy.testing import ApacheKafka, KafkaToolError, KafkaUnavailableError

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


async def test_kafkas_own_tools_produce_and_consume(kafka: ApacheKafka, topic: str) -> None:
    await kafka.create_topic(topic, partitions=1)
    options = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=|")
    await kafka.tool(CONSOLE_PRODUCER, *options, *keyed, stdin="k1|première\nk2|second\n".encode())
    lines = await kafka.console_consumer(
        topic, max_messages=2, properties={"print.key": True, "print.offset": True, "key.separator": "="}
    )
    assert lines == ["Offset:0=k1=première", "Offset:1=k2=second"]


async def test_the_console_consumer_ends_when_there_is_nothing_to_read(kafka: ApacheKafka, topic: str) -> None:
    await kafka.create_topic(topic)
    assert await kafka.console_consumer(topic, timeout_ms=500) == []


async def test_a_tool_that_fails_repeats_its_output(kafka: ApacheKafka) -> None:
    with pytest.raises(KafkaToolError, match=r"(?s)DumpLogSegments ended with 1:.*--version"):
        await kafka.tool("kafka.tools.DumpLogSegments")
    assert await kafka.tool("kafka.tools.DumpLogSegments", check=False) == ""


async def test_topics_are_made_grown_and_deleted(kafka: ApacheKafka, topic: str) -> None:
    await kafka.create_topic(topic, partitions=2, config={"max.message.bytes": 2048})
    assert list(await kafka.partitions_of(topic)) == [0, 1]
    assert await kafka.leader_of(topic, 1) == 1
    # A broker knows a new partition's leader a moment before it makes its log.
    kafka.admin.wait_until(kafka.log_directory(1, topic, 1).is_dir, 30, "the partition got no log")
    with pytest.raises(TopicAlreadyExistsError, match=topic):
        await kafka.create_topic(topic)
    await kafka.add_partitions(topic, 5)
    assert list(await kafka.partitions_of(topic)) == [0, 1, 2, 3, 4]
    await kafka.delete_topic(topic)
    assert await kafka.partitions_of(topic) == {}
    with pytest.raises(UnknownTopicOrPartitionError):
        await kafka.delete_topic(topic)


async def test_a_killed_node_comes_back_at_its_address_with_its_topics(kafka: ApacheKafka, topic: str) -> None:
    await kafka.create_topic(topic, partitions=3)
    address = kafka.address_of(1)
    kafka.kill(1)
    assert kafka.running == []
    with pytest.raises(ConnectionRefusedError), socket.create_connection(address, 5):
        pass
    await kafka.start(1)
    assert kafka.running == [1]
    assert kafka.address_of(1) == address
    assert list(await kafka.partitions_of(topic)) == [0, 1, 2]


async def test_three_nodes_move_the_leader_when_it_is_killed(kafka3: ApacheKafka, topic: str) -> None:
    await kafka3.create_topic(topic)
    leader = await kafka3.leader_of(topic)
    assert set((await kafka3.partitions_of(topic))[0].replicas) == {1, 2, 3}
    kafka3.kill(leader)
    assert len(kafka3.running) == 2
    kafka3.admin.wait_until(
        lambda: kafka3.admin.partitions(topic)[0].leader not in (leader, -1), 30, "nobody else became leader"
    )
    await kafka3.restore()
    assert kafka3.running == [1, 2, 3]


async def test_three_nodes_move_the_leader_when_it_is_stopped(kafka3: ApacheKafka, topic: str) -> None:
    await kafka3.create_topic(topic)
    leader = await kafka3.leader_of(topic)
    await kafka3.stop(leader)
    # An orderly stop waits until the leaders have moved: no waiting here.
    assert await kafka3.leader_of(topic) not in (leader, -1)


async def test_partitions_are_moved_and_led_from_where_they_are_told(kafka3: ApacheKafka, topic: str) -> None:
    await kafka3.create_topic(topic, partitions=2)
    before = await kafka3.partitions_of(topic)
    leader = before[0].leader
    another, third = (node for node in kafka3.node_ids if node != leader)
    await kafka3.reassign(topic, {0: [another, leader]})
    after = await kafka3.partitions_of(topic)
    assert (after[0].leader, after[0].replicas) == (leader, (another, leader))  # it may go on leading
    assert after[1] == before[1]
    assert await kafka3.elect_leaders(topic) == [0]
    assert await kafka3.leader_of(topic, 0) == another
    assert await kafka3.elect_leaders(topic) == []
    await kafka3.reassign(topic, {0: [third]})
    assert (await kafka3.partitions_of(topic))[0] == (third, (third,), (third,))
    kafka3.kill(third)
    kafka3.admin.wait_until(lambda: kafka3.admin.partitions(topic)[0].leader == -1, 30, "it still has its leader")
    with pytest.raises(PreferredLeaderNotAvailableError, match=f"{topic}-0"):
        await kafka3.elect_leaders(topic, [0])
    with pytest.raises(InvalidReplicaAssignmentError, match=topic):
        await kafka3.reassign(topic, {0: [9]})
    for ask in (kafka3.elect_leaders, lambda name: kafka3.reassign(name, {0: [1]})):
        with pytest.raises(UnknownTopicOrPartitionError):
            await ask("never-made")


def test_a_paused_node_keeps_its_connections_and_is_silent(kafka: ApacheKafka) -> None:
    with socket.create_connection(kafka.address_of(1), 5):
        kafka.pause(1)
        try:
            with pytest.raises(TimeoutError):
                kafka.admin.brokers(kafka.address_of(1), timeout=0.3)
        finally:
            kafka.resume(1)
    assert kafka.admin.brokers(kafka.address_of(1)) == {1}


async def test_a_broker_can_be_added_and_all_is_gone_afterwards() -> None:
    often = {"log.initial.task.delay.ms": 100, "log.retention.check.interval.ms": 100}
    async with ApacheKafka(config={"num.partitions": 4} | often) as kafka:
        await _keeps_records_of_any_age(kafka)
        assert await kafka.add_node() == 2
        assert kafka.running == kafka.node_ids == [1, 2]
        assert kafka.admin.brokers(kafka.address_of(1)) == {1, 2}
        directory = kafka.log_directory(1, "t").parents[2]
        addresses = [kafka.address_of(1), kafka.address_of(2)]
        assert directory.is_dir()
    assert not directory.exists()
    for address in addresses:
        with pytest.raises(ConnectionRefusedError), socket.create_connection(address, 5):
            pass


async def _keeps_records_of_any_age(kafka: ApacheKafka) -> None:
    """Unless a topic says otherwise: when two records of one are gone, Kafka has looked through all topics once."""
    await kafka.create_topic("kept", partitions=1)
    await kafka.create_topic("deleted", partitions=1, config={"retention.ms": 1_000})
    kept, deleted = TopicPartition("kept", 0), TopicPartition("deleted", 0)
    async with (
        KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer,
        PartitionReader(kafka.bootstrap_servers) as reader,
        asyncio.timeout(30),
    ):
        await producer.send("kept", b"of 2001", timestamp_ms=1_000_000_000_000)
        for n in (1, 2):
            await producer.send("deleted", b"of 2001", timestamp_ms=1_000_000_000_000)
            while (await reader.beginning_offsets([deleted]))[deleted] < n:  # noqa: ASYNC110  # only Kafka knows
                await asyncio.sleep(0.1)
        assert await reader.beginning_offsets([kept]) == {kept: 0}


def test_a_node_that_cannot_start_is_an_error_with_its_own_words() -> None:
    with (
        pytest.raises(KafkaUnavailableError, match=r"(?s)node 1 .*num\.io\.threads"),
        ApacheKafka(config={"num.io.threads": 0}),
    ):
        pytest.fail("it must not start")


def test_nodes_die_with_an_owner_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "owner.py"
    program.write_text(
        "from aiokafkapy.testing import ApacheKafka\n"
        "import sys\n"
        "with ApacheKafka() as kafka:\n"
        "    print(kafka.address_of(1)[1], kafka.log_directory(1, 't').parents[2], flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        port, directory = owner.stdout.readline().split()
        os.kill(owner.pid, signal.SIGKILL)
    _wait_until(lambda: not Path(directory).exists())
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(port)), 5):
        pass


def _wait_until(holds: Callable[[], bool], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.02)
