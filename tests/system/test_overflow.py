"""The buffer, against the dev broker: bounds, policies, purging, deadlines of records, manual flush, topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafkapy import BlockingProducer, KafkaProducer, ProducerRecord, TopicOptions, deadline
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    IllegalStateError,
    KafkaError,
    PurgedError,
    RecordDroppedError,
    TransactionAbortedError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import MockProducer
from tests.producers import assert_accounts, values
from tests.waiting import until

HELD: dict[str, Any] = {"linger_ms": 30_000}
"""Nothing leaves by itself."""


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("clicks", partitions=2)
        broker.create_topic("orders", partitions=1)
        yield broker


def held(broker: DevBroker, **options: Any) -> KafkaProducer[Any, Any]:
    return KafkaProducer(broker.bootstrap_servers, **{**HELD, **options})


class TestBoundInRecords:
    async def test_calls_wait_in_order_and_all_is_delivered(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, buffer_records=7) as producer:
            await asyncio.gather(*(producer.send("orders", b"%d" % number, partition=0) for number in range(200)))
            await producer.send_many("orders", [b"%d" % number for number in range(200, 400)])
            assert producer.statistics().buffer_records == 7
        assert values(broker, "orders") == [b"%d" % number for number in range(400)]

    async def test_send_nowait_says_which_bound_it_was(self, broker: DevBroker) -> None:
        async with held(broker, buffer_records=3) as producer:
            await producer.partitions_for("orders")
            for _ in range(3):
                producer.send_nowait("orders", b"x")
            with pytest.raises(BufferExhaustedError, match=r"buffer_records is full \(3 of 3 records"):
                producer.send_nowait("orders", b"x")
            assert producer.health.buffered_fraction == 1.0

    async def test_rows_of_tables_keep_to_it(self, broker: DevBroker) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        async with KafkaProducer(broker.bootstrap_servers, buffer_records=5) as producer:
            table = pyarrow.table({"value": [b"%d" % number for number in range(100)]})
            await producer.send_arrow("orders", table)
        assert values(broker, "orders") == [b"%d" % number for number in range(100)]


class TestPurge:
    async def test_unsent_records_fail_and_the_rest_is_delivered_without_a_gap(self, broker: DevBroker) -> None:
        async with held(broker) as producer:
            first = await producer.enqueue("orders", b"first")
            await producer.flush()
            gone = [await producer.enqueue("clicks", b"gone", partition=number % 2) for number in range(4)]
            kept = await producer.enqueue("orders", b"kept")
            assert producer.purge("clicks", 1) == 2
            assert [delivery.done() for delivery in gone] == [False, True, False, True]
            assert producer.purge("clicks") == 2
            for delivery in gone:
                with pytest.raises(PurgedError, match="not written"):
                    await delivery
            again = await producer.enqueue("clicks", b"again", partition=0)
            await producer.flush()
            assert (first.result().offset, kept.result().offset, again.result().offset) == (0, 1, 0)
            assert_accounts(producer)
        assert values(broker, "clicks") == [b"again"]
        assert producer.statistics().producer_epoch == 0

    async def test_records_that_wait_for_room_or_metadata_are_purged_too(self, broker: DevBroker) -> None:
        async with held(broker, buffer_records=2) as producer:
            await producer.enqueue("orders", b"1")
            await producer.enqueue("orders", b"2")
            broker.controls.stall_connections(True)
            waiting = [
                asyncio.ensure_future(producer.send(topic, b"waits")) for topic in ("orders", "clicks", "unknown")
            ]
            await until(lambda: producer.statistics().waiters == 3)
            assert producer.purge() == 5
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(outcome, PurgedError)
            now = producer.statistics()
            assert (now.waiters, now.pending, now.buffered_bytes) == (0, 0, 0)
            broker.controls.clear()
            assert producer.purge() == 0

    async def test_records_in_flight_have_an_unknown_outcome_and_no_duplicate_comes_of_it(
        self, broker: DevBroker
    ) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("orders", b"first")
            broker.controls.delay(ApiKey.PRODUCE, seconds=0.2)
            sent = asyncio.ensure_future(producer.send("orders", b"in flight"))
            await until(lambda: producer.statistics().in_flight_batches == 1)
            assert producer.purge() == 0
            assert producer.purge(in_flight=True) == 1
            with pytest.raises(PurgedError) as caught:
                await sent
            assert caught.value.outcome_unknown
            broker.controls.clear()
            await producer.send("orders", b"last")
            assert_accounts(producer)
        assert values(broker, "orders") == [b"first", b"in flight", b"last"]

    async def test_a_transaction_that_lost_records_can_only_be_aborted(self, broker: DevBroker) -> None:
        async with held(broker, transactional_id="purging") as producer:
            with pytest.raises((PurgedError, TransactionAbortedError)):
                async with producer.transaction():
                    await producer.enqueue("orders", b"purged")
                    assert producer.purge("orders") == 1
            async with producer.transaction():
                await producer.enqueue("orders", b"committed")
        assert values(broker, "orders") == [b"committed"]

    async def test_a_value_that_makes_no_sense_is_refused(self, broker: DevBroker) -> None:
        producer = held(broker)
        with pytest.raises(KafkaError, match="not started"):
            producer.purge()
        with pytest.raises(ValueError, match="partition=1 without a topic"):
            producer.purge(partition=1)

    async def test_without_a_loop_it_is_the_same(self, broker: DevBroker) -> None:
        def use() -> None:
            with BlockingProducer(broker.bootstrap_servers, **HELD) as producer:
                sent = producer.send("orders", b"purged")
                late = producer.send("orders", b"late", delivery_timeout_ms=60_000)
                while producer.statistics().accepted < 2:
                    pass
                assert producer.purge() == 2
                assert isinstance(sent.exception(10), PurgedError)
                assert isinstance(late.exception(10), PurgedError)
                sent = producer.send("orders", b"overdue", delivery_timeout_ms=20)
                assert isinstance(sent.exception(10), DeliveryTimeoutError)

        await asyncio.to_thread(use)


class TestDeadlineOfARecord:
    @pytest.mark.parametrize("way", ["send", "enqueue", "send_nowait"])
    async def test_a_record_that_was_not_sent_is_never_written(self, broker: DevBroker, way: str) -> None:
        async with held(broker) as producer:
            await producer.partitions_for("orders")
            kept = await producer.enqueue("orders", b"kept")
            call = getattr(producer, way)("orders", b"late", delivery_timeout_ms=30)
            with pytest.raises(DeliveryTimeoutError, match=r"time of the call .*: not sent") as caught:
                await (await call if way == "enqueue" else call)
            assert not caught.value.outcome_unknown
            assert not kept.done()
            later = await producer.enqueue("orders", b"later")
            await producer.flush()
            assert (kept.result().offset, later.result().offset) == (0, 1)
            assert_accounts(producer)
        assert values(broker, "orders") == [b"kept", b"later"]

    async def test_a_record_that_waits_for_room_gives_its_place_up(self, broker: DevBroker) -> None:
        async with held(broker, buffer_records=1) as producer:
            broker.controls.delay(ApiKey.PRODUCE, seconds=0.3)
            await producer.enqueue("orders", b"first")
            with pytest.raises(DeliveryTimeoutError, match="buffer_records is full") as caught:
                await producer.enqueue("orders", b"second", delivery_timeout_ms=30)
            assert isinstance(caught.value.__cause__, BufferExhaustedError)
            assert producer.statistics().waiters == 0
            broker.controls.clear()
            await producer.flush()
        assert values(broker, "orders") == [b"first"]

    async def test_a_record_in_a_request_is_protected_and_its_outcome_unknown(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send("orders", b"first")
            broker.controls.delay(ApiKey.PRODUCE, seconds=0.3)
            with pytest.raises(DeliveryTimeoutError) as caught:
                await producer.send("orders", b"second", delivery_timeout_ms=50)
            assert caught.value.outcome_unknown
            broker.controls.clear()
            await producer.send("orders", b"third", delivery_timeout_ms=20_000)
            assert producer.statistics().failed == 0
        assert values(broker, "orders") == [b"first", b"second", b"third"]

    async def test_a_record_that_makes_it_in_time_is_delivered(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            for number in range(50):
                await producer.send("orders", b"%d" % number, delivery_timeout_ms=10_000)
        assert len(values(broker, "orders")) == 50

    async def test_in_a_transaction_a_deadline_s_end_aborts_the_whole(self, broker: DevBroker) -> None:
        async with held(broker, transactional_id="late") as producer:
            with pytest.raises(DeliveryTimeoutError):
                async with producer.transaction():
                    await producer.enqueue("orders", b"early")
                    async with deadline(0.05):
                        await producer.send("orders", b"late")
            async with producer.transaction():
                await producer.enqueue("orders", b"whole")
        assert values(broker, "orders") == [b"whole"]

    async def test_with_the_gapless_guarantee_a_deadline_ends_the_wait_only(self, broker: DevBroker) -> None:
        async with held(broker, enable_gapless_guarantee=True) as producer:
            await producer.partitions_for("orders")
            with pytest.raises(TimeoutError) as caught:
                async with deadline(0.05):
                    await producer.send("orders", b"goes on")
            assert not isinstance(caught.value, KafkaError)
        assert values(broker, "orders") == [b"goes on"]

    async def test_a_mock_producer_has_deadlines_too(self) -> None:
        async with MockProducer(auto_complete=False) as producer:
            with pytest.raises(DeliveryTimeoutError):
                async with deadline(0.02):
                    await producer.send("orders", b"late")

    async def test_with_the_gapless_guarantee_no_record_has_its_own(self, broker: DevBroker) -> None:
        async with KafkaProducer(broker.bootstrap_servers, enable_gapless_guarantee=True) as producer:
            with pytest.raises(IllegalStateError, match="enable_gapless_guarantee"):
                await producer.send("orders", b"x", delivery_timeout_ms=1000)


class TestPolicies:
    async def test_raise_refuses_at_once(self, broker: DevBroker) -> None:
        async with held(broker, buffer_records=2, overflow="raise") as producer:
            await producer.partitions_for("orders")
            outcomes = await asyncio.gather(
                *(producer.enqueue("orders", b"%d" % number) for number in range(5)), return_exceptions=True
            )
            assert [isinstance(outcome, BufferExhaustedError) for outcome in outcomes] == [False] * 2 + [True] * 3
        assert values(broker, "orders") == [b"0", b"1"]

    @pytest.mark.parametrize(("policy", "kept"), [("drop_newest", range(8)), ("drop_oldest", range(12, 20))])
    async def test_dropping_keeps_the_calls_going(self, broker: DevBroker, policy: Any, kept: range) -> None:
        async with held(broker, buffer_records=8, overflow=policy) as producer:
            await producer.partitions_for("orders")
            deliveries = [producer.send_nowait("orders", b"%d" % number) for number in range(20)]
            await producer.flush()
            lost = [number for number, delivery in enumerate(deliveries) if delivery.exception() is not None]
            assert lost == [number for number in range(20) if number not in kept]
            assert all(isinstance(deliveries[number].exception(), RecordDroppedError) for number in lost)
            assert producer.statistics().dropped == producer.metrics()["record-drop-total"] == 12
            assert_accounts(producer)
        assert values(broker, "orders") == [b"%d" % number for number in kept]

    async def test_a_topic_has_its_own(self, broker: DevBroker) -> None:
        topics = {"clicks": TopicOptions(overflow="drop_newest")}
        async with KafkaProducer(broker.bootstrap_servers, buffer_records=2, topics=topics) as producer:
            orders = [ProducerRecord("orders", b"%d" % number) for number in range(50)]
            clicks = [ProducerRecord("clicks", b"%d" % number, partition=0) for number in range(50)]
            mixed = [record for pair in zip(orders, clicks, strict=True) for record in pair]
            outcomes = await producer.send_many("orders", mixed, return_exceptions=True)
            dropped = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert all(isinstance(error, RecordDroppedError) and error.topic == "clicks" for error in dropped)
            assert len(values(broker, "clicks")) + len(dropped) == 50
        assert values(broker, "orders") == [b"%d" % number for number in range(50)]


class TestManualFlush:
    async def test_nothing_leaves_before_flush_and_a_full_buffer_raises(self, broker: DevBroker) -> None:
        options: dict[str, Any] = {"manual_flush": True, "buffer_records": 10, "batch_size": 100}
        async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
            await producer.partitions_for("orders")
            deliveries = [await producer.enqueue("orders", b"x" * 60) for _ in range(10)]
            with pytest.raises(BufferExhaustedError, match="buffer_records is full"):
                await producer.enqueue("orders", b"x")
            assert broker.controls.request_count(ApiKey.PRODUCE) == 0
            await producer.flush()
            assert all(delivery.exception() is None for delivery in deliveries)
            await producer.enqueue("orders", b"last")
        assert len(values(broker, "orders")) == 11  # close() flushes


async def test_a_topic_s_linger_and_codec_are_its_own(broker: DevBroker) -> None:
    topics = {"clicks": TopicOptions(linger_ms=30_000, compression_type="gzip")}
    async with KafkaProducer(broker.bootstrap_servers, topics=topics) as producer:
        click = await producer.enqueue("clicks", b"x" * 1000, partition=0)
        for _ in range(3):
            await producer.send("orders", b"x" * 1000)
        assert not click.done()
        before = producer.metrics()["byte-total"]
        await producer.flush()
        assert click.done()
        assert producer.metrics()["byte-total"] - before < 500


async def test_keys_go_where_another_client_sends_them(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers, partitioner="consistent_random") as producer:
        placed = await producer.send("clicks", b"x", key=b"hejsan")
        assert placed.partition == 0xD077037E % 2
        await producer.send_many("clicks", [b"without", b"a", b"key"])


async def test_a_request_of_one_s_own(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        answer = await producer.request(ApiKey.METADATA, {"topics": [{"name": "orders"}]}, node_id=1)
        assert [topic.name for topic in answer.topics] == ["orders"]
        with pytest.raises(ValueError, match="PRODUCE is the producer's own"):
            await producer.request(ApiKey.PRODUCE)
