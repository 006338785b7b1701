"""A way in that takes no records while their circuit is open."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aiokafkapy import ProducerRecord
from aiokafkapy.errors import CircuitOpenError, DeliveryTimeoutError, InvalidTopicError, ProducerNotStartedError
from aiokafkapy.producer.circuits.circuits import Circuits
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.intake.guarded_intake import GuardedIntake, GuardedInterceptedIntake
from aiokafkapy.producer.intake.interceptors import ProducerInterceptors
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.options.circuit_options import CircuitBreaker

from ..intake_harness import IntakeRuntime, not_started


class Runtime(IntakeRuntime):
    def __init__(self) -> None:
        super().__init__()
        self.circuits = Circuits(CircuitBreaker(failures=1, open_ms=60_000), lambda *_: None)
        self.refused: list[Any] = []
        self.accumulator.appender.on_refusal = self.refused.append

    def trip(self, topic: str = "orders") -> None:
        self.circuits.failed(topic, DeliveryTimeoutError("no outcome"), self.now())


class Seen:
    """An interceptor that keeps its arguments."""

    def __init__(self) -> None:
        self.sent: list[ProducerRecord] = []
        self.acknowledged: list[BaseException | None] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record)
        return record

    def on_acknowledgement(self, metadata: Any, error: BaseException | None, headers: Any) -> None:
        self.acknowledged.append(error)


def guarded(seen: Seen | None = None) -> Any:
    if seen is None:
        return GuardedIntake(None, None, DefaultPartitioner(), not_started)
    chain = ProducerInterceptors([seen], lambda *_: None)
    return GuardedInterceptedIntake(None, None, DefaultPartitioner(), not_started, chain)


def accept(taker: Any, topic: Any = "orders", **fields: Any) -> Any:
    return taker.accept(topic, b"value", None, fields.get("partition"), None, None)


@pytest.mark.parametrize("is_intercepted", [False, True])
async def test_while_it_is_open_a_call_fails_at_once_and_other_topics_are_taken(is_intercepted: bool) -> None:
    seen = Seen()
    taker, runtime = guarded(seen if is_intercepted else None), Runtime()
    runtime.learn({"orders": 1, "others": 1})
    taker.bind(cast(Any, runtime))
    assert isinstance(accept(taker), Delivery)
    assert taker.lets_through("orders")
    runtime.trip()
    with pytest.raises(CircuitOpenError) as raised:
        accept(taker)
    assert runtime.refused == [raised.value]  # so that a transaction knows
    assert is_intercepted or not taker.lets_through("orders")
    assert isinstance(accept(taker, "others"), Delivery)
    runtime.circuits.succeeded("orders", runtime.now())
    assert isinstance(accept(taker), Delivery)
    if is_intercepted:
        assert len(seen.sent) == 4
        assert seen.acknowledged == [raised.value]


async def test_a_probe_with_a_wrong_argument_leaves_its_place_to_the_next() -> None:
    for taker in (guarded(), guarded(Seen())):
        runtime = Runtime()
        runtime.circuits = Circuits(CircuitBreaker(failures=1, open_ms=1), lambda *_: None)
        taker.bind(cast(Any, runtime))
        runtime.circuits.failed("orders", DeliveryTimeoutError("no outcome"), runtime.now() - 1)
        with pytest.raises(ValueError, match="partition"):
            accept(taker, partition=-5)
        assert isinstance(accept(taker), Delivery)


async def test_an_argument_that_no_producer_takes_is_refused_as_ever() -> None:
    for taker in (guarded(), guarded(Seen())):
        with pytest.raises(ProducerNotStartedError):
            accept(taker)
        runtime = Runtime()
        taker.bind(cast(Any, runtime))
        runtime.trip()
        with pytest.raises((TypeError, InvalidTopicError)):
            accept(taker, 5)
        taker.unbind()
        with pytest.raises(ProducerNotStartedError):
            accept(taker)
