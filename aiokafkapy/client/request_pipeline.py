"""Writes requests to connections, and hands completed requests to their futures and callbacks.

Owns the requests in flight, the API versions of each node, the correlation-id counter, and the queue of responses to be
handed out. Knows neither connection states nor metadata: the network client passes in the connection to write to and
the responses that arrived. In Java this is the part of ``NetworkClient`` around ``doSend``, ``handleCompletedSends``
and ``completeResponses``.

Rules:

- The version is the highest that both sides support; if there is none, the request completes with an error before any
  I/O (*aborted sends*).
- Responses are handed out in the order in which they were completed, also when a callback completes others; a callback
  that raises never stops the rest.
- A request that cannot be encoded fails alone, with a SerializationError: everything that can raise comes before the
  first change of state.
- A connection that was idle for half a minute may be dead without either side having noticed. The first request on it
  is preceded, in the same write, by an ApiVersions request as a probe: brokers answer that at once, so a dead
  connection is detected within seconds.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..common import Buffer
from ..errors import (
    DisconnectedError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    SerializationError,
    UnsupportedVersionError,
)
from ..protocol.api import ApiKey, api_name
from ..worker_thread import run_in_thread
from .nodes.api_versions import ApiVersions, build_api_versions_request, decode_api_versions_response
from .nodes.client_request import ClientRequest, ClientResponse
from .nodes.in_flight_requests import InFlightRequest, InFlightRequests, written_now
from .tap.watch import ClientWatch
from .transport.connection import BrokerConnection
from .transport.connection_log import ConnectionLog
from .transport.deadline_timer import DeadlineTimer
from .transport.node_traffic import ClientTraffic

__all__ = ["LARGE_ANSWER", "RequestPipeline"]

LARGE_ANSWER: Final = 16_384
"""Bytes; larger responses would block the loop for too long: decoding 600 kB, 10,000 new topics, takes 100 ms."""

_MAX_CORRELATION_ID: Final = 2**31 - 1
_PROBE_AFTER_SILENCE: Final = 30.0
_PROBE_TIMEOUT: Final = 5.0


class RequestPipeline:
    """Writes requests and hands out responses. ``on_completed`` is called after responses were handed out.

    ``last_correlation_id`` is the one of the latest request; the next request has the next number.
    """

    def __init__(
        self,
        in_flight: InFlightRequests,
        api_versions: ApiVersions,
        *,
        client_id: str,
        request_timeout: float,
        loop: asyncio.AbstractEventLoop,
        timer: DeadlineTimer,
        log: ConnectionLog,
        on_completed: Callable[[], None],
    ) -> None:
        self._in_flight = in_flight
        self._api_versions = api_versions
        self._client_id = client_id
        self._request_timeout = request_timeout
        self._loop = loop
        self._timer = timer
        self._log = log
        self._on_completed = on_completed
        self.last_correlation_id = -1
        self.watch: ClientWatch | None = None
        self.traffic = ClientTraffic(loop.time())
        # One at most: a metadata request is in progress until its answer is decoded.
        self._decoding: asyncio.Future[object] | None = None
        self._completed: list[tuple[InFlightRequest, ClientResponse]] = []
        self._is_completing = False

    def usable_version(self, request: ClientRequest) -> int:
        """The version to use; raises UnsupportedVersionError if there is none."""
        versions = self._api_versions.get(request.node_id)
        if versions is None:
            raise UnsupportedVersionError(f"the API versions of node {request.node_id} are not known")
        return versions.latest_usable_version(request.api_key, request.min_version, request.max_version)

    def write(
        self,
        connection: BrokerConnection,
        request: ClientRequest,
        version: int,
        now: float,
        timeout: float | None = None,
        future: asyncio.Future[ClientResponse] | None = None,
        is_internal: bool = False,
    ) -> None:
        """Encode the request, add it to those in flight, write it. ``is_internal``: the client itself asks.

        Raises SerializationError if it cannot be encoded; no state has changed then.
        """
        deadline = now + (self._request_timeout if timeout is None else timeout)
        self.last_correlation_id = correlation_id = (self.last_correlation_id + 1) & _MAX_CORRELATION_ID
        buffers = frame = self._encode(request, version, correlation_id)
        if now - connection.last_received >= _PROBE_AFTER_SILENCE and self._in_flight.is_empty(request.node_id):
            buffers = [*self._add_probe(connection, now), *buffers]
        entry = written_now(request, version, correlation_id, future, now, deadline, is_internal)
        self._in_flight.add(entry)
        self._count(entry, frame, now)
        connection.last_used = now
        connection.write(buffers)
        if connection.is_writable:
            self.handle_completed_send(request.node_id, now)
            if not request.expects_response:
                # Not at once: the caller does not have the future yet.
                self._loop.call_soon(self.complete_responses)
        self._timer.arm(deadline)

    def write_internal(
        self, connection: BrokerConnection, request: ClientRequest, version: int, now: float, timeout: float
    ) -> None:
        """As ``write``, for one of the client's own requests, whose response nobody awaits."""
        self.write(connection, request, version, now, timeout, None, True)

    def abort_send(
        self, request: ClientRequest, future: asyncio.Future[ClientResponse] | None, error: KafkaError
    ) -> None:
        """Complete a request that cannot be sent, before any I/O, in the next turn of the loop."""
        disconnected = isinstance(error, DisconnectedError)
        response = ClientResponse(request, -1, error=error, disconnected=disconnected, was_sent=False)
        self._completed.append((InFlightRequest(request, -1, -1, future, 0.0, math.inf), response))
        self._loop.call_soon(self.complete_responses)

    def decode(self, entry: InFlightRequest, frame: bytes) -> Any:
        """The body of a response; raises MalformedFrameError."""
        request = entry.request
        if entry.is_internal and request.api_key == ApiKey.API_VERSIONS:
            return decode_api_versions_response(entry.version, frame)
        return request.read(entry.version, frame)

    def decode_elsewhere(
        self, entry: InFlightRequest, frame: bytes, then: Callable[[InFlightRequest, Any], None]
    ) -> None:
        """As ``decode``, in a thread, so that the loop is not blocked; ``then`` gets the body or a ProtocolError."""

        def tell(decoding: asyncio.Future[object]) -> None:
            self._decoding = None
            if decoding.cancelled():
                return
            error = decoding.exception()
            if error is not None and not isinstance(error, ProtocolError):
                error = ProtocolError(f"an answer of {len(frame)} bytes cannot be read: {error!r}")
            then(entry, decoding.result() if error is None else error)

        self._decoding = run_in_thread(self._loop, _decode, self, entry, frame)
        self._decoding.add_done_callback(tell)

    def stop_decoding(self) -> None:
        """The client is closed: cancel the decoding in progress."""
        if self._decoding is not None:
            self._decoding.cancel()

    def handle_completed_send(self, node_id: int, now: float) -> None:
        """Step 3: everything is written; a request that expects no response is now complete."""
        newest = self._in_flight.mark_written(node_id)
        if newest is not None and not newest.request.expects_response:
            self._in_flight.complete_last_sent(node_id)
            if self.watch is not None:
                self.watch.answered(newest, b"", now)
            self.complete(newest, None, now)

    def complete(self, entry: InFlightRequest, body: object, now: float) -> None:
        """Complete a request that was answered or expects no response, for ``complete_responses`` to hand out."""
        self._completed.append((entry, entry.completed(body, now)))

    def disconnect(self, entry: InFlightRequest, error: KafkaError, address: str, now: float) -> None:
        """Complete a request whose connection was lost, for ``complete_responses`` to hand out."""
        if entry.deadline <= now and isinstance(error, KafkaTimeoutError):
            self._completed.append((entry, entry.timed_out(now, address)))
        else:
            self._completed.append((entry, entry.disconnected(now, error)))

    def complete_responses(self) -> None:
        """Step 10: hand responses to their callbacks and futures, in order."""
        if self._is_completing or not self._completed:
            return  # the call in progress hands these out as well, which keeps the order
        self._is_completing = True
        try:
            while self._completed:
                entry, response = self._completed[0]
                del self._completed[0]  # compiled, at half the cost of pop(0)
                request = entry.request
                try:
                    request.hand_out(response)
                except Exception:
                    self._log.callback_failed(api_name(request.api_key))
                future = entry.future
                if future is not None and not future.done() and not self._loop.is_closed():
                    future.set_result(response)
        except BaseException:  # Ctrl-C, or SystemExit of a user's code: the loop may be run again
            self._loop.call_soon(self.complete_responses if self._completed else self._on_completed)
            raise
        finally:
            self._is_completing = False
        self._on_completed()

    # internals

    def _count(self, entry: InFlightRequest, frame: Sequence[Buffer], now: float) -> None:
        """Count a request that is now in flight, and report it to the watch."""
        size, node_id = _size(frame), entry.request.node_id
        self.traffic.record_request(node_id, size, now)
        if self.watch is not None:
            self.watch.sent(entry, frame, size, self._in_flight.count(node_id))

    def _encode(self, request: ClientRequest, version: int, correlation_id: int) -> Sequence[Buffer]:
        """The whole frame."""
        try:
            return request.frame(version, correlation_id, self._client_id)
        except Exception as error:
            name = api_name(request.api_key)
            raise SerializationError(f"the {name} request cannot be encoded: {error!r}") from error

    def _add_probe(self, connection: BrokerConnection, now: float) -> Sequence[Buffer]:
        """The bytes of an ApiVersions request, which is now in flight; empty for a broker without that API."""
        versions = self._api_versions.get(connection.node_id)
        if versions is None or not versions.supports(ApiKey.API_VERSIONS):
            return ()
        version = versions.latest_usable_version(ApiKey.API_VERSIONS)
        request = ClientRequest(connection.node_id, ApiKey.API_VERSIONS, build_api_versions_request)
        self.last_correlation_id = correlation_id = (self.last_correlation_id + 1) & _MAX_CORRELATION_ID
        buffers = self._encode(request, version, correlation_id)
        deadline = now + min(_PROBE_TIMEOUT, self._request_timeout)
        entry = InFlightRequest(request, version, correlation_id, None, now, deadline, is_internal=True)
        self._in_flight.add(entry)
        self._count(entry, buffers, now)
        self._timer.arm(deadline)
        return buffers


def _size(buffers: Sequence[Buffer]) -> int:
    """The size of a request in bytes; 0 when one of its buffers is not bytes, in which case the write closes the
    connection.
    """
    size = 0
    try:
        for buffer in buffers:
            size += len(buffer)
    except TypeError:
        size = 0
    return size


def _decode(pipeline: RequestPipeline, entry: InFlightRequest, frame: bytes) -> object:
    return pipeline.decode(entry, frame)
