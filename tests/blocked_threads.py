"""``blocked_default_executor``: the loop's own threads are all held by a user's blocking calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

__all__ = ["blocked_default_executor"]

HANG = 30.0


@asynccontextmanager
async def blocked_default_executor() -> AsyncIterator[None]:
    """Within, nothing begins in the loop's default executor; TimeoutError when the block waits for that."""
    is_over = threading.Event()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    blocked = asyncio.ensure_future(asyncio.to_thread(is_over.wait))
    try:
        async with asyncio.timeout(HANG):
            yield
    finally:
        is_over.set()
        await blocked
