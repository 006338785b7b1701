"""Pushes a client's metrics to brokers whose operators have asked for them (KIP-714).

Owns the subscription, the one task, and the numbers pushed before, for brokers that want differences. Knows no metric:
``collect`` gives the numbers. Kafka's counterparts are ``ClientTelemetryReporter`` and ``ClientTelemetrySender``.

Rules:

- A broker is asked only where it offers the two APIs, so that a cluster without a receiver costs nothing.
- The first push comes after 0.5 to 1.5 intervals, so that clients that were started together do not push together.
- ``close`` makes a last push, which says that it is the last, and takes ``LAST_PUSH`` seconds at most. It waits for one
  that is under way, so that no difference is pushed twice.
- A failure here is logged and affects no record.

Events: ``telemetry.stopped`` (warning; error), ``telemetry.failed`` (debug; error).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from ..common import milliseconds
from ..errors import (
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
    make,
)
from ..observability import get_logger
from ..protocol.api import ApiKey
from ..protocol.codec import Struct
from ..protocol.messages import build_request
from ..protocol.otlp import MetricPoint, encode_metrics
from ..record.compression import Compression, compress
from .network_client_utils import RequestClient

__all__ = ["DEFAULT_PUSH_INTERVAL", "LAST_PUSH", "TelemetrySender"]

DEFAULT_PUSH_INTERVAL: Final = 300.0
"""Seconds until a broker that gave no answer is asked again, as in Java."""
LAST_PUSH: Final = 2.0

_WITHOUT_EFFECT: Final = (TelemetryTooLargeError, ThrottlingQuotaExceededError)
_ASK_AGAIN: Final = (UnknownSubscriptionIdError, UnsupportedCompressionTypeError)

_logger = get_logger(__name__)


class TelemetrySender:
    """Pushes the metrics of ``collect``, from ``start`` to ``close``. ``resource`` names their owner."""

    def __init__(
        self,
        client: RequestClient,
        collect: Callable[[], Sequence[MetricPoint]],
        *,
        loop: asyncio.AbstractEventLoop,
        resource: Mapping[str, str],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._collect = collect
        self._loop = loop
        self._resource = resource
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        # the broker's answers
        self.client_instance_id: UUID | None = None
        """The id that the cluster gave this client; None before."""
        self._subscription: _Subscription | None = None
        self._is_idle = asyncio.Event()  # no push is under way
        self._is_idle.set()
        self._is_told = asyncio.Event()  # the id is known, or will never be
        # sums at the last accepted push, by name and attributes
        self._pushed: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._pushed_at = self._started_at = time.time_ns()

    def start(self) -> None:
        """Begin; needs the running loop."""
        self._task = self._loop.create_task(self._run(), name="aiokafkapy telemetry")

    async def instance_id(self, timeout: float) -> UUID:
        """``client_instance_id`` as soon as it is known; raises KafkaTimeoutError after ``timeout`` seconds, and
        ProducerClosedError when it will never be known.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._is_told.wait()
        except TimeoutError:
            text = f"no broker has given this client an instance id within {timeout:g} s"
            raise KafkaTimeoutError(text) from None
        if self.client_instance_id is None:
            raise ProducerClosedError("the pushing of metrics has ended, and no broker has given an instance id before")
        return self.client_instance_id

    async def close(self, timeout: float | None) -> None:
        """Push once more, within ``timeout`` seconds and ``LAST_PUSH``, and end."""
        was_running = self._task is not None and not self._task.done()
        deadline = self._loop.time() + (LAST_PUSH if timeout is None else min(timeout, LAST_PUSH))
        if was_running:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._is_idle.wait()  # or its metrics would be pushed again
        self.abort()
        await self.settled()
        subscription = self._subscription
        if was_running and subscription is not None and subscription.metrics:
            try:
                async with asyncio.timeout_at(deadline):
                    await self._push(subscription, is_last=True)
            except Exception as error:  # as in the task, which ends here: a close must go on
                _logger.debug("telemetry.failed", error=str(error))

    def abort(self) -> None:
        """End at once. May be called again."""
        if self._task is not None and not self._loop.is_closed():
            self._task.cancel()

    async def settled(self) -> None:
        """Return when the task has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    # internals

    async def _run(self) -> None:
        try:
            while True:
                try:
                    subscription = self._subscription = await self._subscribe()
                    await self._push_while_subscribed(subscription)
                except KafkaError as error:
                    if not error.retriable and not isinstance(error, UnsupportedVersionError):
                        raise
                    _logger.debug("telemetry.failed", error=str(error))
                    await self._sleep(self._delay_after(error))
        except Exception as error:
            # The root of the task: metrics are not worth a record.
            self._subscription = None
            _logger.warning("telemetry.stopped", error=f"{type(error).__name__}: {error}")
        finally:
            self._is_told.set()

    def _delay_after(self, error: KafkaError) -> float:
        """Seconds until the broker is asked again: an interval, as in Java, once one is known."""
        # Kafka 3.9 says that the subscription is unknown, and refuses for an interval to tell the new one. A node that
        # does not offer the API may be one of a cluster that is being upgraded.
        if self._subscription is None or isinstance(error, UnsupportedVersionError):
            return DEFAULT_PUSH_INTERVAL
        return self._subscription.interval

    async def _subscribe(self) -> _Subscription:
        known = self.client_instance_id
        answer = await self._ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, client_instance_id=known)
        if known is None:
            self.client_instance_id = answer.client_instance_id
            self._is_told.set()
        interval = milliseconds(answer.push_interval) / 1000
        return _Subscription(
            answer.subscription_id,
            interval if interval > 0 else DEFAULT_PUSH_INTERVAL,
            tuple(answer.requested_metrics),
            _chosen_codec(answer.accepted_compression_types),
            answer.telemetry_max_bytes,
            answer.delta_temporality,
        )

    async def _push_while_subscribed(self, subscription: _Subscription) -> None:
        """Push until the broker has to be asked again."""
        delay = subscription.interval * (0.5 + random.random())
        while True:
            await self._sleep(delay)
            if not subscription.metrics:
                return
            try:
                await self._push(subscription)
            except _ASK_AGAIN:
                return
            except _WITHOUT_EFFECT as error:
                _logger.debug("telemetry.failed", error=str(error))
            delay = subscription.interval

    async def _push(self, subscription: _Subscription, *, is_last: bool = False) -> None:
        now = time.time_ns()
        points = [replace(point, time_ns=now, start_ns=self._started_at) for point in self._collect()]
        points = [point for point in points if point.name.startswith(subscription.metrics)]
        sums = {_identity(point): point.value for point in points if point.is_sum}
        if subscription.is_delta:
            points = [self._since_last_push(point) if point.is_sum else point for point in points]
        data = encode_metrics(points, self._resource)
        if subscription.codec is not Compression.NONE:
            data = compress(subscription.codec, data)
        if len(data) > subscription.max_bytes > 0:
            raise TelemetryTooLargeError(f"{len(data)} bytes of metrics; the broker takes {subscription.max_bytes}")
        self._is_idle.clear()
        try:
            await self._ask(
                ApiKey.PUSH_TELEMETRY,
                client_instance_id=self.client_instance_id,
                subscription_id=subscription.subscription_id,
                terminating=is_last,
                compression_type=int(subscription.codec),
                metrics=data,
            )
        finally:
            self._is_idle.set()
        self._pushed.update(sums)
        self._pushed_at = now

    def _since_last_push(self, point: MetricPoint) -> MetricPoint:
        before = self._pushed.get(_identity(point), 0.0)
        return replace(point, value=point.value - before, start_ns=self._pushed_at, is_delta=True)

    async def _ask(self, api_key: ApiKey, **fields: object) -> Struct:
        answer = await self._client.send_and_wait(api_key, lambda version: build_request(api_key, version, **fields))
        if answer.error_code:
            raise make(int(answer.error_code))
        return answer


@dataclass(frozen=True, slots=True)
class _Subscription:
    """A subscription; ``interval`` is in seconds."""

    subscription_id: int
    interval: float
    metrics: tuple[str, ...]
    codec: Compression
    max_bytes: int
    is_delta: bool


def _chosen_codec(accepted: Sequence[int]) -> Compression:
    """The broker's first choice among the codecs that we have."""
    known = {int(codec) for codec in Compression}
    return next((Compression(codec) for codec in accepted if codec in known), Compression.NONE)


def _identity(point: MetricPoint) -> tuple[str, tuple[tuple[str, str], ...]]:
    return point.name, tuple(sorted(point.attributes.items()))
