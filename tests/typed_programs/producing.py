"""A user's producers: every call, with typed keys and values, and one's own partitioner, interceptor and observer."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypedDict, assert_type
from uuid import UUID

import polars

import aiokafkapy
from aiokafkapy import (
    BlockingProducer,
    BytesWithHeaders,
    CircuitBreaker,
    DefaultPartitioner,
    Delivery,
    Headers,
    KafkaProducer,
    Node,
    Observer,
    Partitioner,
    PartitionInfo,
    PreparedTxnState,
    ProducerConfig,
    ProducerHealth,
    ProducerInterceptor,
    ProducerRecord,
    ProducerStatistics,
    RecordMetadata,
    RoundRobinPartitioner,
    Serializer,
    TableMetadata,
    TopicOptions,
    TopicPartition,
    broker,
    compiled,
    deadline,
    errors,
    json_serializer,
    raise_all,
    string_serializer,
    testing,
    typed,
)
from aiokafkapy.cluster.cluster import Cluster
from aiokafkapy.integrations import schema_registry
from aiokafkapy.observability.observer import BatchDone


class Order(TypedDict):
    id: int
    customer: str


def write_order(order: Order) -> bytes:
    return json.dumps(order).encode()


async def write_with_headers(order: Order) -> BytesWithHeaders:
    await asyncio.sleep(0)
    return BytesWithHeaders(write_order(order), [("format", b"json")])


class ByCustomer:
    """A partitioner of one's own, which leaves records without a key to the built-in one."""

    def __init__(self) -> None:
        self.fallback: Partitioner = DefaultPartitioner()

    def partition(
        self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Cluster
    ) -> int | None:
        if key is None:
            return self.fallback.partition(topic, key_bytes, value_bytes, key, value, cluster)
        return len(str(key)) % len(cluster.partitions_for_topic(topic))


