"""A producer for an aiohttp application: one call, a typed key, clean-up, health routes.

    async def order(request: web.Request) -> web.Response:
        metadata = await request.app[PRODUCER].send("orders", await request.read())
        return web.json_response({"offset": metadata.offset})

    app = web.Application()
    setup_kafka(app, "kafka:9092")
    add_health_routes(app)
    app.router.add_post("/orders", order)

Rules: the producer is made at once, so that a wrong option fails in ``setup_kafka``, and is started with the
application; it is drained in the application's clean-up, after the last request was answered. A sub-application finds
it in the main application, by ``request.config_dict[PRODUCER]``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from aiohttp import web

from aiokafkapy import KafkaProducer, ProducerConfig

from .service import DRAIN_TIMEOUT, drain, liveness, readiness

if TYPE_CHECKING:
    from aiokafkapy.producer.options import ProducerKeywords

__all__ = ["PRODUCER", "add_health_routes", "setup_kafka"]

PRODUCER: web.AppKey[KafkaProducer[Any, Any]] = web.AppKey("aiokafkapy.producer", KafkaProducer)


def setup_kafka(
    app: web.Application,
    bootstrap_servers: str | Sequence[str] | None = None,
    *,
    config: ProducerConfig | None = None,
    drain_timeout: float | None = DRAIN_TIMEOUT,
    **options: Unpack[ProducerKeywords],
) -> None:
    """Give the application a producer, ``app[PRODUCER]``, that lives as long as it runs.

    The arguments are those of ``KafkaProducer``. When no broker can be reached the application does not start. At
    clean-up the producer has ``drain_timeout`` seconds to deliver what it has.
    """
    producer: KafkaProducer[Any, Any] = KafkaProducer(bootstrap_servers, config=config, **options)
    app[PRODUCER] = producer

    async def life(app: web.Application) -> AsyncIterator[None]:
        await producer.start()
        yield
        await drain(producer, drain_timeout)

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

    Liveness fails only for what a restart would cure. Readiness asks a broker, for ``ping_timeout`` seconds at most.
    """

    async def livez(request: web.Request) -> web.Response:
        return _answer(*liveness(request.config_dict[PRODUCER]))

    async def readyz(request: web.Request) -> web.Response:
        return _answer(*await readiness(request.config_dict[PRODUCER], ping_timeout))

    app.router.add_get(prefix + liveness_path, livez)
    app.router.add_get(prefix + readiness_path, readyz)


def _answer(is_well: bool, body: dict[str, Any]) -> web.Response:
    return web.json_response(body, status=200 if is_well else 503)
