"""``MockProducer`` as a producer: the same calls, checks, states and errors, and Java's calls for tests beside them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, TopicPartition
from aiokafkapy.broker import DevBroker
from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.common import Node, PartitionInfo
from aiokafkapy.errors import (
    CloseTimeoutError,
    ConfigurationError,
    DeliveryTimeoutError,
    FlushTimeoutError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    MetadataNotReadyError,
    MetadataTimeoutError,
    NotEnoughReplicasError,
    ProducerClosedError,
    ProducerFencedError,
    ProducerNotStartedError,
    PurgedError,
    RecordTooLargeError,
    SerializationError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from aiokafkapy.testing import MockProducer


def values(records: list[Any]) -> list[Any]:
    return [record.value for record in records]


class TestItsFace:
    def test_every_public_call_of_a_producer_has_the_same_signature(self) -> None:
        public = [name for name in dir(KafkaProducer) if not name.startswith("_")]
        assert {"send", "send_nowait", "enqueue", "send_many", "flush", "transaction"} < set(public)
        for name in public:
            ours, real = (inspect.getattr_static(kind, name) for kind in (MockProducer, KafkaProducer))
            if callable(real):
                assert inspect.signature(ours) == inspect.signature(real), name
            else:
                assert type(ours) is type(real), name

    def test_it_takes_a_producers_options_and_two_of_its_own(self) -> None:
        ours, real = (inspect.signature(kind.__init__).parameters for kind in (MockProducer, KafkaProducer))
        assert ours.keys() - real.keys() == {"cluster", "auto_complete"}
        assert real.keys() - ours.keys() == set()
        with pytest.raises(ConfigurationError, match="linger_msec"):
            MockProducer(linger_msec=5)  # type: ignore[call-arg]

    def test_a_type_checker_takes_it_for_a_producer(self) -> None:
        producer: KafkaProducer[str, dict[str, int]] = MockProducer[str, dict[str, int]](
            key_serializer=str.encode, value_serializer=lambda value: str(value).encode()
        )
        assert isinstance(producer, KafkaProducer)


class TestSending:
    async def test_each_way_to_send_leaves_its_record_and_tells_where_it_is(self) -> None:
        async with MockProducer() as producer:
            metadata = await producer.send("t", b"one", key=b"k", timestamp_ms=7, headers={"h": b"1"})
            assert metadata == ("t", 0, 0, 7, 1, 3)
            assert (await (await producer.enqueue("t", b"two"))).offset == 1
            assert producer.send_nowait("t", b"three").result().offset == 2
            many = await producer.send_many("t", [b"four", ProducerRecord("u", b"five")])
            assert [(each.topic, each.offset) for each in many if isinstance(each, tuple)] == [("t", 3), ("u", 0)]
            future = producer.send_from_thread("t", b"six")
            assert (await asyncio.wrap_future(future)).offset == 4
            await producer.flush()
        first, *_ = producer.history()
        assert first == ProducerRecord("t", b"one", b"k", None, 7, {"h": b"1"})
        assert values(producer.history()) == [b"one", b"two", b"three", b"four", b"five", b"six"]
        assert values(producer.records("t")) == [b"one", b"two", b"three", b"four", b"six"]
        assert producer.records("t")[0].headers == (("h", b"1"),)

    async def test_tables_are_sent_row_by_row(self) -> None:
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table({"value": [b"a", b"b"], "key": [b"k", None]})
        async with MockProducer() as producer:
            assert (await producer.send_arrow("t", table)).rows == 2
            async with producer.open_table_send("t") as tables:
                await tables.send(table)
        assert [(record.key, record.value) for record in producer.records("t")] == [(b"k", b"a"), (None, b"b")] * 2

    async def test_arguments_are_checked_as_the_producer_checks_them(self) -> None:
        wrong: list[tuple[dict[str, Any], type[Exception]]] = [
            ({"topic": "no topic"}, InvalidTopicError),
            ({"topic": "t", "value": "text"}, SerializationError),
            ({"topic": "t", "partition": -1}, ValueError),
            ({"topic": "t", "timestamp_ms": "now"}, TypeError),
            ({"topic": "t", "headers": {"h": "text"}}, SerializationError),
            ({"topic": "t", "delivery_timeout_ms": 0}, ValueError),
            ({"topic": "t", "value": bytes(2_000_000)}, RecordTooLargeError),
        ]
        async with DevBroker() as broker:
            broker.create_topic("t", 1)
            async with KafkaProducer(broker.bootstrap_servers) as real, MockProducer() as producer:
                for arguments, kind in wrong:
                    said = []
                    for each in (real, producer):
                        with pytest.raises(kind) as caught:
                            await each.send(**arguments)
                        said.append(str(caught.value))
                    assert said[0] == said[1]
        assert producer.history() == []

    async def test_headers_of_an_iterator_are_read_once(self) -> None:
        class Passing:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return record

        def failing() -> Iterator[tuple[str, bytes]]:
            yield "h", b"1"
            raise LookupError("no more")

        for interceptors in ([], [Passing()]):
            async with MockProducer(interceptors=interceptors) as producer:
                await producer.send("t", b"", headers=iter([("h", b"1")]))
                assert producer.records("t")[0].headers == (("h", b"1"),)
                assert producer.history()[0].headers == (("h", b"1"),)
                with pytest.raises(SerializationError, match="no more"):
                    await producer.send("t", b"", headers=failing())

    async def test_serializers_are_called_and_the_history_has_their_arguments(self) -> None:
        async def slow(data: str) -> bytes:
            await asyncio.sleep(0)
            return data.encode()

        async with MockProducer(key_serializer=slow, value_serializer=str.encode) as producer:
            with pytest.raises(IllegalStateError, match="async serializer"):
                producer.send_nowait("t", "x", key="k")
            await asyncio.gather(*(producer.send("t", f"v{number}", key="k") for number in range(5)))
            with pytest.raises(SerializationError):
                await producer.send("t", 5, key="k")  # type: ignore[arg-type]
        assert values(producer.history()) == [f"v{number}" for number in range(5)]
        assert [(record.key, record.value) for record in producer.records("t")] == [
            (b"k", b"v%d" % number) for number in range(5)
        ]

    async def test_interceptors_see_records_and_outcomes(self) -> None:
        seen: list[Any] = []

        class Interceptor:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return ProducerRecord(record.topic, b"changed")

            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                seen.append(metadata or type(error).__name__)

        async with MockProducer(interceptors=[Interceptor()], auto_complete=False) as producer:
            sending = [asyncio.create_task(producer.send("t", b"value")) for _ in range(2)]
            await asyncio.sleep(0)
            producer.complete_next()
            producer.error_next(NotEnoughReplicasError())
            await asyncio.gather(*sending, return_exceptions=True)
        assert values(producer.history()) == [b"changed"] * 2
        assert [each if isinstance(each, str) else each.offset for each in seen] == [0, "NotEnoughReplicasError"]


class TestWaiting:
    """Records that wait for async serializers: a mock has no other waits."""

    @staticmethod
    def producer(gate: asyncio.Event, **options: Any) -> MockProducer[bytes, str]:
        """Values that begin with ``slow`` are serialized when the gate is open."""

        async def serialize(value: str) -> bytes:
            if value.startswith("slow"):
                await gate.wait()
            if value.endswith("bad"):
                raise LookupError("no such value")
            return value.encode()

        return MockProducer(value_serializer=serialize, **options)

    async def test_records_of_a_topic_keep_their_order_and_others_go_on(self) -> None:
        gate = asyncio.Event()
        async with self.producer(gate) as producer:
            sending = [
                asyncio.create_task(producer.send("t", value)) for value in ("slow", "quick", "slow bad", "last")
            ]
            await asyncio.sleep(0)
            assert (await producer.send("other", "quick")).offset == 0
            assert producer.statistics().waiters == 4
            gate.set()
            outcomes = await asyncio.gather(*sending, return_exceptions=True)
            assert isinstance(outcomes[2], SerializationError)
            assert values(producer.records("t")) == [b"slow", b"quick", b"last"]

    async def test_a_record_that_is_taken_back_holds_up_no_other(self) -> None:
        gate = asyncio.Event()
        async with self.producer(gate) as producer:
            first, second = [asyncio.create_task(producer.send("t", value)) for value in ("slow", "quick")]
            while producer.statistics().waiters < 2:  # noqa: ASYNC110 - two tasks take their first step
                await asyncio.sleep(0)
            first.cancel()
            assert (await second).offset == 0
            assert first.cancelled()
        assert values(producer.history()) == ["quick"]

    @pytest.mark.parametrize(
        ("arguments", "options", "error"),
        [
            ({}, {"max_block_ms": 5}, KafkaTimeoutError),
            ({"delivery_timeout_ms": 5}, {}, DeliveryTimeoutError),
        ],
    )
    async def test_its_time_is_bounded(
        self, arguments: dict[str, Any], options: dict[str, Any], error: type[Exception]
    ) -> None:
        async with self.producer(asyncio.Event(), **options) as producer:
            with pytest.raises(error):
                await producer.send("t", "slow", **arguments)
            assert producer.statistics().waiters == 0

    async def test_flush_waits_for_them_and_purge_and_close_give_them_up(self) -> None:
        gate = asyncio.Event()
        async with self.producer(gate) as producer:
            first = asyncio.create_task(producer.send("t", "slow"))
            await asyncio.sleep(0)
            with pytest.raises(FlushTimeoutError, match="1 records waiting"):
                await producer.flush(timeout=0.001)
            assert producer.purge("t") == 1
            second = asyncio.create_task(producer.send("t", "slow"))
            await asyncio.sleep(0)
            await producer.close(0)
        gate.set()  # a caller learns of it when its serializer is done
        purged, closed = await asyncio.gather(first, second, return_exceptions=True)
        assert isinstance(purged, PurgedError)
        assert "was purged while it waited to be accepted" in str(purged)
        assert isinstance(closed, ProducerClosedError)
        assert producer.history() == []


class TestPartitions:
    async def test_they_are_chosen_from_the_cluster_as_the_producer_does(self) -> None:
        keys = [b"%d" % number for number in range(50)]
        async with DevBroker() as broker:
            broker.create_topic("t", 7)
            async with KafkaProducer(broker.bootstrap_servers) as real, MockProducer(cluster={"t": 7}) as producer:
                for key in keys:
                    placed = [(await each.send("t", b"", key=key)).partition for each in (real, producer)]
                    assert placed[0] == placed[1]
                assert len({record.partition for record in producer.records("t")}) == 7
                assert (await producer.send("t", b"without a key")).partition == 0
                assert (await producer.send("t", b"", partition=6)).partition == 6
                assert len(await producer.partitions_for("t")) == 7

    async def test_records_of_a_topic_are_in_order_of_partition_and_offset_as_those_of_the_dev_broker(self) -> None:
        order = [2, 0, 2, 1, 0]
        wanted = [(0, 0, b"1"), (0, 1, b"4"), (1, 0, b"3"), (2, 0, b"0"), (2, 1, b"2")]
        async with DevBroker() as broker:
            broker.create_topic("t", 3)
            async with KafkaProducer(broker.bootstrap_servers) as real, MockProducer(cluster={"t": 3}) as mock:
                for producer in (real, mock):
                    for number, partition in enumerate(order):
                        await producer.send("t", b"%d" % number, partition=partition)
                for has_records in (broker, mock):
                    found = [(each.partition, each.offset, each.value) for each in has_records.records("t")]
                    assert found == wanted
                    assert [each.value for each in has_records.records("t", 2)] == [b"0", b"2"]

    async def test_a_partitioner_is_asked(self) -> None:
        nodes, parts = [Node(1, "localhost", 9092)], [PartitionInfo("t", number, 1) for number in range(3)]
        cluster = Cluster(nodes, {"t": TopicMetadata("t", parts)})
        seen = []

        def choose(topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Cluster) -> int:
            seen.append((topic, key_bytes, value_bytes, key, value, cluster.partition_count(topic)))
            return 2

        async with MockProducer(cluster=cluster, partitioner=choose, value_serializer=str.encode) as producer:
            assert (await producer.send("t", "v", key=b"k")).partition == 2
        assert seen == [("t", b"k", b"v", b"k", "v", 3)]

    async def test_a_topic_that_the_cluster_does_not_have_fails_at_once_with_the_producers_error(self) -> None:
        async with MockProducer(cluster={"t": 2}) as producer:
            for topic, partition in (("other", None), ("t", 2)):
                with pytest.raises(MetadataTimeoutError, match=r"no such (topic|partition)"):
                    await producer.send(topic, b"", partition=partition)
                with pytest.raises(MetadataNotReadyError):
                    producer.send_nowait(topic, b"", partition=partition)
            with pytest.raises(MetadataTimeoutError, match="other"):
                await producer.partitions_for("other")
        with pytest.raises(ValueError, match="0 partitions"):
            MockProducer(cluster={"t": 0})


class TestOutcomes:
    async def test_records_have_their_outcomes_when_they_are_given_oldest_first(self) -> None:
        async with MockProducer(auto_complete=False) as producer:
            first, second, third = [producer.send_nowait("t", b"%d" % number) for number in range(3)]
            assert not producer.flushed
            assert producer.complete_next()
            assert producer.error_next(NotEnoughReplicasError("too few"))
            assert (first.result().offset, third.done()) == (0, False)
            with pytest.raises(NotEnoughReplicasError, match="too few"):
                await second
            await producer.flush()
            assert third.result().offset == 1, "one that failed has no place in the log"
            assert producer.statistics().pending == 0
            assert not producer.complete_next()
            assert not producer.error_next(NotEnoughReplicasError())
            with pytest.raises(TypeError, match="instance"):
                producer.error_next(NotEnoughReplicasError)  # type: ignore[arg-type]
        assert values(producer.history()) == [b"0", b"1", b"2"]
        assert values(producer.records("t")) == [b"0", b"2"]
        assert producer.statistics().failed == 1

    async def test_send_waits_until_then(self) -> None:
        async with MockProducer(auto_complete=False) as producer:
            sending = asyncio.create_task(producer.send("t", b"value"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert not sending.done()
            producer.error_next(RuntimeError("of the test's own"))
            with pytest.raises(RuntimeError, match="the test's own"):
                await sending

    async def test_a_call_fails_while_it_is_told_to(self) -> None:
        async with MockProducer() as producer:
            producer.failures.send = NotEnoughReplicasError("now")
            for _ in range(2):
                with pytest.raises(NotEnoughReplicasError, match="now"):
                    await producer.send("t", b"value")
            outcomes = await producer.send_many("t", [b"a", b"b"], return_exceptions=True)
            assert all(isinstance(each, NotEnoughReplicasError) for each in outcomes)
            producer.failures.flush = producer.failures.partitions_for = RuntimeError("no")
            with pytest.raises(RuntimeError):
                await producer.flush()
            with pytest.raises(RuntimeError):
                await producer.partitions_for("t")
            producer.failures.clear()
            await producer.send("t", b"value")

    async def test_a_record_s_own_time_holds(self) -> None:
        async with MockProducer(auto_complete=False) as producer:
            with pytest.raises(DeliveryTimeoutError) as caught:
                await producer.send("t", b"value", delivery_timeout_ms=5)
            assert caught.value.outcome_unknown
            assert producer.flushed

    async def test_purge_gives_up_records_without_an_outcome(self) -> None:
        async with MockProducer(auto_complete=False) as producer:
            kept, given_up = producer.send_nowait("t", b""), producer.send_nowait("u", b"")
            assert producer.purge("u") == 1
            assert isinstance(given_up.exception(), PurgedError)
            assert not kept.done()

    async def test_clear_forgets_and_offsets_go_on(self) -> None:
        async with MockProducer() as producer:
            await producer.send("t", b"one")
            producer.clear()
            assert producer.history() == []
            assert (await producer.send("t", b"two")).offset == 1


class TestItsLife:
    async def test_it_is_used_between_start_and_close_on_its_loop(self) -> None:
        producer = MockProducer()
        with pytest.raises(ProducerNotStartedError):
            await producer.send("t", b"value")
        await producer.start()
        assert (producer.closed, producer.health.is_healthy) == (False, True)
        await producer.close()
        assert producer.closed
        calls = [producer.send("t", b""), producer.flush(), producer.partitions_for("t"), producer.send_many("t", [])]
        for call in calls:
            with pytest.raises(ProducerClosedError):
                await call
        with pytest.raises(ProducerClosedError):
            producer.complete_next() or producer.send_nowait("t")

    async def test_close_delivers_accepted_records_unless_there_is_no_time(self) -> None:
        producers = [MockProducer(auto_complete=False) for _ in range(2)]
        deliveries = []
        for producer, timeout in zip(producers, (None, 0), strict=True):
            await producer.start()
            deliveries.append(producer.send_nowait("t", b"value"))
            await producer.close(timeout)
        assert deliveries[0].result().offset == 0
        assert isinstance(deliveries[1].exception(), CloseTimeoutError)

    async def test_a_mock_producer_has_the_attributes_of_a_producer(self) -> None:
        async with MockProducer() as producer:
            await producer.send("t", b"value")
            seen: list[Any] = []
            producer.set_mock_metrics("request-latency-avg", 2.5)
            assert producer.metrics()["request-latency-avg"] == 2.5
            assert producer.metrics()["records-delivered-total"] == 1
            assert (producer.node_metrics(), producer.topic_metrics()) == ({}, {})
            assert await producer.ping() == 0
            assert await producer.client_instance_id() == await producer.client_instance_id()
            await producer.warm_up(["t"])
            producer.resume("t", 0)
            producer.tap(seen.append).close()
            with pytest.raises(IllegalStateError, match="no broker"):
                await producer.request(3)


class TestTransactions:
    async def test_records_and_offsets_are_history_when_they_are_committed(self) -> None:
        async with MockProducer(transactional_id="x") as producer:
            assert producer.transaction_initialized
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                await producer.send("t", b"outside")
            async with producer.transaction():
                assert producer.transaction_in_flight
                await producer.send("t", b"one")
                await producer.send_offsets_to_transaction({TopicPartition("in", 0): 5}, "group")
                assert producer.sent_offsets
                assert producer.history() == []
                assert values(producer.uncommitted_records()) == [b"one"]
                assert producer.records("t") == []
            assert values(producer.history()) == [b"one"]
            assert (producer.transaction_committed, producer.transaction_in_flight) == (True, False)
            with pytest.raises(LookupError):
                async with producer.transaction():
                    await producer.send("t", b"two")
                    raise LookupError
            assert values(producer.history()) == [b"one"]
            assert (producer.transaction_aborted, producer.commit_count) == (True, 1)
            async with producer.transaction():
                pass
            assert producer.commit_count == 2, "an empty one counts, as in Java"
        (offsets,) = producer.consumer_group_offsets_history()
        assert offsets["group"][TopicPartition("in", 0)].offset == 5

    async def test_a_record_that_failed_can_only_be_aborted(self) -> None:
        async with MockProducer(transactional_id="x", auto_complete=False) as producer:
            await producer.begin_transaction()
            producer.send_nowait("t", b"one")
            producer.error_next(NotEnoughReplicasError("too few"))
            with pytest.raises(NotEnoughReplicasError):
                await producer.commit_transaction()
            with pytest.raises(NotEnoughReplicasError):
                producer.send_nowait("t", b"two")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.enqueue("t", b"three")
        assert values(producer.history()) == [b"three"]

    async def test_attempts_are_made_until_one_is_committed(self) -> None:
        async with MockProducer(transactional_id="x", retry_backoff_ms=1) as producer:
            tried = 0
            async for attempt in producer.transactions():
                async with attempt:
                    tried += 1
                    producer.failures.commit_transaction = TransactionAbortableError() if tried < 3 else None
                    await producer.send("t", b"%d" % tried)
        assert values(producer.history()) == [b"3"]

    async def test_a_fenced_one_can_only_be_closed(self) -> None:
        async with MockProducer(transactional_id="x", auto_complete=False) as producer:
            await producer.begin_transaction()
            delivery = producer.send_nowait("t", b"one")
            producer.fence_producer()
            assert isinstance(delivery.exception(), ProducerFencedError)
            assert not producer.health.is_healthy
            assert producer.health.fatal_error
            for call in (producer.send("t", b""), producer.commit_transaction(), producer.begin_transaction()):
                with pytest.raises(ProducerFencedError):
                    await call
        assert producer.history() == []
        async with MockProducer() as producer:
            with pytest.raises(IllegalStateError, match="transactional_id"):
                producer.fence_producer()

    async def test_the_next_transaction_takes_records_while_one_is_committed(self) -> None:
        async with MockProducer(transactional_id="x") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"first")
            committing = asyncio.create_task(producer.commit_and_begin_transaction())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            second = await producer.enqueue("t", b"second")
            await committing
            assert values(producer.history()) == [b"first"]
            assert (await second).offset == 1
            await producer.abort_transaction()
            assert values(producer.history()) == [b"first"]

    async def test_an_error_that_fails_the_commit_fails_the_next_one_s_records(self) -> None:
        async with MockProducer(transactional_id="x") as producer:
            await producer.begin_transaction()
            producer.failures.commit_transaction = TransactionAbortableError("no")
            committing = asyncio.create_task(producer.commit_and_begin_transaction())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            delivery = await producer.enqueue("t", b"of the next")
            with pytest.raises(TransactionAbortableError):
                await committing
            assert isinstance(delivery.exception(), TransactionAbortedError)
            await producer.abort_transaction()

    async def test_an_id_that_is_refused_keeps_it_from_starting(self) -> None:
        producer = MockProducer(transactional_id="x")
        producer.failures.init_transactions = ProducerFencedError("taken")
        with pytest.raises(ProducerFencedError, match="taken"):
            await producer.start()
        producer.failures.clear()
        async with producer:
            assert producer.transaction_initialized

    async def test_a_prepared_transaction_is_completed(self) -> None:
        options: dict[str, Any] = {"transactional_id": "x", "transaction_two_phase_commit_enable": True}
        async with MockProducer(**options) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"one")
            prepared = await producer.prepare_transaction()
            assert await producer.complete_transaction(str(prepared))
        assert values(producer.history()) == [b"one"]

    async def test_close_aborts_an_open_transaction(self) -> None:
        async with MockProducer(transactional_id="x") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"one")
        assert (producer.history(), producer.transaction_aborted) == ([], True)
