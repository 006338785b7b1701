"""The web benchmarks' load: vegeta with its own pacer, where there is Go, against a server that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.go_programs import built
from benchmarks.measurement import MeasurementError, SkippedError
from benchmarks.web import fixed_rate
from tests.foreign_programs import unavailable


@pytest.fixture
async def vegeta() -> Path:
    try:
        return await built("vegeta", fixed_rate.SOURCES)
    except SkippedError as error:
        unavailable(f"NO VEGETA: {error}")


@pytest.fixture
def counted() -> Counter[tuple[str, str, bytes]]:
    """Requests by method, type and body."""
    return Counter()


@pytest.fixture
async def server(counted: Counter[tuple[str, str, bytes]]) -> AsyncIterator[TestServer]:
    """It answers ``/records`` with 200, all else with 404."""

    async def record(request: web.Request) -> web.Response:
        counted[request.method, request.content_type, await request.read()] += 1
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/records", record)
    server = TestServer(app)
    async with server:
        yield server


# One test, so that parallel runs do not compile the program twice.
async def test_every_request_is_sent_and_is_among_the_results(
    vegeta: Path, server: TestServer, counted: Counter[tuple[str, str, bytes]]
) -> None:
    url = str(server.make_url("/records"))
    paced = await fixed_rate.attack(vegeta, url, 200, 500, 3)
    assert 0 < paced["requests"] <= 100  # fewer when the machine is late at the end
    assert counted == {("POST", "application/octet-stream", b"xxx"): paced["requests"]}
    assert 0 < paced["p50_ms"] <= paced["p999_ms"]
    assert 0 <= paced["late_p50_ms"] <= paced["late_p99_ms"]

    counted.clear()
    unpaced = await fixed_rate.attack(vegeta, url, None, 200, 5)
    assert counted == {("POST", "application/octet-stream", b"xxxxx"): unpaced["requests"]}
    assert "p50_ms" not in unpaced

    with pytest.raises(MeasurementError, match="requests failed: 404 Not Found"):
        await fixed_rate.attack(vegeta, str(server.make_url("/elsewhere")), 100, 100, 3)
