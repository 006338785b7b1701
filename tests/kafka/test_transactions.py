"""Transactions on real Kafka, version 2 of Kafka 4 (KIP-890) and version 1 of Kafka 3.9, and on the dev broker, which
has both; read back as committed.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol

import confluent_kafka
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.common import TopicPartition
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import PartitionReader
from aiokafkapy.testing import ApacheKafka, FaultProxy
from aiokafkapy.testing.fault_proxy import Answer
from tests.clusters import started
from tests.documents.pages import snippets
from tests.inside import runtime_of
from tests.reading import committed_values

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka_3_9() -> Iterator[ApacheKafka]:
    """Its transactions are of version 1."""
    with started(ApacheKafka(version="3.9.1")) as kafka:
        yield kafka


class Node(Protocol):
    """The cluster of these tests."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses at which it listens."""

    async def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> Any:
        """Create a topic."""


class DevNode:
    """The dev broker as real Kafka is seen."""

    def __init__(self, broker: DevBroker) -> None:
        self._broker = broker

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    async def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> None:
        self._broker.create_topic(name, partitions, config=config)


@pytest.fixture(params=["kafka 4", "kafka 3.9", "dev 2", "dev 1"])
async def node(request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """One node, whose transactions are of version 2, 1, 2 and 1."""
    name, version = request.param.split()
    if name == "dev":
        async with DevBroker(transaction_version=int(version)) as broker:
            yield DevNode(broker)
    else:
        yield request.getfixturevalue("kafka" if version == "4" else "kafka_3_9")


@pytest.fixture
async def topic(node: Node) -> str:
    """A topic with three partitions."""
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    await node.create_topic(name, 3)
    return name


@pytest.fixture
async def producer(node: Node, topic: str) -> AsyncIterator[KafkaProducer]:
    async with transactional(node.bootstrap_servers, topic) as producer:
        yield producer


def transactional(servers: str, name: str, **options: Any) -> KafkaProducer:
    return KafkaProducer(servers, transactional_id=name, linger_ms=0, **options)


async def committed(kafka: Node, topic: str, count: int = 3) -> list[bytes | None]:
    return await committed_values(kafka.bootstrap_servers, topic, count)


def numbered(count: int, name: str = "") -> list[bytes]:
    return [b"%s%d" % (name.encode(), number) for number in range(count)]


async def test_committed_transactions_are_seen_whole_and_aborted_ones_never(
    node: Node, topic: str, producer: KafkaProducer
) -> None:
    for turn in range(3):
        async with producer.transaction():
            await asyncio.gather(*(producer.send(topic, value, partition=turn) for value in numbered(50)))
            await producer.flush()
        with pytest.raises(LookupError):
            async with producer.transaction():
                await producer.send_many(topic, numbered(50, "never "))
                await producer.enqueue(topic, b"never", partition=1)
                raise LookupError
    assert await committed(node, topic) == numbered(50) * 3
    assert producer.statistics().failed <= 3


async def test_the_next_transaction_takes_records_while_one_is_committed(
    node: Node, topic: str, producer: KafkaProducer
) -> None:
    deliveries: list[Any] = []
    await producer.begin_transaction()
    for turn in range(20):
        deliveries += [await producer.enqueue(topic, value, partition=turn % 3) for value in numbered(5, f"{turn} ")]
        commit = asyncio.create_task(producer.commit_and_begin_transaction())
        deliveries += [await producer.enqueue(topic, value, partition=turn % 3) for value in numbered(5, f"{turn}+")]
        await asyncio.sleep(0)
        deliveries += [await producer.enqueue(topic, value, partition=turn % 3) for value in numbered(5, f"{turn}#")]
        await commit
    offsets = [delivery.offset for delivery in await asyncio.gather(*deliveries[:-10])]
    assert len(offsets) == 20 * 15 - 10
    await producer.send(topic, b"never", partition=0)
    await producer.abort_transaction()
    found = [value for value in await committed(node, topic) if value is not None]
    for turn in range(19):
        mine = [value for value in found if value.startswith((b"%d " % turn, b"%d+" % turn, b"%d#" % turn))]
        assert mine == numbered(5, f"{turn} ") + numbered(5, f"{turn}+") + numbered(5, f"{turn}#")
    assert b"never" not in found


async def test_every_way_to_send_is_refused_outside_and_works_inside(
    node: Node, topic: str, producer: KafkaProducer
) -> None:
    table = pa.table({"value": [b"table"]})
    ways: list[Callable[[], Awaitable[Any]]] = [
        lambda: producer.send(topic, b"send"),
        lambda: producer.enqueue(topic, b"enqueue"),
        lambda: producer.send_many(topic, [b"many"]),
        lambda: producer.send_arrow(topic, table),
    ]
    for before in (True, False):
        for way in ways:
            with pytest.raises(errors.IllegalStateError, match=r"no transaction is open.*producer\.transaction\(\)"):
                await way()
        with pytest.raises(errors.IllegalStateError, match="no transaction is open"):
            producer.send_nowait(topic, b"nowait")
        assert await producer.partitions_for(topic)
        await producer.flush()
        if before:
            async with producer.transaction():
                for way in ways:
                    await way()
                await producer.send_nowait(topic, b"nowait")
    assert sorted(await committed(node, topic)) == [b"enqueue", b"many", b"nowait", b"send", b"table"]  # type: ignore[type-var]


async def test_calls_out_of_order_are_refused_and_harm_nothing(topic: str, producer: KafkaProducer) -> None:
    with pytest.raises(errors.IllegalStateError, match=r"commit_transaction\(\) needs the state in_transaction"):
        await producer.commit_transaction()
    await producer.abort_transaction()
    await producer.begin_transaction()
    with pytest.raises(errors.IllegalStateError, match=r"begin_transaction\(\) needs the state ready"):
        await producer.begin_transaction()
    await producer.send(topic, b"x")
    await producer.commit_transaction()
    async with producer.transaction():
        pass  # nothing to commit


async def test_two_phase_commit_is_refused_in_words_where_it_is_not(node: Node, topic: str) -> None:
    refused = (errors.UnsupportedVersionError, errors.TransactionalIdAuthorizationFailedError)
    producer = transactional(node.bootstrap_servers, topic, transaction_two_phase_commit_enable=True)
    with pytest.raises(
        refused, match=r"no two-phase commit \(KIP-939|transaction\.version is 1|needs transaction\.two"
    ):
        await producer.start()


async def test_without_a_transactional_id_there_are_none(kafka: ApacheKafka) -> None:
    async with KafkaProducer(kafka.bootstrap_servers) as producer:
        with pytest.raises(errors.IllegalStateError, match="write transactional_id="):
            await producer.begin_transaction()
    with pytest.raises(errors.ConfigurationError, match="transactional_id='x' needs idempotence"):
        KafkaProducer(kafka.bootstrap_servers, transactional_id="x", enable_idempotence=False)


async def test_a_later_producer_fences_the_earlier_and_ends_its_open_transaction(
    node: Node, topic: str, producer: KafkaProducer
) -> None:
    await producer.begin_transaction()
    await producer.send(topic, b"left open", partition=0)
    async with transactional(node.bootstrap_servers, topic) as later:
        with pytest.raises(errors.KafkaError):
            await producer.send(topic, b"too late", partition=0)
        with pytest.raises(errors.KafkaError):
            await producer.commit_transaction()
        with pytest.raises(errors.ProducerFencedError, match=f"another producer has taken transactional_id='{topic}'"):
            await producer.abort_transaction()
        with pytest.raises(errors.ProducerFencedError):
            await producer.begin_transaction()
        async with later.transaction():
            await later.send(topic, b"of the later", partition=0)
    assert await committed(node, topic) == [b"of the later"]


async def test_offsets_are_committed_with_the_records_or_not_at_all(
    node: Node, topic: str, producer: KafkaProducer
) -> None:
    def of_the_group() -> int:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": topic})
        try:
            (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=30)
            return int(found.offset)
        finally:
            consumer.close()

    async with producer.transaction():
        await producer.send(topic, b"1")
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, topic)
    assert await asyncio.to_thread(of_the_group) == 7
    with pytest.raises(LookupError):
        async with producer.transaction():
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 9}, topic)
            raise LookupError
    assert await asyncio.to_thread(of_the_group) == 7


