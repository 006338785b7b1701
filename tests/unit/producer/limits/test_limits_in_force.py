"""The effect of a topic's limits on its state and on the accumulator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.errors import InvalidTimestampError
from aiokafkapy.producer.deliveries.shortcuts import now_ms
from aiokafkapy.producer.intake.topic_state import TopicState
from aiokafkapy.producer.limits.limits_in_force import LimitsInForce
from aiokafkapy.producer.limits.topic_limits import TopicLimits

from ..accumulator_harness import Harness
from ..sender_fakes import cluster_of

BOUNDED: dict[str, Any] = {"timestamp_before_max_ms": 1_000, "timestamp_after_max_ms": 1_000}


class Metadata:
    cluster = cluster_of({"t": [1]})

    def contains_topic(self, topic: str) -> bool:
        return True


class Limits:
    def __init__(self) -> None:
        self.harness = Harness()
        self.state = TopicState("t")
        client: Any = None
        self.limits = LimitsInForce(
            self.harness.config, client, Metadata(), self.harness.accumulator, {"t": self.state},
            loop=asyncio.get_running_loop(),
        )  # fmt: skip
        self.refused: list[Any] = []
        self.harness.accumulator.appender.on_refusal = self.refused.append

    def apply(self, **limits: Any) -> None:
        self.limits.apply("t", TopicLimits(**limits))


async def test_a_time_that_the_topic_does_not_take_is_refused_and_reported() -> None:
    one = Limits()
    one.apply(**BOUNDED)
    assert one.state.check_time is not None
    one.state.check_time(now_ms())
    for timestamp_ms in (0, now_ms() + 86_400_000):
        with pytest.raises(InvalidTimestampError) as raised:
            one.state.check_time(timestamp_ms)
        assert one.refused.pop() is raised.value


async def test_topics_without_a_bound_are_not_looked_up() -> None:
    one = Limits()
    one.apply(max_message_bytes=2000)
    assert one.state.check_time is None
    one.apply(**BOUNDED, uses_log_append_time=True)
    assert one.state.check_time is None
    one.apply(**BOUNDED)
    one.limits.apply("t", None)
    assert one.state.check_time is None
    one.limits.apply("another", TopicLimits(**BOUNDED))


async def test_a_figure_that_is_too_old_refuses_nothing() -> None:
    one = Limits()
    one.apply(**BOUNDED, until=asyncio.get_running_loop().time())
    assert one.state.check_time is not None
    one.state.check_time(0)


async def test_a_state_made_later_has_the_known_limits() -> None:
    one = Limits()
    loop = asyncio.get_running_loop()
    one.limits.use(one.state, loop.time())
    assert one.state.check_time is None
    one.limits.reader.book.learned("t", TopicLimits(**BOUNDED), None, loop.time())
    later = TopicState("t")
    one.limits.use(later, loop.time())
    assert later.check_time is not None
    one.limits.abort()
