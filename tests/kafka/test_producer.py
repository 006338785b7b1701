"""The producer on one real Apache Kafka: Kafka's own tools read its records, and it recovers from every fault."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, RecordMetadata, errors
from aiokafkapy.producer.options.keywords import CompressionName
from aiokafkapy.testing import ApacheKafka
from tests.oracle import read_back

pytestmark = pytest.mark.kafka

CODECS: list[CompressionName] = ["none", "gzip", "snappy", "lz4", "zstd"]
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


async def test_every_codec_and_header_shape_is_read_by_kafkas_console_consumer(kafka: ApacheKafka) -> None:
    topic = unique("codec")
    shapes: list[Any] = [
        None,
        [],
        [("one", b"1")],
        [("twice", b"a"), ("twice", b"b")],
        [("empty", b""), ("null", None)],
        [("ünï", "wért".encode())],
    ]
    for codec in CODECS:
        async with KafkaProducer(kafka.bootstrap_servers, compression_type=codec) as producer:
            await asyncio.gather(
                *(
                    producer.send(
                        topic,
                        f"{codec} value {n} ".encode() * 50,
                        key=f"k{n}".encode(),
                        timestamp_ms=1_700_000_000_000 + n,
                        headers=headers,
                    )
                    for n, headers in enumerate(shapes)
                ),
                producer.send(topic, None, key=f"{codec} tombstone".encode(), timestamp_ms=1_700_000_000_099),
            )
    printed = await kafka.tool(
        CONSOLE_CONSUMER,
        "--bootstrap-server",
        kafka.bootstrap_servers,
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        str(len(CODECS) * (len(shapes) + 1)),
        "--timeout-ms",
        "30000",
        *(
            part
            for option in ("print.timestamp", "print.key", "print.headers", "print.value")
            for part in ("--property", f"{option}=true")
        ),
    )
    lines = set(printed.splitlines())
    expected_headers = ["NO_HEADERS", "NO_HEADERS", "one:1", "twice:a,twice:b", "empty:,null:null", "ünï:wért"]
    for codec in CODECS:
        for n, headers in enumerate(expected_headers):
            value = f"{codec} value {n} " * 50
            assert f"CreateTime:{1_700_000_000_000 + n}\t{headers}\tk{n}\t{value}" in lines
        assert f"CreateTime:1700000000099\tNO_HEADERS\t{codec} tombstone\tnull" in lines


@pytest.mark.parametrize("codec", ["snappy", "lz4"])
async def test_batches_of_every_block_size_are_read_by_java_and_librdkafka(
    kafka: ApacheKafka, codec: CompressionName
) -> None:
    """Our blocks grow with the batch, Java's do not: up to 64 KiB, to 256 KiB, to a megabyte, and more than one."""
    topic = unique("blocks")
    await kafka.create_topic(topic, partitions=1, config={"max.message.bytes": "20000000"})
    values = [" ".join(f"{n * n:x}" for n in range(size // 8)) for size in (60_000, 200_000, 900_000, 6_000_000)]
    async with KafkaProducer(
        kafka.bootstrap_servers, compression_type=codec, max_request_size=20_000_000, batch_size=1
    ) as producer:
        for value in values:
            await producer.send(topic, value.encode())
    assert [r.value for r in (await read_back(kafka.bootstrap_servers, topic))[0]] == [v.encode() for v in values]
    options = ("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--from-beginning")
    printed = await kafka.tool(CONSOLE_CONSUMER, *options, "--max-messages", "4", "--timeout-ms", "30000")
    assert [line for line in printed.splitlines() if line in values] == values


async def test_a_stalled_broker_makes_retries_that_are_written_once(kafka: ApacheKafka) -> None:
    """The broker is stopped over the request time-out: earlier requests are answered late and sent again."""
    topic = unique("retried")
    await kafka.create_topic(topic, partitions=2)
    async with KafkaProducer(
        kafka.bootstrap_servers, request_timeout_ms=700, linger_ms=0, delivery_timeout_ms=30_000
    ) as producer:
        await producer.send(topic, b"first", partition=0)
        sends: list[asyncio.Task[Any]] = []
        for n in range(3_000):
            sends.append(asyncio.create_task(producer.send(topic, str(n).encode(), partition=n % 2)))
            if n == 1_500:
                await asyncio.sleep(0)  # let requests leave before the broker stops
                kafka.pause(1)
            if n == 2_500:
                await asyncio.wait(sends[1_501:], timeout=2, return_when=asyncio.FIRST_EXCEPTION)
                kafka.resume(1)
            if n % 50 == 0:
                await asyncio.sleep(0)
        results = await asyncio.gather(*sends)
        retries = producer.metrics()["record-retry-total"]
    logs = await read_back(kafka.bootstrap_servers, topic)
    assert [r.value for r in logs[0]] == [b"first", *(str(n).encode() for n in range(0, 3_000, 2))]
    assert [r.value for r in logs[1]] == [str(n).encode() for n in range(1, 3_000, 2)]
    for n, result in enumerate(results):
        assert logs[result.partition][result.offset].value == str(n).encode()
    assert retries > 0


async def test_requests_in_flight_that_adapt_keep_the_order_and_use_the_broker(kafka: ApacheKafka) -> None:
    topic = unique("adaptive")
    values = [b"%06d" % number for number in range(30_000)]
    async with KafkaProducer(
        kafka.bootstrap_servers, max_in_flight_requests_per_connection="auto", batch_size=2_000, linger_ms=1
    ) as producer:
        await producer.partitions_for(topic)
        await asyncio.gather(*(producer.send(topic, value, partition=0) for value in values))
        limits = producer.statistics().in_flight_limits
    assert [record.value for record in (await read_back(kafka.bootstrap_servers, topic))[0]] == values
    assert set(limits) == {1}
    assert 1 <= limits[1] <= 5


@pytest.mark.parametrize("attempt", range(2))
async def test_a_topic_made_a_moment_ago_gets_all_records_once_in_order(kafka: ApacheKafka, attempt: int) -> None:
    """Some of many new partitions refuse their first batch, as nobody leads them yet; they would take the second."""
    topic, count = unique("new"), 10_000
    async with KafkaProducer(
        kafka.bootstrap_servers, batch_size=500, request_timeout_ms=5_000, delivery_timeout_ms=15_000
    ) as producer:
        await producer.send(unique("other"), b"")  # connected, and with a producer id
        await kafka.create_topic(topic, partitions=1_000)
        deliveries = [await producer.enqueue(topic, b"%0100d" % n, key=b"key-%d" % n) for n in range(count)]
        results = await asyncio.gather(*deliveries, return_exceptions=True)
        logs = await read_back(kafka.bootstrap_servers, topic)
        await kafka.delete_topic(topic)
        assert [result for result in results if isinstance(result, BaseException)] == []
        assert producer.statistics().producer_epoch == 0
    values = [[int(record.value or b"") for record in records] for records in logs.values()]
    assert all(numbers == sorted(numbers) for numbers in values)
    assert sorted(number for numbers in values for number in numbers) == list(range(count))


async def test_an_unknown_topic_is_created_by_the_broker(kafka: ApacheKafka) -> None:
    topic = unique("auto")
    async with KafkaProducer(kafka.bootstrap_servers) as producer:
        metadata = await producer.send(topic, b"hello")
    assert (metadata.topic, metadata.offset) == (topic, 0)


async def test_partitions_that_are_added_come_into_use(kafka: ApacheKafka) -> None:
    topic = unique("grown")
    await kafka.create_topic(topic, partitions=1)
    async with KafkaProducer(kafka.bootstrap_servers, metadata_max_age_ms=300) as producer:
        await producer.send(topic, b"a", partition=0)
        await kafka.add_partitions(topic, 3)
        metadata = await producer.send(topic, b"b", partition=2)
        assert metadata.partition == 2
        assert len(await producer.partitions_for(topic)) == 3


async def test_a_partition_that_does_not_exist_is_named_when_the_time_is_over(kafka: ApacheKafka) -> None:
    topic = unique("small")
    await kafka.create_topic(topic, partitions=2)
    async with KafkaProducer(kafka.bootstrap_servers, max_block_ms=500) as producer:
        with pytest.raises(errors.KafkaTimeoutError, match=r"(?s)7.*2|2.*7"):
            await producer.send(topic, b"a", partition=7)


async def test_a_topic_deleted_and_made_again_is_written_on(kafka: ApacheKafka) -> None:
    topic = unique("again")
    await kafka.create_topic(topic, partitions=1)
    async with KafkaProducer(kafka.bootstrap_servers, metadata_max_age_ms=60_000) as producer:
        for n in range(5):
            await producer.send(topic, f"old {n}".encode())
        await kafka.delete_topic(topic)
        await kafka.create_topic(topic, partitions=1)
        results = [await producer.send(topic, f"new {n}".encode()) for n in range(5)]
        assert [r.offset for r in results] == [0, 1, 2, 3, 4]
    assert [r.value for r in (await read_back(kafka.bootstrap_servers, topic))[0]] == [b"new %d" % n for n in range(5)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_a_batch_over_the_topics_limit_is_split_in_order(kafka: ApacheKafka, codec: CompressionName) -> None:
    topic = unique("narrow")
    await kafka.create_topic(topic, partitions=1, config={"max.message.bytes": "20000"})
    noise = [
        uuid.uuid4().bytes * 60 if codec == "none" else bytes(uuid.uuid4().bytes[n % 16] for n in range(960))
        for _ in range(300)
    ]
    async with KafkaProducer(kafka.bootstrap_servers, compression_type=codec, linger_ms=50) as producer:
        results = await asyncio.gather(*(producer.send(topic, value) for value in noise))
    assert [r.offset for r in results] == list(range(300))
    assert [r.value for r in (await read_back(kafka.bootstrap_servers, topic))[0]] == noise


async def test_a_record_over_the_topics_limit_fails_alone_with_its_size(kafka: ApacheKafka) -> None:
    topic = unique("narrow")
    await kafka.create_topic(topic, partitions=1, config={"max.message.bytes": "20000"})
    async with KafkaProducer(kafka.bootstrap_servers, linger_ms=50) as producer:
        before, too_large, after = await asyncio.gather(
            producer.send(topic, b"a"),
            producer.send(topic, b"x" * 50_000),
            producer.send(topic, b"b"),
            return_exceptions=True,
        )
    assert isinstance(too_large, errors.MessageTooLargeError)
    assert topic in str(too_large)
    assert "50" in str(too_large)
    assert not isinstance(before, BaseException)
    assert not isinstance(after, BaseException)
    assert [r.value for r in (await read_back(kafka.bootstrap_servers, topic))[0]] == [b"a", b"b"]


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_each_kind_of_acknowledgement_delivers(kafka: ApacheKafka, acks: Any) -> None:
    topic = unique("acks")
    await kafka.create_topic(topic, partitions=1)
    async with KafkaProducer(kafka.bootstrap_servers, acks=acks, enable_idempotence=acks == "all") as producer:
        results = [await producer.send(topic, str(n).encode()) for n in range(20)]
    assert [r.offset for r in results] == ([-1] * 20 if acks == 0 else list(range(20)))
    deadline = time.monotonic() + 10
    while len(found := (await read_back(kafka.bootstrap_servers, topic))[0]) < 20 and time.monotonic() < deadline:
        pass  # acks=0 says nothing of when the broker has appended
    assert [r.value for r in found] == [str(n).encode() for n in range(20)]


async def test_keys_go_where_javas_partitioner_puts_them(kafka: ApacheKafka) -> None:
    """Oracle: librdkafka's murmur2 partitioner, which is Java's."""
    from confluent_kafka import Producer

    topic, keys = unique("keys"), [uuid.uuid4().hex[: n % 20].encode() for n in range(1, 200)]
    await kafka.create_topic(topic, partitions=7)
    async with KafkaProducer(kafka.bootstrap_servers) as producer:
        ours = await producer.send_many(topic, [_record(topic, key) for key in keys])
    theirs: dict[bytes | None, int | None] = {}
    foreign = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2"})
    for key in keys:
        foreign.produce(topic, b"", key=key, on_delivery=lambda _, m: theirs.__setitem__(m.key(), m.partition()))
    await asyncio.to_thread(foreign.flush, 30)
    found = [result.partition for result in ours if isinstance(result, RecordMetadata)]
    assert dict(zip(keys, found, strict=True)) == theirs


async def test_log_append_time_is_reported(kafka: ApacheKafka) -> None:
    topic = unique("stamped")
    await kafka.create_topic(topic, partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    async with KafkaProducer(kafka.bootstrap_servers) as producer:
        metadata = await producer.send(topic, b"a", timestamp_ms=1_000)
    (record,) = (await read_back(kafka.bootstrap_servers, topic))[0]
    assert metadata.timestamp_ms == record.timestamp_ms > 1_700_000_000_000


def _record(topic: str, key: bytes) -> Any:
    from aiokafkapy import ProducerRecord

    return ProducerRecord(topic, b"", key=key)
