"""A producer for an aiohttp application: one call, a typed key, clean-up, health routes.

    async def order(request: web.Request) -> web.Response:
        metadata = await request.app[PRODUCER].send("orders", await request.read())
        return web.json_response({"offset": metadata.offset})

    app = web.Application()
    setup_kafka(app, "kafka:9092")
    add_health_routes(app)
    app.router.add_post("/orders", order)

``web.Application(middlewares=[request_headers_middleware()])`` carries the request's id and trace into records.

Rules: the producer is made at once, so that a wrong option fails in ``setup_kafka``, and is started with the
application; it is drained in the application's clean-up, after the last request was answered. A sub-application finds
it in the main application, by ``request.config_dict[PRODUCER]``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

try:
    from aiohttp import web
    from aiohttp.typedefs import Handler, Middleware
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("aiohttp is missing: pip install 'aiokafkapy[aiohttp]'", name=error.name) from error

from .. import KafkaProducer
from ..common import timeout_of
from ..errors import IllegalStateError, ProducerNotStartedError
from .request_headers import REQUEST_ID, Selection, carrying
from .service import DRAIN_TIMEOUT, HAS_ONE, checked_config, drain, keeping_undelivered, liveness, readiness

if TYPE_CHECKING:
    from .. import ProducerConfig
    from ..producer.options.keywords import ProducerKeywords

__all__ = ["PRODUCER", "add_health_routes", "request_headers_middleware", "setup_kafka"]

PRODUCER: web.AppKey[KafkaProducer[Any, Any]] = web.AppKey("aiokafkapy.producer", KafkaProducer)


def setup_kafka(
    app: web.Application,
    bootstrap_servers: str | Sequence[str] | None = None,
    *,
    config: ProducerConfig | None = None,
    drain_timeout: float | None = DRAIN_TIMEOUT,
    undelivered_path: str | os.PathLike[str] | None = None,
    **options: Unpack[ProducerKeywords],
) -> None:
    """Give the application a producer, ``app[PRODUCER]``, that lives as long as it runs.

    The arguments are those of ``KafkaProducer``. When no broker can be reached the application does not start. At
    clean-up the producer has ``drain_timeout`` seconds to deliver its records; with ``undelivered_path`` the records
    that were not delivered then are added to that file, from which ``aiokafkapy produce --resume`` sends them, and are
    kept in memory until their outcome for it. Raises IllegalStateError for an application that has a producer.
    """
    if PRODUCER in app:
        raise IllegalStateError(HAS_ONE)
    checked = checked_config(bootstrap_servers, config, options)
    drain_timeout = timeout_of("setup_kafka", drain_timeout)
    kept, undelivered = keeping_undelivered(checked, undelivered_path)
    producer: KafkaProducer[Any, Any] = KafkaProducer(config=kept)
    app[PRODUCER] = producer

    async def life(app: web.Application) -> AsyncIterator[None]:
        await producer.start()
        yield
        await drain(producer, drain_timeout, undelivered)

    app.cleanup_ctx.append(life)


def add_health_routes(
    app: web.Application,
    prefix: str = "",
    *,
    liveness_path: str = "/livez",
    readiness_path: str = "/readyz",
    ping_timeout: float = 2.0,
) -> None:
    """Two routes for an orchestrator: 200 when all is well, 503 when not, with the reason as JSON.

    Liveness fails only for a state that a restart would cure. Readiness asks a broker, for ``ping_timeout`` seconds at
    most.
    """
    timeout_of("add_health_routes", ping_timeout)

    async def livez(request: web.Request) -> web.Response:
        return _answer(*liveness(_producer_of(request)))

    async def readyz(request: web.Request) -> web.Response:
        return _answer(*await readiness(_producer_of(request), ping_timeout))

    app.router.add_get(prefix + liveness_path, livez)
    app.router.add_get(prefix + readiness_path, readyz)


def request_headers_middleware(headers: Sequence[str] = (), *, request_id: str | None = REQUEST_ID) -> Middleware:
    """A middleware that carries the request's id, its trace and ``headers`` into the records that it sends.

    The producer needs ``interceptors=[RequestHeaders()]``. The answer gets the id, unless the handler gave one, or the
    answer was prepared already, as a web socket's is.
    """
    selection = Selection(headers, request_id)

    @web.middleware
    async def carry(request: web.Request, handler: Handler) -> web.StreamResponse:
        # The raw bytes: aiohttp decodes them this way, so bytes that are not UTF-8 come back unchanged.
        found = selection.of(
            (name, value.encode("utf-8", "surrogateescape")) for name, value in request.headers.items()
        )
        name = selection.request_id
        with carrying(found):
            try:
                response = await handler(request)
            except web.HTTPException as answer:
                if name is not None:
                    answer.headers.setdefault(name, dict(found)[name].decode())
                raise
        if name is not None and not response.prepared:
            response.headers.setdefault(name, dict(found)[name].decode())
        return response

    return carry


def _producer_of(request: web.Request) -> KafkaProducer[Any, Any]:
    producer: KafkaProducer[Any, Any] | None = request.config_dict.get(PRODUCER)
    if producer is None:
        raise ProducerNotStartedError("the application has no producer: give it one by setup_kafka(app, ...)")
    return producer


def _answer(is_well: bool, body: dict[str, object]) -> web.Response:
    return web.json_response(body, status=200 if is_well else 503)
