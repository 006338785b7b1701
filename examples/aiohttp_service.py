"""Orders over HTTP into Kafka, with aiohttp.

pip install '.[aiohttp]'
AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 python aiohttp_service.py
curl -d '{"customer": "ann", "item": "tea"}' localhost:8080/orders
"""

import os

from aiohttp import web

from aiokafkapy import ProducerConfig
from aiokafkapy.errors import KafkaError
from aiokafkapy.integrations.aiohttp import PRODUCER, add_health_routes, setup_kafka
from aiokafkapy.observability.programs import configure_logging


async def place(request: web.Request) -> web.Response:
    """200 means that the broker has the order."""
    order = await request.json()
    try:
        metadata = await request.app[PRODUCER].send("orders", await request.read(), key=order["customer"].encode())
    except KafkaError as error:
        return web.json_response({"error": str(error), "outcome_unknown": error.outcome_unknown}, status=503)
    return web.json_response({"partition": metadata.partition, "offset": metadata.offset})


async def click(request: web.Request) -> web.Response:
    """202 means that the click is on its way: delivered in the background, at the latest as the service ends."""
    await request.app[PRODUCER].enqueue("clicks", await request.read())
    return web.Response(status=202)


def create_app() -> web.Application:
    """The application, with its producer."""
    app = web.Application()
    setup_kafka(app, config=ProducerConfig.from_env(), drain_timeout=10)
    add_health_routes(app)
    app.router.add_post("/orders", place)
    app.router.add_post("/clicks", click)
    return app


if __name__ == "__main__":
    configure_logging(os.environ.get("LOG_FORMAT", "console"), level=os.environ.get("LOG_LEVEL", "info"))
    web.run_app(create_app(), host="127.0.0.1", port=int(os.environ.get("PORT", "8080")))
