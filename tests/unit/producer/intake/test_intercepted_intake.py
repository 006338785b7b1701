"""Interceptors before an intake: their changes are accepted, and their hooks get every outcome once."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

import pytest

from aiokafkapy import ProducerRecord
from aiokafkapy.errors import BufferExhaustedError, MetadataNotReadyError, ProducerNotStartedError, SerializationError
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.intercepted_intake import InterceptedIntake
from aiokafkapy.producer.intake.interceptors import ProducerInterceptors
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.intake.record_sender import RecordSender, not_admitted

from ..intake_harness import IntakeRuntime, not_started


class Interceptor:
    """Makes the given changes, and remembers its calls."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.seen: list[ProducerRecord] = []
        self.outcomes: list[tuple[Any, Any]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.seen.append(record)
        return dataclasses.replace(record, **self.changes)

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
        self.outcomes.append((error, headers))


def intercepted(interceptor: Interceptor, runtime: IntakeRuntime | None = None) -> InterceptedIntake:
    chain = ProducerInterceptors([interceptor], lambda hook, error: pytest.fail(f"{hook}: {error!r}"))
    intake = InterceptedIntake(None, None, DefaultPartitioner(), not_started, chain)
    if runtime is not None:
        intake.bind(cast(Any, runtime))
    return intake


async def test_a_record_is_accepted_as_the_chain_leaves_it() -> None:
    runtime, interceptor = IntakeRuntime(), Interceptor(value=b"changed", headers=iter([("a", b"b")]))
    accepted = intercepted(interceptor, runtime).accept("orders", b"1", b"k", 2, 7, None)
    assert type(accepted) is Delivery
    assert interceptor.seen == [ProducerRecord("orders", b"1", b"k", 2, 7, None)]
    (batch,) = runtime.accumulator.incomplete
    assert list(batch.builder.records()) == [(7, b"k", b"changed", (("a", b"b"),))]
    batch.complete(0)
    await asyncio.sleep(0)
    assert interceptor.outcomes == [(None, (("a", b"b"),))]


async def test_a_wrong_argument_is_an_outcome_and_is_raised() -> None:
    interceptor = Interceptor(headers=7)
    with pytest.raises(SerializationError, match="headers must be pairs") as caught:
        intercepted(interceptor, IntakeRuntime()).accept("orders", b"1", None, None, None, None)
    assert interceptor.outcomes == [(caught.value, 7)]


async def test_a_record_that_must_not_wait_has_its_refusal_as_outcome() -> None:
    interceptor = Interceptor()
    sender: RecordSender[bytes, bytes] = RecordSender(intercepted(interceptor, IntakeRuntime()))
    with pytest.raises(MetadataNotReadyError):
        sender.send_nowait("new", b"1")
    await asyncio.sleep(0)
    ((error, _),) = interceptor.outcomes
    assert isinstance(error, MetadataNotReadyError)


async def test_the_outcome_of_a_record_that_waits_is_reported_later() -> None:
    runtime, interceptor = IntakeRuntime(), Interceptor()
    sender: RecordSender[bytes, bytes] = RecordSender(intercepted(interceptor, runtime))
    call = asyncio.create_task(sender.enqueue("new", b"1"))
    await asyncio.sleep(0)
    assert interceptor.outcomes == []
    runtime.learn({"orders": 6, "new": 1})
    await call
    (batch,) = runtime.accumulator.incomplete
    batch.complete(0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert interceptor.outcomes == [(None, None)]


async def test_without_a_runtime_no_interceptor_sees_a_record() -> None:
    interceptor = Interceptor()
    with pytest.raises(ProducerNotStartedError):
        intercepted(interceptor).accept("orders", b"1", None, None, None, None)
    assert interceptor.seen == []
    assert interceptor.outcomes == []


async def test_interceptors_are_shown_no_record_whose_outcome_they_would_not_see() -> None:
    """The runtime has ended, for example since the Sender crashed: no outcome would reach them."""
    runtime, interceptor = IntakeRuntime(), Interceptor()
    intake = intercepted(interceptor, runtime)
    intake.accept("orders", b"1", None, None, None, None)
    runtime.end()
    with pytest.raises(ProducerNotStartedError):
        intake.accept("orders", b"2", None, None, None, None)
    assert [record.value for record in interceptor.seen] == [b"1"]


async def test_no_value_is_plain() -> None:
    intake = intercepted(Interceptor())
    assert intake.shows_each_record
    assert not intake.takes_plain_values


async def test_a_refused_record_is_reported_with_a_copy_of_the_error() -> None:
    runtime, interceptor = IntakeRuntime(buffer_memory=9_000, max_request_size=8_000), Interceptor()
    intake = intercepted(interceptor, runtime)
    record: Any = None
    while record is None or type(record) is Delivery:
        record = intake.accept("orders", bytes(4_000), None, 0, None, None)
    error = not_admitted(record)
    await asyncio.sleep(0)
    assert isinstance(error, BufferExhaustedError)
    assert str(interceptor.outcomes[-1][0]) == str(error)
    assert interceptor.outcomes[-1][0] is not error
