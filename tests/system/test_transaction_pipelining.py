"""``commit_and_begin_transaction``: the next transaction takes records while the one before is committed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.common import TopicPartition
from aiokafkapy.protocol.api import ApiKey
from tests.reading import committed_values

from .transactional import committed, transactional


@pytest.fixture(params=[1, 2])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[DevBroker]:
    """Both versions of transactions."""
    async with DevBroker(transaction_version=request.param) as broker:
        broker.create_topic("t", 1)
        yield broker


@pytest.fixture
async def producer(broker: DevBroker) -> AsyncIterator[KafkaProducer]:
    async with transactional(broker) as producer:
        await producer.begin_transaction()
        yield producer


async def committed_so_far(broker: DevBroker) -> list[bytes | None]:
    return await committed_values(broker.bootstrap_servers, "t", up_to="the open transaction")


async def in_the_commit(producer: KafkaProducer) -> asyncio.Task[None]:
    """A commit that is under way, and has made its cut."""
    task = asyncio.create_task(producer.commit_and_begin_transaction())
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def test_several_tasks_may_go_on_to_the_next_transaction_at_once(
    broker: DevBroker, producer: KafkaProducer
) -> None:
    async def work(number: int) -> None:
        for _ in range(20):
            await producer.enqueue("t", b"%d" % number)
            await producer.commit_and_begin_transaction()

    await asyncio.gather(*(work(number) for number in range(3)))
    await producer.commit_transaction()
    values = await committed(broker)
    assert sorted(value or b"" for value in values) == [b"%d" % number for number in range(3) for _ in range(20)]


async def test_a_client_that_sends_all_the_time_is_never_refused(broker: DevBroker, producer: KafkaProducer) -> None:
    counts = [0] * 4
    is_over = False

    async def send(number: int) -> None:
        while not is_over:
            await producer.send("t", b"%d/%d" % (number, counts[number]))
            counts[number] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(len(counts)):
            group.create_task(send(number))
        for _ in range(30):
            await producer.commit_and_begin_transaction()
        is_over = True
    await producer.commit_transaction()
    found = await committed(broker)
    for number, count in enumerate(counts):
        assert count > 10
        mine = [value for value in found if value is not None and value.startswith(b"%d/" % number)]
        assert mine == [b"%d/%d" % (number, n) for n in range(count)]


async def test_records_after_the_cut_are_sent_when_the_commit_is_known(
    broker: DevBroker, producer: KafkaProducer
) -> None:
    await producer.send("t", b"written")
    accepted = await producer.enqueue("t", b"accepted")
    broker.controls.delay(ApiKey.END_TXN, 0.2)
    commit = await in_the_commit(producer)
    following = producer.send_nowait("t", b"following")
    await accepted
    assert not commit.done()
    assert not following.done()
    assert [record.value for record in broker.records("t", 0)] == [b"written", b"accepted"]
    await commit
    await following
    assert await committed_so_far(broker) == [b"written", b"accepted"]
    await producer.abort_transaction()
    assert await committed(broker) == [b"written", b"accepted"]


async def test_an_empty_transaction_is_followed_by_another(broker: DevBroker, producer: KafkaProducer) -> None:
    await producer.commit_and_begin_transaction()
    await producer.commit_and_begin_transaction()
    await producer.send("t", b"1")
    await producer.commit_transaction()
    assert await committed(broker) == [b"1"]


async def test_when_the_commit_fails_so_do_the_records_after_the_cut(
    broker: DevBroker, producer: KafkaProducer
) -> None:
    await producer.send("t", b"never")
    broker.controls.delay(ApiKey.END_TXN, 0.1)
    broker.controls.fail_next(ApiKey.END_TXN, errors.TransactionAbortableError)
    commit = await in_the_commit(producer)
    following = producer.send_nowait("t", b"never")
    with pytest.raises(errors.TransactionAbortableError):
        await commit
    with pytest.raises(errors.TransactionAbortedError):
        await following
    with pytest.raises(errors.TransactionAbortableError):
        await producer.send("t", b"never")
    await producer.abort_transaction()
    await commits_one_more(broker, producer, [])


async def test_a_record_that_fails_before_the_cut_fails_the_commit(broker: DevBroker, producer: KafkaProducer) -> None:
    await producer.send("t", b"never")
    broker.controls.delay(ApiKey.PRODUCE, 0.1)
    broker.controls.fail_next(ApiKey.PRODUCE, errors.TopicAuthorizationFailedError)
    failing = producer.send_nowait("t", b"never")
    commit = await in_the_commit(producer)
    following = producer.send_nowait("t", b"never")
    with pytest.raises(errors.TopicAuthorizationFailedError):
        await commit
    with pytest.raises(errors.TopicAuthorizationFailedError):
        await failing
    with pytest.raises(errors.TransactionAbortedError):
        await following
    await producer.abort_transaction()
    await commits_one_more(broker, producer, [])


async def test_a_record_that_is_refused_after_the_cut_fails_the_next_transaction(
    broker: DevBroker, producer: KafkaProducer
) -> None:
    await producer.send("t", b"1")
    broker.controls.delay(ApiKey.END_TXN, 0.1)
    commit = await in_the_commit(producer)
    with pytest.raises(errors.RecordTooLargeError):
        await producer.send("t", bytes(2_000_000))
    await commit
    with pytest.raises(errors.RecordTooLargeError):
        await producer.commit_transaction()
    await producer.abort_transaction()
    await commits_one_more(broker, producer, [b"1"])


async def test_a_commit_without_an_answer_is_asked_about_again(broker: DevBroker) -> None:
    async with transactional(broker, max_block_ms=1_000, request_timeout_ms=200) as producer:
        await producer.begin_transaction()
        await producer.send("t", b"1")
        broker.controls.drop_next(ApiKey.END_TXN, times=None)
        commit = await in_the_commit(producer)
        following = producer.send_nowait("t", b"never")
        with pytest.raises(errors.KafkaTimeoutError) as raised:
            await commit
        assert raised.value.outcome_unknown
        with pytest.raises(errors.TransactionAbortedError) as lost:
            await following
        assert repr(lost.value.__cause__) == repr(raised.value)  # kept without its frames
        broker.controls.clear()
        await producer.commit_transaction()
        await commits_one_more(broker, producer, [b"1"])


async def test_a_cancelled_caller_finds_the_next_transaction_open(broker: DevBroker, producer: KafkaProducer) -> None:
    await producer.send("t", b"1")
    broker.controls.delay(ApiKey.END_TXN, 0.1)
    commit = await in_the_commit(producer)
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    await producer.send("t", b"2")
    await producer.commit_transaction()
    assert await committed(broker) == [b"1", b"2"]


async def test_a_caller_cancelled_in_one_that_fails_finds_it_aborted(
    broker: DevBroker, producer: KafkaProducer
) -> None:
    await producer.send("t", b"never")
    broker.controls.delay(ApiKey.END_TXN, 0.1)
    broker.controls.fail_next(ApiKey.END_TXN, errors.TransactionAbortableError)
    commit = await in_the_commit(producer)
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    await commits_one_more(broker, producer, [])


async def test_records_that_wait_for_room_come_in_before_the_cut(broker: DevBroker) -> None:
    """After the cut they might wait for the room of records that wait for the commit."""
    values = [b"%d" % n + b" " * 500 for n in range(40)]
    async with transactional(broker, buffer_memory=4_000, max_request_size=4_000) as producer:
        await producer.begin_transaction()
        sends = [asyncio.create_task(producer.send("t", value)) for value in values]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await producer.commit_and_begin_transaction()
            assert all(send.done() for send in sends)
            assert await committed_so_far(broker) == values
            broker.controls.delay(ApiKey.END_TXN, 0.1)
            await producer.send("t", b"open")
            commit = await in_the_commit(producer)
            sends = [asyncio.create_task(producer.send("t", value)) for value in values]
            await commit
            await asyncio.gather(*sends)
        await producer.commit_transaction()
    assert await committed(broker) == [*values, b"open", *values]


async def test_a_call_with_many_records_puts_none_into_the_next(broker: DevBroker, producer: KafkaProducer) -> None:
    values = [b"%d" % n for n in range(100)]
    call = asyncio.create_task(producer.send_many("t", values, return_exceptions=True))
    await asyncio.sleep(0)
    await producer.commit_and_begin_transaction()
    failed = [error for error in await call if isinstance(error, errors.IllegalStateError)]
    first = await committed_so_far(broker)
    assert len(first) + len(failed) == len(values)
    await producer.commit_transaction()
    assert await committed(broker) == first


async def test_offsets_are_given_to_an_open_transaction_only(broker: DevBroker, producer: KafkaProducer) -> None:
    await producer.send("t", b"1")
    broker.controls.delay(ApiKey.END_TXN, 0.1)
    commit = await in_the_commit(producer)
    with pytest.raises(errors.IllegalStateError, match="committing"):
        await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    await commit
    await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    await producer.commit_transaction()


async def test_it_needs_an_open_transaction(broker: DevBroker) -> None:
    async with transactional(broker) as producer:
        with pytest.raises(errors.IllegalStateError, match=r"commit_and_begin_transaction\(\) needs the state in_tran"):
            await producer.commit_and_begin_transaction()
    with pytest.raises(errors.ProducerClosedError):
        await producer.commit_and_begin_transaction()


async def test_close_in_the_middle_leaves_nothing_open(broker: DevBroker, producer: KafkaProducer) -> None:
    await producer.send("t", b"1")
    broker.controls.delay(ApiKey.END_TXN, 0.1)
    commit = await in_the_commit(producer)
    following = producer.send_nowait("t", b"never")
    await producer.close()
    assert following.exception() is not None
    await commit
    assert await committed(broker) == [b"1"]


async def commits_one_more(broker: DevBroker, producer: KafkaProducer, before: list[bytes | None]) -> None:
    async with producer.transaction():
        await producer.send("t", b"new")
    assert await committed(broker) == [*before, b"new"]
