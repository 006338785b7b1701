"""Calls with a time of their own: the time of their record, and refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import DeliveryTimeoutError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.pending_record import GivenRecord
from aiokafkapy.producer.intake.record_deadlines import RecordDeadlines
from aiokafkapy.producer.intake.record_sender import admitted
from aiokafkapy.producer.intake.timed_calls import accept_within
from aiokafkapy.producer.serializers import prepare

from ..intake_harness import IntakeRuntime, new_intake


@pytest.mark.parametrize("wrong", [0, -1, 2**31, 1.5, "5", True, 10**90])
async def test_a_wrong_time_refuses_the_call_and_nothing_is_accepted(wrong: Any) -> None:
    runtime: Any = IntakeRuntime()
    intake = new_intake(runtime)
    with pytest.raises((TypeError, ValueError), match=r"'orders'.*delivery_timeout_ms"):
        accept_within(intake, GivenRecord("orders", b"x"), wrong)
    assert runtime.values() == []
    runtime.end()
    assert asyncio.get_running_loop() is runtime.loop


async def test_an_async_serializer_has_no_more_time_than_its_record() -> None:
    runtime: Any = IntakeRuntime()
    runtime.config = ProducerConfig(bootstrap_servers="h:1")
    runtime.deadlines = RecordDeadlines(runtime.loop, lambda records: None)
    never = asyncio.Event()

    async def serialize(value: Any) -> bytes:
        await never.wait()
        return b"never"

    intake = new_intake(runtime, value_serializer=prepare(serialize))
    accepted: Any = accept_within(intake, GivenRecord("orders", "x"), 20)
    with pytest.raises(DeliveryTimeoutError, match="did not answer within the time of the call"):
        await admitted(accepted)
    runtime.deadlines.close()
    runtime.end()
