"""A user's typed topics, dead letters, schema registry and readers."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from dataclasses import dataclass
from typing import assert_type

from aiokafkapy import ConsumedRecord, Delivery, KafkaProducer, RecordMetadata, TopicPartition
from aiokafkapy.admin import Doctor, Finding, TopicAdmin, TopicDescription
from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaSerializer,
    SchemaRegistryClient,
)
from aiokafkapy.reader import EARLIEST, PartitionReader, PartitionRecords, ReaderConfig
from aiokafkapy.typed import (
    BoundTopic,
    CloudEvents,
    DeadLetters,
    GuardedProducer,
    Topic,
    from_cloud_event,
    is_permanent,
)


@dataclass
class Order:
    id: int
    customer: str


ORDERS = Topic[Order](
    "orders",
    key=lambda order: order.customer,
    headers=lambda order: {"version": b"1"},
    cloud_events=CloudEvents("/shop", type="order.placed", id=lambda order: str(order.id)),
)


async def publish(producer: KafkaProducer, order: Order) -> None:
    assert_type(await ORDERS.send(producer, order, partition=0), RecordMetadata)
    await ORDERS.send_many(producer, [order], return_exceptions=True)
    bound = ORDERS.bind(producer)
    assert_type(bound, BoundTopic[Order])
    assert_type(await bound.send(order), RecordMetadata)
    assert_type(await bound.enqueue(order), Delivery)
    assert_type(bound.send_nowait(order, headers=[("a", b"1")]), Delivery)
    await bound.tombstone("ann")
    await bound.send("an order")  # type: ignore[arg-type]
    await ORDERS.send(producer, 7)  # type: ignore[arg-type]


async def publish_with_dead_letters(typed: KafkaProducer[str, Order], plain: KafkaProducer, order: Order) -> None:
    async with DeadLetters(plain, "orders.dead", is_permanent=is_permanent) as dead_letters:
        guarded = dead_letters.guard(typed)
        assert_type(guarded, GuardedProducer)
        await ORDERS.bind(guarded).send(order)
        await dead_letters.guard(guarded).send("orders", order, key="ann", headers={"a": b"1"})
        assert_type(await guarded.enqueue("orders", order, key="ann"), Delivery)
        print(guarded.config.client_id, dead_letters.counts.written)
        await dead_letters.drain()


async def with_a_registry(url: str) -> None:
    async with SchemaRegistryClient(url) as registry:
        topic = Topic(
            "orders",
            Order,
            serializer=AvroSerializer(registry, Order, auto_register_schemas=True),
            deserializer=AvroDeserializer(registry, Order),
        )
        assert_type(topic, Topic[Order])
        async with KafkaProducer("localhost:9092", value_serializer=JsonSchemaSerializer(registry, Order)) as producer:
            await producer.send("orders", Order(1, "ann"))


async def read(bootstrap_servers: str) -> list[Order]:
    partition = TopicPartition("orders", 0)
    orders: list[Order] = []
    async with PartitionReader(config=ReaderConfig(bootstrap_servers=bootstrap_servers)) as reader:
        ends = await reader.end_offsets([partition])
        assert_type(ends, dict[TopicPartition, int])
        first = (await reader.list_offsets({partition: EARLIEST}))[partition]
        reader.assign([partition])
        reader.seek(partition, 0 if first is None else first.offset)
        reader.stop_at(partition, ends[partition])
        while not reader.is_finished:
            records = await reader.fetch(max_wait=0.5)
            assert_type(records, list[ConsumedRecord])
            for record in records:
                print(from_cloud_event(record.value, record.headers))
                if (order := await ORDERS.decode(record)) is not None:
                    orders.append(order)
        assert_type(await reader.fetch_partition(), PartitionRecords | None)
        await reader.commit_offsets("billing", {partition: 5})
    return orders


async def administer(bootstrap_servers: str) -> None:
    async with TopicAdmin(bootstrap_servers) as admin:
        description = await admin.create("orders", partitions=3, configs={"retention.ms": "1000"})
        assert_type(description, TopicDescription)
        print([partition.leader for partition in description.partitions], await admin.configs("orders"))
        await admin.delete("orders")
    findings = await Doctor(ReaderConfig(bootstrap_servers=bootstrap_servers)).examine()
    assert_type(findings, list[Finding])
    print([finding.as_json() for finding in findings])
