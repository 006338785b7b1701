"""The console's routes: the page, JSON, and server-sent events.

Owns the way from a request to ``watch``, ``follow`` and the source, and from an error to an answer. ``guard`` decides
first, for every request, whether it is answered at all. It knows only the controls of a broker.

Rules:

- an error is JSON with one ``error`` for people: 400 for a wrong argument, 404 for an unknown name, 409 for a broker's
  refusal; a stream sends it as an event and ends;
- the page may only load from here (CSP), and caches keep no answer;
- a request's body is small: a larger one is refused before it is read.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as AsgiMessage

from .. import __version__
from ..broker.faults.control_calls import CONTROLS, ControlCall, error_names, is_number
from ..broker.faults.fault_schedule import FaultSchedule
from ..common import Headers, JsonLike, JsonObject, JsonValue
from ..errors import KafkaError
from ..protocol.api import ApiKey
from .decoding import FORMS
from .follow import Asked, Followed, follow, read_one, read_page
from .guard import Guard
from .model import as_json
from .source import NewRecord

if TYPE_CHECKING:
    from .decoding import Decoder
    from .shown_broker import ShownBroker
    from .source import Source
    from .watch import Message, Watch

__all__ = ["make_app"]

PAGE: Final = Path(__file__).parent / "static"
MOST_BODY: Final = 4 * 1024 * 1024
MOST_HEADERS: Final = 100
PAGE_ROWS: Final = 200
_SECURITY: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class ShownConsole(Protocol):
    """The part of ``Console`` that is used here."""

    source: Source
    registry: Decoder | None
    watch: Watch
    is_read_only: bool
    is_stopping: bool
    streams: set[asyncio.Task[None]]


def make_app(console: ShownConsole, guard: Guard) -> ASGIApp:
    """The application of one console."""
    handlers = _Handlers(console)
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/api/about", handlers.about),
            Route("/api/live", handlers.live),
            Route("/api/follow", handlers.follow),
            Route("/api/records", handlers.records, methods=["GET"]),
            Route("/api/records", handlers.produce, methods=["POST"]),
            Route("/api/record", handlers.record),
            Route("/api/schedule", handlers.draw, methods=["GET"]),
            Route("/api/schedule", handlers.play, methods=["POST"]),
            Route("/api/schedule/stop", handlers.stop_playing, methods=["POST"]),
            Route("/api/controls/{control}", handlers.control, methods=["POST"]),
            Mount("/static", StaticFiles(directory=PAGE)),
        ],
        middleware=[Middleware(_GuardMiddleware, guard=guard)],
        exception_handlers={ValueError: _refused(400), KafkaError: _refused(409), LookupError: _refused(404)},
    )


class _Handlers:
    """One method for each route."""

    def __init__(self, console: ShownConsole) -> None:
        self._console = console

    # the page's data

    async def about(self, request: Request) -> Response:
        """The facts that the page needs once."""
        console = self._console
        return JSONResponse(
            {
                "version": __version__,
                "abilities": as_json(console.source.abilities),
                "is_read_only": console.is_read_only,
                "has_registry": console.registry is not None,
                "forms": list(FORMS),
                "controls": as_json(list(CONTROLS.values())) if console.source.abilities.faults else [],
                "errors": error_names(),
                "apis": [each.name for each in ApiKey],
            }
        )

    async def live(self, request: Request) -> Response:
        """Messages of the watch, once a second, for the shown view."""
        view = request.query_params.get("view", "topics")

        async def messages() -> AsyncGenerator[Message, None]:
            async for message in self._console.watch.look(view):
                message["playback"] = self._playback()
                yield message

        return self._events(messages())

    async def follow(self, request: Request) -> Response:
        """Records as they are written."""
        source, registry = self._console.source, self._console.registry

        async def messages() -> AsyncGenerator[Followed, None]:
            # A wrong parameter is an event of the stream, too: a page cannot read the answer of an EventSource that
            # failed.
            async with aclosing(follow(source, Asked.of(request.query_params), registry)) as found:
                async for message in found:
                    yield message

        return self._events(messages())

    async def records(self, request: Request) -> Response:
        """Records from a position on."""
        limit = request.query_params.get("limit", str(PAGE_ROWS))
        if not limit.isdigit():
            raise ValueError(f"limit={limit!r}: it is a number")
        asked = Asked.of(request.query_params)
        return JSONResponse(await read_page(self._console.source, asked, self._console.registry, int(limit)))

    async def record(self, request: Request) -> Response:
        """One record, in full."""
        asked = Asked.of(request.query_params)
        if asked.partition is None or asked.start.kind != "offset":
            raise ValueError("a record is named by partition=N and from=offset:N")
        found = await read_one(self._console.source, asked, self._console.registry)
        if found is None:
            raise LookupError(f"there is no record at offset {asked.start.number} of {asked.topic}-{asked.partition}")
        return JSONResponse(found)

    # calls that change something

    async def produce(self, request: Request) -> Response:
        """Write a record."""
        record = _new_record(await _body(request))
        return JSONResponse(as_json(await self._console.source.produce(record)))

    async def control(self, request: Request) -> Response:
        """Call a control of the dev broker."""
        call = ControlCall.of(request.path_params["control"], await _body(request))
        try:
            result = self._broker().controls.apply(call)
        except KafkaError as error:
            self._console.watch.note_call(call, str(error))
            raise
        return JSONResponse({"result": result if isinstance(result, int | str) else None})

    async def draw(self, request: Request) -> Response:
        """The schedule of a seed, without playing it."""
        query = request.query_params
        try:
            seed, seconds = int(query.get("seed", "1")), float(query.get("seconds", "60"))
        except ValueError:
            raise ValueError("seed is a whole number, and seconds a number") from None
        broker = self._broker()
        topics = {one.name: len(one.partitions) for one in broker.state.topics if not one.is_internal}
        schedule = FaultSchedule.from_seed(seed, seconds=seconds, topics=topics, nodes=len(broker.nodes))
        return JSONResponse(schedule.to_json())

    async def play(self, request: Request) -> Response:
        """Play the schedule of the body."""
        body = await _body(request)
        speed = body.get("speed", 1.0)
        if not is_number(speed):
            raise ValueError(f"speed={speed!r}: it is a number")
        schedule = FaultSchedule.from_json(body.get("schedule"))
        self._broker().controls.play(schedule, speed=float(speed))
        return JSONResponse(self._playback())

    async def stop_playing(self, request: Request) -> Response:
        """Stop the schedule being played, if any."""
        playback = self._broker().controls.playback
        if playback is not None:
            playback.stop()
        return JSONResponse(self._playback())

    # internals

    def _broker(self) -> ShownBroker:
        broker = self._console.source.broker
        if broker is None:
            raise LookupError("only a dev broker has faults")
        return broker

    def _playback(self) -> dict[str, JsonLike] | None:
        broker = self._console.source.broker
        playback = None if broker is None else broker.controls.playback
        if playback is None:
            return None
        return {
            "seed": playback.schedule.seed,
            "seconds": playback.schedule.seconds,
            "position": round(playback.position, 2),
            "played": playback.played,
            "faults": len(playback.schedule.faults),
            "is_over": playback.is_over,
            "failures": [f"{call}: {error}" for call, error in playback.failures[-20:]],
        }

    def _events(self, messages: AsyncGenerator[Mapping[str, object], None]) -> Response:
        async def stream() -> AsyncGenerator[str, None]:
            try:
                async for message in messages:
                    yield f"data: {json.dumps(message, separators=(',', ':'))}\n\n"
                    if self._console.is_stopping:
                        break
                yield "event: end\ndata: {}\n\n"
            except (KafkaError, ValueError, LookupError) as error:
                yield f"event: problem\ndata: {json.dumps({'error': str(error)})}\n\n"
            finally:
                await messages.aclose()

        return _EventStream(stream(), self._console.streams)


class _EventStream(StreamingResponse):
    """Server-sent events, sent by a task that is cancelled once when the page goes away.

    Starlette itself cancels by a scope of anyio, which also cancels each await while the stream closes: its readers of
    a cluster would stay open.
    """

    def __init__(self, events: AsyncGenerator[str, None], streams: set[asyncio.Task[None]]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them until they end, or the page is gone; ``streams`` has the task until it is closed completely."""
        sending = asyncio.create_task(self._send(send), name="console-stream")
        self._streams.add(sending)
        sending.add_done_callback(self._streams.discard)
        leaving = asyncio.create_task(self.listen_for_disconnect(receive), name="console-disconnect")
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.wait({sending, leaving})
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        async with aclosing(self._events):
            await self.stream_response(send)


