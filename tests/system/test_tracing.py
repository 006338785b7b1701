"""A trace from the producer to three kinds of consumers, on the dev broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.opentelemetry import KafkaTracing
from aiokafkapy.reader import PartitionReader


async def by_our_reader(servers: str) -> Any:
    async with PartitionReader(servers) as reader:
        reader.assign([TopicPartition("orders", 0)])
        while True:
            for record in await reader.fetch():
                return record


async def by_aiokafka(servers: str) -> Any:
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        return await consumer.getone()
    finally:
        await consumer.stop()


async def by_confluent_kafka(servers: str) -> Any:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        return await asyncio.to_thread(consumer.poll, 60)
    finally:
        await asyncio.to_thread(consumer.close)


@pytest.mark.parametrize("consume", [by_our_reader, by_aiokafka, by_confluent_kafka])
async def test_a_record_is_processed_in_the_trace_in_which_it_was_sent(
    kafka_broker: DevBroker, consume: Callable[[str], Coroutine[Any, Any, Any]]
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = KafkaTracing(provider, TraceContextTextMapPropagator())
    kafka_broker.create_topic("orders", partitions=1)
    async with KafkaProducer(kafka_broker.bootstrap_servers, interceptors=[tracing]) as producer:
        await producer.send("orders", b"tea", key=b"ann")
    async with asyncio.timeout(60):
        record = await consume(kafka_broker.bootstrap_servers)
    with tracing.process(record):
        pass
    sent, processed = exporter.get_finished_spans()
    assert (sent.name, processed.name) == ("send orders", "process orders")
    assert processed.parent is not None
    assert sent.context is not None
    assert processed.context is not None
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context.trace_id == sent.context.trace_id
    assert processed.attributes is not None
    assert sent.attributes is not None
    for name in ("messaging.destination.partition.id", "messaging.kafka.offset", "messaging.kafka.message.key"):
        assert processed.attributes[name] == sent.attributes[name]
    provider.shutdown()
