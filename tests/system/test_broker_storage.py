"""A dev broker with a data folder: killed under load it keeps every acknowledged record; damaged files are named."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiokafkapy.broker import DevBroker
from aiokafkapy.broker.coordination.classic_group import MemberIdentity
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError
from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.errors import IllegalStateError, KafkaStorageError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.builder import RecordBatchBuilder
from tests.raw_client import RawClient

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
        """Send until the connection ends."""
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
    """The rest of a write that a kill cut in two, made by hand so that it happens each time."""
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


# damage


class Kept:
    """A data folder with a little of everything in it, and all that was acknowledged before the broker stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with DevBroker(nodes=2, data_dir=self.folder, segment_bytes=400) as broker:
            broker.create_topic("t", partitions=2)
            broker.create_topic("empty")
            async with RawClient(broker.nodes[0]) as client:
                ids = await client.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)
                for number in range(8):
                    if number in (3, 6):
                        broker.controls.set_leader("t", 0, 2)
                        broker.controls.set_leader("t", 0, 1)
                    values = [b"%d:%d" % (number, index) for index in range(3)]
                    answer = await produce(client, 0, batch(ids.producer_id, number * 3, values))
                    assert answer.error_code == 0
                deleted = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 4}]}]
                await client.call(ApiKey.DELETE_RECORDS, 2, topics=deleted, timeout=1_000)
            broker.controls.set_leader("t", 1, 1)
            async with RawClient(broker.nodes[0]) as client:
                assert (await produce(client, 1, batch(-1, -1, [b"alone"]))).error_code == 0
            for offset in (1, 2, 3):
                offsets = {TopicPartition("t", 1): CommittedOffset(offset, topic_id=self.topic_id(broker))}
                broker.state.groups.commit(MemberIdentity("g", ""), offsets)
            self.seen = self.look(broker)
            self.producer_id = broker.state.producer_ids.generate()

    @staticmethod
    def topic_id(broker: DevBroker) -> Any:
        topic = broker.state.topics.get("t")
        assert topic is not None
        return topic.topic_id

    @classmethod
    def look(cls, broker: DevBroker) -> dict[str, Any]:
        """Everything a client was told that must stay so."""
        return {
            "cluster": broker.cluster_id,
            "topics": sorted(topic.name for topic in broker.state.topics),
            "topic id": cls.topic_id(broker),
            "records": [broker.records("t", partition) for partition in (0, 1)],
            "offsets": broker.state.groups.offsets.get("g"),
        }


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


