"""The services of ``examples``, loaded into a test's own process, with a database and a broker of the test's own."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from aiokafkapy.broker import DevBroker

__all__ = ["EXAMPLES", "load_example", "service_of"]

EXAMPLES = Path(__file__).parents[1] / "examples"


def load_example(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, broker: DevBroker) -> ModuleType:
    """The example's module; it reads its settings from the environment, and leaves this process's logging alone."""
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("DATABASE_URL", f"sqlite+aiosqlite:///{folder / 'orders.db'}")
    monkeypatch.setattr("aiokafkapy.observability.programs.configure_logging", lambda *_, **__: None)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def service_of(module: ModuleType) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the example's service, which runs within the block."""
    transport = httpx.ASGITransport(module.app)
    async with (
        module.app.router.lifespan_context(module.app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        yield client
