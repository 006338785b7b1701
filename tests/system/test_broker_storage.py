"""A dev broker with a data folder: killed under load, it has every record it acknowledged, and knows who sent them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.errors import IllegalStateError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.builder import RecordBatchBuilder

from .raw_client import RawClient

SERVE = """
import asyncio, sys
from aiokafkapy.broker import DevBroker

async def main():
    async with DevBroker(data_dir=sys.argv[1], segment_bytes=200_000) as broker:
        if "t" not in broker.state.topics:
            broker.create_topic("t", partitions=2)
        print(broker.bootstrap_servers, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def broker_process(data_dir: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Node]]:
    """A broker in a process of its own, ended by kill -9 at the latest when the block is left."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(data_dir), stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            line = await process.stdout.readline()
        host, _, port = line.decode().strip().rpartition(":")
        yield process, Node(1, host, int(port))
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()
        assert process.stdout is not None
        await process.stdout.read()


def segments(data_dir: Path) -> list[Path]:
    return sorted(data_dir.rglob("*.log"))


def batch(producer_id: int, sequence: int, values: list[bytes]) -> bytes:
    builder = RecordBatchBuilder(2**20)
    for value in values:
        builder.try_append(1_000, None, value, ())
    builder.seal(0)
    builder.stamp(producer_id, 0, sequence)
    return b"".join(builder.buffers())


def produce_fields(partition: int, records: bytes) -> dict[str, Any]:
    data = {"index": partition, "records": records}
    return {"acks": -1, "timeout": 1_000, "topic_data": [{"name": "t", "partition_data": [data]}]}


async def produce(client: RawClient, partition: int, records: bytes) -> Any:
    body = await client.call(ApiKey.PRODUCE, 9, **produce_fields(partition, records))
    return body.responses[0].partition_responses[0]


class Writer:
    """Sends numbered batches to one partition, several in flight, and notes which of them were acknowledged."""

    def __init__(self, partition: int, producer_id: int, on_acknowledged: Callable[[], None]) -> None:
        self.partition = partition
        self.producer_id = producer_id
        self.on_acknowledged = on_acknowledged
        self.sent = 0
        self.acknowledged: list[int] = []

    def values(self, number: int) -> list[bytes]:
        return [b"%d:%d:" % (number, index) + b"x" * 500 for index in range(10)]

    def batch(self, number: int) -> bytes:
        return batch(self.producer_id, number * 10, self.values(number))

    async def run(self, node: Node) -> None:
        """Until the connection ends."""
        async with RawClient(node) as client:
            try:
                for _ in range(3):
                    self.send(client)
                while True:
                    body = await client.receive(ApiKey.PRODUCE, 9)
                    answer = body.responses[0].partition_responses[0]
                    assert answer.error_code == 0
                    self.acknowledged.append(answer.base_offset)
                    self.send(client)
                    self.on_acknowledged()
            except (ConnectionError, asyncio.IncompleteReadError):
                return

    def send(self, client: RawClient) -> None:
        client.send(ApiKey.PRODUCE, 9, **produce_fields(self.partition, self.batch(self.sent)))
        self.sent += 1


@pytest.mark.parametrize("batches", [7, 150])
async def test_a_broker_killed_under_load_has_all_it_acknowledged(tmp_path: Path, batches: int) -> None:
    writers: list[Writer] = []
    async with broker_process(tmp_path) as (process, node):
        async with RawClient(node) as client:
            ids = [(await client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)).producer_id for _ in range(2)]

        def kill_when_there_are_enough() -> None:
            if sum(len(writer.acknowledged) for writer in writers) == batches:
                process.send_signal(signal.SIGKILL)

        writers += [Writer(partition, ids[partition], kill_when_there_are_enough) for partition in range(2)]
        async with asyncio.timeout(30):
            await asyncio.gather(*(writer.run(node) for writer in writers))
        assert await process.wait() == -signal.SIGKILL

    async with DevBroker(data_dir=tmp_path, segment_bytes=200_000) as broker:
        for writer in writers:
            records = broker.records("t", writer.partition)
            assert writer.acknowledged == [number * 10 for number in range(len(writer.acknowledged))]
            assert writer.acknowledged
            assert len(records) >= len(writer.acknowledged) * 10
            # Nothing twice, nothing between, whole batches only.
            expected = [value for number in range(writer.sent) for value in writer.values(number)]
            assert [record.value for record in records] == expected[: len(records)]
            assert [record.offset for record in records] == list(range(len(records)))
            assert len(records) % 10 == 0
        async with RawClient(broker.nodes[0]) as client:
            for writer in writers:
                await check_sequences(client, writer, len(broker.records("t", writer.partition)) // 10)
            # An id that was given once is never given again.
            again = await client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)
            assert again.producer_id not in ids


async def check_sequences(client: RawClient, writer: Writer, written: int) -> None:
    """The producer's retry of the last batch is known, a gap is refused, and the next batch is taken."""
    last = await produce(client, writer.partition, writer.batch(written - 1))
    assert (last.error_code, last.base_offset) == (0, (written - 1) * 10)
    gap = await produce(client, writer.partition, writer.batch(written + 1))
    assert gap.error_code == 45
    following = await produce(client, writer.partition, writer.batch(written))
    assert (following.error_code, following.base_offset) == (0, written * 10)


