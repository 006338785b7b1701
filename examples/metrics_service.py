"""Orders over HTTP into Kafka, with the producers' metrics of every worker at /metrics.

pip install '.[aiohttp,prometheus]' gunicorn
export AIOKAFKAPY_BOOTSTRAP_SERVERS=localhost:9092 PROMETHEUS_MULTIPROC_DIR=$(mktemp -d)
gunicorn metrics_service:create_app -k aiohttp.GunicornWebWorker -w 4 -b localhost:8080 -c metrics_service.py
"""

from typing import Any

from aiohttp import web
from prometheus_client import multiprocess

from aiokafkapy import ProducerConfig
from aiokafkapy.integrations.aiohttp import PRODUCER, add_health_routes, setup_kafka
from aiokafkapy.integrations.prometheus import exposition, watch


async def place(request: web.Request) -> web.Response:
    """200 means that the broker has the order."""
    metadata = await request.app[PRODUCER].send("orders", await request.read())
    return web.json_response({"partition": metadata.partition, "offset": metadata.offset})


async def metrics(request: web.Request) -> web.Response:
    """The metrics for Prometheus: the numbers of all workers, whichever answers."""
    body, content_type = exposition()
    return web.Response(body=body, headers={"content-type": content_type})


async def watch_producer(app: web.Application) -> None:
    """Called in each worker, once its producer has started."""
    watch(app[PRODUCER])


async def create_app() -> web.Application:
    """The application of one worker, with a producer of its own."""
    app = web.Application()
    setup_kafka(app, config=ProducerConfig.from_env(), drain_timeout=10)
    app.on_startup.append(watch_producer)
    add_health_routes(app)
    app.router.add_post("/orders", place)
    app.router.add_get("/metrics", metrics)
    return app


def child_exit(server: Any, worker: Any) -> None:
    """Called by gunicorn, for which this file is the configuration too: a worker's gauges end with it."""
    multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
