"""What is handed to the network client, and what comes back.

Plain data, used by everything above the client. Kafka's counterparts are ``ClientRequest`` and ``ClientResponse``.

Rules: a request says how to make its bytes once the version is known, never which version; a response says exactly one
of: a body, a disconnection (perhaps by time-out), an error found before any I/O.
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
    a list of buffers that are written without being copied or changed before the answer; ``decode(version, frame)``
    reads the answer's frame (without its size, with its header) instead of kio's reader. ``timeout`` is in seconds,
    from the write to the answer; None takes request_timeout_ms. Without ``expects_response`` the request is complete
    when its bytes have left the process's buffers. ``callback`` is called with the response, on the loop, in the order
    of the node's answers, before the future's own callbacks; one that raises is logged and harms nothing else.
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
    """What became of a request.

    ``body`` is the decoded answer, None for a request that expects none. ``disconnected``: the connection went before
    the answer, so the broker may or may not have done what was asked; ``timed_out`` says that a time-out was the
    reason. ``error`` says what happened, also for a request that was never written (``was_sent`` is False then).
    ``latency`` is the seconds from the write to now.
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
        """The body; raises the error when there is one."""
        if self.error is not None:
            raise self.error.fresh()
        if self.disconnected:
            raise DisconnectedError(f"node {self.request.node_id} disconnected before it answered")
        return self.body

    def __repr__(self) -> str:
        outcome = "timed out" if self.timed_out else "disconnected" if self.disconnected else repr(self.error or "ok")
        return f"<ClientResponse {self.request!r} v{self.version}: {outcome}>"


# What is made for every Produce request, without the way of keywords through a constructor.


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
    """A ``ClientRequest`` that makes its own bytes and reads its own answer."""
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
    """The ``ClientResponse`` of a request that got its answer, or needs none."""
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
