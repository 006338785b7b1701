"""Transactions that are tried again, and consume-transform-produce with other clients' consumers, on the dev broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy
from aiokafkapy.testing.fault_proxy import Answer
from tests.reading import committed_values

from .transactional import committed, transactional

IN, OUT = "in", "out"


@pytest.fixture(params=[1, 2])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[DevBroker]:
    """Both versions of transactions."""
    async with DevBroker(transaction_version=request.param) as broker:
        broker.create_topic(IN, 3)
        broker.create_topic(OUT, 1)
        yield broker


@pytest.fixture
async def producer(broker: DevBroker) -> AsyncIterator[KafkaProducer]:
    async with transactional(broker) as producer:
        yield producer


class TestAttempts:
    """``producer.transactions()``."""

    @pytest.mark.parametrize(
        "error",
        [errors.TransactionAbortableError, errors.InvalidProducerEpochError, errors.OutOfOrderSequenceNumberError],
    )
    async def test_an_error_that_another_attempt_may_mend_runs_the_block_again(
        self, broker: DevBroker, producer: KafkaProducer, error: type[errors.KafkaError]
    ) -> None:
        broker.controls.fail_next(ApiKey.PRODUCE, error, topic=OUT, partition=0)
        runs = 0
        async for attempt in producer.transactions():
            async with attempt:
                runs += 1
                await producer.enqueue(OUT, b"a")
                await producer.enqueue(OUT, b"b")
        assert (await committed(broker, OUT), runs) == ([b"a", b"b"], 2)
        async with producer.transaction():
            await producer.send(OUT, b"c")
        assert await committed(broker, OUT) == [b"a", b"b", b"c"]

    @pytest.mark.parametrize("error", [LookupError("mine"), errors.RecordTooLargeError("mine")])
    async def test_an_error_that_would_come_again_is_raised_at_once_and_aborts(
        self, broker: DevBroker, producer: KafkaProducer, error: Exception
    ) -> None:
        runs = 0
        with pytest.raises(type(error), match="mine") as raised:
            async for attempt in producer.transactions():
                async with attempt:
                    runs += 1
                    await producer.send(OUT, b"never")
                    raise error
        assert raised.value is error
        assert (await committed(broker, OUT), runs) == ([], 1)
        async with producer.transaction():
            await producer.send(OUT, b"next")

    async def test_a_commit_without_an_answer_is_asked_about_and_the_block_is_not_run_again(
        self, broker: DevBroker
    ) -> None:
        broker.controls.drop_next(ApiKey.END_TXN, times=3)
        runs = 0
        async with transactional(
            broker, max_block_ms=1_000, retry_backoff_ms=600, retry_backoff_max_ms=600
        ) as producer:
            async for attempt in producer.transactions():
                async with attempt:
                    runs += 1
                    await producer.send(OUT, b"once")
        assert (await committed(broker, OUT), runs) == ([b"once"], 1)
        assert broker.controls.request_count(ApiKey.END_TXN) >= 3

    async def test_it_is_given_up_when_its_time_is_over(self, broker: DevBroker, producer: KafkaProducer) -> None:
        broker.controls.fail_next(ApiKey.PRODUCE, errors.TransactionAbortableError, times=None)
        with pytest.raises(errors.TransactionAbortableError) as raised:
            async for attempt in producer.transactions(timeout=0.3):
                async with attempt:
                    await producer.send(OUT, b"never")
        assert any("attempts to commit a transaction" in note for note in raised.value.__notes__)
        broker.controls.clear()
        async for attempt in producer.transactions(timeout=0):
            async with attempt:
                await producer.send(OUT, b"a healthy one needs no time")
        assert await committed(broker, OUT) == [b"a healthy one needs no time"]

    async def test_a_fenced_producer_does_not_try_again(self, broker: DevBroker, producer: KafkaProducer) -> None:
        with pytest.raises(errors.ProducerFencedError):
            async for attempt in producer.transactions():
                async with attempt:
                    await producer.send(OUT, b"never")
                    async with transactional(broker):
                        pass
        assert await committed(broker, OUT) == []

    async def test_each_turn_of_the_loop_enters_its_attempt_once(self, producer: KafkaProducer) -> None:
        with pytest.raises(errors.IllegalStateError, match="async with attempt:"):
            async for _ in producer.transactions():
                pass
        async for attempt in producer.transactions():
            async with attempt:
                with pytest.raises(errors.IllegalStateError, match="entered once"):
                    async with attempt:
                        pass
        with pytest.raises(errors.IllegalStateError, match="entered once"):
            async with attempt:
                pass

    async def test_cancellation_aborts(self, broker: DevBroker, producer: KafkaProducer) -> None:
        async def forever() -> None:
            async for attempt in producer.transactions():
                async with attempt:
                    await producer.send(OUT, b"never")
                    began.set()
                    await asyncio.sleep(3600)

        began = asyncio.Event()
        task = asyncio.create_task(forever())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await committed(broker, OUT) == []

    async def test_a_closed_producer_ends_the_attempts(self, broker: DevBroker) -> None:
        producer = transactional(broker)
        await producer.start()
        with pytest.raises(errors.ProducerClosedError):
            async for attempt in producer.transactions():
                async with attempt:
                    await producer.close()
        with pytest.raises(errors.ProducerClosedError):
            producer.transactions()


class Made(Protocol):
    """Makes a consumer that has joined the group."""

    def __call__(self, broker: DevBroker, **options: Any) -> Any:
        """The consumer, to be entered."""


@asynccontextmanager
async def aiokafka_consumer(broker: DevBroker, **options: Any) -> AsyncIterator[Any]:
    async with AIOKafkaConsumer(
        IN,
        bootstrap_servers=broker.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    ) as consumer:
        yield consumer


@asynccontextmanager
async def confluent_consumer(broker: DevBroker) -> AsyncIterator[Any]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([IN])
    try:
        yield consumer
    finally:
        await asyncio.to_thread(consumer.close)


def value_of(record: Any) -> bytes:
    value: bytes = record.value() if callable(record.value) else record.value
    return value


@pytest.fixture(params=[aiokafka_consumer, confluent_consumer], ids=["aiokafka", "confluent-kafka"])
def made(request: pytest.FixtureRequest) -> Made:
    made: Made = request.param
    return made


async def filled(broker: DevBroker, count: int) -> list[bytes]:
    words = [b"%d" % number for number in range(count)]
    async with KafkaProducer(broker.bootstrap_servers) as plain:
        await plain.send_many(IN, words)
    return words


async def copied(
    producer: KafkaProducer,
    consumer: Any,
    wanted: int,
    hook: Callable[[int], object] = lambda turn: None,
    **options: Any,
) -> None:
    """Copy until so many records were committed by this call; ``hook`` is called in the middle of each batch."""
    done = turn = 0
    async for batch in producer.consume_transform_produce(consumer, max_records=20):
        async with batch:
            for record in batch:
                await producer.enqueue(OUT, value_of(record))
            turn += 1
            hook(turn)
        done = len(await committed_values(producer.config.bootstrap_servers, OUT))
        if done >= wanted:
            return


class OneError:
    """A consumer of confluent-kafka whose first poll with records has an error behind them."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._is_done = False

    def consume(self, *arguments: Any) -> list[Any]:
        got: list[Any] = self._inner.consume(*arguments)
        if got and not self._is_done:
            self._is_done = True
            got.append(self)
        return got

    def error(self) -> OneError:
        return self

    def code(self) -> int:
        return 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class TestConsumeTransformProduce:
    """``producer.consume_transform_produce(consumer)``."""

    async def test_each_record_is_copied_once(self, broker: DevBroker, producer: KafkaProducer, made: Made) -> None:
        words = await filled(broker, 100)
        async with made(broker) as consumer:
            await copied(producer, consumer, len(words))
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]
        async with made(broker) as consumer:
            begun = asyncio.create_task(copied(producer, consumer, len(words) + 1))
            await filled(broker, 1)
            await begun
        assert len(await committed(broker, OUT)) == len(words) + 1

    async def test_records_of_a_failed_batch_are_read_again(
        self, broker: DevBroker, producer: KafkaProducer, made: Made
    ) -> None:
        words = await filled(broker, 100)
        faults = [
            lambda: broker.controls.fail_next(ApiKey.PRODUCE, errors.TransactionAbortableError),
            lambda: broker.controls.fail_next(ApiKey.TXN_OFFSET_COMMIT, errors.IllegalGenerationError),
            lambda: broker.controls.drop_next(ApiKey.END_TXN),
            lambda: broker.controls.drop_next(ApiKey.TXN_OFFSET_COMMIT, after=False),
        ]
        async with made(broker) as consumer:
            await copied(producer, consumer, len(words), lambda turn: faults.pop()() if faults else None)
        assert not faults
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    async def test_after_an_exception_the_consumer_is_at_the_committed_offsets(
        self, broker: DevBroker, producer: KafkaProducer, made: Made
    ) -> None:
        words = await filled(broker, 100)

        def fail(turn: int) -> None:
            if turn == 2:
                raise LookupError("mine")

        async with made(broker) as consumer:
            for _ in range(2):
                with pytest.raises(LookupError, match="mine"):
                    await copied(producer, consumer, len(words), fail)
            await copied(producer, consumer, len(words))
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    async def test_after_a_cancellation_too(self, broker: DevBroker, producer: KafkaProducer, made: Made) -> None:
        words = await filled(broker, 100)

        def cancel(turn: int) -> None:
            task = asyncio.current_task()
            assert task is not None
            if turn == 2:
                task.cancel()

        async with made(broker) as consumer:
            for _ in range(2):
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.create_task(copied(producer, consumer, len(words), cancel))
            await copied(producer, consumer, len(words))
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    @pytest.mark.parametrize("api", [ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN])
    async def test_after_a_cancellation_at_the_end_of_a_batch(
        self, broker: DevBroker, producer: KafkaProducer, made: Made, api: ApiKey
    ) -> None:
        """The commit goes on: its committed input is not read again, whenever it ends."""
        words = await filled(broker, 100)
        async with made(broker) as consumer:
            for _ in range(3):
                seen = broker.controls.request_count(api)
                broker.controls.delay(api, 0.1)
                copying = asyncio.create_task(copied(producer, consumer, len(words) + 1))
                while broker.controls.request_count(api) == seen:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                copying.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await copying
                broker.controls.delay(api, 0)
            await copied(producer, consumer, len(words))
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    async def test_after_a_cancellation_while_it_reads(
        self, broker: DevBroker, producer: KafkaProducer, made: Made
    ) -> None:
        """The records of a poll at that moment are read again."""
        words = [b"%d" % number for number in range(60)]
        async with made(broker) as consumer, KafkaProducer(broker.bootstrap_servers) as plain:
            await filled(broker, 1)
            await copied(producer, consumer, 1)
            for word in words:
                copying = asyncio.create_task(copied(producer, consumer, 1_000))
                await asyncio.sleep(0)
                await plain.send(IN, word)
                copying.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await copying
            await copied(producer, consumer, len(words) + 1)
        assert sorted(await committed(broker, OUT)) == sorted([b"0", *words])  # type: ignore[type-var]

    async def test_after_a_commit_whose_outcome_is_not_known(
        self, broker: DevBroker, producer: KafkaProducer, made: Made
    ) -> None:
        """The test goes on with another consumer, as the error says."""
        words = await filled(broker, 60)
        async with (
            FaultProxy(broker.bootstrap_servers) as net,
            made(broker) as consumer,
            KafkaProducer(net.bootstrap_servers, transactional_id="two", linger_ms=0, max_block_ms=500) as cut_off,
        ):
            net.on_request(ApiKey.END_TXN, lambda _: Answer(lose=True, cut=True))
            with pytest.raises(errors.KafkaTimeoutError) as raised:
                async for batch in cut_off.consume_transform_produce(consumer, max_records=20, timeout=0.1):
                    async with batch:
                        for record in batch:
                            await cut_off.enqueue(OUT, value_of(record))
            assert raised.value.outcome_unknown
            assert "begin with a new consumer" in "".join(raised.value.__notes__)
            net.clear(ApiKey.END_TXN)
            await cut_off.begin_transaction()
            await cut_off.abort_transaction()
        async with made(broker) as consumer:
            await copied(producer, consumer, len(words))
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    async def test_a_poll_that_ends_with_an_error_is_read_again(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        words = await filled(broker, 60)
        async with confluent_consumer(broker) as inner:
            consumer = OneError(inner)
            with pytest.raises(errors.KafkaError, match="the consumer says"):
                await copied(producer, consumer, len(words))
            await copied(producer, consumer, len(words))
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    async def test_the_group_s_members_may_change(self, broker: DevBroker, made: Made) -> None:
        """Three members come one by one, and the first goes: each record once."""
        words = await filled(broker, 300)
        names = iter(range(10))

        async def member() -> None:
            async with made(broker) as consumer, transactional(broker, f"copier-{next(names)}") as producer:
                async for batch in producer.consume_transform_produce(consumer, max_records=10):
                    async with batch:
                        for record in batch:
                            await producer.enqueue(OUT, value_of(record))
                        await asyncio.sleep(0.02)

        members: list[asyncio.Task[None]] = []
        try:
            for _ in range(3):
                members.append(asyncio.create_task(member()))
                await asyncio.wait(members, timeout=1)
            members[0].cancel()
            async with asyncio.timeout(60):
                while len(await committed(broker, OUT)) < len(words):
                    await asyncio.wait(members[1:], timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                    assert not any(task.done() for task in members[1:])
        finally:
            for task in members:
                task.cancel()
            await asyncio.wait(members)
        assert sorted(await committed(broker, OUT)) == sorted(words)  # type: ignore[type-var]

    async def test_a_consumer_that_commits_by_itself_is_refused(
        self, broker: DevBroker, producer: KafkaProducer
    ) -> None:
        async with AIOKafkaConsumer(IN, bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
            with pytest.raises(errors.ConfigurationError, match="enable_auto_commit=False"):
                producer.consume_transform_produce(consumer)

    async def test_a_group_that_is_not_known_is_asked_for(self, broker: DevBroker, producer: KafkaProducer) -> None:
        consumer: Any = AnyConsumer()
        with pytest.raises(TypeError, match="group_id"):
            producer.consume_transform_produce(consumer)
        with pytest.raises(TypeError, match="object is not a consumer that is known here"):
            producer.consume_transform_produce(cast(Any, object()))
        with pytest.raises(ValueError, match="max_records is 0"):
            producer.consume_transform_produce(consumer, max_records=0, group_metadata="g")
        with pytest.raises(errors.IllegalStateError, match="transactional_id"):
            async with KafkaProducer(broker.bootstrap_servers) as plain:
                plain.consume_transform_produce(consumer, group_metadata="g")

    async def test_a_batch_that_was_not_entered_is_an_error(
        self, broker: DevBroker, producer: KafkaProducer, made: Made
    ) -> None:
        await filled(broker, 10)
        async with made(broker) as consumer:
            with pytest.raises(errors.IllegalStateError, match="async with batch:"):
                async for _ in producer.consume_transform_produce(consumer):
                    pass


class AnyConsumer:
    """A consumer with the methods of aiokafka's, and no group."""

    async def getmany(self) -> dict[Any, Any]:
        """Nothing."""
        return {}


async def test_confluent_s_membership_is_read(broker: DevBroker, producer: KafkaProducer) -> None:
    """A member of another generation may commit no offsets (KIP-447)."""
    await filled(broker, 10)
    async with confluent_consumer(broker) as consumer:
        messages = await asyncio.to_thread(consumer.consume, 1, 30)
        assert len(messages) == 1
        mine = consumer.consumer_group_metadata()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({(IN, 0): 1}, mine)
        async with confluent_consumer(broker) as other:  # another member, so another generation
            while not other.assignment():
                for each in (consumer, other):
                    await asyncio.to_thread(each.poll, 0.05)
            with pytest.raises(errors.IllegalGenerationError):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({(IN, 0): 1}, mine)
