"""A user's first calls of a producer, over real sockets."""

from __future__ import annotations

import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from tests.producers import numbered, values
from tests.waiting import until


class TestSending:
    """A user's first calls."""

    async def test_everything_of_a_record_arrives_as_it_was_given(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=3)
        headers = [("a", b"1"), ("a", None), ("ü", b"")]
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            metadata = await producer.send("t", b"v", key=b"k", partition=2, timestamp_ms=1234, headers=headers)
            tombstone = await producer.send("t", None, key=b"k", partition=2)
        assert metadata == RecordMetadata("t", 2, 0, 1234, 1, 1)
        assert tombstone.offset == 1
        first, second = broker.records("t", 2)
        assert (first.key, first.value, first.timestamp_ms, list(first.headers)) == (b"k", b"v", 1234, headers)
        assert (second.key, second.value, list(second.headers)) == (b"k", None, [])

    @pytest.mark.alone
    async def test_a_lone_awaited_send_takes_one_round_trip_and_no_linger(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"warm up")
            times = []
            for _ in range(50):
                started = time.perf_counter()
                await producer.send("t", b"x")
                times.append(time.perf_counter() - started)
        # The least: one that lingered would take 5 ms, on any machine.
        assert min(times) < 0.004, times

    async def test_send_many_tells_every_outcome_in_order_and_one_failure_stops_nobody(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        large = b"x" * 2_000_000
        records: list[Any] = [b"0", None, ProducerRecord("t", b"2", key=b"k"), large, b"4", "text", b"6"]
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            outcomes = await producer.send_many("t", iter(records), return_exceptions=True)
            with pytest.raises(errors.RecordTooLargeError) as caught:
                await producer.send_many("t", records)
        assert [type(outcome).__name__ for outcome in outcomes] == [
            "RecordMetadata", "RecordMetadata", "RecordMetadata", "RecordTooLargeError", "RecordMetadata",
            "SerializationError", "RecordMetadata",
        ]  # fmt: skip
        assert "2 of 7 records" in caught.value.__notes__[0]
        assert values(broker, "t") == [b"0", None, b"2", b"4", b"6"] * 2

    async def test_send_many_takes_an_iterable_larger_than_the_buffer(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {"buffer_memory": 100_000, "max_request_size": 50_000, "batch_size": 20_000}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            most = 0

            def produced() -> Any:
                nonlocal most
                for value in numbered(20_000):
                    most = max(most, producer.statistics().buffered_bytes)
                    yield value + b"x" * 100

            outcomes = await producer.send_many("t", produced())
        assert [outcome.offset for outcome in outcomes if isinstance(outcome, RecordMetadata)] == list(range(20_000))
        assert [value[:6] for value in values(broker, "t") if value] == numbered(20_000)
        assert 0 < most <= 100_000

    async def test_partitions_ping_health_and_metrics_answer(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=4)
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        at_first = producer.health
        assert not at_first.is_healthy
        assert producer.metrics() == {}
        async with producer:
            assert [info.partition for info in await producer.partitions_for("t")] == [0, 1, 2, 3]
            assert 0 < await producer.ping(timeout=5) < 5
            await producer.send("t", b"x")
            assert producer.health.is_healthy
            metrics = producer.metrics()
            assert metrics["record-send-total"] == 1
            assert metrics["produce-request-total"] == 1
            assert metrics["network-io-total"] == metrics["request-total"] + metrics["response-total"]
            assert metrics["response-total"] > 1, "the client's own count"
            assert metrics["outgoing-byte-total"] > metrics["byte-total"] > 0
            assert metrics["metadata-wait-time-ns-total"] > 0
        assert producer.health.state == "closed"
        assert producer.statistics().delivered == 1

    async def test_interceptors_see_each_record_and_its_outcome(self, broker: DevBroker) -> None:
        seen: list[Any] = []

        class Tracer:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return ProducerRecord(
                    record.topic, record.value + b"!", headers=[*(record.headers or ()), ("trace", b"1")]
                )

            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                seen.append((metadata, error, headers))

        class Broken:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                raise RuntimeError("not the record's fault")

        own_headers: list[tuple[str, bytes | None]] = []
        async with KafkaProducer(broker.bootstrap_servers, interceptors=[Broken(), Tracer()]) as producer:
            await producer.send("t", b"v", headers=own_headers)
            with pytest.raises(errors.RecordTooLargeError):
                await producer.send("t", b"v" * 2_000_000)
            await until(lambda: len(seen) == 2)
        assert own_headers == []
        (delivered,) = [outcome for outcome in seen if outcome[1] is None]
        (refused,) = [outcome for outcome in seen if outcome[1] is not None]
        assert delivered[0].offset == 0
        assert delivered[2] == [("trace", b"1")]
        assert isinstance(refused[1], errors.RecordTooLargeError)
        assert [record.value for record in broker.records("t")] == [b"v!"]

    @pytest.mark.parametrize("acks", [0, 1, "all"])
    async def test_every_level_of_acks(self, broker: DevBroker, acks: Any) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, acks=acks) as producer:
            found = await producer.send_many("t", numbered(100))
            offsets = [outcome.offset for outcome in found if isinstance(outcome, RecordMetadata)]
            assert offsets == ([-1] * 100 if acks == 0 else list(range(100)))
        await until(lambda: len(broker.records("t", 0)) == 100)
        assert values(broker, "t") == numbered(100)

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    async def test_every_codec_with_batches_compressed_here_and_in_threads(self, broker: DevBroker, codec: Any) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, compression_type=codec, linger_ms=20) as producer:
            small = await producer.send_many("t", numbered(10))
            large = await producer.send_many("t", [value * 200 for value in numbered(2000)])
            assert producer.metrics()["compression-rate-avg"] < 1
        assert len(small) + len(large) == 2010
        assert values(broker, "t") == numbered(10) + [value * 200 for value in numbered(2000)]
