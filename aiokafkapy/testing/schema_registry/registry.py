"""``SchemaRegistry``: a schema registry in the test's own event loop, on a real socket, for any client.

Owns the server and its faults; ``routes`` and ``store`` make the answers. Confluent's counterpart is
``SchemaRegistryRestApplication``. Needs ``pip install 'aiokafkapy[testing,schema-registry]'``.

Rules: it listens on 127.0.0.1 and a port of its own, keeps everything in memory, and ends with the test; a client that
blocks its thread must be called in another one (``asyncio.to_thread``), for the registry answers on this loop.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import ssl
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

try:
    from aiohttp import web
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "SchemaRegistry needs aiohttp: pip install 'aiokafkapy[testing]'", name=missing.name
    ) from missing

from ...common import JsonObject
from ..fault_times import checked_times
from .routes import answer, make_routes
from .store import SchemaStore

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler, Middleware

__all__ = ["RegistryRequest", "SchemaRegistry"]


class RegistryRequest(NamedTuple):
    """A request that came: its method, and its path without the query."""

    method: str
    path: str


class _Fault:
    def __init__(self, status: int, times: int | None, path: str, headers: dict[str, str]) -> None:
        self.status = status
        self.remaining = checked_times(times)
        self.path = path
        self.headers = headers


class SchemaRegistry:
    """A schema registry: ``async with SchemaRegistry() as registry: ... registry.url``.

    ``basic_auth_user_info`` ("user:password") or ``bearer_auth_token`` are required of every request; with
    ``ssl_context`` it speaks HTTPS. ``clock`` gives the seconds since 1970, which are the timestamps of keys.
    """

    def __init__(
        self,
        *,
        basic_auth_user_info: str | None = None,
        bearer_auth_token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store = SchemaStore(clock)
        self.requests: list[RegistryRequest] = []
        self._wanted: str | None = None
        if basic_auth_user_info is not None:
            self._wanted = "Basic " + base64.b64encode(basic_auth_user_info.encode()).decode()
        elif bearer_auth_token is not None:
            self._wanted = f"Bearer {bearer_auth_token}"
        self._ssl_context = ssl_context
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._faults: list[_Fault] = []
        self._gate = asyncio.Event()
        self._gate.set()

    @property
    def url(self) -> str:
        """Its address, once started."""
        return f"{'http' if self._ssl_context is None else 'https'}://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen; on the same port as before when it was stopped."""
        if self._runner is not None:
            return
        app = web.Application(middlewares=[self._middleware], client_max_size=32 * 1024**2)
        app.add_routes(make_routes(self.store))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._ssl_context)
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """End all connections; schemas are kept. Idempotent."""
        runner, self._runner = self._runner, None
        self._gate.set()
        if runner is not None:
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    # for tests

    def register(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Register a schema without HTTP; returns its id. Raises RegistryRefusal."""
        body: JsonObject = {
            "schema": schema,
            "schemaType": schema_type,
            "references": [{"name": name, "subject": of, "version": version} for name, of, version in references],
        }
        return self.store.register(subject, self.store.parse(body)).id

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject, or the global one."""
        self.store.set_level(level, subject)

    def request_count(self, method: str | None = None, path: str = "") -> int:
        """The number of requests of a method whose path contains ``path``."""
        return sum(1 for one in self.requests if method in (None, one.method) and path in one.path)

    def fail_next(
        self, status: int = 503, *, times: int | None = 1, path: str = "", retry_after: int | None = None
    ) -> None:
        """Answer the next ``times`` requests (None: all, until ``clear_faults``) whose path has ``path`` in it with
        this status. Raises ValueError for a status of success, ``times`` below 1, and ``retry_after`` below 0.
        """
        if not 300 <= status <= 599:
            raise ValueError(f"status={status}: write one of no success, from 300 to 599")
        if retry_after is not None and retry_after < 0:
            raise ValueError(f"retry_after={retry_after}: write 0 or more seconds")
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self._faults.append(_Fault(status, times, path, headers))

    def hold(self) -> None:
        """Keep every request waiting, until ``release`` or ``clear_faults``."""
        self._gate.clear()

    def release(self) -> None:
        """Let waiting requests go on; the other faults stay."""
        self._gate.set()

    def clear_faults(self) -> None:
        """Remove every fault, and let waiting requests go on."""
        self._faults.clear()
        self._gate.set()

    # internals

    @property
    def _middleware(self) -> Middleware:
        @web.middleware
        async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
            self.requests.append(RegistryRequest(request.method, request.path))
            await self._gate.wait()
            if self._wanted is not None:
                given = request.headers.get("Authorization", "")
                if not hmac.compare_digest(given.encode(), self._wanted.encode()):
                    return answer({"error_code": 401, "message": "Unauthorized"}, 401)
            fault = self._next_fault(request.path)
            if fault is not None:
                failed = answer({"error_code": fault.status, "message": "a fault of the test's"}, fault.status)
                failed.headers.update(fault.headers)
                return failed
            try:
                return await handler(request)
            except web.HTTPException as error:
                return answer(
                    {"error_code": error.status, "message": f"HTTP {error.status} {error.reason}"}, error.status
                )

        return middleware

    def _next_fault(self, path: str) -> _Fault | None:
        for fault in self._faults:
            if fault.path in path:
                if fault.remaining is not None:
                    fault.remaining -= 1
                    if not fault.remaining:
                        self._faults.remove(fault)
                return fault
        return None