async def test_a_record_that_fails_leaves_only_an_abort_and_the_producer_as_good_as_new(
    node: Node, topic: str, producer: KafkaProducer
) -> None:
    await node.create_topic(f"{topic}-small", 1, config={"max.message.bytes": "100"})
    with pytest.raises(errors.MessageTooLargeError):
        async with producer.transaction():
            await producer.send(topic, b"never")
            await producer.send(f"{topic}-small", bytes(1_000))
    await producer.begin_transaction()
    delivery = await producer.enqueue(f"{topic}-small", bytes(1_000))
    with pytest.raises(errors.MessageTooLargeError):
        await producer.commit_transaction()
    with pytest.raises(errors.MessageTooLargeError):
        await producer.send(topic, b"never")
    assert isinstance(delivery.exception(), errors.MessageTooLargeError)
    await producer.abort_transaction()
    async with producer.transaction():
        await producer.send(topic, b"new")
    assert await committed(node, topic) == [b"new"]


async def test_cancellation_in_the_body_aborts(node: Node, topic: str, producer: KafkaProducer) -> None:
    inside = asyncio.Event()

    async def body() -> None:
        async with producer.transaction():
            await producer.send(topic, b"never")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with producer.transaction():
        await producer.send(topic, b"after")
    assert await committed(node, topic) == [b"after"]


