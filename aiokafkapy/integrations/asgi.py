"""``RequestHeadersMiddleware``: the request's id, its trace and chosen headers in the records that it sends; and
``DeadlineMiddleware``: the request's time is that of its records.

    app.add_middleware(RequestHeadersMiddleware, headers=["x-tenant"])           # FastAPI, Starlette
    app = Litestar(..., middleware=[DefineMiddleware(RequestHeadersMiddleware, headers=["x-tenant"])])
    app.add_middleware(DeadlineMiddleware, seconds=5)

Pure ASGI, for any framework: it needs none. ``request_headers`` has the carried headers, and the interceptor that the
producer needs.

Rules: HTTP requests and web sockets carry headers while they are served; the answer to a request gets the id under the
same name, unless the application gave one; a request whose time is over is answered with 504, even if the application
would answer 500, unless its answer has begun; from then on the request's records that it does not await have the
producer's ``delivery_timeout_ms``, for the client was told; everything else passes unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Protocol, TypeAlias

from .. import deadline
from .http_headers import HEADER_NAME
from .request_headers import REQUEST_ID, Carried, Selection, carrying

__all__ = ["DeadlineMiddleware", "RequestHeadersMiddleware"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


class RequestHeadersMiddleware:
    """Wraps an ASGI application. ``headers`` are carried beside the id and the trace; ``request_id`` None: no id."""

    def __init__(self, app: Any, headers: Sequence[str] = (), *, request_id: str | None = REQUEST_ID) -> None:
        self._app: Application = app
        self._selection = Selection(headers, request_id)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection. Each framework has its own types for ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given: Iterable[tuple[bytes, bytes]] = scope["headers"]
        found = self._selection.of((name.decode("latin-1"), value) for name, value in given)
        with carrying(found):
            await self._app(scope, receive, self._answering(send, found) if scope["type"] == "http" else send)

    def _answering(self, send: Send, found: Carried) -> Send:
        """``send`` that gives the answer the request's id."""
        name = self._selection.request_id
        if name is None:
            return send
        header = (name.encode("latin-1"), dict(found)[name])

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if all(bytes(each).lower() != header[0] for each, _ in headers):
                    headers.append(header)
                message = {**message, "headers": headers}  # an iterator of headers was read
            await send(message)

        return answer


class DeadlineMiddleware:
    """Wraps an ASGI application: each HTTP request is served in a ``deadline(seconds)``.

    ``header`` names a request header with milliseconds, from a proxy or a client, that shortens the time of its
    request; a value that is not a whole number is ignored.
    """

    def __init__(self, app: Any, seconds: float, *, header: str | None = None) -> None:
        if not seconds > 0:
            raise ValueError(f"seconds={seconds!r}: no request would be served; write a number above 0")
        if header is not None and not HEADER_NAME.fullmatch(header):
            raise ValueError(f"{header!r} is not the name of an HTTP header: letters, digits and dashes are needed")
        self._app: Application = app
        self._seconds = float(seconds)
        self._header = None if header is None else header.lower().encode("latin-1")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        block = deadline(self._time_of(scope["headers"]))
        answer = _InTime(send, block)
        try:
            async with block:
                await self._app(scope, receive, answer)
        except TimeoutError:
            if not answer.is_replaced and (answer.has_begun or not _is_over(block)):
                raise
            await answer.say_that_time_is_over()

    def _time_of(self, headers: Iterable[tuple[bytes, bytes]]) -> float:
        given = (bytes(value) for name, value in headers if bytes(name).lower() == self._header)
        times = [int(value) / 1000 for value in given if value.isdigit() and len(value) < 10]
        return min([self._seconds, *times])


# internals


class _Block(Protocol):
    """The scope that ``deadline()`` gives."""

    def when(self) -> float | None: ...

    def expired(self) -> bool: ...

    def let_go(self) -> None: ...


class _InTime:
    """``send`` that replaces an answer of 500 to a request whose time is over: frameworks answer 500 to the
    DeliveryTimeoutError of a record that had the request's time.
    """

    def __init__(self, send: Send, block: _Block) -> None:
        self._send = send
        self._block = block
        self.has_begun = False
        self.is_replaced = False
        self._left = _time_is_over()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if message["status"] == 500 and not self.has_begun and _is_over(self._block):
                self.is_replaced = True
            elif not self.has_begun:
                self._block.let_go()
            self.has_begun = True
        if self.is_replaced:
            await self.say_that_time_is_over()
        else:
            await self._send(message)

    async def say_that_time_is_over(self) -> None:
        """Send the answer of 504, or its rest: the block's time may end while it is being sent."""
        for message in self._left:  # goes on from the part sent before
            await self._send(message)


def _time_is_over() -> Iterator[Message]:
    yield {"type": "http.response.start", "status": 504, "headers": [(b"content-type", b"text/plain")]}
    yield {"type": "http.response.body", "body": b"the time of this request is over"}


def _is_over(block: _Block) -> bool:
    """True also before the loop has reached the block's timer: the application was busy, or no time was left."""
    when = block.when()
    return block.expired() or (when is not None and asyncio.get_running_loop().time() >= when)
