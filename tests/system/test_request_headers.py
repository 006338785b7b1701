"""Headers of requests in records on the dev broker, through FastAPI, Litestar and aiohttp."""

from __future__ import annotations

import httpx
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from fastapi import FastAPI

from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.aiohttp import PRODUCER, request_headers_middleware, setup_kafka
from aiokafkapy.integrations.asgi import RequestHeadersMiddleware
from aiokafkapy.integrations.fastapi import ProducerDep, kafka_lifespan
from aiokafkapy.integrations.request_headers import RequestHeaders

REQUEST = {"x-request-id": "7", "x-tenant": "blue", "cookie": "secret"}
CARRIED = {"own": b"1", "x-request-id": b"7", "x-tenant": b"blue"}


async def test_a_handler_of_fastapi_sends_the_request_s_headers_and_knows_nothing_of_it(
    kafka_broker: DevBroker,
) -> None:
    app = FastAPI(lifespan=kafka_lifespan(kafka_broker.bootstrap_servers, interceptors=[RequestHeaders()]))
    app.add_middleware(RequestHeadersMiddleware, headers=["x-tenant"])

    @app.post("/orders")
    async def order(producer: ProducerDep) -> int:
        return (await producer.send("t", b"v", partition=0, headers={"own": b"1"})).offset

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        answer = await client.post("/orders", headers=REQUEST)
        assert answer.headers["x-request-id"] == "7"
        other = await client.post("/orders")
    first, second = kafka_broker.records("t", 0)
    assert dict(first.headers) == CARRIED
    assert dict(second.headers) == {"own": b"1", "x-request-id": other.headers["x-request-id"].encode()}


async def test_a_handler_of_aiohttp_does_too_and_an_error_s_answer_has_the_id(kafka_broker: DevBroker) -> None:
    async def order(request: web.Request) -> web.Response:
        await request.app[PRODUCER].send("t", b"v", partition=0, headers={"own": b"1"})
        if "fail" in request.query:
            raise web.HTTPConflict
        return web.Response()

    app = web.Application(middlewares=[request_headers_middleware(["x-tenant"])])
    setup_kafka(app, kafka_broker.bootstrap_servers, interceptors=[RequestHeaders()])
    app.router.add_post("/orders", order)
    async with TestClient(TestServer(app)) as client:
        for query, status in (("", 200), ("?fail", 409)):
            answer = await client.post(f"/orders{query}", headers=REQUEST)
            assert (answer.status, answer.headers["x-request-id"]) == (status, "7")
    assert [dict(record.headers) for record in kafka_broker.records("t", 0)] == [CARRIED, CARRIED]