async def test_closing_in_a_transaction_aborts_it(node: Node, topic: str) -> None:
    producer = transactional(node.bootstrap_servers, topic)
    await producer.start()
    await producer.begin_transaction()
    await producer.send(topic, b"never")
    await producer.close()
    assert await committed(node, topic) == []


@pytest.mark.parametrize("steps", range(8))
async def test_a_cancellation_at_any_step_leaves_whole_transactions_only(
    node: Node, topic: str, producer: KafkaProducer, steps: int
) -> None:
    """Cancelled so many turns of the loop after the first record has its outcome; the next begins where it ended."""

    async def body(name: str) -> None:
        async with producer.transaction():
            await asyncio.gather(*(producer.send(topic, value, partition=0) for value in numbered(5, name)))

    await body("a")
    sent = producer.statistics().delivered
    task = asyncio.create_task(body("b"))
    while producer.statistics().delivered == sent and not task.done():  # noqa: ASYNC110  # each turn counts
        await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    await body("c")
    seen = await committed(node, topic)
    assert seen in (numbered(5, "a") + numbered(5, "c"), numbered(5, "a") + numbered(5, "b") + numbered(5, "c"))
    if not task.cancelled():
        assert len(seen) == 15


class TestOpenForTooLong:
    """The broker aborts a transaction that is open for longer than ``transaction_timeout_ms``."""

    @pytest.fixture
    async def late(self, node: Node, topic: str) -> AsyncIterator[KafkaProducer]:
        """A producer whose transaction is over its time."""
        async with transactional(node.bootstrap_servers, topic, transaction_timeout_ms=300) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"never", partition=0)
            async with PartitionReader(node.bootstrap_servers) as reader, asyncio.timeout(30):
                place = TopicPartition(topic, 0)
                while (await reader.end_offsets([place]))[place] < 2:  # noqa: ASYNC110  # the marker's
                    await asyncio.sleep(0.05)
            yield producer

    @staticmethod
    def version_of(producer: KafkaProducer) -> int:
        version: int = runtime_of(producer).transaction.version
        return version

    async def test_a_late_record_is_refused(self, node: Node, topic: str, late: KafkaProducer) -> None:
        with pytest.raises(errors.InvalidProducerEpochError):
            await late.send(topic, b"late", partition=0)
        with pytest.raises(errors.InvalidProducerEpochError):
            await late.commit_transaction()
        await self.ends_as_the_version_has_it(node, topic, late)

    async def test_late_offsets_are_refused(self, node: Node, topic: str, late: KafkaProducer) -> None:
        refused = (errors.InvalidProducerEpochError, errors.ProducerFencedError)
        with pytest.raises(refused[:1] if self.version_of(late) == 2 else refused):
            await late.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, topic)
        with pytest.raises(refused):
            await late.commit_transaction()
        await self.ends_as_the_version_has_it(node, topic, late)

    async def test_a_late_abort_is_an_abort(self, node: Node, topic: str, late: KafkaProducer) -> None:
        await self.ends_as_the_version_has_it(node, topic, late)

    async def ends_as_the_version_has_it(self, node: Node, topic: str, late: KafkaProducer) -> None:
        """In version 2 the coordinator knows whose transaction it has aborted, and the producer goes on."""
        if self.version_of(late) == 1:
            with pytest.raises(errors.ProducerFencedError, match="open for longer than transaction_timeout_ms=300"):
                await late.abort_transaction()
            assert await committed(node, topic) == []
            return
        await late.abort_transaction()
        async with late.transaction():
            await late.send(topic, b"new", partition=0)
        assert await committed(node, topic) == [b"new"]

    async def test_a_late_commit_commits_nothing_and_says_why(
        self, node: Node, topic: str, late: KafkaProducer
    ) -> None:
        why = errors.ProducerFencedError if self.version_of(late) == 1 else errors.InvalidTxnStateError
        with pytest.raises(why, match="open for longer than transaction_timeout_ms=300") as raised:
            await late.commit_transaction()
        assert not raised.value.outcome_unknown
        with pytest.raises(why):
            await late.begin_transaction()
        assert await committed(node, topic) == []


def from_the_manual(name: str) -> Callable[..., Coroutine[Any, Any, None]]:
    """A function of the page's snippets, as it stands there."""
    (snippet,) = [one for one in snippets("python") if re.search(rf"def {name}[(](producer|consumer)", one.text)]
    names: dict[str, Any] = {}
    exec(compile(snippet.text, snippet.label, "exec"), names)
    found: Callable[..., Coroutine[Any, Any, None]] = names[name]
    return found


