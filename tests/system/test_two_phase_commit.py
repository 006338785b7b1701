"""Two-phase commit (KIP-939) on the dev broker: a prepared transaction waits for its end, over crashes of every
party.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, PreparedTxnState, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.reading import committed_values


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(transaction_two_phase_commit_enable=True) as broker:
        broker.create_topic("t", 1)
        yield broker


def two_phase(broker: DevBroker, **options: Any) -> KafkaProducer[Any, Any]:
    options = {"linger_ms": 0, "transactional_id": "one", "transaction_two_phase_commit_enable": True, **options}
    return KafkaProducer(broker.bootstrap_servers, **options)


async def prepared(producer: KafkaProducer[Any, Any], value: bytes) -> str:
    """The name that another system keeps for a transaction with this record."""
    await producer.begin_transaction()
    await producer.send("t", value)
    return str(await producer.prepare_transaction())


async def committed(broker: DevBroker) -> list[bytes | None]:
    return await committed_values(broker.bootstrap_servers, "t", up_to="the open transaction")


async def test_a_prepared_transaction_waits_for_its_end(broker: DevBroker) -> None:
    async with two_phase(broker) as producer:
        await producer.begin_transaction()
        await producer.enqueue("t", b"1")
        state = await producer.prepare_transaction()
        assert state == PreparedTxnState.of(str(state))
        assert await committed(broker) == []
        for call in (producer.begin_transaction(), producer.send("t", b"never"), producer.prepare_transaction()):
            with pytest.raises(errors.IllegalStateError):
                await call
        assert await producer.complete_transaction(state)
        assert not await producer.complete_transaction(state)
        assert await prepared(producer, b"2") != str(state)
        await producer.commit_transaction()
        await prepared(producer, b"never")
        await producer.abort_transaction()
    assert await committed(broker) == [b"1", b"2"]


async def test_another_one_than_was_stored_is_aborted(broker: DevBroker) -> None:
    async with two_phase(broker) as producer:
        first = await prepared(producer, b"1")
        assert await producer.complete_transaction(first)
        await prepared(producer, b"never")
        assert not await producer.complete_transaction(first)
        await prepared(producer, b"never")
        assert not await producer.complete_transaction(None)
    assert await committed(broker) == [b"1"]


@pytest.mark.parametrize("restarts", [1, 3])
async def test_the_next_producer_of_the_name_completes_it(broker: DevBroker, restarts: int) -> None:
    async with two_phase(broker) as producer:
        state = await prepared(producer, b"1")
    for _ in range(restarts):
        async with two_phase(broker) as producer:
            with pytest.raises(errors.IllegalStateError, match=f"the transaction {state} is prepared"):
                await producer.begin_transaction()
    async with two_phase(broker) as producer:
        assert await producer.complete_transaction(state)
        async with producer.transaction():
            await producer.send("t", b"2")
    assert await committed(broker) == [b"1", b"2"]


async def test_an_open_transaction_that_is_not_prepared_is_aborted_with_any_stored_name(broker: DevBroker) -> None:
    crashed = two_phase(broker)
    await crashed.start()
    state = await prepared(crashed, b"1")
    await crashed.complete_transaction(state)
    await crashed.begin_transaction()
    await crashed.send("t", b"never")
    async with two_phase(broker) as producer:
        assert not await producer.complete_transaction(state)
        with pytest.raises((errors.ProducerFencedError, errors.InvalidProducerEpochError)):
            await crashed.send("t", b"never")
    await crashed.close()
    assert await committed(broker) == [b"1"]


async def test_without_keeping_a_start_aborts(broker: DevBroker) -> None:
    async with two_phase(broker) as producer:
        state = await prepared(producer, b"never")
    async with two_phase(broker, transaction_keep_prepared=False) as producer:
        assert not await producer.complete_transaction(state)
        async with producer.transaction():
            await producer.send("t", b"1")
    assert await committed(broker) == [b"1"]


async def test_it_has_no_time_out_and_outlives_the_broker(tmp_path: Path) -> None:
    options: Any = {"data_dir": tmp_path, "transaction_two_phase_commit_enable": True}
    async with DevBroker(**options) as broker:
        broker.create_topic("t", 1)
        async with two_phase(broker) as producer:
            state = await prepared(producer, b"1")
        assert broker.controls.expire_transactions() == 0
    async with DevBroker(**options) as broker, two_phase(broker) as producer:
        assert broker.controls.expire_transactions() == 0
        assert await producer.complete_transaction(state)
        assert await committed(broker) == [b"1"]


async def test_a_record_that_failed_cannot_be_prepared(broker: DevBroker) -> None:
    async with two_phase(broker, max_request_size=1_000) as producer:
        await producer.begin_transaction()
        with pytest.raises(errors.RecordTooLargeError):
            await producer.enqueue("t", bytes(2_000))
        with pytest.raises(errors.RecordTooLargeError):
            await producer.prepare_transaction()
        await producer.abort_transaction()
        assert await producer.complete_transaction(await prepared(producer, b"1"))


async def test_a_caller_cancelled_while_it_is_prepared_has_it_open_as_before(broker: DevBroker) -> None:
    async with two_phase(broker) as producer:
        await producer.begin_transaction()
        broker.controls.stall_connections()
        delivery = producer.send("t", b"1")
        sending = asyncio.create_task(delivery)
        preparing = asyncio.create_task(producer.prepare_transaction())
        await asyncio.sleep(0.05)
        preparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await preparing
        broker.controls.stall_connections(False)
        await sending
        await producer.send("t", b"2")
        await producer.commit_transaction()
    assert await committed(broker) == [b"1", b"2"]


@pytest.mark.parametrize("options", [{}, {"transactional_id": "other"}])
async def test_the_version_for_it_is_used_for_nothing_else(broker: DevBroker, options: dict[str, Any]) -> None:
    seen: list[int] = []
    broker.controls.on_request(ApiKey.INIT_PRODUCER_ID, lambda context, _: seen.append(context.api_version))
    async with KafkaProducer(broker.bootstrap_servers, **options) as producer:
        if not options:
            await producer.send("t", b"1")
    async with two_phase(broker):
        assert seen == [5, 6]


class TestRefusals:
    """Two-phase commit is refused with the remedy where its promise cannot be kept."""

    async def test_a_broker_that_has_it_disabled_is_refused(self) -> None:
        async with DevBroker() as broker:
            with pytest.raises(
                errors.TransactionalIdAuthorizationFailedError, match=r"transaction\.two\.phase\.commit\.enable=true"
            ):
                await two_phase(broker).start()

    async def test_version_1_of_transactions_is_refused(self) -> None:
        async with DevBroker(transaction_version=1, transaction_two_phase_commit_enable=True) as broker:
            with pytest.raises(errors.UnsupportedVersionError, match=r"transaction\.version is 1"):
                await two_phase(broker).start()

    async def test_a_producer_without_it_cannot_prepare(self, broker: DevBroker) -> None:
        async with two_phase(broker, transaction_two_phase_commit_enable=False) as producer:
            await producer.begin_transaction()
            with pytest.raises(errors.IllegalStateError, match="transaction_two_phase_commit_enable=True"):
                await producer.prepare_transaction()
            with pytest.raises(errors.IllegalStateError, match="needs the state prepared_transaction"):
                await producer.complete_transaction("1:1")

    @pytest.mark.parametrize("text", ["", "1", "1:", ":1", "-1:3", "1:2:3", "1 :2", "\u0661:2", "1" * 30 + ":1"])
    async def test_a_text_that_names_no_transaction_is_refused(self, broker: DevBroker, text: str) -> None:
        async with two_phase(broker) as producer:
            with pytest.raises(ValueError, match="is not a prepared transaction"):
                await producer.complete_transaction(text)

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            ({"transactional_id": None}, "needs a transactional_id"),
            ({"transaction_timeout_ms": 1_000}, "transaction_timeout_ms=1000 has no effect with two-phase commit"),
        ],
    )
    def test_options_that_contradict_it_are_refused(self, options: dict[str, Any], why: str) -> None:
        options = {"transactional_id": "one", "transaction_two_phase_commit_enable": True, **options}
        with pytest.raises(errors.ConfigurationError, match=why):
            KafkaProducer("localhost:9", **options)
