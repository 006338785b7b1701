"""A schedule of faults while it is played: one timer, and the outcome of each call.

Owns the timer and the outcome. ``fault_schedule`` decides the faults, and ``apply`` calls the control.
Kafka has no counterpart.

Rules:

- a call that fails (the topic is not there) is noted, and the next ones come all the same; ``wait`` raises it;
- ``stop`` calls ``clear`` and restarts the nodes that the schedule has stopped, so an interrupted one leaves no fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .control_calls import ControlCall, is_number
from .fault_schedule import FaultSchedule

__all__ = ["Playback"]


class Playback:
    """One playing of a schedule, which begins when it is made. ``speed`` 2 plays it in half the time.

    ``failures`` has the calls that raised, with their errors.
    """

    def __init__(self, schedule: FaultSchedule, apply: Callable[[ControlCall], object], *, speed: float = 1.0) -> None:
        """Needs a running loop. ValueError for a speed that is not above 0."""
        if not (is_number(speed) and speed > 0):
            raise ValueError(f"speed={speed}: write a number above 0")
        self.schedule = schedule
        self.failures: list[tuple[ControlCall, Exception]] = []
        self._apply = apply
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._next = 0
        self._stopped_nodes: set[int] = set()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or was stopped."""
        return self._ended.done()

    @property
    def played(self) -> int:
        """The number of faults whose time has come."""
        return self._next

    @property
    def position(self) -> float:
        """Seconds of the schedule that are over."""
        return min((self._loop.time() - self._began) * self._speed, self.schedule.seconds)

    async def wait(self) -> None:
        """Return when the schedule is over; raises the first error of a call. Cancelling it goes on playing."""
        await asyncio.shield(self._ended)
        if self.failures:
            raise self.failures[0][1]

    def stop(self) -> None:
        """End it now: no more faults, and none in force. Idempotent."""
        if self.is_over:
            return
        self._end()
        for node_id in sorted(self._stopped_nodes):
            self._call(ControlCall.of("start_node", {"node_id": node_id}))
        self._call(ControlCall.of("clear"))

    def abandon(self) -> None:
        """End it and leave things as they are: the broker itself stops."""
        if not self.is_over:
            self._end()

    # asyncio callbacks

    def _on_timer(self) -> None:
        self._timer = None
        faults = self.schedule.faults
        while self._next < len(faults) and faults[self._next].at <= self._now():
            fault = faults[self._next]
            self._next += 1
            self._call(fault.call)
            if self.is_over:
                return  # the call has stopped us
        self._arm()

    # internals

    def _now(self) -> float:
        # A timer may fire a clock tick early, and floats are rounded.
        return (self._loop.time() - self._began) * self._speed + 1e-6

    def _arm(self) -> None:
        faults, seconds = self.schedule.faults, self.schedule.seconds
        if self._next == len(faults) and self._now() >= seconds:
            self._end()
            return
        at = faults[self._next].at if self._next < len(faults) else seconds
        self._timer = self._loop.call_at(self._began + at / self._speed, self._on_timer)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ended.set_result(None)

    def _call(self, call: ControlCall) -> None:
        try:
            self._apply(call)
        except Exception as error:  # noted; the later calls are made all the same
            self.failures.append((call, error))
            return
        match call.control, call.arguments.get("node_id"):
            case "stop_node", int(node_id):
                self._stopped_nodes.add(node_id)
            case "start_node", int(node_id):
                self._stopped_nodes.discard(node_id)
