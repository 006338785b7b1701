"""Every Python snippet of the README and of docs/ runs as it stands; broker and registry are at other addresses."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import httpx
import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import SchemaRegistry

from .pages import ADDRESS, Snippet, snippets

REGISTRY: Final = "http://localhost:8081"
LONGEST: Final = 120
"""Seconds after which a snippet hangs."""

ELSEWHERE: Final = (
    "SparkSession",
    "producer.transaction()",
    "producer.transactions()",
    "consume_transform",
    "CONFLUENT_CLOUD",
    "AIVEN",
    "from_vault",
)

ORDER: Final = {"customer": "ann", "item": "tea"}
POSTED: Final = ("/orders", "/clicks")

Runner = Callable[[Path, DevBroker], Coroutine[Any, Any, None]]


@pytest.mark.parametrize(
    "snippet",
    # The snippets of Spark and of transactions, and the settings for clusters, have tests of their own.
    [one for one in snippets("python") if not any(word in one.text for word in ELSEWHERE)],
    ids=lambda one: one.label,
)
async def test_a_snippet_runs_as_it_stands(snippet: Snippet, kafka_broker: DevBroker, tmp_path: Path) -> None:
    path = tmp_path / "test_snippet.py"
    async with SchemaRegistry() as registry:
        path.write_text(snippet.text.replace(ADDRESS, kafka_broker.bootstrap_servers).replace(REGISTRY, registry.url))
        await _runner(snippet)(path, kafka_broker)


def _runner(snippet: Snippet) -> Runner:
    if "DevBroker(" in snippet.text and "asyncio.run(" in snippet.text:
        return _run_with_a_broker_of_its_own
    if any(start in snippet.text for start in ("asyncio.run(", "anyio.run(", "BlockingProducer(")):
        return _run_script
    if "def test_" in snippet.text:
        return _run_tests
    if "FastAPI(" in snippet.text:
        return _call_fastapi
    if "Litestar(" in snippet.text:
        return _call_litestar
    if "web.Application(" in snippet.text:
        return _call_aiohttp
    raise AssertionError(f"{snippet.label}: how is it run?")


async def _run_script(path: Path, broker: DevBroker) -> None:
    await _succeed(sys.executable, str(path), place=path.parent)  # its files are not part of this repository
    assert broker.records("orders")


async def _run_with_a_broker_of_its_own(path: Path, broker: DevBroker) -> None:
    await _succeed(sys.executable, str(path))


async def _run_tests(path: Path, broker: DevBroker) -> None:
    options = ("-c", "/dev/null", "--rootdir", str(path.parent), "-p", "no:randomly", "-p", "no:cacheprovider")
    await _succeed(sys.executable, "-m", "pytest", "-q", *options, str(path))


async def _call_fastapi(path: Path, broker: DevBroker) -> None:
    app = _module(path).app
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        for route in POSTED:
            if any(getattr(one, "path", None) == route for one in app.routes):
                answer = await client.post(route, json=ORDER)
                assert answer.is_success, answer.text
    assert b"ann" in (broker.records("orders")[0].value or b"")


async def _call_litestar(path: Path, broker: DevBroker) -> None:
    app = _module(path).app
    async with (
        app.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client,
    ):
        answer = await client.post("/orders", json=ORDER)
        assert answer.is_success, answer.text
    assert b"ann" in (broker.records("orders")[0].value or b"")


async def _call_aiohttp(path: Path, broker: DevBroker) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    async with TestClient(TestServer(_module(path).app)) as client:
        answer = await client.post("/orders", json=ORDER)
        assert answer.status == 200, await answer.text()
    assert b"ann" in (broker.records("orders")[0].value or b"")


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("snippet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["snippet"] = module  # Litestar looks the types of its handlers up there
    spec.loader.exec_module(module)
    return module


async def _succeed(*command: str, place: Path | None = None) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=place, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), LONGEST)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, output.decode()
