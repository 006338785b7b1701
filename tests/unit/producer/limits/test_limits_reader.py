"""The reading of limits, against a broker of a few lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.errors import (
    DisconnectedError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafkapy.producer.limits import limits_reader
from aiokafkapy.producer.limits.limits_reader import LimitsReader
from aiokafkapy.producer.limits.topic_limits import CONFIG_NAMES, TopicLimits
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.testing.clock import VirtualClock

from ..sender_fakes import NODES, VirtualLoop, cluster_of


class Loop(VirtualLoop):
    """A loop with virtual timers, and the running loop's tasks."""

    def create_task(self, coroutine: Any, *, name: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine, name=name)

    def is_closed(self) -> bool:
        return False


class Broker:
    """Answers DescribeConfigs, or raises; ``held`` keeps the answer back until it is set."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.configs: dict[str, dict[str, str]] = {"t": {"max.message.bytes": "2000"}}
        self.errors: dict[str, type[KafkaError]] = {}
        self.failure: Exception | None = None
        self.leaves_out: set[str] = set()
        self.held: asyncio.Event | None = None

    async def send_and_wait(self, api_key: int, build: Callable[[int], Any]) -> Any:
        assert api_key == ApiKey.DESCRIBE_CONFIGS
        request = build(4)
        self.requests.append(request)
        if self.held is not None:
            await self.held.wait()
        if self.failure is not None:
            raise self.failure
        names = [each.resource_name for each in request.resources if each.resource_name not in self.leaves_out]
        return build_response(ApiKey.DESCRIBE_CONFIGS, 4, results=[self._result(name) for name in names])

    def _result(self, name: str) -> dict[str, Any]:
        error = self.errors.get(name)
        configs = {} if error else self.configs.get(name, {})
        return {
            "error_code": error.code if error else 0,
            "error_message": "no" if error else None,
            "resource_type": 2,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }

    @property
    def asked(self) -> list[list[str]]:
        return [[each.resource_name for each in request.resources] for request in self.requests]


class Topics:
    def __init__(self) -> None:
        self.cluster = cluster_of({"t": [1], "other": [1]})
        self.in_use = {"t", "other"}

    def contains_topic(self, topic: str) -> bool:
        return topic in self.in_use


class Reader:
    """A reader with all around it."""

    def __init__(self, *, acks: int = -1) -> None:
        self.broker, self.topics = Broker(), Topics()
        self.loop = Loop(VirtualClock())
        self.applied: list[tuple[str, TopicLimits | None]] = []
        self.reader = LimitsReader(
            self.broker, self.topics, lambda topic, limits: self.applied.append((topic, limits)),
            loop=self.loop, max_age=300.0, retry_backoff=0.1, required_acks=acks,  # type: ignore[arg-type]
        )  # fmt: skip

    async def pass_time(self, seconds: float) -> None:
        self.loop.run_until(self.loop.time() + seconds)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def use(self, *topics: str) -> None:
        for topic in topics:
            self.reader.use(topic, self.loop.time())
        await self.pass_time(0.2)

    @property
    def limits(self) -> list[int | None]:
        return [None if limits is None else limits.max_message_bytes for _, limits in self.applied]


async def test_the_limits_of_topics_in_use_are_read_together_and_handed_on() -> None:
    one = Reader()
    one.broker.configs["other"] = {"max.message.bytes": "5000", "min.insync.replicas": "1"}
    await one.use("t", "other")
    assert one.broker.asked == [["t", "other"]]
    assert one.broker.requests[0].resources[0].resource_type == 2
    assert one.broker.requests[0].resources[0].configuration_keys == CONFIG_NAMES
    assert [topic for topic, _ in one.applied] == ["t", "other"]
    assert one.limits == [2000, 5000]
    assert one.reader.use("t", one.loop.time()) == one.applied[0][1]


async def test_limits_are_read_again_before_they_are_too_old() -> None:
    one = Reader()
    await one.use("t")
    one.broker.configs["t"] = {"max.message.bytes": "3000"}
    await one.pass_time(299.0)
    assert one.limits == [2000, 3000]
    assert one.loop.pending_timers == 1


async def test_a_refusal_has_them_read_again() -> None:
    one = Reader()
    await one.use("t")
    one.broker.configs["t"] = {"max.message.bytes": "3000"}
    one.reader.refused("t")
    await one.pass_time(1.1)
    assert one.limits == [2000, 3000]


async def test_a_topic_that_is_made_later_is_asked_about_then() -> None:
    one = Reader()
    one.topics.cluster = cluster_of({})
    await one.use("t")
    assert one.broker.asked == []
    assert one.loop.pending_timers == 0  # nothing wakes an idle producer
    one.topics.cluster = cluster_of({"t": [1]})
    one.reader.on_metadata_update()
    await one.pass_time(0.2)
    assert one.limits == [2000]


@pytest.mark.parametrize("failure", [DisconnectedError("gone"), None])
async def test_without_an_answer_it_is_tried_again(failure: Exception | None) -> None:
    one = Reader()
    one.broker.failure = failure
    if failure is None:
        one.broker.errors["t"] = UnknownTopicOrPartitionError  # this broker has not heard of it yet
    await one.use("t")
    assert one.applied == []
    one.broker.failure = None
    one.broker.errors.clear()
    await one.pass_time(0.2)
    assert one.limits == [2000]


@pytest.mark.parametrize(
    "failure",
    [TopicAuthorizationFailedError, UnsupportedVersionError("too old"), ZeroDivisionError("a bug"), "left out"],
)
async def test_where_they_cannot_be_had_one_event_says_so_and_nothing_is_asked_again(
    failure: Any, caplog: pytest.LogCaptureFixture
) -> None:
    one = Reader()
    if failure == "left out":
        one.broker.leaves_out = {"t", "other"}
    elif isinstance(failure, Exception):
        one.broker.failure = failure
    else:
        one.broker.errors = dict.fromkeys(("t", "other"), failure)
    with caplog.at_level(logging.DEBUG, limits_reader.__name__):
        await one.use("t", "other")
        await one.pass_time(10_000.0)
    assert len(one.broker.asked) == 1
    assert one.applied == []
    assert one.loop.pending_timers == 0
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.getMessage().startswith("topic_limits.unavailable")


async def test_limits_that_cannot_be_read_again_are_used_no_longer_than_said() -> None:
    one = Reader()
    await one.use("t")
    ((_, limits),) = one.applied
    assert limits is not None
    one.broker.failure = DisconnectedError("gone")
    while one.loop.time() < limits.until + 61:
        await one.pass_time(10.0)
    assert one.applied == [("t", limits), ("t", None)]


async def test_limits_of_a_recreated_topic_are_forgotten_at_once() -> None:
    one = Reader()
    await one.use("t")
    partitions = one.topics.cluster.partitions_for_topic("t")
    one.topics.cluster = Cluster(NODES, {"t": TopicMetadata("t", partitions, bytes(15) + b"\11")})
    one.reader.on_metadata_update()
    assert one.limits == [2000, None]
    await one.pass_time(1.1)
    assert one.limits == [2000, None, 2000]


async def test_acks_that_do_not_fit_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    one = Reader(acks=1)
    one.broker.configs["t"] = {"min.insync.replicas": "2"}
    with caplog.at_level(logging.WARNING, limits_reader.__name__):
        await one.use("t")
        for _ in range(3):
            await one.pass_time(280.0)
    assert len(one.broker.asked) == 4
    (record,) = caplog.records
    assert record.getMessage().startswith("topic_limits.acks_mismatch")
    assert "acks=1" in record.getMessage()


async def test_an_aborted_reader_leaves_no_task_and_no_timer() -> None:
    for is_asked in (False, True):
        one = Reader()
        one.broker.held = asyncio.Event()
        await one.reader.settled()
        one.reader.use("t", one.loop.time())
        if is_asked:
            await one.pass_time(0.2)
            assert len(one.broker.asked) == 1
        one.reader.abort()
        one.reader.abort()
        await one.reader.settled()
        one.reader.refused("t")
        one.reader.on_metadata_update()
        assert one.loop.pending_timers == 0
        assert not [task for task in asyncio.all_tasks() if "topic limits" in task.get_name()]
