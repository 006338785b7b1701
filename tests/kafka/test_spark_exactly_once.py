"""A task's side of ``exactlyOnce``, without Spark: attempts at one place, read back from real Kafka as committed."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.common import TopicPartition
from aiokafkapy.reader import PartitionReader
from aiokafkapy.spark.sink import exactly_once
from aiokafkapy.spark.sink.batch_marker import ExactlyOnceError, TaskPlace
from aiokafkapy.spark.sink.exactly_once import send_partition_once
from aiokafkapy.spark.sink.marker_topic import MarkerTopic
from aiokafkapy.spark.sink.messages import WrittenRows
from aiokafkapy.spark.sink.sink_options import SinkOptions
from aiokafkapy.spark.sink.task import Task
from aiokafkapy.spark.worker import worker_loop
from aiokafkapy.testing import ApacheKafka
from tests.waiting import until

pytestmark = pytest.mark.kafka


class Query:
    """One streaming query's tasks, each run in a thread as Spark would in a process of its own."""

    def __init__(self, kafka: ApacheKafka, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kafka = kafka
        self.name = f"q{uuid.uuid4().hex[:8]}"
        self.topic = f"rows-{self.name}"
        self.markers = f"markers-{self.name}"
        self._task = threading.local()
        monkeypatch.setattr(exactly_once, "current_task", lambda: self._task.value)

    async def write(
        self, batches: Iterator[Any] | Sequence[Any], batch_id: int = 0, partition_id: int = 0, **options: str
    ) -> WrittenRows:
        given = {
            "kafka.bootstrap.servers": self.kafka.bootstrap_servers,
            "topic": self.topic,
            "exactlyOnce": "true",
            "exactlyOnceTopic": self.markers,
        }
        parsed = SinkOptions.parse(given | options, is_stream=True)
        once = parsed.exactly_once
        assert once is not None

        def run() -> WrittenRows:
            self._task.value = Task(partition_id, 0, 0, self.name, batch_id)
            return send_partition_once(parsed, once, iter(batches))

        return await asyncio.to_thread(run)

    async def has_records(self) -> None:
        """Wait until there are records, committed or not: only then has the first attempt its transactional id."""
        partition = TopicPartition(self.topic, 0)
        async with PartitionReader(self.kafka.bootstrap_servers) as reader:

            async def has_records() -> bool:
                return (await reader.end_offsets([partition]))[partition] > 0

            await until(has_records)

    async def rows(self) -> list[bytes | None]:
        """The records that a reader with ``read_committed`` sees."""
        partition = TopicPartition(self.topic, 0)
        async with PartitionReader(self.kafka.bootstrap_servers) as reader:
            (end,) = (await reader.end_offsets([partition])).values()
        async with PartitionReader(self.kafka.bootstrap_servers, isolation_level="read_committed") as reader:
            reader.assign([partition])
            reader.stop_at(partition, end)
            async with asyncio.timeout(90):
                return [record.value async for record in reader]


@pytest.fixture
async def query(kafka: ApacheKafka, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Query]:
    query = Query(kafka, monkeypatch)
    await kafka.create_topic(query.topic, 1)
    yield query
    await asyncio.to_thread(worker_loop.stop)


def batch(*values: bytes) -> Any:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


async def test_a_micro_batch_that_comes_again_is_not_written_again(query: Query) -> None:
    for turn in range(3):
        first = await query.write([batch(b"a%d" % turn), batch(b"b%d" % turn, b"c%d" % turn)], turn)
        assert (first.rows, first.rows_before) == (3, 0)
        again = await query.write([batch(b"c%d" % turn, b"a%d" % turn, b"b%d" % turn)], turn)
        assert (again.rows, again.rows_before) == (0, 3)
    assert await query.rows() == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1", b"a2", b"b2", b"c2"]


@pytest.mark.parametrize(("cluster", "replicas", "least"), [("kafka", 1, None), ("kafka3", 3, "2")])
async def test_the_markers_have_three_copies_where_there_are_three_nodes(
    cluster: str, replicas: int, least: str | None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one copy, as topics have by default, no row could be written while its node is away."""
    query = Query(request.getfixturevalue(cluster), monkeypatch)
    await query.kafka.create_topic(query.topic, 1)
    try:
        await query.write([batch(b"a")])
        async with TopicAdmin(query.kafka.bootstrap_servers) as admin:
            (partition,) = (await admin.describe(query.markers)).partitions
            configs = await admin.configs(query.markers)
    finally:
        await asyncio.to_thread(worker_loop.stop)
    assert len(partition.replicas) == replicas
    assert (configs["cleanup.policy"], configs.get("min.insync.replicas")) == ("compact", least)


async def test_places_do_not_hinder_each_other(query: Query) -> None:
    written = await asyncio.gather(*(query.write([batch(b"%d" % n)], 0, n) for n in range(6)))
    assert [one.rows for one in written] == [1] * 6
    assert sorted(await query.rows()) == [b"%d" % n for n in range(6)]  # type: ignore[type-var]


async def test_queries_in_a_process_share_the_markers_that_it_has_read(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch write is a query, and there may be one in every micro-batch."""
    opened: list[str] = []
    really_open = MarkerTopic.open

    async def open_markers(self: MarkerTopic, place: TaskPlace) -> None:
        opened.append(place.query_id)
        await really_open(self, place)

    monkeypatch.setattr(MarkerTopic, "open", open_markers)
    names = [f"{query.name}-{number}" for number in range(3)]
    for name in names:
        query.name = name
        assert (await query.write([batch(b"a")])).rows == 1
        assert (await query.write([batch(b"a")])).rows_before == 1
    assert opened == names[:1]


async def test_records_of_a_failed_attempt_are_never_seen(query: Query) -> None:
    def broken() -> Iterator[Any]:
        yield batch(b"a")
        raise LookupError("the task's own")

    with pytest.raises(LookupError):
        await query.write(broken())
    assert await query.rows() == []
    await query.write([batch(b"a"), batch(b"b")])
    assert await query.rows() == [b"a", b"b"]


@pytest.mark.parametrize("rows", [[b"a"], [b"a", b"c"], []], ids=["fewer", "others", "none"])
async def test_other_rows_in_the_same_place_are_an_error(query: Query, rows: list[bytes]) -> None:
    await query.write([batch(b"a", b"b")])
    with pytest.raises(ExactlyOnceError, match=r"micro-batch 0 of query .*, Spark partition 0: 2 rows are committed"):
        await query.write([batch(*rows)] if rows else [])
    assert await query.rows() == [b"a", b"b"]
    await query.write([batch(b"d")], 1)
    assert await query.rows() == [b"a", b"b", b"d"]


async def test_an_attempt_that_is_overtaken_finds_that_all_is_written(query: Query) -> None:
    """Two attempts at once, as in speculation: the second fences the first, which waits for its marker."""
    goes_on = threading.Event()

    def slow() -> Iterator[Any]:
        yield batch(b"a")
        yield batch(b"b")
        assert goes_on.wait(60)
        yield batch(b"c")

    first = asyncio.create_task(query.write(slow()))
    await query.has_records()
    second = await query.write([batch(b"a", b"b", b"c")])
    goes_on.set()
    assert (second.rows, second.rows_before) == (3, 0)
    assert ((await first).rows, (await first).rows_before) == (0, 3)
    assert await query.rows() == [b"a", b"b", b"c"]


async def test_a_commit_that_is_under_way_is_waited_for(query: Query) -> None:
    """A transaction is open in the topic of the markers: its end decides about the next attempt's view."""
    await query.write([batch(b"a")])
    async with KafkaProducer(query.kafka.bootstrap_servers, transactional_id=f"other-{query.name}") as other:
        await other.begin_transaction()
        await other.send(query.markers, b"{}", key=b"another query's")
        again = asyncio.create_task(query.write([batch(b"a")]))
        await asyncio.wait([again], timeout=1)
        assert not again.done()
        await other.abort_transaction()
        assert (await again).rows_before == 1


async def test_without_rows_nothing_is_begun(query: Query) -> None:
    assert (await query.write([])).rows == 0
    assert (await query.write([batch()])).rows == 0
    assert await query.rows() == []


async def test_where_it_cannot_hold_it_is_refused(query: Query) -> None:
    with pytest.raises(ExactlyOnceError, match=f"topic 'none-{query.name}', which stores .* does not exist"):
        await query.write([batch(b"a")], 5, exactlyOnceTopic=f"none-{query.name}")
    await query.kafka.create_topic(query.markers, 1)
    with pytest.raises(ExactlyOnceError, match=r"has cleanup.policy=delete: expected compact"):
        await query.write([batch(b"a")])
    assert await query.rows() == []
