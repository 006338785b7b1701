"""A web service with a Kafka producer inside: ``POST /records`` sends the body and answers when it is delivered.

``python -m benchmarks.web.service CLIENT BOOTSTRAP_SERVERS TOPIC OPTIONS [freeze]`` is a helper process (see
``benchmarks.macro.processes``): FastAPI on uvicorn, uvloop and httptools, one worker. It says ``url``, answers
``count`` with how many requests it has answered with 200, has failed and has in hand,
and how many clients left before theirs was read, and ends as on SIGTERM.

The handler is the same for every client but for the call itself. All are on acks=all and idempotence and otherwise on
their defaults; OPTIONS (JSON) are added to the client's own configuration, in its own names. For AIOProducer the
options ``batch_size`` and ``buffer_timeout`` are those of its constructor, and ``poll`` adds a task that polls: by
itself it learns of deliveries only when it hands over its next batch.

With ``freeze`` the objects made before the service has started are hidden from the garbage collector (``gc.freeze``),
as services do that look after their slowest answers: FastAPI makes so much cyclic garbage that full collections, over
all that was ever imported, take a quarter of the CPU, in pauses of tens of milliseconds.
"""

# No ``from __future__ import annotations``: FastAPI reads a handler's annotations, and some of the names are local.
import asyncio
import gc
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import uvicorn
import uvloop
from fastapi import Depends, FastAPI, Request, Response

from benchmarks.macro.processes import commands

__all__ = ["CLIENTS"]

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 2048
POLL: Final = 0.1
"""Seconds that a poll waits in its thread; it returns as soon as there is a delivery to tell."""


def with_aiokafkapy(bootstrap_servers: str, topic: str, options: dict[str, Any]) -> FastAPI:
    """Through our own integration, as the README shows it."""
    from aiokafkapy.integrations.fastapi import ProducerDep, kafka_lifespan

    app = FastAPI(lifespan=kafka_lifespan(bootstrap_servers, **options))

    @app.post("/records")
    async def record(request: Request, producer: ProducerDep) -> Response:
        await producer.send(topic, await request.body())
        return Response()

    return app


def with_aiokafka(bootstrap_servers: str, topic: str, options: dict[str, Any]) -> FastAPI:
    """The same by hand."""
    from aiokafka import AIOKafkaProducer

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        settings = {"acks": "all", "enable_idempotence": True, **options}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **settings) as app.state.producer:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/records")
    async def record(request: Request, producer: Annotated[Any, Depends(_producer_of)]) -> Response:
        await producer.send_and_wait(topic, await request.body())
        return Response()

    return app


def with_confluent(bootstrap_servers: str, topic: str, options: dict[str, Any]) -> FastAPI:
    """The same by hand, with AIOProducer."""
    from confluent_kafka.aio import AIOProducer

    own = {name: value for name, value in options.items() if name in ("batch_size", "buffer_timeout")}
    settings = {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True, "log_level": 3}
    settings |= {name: value for name, value in options.items() if name not in own and name != "poll"}

    async def poll(producer: AIOProducer) -> None:
        while True:
            await producer.poll(POLL)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AIOProducer(settings, **own) as app.state.producer:
            poller = asyncio.create_task(poll(app.state.producer)) if options.get("poll") else None
            yield
            if poller is not None:
                poller.cancel()
                await asyncio.wait([poller])

    app = FastAPI(lifespan=lifespan)

    @app.post("/records")
    async def record(request: Request, producer: Annotated[Any, Depends(_producer_of)]) -> Response:
        delivery = await producer.produce(topic, value=await request.body())
        await delivery
        return Response()

    return app


def without(bootstrap_servers: str, topic: str, options: dict[str, Any]) -> FastAPI:
    """No producer at all: the cost of the web service by itself."""
    app = FastAPI()

    @app.post("/records")
    async def record(request: Request) -> Response:
        await request.body()
        return Response()

    return app


CLIENTS: Final[dict[str, Callable[[str, str, dict[str, Any]], FastAPI]]] = {
    "aiokafkapy": with_aiokafkapy,
    "aiokafka": with_aiokafka,
    "AIOProducer": with_confluent,
    "nobody": without,
}


class Counter:
    """A wrapper that counts the application's answers; a client that left before the body was read counts as neither
    kind.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.answered = 0
        self.failed = 0
        self.left = 0
        self.in_progress = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_left = False

        async def watching() -> Any:
            nonlocal has_left
            message = await receive()
            has_left = has_left or message["type"] == "http.disconnect"
            return message

        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                if message["status"] == 200:
                    self.answered += 1
                elif has_left:
                    self.left += 1
                else:
                    self.failed += 1
            await send(message)

        self.in_progress += 1
        try:
            await self._app(scope, watching, counting)
        except Exception:
            if not has_left:
                raise
        finally:
            self.in_progress -= 1

    def command(self, word: str) -> dict[str, int]:
        """``count``."""
        return {name: getattr(self, name) for name in ("answered", "failed", "left", "in_progress")}


async def _producer_of(request: Request) -> Any:
    # A coroutine function, as our own: FastAPI would call any other kind in a thread.
    return request.app.state.producer


async def _main() -> None:
    client, bootstrap_servers, topic, options, *freeze = sys.argv[1:]
    counter = Counter(CLIENTS[client](bootstrap_servers, topic, json.loads(options)))
    config = uvicorn.Config(
        counter,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        access_log=False,
        log_level="warning",
        # After uvicorn's five idle seconds it would close a connection on which the load just sends a request.
        timeout_keep_alive=3600,
    )
    server = uvicorn.Server(config)
    with socket.create_server((LOOPBACK, 0), backlog=BACKLOG) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:
            if serving.done():
                await serving
                raise SystemExit("the service did not start")
            await asyncio.sleep(0.01)
        if freeze:
            gc.collect()
            gc.freeze()
        await commands({"url": f"http://{LOOPBACK}:{listener.getsockname()[1]}/records"}, counter.command)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    uvloop.run(_main())