@pytest.mark.parametrize("place", ["place", "place_surely"])
async def test_the_manual_s_orders_are_placed(kafka: ApacheKafka, place: str) -> None:
    name = uuid.uuid4().hex
    async with transactional(kafka.bootstrap_servers, name) as producer:
        await from_the_manual(place)(producer, name.encode(), b"1")
    assert name.encode() in await committed(kafka, "orders", 1)


@pytest.mark.parametrize("loop", ["shout", "shout_all"])
async def test_the_manual_s_loop_consumes_transforms_and_produces_each_record_once(
    kafka: ApacheKafka, loop: str
) -> None:
    """Cancelled in mid-loop and started anew, with another consumer and the same transactional id."""
    topic = uuid.uuid4().hex
    await kafka.create_topic(topic, 3)
    words = numbered(300, f"word {topic} ")
    async with KafkaProducer(kafka.bootstrap_servers) as plain:
        await plain.send_many(topic, words)

    def is_out(values: list[bytes | None]) -> int:
        return len([value for value in values if value is not None and value.lower() in words])

    for wanted in (1, len(words)):
        options: dict[str, Any] = {"group_id": "shouters", "auto_offset_reset": "earliest", "max_poll_records": 40}
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False, **options
        )
        async with consumer, transactional(kafka.bootstrap_servers, topic) as producer:
            task = asyncio.create_task(from_the_manual(loop)(consumer, producer))
            async with asyncio.timeout(120):
                while is_out(await committed(kafka, "shouted", 1)) < wanted:
                    await asyncio.wait([task], timeout=0.1)
                    assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert is_out(await committed(kafka, "shouted", 1)) == len(words)


class TestThroughAProxy:
    """Requests and answers are lost."""

    @pytest.mark.parametrize(
        "api", [ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN]
    )
    @pytest.mark.parametrize("after", [True, False], ids=["its answer", "the request"])
    async def test_a_lost_request_is_sent_again(self, node: Node, topic: str, api: ApiKey, after: bool) -> None:
        async with FaultProxy(node.bootstrap_servers) as net:
            net.drop_next(api, after=after)
            async with transactional(net.bootstrap_servers, topic) as producer:
                for turn in range(2):
                    async with producer.transaction():
                        await producer.send(topic, b"%d" % turn, partition=0)
        assert await committed(node, topic) == [b"0", b"1"]

    async def test_a_commit_without_an_answer_is_reported_as_unknown_and_asked_again(
        self, node: Node, topic: str
    ) -> None:
        async with (
            FaultProxy(node.bootstrap_servers) as net,
            transactional(net.bootstrap_servers, topic, max_block_ms=10_000) as producer,
        ):
            net.on_request(ApiKey.END_TXN, lambda _: Answer(lose=True, cut=True))
            with pytest.raises(errors.KafkaTimeoutError, match="EndTxn had no answer within 10 s") as raised:
                async with producer.transaction():
                    await producer.send(topic, b"once", partition=0)
            assert raised.value.outcome_unknown
            with pytest.raises(errors.IllegalStateError, match="its outcome is not known"):
                await producer.abort_transaction()
            net.clear(ApiKey.END_TXN)
            async with producer.transaction():
                await producer.send(topic, b"next", partition=0)
        assert await committed(node, topic) == [b"once", b"next"]

    async def test_closing_at_once_while_it_commits_leaves_no_task_and_tells_that_the_outcome_is_unknown(
        self, node: Node, topic: str
    ) -> None:
        async with FaultProxy(node.bootstrap_servers) as net:
            producer = transactional(net.bootstrap_servers, topic)
            await producer.start()
            await producer.begin_transaction()
            await producer.send(topic, b"x")
            net.hold(ApiKey.END_TXN)
            commit = asyncio.create_task(producer.commit_transaction())
            await net.seen(ApiKey.END_TXN)
            await producer.close(timeout=0)
            with pytest.raises(
                errors.ProducerClosedError, match="before the transaction had come to its end"
            ) as raised:
                await commit
            assert raised.value.outcome_unknown
            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("aiokafkapy")] == []

    async def test_closing_while_it_starts_ends_the_start(self, node: Node, topic: str) -> None:
        async with FaultProxy(node.bootstrap_servers) as net:
            net.hold(ApiKey.INIT_PRODUCER_ID)
            producer = transactional(net.bootstrap_servers, topic)
            start = asyncio.create_task(producer.start())
            await net.seen(ApiKey.INIT_PRODUCER_ID)
            await producer.close(timeout=0)
            with pytest.raises(errors.KafkaError):
                await asyncio.wait_for(start, 30)
            assert [task for task in asyncio.all_tasks() if task.get_name().startswith("aiokafkapy")] == []
