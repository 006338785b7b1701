"""A producer for a FastAPI or Starlette application: lifespan, typed dependency, health routes.

    app = FastAPI(lifespan=kafka_lifespan("kafka:9092"))
    app.include_router(health_router())

    @app.post("/orders")
    async def order(order: Order, producer: ProducerDep) -> int:
        return (await producer.send("orders", order.model_dump_json().encode())).offset

With serializers, the dependency names their types, for editors and type checkers: ``ProducerDep[str, Order]`` is a
producer with keys of ``str`` and values of ``Order``; without brackets any type goes.

The application's own lifespan encloses this one:

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with kafka_lifespan("kafka:9092")(app), database():
            yield

Rules: the producer is made at once, so that a wrong option fails at import, and is started before the first request; it
is drained after the last request was answered, as a server does on SIGTERM. It lives in ``app.state.kafka_producer``,
one for each process; a test replaces it through ``app.dependency_overrides[get_producer]``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Unpack

try:
    from fastapi import APIRouter, Depends
    from fastapi.responses import JSONResponse
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error.name} is missing: pip install 'aiokafkapy[fastapi]'", name=error.name) from error

from .. import KafkaProducer
from ..common import timeout_of
from ..errors import IllegalStateError, ProducerNotStartedError
from ..producer.state import ProducerState
from .service import DRAIN_TIMEOUT, HAS_ONE, checked_config, drain, keeping_undelivered, liveness, readiness

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from .. import ProducerConfig
    from ..producer.options.keywords import ProducerKeywords

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["ProducerDep", "get_producer", "health_router", "kafka_lifespan"]

Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


def kafka_lifespan(
    bootstrap_servers: str | Sequence[str] | None = None,
    *,
    config: ProducerConfig | None = None,
    drain_timeout: float | None = DRAIN_TIMEOUT,
    undelivered_path: str | os.PathLike[str] | None = None,
    **options: Unpack[ProducerKeywords],
) -> Lifespan:
    """A lifespan that starts a producer and, at shutdown, gives it ``drain_timeout`` seconds to deliver its records.

    The arguments are those of ``KafkaProducer``. When no broker can be reached the application does not start: the
    server says so and ends. An application may be started again after it has ended (tests do that).

    With ``undelivered_path`` the records that were not delivered then are added to that file, from which ``aiokafkapy
    produce --resume`` sends them; records are kept in memory until their outcome for it.

    Raises IllegalStateError when it begins in an application that has a producer.
    """
    checked = checked_config(bootstrap_servers, config, options)
    keeping_undelivered(checked, undelivered_path)
    drain_timeout = timeout_of("kafka_lifespan", drain_timeout)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        config, undelivered = keeping_undelivered(checked, undelivered_path)
        there = getattr(app.state, "kafka_producer", None)
        if isinstance(there, KafkaProducer) and there.state is ProducerState.RUNNING:
            raise IllegalStateError(HAS_ONE)
        producer: KafkaProducer[Any, Any] = KafkaProducer(config=config)
        await producer.start()
        app.state.kafka_producer = producer
        try:
            yield
        finally:
            await drain(producer, drain_timeout, undelivered)

    return lifespan


async def get_producer(connection: HTTPConnection) -> KafkaProducer[Any, Any]:
    """The application's producer, for requests and web sockets.

    It is a coroutine function, though it does not wait: FastAPI calls any other function in a thread, for every
    request.
    """
    producer = getattr(connection.app.state, "kafka_producer", None)
    if not isinstance(producer, KafkaProducer):
        raise ProducerNotStartedError(
            "the application has no producer: give it lifespan=kafka_lifespan(...), and in tests let its lifespan run; "
            "a mounted application, whose lifespan does not run, shares the main one's state: sub.state = app.state"
        )
    return producer


ProducerDep = Annotated[KafkaProducer[K, V], Depends(get_producer)]
"""The application's producer as a parameter: ``producer: ProducerDep``, or ``ProducerDep[key type, value type]``."""


def health_router(
    prefix: str = "", *, liveness_path: str = "/livez", readiness_path: str = "/readyz", ping_timeout: float = 2.0
) -> APIRouter:
    """Two routes for an orchestrator: 200 when all is well, 503 when not, with the reason as JSON.

    Liveness fails only for a state that a restart would cure. Readiness asks a broker, for ``ping_timeout`` seconds at
    most.
    """
    timeout_of("health_router", ping_timeout)
    router = APIRouter(prefix=prefix, tags=["health"])

    @router.get(liveness_path, summary="Whether the process should be left alone")
    async def livez(producer: ProducerDep) -> JSONResponse:
        return _answer(*liveness(producer))

    @router.get(readiness_path, summary="Whether this instance can deliver to Kafka now")
    async def readyz(producer: ProducerDep) -> JSONResponse:
        return _answer(*await readiness(producer, ping_timeout))

    return router


def _answer(is_well: bool, body: dict[str, object]) -> JSONResponse:
    return JSONResponse(body, status_code=200 if is_well else 503)
