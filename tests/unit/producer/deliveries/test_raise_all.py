from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, errors, raise_all
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import MockProducer


async def test_each_kind_of_error_is_dealt_with_by_itself() -> None:
    records: list[Any] = [b"good", bytes(2_000_000), "text", ProducerRecord("t", b"good"), bytes(3_000_000)]
    too_large: list[str] = []
    wrong: list[str] = []
    message = ""
    async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers) as producer:
        outcomes = await producer.send_many("t", records, return_exceptions=True)
        try:
            raise_all(outcomes)
        except* errors.RecordTooLargeError as group:
            too_large = [error.__notes__[-1] for error in group.exceptions]
            message = str(group)
        except* errors.SerializationError as group:
            wrong = [error.__notes__[-1] for error in group.exceptions]
        assert len(broker.records("t")) == 2
    assert message.startswith("3 of 5 records failed: 2 RecordTooLargeError, 1 SerializationError")
    assert [note.partition(":")[0] for note in too_large] == ["record 1 (not retriable)", "record 4 (not retriable)"]
    assert "max_request_size" in too_large[0]
    assert wrong[0].startswith("record 2 (not retriable): correct the data")


async def test_rows_of_a_table_too() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"value": [b"a", bytes(2_000_000), b"c"]})
    async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers) as producer:
        outcome = await producer.send_arrow("t", table, return_exceptions=True)
        with pytest.raises(ExceptionGroup, match="1 of 3 rows failed: 1 RecordTooLargeError") as caught:
            raise_all(outcome)
    assert caught.value.exceptions[0].__notes__[-1].startswith("row 1 (not retriable): split")


async def test_deliveries_and_the_result_of_gather() -> None:
    async with MockProducer(auto_complete=False) as producer:
        deliveries = [producer.send_nowait("t", b"") for _ in range(3)]
        producer.complete_next()
        with pytest.raises(asyncio.InvalidStateError):
            raise_all(deliveries)
        producer.error_next(errors.DeliveryTimeoutError("late", outcome_unknown=True))
        producer.error_next(RuntimeError("another"))
        for outcomes in (deliveries, await asyncio.gather(*deliveries, return_exceptions=True)):
            with pytest.raises(ExceptionGroup) as caught:
                raise_all(outcomes)
            unknown, other = caught.value.exceptions
            assert unknown.__notes__[-1].startswith("record 1 (outcome unknown, retriable): send it again if")
            assert other.__notes__[-1] == "record 2"


def test_without_errors_nothing_is_raised_and_a_cancellation_is_not_hidden() -> None:
    raise_all([])
    raise_all([None, object()])
    raise_all(SimpleNamespace(rows=3, failed={}))
    with pytest.raises(BaseExceptionGroup) as caught:
        raise_all([asyncio.CancelledError()])
    assert not isinstance(caught.value, ExceptionGroup)


def test_many_kinds_are_cut_and_a_note_is_made_once() -> None:
    kinds = [errors.for_code(code)("x") for code in (2, 3, 5, 6, 7, 19, 22, 87)]
    for _ in range(2):
        with pytest.raises(ExceptionGroup, match=r"8 of 8 records failed: .*, …"):
            raise_all(kinds)
    assert [len(error.__notes__) for error in kinds] == [1] * 8


async def test_an_error_of_a_call_for_many_has_its_remedy() -> None:
    async with DevBroker() as broker, KafkaProducer(broker.bootstrap_servers) as producer:
        broker.controls.fail_next(ApiKey.PRODUCE, errors.MessageTooLargeError)
        with pytest.raises(errors.MessageTooLargeError) as caught:
            await producer.send_many("t", [b"one"])
    assert caught.value.__notes__[-1] == f"what to do: {caught.value.remedy}"
