"""Tells the events of a client as they happen: ``Observer``, whose methods an application or an exporter overrides.

Owns the events and the way to their observers. Knows no connection, request or batch: the client and the producer
report their events. Kafka's counterparts are its sensors and ``MetricsReporter``; franz-go's hooks are the model.

Rules:

- An observer's exception ends here: it is logged, rate-limited, and counted. Only KeyboardInterrupt and SystemExit
  pass, through the loop: the client first finishes its current step.
- Methods are ordinary functions, called on the client's event loop in the middle of its work: they must be quick.
- A method that no observer overrides costs nothing, and without observers a request and a batch cost one test each;
  single records have no events.
- Later versions may add fields at the end of an event, and methods: read events by name.

Events: ``observer.failed`` (error; method, error).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from inspect import iscoroutine
from typing import Any, Final, NamedTuple

from .events import describe_error, get_logger
from .rate_limit import RateLimitedLogger

__all__ = [
    "OBSERVER_METHODS",
    "BatchDone",
    "ConnectionClosed",
    "ConnectionFailed",
    "ConnectionOpened",
    "Observer",
    "Observers",
    "RequestDone",
    "RequestSent",
    "Throttled",
]

_logger = get_logger(__name__)


class ConnectionOpened(NamedTuple):
    """A broker can be used: it is connected, and authenticated if that is required."""

    node_id: int
    """The node's id, negative for a bootstrap address, whose broker has not told its id yet."""
    address: str
    """``host:port`` of the peer."""
    seconds: float
    """Seconds from the beginning of the attempt, TLS and SASL included."""


class ConnectionFailed(NamedTuple):
    """An attempt to connect failed."""

    node_id: int
    address: str
    seconds: float
    """Seconds from the beginning of the attempt."""
    error: BaseException


class ConnectionClosed(NamedTuple):
    """An opened connection has ended."""

    node_id: int
    address: str
    seconds: float
    """Seconds for which it was open."""
    error: BaseException | None
    """The reason; None if we closed it as idle, or with the client."""
    unanswered: int
    """The number of requests in flight on it."""


class RequestSent(NamedTuple):
    """A request was handed to its connection."""

    node_id: int
    api: str
    """The API's name, such as ``PRODUCE``, or its number if it has no name."""
    api_key: int
    api_version: int
    correlation_id: int
    size: int
    """Bytes, the frame's size field included."""
    in_flight: int
    """Requests in flight on the node, this one included."""


class RequestDone(NamedTuple):
    """A request has its answer, or will not get one."""

    node_id: int
    api: str
    api_key: int
    api_version: int
    correlation_id: int
    request_size: int
    """Bytes, the frame's size field included."""
    response_size: int
    """Bytes of the answer, the frame's size field included; 0 without one."""
    queued: float
    """Seconds in which older requests of the connection were still unanswered; brokers answer one after the other."""
    seconds: float
    """Seconds from the hand-over to the connection to the answer, ``queued`` included; the rest is the wire's and the
    broker's.
    """
    error: BaseException | None
    """The reason why there is no answer. Errors inside an answer are not read."""


class Throttled(NamedTuple):
    """A broker's answer says that this client is over its quota; the node gets no requests for that time."""

    node_id: int
    api: str
    seconds: float


class BatchDone(NamedTuple):
    """A batch has its outcome, told once per batch. A split batch is reported by its parts; records that fail apart
    from their batch, because they are overdue or the broker refused them by index, are reported before it.
    """

    topic: str
    partition: int
    records: int
    size: int
    """Bytes on the wire."""
    uncompressed_size: int
    """Bytes before compression."""
    attempts: int
    """The number of times that it was sent; 0 for a batch that was never sent."""
    queued: float
    """Seconds from its first record to the last attempt: linger, waiting for the broker, and earlier attempts."""
    in_flight: float
    """Seconds from the last attempt to the outcome; 0 for a batch that was never sent."""
    throttled: float
    """Seconds for which the broker's answer held this client back."""
    base_offset: int
    """The first record's offset; -1 if no broker told it."""
    error: BaseException | None
    """The error of its records; None if they are delivered."""


