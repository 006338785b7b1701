"""The pushing of metrics, against a broker of a few lines, and with a sleep that ends when the test says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from aiokafkapy.client.telemetry import DEFAULT_PUSH_INTERVAL, TelemetrySender
from aiokafkapy.errors import (
    DisconnectedError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.protocol.otlp import MetricPoint, decode_metrics
from aiokafkapy.record.compression import Compression, decompress

ID = UUID(int=7)


class Broker:
    """Answers both APIs; ``answers`` are errors to answer, or to raise, before all goes well."""

    def __init__(self) -> None:
        self.requests: list[tuple[ApiKey, Any]] = []
        self.errors: list[type[KafkaError] | KafkaError | None] = []
        self.subscription: dict[str, Any] = {
            "client_instance_id": ID,
            "subscription_id": 3,
            "push_interval": 10_000,
            "telemetry_max_bytes": 10_000,
            "requested_metrics": [""],
            "delta_temporality": False,
            "accepted_compression_types": [],
        }
        self.delays: list[float] = []
        self.held: asyncio.Event | None = None
        """Until it is set no push is answered."""
        self.is_held = asyncio.Event()
        self._sleeping: asyncio.Future[None] | None = None
        self._asleep = asyncio.Event()

    async def send_and_wait(
        self, api_key: int, build: Callable[[int], Any], node: None = None, timeout: float | None = None
    ) -> Any:
        self.requests.append((ApiKey(api_key), build(0)))
        if self.held is not None and api_key == ApiKey.PUSH_TELEMETRY:
            self.is_held.set()
            await self.held.wait()
        error = self.errors.pop(0) if self.errors else None
        if isinstance(error, KafkaError):
            raise error
        if api_key == ApiKey.GET_TELEMETRY_SUBSCRIPTIONS:
            return build_response(api_key, 0, error_code=0 if error is None else error.code, **self.subscription)
        return build_response(api_key, 0, error_code=0 if error is None else error.code)

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self._sleeping = asyncio.get_running_loop().create_future()
        self._asleep.set()
        await self._sleeping

    async def asleep(self) -> None:
        """Return when the client sleeps."""
        await self._asleep.wait()
        self._asleep.clear()

    async def next(self) -> None:
        """Let the client wake up, and work until it sleeps again."""
        assert self._sleeping is not None
        self._sleeping.set_result(None)
        await self.asleep()

    @property
    def apis(self) -> list[ApiKey]:
        return [api_key for api_key, _ in self.requests]

    def pushed(self) -> list[MetricPoint]:
        """The points of the last push."""
        _, body = self.requests[-1]
        data = body.metrics
        if body.compression_type:
            data = decompress(body.compression_type, data, 100_000)
        return decode_metrics(bytes(data))[1]


GET, PUSH = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY


@pytest.fixture
async def broker() -> Broker:
    return Broker()


@pytest.fixture
async def sender(broker: Broker) -> AsyncIterator[TelemetrySender]:
    totals = iter(range(10, 1_000, 5))

    def collect() -> list[MetricPoint]:
        return [MetricPoint("a.total", float(next(totals)), True), MetricPoint("a.avg", 1.5), MetricPoint("b.max", 2)]

    loop = asyncio.get_running_loop()
    sender = TelemetrySender(broker, collect, loop=loop, resource={"transactional_id": "x"}, sleep=broker.sleep)
    yield sender
    sender.abort()
    await sender.settled()


async def test_a_sender_asks_for_a_subscription_and_pushes_at_its_interval(
    broker: Broker, sender: TelemetrySender
) -> None:
    sender.start()
    await broker.asleep()
    assert broker.requests[0][1].client_instance_id is None
    assert sender.client_instance_id == ID
    for _ in range(2):
        await broker.next()
    assert broker.apis == [GET, PUSH, PUSH]
    assert 5 <= broker.delays[0] <= 15
    assert broker.delays[1:] == [10, 10]
    body = broker.requests[-1][1]
    assert (body.client_instance_id, body.subscription_id, body.terminating) == (ID, 3, False)
    assert decode_metrics(body.metrics)[0] == {"transactional_id": "x"}
    assert {point.name: point.value for point in broker.pushed()} == {"a.total": 15, "a.avg": 1.5, "b.max": 2}


async def test_the_id_is_waited_for(broker: Broker, sender: TelemetrySender) -> None:
    waiting = asyncio.create_task(sender.instance_id(5))
    await asyncio.sleep(0)
    assert not waiting.done()
    sender.start()
    assert await waiting == await sender.instance_id(0) == ID


async def test_the_id_may_come_late_or_never(broker: Broker, sender: TelemetrySender) -> None:
    with pytest.raises(KafkaTimeoutError, match=r"within 0\.01 s"):
        await sender.instance_id(0.01)
    broker.errors = [InvalidRecordError]
    sender.start()
    with pytest.raises(ProducerClosedError, match="has ended"):
        await sender.instance_id(5)


async def test_only_subscribed_metrics_are_pushed(broker: Broker, sender: TelemetrySender) -> None:
    broker.subscription["requested_metrics"] = ["a.t", "b."]
    sender.start()
    await broker.asleep()
    await broker.next()
    assert [point.name for point in broker.pushed()] == ["a.total", "b.max"]


async def test_sums_are_differences_where_the_broker_wants_them(broker: Broker, sender: TelemetrySender) -> None:
    broker.subscription["delta_temporality"] = True
    sender.start()
    await broker.asleep()
    found = []
    for error in (None, TelemetryTooLargeError, None):
        broker.errors = [error]
        await broker.next()
        found.append(next(point for point in broker.pushed() if point.is_sum))
    # The numbers that the broker did not accept are in the next difference.
    assert [point.value for point in found] == [10, 5, 10]
    assert all(point.is_delta and point.start_ns < point.time_ns for point in found)
    assert found[2].start_ns == found[0].time_ns


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
async def test_the_first_codec_that_both_have_is_used(
    broker: Broker, sender: TelemetrySender, codec: Compression
) -> None:
    broker.subscription["accepted_compression_types"] = [99, int(codec), 1]
    sender.start()
    await broker.asleep()
    await broker.next()
    assert broker.requests[-1][1].compression_type == codec
    assert len(broker.pushed()) == 3


async def test_without_a_subscription_nothing_is_pushed_and_it_asks_again(
    broker: Broker, sender: TelemetrySender
) -> None:
    broker.subscription["requested_metrics"] = []
    sender.start()
    await broker.asleep()
    await broker.next()
    assert broker.apis == [GET, GET]
    assert broker.requests[1][1].client_instance_id == ID
    await sender.close(None)
    assert broker.apis == [GET, GET]


@pytest.mark.parametrize("error", [UnknownSubscriptionIdError, UnsupportedCompressionTypeError])
async def test_a_subscription_that_has_changed_is_asked_for_at_once(
    broker: Broker, sender: TelemetrySender, error: type[KafkaError]
) -> None:
    sender.start()
    await broker.asleep()
    broker.errors = [error]
    broker.subscription["subscription_id"] = 4
    await broker.next()
    assert broker.apis == [GET, PUSH, GET]
    await broker.next()
    assert broker.requests[-1][1].subscription_id == 4


@pytest.mark.parametrize(
    ("error", "delay"), [(ThrottlingQuotaExceededError, 10), (UnsupportedVersionError, DEFAULT_PUSH_INTERVAL)]
)
async def test_a_subscription_that_is_not_told_at_once_is_asked_for_after_an_interval(
    broker: Broker, sender: TelemetrySender, error: type[KafkaError], delay: float
) -> None:
    """Kafka 3.9 says that the subscription is unknown, and that it was asked for the new one too early."""
    sender.start()
    await broker.asleep()
    broker.errors = [UnknownSubscriptionIdError, error]
    broker.subscription["subscription_id"] = 4
    await broker.next()
    assert broker.apis == [GET, PUSH, GET]
    assert broker.delays[-1] == delay
    await broker.next()
    await broker.next()
    assert broker.apis == [GET, PUSH, GET, GET, PUSH]
    assert broker.requests[-1][1].subscription_id == 4


async def test_metrics_that_the_broker_cannot_read_are_not_pushed_again(
    broker: Broker, sender: TelemetrySender, caplog: pytest.LogCaptureFixture
) -> None:
    sender.start()
    await broker.asleep()
    broker.errors = [InvalidRecordError]
    assert broker._sleeping is not None
    broker._sleeping.set_result(None)
    await sender.settled()
    await sender.close(None)
    assert broker.apis == [GET, PUSH], "not even at the end"
    assert "telemetry.stopped" in caplog.text


async def test_a_lost_connection_is_tried_again_later(
    broker: Broker, sender: TelemetrySender, caplog: pytest.LogCaptureFixture
) -> None:
    broker.errors = [DisconnectedError("lost")]
    with caplog.at_level(logging.WARNING, "aiokafkapy"):
        sender.start()
        await broker.asleep()
        assert broker.delays == [DEFAULT_PUSH_INTERVAL]
        await broker.next()
    assert broker.apis == [GET, GET]
    assert caplog.text == ""


async def test_more_than_the_broker_takes_is_not_sent(broker: Broker, sender: TelemetrySender) -> None:
    broker.subscription["telemetry_max_bytes"] = 20
    sender.start()
    await broker.asleep()
    await broker.next()
    assert broker.apis == [GET]
    assert broker.delays[-1] == 10


async def test_the_last_push_says_so(broker: Broker, sender: TelemetrySender) -> None:
    sender.start()
    await broker.asleep()
    await sender.close(None)
    assert broker.apis == [GET, PUSH]
    assert broker.requests[-1][1].terminating
    await sender.close(None)
    assert broker.apis == [GET, PUSH], "once"


async def test_a_push_that_is_under_way_is_waited_for_and_its_differences_are_pushed_once(
    broker: Broker, sender: TelemetrySender
) -> None:
    broker.subscription["delta_temporality"] = True
    broker.held = asyncio.Event()
    sender.start()
    await broker.asleep()
    assert broker._sleeping is not None
    broker._sleeping.set_result(None)
    await broker.is_held.wait()
    closing = asyncio.create_task(sender.close(None))
    for _ in range(5):
        await asyncio.sleep(0)
    assert broker.apis == [GET, PUSH]
    first = next(point for point in broker.pushed() if point.is_sum)
    broker.held.set()
    await closing
    assert broker.apis == [GET, PUSH, PUSH]
    last = next(point for point in broker.pushed() if point.is_sum)
    assert (first.value, last.value) == (10, 5)


async def test_a_push_without_an_answer_holds_up_no_end(broker: Broker, sender: TelemetrySender) -> None:
    broker.held = asyncio.Event()
    sender.start()
    await broker.asleep()
    assert broker._sleeping is not None
    broker._sleeping.set_result(None)
    await broker.is_held.wait()
    await asyncio.wait_for(sender.close(0.01), 5)


async def test_a_last_push_that_fails_is_nobody_s_problem(broker: Broker, sender: TelemetrySender) -> None:
    sender.start()
    await broker.asleep()
    broker.errors = [DisconnectedError("lost")]
    await sender.close(0.5)


async def test_metrics_that_cannot_be_collected_end_it_and_nothing_else(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    def collect() -> list[MetricPoint]:
        raise RuntimeError("a bug")

    sender = TelemetrySender(broker, collect, loop=asyncio.get_running_loop(), resource={}, sleep=broker.sleep)
    sender.start()
    await broker.asleep()
    assert broker._sleeping is not None
    broker._sleeping.set_result(None)
    await sender.settled()
    assert "telemetry.stopped" in caplog.text
    assert "a bug" in caplog.text


async def test_metrics_that_cannot_be_collected_do_not_keep_a_producer_from_closing(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    def collect() -> list[MetricPoint]:
        raise RuntimeError("a bug")

    sender = TelemetrySender(broker, collect, loop=asyncio.get_running_loop(), resource={}, sleep=broker.sleep)
    sender.start()
    await broker.asleep()
    with caplog.at_level(logging.DEBUG, "aiokafkapy"):
        await sender.close(0.5)
    assert broker.apis == [GET]
    assert 'telemetry.failed error="a bug"' in caplog.text


async def test_an_interval_of_nothing_is_the_default_one(broker: Broker, sender: TelemetrySender) -> None:
    broker.subscription["push_interval"] = timedelta(0)
    sender.start()
    await broker.asleep()
    assert broker.delays[0] >= DEFAULT_PUSH_INTERVAL / 2
