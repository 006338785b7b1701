"""``Watch``: a source sampled once a tick for all open pages, and the view of each of them.

Owns the one task, the rates, the history of traffic and faults, and the messages of ``/api/live``. It must not know
HTTP. A slow page does not delay the others: each page takes the newest state when it is ready.

Rules:

- a source that is not always sampled rests while no page is open;
- a failing source is a ``problem`` in the message, with the reason, and is asked again at the next tick.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Final, NotRequired, TypedDict

from ..broker.faults.control_calls import ControlCall
from ..common import JsonLike
from ..errors import KafkaError
from .model import Sample, Topic, TopicDetail, as_json, fields_as_json
from .rates import History, Meters
from .source import Source

__all__ = ["Message", "Watch"]

MOST_ROWS: Final = 200
"""The most requests in one message."""
_ENDS: Final = {"delay": "seconds", "throttle": "ms", "stall_connections": "is_stalled"} | {
    "hold_transactions": "is_held",
    "refuse_authentication": "is_refused",
}
"""Controls that another call of the same control ends, with the argument for that."""


class Message(TypedDict):
    """The message to a page at a tick; ``events`` and ``points`` are those that it does not have yet."""

    now: int
    problem: str
    cluster: JsonLike
    totals: NotRequired[dict[str, int | None]]
    faults: NotRequired[JsonLike]
    view: Mapping[str, JsonLike] | None
    events: NotRequired[JsonLike]
    points: NotRequired[JsonLike]
    playback: NotRequired[JsonLike]


class Watch:
    """Samples ``source`` from ``start`` to ``stop``."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.history = History()
        self._task: asyncio.Task[None] | None = None
        self._turn: asyncio.Future[None] | None = None
        self._lookers = 0
        self._wanted = asyncio.Event()
        self._is_stopped = False
        # The last sample; views by their names, for all pages
        self._views: dict[str, Mapping[str, JsonLike]] = {}
        self._sample: Sample | None = None
        self._problem = ""
        self._by_topic = Meters(), Meters()
        self._rates: tuple[dict[str, float], dict[str, float]] = ({}, {})

    async def start(self) -> None:
        """Begin to sample."""
        self._is_stopped = False
        self._task = asyncio.create_task(self._run(), name="console-watch")

    async def stop(self) -> None:
        """End all pages' messages, and the task."""
        self._is_stopped = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._wake()

    def note_call(self, call: ControlCall, error: str | None = None) -> None:
        """A control was called: put it on the timeline."""
        self.history.add_event(_now_ms(), call.control, str(call), is_end=_is_end(call), error=error, fault=call.fault)

    async def look(self, view: str) -> AsyncGenerator[Message, None]:
        """Messages for a page that shows ``view``: at once, then at each tick. The first has the whole history."""
        last_event = last_row = 0
        is_first = True
        self._lookers += 1
        self._wanted.set()
        try:
            if self._sample is None and not self._problem:
                await self._next_turn()
            while not self._is_stopped:
                message = await self._message(view, last_row, is_first=is_first)
                events = [event for event in self.history.events if event.number > last_event]
                points = list(self.history.points)
                message["events"] = as_json(events)
                message["points"] = as_json(points if is_first else points[-1:])
                last_event = events[-1].number if events else last_event
                if view == "requests":
                    last_row = _last_number(message["view"], last_row)
                is_first = False
                yield message
                await self._next_turn()
        finally:
            self._lookers -= 1

    def topics(self, topics: list[Topic]) -> list[Topic]:
        """The topics with their rates."""
        records, sizes = self._rates
        return [
            replace(
                one,
                records_per_second=records.get(one.name, 0.0),
                bytes_per_second=sizes.get(one.name, 0.0) if one.size is not None else None,
            )
            for one in topics
        ]

    # internals

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if not self._lookers and not self.source.samples_always:
                self._wanted.clear()
                await self._wanted.wait()
                due = loop.time()
            await self._take_sample(loop.time())
            self._wake()
            due = max(due + self.source.tick, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _take_sample(self, now: float) -> None:
        try:
            sample = await self.source.sample()
        except (KafkaError, OSError) as error:
            self._problem = f"{type(error).__name__}: {error}"
            return
        self._problem = ""
        self._sample = sample
        self.history.add(sample, now, _now_ms())
        records, sizes = self._by_topic
        self._rates = (
            records.update(dict(sample.records), now),
            sizes.update(dict(sample.sizes or {}), now),
        )

    def _wake(self) -> None:
        self._views = {}
        turn, self._turn = self._turn, None
        if turn is not None and not turn.done():
            turn.set_result(None)

    async def _next_turn(self) -> None:
        if self._is_stopped:
            return
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._turn)

    async def _message(self, view: str, last_row: int, *, is_first: bool) -> Message:
        message: Message = {"now": _now_ms(), "problem": self._problem, "cluster": None, "view": None}
        message["totals"] = self._totals()
        message["faults"] = self.source.describe_faults()
        if self._problem:
            return message
        try:
            message["cluster"] = as_json(await self.source.cluster())
            message["view"] = await self._shared_view(view, last_row, is_first=is_first)
        except KafkaError as error:
            message["view"] = {"error": f"{type(error).__name__}: {error}"}
        return message

    def _totals(self) -> dict[str, int | None]:
        sample = self._sample
        if sample is None:
            return {}
        return {
            "topics": len(sample.records),
            "partitions": sample.partitions,
            "connections": sample.connections,
            "requests": sample.requests,
            "errors": sample.errors,
        }

    async def _shared_view(self, view: str, last_row: int, *, is_first: bool) -> Mapping[str, JsonLike]:
        """A view, made once per tick for all pages that show it, and again for a page's first tick, which must show
        the page's own changes. Requests are separate for each page: those after its last one.
        """
        if view == "requests":
            return await self._view(view, last_row)
        views = self._views  # a later tick has other points
        if is_first or view not in views:
            views[view] = await self._view(view, last_row)
        return views[view]

    async def _view(self, view: str, last_row: int) -> Mapping[str, JsonLike]:
        kind, _, name = view.partition(":")
        source = self.source
        match kind:
            case "topics":
                return {"rows": as_json(self.topics(await source.topics()))}
            case "topic":
                return fields_as_json(self._with_rates(await source.topic(name)))
            case "groups":
                return {"rows": as_json(await source.groups())}
            case "group":
                return fields_as_json(await source.group(name))
            case "transactions":
                return {"rows": as_json(await source.transactions())}
            case "clients":
                return {"rows": as_json(await source.clients())}
            case "requests" if source.request_log is not None:
                rows = source.request_log.rows_after(last_row, MOST_ROWS)
                times = source.request_log.times()
                return {"rows": as_json(rows), "times": as_json(times), "left_out": source.request_log.left_out}
            case "topic-names":
                return {"rows": [{"name": one.name, "partitions": one.partitions} for one in await source.topics()]}
        return {}

    def _with_rates(self, detail: TopicDetail) -> TopicDetail:
        (topic,) = self.topics([detail.topic])
        return replace(detail, topic=topic)


def _is_end(call: ControlCall) -> bool:
    argument = _ENDS.get(call.control)
    return call.control in ("clear", "end_fault", "start_node") or (
        argument is not None and not call.arguments[argument]
    )


def _last_number(view: Mapping[str, JsonLike] | None, before: int) -> int:
    """The number of a view's last request; ``before``'s if it has none."""
    match view:
        case {"rows": [*_, {"number": int(number)}]}:
            return number
    return before


def _now_ms() -> int:
    return int(time.time() * 1000)
