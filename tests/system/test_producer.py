"""The ten promises of the producer, each against the dev broker over real sockets.

The same scenarios run against Apache Kafka in ``tests/kafka``. Time-outs are short here, and no test waits by sleeping:
it waits for a condition, or for an outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import freezegun
import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, RecordMetadata, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.servers.ports import free_port

SHORT: dict[str, Any] = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1500,
    "max_block_ms": 1000,
    "retry_backoff_ms": 20,
}


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        yield broker


async def until(condition: Callable[[], Any], timeout: float = 10.0) -> None:
    """Let the loop turn until the condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.002)


def assert_accounts(producer: KafkaProducer[Any, Any]) -> None:
    """accepted = delivered + failed + pending."""
    numbers = producer.statistics()
    assert numbers.accepted == numbers.delivered + numbers.failed + numbers.pending


def values(broker: DevBroker, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in broker.records(topic, partition)]


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def our_tasks() -> set[str]:
    """Tasks of this loop that are ours."""
    return {task.get_name() for task in asyncio.all_tasks() if "aiokafkapy" in task.get_name()}


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


class TestAccounting:
    """Promise 1: accepted = delivered + failed, under all faults, and no future is left pending."""

    async def test_numbers_agree_when_some_records_fail(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=0) as producer:
            await producer.send("t", b"0")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
            with pytest.raises(errors.TopicAuthorizationFailedError):
                await producer.send("t", b"1")
            await producer.send("t", b"2")
            assert_accounts(producer)
            numbers = producer.statistics()
            assert (numbers.accepted, numbers.delivered, numbers.failed) == (3, 2, 1)
        assert values(broker, "t") == [b"0", b"2"]

    async def test_a_sender_that_dies_fails_everything_and_later_calls_raise(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        deliveries = [await producer.enqueue("t", b"y") for _ in range(100)]
        waiting = asyncio.create_task(producer.send("unknown", b"z"))
        await asyncio.sleep(0)
        (sender,) = [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-sender"]
        sender.cancel()
        for outcome in await asyncio.gather(*deliveries, waiting, return_exceptions=True):
            assert isinstance(outcome, errors.SenderCrashedError)
        with pytest.raises(errors.SenderCrashedError):
            await producer.send("t", b"more")
        with pytest.raises(errors.SenderCrashedError):
            await producer.flush()
        assert producer.health.state == "crashed"
        assert_accounts(producer)
        await producer.close()
        assert our_tasks() == set()

    async def test_a_sender_that_dies_ends_a_send_many_that_goes_on(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers, max_block_ms=60_000)
        await producer.start()
        broker.controls.stall_connections()
        sending = asyncio.create_task(producer.send_many("unknown", [b"x"] * 200, return_exceptions=True))
        await asyncio.sleep(0)
        (sender,) = [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-sender"]
        sender.cancel()
        async with asyncio.timeout(10):
            outcomes = await sending
        assert {type(outcome) for outcome in outcomes} == {errors.SenderCrashedError}
        assert producer.statistics().waiters == 0
        await producer.close()

    async def test_a_bug_in_the_sender_is_the_cause_of_every_error(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
            runtime = producer._life.runtime
            assert runtime is not None
            runtime.sender.run_once = lambda now: 1 / 0  # type: ignore[method-assign]
            with pytest.raises(errors.SenderCrashedError) as caught:
                await producer.send("t", b"y")
            assert isinstance(caught.value.__cause__, ZeroDivisionError)

    def test_the_end_of_asyncio_run_leaves_no_future_pending(self) -> None:
        outcomes: list[Any] = []

        async def main() -> None:
            broker = DevBroker()
            await broker.start()
            producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
            await producer.start()
            await producer.send("t", b"x")
            broker.controls.stall_connections()
            deliveries.extend([await producer.enqueue("t", b"y") for _ in range(10)])
            kept.extend([producer, broker])
            # Ends without close(): the loop cancels all tasks.

        deliveries: list[Any] = []
        kept: list[Any] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            asyncio.run(main())
            outcomes = [delivery.exception() for delivery in deliveries]
            numbers = kept[0].statistics()
            kept.clear()
            gc.collect()
        assert len(outcomes) == 10
        assert all(isinstance(error, errors.SenderCrashedError) for error in outcomes)
        assert (numbers.accepted, numbers.delivered, numbers.failed, numbers.pending) == (11, 1, 10, 0)


class TestTime:
    """Promise 2: every record has an outcome in time; flush and close keep their deadlines; linger is linger."""

    async def test_close_with_a_dead_broker_returns_in_time_with_every_future_done(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        deliveries = [await producer.enqueue("t", b"y") for _ in range(1000)]
        started = time.perf_counter()
        await producer.close(timeout=0.3)
        assert 0.25 < time.perf_counter() - started < 20, "a request's time-out is thirty"
        assert all(delivery.done() for delivery in deliveries)
        found = [delivery.exception() for delivery in deliveries]
        assert all(isinstance(error, errors.CloseTimeoutError) for error in found)
        assert "records of this partition" in str(found[0])
        assert our_tasks() == set()
        broker.controls.clear()

    async def test_flush_and_close_do_not_wait_out_linger(self, broker: DevBroker) -> None:
        producer = KafkaProducer(broker.bootstrap_servers, linger_ms=60_000)
        await producer.start()
        started = time.perf_counter()
        delivery = await producer.enqueue("t", b"x")
        await producer.flush()
        assert delivery.done()
        last = await producer.enqueue("t", b"y")
        await producer.close()
        assert last.done()
        assert time.perf_counter() - started < 30

    @pytest.mark.parametrize("options", [{"linger_ms": 60_000}, {"manual_flush": True}])
    @pytest.mark.parametrize("ends", ["flush", "close"])
    async def test_records_do_not_wait_for_one_that_is_not_accepted(
        self, broker: DevBroker, options: dict[str, Any], ends: str
    ) -> None:
        """One misspelt topic must not cost the records of all others when a service ends."""
        broker.create_topic("t", partitions=1)
        producer = KafkaProducer(broker.bootstrap_servers, **options)
        await producer.start()
        await producer.partitions_for("t")
        good = [producer.send_nowait("t", b"x") for _ in range(10)]
        broker.controls.fail_next(ApiKey.METADATA, errors.UnknownTopicOrPartitionError, times=1_000)
        waits = asyncio.create_task(producer.send("misspelt", b"y"))
        await asyncio.sleep(0)
        with contextlib.suppress(errors.FlushTimeoutError):
            await (producer.flush(timeout=1) if ends == "flush" else producer.close(timeout=1))
        assert [delivery.exception() for delivery in good] == [None] * 10
        await producer.close(timeout=0)
        await asyncio.wait([waits])
        assert isinstance(waits.exception(), errors.KafkaError)

    async def test_flush_reports_its_timeout_and_the_records_go_on(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
            broker.controls.delay(ApiKey.PRODUCE, 0.2)
            delivery = await producer.enqueue("t", b"y")
            with pytest.raises(errors.FlushTimeoutError, match="1 records without an outcome"):
                await producer.flush(timeout=0.02)
            assert not delivery.done()
            await delivery

    async def test_flush_waits_for_calls_that_were_waiting_to_be_accepted(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            task = asyncio.create_task(producer.send("new topic".replace(" ", "-"), b"x"))
            await asyncio.sleep(0)
            await producer.flush()
            await asyncio.wait([task], timeout=0.1)
            assert task.done()

    async def test_a_record_expires_in_time_and_says_why(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, **SHORT) as producer:
            await producer.send("t", b"x")
            broker.controls.set_leader("t", 0, None)
            started = time.perf_counter()
            with pytest.raises(errors.DeliveryTimeoutError) as caught:
                await producer.send("t", b"y")
            assert 1.4 < time.perf_counter() - started < 20
        assert caught.value.topic == "t"
        assert caught.value.partition == 0
        assert "delivery_timeout_ms=1500" in str(caught.value)

    async def test_linger_is_measured_from_the_first_record(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=100) as producer:
            await producer.send("t", b"warm up")
            started = time.perf_counter()
            first = await producer.enqueue("t", b"0")
            while not first.done():
                await producer.enqueue("t", b"more")
                await asyncio.sleep(0.01)
            assert 0.08 < time.perf_counter() - started < 20, "measured from the last one it would never be over"

    async def test_an_idle_producer_does_not_wake_up(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
            await asyncio.sleep(0.2)
            before = producer.statistics().wake_ups
            await asyncio.sleep(0.5)
            assert producer.statistics().wake_ups == before

    async def test_start_fails_in_time_naming_each_address(self) -> None:
        ports = [free_port(), free_port()]
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        producer = KafkaProducer(servers, max_block_ms=300)
        started = time.perf_counter()
        for _ in range(2):  # it may be tried again
            with pytest.raises(errors.MetadataTimeoutError) as caught:
                await producer.start()
            for port in ports:
                assert f"127.0.0.1:{port}" in str(caught.value)
        assert 0.5 < time.perf_counter() - started < 20
        assert our_tasks() == set()
        await producer.close()


class TestOrder:
    """Promise 3: per partition, wire order is call order."""

    async def test_concurrent_sends_to_an_unknown_topic_keep_call_order(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await asyncio.gather(*(producer.send("t", value) for value in numbered(3000)))
        assert values(broker, "t") == numbered(3000)

    async def test_order_is_kept_when_the_buffer_is_full(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {"buffer_memory": 30_000, "max_request_size": 10_000, "batch_size": 4_000}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await asyncio.gather(*(producer.send("t", value + b"x" * 100) for value in numbered(5000)))
        assert [value[:6] for value in values(broker, "t") if value] == numbered(5000)

    async def test_async_serializers_finish_in_any_order_and_records_do_not(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        source = random.Random(1)

        async def serialize(data: int) -> bytes:
            for _ in range(source.randrange(20)):
                await asyncio.sleep(0)
            return b"%06d" % data

        async with KafkaProducer(broker.bootstrap_servers, value_serializer=serialize) as producer:
            await asyncio.gather(*(producer.send("t", number) for number in range(500)))
            with pytest.raises(errors.IllegalStateError):
                producer.send_nowait("t", 1)
        assert values(broker, "t") == numbered(500)

    async def test_retriable_errors_reorder_nothing_with_five_in_flight(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=2)
        options: dict[str, Any] = {"batch_size": 500, "retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "linger_ms": 0}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first", partition=0)
            source = random.Random(7)
            deliveries = []
            for number, value in enumerate(numbered(3000)):
                if number % 200 == 0:
                    error = source.choice([errors.NotEnoughReplicasError, errors.NotLeaderOrFollowerError])
                    broker.controls.fail_next(ApiKey.PRODUCE, error, after_append=False)
                if number % 500 == 250:
                    broker.controls.drop_next(ApiKey.PRODUCE, after=source.random() < 0.5)
                deliveries.append(await producer.enqueue("t", value, partition=0))
                if number % 10 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*deliveries)
        assert values(broker, "t") == [b"first", *numbered(3000)]

    async def test_retriable_errors_reorder_nothing_while_requests_in_flight_adapt(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {
            "max_in_flight_requests_per_connection": "auto", "batch_size": 500, "retry_backoff_ms": 5, "linger_ms": 0,
            "retry_backoff_max_ms": 20, "metrics_per_node": True,
        }  # fmt: skip
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            deliveries, most = [], 0
            for number, value in enumerate(numbered(3000)):
                if number % 200 == 0:
                    broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError)
                deliveries.append(await producer.enqueue("t", value))
                if number % 10 == 0:
                    await asyncio.sleep(0)
                    most = max(most, *producer.statistics().in_flight.values())
            await asyncio.gather(*deliveries)
            (limit,) = producer.statistics().in_flight_limits.values()
            assert 1 <= limit <= 5
            assert most <= 6, "with one of the metadata's"
            found = [metrics.get("requests-in-flight-limit") for metrics in producer.node_metrics().values()]
            assert limit in found
        assert values(broker, "t") == numbered(3000)

    async def test_a_moving_leader_loses_and_reorders_nothing(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=1000, retry_backoff_ms=10) as producer:
            await producer.send("t", b"first")
            deliveries = []
            for number, value in enumerate(numbered(4000)):
                if number % 400 == 200:
                    broker.controls.set_leader("t", 0, number // 400 % 3 + 1)
                deliveries.append(await producer.enqueue("t", value))
                if number % 20 == 0:
                    await asyncio.sleep(0)
            await asyncio.gather(*deliveries)
        assert values(broker, "t") == [b"first", *numbered(4000)]

    async def test_order_without_idempotence_with_one_in_flight(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {
            "enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "batch_size": 500,
            "retry_backoff_ms": 5,
        }  # fmt: skip
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError, times=5)
            await producer.send_many("t", numbered(2000))
        assert values(broker, "t") == [b"first", *numbered(2000)]


class TestOnce:
    """Promise 4: a retry never duplicates; no gap stays; a bump rewrites only the batches it must."""

    async def test_lost_answers_duplicate_nothing(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=2000, retry_backoff_ms=5) as producer:
            await producer.send("t", b"first")
            broker.controls.drop_next(ApiKey.PRODUCE, after=True, times=3)
            await producer.send_many("t", numbered(2000))
            broker.controls.fail_next(ApiKey.PRODUCE, errors.RequestTimedOutError, times=3, after_append=True)
            await producer.send_many("t", numbered(2000))
        assert values(broker, "t") == [b"first", *numbered(2000), *numbered(2000)]

    async def test_duplicate_sequence_is_success_without_an_offset(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.DuplicateSequenceNumberError, after_append=True)
            metadata = await producer.send("t", b"second")
        assert metadata.offset == -1
        assert not metadata.has_offset

    async def test_an_expired_batch_that_was_never_sent_leaves_no_gap(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, **SHORT) as producer:
            await producer.send("t", b"0")
            broker.controls.set_leader("t", 0, None)
            with pytest.raises(errors.DeliveryTimeoutError):
                await producer.send("t", b"refused")  # sent to the old leader: this is how we learn that it is none
            epoch = producer.statistics().producer_epoch
            with pytest.raises(errors.DeliveryTimeoutError, match="no leader"):
                await producer.send("t", b"never sent")
            broker.controls.set_leader("t", 0, 2)
            await producer.send("t", b"2")
            assert producer.statistics().producer_epoch <= epoch + 1
            assert broker.controls.request_count(ApiKey.INIT_PRODUCER_ID) == 1
        assert values(broker, "t") == [b"0", b"2"]

    async def test_an_expired_batch_in_doubt_bumps_the_epoch_and_the_rest_arrives_once(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=2)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=0, **SHORT) as producer:
            await producer.send("t", b"0", partition=0)
            await producer.send("t", b"0", partition=1)
            # Never carried out, and the connection is lost instead of an answer: in doubt for us.
            broker.controls.drop_next(ApiKey.PRODUCE, after=False, times=None)
            with pytest.raises(errors.DeliveryTimeoutError) as caught:
                await producer.send("t", b"in doubt", partition=0)
            assert caught.value.outcome_unknown
            broker.controls.clear()
            for number in range(1, 4):
                await producer.send("t", b"%d" % number, partition=0)
                await producer.send("t", b"%d" % number, partition=1)
            assert producer.statistics().producer_epoch >= 1
        assert values(broker, "t", 0) == [b"0", b"1", b"2", b"3"]
        assert values(broker, "t", 1) == [b"0", b"1", b"2", b"3"]

    @pytest.mark.parametrize("error", [errors.OutOfOrderSequenceNumberError, errors.UnknownProducerIdError])
    async def test_a_lost_producer_state_is_repaired_by_a_new_epoch(
        self, broker: DevBroker, error: type[errors.KafkaError]
    ) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, batch_size=500, retry_backoff_ms=5) as producer:
            await producer.send("t", b"first")
            broker.controls.fail_next(ApiKey.PRODUCE, error)
            await producer.send_many("t", numbered(500))
        assert values(broker, "t") == [b"first", *numbered(500)]

    async def test_a_batch_too_large_for_the_broker_is_halved_until_it_fits(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1, config={"max.message.bytes": "3000"})
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=20) as producer:
            outcomes = await producer.send_many("t", [value + b"x" * 100 for value in numbered(500)])
            assert [outcome.offset for outcome in outcomes if isinstance(outcome, RecordMetadata)] == list(range(500))
            with pytest.raises(errors.RecordTooLargeError) as caught:
                await producer.send("t", b"x" * 5000)
            assert caught.value.size is not None
            assert caught.value.topic == "t"
            await producer.send("t", b"last")
            assert producer.metrics()["batch-split-total"] > 3
        assert [value[:6] for value in values(broker, "t") if value] == [*numbered(500), b"last"]

    async def test_a_poison_record_fails_alone(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)

        refused: list[int] = []

        def refuse(context: Any, body: Any) -> Any:
            if refused:
                return None  # the rest of the batch comes again at once, and is valid
            refused.append(context.api_version)
            return context.respond(
                responses=[
                    {
                        "name": getattr(body.topic_data[0], "name", None),
                        "topic_id": getattr(body.topic_data[0], "topic_id", None),
                        "partition_responses": [
                            {
                                "index": 0,
                                "error_code": 87,
                                "base_offset": -1,
                                "log_append_time": -1,
                                "record_errors": [{"batch_index": 3, "batch_index_error_message": "poison"}],
                                "error_message": "invalid",
                            }
                        ],
                    }
                ]
            )

        async with KafkaProducer(broker.bootstrap_servers, linger_ms=30) as producer:
            await producer.send("t", b"first")
            broker.controls.on_request(ApiKey.PRODUCE, refuse)
            outcomes = await producer.send_many("t", numbered(6), return_exceptions=True)
            await producer.send("t", b"last")
        assert [isinstance(outcome, RecordMetadata) for outcome in outcomes] == [True, True, True, False, True, True]
        assert isinstance(outcomes[3], errors.InvalidRecordError)
        assert "poison" in str(outcomes[3])
        sixth = numbered(6)
        assert values(broker, "t") == [b"first", *sixth[:3], *sixth[4:], b"last"]


class TestGaplessGuarantee:
    async def test_a_partition_is_resumed_when_nothing_older_waits_for_it(self, broker: DevBroker) -> None:
        """A record that waited for room, and one whose serializer takes its time, would come behind the gap."""
        release = asyncio.Event()

        async def slow(value: bytes) -> bytes:
            if value == b"slow":
                await release.wait()
            return value

        options: Any = {"linger_ms": 0, "enable_gapless_guarantee": True, "value_serializer": slow}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"0", partition=0)
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError.code or 0)
            with pytest.raises(errors.TopicAuthorizationFailedError):
                await producer.send("t", b"refused", partition=0)
            with pytest.raises(errors.GaplessGuaranteeError, match="one failed"):
                await producer.send("t", b"behind", partition=0)
            elder = asyncio.create_task(producer.send("t", b"slow", partition=0))
            await asyncio.sleep(0)
            with pytest.raises(errors.IllegalStateError, match="t-0: 1 older records have no outcome yet"):
                producer.resume("t", 0)
            release.set()
            await producer.flush()
            with pytest.raises(errors.GaplessGuaranteeError):
                await elder
            producer.resume("t", 0)
            await producer.send("t", b"1", partition=0)
        assert [record.value for record in broker.records("t", 0)] == [b"0", b"1"]

    async def test_a_partition_that_cannot_be_is_an_error(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(ValueError, match="partition -1"):
                producer.resume("t", -1)
            producer.resume("nowhere", 2_000_000_000)
        with pytest.raises(errors.ProducerClosedError):
            producer.resume("t", 0)

    @pytest.mark.parametrize("option", [{"acks": 1}, {"enable_idempotence": False}, {"transactional_id": "one"}])
    def test_without_its_requirements_it_is_refused(self, option: Any) -> None:
        with pytest.raises(errors.ConfigurationError, match="enable_gapless_guarantee=True"):
            KafkaProducer("localhost:9092", enable_gapless_guarantee=True, **option)


class TestCancellation:
    """Promise 5."""

    async def test_cancelled_before_it_is_accepted_a_record_is_never_sent(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        options: dict[str, Any] = {
            "buffer_memory": 4_000,
            "max_request_size": 2_000,
            "batch_size": 1_000,
            "linger_ms": 0,
        }
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first")
            broker.controls.stall_connections()
            tasks = [asyncio.create_task(producer.send("t", value + b"x" * 500)) for value in numbered(12)]
            await until(lambda: producer.statistics().waiters > 3)
            accepted = producer.statistics().accepted - 1
            for task in tasks[accepted::2]:
                task.cancel()
            broker.controls.stall_connections(False)
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            expected = [b"%06d" % n for n in range(12) if n < accepted or (n - accepted) % 2]
            assert [isinstance(outcome, RecordMetadata) for outcome in outcomes].count(True) == len(expected)
            assert producer.statistics().waiters == 0
            assert_accounts(producer)
        assert [value[:6] for value in values(broker, "t")[1:] if value] == expected

    async def test_cancelled_while_it_waits_for_metadata_a_record_is_never_sent(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            tasks = [asyncio.create_task(producer.send("t", value, partition=0)) for value in numbered(10)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert values(broker, "t") == numbered(10)[1::2]

    async def test_cancelled_afterwards_it_is_delivered_and_nobody_complains(
        self, broker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.create_topic("t", partitions=1)
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            broker.controls.delay(ApiKey.PRODUCE, 0.05)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", b"x"), 0.01)
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.send("t", b"refused"), 0.01)
            await producer.flush()
            numbers = producer.statistics()
            assert (numbers.accepted, numbers.delivered, numbers.failed) == (3, 2, 1)
        gc.collect()
        assert complaints == []
        assert values(broker, "t") == [b"first", b"x"]

    async def test_a_task_group_with_one_failing_record_leaves_the_others_delivered(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    for value in numbered(100):
                        group.create_task(producer.send("t", value))
                    group.create_task(producer.send("t", b"x" * 2_000_000))
            await producer.flush()
            assert_accounts(producer)
        assert values(broker, "t") == [b"first", *numbered(100)]

    async def test_cancelling_close_closes_at_once(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        await producer.send("t", b"x")
        broker.controls.stall_connections()
        delivery = await producer.enqueue("t", b"y")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert delivery.done()
        await until(lambda: not our_tasks())
        broker.controls.clear()

    async def test_cancelling_start_leaves_nothing_behind(self) -> None:
        producer = KafkaProducer(f"127.0.0.1:{free_port()}")
        starting = asyncio.create_task(producer.start())
        await asyncio.sleep(0.02)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert our_tasks() == set()
        assert producer.state.value == "new"


class TestMemory:
    """Promise 6: a hard bound, first come first served, linear."""

    async def test_buffer_memory_is_a_hard_bound_and_the_error_says_so(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {
            "buffer_memory": 50_000,
            "max_request_size": 10_000,
            "batch_size": 5_000,
            "max_block_ms": 200,
        }
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.send("t", b"first")
            broker.controls.stall_connections()
            with pytest.raises(errors.BufferExhaustedError):
                for _ in range(100):
                    producer.send_nowait("t", b"x" * 1000)
            tasks = [asyncio.create_task(producer.send("t", b"x" * 1000)) for _ in range(50)]
            await until(lambda: producer.statistics().waiters == 50)
            assert producer.statistics().buffered_bytes <= 50_000
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, errors.BufferExhaustedError) for outcome in outcomes)
            assert "50000" in str(outcomes[0])
            assert "max_block_ms=200" in str(outcomes[0])
            broker.controls.clear()
            await producer.send("t", b"last")


class TestLoop:
    """Promise 7: others run."""

    @pytest.mark.alone
    async def test_a_tight_enqueue_loop_starves_nobody(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"first")
            gaps: list[float] = []

            async def heartbeat() -> None:
                while True:
                    started = time.perf_counter()
                    await asyncio.sleep(0.001)
                    gaps.append(time.perf_counter() - started)

            beating = asyncio.create_task(heartbeat())
            for _ in range(200_000):
                await producer.enqueue("t", b"x" * 100)
            await producer.flush()
            beating.cancel()
        # The dev broker shares the loop and the machine is shared too: the bound is not the promise's.
        assert sorted(gaps)[len(gaps) // 2] < 0.03
        assert len(gaps) >= 5

    def test_used_from_another_loop_or_outside_it_raises_at_once(self, caplog: pytest.LogCaptureFixture) -> None:
        async def start() -> tuple[DevBroker, KafkaProducer[bytes, bytes]]:
            broker = DevBroker()
            await broker.start()
            producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
            await producer.start()
            return broker, producer

        async def use(producer: KafkaProducer[bytes, bytes]) -> None:
            with pytest.raises(errors.WrongEventLoopError):
                await producer.send("t", b"x")
            with pytest.raises(errors.WrongEventLoopError):
                await producer.close()

        with asyncio.Runner() as runner:
            broker, producer = runner.run(start())
            with pytest.raises(errors.WrongEventLoopError, match="outside of any event loop"):
                producer.send_nowait("t", b"x")
            with asyncio.Runner() as other:
                other.run(use(producer))
            runner.run(producer.close())
            runner.run(broker.stop())

    async def test_threads_that_are_all_busy_hold_up_no_metadata(self, broker: DevBroker) -> None:
        """A user's own blocking calls, in the loop's default executor. The answer is a large one."""
        broker.create_topic("large", partitions=1000)
        is_over = threading.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        blocking = asyncio.ensure_future(asyncio.to_thread(is_over.wait))
        try:
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                assert (await asyncio.wait_for(producer.send("large", b"x", partition=7), 20)).partition == 7
        finally:
            is_over.set()
            await blocking

    @pytest.mark.parametrize("real_asyncio", [True, False])
    async def test_it_works_while_time_is_frozen(self, broker: DevBroker, real_asyncio: bool) -> None:
        broker.create_topic("t", partitions=1)
        with freezegun.freeze_time("2024-01-02 03:04:05", real_asyncio=real_asyncio):
            async with KafkaProducer(broker.bootstrap_servers) as producer:
                metadata = await producer.send("t", b"x")
                await producer.send_many("t", numbered(100))
                await producer.flush()
        assert metadata.timestamp_ms == 1_704_164_645_000
        assert len(values(broker, "t")) == 101


class TestOutages:
    """Promise 8."""

    async def test_metadata_requests_do_not_grow_with_records(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=8)
        options: dict[str, Any] = SHORT | {"retry_backoff_ms": 100, "retry_backoff_max_ms": 100}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            for partition in range(8):
                await producer.send("t", b"x", partition=partition)
            for partition in range(8):
                broker.controls.set_leader("t", partition, None)
            before = broker.controls.request_count(ApiKey.METADATA)
            outcomes = await asyncio.gather(
                *(producer.send("t", b"y", partition=number % 8) for number in range(2000)), return_exceptions=True
            )
            assert all(isinstance(outcome, errors.DeliveryTimeoutError) for outcome in outcomes)
            # 1.5 s of outage at 100 ms ± 20 %, and a request per connection lost or made.
            assert broker.controls.request_count(ApiKey.METADATA) - before <= 1500 / 80 + 4

    async def test_an_outage_of_all_brokers_is_survived_and_the_log_stays_short(
        self, broker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.create_topic("t", partitions=3)
        async with KafkaProducer(broker.bootstrap_servers, request_timeout_ms=500) as producer:
            await producer.send("t", b"first")
            caplog.clear()
            for node_id in (1, 2, 3):
                broker.controls.stop_node(node_id)
            deliveries = [await producer.enqueue("t", value) for value in numbered(1000)]
            await asyncio.sleep(0.6)
            in_the_outage = producer.health
            assert not in_the_outage.is_healthy
            assert not any(delivery.done() for delivery in deliveries)
            for node_id in (1, 2, 3):
                broker.controls.start_node(node_id)
            await asyncio.wait_for(asyncio.gather(*deliveries), 20)
            assert producer.health.is_healthy
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) < 40
        assert len(broker.records("t")) == 1001

    @pytest.mark.parametrize(("host", "port"), [("", 9092), ("localhost", -1)])
    async def test_a_broker_without_an_address_is_waited_for(self, host: str, port: int) -> None:
        """A broker that is misconfigured, or starting: the producer ended for good."""
        async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers, retry_backoff_ms=20) as producer:
            await producer.send("t", b"1")
            partitions = [{"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}]
            broker.controls.on_request(
                ApiKey.METADATA,
                lambda context, body: context.respond(
                    brokers=[{"node_id": 1, "host": host, "port": port}],
                    topics=[{"name": topic.name, "partitions": partitions} for topic in body.topics],
                ),
            )
            before = broker.controls.request_count(ApiKey.METADATA)
            broker.controls.drop_connections()
            await until(lambda: broker.controls.request_count(ApiKey.METADATA) > before)
            sending = asyncio.create_task(producer.send("t", b"2"))
            await until(lambda: broker.controls.request_count(ApiKey.METADATA) > before + 1 or sending.done())
            broker.controls.on_request(ApiKey.METADATA, None)
            await asyncio.wait_for(sending, 20)
            assert values(broker, "t") == [b"1", b"2"]

    async def test_a_topic_made_soon_after_the_first_send_is_found_by_the_next_request(self) -> None:
        async with (
            DevBroker(auto_create_topics_enable=False) as broker,
            KafkaProducer(broker.bootstrap_servers) as producer,
        ):
            sending = asyncio.create_task(producer.send("late", b"x"))
            await until(lambda: broker.controls.request_count(ApiKey.METADATA) > 3)
            broker.create_topic("late", 1)
            before = broker.controls.request_count(ApiKey.METADATA)
            await asyncio.wait_for(sending, 20)
            assert broker.controls.request_count(ApiKey.METADATA) == before + 1


class TestErrors:
    """Promise 10: the cause, the place, and the size."""

    async def test_an_unknown_topic_is_named_as_the_cause(self) -> None:
        async with (
            DevBroker(auto_create_topics_enable=False) as broker,
            KafkaProducer(broker.bootstrap_servers, max_block_ms=300) as producer,
        ):
            with pytest.raises(errors.MetadataTimeoutError) as caught:
                await producer.send("no-such-topic", b"x")
            assert "no-such-topic" in str(caught.value)
            assert "does not host" in str(caught.value)
            with pytest.raises(errors.MetadataTimeoutError):
                await producer.partitions_for("no-such-topic")

    async def test_a_partition_that_a_topic_lacks_is_an_error_that_says_how_many_it_has(self) -> None:
        # A second, so that the topic's metadata are there before it ends.
        async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers, max_block_ms=1_000) as producer:
            broker.create_topic("t", partitions=2)
            with pytest.raises(errors.MetadataTimeoutError, match="2 partitions"):
                await producer.send("t", b"x", partition=7)
            with pytest.raises(ValueError, match="partition -1"):
                await producer.send("t", b"x", partition=-1)

    async def test_an_invalid_name_is_an_error_at_once(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.InvalidTopicError):
                await producer.send("no spaces please", b"x")
            with pytest.raises(errors.InvalidTopicError):
                await producer.send("", b"x")

    async def test_the_error_for_wrong_data_has_the_remedy(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            for _ in range(2):  # with and without metadata
                wrong: Any = "text"
                with pytest.raises(errors.SerializationError, match="value_serializer"):
                    await producer.send("t", wrong)
                with pytest.raises(errors.SerializationError, match="key_serializer"):
                    await producer.send("t", b"x", key=wrong)
                with pytest.raises(errors.SerializationError, match="pairs"):
                    await producer.send("t", b"x", headers=["ab"])  # type: ignore[list-item]
                with pytest.raises(errors.SerializationError, match="header 'a'"):
                    await producer.send("t", b"x", headers=[("a", wrong)])
                await producer.send("t", b"fine")
            assert_accounts(producer)

    async def test_a_record_over_the_limit_says_size_and_limit(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.RecordTooLargeError) as caught:
                await producer.send("t", b"x" * 1_100_000)
            assert caught.value.limit == 1_048_576
            assert caught.value.size is not None
            assert caught.value.size > 1_100_000

    async def test_send_nowait_says_that_metadata_is_missing(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.MetadataNotReadyError, match="partitions_for"):
                producer.send_nowait("t", b"x")
            await producer.partitions_for("t")
            assert (await producer.send_nowait("t", b"x")).offset == 0


class TestLife:
    """Start, stop, fork, and being forgotten."""

    async def test_before_start_and_after_close_calls_raise(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] = KafkaProducer(broker.bootstrap_servers)
        with pytest.raises(errors.ProducerNotStartedError):
            await producer.send("t", b"x")
        await producer.start()
        await producer.start()
        await asyncio.gather(producer.close(), producer.close(timeout=1))
        await producer.close()
        with pytest.raises(errors.ProducerClosedError):
            await producer.send("t", b"x")
        with pytest.raises(errors.ProducerClosedError):
            await producer.start()

    async def test_close_before_start_is_legal(self) -> None:
        producer = KafkaProducer("127.0.0.1:1")
        await producer.close()
        await producer.close()

    async def test_close_delivers_accepted_records(self, broker: DevBroker) -> None:
        broker.create_topic("t", partitions=1)
        async with KafkaProducer(broker.bootstrap_servers, linger_ms=1000) as producer:
            deliveries = [await producer.enqueue("t", value) for value in numbered(5000)]
        assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)
        assert values(broker, "t") == numbered(5000)
        assert our_tasks() == set()

    async def test_dropped_without_close_there_is_one_resource_warning(self, broker: DevBroker) -> None:
        producer: KafkaProducer[bytes, bytes] | None = KafkaProducer(broker.bootstrap_servers)
        assert producer is not None
        await producer.start()
        await producer.send("t", b"x")
        with pytest.warns(ResourceWarning, match="unclosed") as caught:  # noqa: PT031
            producer = None
            gc.collect()
            await until(lambda: not our_tasks())
            gc.collect()
        assert len(caught) == 1

    async def test_used_after_fork_it_raises_at_once(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            unstarted = KafkaProducer(broker.bootstrap_servers)
            await producer.send("t", b"x")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                code = 1
                try:
                    try:
                        producer.send_nowait("t", b"x")
                    except errors.ForkedProducerError:
                        code = 0 if unstarted.state.value == "new" else 2
                finally:
                    os._exit(code)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            # The parent's connection is unharmed.
            await producer.send("t", b"y")

    @pytest.mark.parametrize("is_started", [False, True])
    async def test_tasks_that_end_in_the_child_of_a_fork_leave_the_parent_its_connections(
        self, broker: DevBroker, is_started: bool
    ) -> None:
        """As ``asyncio.run`` ends them, when the child leaves it by ``sys.exit()``."""
        broker.create_topic("t", partitions=1)
        broker.controls.delay(ApiKey.METADATA, seconds=0.1)
        producer = KafkaProducer(broker.bootstrap_servers)
        starting = asyncio.create_task(producer.start())
        await until(lambda: broker.controls.request_count(ApiKey.METADATA) > 0)
        if is_started:
            await starting
        runtime: Any = producer._life.runtime
        tasks = [runtime.sender_task] if is_started else [starting, runtime.sender_task]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            ended = 0
            try:
                for task in tasks:
                    try:
                        task.get_coro().throw(asyncio.CancelledError())
                    except asyncio.CancelledError:
                        ended += 1
                if producer.state.value != "forked" or not runtime.client.is_active:
                    ended = -1
            finally:
                os._exit(len(tasks) - ended)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await starting
        await producer.send("t", b"x")
        await producer.close()


class TestATopicThatBrokersCloseTheConnectionOn:
    """As Kafka does on a name of 40,000 characters, which is refused here: a name of the broker's own dislike."""

    @pytest.fixture
    async def broker(self) -> AsyncIterator[DevBroker]:
        async with DevBroker() as broker:

            def refuse(context: Any, body: Any) -> Any:
                if not any(topic.name == "bad" for topic in body.topics or ()):
                    return None
                closing = asyncio.get_running_loop().create_future()
                closing.cancel()
                return closing

            broker.controls.on_request(ApiKey.METADATA, refuse)
            yield broker

    async def test_it_fails_alone_and_keeps_no_other_topic_waiting(self, broker: DevBroker) -> None:
        others = [f"t{number}" for number in range(20)]
        for topic in others:
            broker.create_topic(topic)
        async with KafkaProducer(broker.bootstrap_servers, max_block_ms=3_000, reconnect_backoff_ms=10) as producer:
            bad = asyncio.ensure_future(producer.send("bad", b"x"))
            async with asyncio.timeout(2.5):
                await asyncio.gather(*(producer.send(topic, b"x") for topic in others[:10]))
                for topic in others[10:]:
                    await producer.send(topic, b"x")
            assert not bad.done()
            with pytest.raises(errors.MetadataTimeoutError, match="asked for it alone"):
                await bad
            assert_accounts(producer)


async def test_a_truncated_log_is_reported(broker: DevBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Here by making the topic anew; a node that leads without the records does the same."""
    broker.create_topic("cut", 1)
    async with KafkaProducer(broker.bootstrap_servers, **SHORT | {"delivery_timeout_ms": 10_000}) as producer:
        for value in numbered(3):
            await producer.send("cut", value)
        broker.delete_topic("cut")
        broker.create_topic("cut", 1)
        assert (await producer.send("cut", b"first")).offset == 0
        assert (await producer.send("cut", b"second")).offset == 1
        assert producer.metrics()["log-truncation-total"] == 1
    (told,) = [record for record in caplog.records if "produce.records_lost" in record.getMessage()]
    assert told.levelno == logging.ERROR
    assert "topic=cut partition=0 offset=0 acknowledged=2" in told.getMessage()
