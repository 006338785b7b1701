"""Requests to the network client, and its responses.

Plain data, used by everything above the client. Kafka's counterparts are ``ClientRequest`` and ``ClientResponse``.

Rules: a request knows how to make its bytes once the version is known, but does not choose the version; a response is
exactly one of: a body, a disconnection (perhaps by time-out), an error found before any I/O. A kind of request that is
made often has a class of its own, which overrides ``frame``, ``read`` and ``hand_out`` instead of passing functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import Buffer
from ...errors import KafkaError
from ...protocol.codec import Message, Struct, decode_response, encode_request

__all__ = ["ClientRequest", "ClientResponse", "answered"]


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
        decode: Callable[[int, bytes], object] | None = None,
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

    def frame(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """The buffers of the whole frame; raises its encoder's errors."""
        if self.encode is not None:
            return self.encode(version, correlation_id, client_id)
        if self.build is not None:
            return [encode_request(self.build(version), correlation_id, client_id)]
        return ()

    def read(self, version: int, frame: bytes) -> object:
        """The body of a response's frame; raises MalformedFrameError."""
        if self.decode is not None:
            return self.decode(version, frame)
        return decode_response(self.api_key, version, frame)[1]

    def hand_out(self, response: ClientResponse) -> None:
        """The request is over; may raise."""
        if self.callback is not None:
            self.callback(response)

    def __repr__(self) -> str:
        return f"<ClientRequest api_key={self.api_key!r} node_id={self.node_id}>"


# Declared here, not in the .pxd: Cython reads these decorators from the source only.
@cython.freelist(16)
@cython.final
@cython.cclass
class ClientResponse:
    """The outcome of a request.

    ``body`` is the decoded response, None for a request that expects none. ``disconnected``: the connection was lost
    before the response, so the broker may or may not have acted on the request; ``timed_out``: a time-out was the
    reason. ``error`` is the cause, also for a request that was never written (``was_sent`` is then False). ``latency``
    is the seconds from the write to the outcome, and ``completed_at`` the loop time of that, -1 where it was not noted.
    """

    __slots__ = (
        "body",
        "completed_at",
        "disconnected",
        "error",
        "latency",
        "request",
        "timed_out",
        "version",
        "was_sent",
    )

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
        completed_at: float = -1.0,
    ) -> None:
        self.request = request
        self.version = version
        self.body = body
        self.disconnected = disconnected
        self.timed_out = timed_out
        self.error = error
        self.latency = latency
        self.was_sent = was_sent
        self.completed_at = completed_at

    def body_or_raise(self) -> Struct:
        """The body; raises the error if there is one."""
        if self.error is not None:
            raise self.error.fresh()
        body: Struct = self.body
        return body

    def __repr__(self) -> str:
        outcome = "timed out" if self.timed_out else "disconnected" if self.disconnected else repr(self.error or "ok")
        return f"<ClientResponse {self.request!r} v{self.version}: {outcome}>"


def answered(request: ClientRequest, version: int, body: object, latency: float, now: float) -> ClientResponse:
    """The ``ClientResponse`` of a request that was answered, or that expects no response; made without the constructor,
    whose keywords cost as much as the rest.
    """
    response = ClientResponse.__new__(ClientResponse)
    response.request = request
    response.version = version
    response.body = body
    response.disconnected = False
    response.timed_out = False
    response.error = None
    response.latency = latency
    response.was_sent = True
    response.completed_at = now
    return response