@pytest.mark.parametrize("torn", [1, 40, 200])
async def test_a_write_cut_in_the_middle_is_truncated(tmp_path: Path, torn: int) -> None:
    """What a kill between two halves of a write leaves behind, made by hand so that it happens each time."""
    async with DevBroker(data_dir=tmp_path) as broker:
        broker.create_topic("t", partitions=1)
        async with RawClient(broker.nodes[0]) as client:
            await produce(client, 0, batch(5, 0, [b"one"]))
    (segment,) = segments(tmp_path)
    whole = segment.read_bytes()
    segment.write_bytes(whole + batch(5, 1, [b"y" * 300])[:torn])
    async with DevBroker(data_dir=tmp_path) as broker:
        assert [record.value for record in broker.records("t")] == [b"one"]
        assert segment.read_bytes() == whole
        async with RawClient(broker.nodes[0]) as client:
            answer = await produce(client, 0, batch(5, 1, [b"two"]))
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert [record.value for record in broker.records("t")] == [b"one", b"two"]


async def test_topics_offsets_leaders_and_starts_survive(tmp_path: Path) -> None:
    async with DevBroker(nodes=3, data_dir=tmp_path) as broker:
        broker.create_topic("t", partitions=2, max_message_bytes=5_000)
        broker.controls.set_leader("t", 0, 1)
        topic_id, epoch = broker.state.topics.get("t").topic_id, broker.state.topics.partition("t", 0).leader_epoch  # type: ignore[union-attr]
        cluster_id = broker.cluster_id
        async with RawClient(broker.nodes[0]) as client:
            await produce(client, 0, batch(-1, -1, [b"a", b"b", b"c"]))
            deleted = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]
            await client.call(ApiKey.DELETE_RECORDS, 2, topics=deleted, timeout=1_000)
        coordinator = broker.state.coordinator_for("g")
        assert coordinator is not None
        async with RawClient(coordinator) as client:
            commits = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 2}]}]
            await client.call(ApiKey.OFFSET_COMMIT, 8, group_id="g", topics=commits)

    async with DevBroker(nodes=3, data_dir=tmp_path) as broker:
        topic, partition = broker.state.topics.get("t"), broker.state.topics.partition("t", 0)
        assert topic is not None
        assert partition is not None
        assert (broker.cluster_id, topic.topic_id) == (cluster_id, topic_id)
        assert topic.config.max_message_bytes == 5_000
        assert partition.leader == 1
        assert partition.leader_epoch > epoch
        assert (partition.log.start_offset, partition.log.end_offset) == (1, 3)
        assert [record.value for record in broker.records("t")] == [b"b", b"c"]
        assert broker.state.groups.offsets.get("g")[TopicPartition("t", 0)].offset == 2


async def test_a_deleted_topic_stays_deleted(tmp_path: Path) -> None:
    async with DevBroker(data_dir=tmp_path) as broker:
        broker.create_topic("t")
        async with RawClient(broker.nodes[0]) as client:
            await produce(client, 0, batch(-1, -1, [b"a"]))
        broker.delete_topic("t")
        assert not segments(tmp_path)
    async with DevBroker(data_dir=tmp_path) as broker:
        assert "t" not in broker.state.topics
        broker.create_topic("t")
        assert broker.records("t") == []


async def test_a_second_broker_does_not_get_the_same_folder(tmp_path: Path) -> None:
    async with DevBroker(data_dir=tmp_path):
        with pytest.raises(IllegalStateError, match="is in use"):
            await DevBroker(data_dir=tmp_path).start()
    async with DevBroker(data_dir=tmp_path):
        pass
