"""Lines on the stderr of programs that configured no logging, and of our own, which do."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aiokafkapy.broker import DevBroker

from ..tcp_servers import closed_port
from .web_service import EXAMPLES, web_service

UVICORN = ["-m", "uvicorn", "--port", "{port}", "--app-dir"]

FASTAPI_SERVICE = """
import os
from fastapi import FastAPI, Request
from aiokafkapy.integrations.fastapi import ProducerDep, health_router, kafka_lifespan

app = FastAPI(lifespan=kafka_lifespan(os.environ["AIOKAFKAPY_BOOTSTRAP_SERVERS"], drain_timeout=0.3))
app.include_router(health_router())

@app.post("/orders")
async def place(request: Request, producer: ProducerDep) -> None:
    await producer.send("t", await request.body())

@app.post("/clicks")
async def click(request: Request, producer: ProducerDep) -> None:
    await producer.enqueue("t", await request.body())
"""

AIOHTTP_SERVICE = """
import os
from aiohttp import web
from aiokafkapy.integrations.aiohttp import PRODUCER, add_health_routes, setup_kafka

async def place(request: web.Request) -> web.Response:
    await request.app[PRODUCER].send("t", await request.read())
    return web.Response()

async def click(request: web.Request) -> web.Response:
    await request.app[PRODUCER].enqueue("t", await request.read())
    return web.Response()

app = web.Application()
setup_kafka(app, os.environ["AIOKAFKAPY_BOOTSTRAP_SERVERS"], drain_timeout=0.3)
add_health_routes(app)
app.router.add_post("/orders", place)
app.router.add_post("/clicks", click)
web.run_app(app, host="127.0.0.1", port=int(os.environ["PORT"]))
"""


@pytest.fixture(autouse=True)
def _no_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """In asyncio's debug mode a program also logs each slow step of its loop."""
    monkeypatch.delenv("PYTHONASYNCIODEBUG", raising=False)


@pytest.mark.parametrize("framework", ["fastapi", "aiohttp"])
async def test_a_service_that_configured_nothing_says_how_many_records_it_lost(
    framework: str, kafka_broker: DevBroker, tmp_path: Path
) -> None:
    program = tmp_path / "service.py"
    program.write_text(FASTAPI_SERVICE if framework == "fastapi" else AIOHTTP_SERVICE)
    command = [*UVICORN, str(tmp_path), "service:app"] if framework == "fastapi" else [str(program)]
    kafka_broker.create_topic("t", partitions=1)
    async with web_service(kafka_broker, command) as (service, session):
        for path in ("orders", "clicks", "clicks", "clicks"):
            async with session.post(f"{service.url}/{path}", data="text") as answer:
                assert answer.status == 200
            kafka_broker.controls.stall_connections(True)
        service.terminate()
        _, output = await service.ended()
    kafka_broker.controls.stall_connections(False)
    (line,) = [line for line in output.splitlines() if line.startswith("kafka.not_drained")]
    assert "delivered=0 failed=3" in line


async def test_an_example_writes_json_when_asked_to(kafka_broker: DevBroker) -> None:
    command = [*UVICORN, str(EXAMPLES), "fastapi_service:app", "--log-level", "warning", "--no-access-log"]
    async with web_service(kafka_broker, command, LOG_FORMAT="json") as (service, _):
        service.terminate()
        _, output = await service.ended()
    events = [json.loads(line) for line in output.splitlines()]
    assert [event["event"] for event in events] == ["producer.started", "producer.closed", "kafka.drained"]
    assert events[0]["logger"] == "aiokafkapy.producer.producer"


async def test_an_outage_is_seen_by_a_program_that_configured_nothing() -> None:
    program = """
import asyncio, sys
from aiokafkapy import KafkaProducer
from aiokafkapy.errors import KafkaError

async def main():
    try:
        await KafkaProducer(sys.argv[1]).start()
    except KafkaError:
        pass
asyncio.run(main())
"""
    with closed_port() as port:
        server = f"127.0.0.1:{port}"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, server, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr
        first_line = await process.stderr.readline()
        process.kill()
        await process.communicate()
    assert first_line.startswith(b"connection.failed ")
    assert f"address={server} ".encode() in first_line


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_the_command_line_logs_as_it_is_told(log_format: str) -> None:
    command = [sys.executable, "-m", "aiokafkapy", "--log-format", log_format, "--log-level", "debug"]
    with closed_port() as port:
        server = f"127.0.0.1:{port}"
        done = subprocess.run(
            [*command, "topics", "list", "-b", server, "--timeout", "0.2"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stdout == ""
    *events, error = done.stderr.splitlines()
    assert error.startswith("error: no ")
    # On a loaded machine the time is over before the refusal arrives: then the connection closes, and says so. Or it is
    # over late: a client without an answer for a second says that, too.
    levels = {"connection.failed": "warning", "connection.closed": "debug", "metadata.no_answer": "warning"}
    assert events
    for line in events:
        if log_format == "json":
            event = json.loads(line)
            assert levels[event["event"]] == event["level"]
            assert server in (event.get("address"), *event.get("addresses", ()))
        else:
            assert any(f"[{level:9}] {event}" in line for event, level in levels.items()), line
            assert f"address={server}" in line or f"addresses=['{server}']" in line


def test_the_command_line_can_be_quiet() -> None:
    with closed_port() as port:
        command = [sys.executable, "-m", "aiokafkapy", "--log-level", "error", "topics", "list"]
        address = ["-b", f"127.0.0.1:{port}", "--timeout", "0.2"]
        done = subprocess.run([*command, *address], capture_output=True, text=True, check=False)
    assert len(done.stderr.splitlines()) == 1
