"""Records that wait for room: a queue of tickets, first come, first served.

Owns the order of those who wait for ``buffer_memory``, and their deadlines. It appends nothing itself: the accumulator
takes the first ticket whenever memory came back, so a waiter costs nothing until it is its turn and exactly as many are
served as fit. It has no counterpart in Java, where threads wait on conditions inside ``BufferPool``.

Rules: a ticket ends once, granted, failed or cancelled; cancelling is O(1) in any order; what a ticket held is let go
at its end. The callbacks are called from within the accumulator: they may cancel other tickets and ask for new ones.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...common import Headers
from ..deliveries.delivery import Delivery

__all__ = ["AppendTicket", "AppendTickets"]


class AppendTicket:
    """One record's place in the queue. It calls ``on_granted`` or ``on_failed``, once, unless it is cancelled."""

    __slots__ = (
        "_queue",
        "deadline",
        "headers",
        "key",
        "on_failed",
        "on_granted",
        "partition",
        "size",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self,
        queue: AppendTickets,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: Any,
        value: Any,
        headers: Headers | None,
        *,
        size: int,
        deadline: float,
        on_granted: Callable[[Delivery], object],
        on_failed: Callable[[BaseException], object],
    ) -> None:
        self._queue: AppendTickets | None = queue
        # The record, ready to be appended
        self.topic = topic
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.size = size
        # The wait
        self.deadline = deadline
        self.on_granted = on_granted
        self.on_failed = on_failed

    @property
    def is_waiting(self) -> bool:
        """False once the ticket was granted, failed or cancelled."""
        return self._queue is not None

    def cancel(self) -> bool:
        """Leave the queue: the record will never be sent. False when it was too late."""
        queue = self._queue
        if queue is None:
            self.leave()
            return False
        queue.remove(self)
        queue.on_cancelled()
        return True

    def granted(self, delivery: Delivery) -> None:
        """The record was appended."""
        on_granted = self.on_granted
        self._end()
        on_granted(delivery)

    def failed(self, error: BaseException) -> None:
        """The record will not be appended."""
        on_failed = self.on_failed
        self._end()
        on_failed(error)

    def _end(self) -> None:
        if self._queue is not None:
            self._queue.remove(self)

    def leave(self) -> None:
        """Let go of everything; called by the queue, and after its ``clear()``."""
        self._queue = None
        self.key = self.value = self.headers = None
        self.on_granted = self.on_failed = _ignore


class AppendTickets:
    """The queue. ``on_cancelled`` is called after a ticket was cancelled: the next one may fit."""

    __slots__ = ("_deadlines", "_number", "_tickets", "bytes_waiting", "on_cancelled")

    def __init__(self, on_cancelled: Callable[[], object]) -> None:
        self.on_cancelled = on_cancelled
        self.bytes_waiting = 0
        # An OrderedDict, for its first entry is found in O(1) also after many removals.
        self._tickets: OrderedDict[AppendTicket, None] = OrderedDict()
        # (deadline, number, ticket); those that ended are thrown out when they come to the top.
        self._deadlines: list[tuple[float, int, AppendTicket]] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._tickets)

    def add(self, ticket: AppendTicket) -> None:
        """Queue ``ticket`` last."""
        self._tickets[ticket] = None
        self.bytes_waiting += ticket.size
        self._number += 1
        heapq.heappush(self._deadlines, (ticket.deadline, self._number, ticket))

    def remove(self, ticket: AppendTicket) -> None:
        """Take ``ticket`` out, wherever it stands."""
        del self._tickets[ticket]
        self.bytes_waiting -= ticket.size
        ticket.leave()
        if not self._tickets:
            self._deadlines.clear()
        elif len(self._deadlines) > 2 * len(self._tickets) + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[2].is_waiting]
            heapq.heapify(self._deadlines)

    def clear(self) -> None:
        """Take all out. Who put them in lets each ``leave()``: if ten thousand did so at once, the loop was held."""
        for ticket in self._tickets:
            ticket._queue = None
        self._tickets.clear()
        self._deadlines.clear()
        self.bytes_waiting = 0

    @property
    def first(self) -> AppendTicket | None:
        """Who is next."""
        return next(iter(self._tickets), None)

    @property
    def next_deadline(self) -> float:
        """The earliest deadline, or infinity."""
        self._drop_ended()
        return self._deadlines[0][0] if self._deadlines else float("inf")

    def first_expired(self, now: float) -> AppendTicket | None:
        """A ticket whose deadline has come, or None; it stays queued until it ends."""
        self._drop_ended()
        if self._deadlines and self._deadlines[0][0] <= now:
            return self._deadlines[0][2]
        return None

    def _drop_ended(self) -> None:
        while self._deadlines and not self._deadlines[0][2].is_waiting:
            heapq.heappop(self._deadlines)


def _ignore(_: object) -> None:
    """What an ended ticket calls."""
