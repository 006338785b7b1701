"""Orders as CloudEvents in Avro, by a schema registry, with a topic for refused records.

pip install '.[schema-registry]'
AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 SCHEMA_REGISTRY_URL=http://localhost:8081 python typed_orders.py
"""

import asyncio
import os
from decimal import Decimal
from typing import Annotated
from uuid import UUID, uuid4

from pydantic import BaseModel, Field

from aiokafkapy import KafkaProducer, ProducerConfig, TopicPartition
from aiokafkapy.integrations.schema_registry import AvroDeserializer, AvroSerializer, SchemaRegistryClient
from aiokafkapy.reader import PartitionReader
from aiokafkapy.typed import CloudEvents, DeadLetters, Topic

Money = Annotated[Decimal, Field(max_digits=12, decimal_places=2)]


class Order(BaseModel):
    id: UUID = Field(default_factory=uuid4)
    customer: str
    total: Money
    tags: list[str] = []


def make_topic(registry: SchemaRegistryClient) -> Topic[Order]:
    """The topic and all that belongs to its records. In production the schema is registered when you deploy."""
    return Topic[Order](
        "orders",
        key=lambda order: order.customer,
        serializer=AvroSerializer(registry, Order, auto_register_schemas=True),
        deserializer=AvroDeserializer(registry, Order),
        cloud_events=CloudEvents(
            "/shop", type="order.placed", id=lambda order: str(order.id), datacontenttype="application/avro"
        ),
    )


async def main() -> None:
    config = ProducerConfig.from_env()
    async with (
        SchemaRegistryClient(os.environ["SCHEMA_REGISTRY_URL"]) as registry,
        KafkaProducer(config=config) as producer,
        KafkaProducer(config=config) as plain,
        DeadLetters(plain) as dead_letters,
    ):
        topic = make_topic(registry)
        orders = topic.bind(dead_letters.guard(producer))
        await orders.send_many(Order(customer=name, total=Decimal("3.50")) for name in ("ann", "bob", "cleo"))
        too_much = Order.model_construct(id=uuid4(), customer="dan", total=Decimal("0.001"), tags=[])
        try:
            await orders.send(too_much)
        except ValueError as error:
            print("refused:", error)
        await dead_letters.drain()
        print("dead letters:", dead_letters.counts.written)

        partitions = await producer.partitions_for("orders")
        async with PartitionReader(config.bootstrap_servers, auto_offset_reset="earliest") as reader:
            reader.assign(TopicPartition("orders", one.partition) for one in partitions)
            read = 0
            while read < 3:
                for record in await reader.fetch():
                    print("read:", await topic.decode(record))
                    read += 1


if __name__ == "__main__":
    asyncio.run(main())
