"""``PageServer``: uvicorn on the running loop, with ``start`` and ``stop`` like our other objects.

Owns the listening socket and uvicorn's task. It must not know the application. It leaves signals to the program.

Rules: ``start`` returns when requests are taken, or raises OSError; after ``stop`` there is no task and no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

__all__ = ["PageServer"]

STOP_TIMEOUT: Final = 1
"""Seconds for answers to end: streams are asked to end, and do so at once."""


class PageServer:
    """Serves an ASGI application at one address, over HTTPS with a context; port 0 is a free one."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._host = host
        self._tls = tls
        self._wanted_port = port
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    def bind(self) -> int:
        """Take the port, and return it. Raises OSError."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._wanted_port))
            listener.listen(128)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        return int(listener.getsockname()[1])

    async def start(self, app: ASGIApp) -> None:
        """Serve ``app`` on the port that ``bind`` took."""
        import uvicorn

        class Server(uvicorn.Server):
            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        assert self._listener is not None
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=STOP_TIMEOUT,
        )
        config.load()
        config.ssl = self._tls  # uvicorn's own options take neither PEM text nor a password for a file's key
        self._server = Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._listener]), name="console-server")
        while not self._server.started:
            if self._task.done():
                await self._task
                raise OSError("the console's server ended before it served")
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Stop answering, and close; idempotent."""
        if self._task is not None and self._server is not None:
            self._server.should_exit = True
            task, self._task = self._task, None
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
