"""The events of one client's connections and requests, for its observers and its wire tap.

Owns the memory of a request from its sending to its answer. Decides nothing and changes nothing of the
client: with nobody to tell, the client has no ``ClientWatch`` at all, and pays for one test a request. It knows no
clock: ``now`` is an argument. Kafka's counterpart is ``Selector.SelectorMetrics``.

Rules: none of the methods raises, even where an observer or the tap does; each request reported as sent is reported as
done, once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...common import Buffer
from ...observability.interrupts import raise_soon
from ...observability.observer import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    Observers,
    RequestDone,
    RequestSent,
    Throttled,
)
from ...protocol.api import api_name
from ..nodes.in_flight_requests import InFlightRequest
from .wire_tap import WireTap

if TYPE_CHECKING:
    from ..config import ClientConfig

__all__ = ["ClientWatch"]

_numbers = itertools.count()
"""Numbers of this process's clients, each of which has its own connections."""


class ClientWatch:
    """Reports one client's events. Its taps get the frames; they come and go at any time."""

    __slots__ = ("_answered_at", "_number", "_observers", "_opened_at", "_sent", "_taps")

    def __init__(self, observers: Observers, tap: WireTap | None = None) -> None:
        self._observers = observers
        self._taps: tuple[WireTap, ...] = ()
        self._number = next(_numbers)
        if tap is not None:
            self.add_tap(tap)
        self._sent: dict[int, _Sent] = {}  # by correlation id
        self._answered_at: dict[int, float] = {}  # by node: the time of the last answer
        self._opened_at: dict[int, float] = {}  # by node: the time since which it can be used

    @classmethod
    def of(cls, config: ClientConfig, clock: Callable[[], float]) -> ClientWatch | None:
        """The watch that a configuration and the environment ask for; None if they ask for none."""
        tap = WireTap.from_environment()
        return cls(Observers(config.observers, clock, raise_soon), tap) if config.observers or tap is not None else None

    # connections

    def ready(self, node_id: int, address: str, started: float, now: float) -> None:
        """The node can be used; ``started`` is when the attempt began. A renewed session is nothing new."""
        if node_id not in self._opened_at:
            self._opened_at[node_id] = now
            tell = self._observers.connection_opened
            if tell is not None:
                tell(ConnectionOpened(node_id, address, now - started))

    def disconnected(
        self,
        node_id: int,
        address: str,
        *,
        started: float,
        error: BaseException | None,
        entries: Sequence[InFlightRequest],
        now: float,
    ) -> None:
        """The attempt failed, or the connection has ended, with ``entries`` in flight; None: we ended it, unused."""
        for entry in entries:
            self._done(entry, response_size=0, error=error, now=now)
        self._answered_at.pop(node_id, None)
        opened_at = self._opened_at.pop(node_id, None)
        if opened_at is not None:
            tell_closed = self._observers.connection_closed
            if tell_closed is not None:
                tell_closed(ConnectionClosed(node_id, address, now - opened_at, error, len(entries)))
        elif error is not None:
            tell_failed = self._observers.connection_failed
            if tell_failed is not None:
                tell_failed(ConnectionFailed(node_id, address, max(0.0, now - started), error))

    # requests

    def sent(self, entry: InFlightRequest, buffers: Sequence[Buffer], size: int, in_flight: int) -> None:
        """The request was handed to its connection as these buffers, which are its whole frame of ``size`` bytes."""
        request = entry.request
        tell = self._observers.request_sent
        name = api_name(request.api_key)
        if tell is not None:
            event = RequestSent(
                request.node_id,
                name,
                api_key=int(request.api_key),
                api_version=entry.version,
                correlation_id=entry.correlation_id,
                size=size,
                in_flight=in_flight,
            )
            tell(event)
        if self._observers.request_done is not None:
            self._sent[entry.correlation_id] = _Sent(name, size)
        for tap in self._taps:
            tap.request(entry, buffers, self._number)

    def answered(self, entry: InFlightRequest, frame: bytes, now: float) -> None:
        """The answer has arrived, as this frame without its size; empty for a request that expects no answer."""
        for tap in self._taps:
            if frame:
                tap.response(entry, frame, self._number)
        self._done(entry, response_size=len(frame) + 4 if frame else 0, error=None, now=now)
        self._answered_at[entry.request.node_id] = now

    def throttled(self, node_id: int, api_key: int, seconds: float) -> None:
        """The broker asks for a pause."""
        tell = self._observers.throttled
        if tell is not None:
            tell(Throttled(node_id, api_name(api_key), seconds))

    # taps

    def add_tap(self, tap: WireTap) -> None:
        """Let ``tap`` record until it is closed."""
        self._taps = (*self._taps, tap)
        tap.on_close(partial(self._remove_tap, tap))

    def close(self) -> None:
        """The client is closed, and so are its taps."""
        for tap in self._taps:
            tap.close()

    # internals

    def _remove_tap(self, tap: WireTap) -> None:
        self._taps = tuple(each for each in self._taps if each is not tap)

    def _done(self, entry: InFlightRequest, *, response_size: int, error: BaseException | None, now: float) -> None:
        tell = self._observers.request_done
        sent = self._sent.pop(entry.correlation_id, None)
        if tell is None or sent is None:
            return
        request = entry.request
        node_id = request.node_id
        queued = max(0.0, self._answered_at.get(node_id, entry.sent_at) - entry.sent_at)
        tell(
            RequestDone(
                node_id,
                sent.api,
                api_key=int(request.api_key),
                api_version=entry.version,
                correlation_id=entry.correlation_id,
                request_size=sent.size,
                response_size=response_size,
                queued=queued,
                seconds=now - entry.sent_at,
                error=error,
            )
        )


class _Sent(NamedTuple):
    """The beginning of a request, kept for its end."""

    api: str
    size: int
