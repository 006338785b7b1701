"""The ASGI middleware, around an application of a few lines."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from aiokafkapy.errors import DeliveryTimeoutError
from aiokafkapy.integrations.asgi import DeadlineMiddleware, RequestHeadersMiddleware
from aiokafkapy.integrations.request_headers import carried
from aiokafkapy.producer.intake.record_deadlines import enclosing_deadline, open_deadlines


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


async def test_headers_of_an_answer_that_can_be_read_once_are_all_there() -> None:
    for own in ([(b"a", b"b"), (b"x-request-id", b"own")], [(b"a", b"b")]):
        given: Any = iter(own)
        _, (start, _) = await served({"type": "http", "headers": [(b"x-request-id", b"7")]}, given)
        assert start["headers"][: len(own)] == own


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


async def served_in_time(
    headers: list[tuple[bytes, bytes]], *, answers: bool = False, waits: bool = True, **options: Any
) -> tuple[float, list[Any]]:
    """The seconds that a call had in the application, and the messages to the client."""
    seen: list[float] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        found = enclosing_deadline.get()
        loop = asyncio.get_running_loop()
        seen.append(math.inf if found is None else found.ends_at(loop) - loop.time())
        if answers:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if waits:
            await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    try:
        await DeadlineMiddleware(app, **options)({"type": "http", "headers": headers}, None, send)
    finally:
        assert open_deadlines == set()
    return seen[0], sent


async def test_a_request_whose_time_is_over_is_answered_with_504() -> None:
    _, (start, body) = await served_in_time([], seconds=0.01)
    assert start["status"] == 504
    assert b"time" in body["body"]


@pytest.mark.parametrize("status", [500, 503])
async def test_a_framework_s_own_answer_of_500_when_time_is_over_becomes_504(status: int) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"its own"})
            raise

    async def send(message: Any) -> None:
        sent.append(message)

    serving = DeadlineMiddleware(app, 0.01)({"type": "http", "headers": []}, None, send)
    if status == 500:
        await serving
    else:
        with pytest.raises(TimeoutError):
            await serving
    assert [message.get("status") for message in sent] == [504 if status == 500 else 503, None]
    assert (sent[1]["body"] == b"its own") == (status != 500)


async def test_a_time_that_is_over_before_the_loop_s_timer_is_answered_with_504() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise DeliveryTimeoutError("the record has no time")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"x-ms", b"0")]
    await DeadlineMiddleware(app, 5, header="x-ms")({"type": "http", "headers": headers}, None, send)
    assert sent[0]["status"] == 504
    with pytest.raises(DeliveryTimeoutError):  # in time: it is the application's own
        await DeadlineMiddleware(app, 5)({"type": "http", "headers": headers}, None, send)


async def test_a_request_whose_answer_has_begun_fails() -> None:
    with pytest.raises(TimeoutError):
        await served_in_time([], seconds=0.01, answers=True)


@pytest.mark.parametrize(("seconds", "expected"), [(5, math.inf), (0, 0)])
async def test_once_the_answer_has_begun_records_have_the_producer_s_time(seconds: float, expected: float) -> None:
    """That does not hold for an answer that is replaced by 504: the client was told that the time is over."""
    left: list[float] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        block = enclosing_deadline.get()
        assert block is not None
        await send({"type": "http.response.start", "status": 500 if seconds == 0 else 202, "headers": []})
        loop = asyncio.get_running_loop()
        left.append(max(0, block.ends_at(loop) - loop.time()))

    async def send(message: Any) -> None:
        pass

    headers = [(b"x-ms", b"%d" % (1000 * seconds))]
    await DeadlineMiddleware(app, 60, header="x-ms")({"type": "http", "headers": headers}, None, send)
    assert left == [expected]


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(b"1500", 1.5), (b"90000", 5), (b"-1", 5), (b"1.5", 5), (b"", 5), (b"9" * 5000, 5), (b"\xb2", 5)],
)
async def test_a_header_only_shortens_its_time(given: bytes, seconds: float) -> None:
    headers = [(b"X-Timeout-Ms", given)]
    found, sent = await served_in_time(headers, seconds=5, header="x-timeout-ms", waits=False)
    assert seconds - 1 < found <= seconds
    assert sent == []
    found, _ = await served_in_time(headers, seconds=5, waits=False)
    assert 4 < found <= 5


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": -1}, {"seconds": 5, "header": "x timeout"}])
def test_a_deadline_that_cannot_be_meant_is_refused_at_once(options: Any) -> None:
    with pytest.raises(ValueError, match=r"seconds=|not the name of an HTTP header"):
        DeadlineMiddleware(None, **options)


async def test_a_lifespan_and_a_web_socket_have_no_deadline() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(enclosing_deadline.get())

    for kind in ("lifespan", "websocket"):
        await DeadlineMiddleware(app, 5)({"type": kind}, None, None)
    assert seen == [None, None]


async def test_an_answer_of_504_is_whole_though_the_time_ends_in_the_middle_of_it() -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": []})
        await send({"type": "http.response.body", "body": b"its own"})

    async def send(message: Any) -> None:
        sent.append(message)
        for _ in range(5):
            await asyncio.sleep(0)  # there it is cancelled

    scope = {"type": "http", "headers": [(b"x-ms", b"0")]}
    await DeadlineMiddleware(app, 5, header="x-ms")(scope, None, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 504
