"""Answers over HTTP: ``bounded_body``, with which no server can fill the memory, and ``get_json``.

Thin I/O over httpx (extra ``oauth``), which is imported with the first request.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Final

from ...common import JsonValue
from ...errors import KafkaConnectionError
from ...worker_thread import run_in_thread

if TYPE_CHECKING:
    import httpx

__all__ = ["bounded_body", "get_json"]

MAX_ANSWER_BYTES: Final = 1_000_000


async def bounded_body(answer: httpx.Response) -> bytes:
    """The body of a streamed answer. Raises ValueError when it is longer than a million bytes."""
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError(f"its answer has more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(body)


async def get_json(url: str, seconds: float) -> JsonValue:
    """A server's answer at this URL, within ``seconds``. Raises KafkaConnectionError."""
    import httpx

    verify: ssl.SSLContext | bool = False
    if url.startswith("https:"):
        # Reading the system's trust store takes tens of milliseconds.
        verify = await run_in_thread(asyncio.get_running_loop(), ssl.create_default_context)
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(verify=verify, timeout=seconds) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as answer,
        ):
            answer.raise_for_status()
            found: JsonValue = json.loads(await bounded_body(answer))
            return found
    except Exception as error:  # errors of several layers: a port beyond 65,535 is an ExceptionGroup of anyio
        raise KafkaConnectionError(str(error) or type(error).__name__) from error
