"""The way of a response from its handler back to the Processor: parked, throttled, delayed, and given up at the end.

Owns the parked requests of one node, the responses that ``controls`` delays, and the quotas, which say how long a
client is throttled. It must not know any API's meaning. Kafka's counterparts are ``RequestChannel.sendResponse`` and
the ``quotas`` of ``KafkaApis``.

Rules:

- a response goes out once; after ``stop`` without its delay, since its connection is closed by then;
- a parked request is cancelled when its connection ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ...observability import get_logger
from ...protocol.api import ApiKey
from ..context import BrokerState, RequestContext
from .client_quotas import ClientQuotaManager, ClientQuotas
from .request_channel import Request, Response, ResponseAction

__all__ = ["ResponseSender"]

logger = get_logger(__name__)

LONGEST_THROTTLE: Final = 2_147_483.0
"""Seconds: a response has its milliseconds in 32 bits."""


class ResponseSender:
    """Sends the responses of one node."""

    def __init__(self, node_id: int, state: BrokerState) -> None:
        self.delayed: set[asyncio.TimerHandle] = set()
        self.parked: set[asyncio.Future[object]] = set()
        self._node_id = node_id
        self._state = state
        self._quotas = ClientQuotas(state.config)
        self._is_stopped = False

    def send(
        self, request: Request, action: ResponseAction, buffer: bytes = b"", throttle: float = 0.0, delay: float = 0.0
    ) -> None:
        """Give the response to the request's Processor, after ``delay``; ``throttle`` mutes the connection after it."""
        now = time.monotonic()
        request.handled = request.handled or now
        request.answered = request.answered or now
        response = Response(request, action, buffer, throttle)
        if delay <= 0 or self._is_stopped:
            request.processor.enqueue_response(response)
            return
        handle: asyncio.TimerHandle = self._state.loop.call_later(delay, lambda: self._send_delayed(handle, response))
        self.delayed.add(handle)

    def park(
        self, request: Request, future: asyncio.Future[object], on_done: Callable[[asyncio.Future[object]], object]
    ) -> None:
        """Let the request wait for the future; ``on_done`` is called with it, also when it was cancelled."""

        def unpark(future: asyncio.Future[object]) -> None:
            self.parked.discard(future)
            request.parked = None
            with self.closing_on_error(request):
                on_done(future)

        self.parked.add(future)
        request.parked = future
        future.add_done_callback(unpark)
        if request.connection.is_closed:
            future.cancel()

    def throttle_time(self, context: RequestContext, request: Request, response_size: int) -> float:
        """Seconds to throttle the client: the longest time of all quotas and of the controls.

        0 for SASL requests: no quota counts them, and their answers have no throttle time.
        """
        if context.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return 0.0
        throttle = self._state.faults.throttle_time(context.client_id)
        quotas = self._quotas
        if not quotas.has_limits and not self._state.quotas:
            return throttle
        if context.api_key == ApiKey.PRODUCE:
            produced = self._record(context, request, quotas.produce, "producer_byte_rate", len(request.buffer))
            throttle = max(throttle, produced)
        elif context.api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
            fetched = self._record(context, request, quotas.fetch, "consumer_byte_rate", response_size)
            throttle = max(throttle, fetched)
        work = request.handled - request.dequeued
        worked = self._record(context, request, quotas.request, "request_percentage", work, unit=0.01)
        return min(max(throttle, worked), LONGEST_THROTTLE)

    @contextmanager
    def closing_on_error(self, request: Request) -> Iterator[None]:
        """The root of all work for one request: an unexpected exception closes its connection, and ends no task."""
        try:
            yield
        except Exception as error:
            logger.error("broker.request_failed", exc_info=error, node_id=self._node_id, api_key=request.api_key)
            self.send(request, ResponseAction.CLOSE)

    def stop(self) -> None:
        """Cancel all parked requests and delayed responses."""
        self._is_stopped = True
        for handle in self.delayed:
            handle.cancel()
        self.delayed.clear()
        for future in list(self.parked):
            future.cancel()

    # internals

    def _record(
        self,
        context: RequestContext,
        request: Request,
        kind: ClientQuotaManager,
        key: str,
        amount: float,
        unit: float = 1.0,
    ) -> float:
        """Add a use to the client's own quota, else to the broker's; returns the seconds to throttle."""
        own = context.own_quota(key)
        if own is None:
            return kind.record(context.client_id, amount, request.handled)
        return kind.record(own.shared_by, amount, request.handled, own.limit * unit)

    def _send_delayed(self, handle: asyncio.TimerHandle, response: Response) -> None:
        self.delayed.discard(handle)
        response.request.processor.enqueue_response(response)
