"""The requests of each node that are being written or await their response.

Owns one list per node. Knows no socket and reads no clock. Kafka's counterpart is ``InFlightRequests``.

Rules: the newest request is at the head, the oldest at the tail; responses come in the order of the requests, so a
response belongs to the tail; on a connection one request at a time is being written, several may await their response;
each request taken out is completed exactly once, oldest first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...errors import KafkaError, KafkaTimeoutError
from .client_request import ClientRequest, ClientResponse, answered

__all__ = ["InFlightRequest", "InFlightRequests", "ResponseFuture", "written_now"]


class ResponseFuture(Protocol):
    """The awaitable of a request: an ``asyncio.Future``, which is stored here but not used."""

    def done(self) -> bool:
        """True when it is resolved or cancelled."""

    def set_result(self, result: ClientResponse, /) -> None:
        """Resolve it with the response."""


class InFlightRequests:
    """A list of requests per node, newest first: there are few, and compiled code indexes a list directly but calls a
    deque's methods.
    """

    __slots__ = ("_max_in_flight", "_requests")

    def __init__(self, max_in_flight_requests_per_connection: int) -> None:
        self._max_in_flight = max_in_flight_requests_per_connection
        self._requests: dict[int, list[InFlightRequest]] = {}

    def add(self, request: InFlightRequest) -> None:
        """Put the newest request of its node at the head."""
        node_id = request.request.node_id
        requests = self._requests.get(node_id)
        if requests is None:
            requests = self._requests[node_id] = []
        requests.insert(0, request)

    def complete_next(self, node_id: int) -> InFlightRequest | None:
        """Take the oldest request of the node out, or None when nothing is in flight there."""
        requests = self._requests.get(node_id)
        if not requests:
            return None
        oldest = requests[-1]
        del requests[-1]  # compiled, at half the cost of pop()
        return oldest

    def oldest(self, node_id: int) -> InFlightRequest | None:
        """The oldest request of the node, to which the next response belongs."""
        requests = self._requests.get(node_id)
        return requests[-1] if requests else None

    def complete_last_sent(self, node_id: int) -> InFlightRequest | None:
        """Take the newest request of the node out: one that expects no response and has been written (acks=0)."""
        requests = self._requests.get(node_id)
        return requests.pop(0) if requests else None

    def can_send_more(self, node_id: int) -> bool:
        """True when nothing is in flight, or the newest request is completely written and the limit is not reached."""
        requests = self._requests.get(node_id)
        if not requests:
            return True
        newest = requests[0]
        return newest.is_written and len(requests) < self._max_in_flight

    def mark_written(self, node_id: int) -> InFlightRequest | None:
        """Everything handed to the node's connection has been written; returns the newest request."""
        requests = self._requests.get(node_id)
        if not requests:
            return None
        for request in requests:
            if request.is_written:
                break
            request.is_written = True
        return requests[0]

    def clear_all(self, node_id: int) -> list[InFlightRequest]:
        """Take all requests of the node out, oldest first: the order in which they are to be completed."""
        requests = self._requests.pop(node_id, None)
        return list(reversed(requests)) if requests else []

    def count(self, node_id: int | None = None) -> int:
        """The number of requests in flight on the node, or on all."""
        if node_id is not None:
            requests = self._requests.get(node_id)
            return len(requests) if requests else 0
        return sum(map(len, self._requests.values()))

    def is_empty(self, node_id: int) -> bool:
        """True when nothing is in flight on the node."""
        return not self.count(node_id)

    def nodes(self) -> list[int]:
        """Ids of the nodes with something in flight."""
        return [node_id for node_id, requests in self._requests.items() if requests]

    def nodes_with_timed_out_requests(self, now: float) -> list[int]:
        """Ids of the nodes with a request that has timed out. Time-outs differ, so every request is checked."""
        return [
            node_id
            for node_id, requests in self._requests.items()
            if any(request.deadline <= now for request in requests)
        ]

    def next_deadline(self) -> float:
        """The earliest deadline of a request; infinite when nothing is in flight."""
        return min((request.deadline for requests in self._requests.values() for request in requests), default=math.inf)


# Declared here, not in the .pxd: Cython reads these decorators from the source only.
@cython.freelist(16)
@cython.final
@cython.cclass
class InFlightRequest:
    """A request in flight, with the future of its response; makes its own ``ClientResponse``."""

    __slots__ = ("correlation_id", "deadline", "future", "is_internal", "is_written", "request", "sent_at", "version")

    def __init__(
        self,
        request: ClientRequest,
        version: int,
        correlation_id: int,
        future: ResponseFuture | None,
        sent_at: float,
        deadline: float,
        *,
        is_internal: bool = False,
    ) -> None:
        self.request = request
        self.version = version
        self.correlation_id = correlation_id
        self.future = future
        self.sent_at = sent_at
        self.deadline = deadline
        self.is_internal = is_internal
        self.is_written = False

    def completed(self, body: object, now: float) -> ClientResponse:
        """The response of a request that was answered, or that expects no response."""
        return answered(self.request, self.version, body, now - self.sent_at, now)

    def disconnected(self, now: float, error: KafkaError) -> ClientResponse:
        """The response of a request whose connection was lost; ``error`` is the cause."""
        return ClientResponse(self.request, self.version, disconnected=True, error=error, latency=now - self.sent_at)

    def timed_out(self, now: float, address: str = "") -> ClientResponse:
        """The response of a request that timed out; the caller closes its connection."""
        where = f"node {self.request.node_id}" + (f" at {address}" if address else "")
        error = KafkaTimeoutError(f"{where} did not answer within {self.deadline - self.sent_at:.3f} s")
        return ClientResponse(
            self.request, self.version, disconnected=True, timed_out=True, error=error, latency=now - self.sent_at
        )


def written_now(
    request: ClientRequest,
    version: int,
    correlation_id: int,
    future: ResponseFuture | None,
    now: float,
    deadline: float,
    is_internal: bool,
) -> InFlightRequest:
    """An ``InFlightRequest``, without the cost of a constructor: one is made for every request."""
    entry = InFlightRequest.__new__(InFlightRequest)
    entry.request = request
    entry.version = version
    entry.correlation_id = correlation_id
    entry.future = future
    entry.sent_at = now
    entry.deadline = deadline
    entry.is_internal = is_internal
    entry.is_written = False
    return entry
