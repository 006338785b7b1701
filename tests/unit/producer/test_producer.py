"""The producer's face, where it needs no broker: construction, states, arguments. The rest is in tests/system."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiokafkapy.errors import (
    BufferExhaustedError,
    ConfigurationError,
    ForkedProducerError,
    IllegalStateError,
    InvalidTopicError,
    MetadataNotReadyError,
    ProducerClosedError,
    ProducerNotStartedError,
    SerializationError,
)
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.producer import KafkaProducer, _say_form
from aiokafkapy.producer.records import ProducerRecord
from aiokafkapy.producer.runtime import ProducerRuntime
from aiokafkapy.producer.serializers import json_serializer, string_serializer
from aiokafkapy.producer.state import ProducerState

from .sender_fakes import cluster_of

Producer = KafkaProducer[Any, Any]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes producers that are started, with two topics known and nobody at the other end."""
    made: list[Producer] = []

    async def connected(runtime: ProducerRuntime) -> None:
        runtime.metadata.cluster = cluster_of({"t": [-1, -1], "one": [-1]})
        runtime.metadata.add("t", runtime.now())
        runtime.metadata.add("one", runtime.now())

    monkeypatch.setattr(ProducerRuntime, "wait_until_connected", connected)

    async def make(**options: Any) -> Producer:
        producer: Producer = KafkaProducer("127.0.0.1:1", **options)
        await producer.start()
        made.append(producer)
        return producer

    return make


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may connect."""
    monkeypatch.setattr("aiokafkapy.client.transport.broker_connections.BrokerConnections.connect", lambda *_: None)


class TestConstruction:
    def test_it_needs_no_loop_and_takes_options_or_a_configuration(self) -> None:
        assert KafkaProducer("h:9092", linger_ms=5).config.linger_ms == 5
        config = ProducerConfig(bootstrap_servers="h:9092")
        assert KafkaProducer(config=config).config is config
        assert KafkaProducer(["h:1", "i:2"]).config.bootstrap_addresses == [("h", 1), ("i", 2)]

    def test_a_wrong_option_is_an_error_at_once(self) -> None:
        with pytest.raises(ConfigurationError, match="bootstrap_servers is missing"):
            KafkaProducer()
        with pytest.raises(ConfigurationError, match="linger_ms"):
            KafkaProducer("h:9092", lingerms=5)  # type: ignore[call-arg]
        with pytest.raises(ConfigurationError):
            KafkaProducer("h:9092", config=ProducerConfig(bootstrap_servers="h:9092"))

    def test_it_is_new_and_says_so(self) -> None:
        producer = KafkaProducer("h:9092", client_id="me")
        assert producer.state is ProducerState.NEW
        assert repr(producer) == "<KafkaProducer 'me' new>"


class TestForm:
    @pytest.mark.parametrize("compiled", [True, False])
    async def test_the_first_start_says_that_the_core_is_interpreted(
        self, started: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("aiokafkapy.producer.producer.compiled", compiled)
        _say_form.cache_clear()
        caplog.set_level(logging.DEBUG, "aiokafkapy")
        for _ in range(2):
            await (await started()).close(0)
        said = [record for record in caplog.records if getattr(record, "event", "") == "core.interpreted"]
        assert len(said) == (0 if compiled else 1)


class TestStates:
    async def test_an_unstarted_producer_refuses_calls(self) -> None:
        producer: Producer = KafkaProducer("h:9092")
        for call in (
            producer.send("t"),
            producer.enqueue("t"),
            producer.flush(),
            producer.ping(),
            producer.send_many("t", []),
        ):
            with pytest.raises(ProducerNotStartedError):
                await call
        with pytest.raises(ProducerNotStartedError):
            producer.send_nowait("t")

    async def test_a_closed_producer_refuses_calls(self, started: Any) -> None:
        producer = await started()
        await producer.close(timeout=0)
        for call in (
            producer.send("t"),
            producer.enqueue("t"),
            producer.flush(),
            producer.partitions_for("t"),
            producer.start(),
        ):
            with pytest.raises(ProducerClosedError):
                await call
        assert producer.state is ProducerState.CLOSED

    async def test_a_forked_producer_refuses_calls_and_can_be_closed(self, started: Any) -> None:
        producer = await started()
        runtime = producer._life.runtime
        assert producer._forked() is runtime
        with pytest.raises(ForkedProducerError):
            await producer.send("t")
        await producer.close()
        assert producer.state is ProducerState.FORKED
        runtime.abort()

    async def test_a_failed_start_leaves_it_new(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def refuse(runtime: ProducerRuntime) -> None:
            raise LookupError("no broker")

        monkeypatch.setattr(ProducerRuntime, "wait_until_connected", refuse)
        producer: Producer = KafkaProducer("h:9092")
        for _ in range(2):
            with pytest.raises(LookupError):
                await producer.start()
            assert producer.state is ProducerState.NEW

    async def test_a_producer_closed_while_it_starts_does_not_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ready = asyncio.Event()

        async def wait(runtime: ProducerRuntime) -> None:
            await ready.wait()

        monkeypatch.setattr(ProducerRuntime, "wait_until_connected", wait)
        producer: Producer = KafkaProducer("h:9092")
        starting = asyncio.create_task(producer.start())
        await asyncio.sleep(0)
        with pytest.raises(ProducerNotStartedError, match="still starting"):
            await producer.start()
        await producer.close()
        ready.set()
        with pytest.raises(ProducerClosedError):
            await starting
        assert producer.state is ProducerState.CLOSED


class TestAccepting:
    async def test_the_fast_path_takes_no_detour(self, started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        producer = await started()
        monkeypatch.setattr(PendingRecord, "__init__", None)
        delivery = producer.send_nowait("t", b"v", key=b"k", partition=1, timestamp_ms=7)
        assert isinstance(delivery, Delivery)
        assert delivery.topic_partition == ("t", 1)
        assert delivery.timestamp_ms == 7
        assert isinstance(await producer.enqueue("t", b"v"), Delivery)
        await producer.close(timeout=0)

    async def test_the_same_key_goes_to_the_same_partition(self, started: Any) -> None:
        producer = await started()
        places = {producer.send_nowait("t", b"v", key=b"key").topic_partition for _ in range(10)}
        assert len(places) == 1
        await producer.close(timeout=0)

    async def test_a_partitioner_of_ones_own_gets_everything(self, started: Any) -> None:
        seen: list[Any] = []

        def partitioner(*args: Any) -> int:
            seen.append(args)
            return 1

        producer = await started(
            partitioner=partitioner, key_serializer=string_serializer, value_serializer=json_serializer
        )
        assert producer.send_nowait("t", {"a": 1}, key="k").topic_partition == ("t", 1)
        assert seen[0][:5] == ("t", b"k", b'{"a":1}', "k", {"a": 1})
        await producer.close(timeout=0)

    async def test_a_partitioner_that_fails_fails_the_call(self, started: Any) -> None:
        producer = await started(partitioner=lambda *_: 99)
        with pytest.raises(ValueError, match="99"):
            await producer.send("t", b"v")
        await producer.close(timeout=0)

    async def test_send_nowait_never_waits(self, started: Any) -> None:
        producer = await started(buffer_memory=3000, max_request_size=2000, batch_size=1000)
        with pytest.raises(MetadataNotReadyError):
            producer.send_nowait("unknown", b"v")
        with pytest.raises(MetadataNotReadyError):
            producer.send_nowait("t", b"v", partition=5)
        with pytest.raises(BufferExhaustedError, match="3000"):
            for _ in range(10):
                producer.send_nowait("one", b"x" * 500)
        assert producer.statistics().waiters == 0
        await producer.close(timeout=0)

    @pytest.mark.parametrize("topic", ["", None, 5, b"t"])
    async def test_a_topic_is_a_name(self, started: Any, topic: Any) -> None:
        producer = await started()
        with pytest.raises(InvalidTopicError):
            await producer.send(topic, b"v")
        await producer.close(timeout=0)

    async def test_an_async_serializer_makes_the_record_wait_in_its_place(self, started: Any) -> None:
        gate = asyncio.Event()

        async def serialize(data: int) -> bytes:
            if data == 1:
                await gate.wait()
            return b"%d" % data

        producer = await started(value_serializer=serialize)
        with pytest.raises(IllegalStateError):
            producer.send_nowait("one", 0)
        calls = [asyncio.create_task(producer.enqueue("one", number)) for number in (1, 2)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert producer.statistics().waiters == 2
        gate.set()
        await asyncio.gather(*calls)
        (batch,) = producer._life.runtime.accumulator.incomplete
        assert [bytes(value) for _, _, value, _ in batch.builder.records()] == [b"1", b"2"]
        await producer.close(timeout=0)

    async def test_a_serializer_that_fails_fails_the_call(self, started: Any) -> None:
        async def serialize(data: Any) -> bytes:
            raise LookupError("no schema")

        for serializer in (serialize, string_serializer):
            producer = await started(value_serializer=serializer)
            with pytest.raises(SerializationError) as caught:
                await producer.send("t", 5)
            assert isinstance(caught.value.__cause__, LookupError | AttributeError)
            assert producer.statistics().waiters == 0
            await producer.close(timeout=0)

    async def test_enqueue_lets_others_run_now_and_then(self, started: Any) -> None:
        producer = await started()
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        before = turns
        for _ in range(100):
            await producer.enqueue("t", b"x" * 13_000)
        assert 4 <= turns - before <= 6  # once every 256 KiB
        task.cancel()
        await producer.close(timeout=0)

    @pytest.mark.parametrize("name", ["send", "send_many"])
    @pytest.mark.parametrize("is_accepted", [False, True])
    async def test_a_record_whose_call_is_cancelled_as_it_is_accepted_is_taken_back_too(
        self, started: Any, name: str, is_accepted: bool
    ) -> None:
        producer = await started(cancel_takes_back=True, linger_ms=60_000)
        runtime = producer._life.runtime
        given: Any = b"v" if name == "send" else [b"v"]
        call = asyncio.create_task(getattr(producer, name)("new", given))
        for _ in range(5):
            await asyncio.sleep(0)
        assert producer.statistics().waiters == 1
        if is_accepted:
            runtime.metadata.cluster = cluster_of({"new": [-1]})
            runtime.admission.on_metadata_update()
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await call
        assert caught.value.outcome_unknown is False  # type: ignore[attr-defined]
        assert caught.value.__notes__ == ["1 record taken back: not sent"]
        now = producer.statistics()
        assert (now.accepted, now.failed, now.pending, now.waiters) == (is_accepted, is_accepted, 0, 0)
        await producer.close(timeout=0)

    @pytest.mark.parametrize("name", ["send", "enqueue", "send_many"])
    @pytest.mark.parametrize("is_accepted", [False, True])
    async def test_a_call_that_is_cancelled_as_its_record_is_accepted_has_its_delivery_in_the_error(
        self, started: Any, name: str, is_accepted: bool
    ) -> None:
        producer = await started(linger_ms=60_000)
        runtime = producer._life.runtime
        given: Any = [b"v"] if name == "send_many" else b"v"
        call = asyncio.create_task(getattr(producer, name)("new", given))
        for _ in range(5):
            await asyncio.sleep(0)
        if is_accepted:
            runtime.metadata.cluster = cluster_of({"new": [-1]})
            runtime.admission.on_metadata_update()
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await call
        deliveries = list(caught.value.deliveries)  # type: ignore[attr-defined]
        assert [delivery.topic_partition for delivery in deliveries] == [("new", 0)] * is_accepted
        await producer.close(timeout=0)

    async def test_an_enqueue_that_is_cancelled_in_its_pause_has_its_delivery_in_the_error(self, started: Any) -> None:
        producer = await started(linger_ms=60_000)
        call = asyncio.create_task(producer.enqueue("t", b"x" * 300_000))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await call
        (delivery,) = caught.value.deliveries  # type: ignore[attr-defined]
        assert not delivery.done()
        await producer.close(timeout=0)

    async def test_interceptors_change_records_and_are_told(self, started: Any) -> None:
        told: list[Any] = []

        class Interceptor:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return ProducerRecord("one", b"changed", partition=0)

            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                told.append((metadata, error))

        producer = await started(interceptors=[Interceptor()])
        delivery = producer.send_nowait("t", b"v")
        assert delivery.topic_partition == ("one", 0)
        await producer.close(timeout=0)
        await asyncio.sleep(0)
        assert told[0][0] is None
        assert told[0][1] is not None