class Warnings(logging.Handler):
    """The package's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> Self:
        logging.getLogger("aiokafkapy").addHandler(self)
        return self

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("aiokafkapy").removeHandler(self)


async def start_on_damage(kept: Kept, folder: Path, damaged: dict[Path, bytes]) -> DamagedFileError | None:
    """The start is refused, or everything is there or was set aside with a warning, and nothing told next is lost."""
    try:
        with Warnings() as warnings:
            async with DevBroker(nodes=2, data_dir=folder, segment_bytes=400) as broker:
                seen = kept.look(broker)
                assert broker.state.producer_ids.generate() > kept.producer_id
                for partition in (0, 1):
                    async with RawClient(broker.nodes[0]) as client:
                        broker.controls.set_leader("t", partition, 1)
                        answer = await produce(client, partition, batch(-1, -1, [b"new"]))
                    assert answer.error_code == 0
                after = [broker.records("t", partition) for partition in (0, 1)]
    except DamagedFileError as error:
        return error
    if seen != kept.seen:
        may_be_torn = {"records": None, "offsets": None}
        assert {**seen, **may_be_torn} == {**kept.seen, **may_be_torn}
        assert any(str(path) in text for path in damaged for text in warnings.texts)
        assert any(path.suffix.startswith(".torn-") for path in files_of(folder))
    async with DevBroker(nodes=2, data_dir=folder, segment_bytes=400) as broker:
        assert [broker.records("t", partition) for partition in (0, 1)] == after
        assert [records[-1].value for records in after] == [b"new", b"new"]
    return None


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


# one bit, several bytes, or a stretch of zeros: the damage, its file, and its position
FLIPS = st.tuples(st.integers(0, 100), st.floats(0, 1), st.integers(1, 255))
STRETCHES = st.tuples(st.integers(0, 100), st.floats(0, 1), st.just(0))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(FLIPS.map(lambda flip: [flip]), st.lists(st.one_of(FLIPS, STRETCHES), min_size=1, max_size=4)))
def test_no_damage_anywhere_loses_a_record_in_silence(kept: Kept, changes: list[tuple[int, float, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        shutil.copytree(kept.folder, folder)
        files = files_of(folder)
        damaged: dict[Path, bytes] = {}
        for number, fraction, value in changes:
            path = files[number % len(files)]
            data = bytearray(path.read_bytes())
            position = min(int(fraction * len(data)), len(data) - 1)
            if value:
                data[position] ^= value
            else:
                data[position : position + 64] = bytes(len(data[position : position + 64]))
            path.write_bytes(data)
            damaged[path] = bytes(data)
        error = asyncio.run(start_on_damage(kept, folder, damaged))
        if error is not None:
            assert str(error).startswith(f"{error.path} is damaged: ")
            assert error.path.read_bytes() == damaged[error.path]


GARBAGE = b"\xff\xff\xff\xff" * 20 + b"\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *((name, b"") for name in ("meta.properties", "producer-ids", "topic.json")),
        *(
            (name, GARBAGE)
            for name in ("meta.properties", "producer-ids", "topic.json", "group-offsets.jsonl", "*.log")
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "garbage" if value else "empty",
)
async def test_a_damaged_file_is_named_at_the_start(kept: Kept, tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / "data"
    shutil.copytree(kept.folder, folder)
    path = min(folder.rglob(name))
    path.write_bytes(content)
    with pytest.raises(KafkaStorageError, match=rf"{re.escape(str(path))} is damaged: .* Restore the file .*, or \w+ "):
        await DevBroker(data_dir=folder).start()
    assert path.read_bytes() == content
    # Nothing is held: the same start says the same again.
    with pytest.raises(KafkaStorageError, match="is damaged"):
        await DevBroker(data_dir=folder).start()


@pytest.mark.parametrize("name", ["meta.properties", "producer-ids", "group-offsets.jsonl"])
async def test_the_remedy_that_the_error_names_lets_the_broker_start(kept: Kept, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "data"
    shutil.copytree(kept.folder, folder)
    (folder / name).unlink()
    async with DevBroker(nodes=2, data_dir=folder) as broker:
        assert kept.look(broker)["records"] == kept.seen["records"]
        topic = broker.state.topics.get("t")
        assert topic is not None
        producer_ids = {id_ for partition in topic.partitions for id_ in partition.log.producers.producers}
        assert broker.state.producer_ids.generate() > max(producer_ids)


async def test_cutting_a_damaged_segment_as_the_error_says_lets_the_broker_start(kept: Kept, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(kept.folder, folder)
    first, *later = sorted(folder.rglob("0/*.log"))
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    with pytest.raises(KafkaStorageError) as raised:
        await DevBroker(data_dir=folder).start()
    said = re.search(r"cut it to its first (\d+) bytes .* without the records from offset (\d+) on", str(raised.value))
    assert said is not None
    os.truncate(first, int(said[1]))
    for path in later:
        path.unlink()
    async with DevBroker(nodes=2, data_dir=folder) as broker:
        expected = [record for record in kept.seen["records"][0] if record.offset < int(said[2])]
        assert broker.records("t", 0) == expected


def test_the_program_says_which_file_is_damaged(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONASYNCIODEBUG", raising=False)  # whose warnings are on stderr too
    folder = tmp_path / "data"
    shutil.copytree(kept.folder, folder)
    (folder / "producer-ids").write_bytes(b"many")
    command = [sys.executable, "-m", "aiokafkapy", "broker", "--port", "0", "--data-dir", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    said = " ".join(ended.stderr.split())
    assert said.startswith(f"error: {folder / 'producer-ids'} is damaged: ")
    assert "Traceback" not in said


async def test_records_that_a_share_group_has_accepted_are_not_delivered_again_after_a_kill(tmp_path: Path) -> None:
    async def fetch(client: RawClient, epoch: int) -> list[tuple[int, int, int]]:
        (topic,) = (await client.call(ApiKey.METADATA, 12, topics=[{"name": "t"}])).topics
        topics = [{"topic_id": topic.topic_id, "partitions": [{"partition_index": 0}]}]
        fields = {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "topics": topics}
        wanted = {"max_wait": 0, "min_bytes": 1, "max_records": 10, "batch_size": 10}
        body = await client.call(ApiKey.SHARE_FETCH, 1, **fields, **wanted)
        acquired = body.responses[0].partitions[0].acquired_records
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]

    configs = [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}]
    resources = [{"resource_type": 32, "resource_name": "g", "configs": configs}]
    async with broker_process(tmp_path) as (process, node), RawClient(node) as client:
        await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
        joining = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"]}
        body = await client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **joining)
        assert body.error_code == 0, body
        await produce(client, 0, batch(-1, -1, [b"0", b"1", b"2", b"3"]))
        assert await fetch(client, 0) == [(0, 3, 1)]
        said = [{"first_offset": 0, "last_offset": 2, "acknowledge_types": [1, 2, 3]}]
        partitions = [{"partition_index": 0, "acknowledgement_batches": said}]
        topics = [{"topic_id": body.assignment.topic_partitions[0].topic_id, "partitions": partitions}]
        fields = {"group_id": "g", "member_id": "m", "share_session_epoch": 1, "topics": topics}
        answer = await client.call(ApiKey.SHARE_ACKNOWLEDGE, 1, **fields)
        assert answer.responses[0].partitions[0].error_code == 0
        process.send_signal(signal.SIGKILL)
        await process.wait()
    async with broker_process(tmp_path) as (_, node), RawClient(node) as client:
        assert await fetch(client, 0) == [(1, 1, 2), (3, 3, 1)]