class Audit:
    """An interceptor."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value, record.key, headers=[("audit", b"1")])

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: Headers | None
    ) -> None:
        if metadata is not None:
            print(metadata.topic, metadata.offset, metadata.timing, headers)
        elif isinstance(error, errors.KafkaError):
            print(error)


class Batches(Observer):
    """Counts the batches that had to be sent again."""

    def __init__(self) -> None:
        self.retried = 0

    def batch_done(self, event: BatchDone) -> None:
        self.retried += event.attempts > 1


def make_producers() -> KafkaProducer[str, Order]:
    interceptor: ProducerInterceptor = Audit()
    partitioner: Partitioner = ByCustomer()
    serializer: Serializer[Order] = write_order
    assert_type(KafkaProducer("localhost:9092"), KafkaProducer[bytes, bytes])
    assert_type(KafkaProducer("localhost:9092", value_serializer=write_with_headers), KafkaProducer[bytes, Order])
    KafkaProducer("localhost:9092", value_serializer=json_serializer, partitioner=RoundRobinPartitioner())
    KafkaProducer(config=ProducerConfig(bootstrap_servers="localhost:9092", linger_ms=5, acks="all"))
    KafkaProducer(config=ProducerConfig.from_properties({"bootstrap.servers": "localhost:9092", "linger.ms": 5}))
    KafkaProducer(config=ProducerConfig.from_url("kafka://localhost:9092"))
    return KafkaProducer(
        ["localhost:9092", "localhost:9093"],
        key_serializer=string_serializer,
        value_serializer=serializer,
        client_id="shop",
        compression_type="lz4",
        enable_idempotence=True,
        partitioner=partitioner,
        interceptors=[interceptor],
        observers=[Batches()],
        topics={"audit": TopicOptions(linger_ms=100, compression_type="gzip")},
        circuit_breaker=CircuitBreaker(failures=3),
        overflow="drop_oldest",
        spool_dir="/var/spool/shop",
    )


async def send_one_by_one(producer: KafkaProducer[str, Order], order: Order) -> None:
    metadata = await producer.send("orders", order, key="ann", headers={"trace": b"1"}, timestamp_ms=1)
    assert_type(metadata, RecordMetadata)
    assert_type(metadata.offset, int)
    assert_type(metadata.topic_partition, TopicPartition)
    delivery = await producer.enqueue("orders", order, partition=0, delivery_timeout_ms=1000)
    assert_type(delivery, Delivery)
    assert_type(producer.send_nowait("orders", order, overflow="raise"), Delivery)
    assert_type(await delivery, RecordMetadata)
    assert_type(producer.send_from_thread("orders", order), Future[RecordMetadata])


async def wait_for_deliveries(producer: KafkaProducer, deliveries: list[Delivery]) -> None:
    first, second = deliveries[0], deliveries[1]
    both = await asyncio.gather(first, second)
    assert_type(both, tuple[RecordMetadata, RecordMetadata])
    assert_type(await asyncio.wait_for(first, 3), RecordMetadata)
    assert_type(await asyncio.shield(first), RecordMetadata)
    assert_type(await asyncio.ensure_future(first), RecordMetadata)
    outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
    assert_type(outcomes, list[RecordMetadata | BaseException])
    raise_all(outcomes)
    for done in asyncio.as_completed(deliveries):
        print((await done).offset)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(producer.send("orders", b"1"))
    assert_type(task.result(), RecordMetadata)
    async with deadline(3):
        await producer.send("orders", b"2")


async def by_position(producer: KafkaProducer[str, Order], order: Order) -> None:
    await producer.send("orders", order, "ann", 0, 1, [("a", b"1")])
    await producer.send("orders", None, "ann")


def look_at(delivery: Delivery) -> None:
    tell: Callable[[Delivery], None] = lambda done: print(done.exception())  # noqa: E731
    delivery.add_done_callback(tell)
    delivery.remove_done_callback(tell)
    if delivery.done() and delivery.exception() is None:
        assert_type(delivery.result(), RecordMetadata)
    print(delivery.topic_partition.topic, delivery.timestamp_ms)


async def send_many(producer: KafkaProducer) -> int:
    records: list[bytes | ProducerRecord] = [b"1", ProducerRecord("orders", b"2", key=b"ann")]
    outcomes = await producer.send_many("orders", records, return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    all_written = await producer.send_many("orders", records)
    assert_type(all_written[0], RecordMetadata)
    return len(failed) + all_written[-1].offset


async def send_tables(producer: KafkaProducer, table: polars.DataFrame) -> None:
    metadata = await producer.send_arrow("orders", table, value_column="payload", key_column=None)
    assert_type(metadata, TableMetadata)
    print(len(metadata), metadata.offset(0), metadata.topic_partition(0))
    async with producer.open_table_send("orders") as tables:
        await tables.send(table)


async def transact(producer: KafkaProducer) -> None:
    offsets = {TopicPartition("orders", 0): 5}
    async with producer.transaction():
        await producer.send("paid", b"1")
        await producer.send_offsets_to_transaction(offsets, "billing")
    async for attempt in producer.transactions(timeout=30):
        async with attempt:
            await producer.send("paid", b"1")
    await producer.begin_transaction()
    try:
        await producer.send("paid", b"1")
        await producer.commit_and_begin_transaction()
        await producer.commit_transaction()
    except errors.ProducerFencedError:
        raise
    except errors.KafkaError as error:
        print(error.retriable, error)
        await producer.abort_transaction()
    prepared = await producer.prepare_transaction()
    assert_type(prepared, PreparedTxnState)
    assert_type(await producer.complete_transaction(PreparedTxnState.of(str(prepared))), bool)


async def watch(producer: KafkaProducer) -> None:
    partitions = await producer.partitions_for("orders")
    assert_type(partitions, list[PartitionInfo])
    assert_type(producer.health, ProducerHealth)
    statistics = producer.statistics()
    assert_type(statistics, ProducerStatistics)
    assert_type(statistics.nodes, tuple[Node, ...])
    print(statistics.in_flight, statistics.spool_records, producer.health.is_spooling)
    assert_type(producer.metrics(), dict[str, float])
    assert_type(producer.topic_metrics()["orders"]["record-send-total"], float)
    assert_type(producer.node_metrics()[1]["request-total"], float)
    assert_type(await producer.client_instance_id(), UUID)
    assert_type(await producer.ping(timeout=1), float)
    producer.register_metric_for_subscription("shop.orders", lambda: 1.0, is_total=True)
    producer.unregister_metric_from_subscription("shop.orders")
    await producer.warm_up(["orders"])
    producer.update_credentials(sasl_username="shop", sasl_password="secret")
    with producer.tap() as tap:
        print(tap)
    print(compiled, producer.config.linger_ms, producer.state, producer.purge("orders"))
    producer.resume("orders", 0)
    await producer.flush(timeout=3)


def send_from_threads() -> None:
    with BlockingProducer("localhost:9092", value_serializer=write_order) as producer:
        future = producer.send("orders", Order(id=1, customer="ann"), key=b"ann")
        assert_type(future.result(timeout=3), RecordMetadata)
        producer.send_many("orders", [Order(id=2, customer="bob")])
        with producer.transaction():
            producer.send("orders", Order(id=3, customer="cleo"))
        producer.flush()


async def refused(producer: KafkaProducer[str, Order], plain: KafkaProducer, order: Order) -> None:
    """Each of these is an error that both type checkers must see."""
    await producer.send("orders", b"bytes")  # type: ignore[arg-type]
    await producer.send("orders", order, key=b"ann")  # type: ignore[arg-type]
    plain.send_nowait("orders", "text")  # type: ignore[arg-type]
    KafkaProducer("localhost:9092", linger_msec=5)  # type: ignore[call-arg]
    KafkaProducer("localhost:9092", acks="some")  # type: ignore[arg-type]


def misspelt() -> None:
    """Names that are not there are errors too."""
    print(aiokafkapy.KafkaProducers)  # type: ignore[attr-defined]
    print(broker.DevBrokers)  # type: ignore[attr-defined]
    print(schema_registry.AvroSerialiser)  # type: ignore[attr-defined]
    print(testing.assert_produce)  # type: ignore[attr-defined]
    print(typed.Topics)  # type: ignore[attr-defined]
