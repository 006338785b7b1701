"""Between the Processors and the KafkaRequestHandlers: a bounded queue of requests, and the way back for responses.

Owns ``Request``, ``Response``, the queue between them and the times a request spends in each stage. It must not know
the content of a request: bytes in, bytes out. Kafka's counterpart is ``RequestChannel``.

Rules:

- the request queue never holds more than ``queued_max_requests``; ``send_request`` refuses, and the Processor that was
  refused stops reading from all its connections until it is called back: back-pressure, not loss;
- a response goes back to the Processor that read the request, and only to it;
- times are ``time.monotonic()``, since uvloop's own time stands still within a turn of the loop; a stage that was not
  reached counts as zero.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from ...protocol.codec import RequestHeader
    from ..context import ConnectionInfo

__all__ = [
    "Connection",
    "Request",
    "RequestChannel",
    "RequestMetrics",
    "RequestWatcher",
    "Response",
    "ResponseAction",
    "ResponseQueue",
]


class ResponseAction(Enum):
    """An order to the Processor."""

    SEND = "send"
    SEND_AND_CLOSE = "send, then close"  # a refused authentication
    NO_OPERATION = "no operation"  # Produce with acks=0: unmute and go on
    CLOSE = "close"


class Connection(Protocol):
    """A connection as the queue and the handlers see it."""

    info: ConnectionInfo

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be read or written any more."""

    def send(self, response: Response) -> None:
        """Write the response of the request in progress; nothing on a closed connection."""

    def close(self) -> None:
        """Close at once; unsent bytes are dropped."""


class ResponseQueue(Protocol):
    """A Processor, seen from the handlers."""

    def enqueue_response(self, response: Response) -> None:
        """Write a response to one of its requests: now, or when a stall is over. Never waits."""

    def resume_requests(self) -> None:
        """The request queue has room again."""


@dataclass(slots=True, eq=False)
class Request:
    """One whole frame of one connection, and the time at which it passed each stage."""

    processor: ResponseQueue
    connection: Connection
    buffer: bytes
    received: float

    # Filled in as the request goes along; api_key and header are known once a handler has read them.
    api_key: int = -1
    header: RequestHeader | None = None
    dequeued: float = 0.0
    handled: float = 0.0  # the handler returned
    answered: float = 0.0  # the response was there (later than handled when it was parked)
    answer: object = None  # the response's body, or the order in its place

    # The future that a parked request waits for; cancelled when the connection goes away.
    parked: asyncio.Future[object] | None = None


@dataclass(slots=True, eq=False)
class Response:
    """The bytes for a connection, and the time for which it is muted after them."""

    request: Request
    action: ResponseAction
    buffer: bytes = b""
    throttle: float = 0.0
    enqueued: float = 0.0
    dequeued: float = 0.0


RequestWatcher: TypeAlias = Callable[[int, Response, float], object]
"""Called with the node's id, a response that has left, and the time at which it had, as ``time.monotonic()``."""


class RequestChannel:
    """The bounded request queue and the metrics of its requests."""

    __slots__ = ("_capacity", "_refused", "_requests", "_waiters", "metrics")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._requests: deque[Request] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._refused: dict[ResponseQueue, None] = {}
        self.metrics = RequestMetrics()

    def __len__(self) -> int:
        return len(self._requests)

    def send_request(self, request: Request) -> bool:
        """Queue a request; False when the queue is full, and then the Processor's ``resume_requests`` is
        called later.
        """
        if len(self._requests) >= self._capacity:
            self._refused[request.processor] = None
            return False
        self._requests.append(request)
        self._wake_one()
        return True

    async def receive_request(self) -> Request:
        """The oldest request; waits for one. Cancellation takes none."""
        while not self._requests:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    self._wake_one()  # the wake-up goes to the next waiter
                raise
        request = self._requests.popleft()
        self._call_back_refused()
        return request

    def drop_requests(self) -> None:
        """Drop all queued requests: the node stops and closes their connections."""
        self._requests.clear()
        self._refused.clear()

    # internals

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _call_back_refused(self) -> None:
        # One at a time and in turn: each takes the room there is and registers again when it was not enough. Not for
        # each single place: a Processor looks at all of its connections, and there may be thousands.
        if self._refused and len(self._requests) <= self._capacity // 2:
            processor = next(iter(self._refused))
            del self._refused[processor]
            processor.resume_requests()


@dataclass(slots=True)
class StageTimes:
    """Sums in seconds over the requests of one API."""

    count: int = 0
    queue: float = 0.0
    local: float = 0.0
    remote: float = 0.0
    throttle: float = 0.0
    response_queue: float = 0.0
    send: float = 0.0


@dataclass(slots=True)
class RequestMetrics:
    """Kafka's six times per request, summed per API key."""

    by_api: dict[int, StageTimes] = field(default_factory=dict)
    watcher: Callable[[Response, float], object] | None = None
    """Called with each response and the time at which it had left; also with those that close the connection. It raises
    nothing.
    """

    def record(self, response: Response, sent: float) -> None:
        """Count a finished request."""
        request = response.request
        times = self.by_api.get(request.api_key)
        if times is None:
            times = self.by_api[request.api_key] = StageTimes()
        times.count += 1
        times.queue += request.dequeued - request.received
        times.local += request.handled - request.dequeued
        times.remote += max(0.0, request.answered - request.handled)
        times.throttle += response.throttle
        times.response_queue += response.dequeued - response.enqueued
        times.send += sent - response.dequeued
        if self.watcher is not None:
            self.watcher(response, sent)

    def closed(self, response: Response) -> None:
        """The connection was closed instead of an answer: no times are counted."""
        if self.watcher is not None:
            self.watcher(response, response.dequeued)
