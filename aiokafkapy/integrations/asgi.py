"""``RequestHeadersMiddleware``: the request's id, its trace and chosen headers in the records that it sends.

    app.add_middleware(RequestHeadersMiddleware, headers=["x-tenant"])           # FastAPI, Starlette
    app = Litestar(..., middleware=[DefineMiddleware(RequestHeadersMiddleware, headers=["x-tenant"])])

Pure ASGI, for any framework: it needs none. The headers that are carried, and the interceptor that the producer needs,
are in ``request_headers``.

Rules: HTTP requests and web sockets carry headers as long as they are served; the answer to a request gets the id under
the same name, unless the application gave one; everything else passes untouched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any, TypeAlias

from .request_headers import REQUEST_ID, Carried, Selection, carrying

__all__ = ["RequestHeadersMiddleware"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


class RequestHeadersMiddleware:
    """Around an ASGI application. ``headers`` are carried beside the id and the trace; ``request_id`` None: no id."""

    def __init__(self, app: Any, headers: Sequence[str] = (), *, request_id: str | None = REQUEST_ID) -> None:
        self._app: Application = app
        self._selection = Selection(headers, request_id)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection. Each framework has types of its own for ASGI's."""
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
                    message = {**message, "headers": [*headers, header]}
            await send(message)

        return answer
