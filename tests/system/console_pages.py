"""A client that asks the console as its page does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from aiokafkapy.console.guard import HEADER

__all__ = ["events", "page_of"]


@asynccontextmanager
async def page_of(url: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client that does as our page does."""
    headers = {HEADER: "1", **options.pop("headers", {})}
    async with httpx.AsyncClient(base_url=url.partition("?")[0], headers=headers, trust_env=False, **options) as page:
        yield page


async def events(page: httpx.AsyncClient, path: str, **parameters: Any) -> AsyncGenerator[dict[str, Any], None]:
    """The messages of a stream; the last is that of its end."""
    async with page.stream("GET", path, params=parameters, timeout=10) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))