class Observer:
    """Sees the events of a client: override the methods of the events that you want, and pass ``observers=[…]`` to the
    client.

    Any object that has some of these methods will do. They are called on the event loop, must be quick, and must not
    block. Their errors are logged as ``observer.failed`` and have no other effect.
    """

    def connection_opened(self, event: ConnectionOpened) -> None:
        """A broker can be used."""

    def connection_failed(self, event: ConnectionFailed) -> None:
        """An attempt to connect failed; another follows after the back-off."""

    def connection_closed(self, event: ConnectionClosed) -> None:
        """A connection has ended, by either side."""

    def request_sent(self, event: RequestSent) -> None:
        """A request was handed to its connection; the client's own requests (Metadata, SASL) are included."""

    def request_done(self, event: RequestDone) -> None:
        """A request was answered, or its connection was lost. With ``acks=0``: its bytes have left the process."""

    def throttled(self, event: Throttled) -> None:
        """A broker throttles this client."""

    def batch_done(self, event: BatchDone) -> None:
        """A producer's batch has its outcome."""


OBSERVER_METHODS: Final = tuple(name for name in vars(Observer) if not name.startswith("_"))
"""The names of the methods that an observer may have."""


def _raise(error: BaseException) -> None:
    raise error


class Observers:
    """Tells several observers; each field is the function that tells one event, or None if no observer wants it."""

    __slots__ = ("_clock", "_log", *OBSERVER_METHODS, "failures")

    connection_opened: Callable[[ConnectionOpened], None] | None
    connection_failed: Callable[[ConnectionFailed], None] | None
    connection_closed: Callable[[ConnectionClosed], None] | None
    request_sent: Callable[[RequestSent], None] | None
    request_done: Callable[[RequestDone], None] | None
    throttled: Callable[[Throttled], None] | None
    batch_done: Callable[[BatchDone], None] | None

    def __init__(
        self,
        observers: Sequence[object],
        clock: Callable[[], float],
        on_end: Callable[[BaseException], None] = _raise,
    ) -> None:
        """``on_end`` is called with a KeyboardInterrupt or SystemExit, see ``interrupts``."""
        self._clock = clock
        self._log = RateLimitedLogger(_logger)
        self.failures = 0
        """The number of failed calls of observers."""
        for name in OBSERVER_METHODS:
            wanted = [hook for each in observers if (hook := _overridden(each, name)) is not None]
            setattr(self, name, _Telling(name, wanted, self._failed, on_end) if wanted else None)

    # internals

    def _failed(self, method: str, error: BaseException) -> None:
        self.failures += 1
        fields = {"method": method, "error": describe_error(error)}
        self._log.log(method, self._clock(), logging.ERROR, "observer.failed", **fields)


class _Telling:
    """Calls one method of the observers that have it; contains their errors."""

    __slots__ = ("_hooks", "_name", "_on_end", "_on_error")

    def __init__(
        self,
        name: str,
        hooks: Sequence[Callable[[Any], object]],
        on_error: Callable[[str, BaseException], None],
        on_end: Callable[[BaseException], None],
    ) -> None:
        self._name = name
        self._hooks = tuple(hooks)
        self._on_error = on_error
        self._on_end = on_end

    def __call__(self, event: object) -> None:
        for hook in self._hooks:
            try:
                found = hook(event)
                if iscoroutine(found):
                    found.close()
                    raise TypeError(f"{self._name} is a coroutine function: an observer's methods are ordinary ones")
            except (KeyboardInterrupt, SystemExit) as error:
                self._on_end(error)
            except BaseException as error:  # a CancelledError too: neither a task nor a callback was cancelled
                self._on_error(f"{_owner(hook)}.{self._name}", error)


def _overridden(observer: object, name: str) -> Callable[[Any], object] | None:
    """The observer's method of this name, unless it is the base class's empty one."""
    hook: Callable[[Any], object] | None = getattr(observer, name, None)
    if not callable(hook) or getattr(hook, "__func__", None) is getattr(Observer, name):
        return None
    return hook


def _owner(hook: Callable[[Any], object]) -> str:
    return type(getattr(hook, "__self__", hook)).__name__
