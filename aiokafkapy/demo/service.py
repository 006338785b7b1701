"""The demo's web service: takes flights by HTTP POST and responds once Kafka has them.

Owns the FastAPI application, written as a user would write it, and its process: uvicorn on uvloop, on a free port,
which it prints. It does not know the replay and the checks.

Rules:

- 200 means that the broker has the record: the answer comes after ``await producer.send()``;
- for a record that the broker refused, or did not acknowledge in time, the answer is 503 with the reason, and says
  whether the outcome is unknown;
- the process ends on SIGTERM after the requests in flight were answered, and at once when its stdin ends, which means
  that its parent has gone.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
import time
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ..errors import KafkaError
from ..integrations.fastapi import ProducerDep, health_router, kafka_lifespan
from ..observability.programs import LogLevel, configure_logging
from .flights import scheduled_departure_ms

__all__ = ["Accepted", "FlightBody", "create_app", "serve"]


class FlightBody(BaseModel):
    """A flight as it is posted; the fields are the data file's, in its order, with the row in front."""

    row: int
    year: int
    month: int
    day: int
    dep_time: int | None
    sched_dep_time: int
    dep_delay: int | None
    arr_time: int | None
    sched_arr_time: int
    arr_delay: int | None
    carrier: str
    flight: int
    tailnum: str | None
    origin: str
    dest: str
    air_time: int | None
    distance: int
    hour: int
    minute: int
    time_hour: str


class Accepted(BaseModel):
    """The place of the flight's record."""

    partition: int
    offset: int


def create_app(bootstrap_servers: str, topic: str) -> FastAPI:
    """The application: POST /flights, GET /figures, and the health routes."""
    app = FastAPI(title="flights", lifespan=kafka_lifespan(bootstrap_servers))
    app.include_router(health_router())
    send_seconds: list[float] = []

    @app.post("/flights")
    async def accept_flight(flight: FlightBody, producer: ProducerDep) -> Accepted:
        """Take one flight; the answer comes when the broker has it."""
        begun = time.perf_counter()
        metadata = await producer.send(
            topic,
            flight.model_dump_json().encode(),
            key=None if flight.tailnum is None else flight.tailnum.encode(),
            timestamp_ms=scheduled_departure_ms(flight.time_hour, flight.minute),
        )
        send_seconds.append(time.perf_counter() - begun)
        return Accepted(partition=metadata.partition, offset=metadata.offset)

    @app.get("/figures")
    async def figures(producer: ProducerDep) -> dict[str, Any]:
        """The durations of the awaited sends, and the producer's own numbers, for the demo's report."""
        return {"send_seconds": send_seconds, "metrics": dict(producer.metrics())}

    @app.exception_handler(KafkaError)
    async def refuse(request: Request, error: KafkaError) -> JSONResponse:
        """Kafka's errors as an answer that a caller can act on."""
        content = {"error": f"{type(error).__name__}: {error}", "outcome_unknown": error.outcome_unknown}
        return JSONResponse(content, status_code=503)

    return app


def serve(bootstrap_servers: str, topic: str) -> None:
    """Run the service until SIGTERM or the end of stdin; prints ``{"port": N}`` before it starts."""
    configure_logging(level=LogLevel.WARNING)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(bootstrap_servers, topic), log_level="warning", access_log=False, lifespan="on")
    server = uvicorn.Server(config)

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        # The parent has gone, and with it the clients, and perhaps the broker: there is no broker to drain to.
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The demo's web service.")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    arguments = parser.parse_args()
    serve(arguments.bootstrap_servers, arguments.topic)