class _GuardMiddleware:
    """Asks the guard, and adds the headers of security to every answer."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in _SECURITY.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        request = Request(scope)
        answer = self._answer(request)
        await (self._app if answer is None else answer)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        """The guard's own answer in place of the application's, if any."""
        guard = self._guard
        given = request.query_params.get("token")
        if request.method == "GET" and request.url.path == "/" and given is not None and guard.is_token(given):
            refusal = guard.refusal("GET", request.headers, given)
            if refusal is None:
                # The token goes from the address, which histories keep, into a cookie.
                redirect = RedirectResponse("/", 303)
                redirect.set_cookie(guard.cookie, given, httponly=True, samesite="strict", secure=guard.has_tls)
                return redirect
        else:
            refusal = guard.refusal(request.method, request.headers, request.cookies.get(guard.cookie))
        if refusal is None:
            return None
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": refusal.reason}, refusal.status)
        return Response(f"{refusal.reason}\n", refusal.status, media_type="text/plain")


# internals


async def _page(request: Request) -> Response:
    return Response((PAGE / "index.html").read_bytes(), media_type="text/html")


def _refused(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        text = error.args[0] if isinstance(error, LookupError) and error.args else error
        return JSONResponse({"error": str(text)}, status)

    return answer


async def _body(request: Request) -> JsonObject:
    """The JSON object of a request. Raises ValueError."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise ValueError("the body is application/json")
    data = bytearray()
    body: JsonValue
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BODY:
            raise ValueError(f"the body has more than {MOST_BODY} bytes")
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    return body


