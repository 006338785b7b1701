"""A producer for a Litestar application: one plugin, with lifespan, typed dependency and health routes.

    @post("/orders")
    async def order(data: Order, kafka_producer: ProducerDep) -> int:
        return (await kafka_producer.send("orders", data.to_json())).offset

    app = Litestar([order], plugins=[KafkaPlugin("kafka:9092")])

Rules: the producer's options are checked at once, so that a wrong one fails at import; it is started before the first
request, and drained after the last was answered. It is the dependency ``kafka_producer``, and ``app.state``'s
``kafka_producer``; a test replaces it by its own ``Provide``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

try:
    from litestar import Litestar, Response, get
    from litestar.config.app import AppConfig
    from litestar.datastructures import State
    from litestar.di import NamedDependency, Provide
    from litestar.plugins import InitPlugin
except ImportError as error:
    raise ImportError("litestar is missing: pip install 'aiokafkapy[litestar]'") from error

from .. import KafkaProducer
from ..common import timeout_of
from ..errors import IllegalStateError, ProducerNotStartedError
from .service import DRAIN_TIMEOUT, HAS_ONE, checked_config, drain, keeping_undelivered, liveness, readiness

if TYPE_CHECKING:
    from .. import ProducerConfig
    from ..producer.options.keywords import ProducerKeywords

__all__ = ["KafkaPlugin", "ProducerDep"]

DEPENDENCY: Final = "kafka_producer"

ProducerDep: TypeAlias = NamedDependency[KafkaProducer[Any, Any]]
"""The application's producer as a handler's parameter, by its name: ``kafka_producer: ProducerDep``."""


class KafkaPlugin(InitPlugin):
    """Gives an application a producer for as long as it runs. The first arguments are those of ``KafkaProducer``.

    At shutdown the producer has ``drain_timeout`` seconds to deliver its records; with ``undelivered_path`` the records
    that were not delivered then are added to that file, from which ``aiokafkapy produce --resume`` sends them. Without
    ``health_prefix`` (None) there are no health routes; readiness asks a broker, for ``ping_timeout`` seconds at most.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ProducerConfig | None = None,
        drain_timeout: float | None = DRAIN_TIMEOUT,
        undelivered_path: str | os.PathLike[str] | None = None,
        health_prefix: str | None = "",
        liveness_path: str = "/livez",
        readiness_path: str = "/readyz",
        ping_timeout: float = 2.0,
        **options: Unpack[ProducerKeywords],
    ) -> None:
        self._config = checked_config(bootstrap_servers, config, options)
        keeping_undelivered(self._config, undelivered_path)
        self._undelivered_path = undelivered_path
        self._drain_timeout = timeout_of("KafkaPlugin", drain_timeout)
        self._health_paths = (
            None if health_prefix is None else (health_prefix + liveness_path, health_prefix + readiness_path)
        )
        timeout_of("KafkaPlugin", ping_timeout)
        self._ping_timeout = ping_timeout

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Litestar's hook. Raises IllegalStateError for an application with two plugins of this kind."""
        if sum(isinstance(each, KafkaPlugin) for each in app_config.plugins) > 1:
            raise IllegalStateError(HAS_ONE)
        app_config.lifespan = [*app_config.lifespan, self._lifespan]
        app_config.dependencies = {
            DEPENDENCY: Provide(_producer_of, sync_to_thread=False),
            **(app_config.dependencies or {}),
        }
        app_config.signature_namespace = {"ProducerDep": ProducerDep, **app_config.signature_namespace}
        if self._health_paths is not None:
            app_config.route_handlers = [*app_config.route_handlers, *self._health_routes(*self._health_paths)]
        return app_config

    # internals

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        config, undelivered = keeping_undelivered(self._config, self._undelivered_path)
        producer: KafkaProducer[Any, Any] = KafkaProducer(config=config)
        await producer.start()
        app.state.kafka_producer = producer
        try:
            yield
        finally:
            await drain(producer, self._drain_timeout, undelivered)

    def _health_routes(self, liveness_path: str, readiness_path: str) -> list[Any]:
        timeout = self._ping_timeout

        @get(liveness_path, tags=["health"], summary="Whether the process should be left alone", sync_to_thread=False)
        def livez(state: State) -> Response[dict[str, Any]]:
            return _answer(*liveness(_producer_of(state)))

        @get(readiness_path, tags=["health"], summary="Whether this instance can deliver to Kafka now")
        async def readyz(state: State) -> Response[dict[str, Any]]:
            return _answer(*await readiness(_producer_of(state), timeout))

        return [livez, readyz]


def _producer_of(state: State) -> KafkaProducer:
    """The application's producer."""
    producer = state.get(DEPENDENCY)
    if not isinstance(producer, KafkaProducer):
        raise ProducerNotStartedError(
            "the application has no producer: give it plugins=[KafkaPlugin(...)], and in tests let its lifespan run"
        )
    return producer


def _answer(is_well: bool, body: dict[str, Any]) -> Response[dict[str, Any]]:
    return Response(body, status_code=200 if is_well else 503)
