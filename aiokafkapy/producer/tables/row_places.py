"""``RowPlaces``: the places and outcomes of a table's rows, without an object for each row.

Owns the way from a row's number to its place in a batch and back. It knows no batches, only their results, and neither
tables nor topics. Java has no counterpart.

Rows are sent by windows, and within a window in the order of their lanes (``record/arrow_rows``); a *place* is a
number in the order of sending. It keeps for each window its rows' lanes, a byte or two a row, or nothing when all
went to one; for each run of places in one batch its result, and the first index there. Everything else is looked up.

Rules: every row of a window gets a place, also a row that was never accepted; such rows have a separate result, which
has already failed.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ...common import TopicPartition
from ...record.arrow_rows import order_of
from ..deliveries.produce_request_result import ProduceRequestResult, SettlementCounter

__all__ = ["RowPlaces"]

ROWS_PER_TURN: Final = 20_000
"""Failed rows that are found before the loop gets its turn."""
RUNS_PER_LOOK: Final = 1_000
LOOK_COST: Final = 1_000
"""Runs that are read at a time, and the rows that these count for."""
NOWHERE: Final = TopicPartition("", -1)


class RowPlaces:
    """The places of one call's rows."""

    __slots__ = (
        "_firsts",
        "_kept_order",
        "_kept_window",
        "_last",
        "_next_index",
        "_outstanding",
        "_results",
        "_starts",
        "_window_lanes",
        "_window_rows",
        "count",
        "failed",
        "row_count",
    )

    def __init__(self) -> None:
        # Runs: the result, the index there of the first record, and its place
        self._results: list[ProduceRequestResult] = []
        self._firsts = array("q")
        self._starts = array("q")
        self.count = 0
        self._last: ProduceRequestResult | None = None
        self._next_index = 0
        # Windows: the first row, which is also the first place, and the lanes
        self._window_rows = array("q")
        self._window_lanes: list[Sequence[int] | None] = []
        self.row_count = 0
        # Rows still on their way, and those that failed, once all have their outcome
        self._outstanding = Outstanding()
        self.failed = array("q")
        # The order of the window that was read last
        self._kept_window = -1
        self._kept_order: tuple[Sequence[int], Sequence[int]] = ((), ())

    # filling

    def begin_window(self, count: int, lanes: Sequence[int] | None) -> None:
        """The next ``count`` rows will be sent in the order of these lanes, or as they are."""
        is_plain = lanes is None
        if not (is_plain and self._window_lanes and self._window_lanes[-1] is None):
            self._window_rows.append(self.row_count)
            self._window_lanes.append(lanes)
        self.row_count += count

    def add_span(self, result: ProduceRequestResult, first_index: int, count: int) -> None:
        """The next ``count`` places are those of ``result`` from ``first_index`` on."""
        if self._last is not result or self._next_index != first_index:
            self._begin_run(result, first_index)
        self._next_index = first_index + count
        self.count += count

    def add_failed(self, count: int, error: BaseException | Callable[[int], BaseException]) -> None:
        """The next ``count`` places are rows that were not accepted: one error for all, or one for each index."""
        if count:
            result = ProduceRequestResult(NOWHERE)
            result.record_count = count
            result.fail(error)
            self.add_span(result, 0, count)

    @property
    def outstanding(self) -> int:
        """Runs that have no outcome yet."""
        return self._outstanding.remaining

    async def progress(self, deadline: float) -> bool:
        """Wait until another run has its outcome; False when the deadline, in loop time, came first."""
        return await self._outstanding.next(deadline)

    async def settled(self) -> None:
        """Wait until every row has its outcome, and put those that failed into ``failed``, in the order of rows."""
        while self._outstanding.remaining:
            await self._outstanding.next(math.inf)
        looked_at = 0
        for window in range(len(self._window_rows)):
            for rows in self._failed_of(window):
                self.failed.extend(rows)
                looked_at += LOOK_COST + len(rows)
                if looked_at > ROWS_PER_TURN:
                    looked_at = 0
                    await asyncio.sleep(0)

    # outcomes; every row must have one

    def locate(self, row: int) -> tuple[ProduceRequestResult, int]:
        """The result of a row, and its index there."""
        window = bisect_right(self._window_rows, row) - 1
        place = row
        if self._window_lanes[window] is not None:
            first = self._window_rows[window]
            place = first + self._order(window)[1][row - first]
        run = bisect_right(self._starts, place) - 1
        return self._results[run].follow(self._firsts[run] + place - self._starts[run])

    def delivered(self) -> Iterator[tuple[ProduceRequestResult, int, int]]:
        """The runs of delivered rows: result, first index there, number of rows."""
        for number, result in enumerate(self._results):
            first = self._firsts[number]
            count = self._end_of(number) - self._starts[number]
            if result.has_succeeded:
                yield result, first, count
            elif not result.is_settled or result.is_moved:
                for index in range(first, first + count):
                    there, index_there = result.follow(index)
                    if there.has_succeeded:
                        yield there, index_there, 1

    # internals

    def _begin_run(self, result: ProduceRequestResult, first_index: int) -> None:
        self._last = result
        self._results.append(result)
        self._firsts.append(first_index)
        self._starts.append(self.count)
        self._outstanding.watch(result)

    def _end_of(self, run: int) -> int:
        return self._starts[run + 1] if run + 1 < len(self._starts) else self.count

    def _failed_of(self, window: int) -> Iterator[Sequence[int]]:
        """The rows of a window that failed, in pieces, in order; some pieces are empty."""
        first = self._window_rows[window]
        end = self._window_rows[window + 1] if window + 1 < len(self._window_rows) else self.row_count
        run = max(0, bisect_right(self._starts, first) - 1)
        is_plain = self._window_lanes[window] is None
        places: list[Sequence[int]] = []
        looked_at = 0
        while run < len(self._results) and self._starts[run] < end:
            if not self._results[run].has_succeeded:
                found = self._failed_places(run, first, end)
                if is_plain:
                    yield found
                else:
                    places.append(found)
            looked_at += 1
            if looked_at % RUNS_PER_LOOK == 0:
                yield ()
            run += 1
        if places:
            order = self._order(window)[0]
            yield sorted(first + order[place - first] for piece in places for place in piece)

    def _failed_places(self, run: int, first: int, end: int) -> Sequence[int]:
        """The places from ``first`` to ``end`` of a run whose records failed."""
        start = self._starts[run]
        places = range(max(first, start), min(end, self._end_of(run)))
        result = self._results[run]
        if not result.is_moved:
            return places
        index = self._firsts[run] - start
        return [place for place in places if not result.follow(index + place)[0].has_succeeded]

    def _order(self, window: int) -> tuple[Sequence[int], Sequence[int]]:
        """The row at each place of a window with lanes, and the place of each row."""
        if self._kept_window != window:
            self._kept_window, self._kept_order = window, order_of(self._window_lanes[window] or ())
        return self._kept_order


class Outstanding(SettlementCounter):
    """Counts runs without an outcome, a batch once for each of its runs, and wakes the waiting task at each outcome."""

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        super().__init__()
        self._waiter: asyncio.Future[bool] | None = None

    def count_down(self) -> None:
        """A run has its outcome."""
        super().count_down()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            try:
                waiter.set_result(True)
            except RuntimeError:  # its loop is closed
                pass

    async def next(self, deadline: float) -> bool:
        """Wait for the next outcome, which must still be to come; False when the deadline came first."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = None if deadline == math.inf else loop.call_at(deadline, _give_up, waiter)
        try:
            return await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()


def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