def _new_record(body: JsonObject) -> NewRecord:
    topic, partition = body.get("topic"), body.get("partition")
    if not isinstance(topic, str) or not topic:
        raise ValueError("topic is missing")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int) or partition < 0):
        raise ValueError(f"partition={partition!r}: it is a number, or null")
    return NewRecord(
        topic,
        _bytes(body, "value"),
        _bytes(body, "key"),
        partition,
        _headers(body.get("headers", [])),
    )


def _bytes(body: JsonObject, name: str) -> bytes | None:
    """A key or value in one of the forms that can be written."""
    text, form = body.get(name), body.get(f"{name}_form", "text")
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{name}={text!r}: it is a text, or null")
    try:
        match form:
            case "text":
                return text.encode()
            case "json":
                json.loads(text)
                return text.encode()
            case "hex":
                return bytes.fromhex(text)
            case "base64":
                return base64.b64decode(text, validate=True)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is no {form}: {error}") from None
    raise ValueError(f"{name}_form={form!r}: write text, json, hex or base64")


def _headers(entries: JsonValue) -> Headers:
    if not isinstance(entries, list) or len(entries) > MOST_HEADERS:
        raise ValueError(f"headers are a list of at most {MOST_HEADERS} [name, value]")
    found: list[tuple[str, bytes | None]] = []
    for entry in entries:
        name, value = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise ValueError(f"{entry!r} is not a header: write [name, value], the value a text or null")
        found.append((name, None if value is None else value.encode()))
    return found
