"""The ASGI middleware, around an application of a few lines."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.integrations.asgi import RequestHeadersMiddleware
from aiokafkapy.integrations.request_headers import carried


async def served(scope: dict[str, Any], answer: list[tuple[bytes, bytes]], **options: Any) -> tuple[Any, list[Any]]:
    """The headers that the application carried, and the response to the client."""
    seen: list[Any] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(carried())
        await send({"type": f"{scope['type']}.response.start", "status": 200, "headers": answer})
        await send({"type": f"{scope['type']}.response.body"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    await RequestHeadersMiddleware(app, **options)(scope, receive, send)
    assert carried() == ()
    return seen[0], sent


async def test_a_request_s_headers_are_carried_while_it_is_served() -> None:
    headers = [(b"x-request-id", b"7"), (b"X-Tenant", b"blue"), (b"cookie", b"secret")]
    found, (start, body) = await served({"type": "http", "headers": headers}, [(b"a", b"b")], headers=["x-tenant"])
    assert found == (("x-request-id", b"7"), ("x-tenant", b"blue"))
    assert start["headers"] == [(b"a", b"b"), (b"x-request-id", b"7")]
    assert body == {"type": "http.response.body"}


async def test_a_generated_id_is_in_the_answer_too() -> None:
    found, (start, _) = await served({"type": "http", "headers": []}, [])
    assert start["headers"] == [(b"x-request-id", dict(found)["x-request-id"])]


async def test_the_application_s_own_id_is_not_overwritten() -> None:
    own = [(b"X-Request-ID", b"own")]
    _, (start, _) = await served({"type": "http", "headers": []}, own)
    assert start["headers"] == own


@pytest.mark.parametrize(
    ("scope", "carries"), [({"type": "websocket", "headers": []}, True), ({"type": "lifespan"}, False)]
)
async def test_a_web_socket_carries_headers_and_a_lifespan_passes(scope: dict[str, Any], carries: bool) -> None:
    found, (start, _) = await served(scope, [])
    assert bool(found) == carries
    assert start["headers"] == []


async def test_without_an_id_nothing_is_made_up() -> None:
    found, (start, _) = await served({"type": "http", "headers": []}, [], request_id=None)
    assert found == ()
    assert start["headers"] == []
