"""Requests to the network client, and its responses.

Plain data, used by everything above the client. Kafka's counterparts are ``ClientRequest`` and ``ClientResponse``.

Rules: a request knows how to make its bytes once the version is known, but does not choose the version; a response is
exactly one of: a body, a disconnection (perhaps by time-out), an error found before any I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...errors import DisconnectedError, KafkaError
from ...protocol.codec import Message

__all__ = ["Buffer", "ClientRequest", "ClientResponse", "answered", "ready_made"]

Buffer: TypeAlias = bytes | bytearray | memoryview


class ClientRequest:
    """One request to one node.

    ``build(version)`` makes the body. ``encode(version, correlation_id, client_id)`` makes the whole frame instead, as
    a list of buffers, which are not copied and must not change before the response; ``decode(version, frame)`` reads
    the response's frame (without its size, with its header) instead of kio's reader. ``timeout`` is in seconds, from
    the write to the response; None takes request_timeout_ms. Without ``expects_response`` the request is complete when
    its bytes have left the process's buffers. ``callback`` is called with the response, on the loop, in the order of
    the node's responses and before the future's own callbacks; an exception in it is logged and has no other effect.
    """

    __slots__ = (
        "api_key",
        "build",
        "callback",
        "decode",
        "encode",
        "expects_response",
        "max_version",
        "min_version",
        "node_id",
        "timeout",
    )

    def __init__(
        self,
        node_id: int,
        api_key: int,
        build: Callable[[int], Message] | None = None,
        *,
        timeout: float | None = None,
        expects_response: bool = True,
        min_version: int | None = None,
        max_version: int | None = None,
        encode: Callable[[int, int, str], Sequence[Buffer]] | None = None,
        decode: Callable[[int, bytes], Any] | None = None,
        callback: Callable[[ClientResponse], None] | None = None,
    ) -> None:
        self.node_id = node_id
        self.api_key = api_key
        self.build = build
        self.timeout = timeout
        self.expects_response = expects_response
        self.min_version = min_version
        self.max_version = max_version
        self.encode = encode
        self.decode = decode
        self.callback = callback

    def __repr__(self) -> str:
        return f"<ClientRequest api_key={self.api_key!r} node_id={self.node_id}>"


class ClientResponse:
    """The outcome of a request.

    ``body`` is the decoded response, None for a request that expects none. ``disconnected``: the connection was lost
    before the response, so the broker may or may not have acted on the request; ``timed_out``: a time-out was the
    reason. ``error`` is the cause, also for a request that was never written (``was_sent`` is then False). ``latency``
    is the seconds from the write to the outcome.
    """

    __slots__ = ("body", "disconnected", "error", "latency", "request", "timed_out", "version", "was_sent")

    def __init__(
        self,
        request: ClientRequest,
        version: int,
        body: Any = None,
        *,
        disconnected: bool = False,
        timed_out: bool = False,
        error: KafkaError | None = None,
        latency: float = 0.0,
        was_sent: bool = True,
    ) -> None:
        self.request = request
        self.version = version
        self.body = body
        self.disconnected = disconnected
        self.timed_out = timed_out
        self.error = error
        self.latency = latency
        self.was_sent = was_sent

    def body_or_raise(self) -> Any:
        """The body; raises the error if there is one."""
        if self.error is not None:
            raise self.error.fresh()
        if self.disconnected:
            raise DisconnectedError(f"node {self.request.node_id} disconnected before it answered")
        return self.body

    def __repr__(self) -> str:
        outcome = "timed out" if self.timed_out else "disconnected" if self.disconnected else repr(self.error or "ok")
        return f"<ClientResponse {self.request!r} v{self.version}: {outcome}>"


# Made for every Produce request: these functions avoid the cost of a constructor with keywords.


def ready_made(
    node_id: int,
    api_key: int,
    expects_response: bool,
    min_version: int | None,
    max_version: int | None,
    encode: Callable[[int, int, str], Sequence[Buffer]],
    decode: Callable[[int, bytes], Any],
    callback: Callable[[ClientResponse], None],
) -> ClientRequest:
    """A ``ClientRequest`` with its own ``encode`` and ``decode``."""
    request = ClientRequest.__new__(ClientRequest)
    request.node_id = node_id
    request.api_key = api_key
    request.build = None
    request.timeout = None
    request.expects_response = expects_response
    request.min_version = min_version
    request.max_version = max_version
    request.encode = encode
    request.decode = decode
    request.callback = callback
    return request


def answered(request: ClientRequest, version: int, body: Any, latency: float) -> ClientResponse:
    """The ``ClientResponse`` of a request that was answered, or that expects no response."""
    response = ClientResponse.__new__(ClientResponse)
    response.request = request
    response.version = version
    response.body = body
    response.disconnected = False
    response.timed_out = False
    response.error = None
    response.latency = latency
    response.was_sent = True
    return response
