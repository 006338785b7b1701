"""A producer's numbers and events, against the dev broker over real sockets."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, Observer, ProducerConfig, errors
from aiokafkapy.admin import TopicAdmin
from aiokafkapy.broker import DevBroker
from aiokafkapy.observability.observer import (
    BatchDone,
    ConnectionClosed,
    ConnectionOpened,
    RequestDone,
    RequestSent,
    Throttled,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request
from tests.loops import is_on_uvloop
from tests.unit.client.captures import streams
from tests.waiting import until


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=2) as broker:
        broker.create_topic("t", partitions=1)
        yield broker


def least_time() -> float:
    """Seconds that anything takes by the loop's clock: uvloop's has milliseconds."""
    return 0 if is_on_uvloop() else 1e-9


class Recorder(Observer):
    """Keeps all that it is told."""

    def __init__(self) -> None:
        self.opened: list[ConnectionOpened] = []
        self.closed: list[ConnectionClosed] = []
        self.sent: list[RequestSent] = []
        self.done: list[RequestDone] = []
        self.pauses: list[Throttled] = []
        self.batches: list[BatchDone] = []

    def connection_opened(self, event: ConnectionOpened) -> None:
        self.opened.append(event)

    def connection_closed(self, event: ConnectionClosed) -> None:
        self.closed.append(event)

    def request_sent(self, event: RequestSent) -> None:
        self.sent.append(event)

    def request_done(self, event: RequestDone) -> None:
        self.done.append(event)

    def throttled(self, event: Throttled) -> None:
        self.pauses.append(event)

    def batch_done(self, event: BatchDone) -> None:
        self.batches.append(event)


class TestObservers:
    async def test_they_are_told_of_all_that_a_producer_does(self, broker: DevBroker) -> None:
        recorder = Recorder()
        async with KafkaProducer(broker.bootstrap_servers, observers=[recorder]) as producer:
            broker.controls.throttle("aiokafkapy", 20)
            metadata = await producer.send("t", b"value")
        assert [event.address for event in recorder.opened]
        assert len(recorder.closed) == len(recorder.opened)
        assert all(event.seconds >= least_time() and event.error is None for event in recorder.closed)
        ids = [event.correlation_id for event in recorder.sent]
        assert sorted(event.correlation_id for event in recorder.done) == ids
        produce = next(event for event in recorder.done if event.api == "PRODUCE")
        (batch,) = recorder.batches
        assert (batch.topic, batch.partition, batch.records, batch.base_offset) == ("t", 0, 1, metadata.offset)
        assert batch.size < produce.request_size
        assert least_time() <= produce.seconds <= batch.in_flight + 0.001
        assert batch.throttled == pytest.approx(0.020)
        assert Throttled(produce.node_id, "PRODUCE", 0.02) in recorder.pauses

    async def test_a_batch_is_reported_once_with_any_outcome(self, broker: DevBroker) -> None:
        recorder = Recorder()
        async with KafkaProducer(broker.bootstrap_servers, observers=[recorder], retry_backoff_ms=1) as producer:
            broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError, times=2)
            await producer.send("t", b"retried")
            broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
            with pytest.raises(errors.TopicAuthorizationFailedError):
                await producer.send("t", b"refused")
            broker.controls.stall_connections(True)
            delivery = await producer.enqueue("t", b"given up")
            await producer.close(timeout=0.05)
            with pytest.raises(errors.CloseTimeoutError):
                await delivery
        retried, refused, given_up = recorder.batches
        assert (retried.attempts, retried.error) == (3, None)
        assert isinstance(refused.error, errors.TopicAuthorizationFailedError)
        assert isinstance(given_up.error, errors.CloseTimeoutError)

    async def test_records_that_are_given_up_are_reported_too(self, broker: DevBroker) -> None:
        recorder = Recorder()
        async with KafkaProducer(broker.bootstrap_servers, observers=[recorder], linger_ms=60_000) as producer:
            kept = await producer.enqueue("t", b"kept")
            late = await producer.enqueue("t", b"late", delivery_timeout_ms=50)
            with pytest.raises(errors.DeliveryTimeoutError):
                await late
            assert [(event.records, event.attempts) for event in recorder.batches] == [(1, 0)]
            assert isinstance(recorder.batches[0].error, errors.DeliveryTimeoutError)
            assert producer.purge("t") == 1
            with pytest.raises(errors.KafkaError):
                await kept
        assert sum(event.records for event in recorder.batches) == 2
        assert all(event.error is not None for event in recorder.batches)

    async def test_an_observer_that_raises_harms_nothing_and_is_counted(
        self, broker: DevBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Failing(Recorder):
            def batch_done(self, event: BatchDone) -> None:
                raise RuntimeError("not today")

            def request_done(self, event: RequestDone) -> None:
                raise RuntimeError("not today")

        async with KafkaProducer(broker.bootstrap_servers, observers=[Failing()]) as producer:
            for number in range(20):
                await producer.send("t", b"%d" % number)
            assert producer.metrics()["observer-error-total"] >= 40
        assert len(broker.records("t", 0)) == 20
        assert "observer.failed" in caplog.text

    async def test_an_admin_client_tells_of_its_requests_too(self, broker: DevBroker) -> None:
        recorder = Recorder()
        async with TopicAdmin(broker.bootstrap_servers, observers=[recorder]) as admin:
            await admin.create("new")
        assert "CREATE_TOPICS" in {event.api for event in recorder.done}

    async def test_a_transactional_producer_tells_of_both_its_clients(self, broker: DevBroker) -> None:
        recorder = Recorder()
        options: dict[str, Any] = {"transactional_id": "x", "observers": [recorder], "metrics_per_node": True}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer, producer.transaction():
            await producer.send("t", b"value")
        assert {"END_TXN", "PRODUCE"} <= {event.api for event in recorder.done}
        assert len(recorder.closed) == len(recorder.opened)


class TestMetrics:
    async def test_each_node_has_its_own(self, broker: DevBroker) -> None:
        broker.create_topic("two", partitions=2)
        async with KafkaProducer(broker.bootstrap_servers, metrics_per_node=True) as producer:
            for partition in (0, 1):
                await producer.send("two", b"value", partition=partition)
            nodes = producer.node_metrics()
            assert producer.topic_metrics() == {}
        assert set(nodes) == {node.node_id for node in producer.statistics().nodes}
        for numbers in nodes.values():
            assert numbers["request-total"] >= 1
            assert least_time() <= numbers["request-latency-avg"] <= numbers["request-latency-max"]
            assert numbers["outgoing-byte-total"] > 60

    async def test_topics_have_their_own_up_to_a_limit(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, metrics_topics_max=2) as producer:
            assert producer.topic_metrics() == {}
            for topic in ("u", "v", "w"):
                broker.create_topic(topic)
            for topic in ("t", "u", "v", "w"):
                await producer.send(topic, b"value")
            topics = producer.topic_metrics()
            assert producer.node_metrics() == {}
        assert {topic: numbers["record-send-total"] for topic, numbers in topics.items()} == {"t": 1, "u": 1, "*": 2}

    async def test_topics_make_the_producer_s_numbers_with_retries_and_splits_too(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"metrics_topics_max": 2, "linger_ms": 20, "retry_backoff_ms": 1}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            for error in (errors.NotEnoughReplicasError, errors.RecordTooLargeError):
                broker.controls.fail_next(ApiKey.PRODUCE, error)
                await producer.send_many("t", [b"value"] * 4)
            metrics, topics = producer.metrics(), producer.topic_metrics()
        names = ("record-send-total", "byte-total", "record-retry-total", "record-error-total")
        assert {name: topics["t"][name] for name in names} == {name: metrics[name] for name in names}
        assert (metrics["batch-split-total"], metrics["record-retry-total"], metrics["record-send-total"]) == (1, 4, 16)

    async def test_before_the_start_there_are_none(self) -> None:
        producer = KafkaProducer("localhost:1", metrics_per_node=True, metrics_topics_max=2)
        assert producer.node_metrics() == {}
        assert producer.topic_metrics() == {}


class TestTiming:
    async def test_a_record_tells_how_long_it_took(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, record_timing=True, linger_ms=30) as producer:
            await producer.send("t", b"warm")
            broker.controls.delay(ApiKey.PRODUCE, seconds=0.05)
            metadata = await producer.send("t", b"value")
            many = await producer.send_many("t", [b"a", b"b"])
        timing = metadata.timing
        assert timing is not None
        assert 0.029 <= timing.linger < 2
        assert 0 <= timing.queued < 2
        assert 0 <= timing.encode < 2
        assert timing.retried == 0
        assert 0.049 <= timing.in_flight < 2
        assert 0 <= timing.told < 1
        assert timing.node_id == 1
        assert (timing.attempts, timing.throttled) == (1, 0)
        assert timing.batch_records == 1
        assert all(each.timing is not None for each in many)

    async def test_it_tells_the_batch_as_it_was_sent_compressed_and_again(self, broker: DevBroker) -> None:
        sizes: list[int] = []

        def watch(context: Any, body: Any) -> None:
            sizes.extend(len(part.records) for topic in body.topic_data for part in topic.partition_data)

        broker.controls.on_request(ApiKey.PRODUCE, watch)
        broker.controls.fail_next(ApiKey.PRODUCE, errors.NotEnoughReplicasError)
        async with KafkaProducer(
            broker.bootstrap_servers, record_timing=True, compression_type="gzip", manual_flush=True, retry_backoff_ms=5
        ) as producer:
            await producer.partitions_for("t")
            deliveries = [producer.send_nowait("t", b"x" * 1_000, partition=0) for _ in range(20)]
            await producer.flush()
            timings = [(await delivery).timing for delivery in deliveries]
        assert len(sizes) == 2
        assert sizes[0] == sizes[1] < 1_000
        for timing in timings:
            assert timing is not None
            assert (timing.attempts, timing.batch_records, timing.batch_size) == (2, 20, sizes[0])
            assert timing.retried > 0
            assert timing.encode >= least_time()

    async def test_waiting_for_a_place_in_flight_is_not_linger(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"max_in_flight_requests_per_connection": 1, "batch_size": 100, "linger_ms": 1_000}
        async with KafkaProducer(broker.bootstrap_servers, record_timing=True, **options) as producer:
            await producer.partitions_for("t")
            broker.controls.delay(ApiKey.PRODUCE, seconds=0.1)
            began = asyncio.get_running_loop().time()
            deliveries = [producer.send_nowait("t", b"x" * 100, partition=0) for _ in range(3)]
            timings = [(await delivery).timing for delivery in deliveries]
            took = asyncio.get_running_loop().time() - began
        for place, timing in enumerate(timings):
            assert timing is not None
            assert timing.linger < 0.05, "each batch is full at once"
            assert timing.queued >= 0.09 * place
            assert sum(timing[:5]) <= took + 1e-6

    async def test_it_has_the_throttle_time_of_the_answer(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, record_timing=True) as producer:
            await producer.partitions_for("t")
            broker.controls.throttle(None, 40)
            timing = (await producer.send("t", b"value")).timing
            broker.controls.throttle(None, 0)
        assert timing is not None
        assert timing.throttled == 0.04

    async def test_a_batch_that_a_thread_compresses_tells_how_long_that_took(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"compression_type": "gzip", "compression_gzip_level": 9, "batch_size": 900_000}
        async with KafkaProducer(broker.bootstrap_servers, record_timing=True, **options) as producer:
            timing = (await producer.send("t", bytes(range(256)) * 3_000)).timing
        assert timing is not None
        assert timing.encode > 0.0005

    async def test_without_the_option_it_does_not(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            assert (await producer.send("t", b"value")).timing is None


class TestConnections:
    async def test_created_and_closed_connections_are_counted_including_transactions(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, transactional_id="x") as producer:
            async with producer.transaction():
                await producer.send("t", b"value")
            before = producer.metrics()
            assert before["connection-creation-total"] >= 3, "bootstrap, the leader, the coordinator"
            assert 0 < before["connection-creation-rate"] <= before["connection-creation-total"] / 30
            broker.controls.drop_connections()
            open_ones = before["connection-creation-total"] - before["connection-close-total"]
            ended = before["connection-close-total"] + open_ones
            await until(lambda: producer.metrics()["connection-close-total"] >= ended)
            async with producer.transaction():
                await producer.send("t", b"value")
            assert producer.metrics()["connection-creation-total"] > before["connection-creation-total"]
        after = producer.metrics()
        assert after["connection-creation-total"] == after["connection-close-total"], "none is left"


class TestTap:
    async def test_a_file_has_the_bytes_on_the_wire_without_the_records(
        self, broker: DevBroker, tmp_path: Path
    ) -> None:
        path = tmp_path / "wire.jsonl"
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"before")
            with producer.tap(path):
                await producer.send("t", b"a secret", key=b"hidden")
            await producer.send("t", b"after")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [(line["api"], line["direction"]) for line in lines] == [("PRODUCE", "request"), ("PRODUCE", "response")]
        assert "secret" not in path.read_text()
        (partition,) = lines[1]["body"]["responses"][0]["partition_responses"]
        assert partition["base_offset"] == 1

    async def test_it_ends_with_the_producer_and_may_call_a_function(self, broker: DevBroker) -> None:
        lines: list[dict[str, Any]] = []
        options: dict[str, Any] = {"transactional_id": "tapped"}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            tap = producer.tap(lines.append, payloads=True)
            async with producer.transaction():
                await producer.send("t", b"a payload")
        assert tap.is_closed
        apis = {line["api"] for line in lines}
        assert {"PRODUCE", "END_TXN"} <= apis
        (produce,) = (line for line in lines if (line["api"], line["direction"]) == ("PRODUCE", "request"))
        records = produce["body"]["topic_data"][0]["partition_data"][0]["records"]
        assert b"a payload" in base64.b64decode(records.removeprefix("base64:"))

    async def test_frames_are_iterated_over_until_the_producer_is_closed(self, broker: DevBroker) -> None:
        producer = KafkaProducer(broker.bootstrap_servers)
        await producer.start()
        tap = producer.tap()
        await producer.send("t", b"a secret")
        await producer.close()
        frames = [frame async for frame in tap]
        assert {"PRODUCE"} <= {frame["api"] for frame in frames}
        assert (tap.is_closed, tap.missed, "secret" in str(frames)) == (True, 0, False)

    async def test_a_capture_has_every_byte_that_the_broker_read(self, broker: DevBroker, tmp_path: Path) -> None:
        """The bytes of the first connection, which was there before, are not in it."""
        path = tmp_path / "wire.pcapng"
        async with KafkaProducer(broker.bootstrap_servers, transactional_id="x", linger_ms=0) as producer:
            with producer.tap(path, payloads=True):
                async with producer.transaction():
                    await producer.send_many("t", [b"%06d" % number * 10_000 for number in range(20)])
            await producer.close()
        requests = [data for (_, target), data in streams(path.read_bytes()).items() if target[1] == 9092]
        found: list[ApiKey] = []
        for data in requests:
            position = 0
            while position < len(data):
                (size,) = struct.unpack_from(">i", data, position)
                found.append(ApiKey(decode_request(data[position + 4 : position + 4 + size])[0].api_key))
                position += 4 + size
            assert position == len(data)
        assert {ApiKey.PRODUCE, ApiKey.END_TXN} <= set(found)
        assert all(any(b"%06d" % number * 10_000 in data for data in requests) for number in range(20))

    async def test_before_the_start_there_is_nothing_to_record(self) -> None:
        with pytest.raises(errors.KafkaError, match="start"):
            KafkaProducer("localhost:1").tap(print)

    async def test_the_environment_has_every_client_recorded(
        self, broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "wire.jsonl"
        monkeypatch.setenv("AIOKAFKAPY_TAP", str(path))
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"a secret")
        async with TopicAdmin(broker.bootstrap_servers) as admin:
            await admin.list_topics()
        assert ProducerConfig.from_env(bootstrap_servers="h:1").bootstrap_servers == "h:1"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert {"API_VERSIONS", "METADATA", "PRODUCE"} <= {line["api"] for line in lines}
        assert "secret" not in path.read_text()

    async def test_the_environment_has_them_in_one_capture(
        self, broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "wire.pcapng"
        monkeypatch.setenv("AIOKAFKAPY_TAP", str(path))
        for _ in range(2):
            async with KafkaProducer(broker.bootstrap_servers, client_id="me") as producer:
                await producer.send("t", b"a secret")
        sent = streams(path.read_bytes())
        assert len({source for source, target in sent if target[1] == 9092}) == 2, "each its own connections"
        assert all(b"me" in data for (_, target), data in sent.items() if target[1] == 9092)
        assert not any(b"secret" in data for data in sent.values())


SENT = "org.apache.kafka.producer.record.send.total"


class TestTelemetry:
    async def test_a_broker_that_asks_is_told_the_metrics_and_the_end(self, broker: DevBroker) -> None:
        broker.telemetry.subscribe(push_interval_ms=50)
        async with KafkaProducer(broker.bootstrap_servers, client_id="me", metrics_per_node=True) as producer:
            await producer.send("t", b"value")
            await until(lambda: len(broker.telemetry.pushes) >= 2)
        pushes = list(broker.telemetry.pushes)
        assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
        assert {push.client_id for push in pushes} == {"me"}
        assert len({push.client_instance_id for push in pushes}) == 1
        assert sum(push.values()[SENT] for push in pushes) == 1, "differences"
        nodes = {point.attributes.get("node_id") for push in pushes for point in push.points}
        assert nodes & {"1", "2"}

    async def test_a_short_life_makes_its_last_push(self, broker: DevBroker) -> None:
        broker.telemetry.subscribe([SENT], delta_temporality=False, compressions=[])
        producer = KafkaProducer(broker.bootstrap_servers, transactional_id="x")
        async with producer, producer.transaction():
            await producer.send_many("t", [b"a", b"b"])
        (push,) = broker.telemetry.pushes
        assert push.terminating
        assert push.values() == {SENT: 2}
        assert push.resource == {"transactional_id": "x"}

    async def test_another_subscription_is_followed(self, broker: DevBroker) -> None:
        broker.telemetry.subscribe(push_interval_ms=30)
        async with KafkaProducer(broker.bootstrap_servers):
            await until(lambda: broker.telemetry.pushes)
            broker.telemetry.subscribe([SENT], push_interval_ms=30)
            await until(lambda: list(broker.telemetry.pushes[-1].values()) == [SENT])

    async def test_an_application_s_metrics_are_pushed_where_they_are_subscribed_to(self, broker: DevBroker) -> None:
        broker.telemetry.subscribe([SENT, "shop."], push_interval_ms=30)
        orders = 3.0
        producer = KafkaProducer(broker.bootstrap_servers)
        producer.register_metric_for_subscription("shop.orders", lambda: orders, is_total=True, attributes={"at": "x"})
        async with producer:
            producer.register_metric_for_subscription("shop.open", lambda: 7)
            producer.register_metric_for_subscription("shop.broken", lambda: 1 / 0)
            producer.register_metric_for_subscription("elsewhere.open", lambda: 8)
            await until(lambda: broker.telemetry.pushes)
            orders = 5.0
            assert producer.unregister_metric_from_subscription("shop.open")
        first, last = broker.telemetry.pushes[0], broker.telemetry.pushes[-1]
        assert first.values() == {SENT: 0, "shop.orders": 3, "shop.open": 7}
        assert last.values().keys() == {SENT, "shop.orders"}
        assert sum(push.values()["shop.orders"] for push in broker.telemetry.pushes) == 5, "differences"
        assert {dict(point.attributes)["at"] for point in last.points if point.name == "shop.orders"} == {"x"}

    async def test_the_id_that_operators_see_can_be_asked_for(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            with pytest.raises(errors.UnsupportedVersionError, match="no broker"):
                await producer.client_instance_id()
        broker.telemetry.subscribe(push_interval_ms=30)
        async with KafkaProducer(broker.bootstrap_servers, enable_metrics_push=False) as producer:
            with pytest.raises(errors.IllegalStateError, match="enable_metrics_push"):
                await producer.client_instance_id()
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            found = await producer.client_instance_id(timeout=5)
            assert found == await producer.client_instance_id()
        assert {push.client_instance_id for push in broker.telemetry.pushes} == {found}
        with pytest.raises(errors.ProducerClosedError):
            await producer.client_instance_id()

    async def test_a_broker_without_a_receiver_and_an_option_say_no(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("t", b"value")
        broker.telemetry.subscribe(push_interval_ms=1)
        async with KafkaProducer(broker.bootstrap_servers, enable_metrics_push=False) as producer:
            await producer.send("t", b"value")
        assert broker.controls.request_count(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS) == 0

    async def test_its_errors_harm_no_record_and_no_close(self, broker: DevBroker) -> None:
        broker.telemetry.subscribe(push_interval_ms=10)
        broker.controls.fail_next(ApiKey.PUSH_TELEMETRY, errors.InvalidRecordError, times=None)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            for number in range(20):
                await producer.send("t", b"%d" % number)
            await until(lambda: broker.controls.request_count(ApiKey.PUSH_TELEMETRY) == 1)
        assert len(broker.records("t", 0)) == 20
        broker.controls.clear()
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await until(lambda: broker.controls.request_count(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS) == 1)
            broker.controls.stall_connections()
            started = time.monotonic()
            await producer.close(timeout=0.2)
            assert time.monotonic() - started < 5
