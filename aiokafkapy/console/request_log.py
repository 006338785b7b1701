"""The latest requests, and the times of each API: bounded, and sampled when there are many. Pure: times are passed.

Owns the rows that the page's request log shows. Kafka's counterpart is its request log (``kafka.request.logger``) with
the request metrics.

Rules:

- beyond ``MOST_A_SECOND`` requests in a second, requests are counted and not kept, except for the first errors;
- an API's times are of its latest ``KEPT_TIMES`` requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ..common import percentile
from .model import ApiTimes, RequestRow

__all__ = ["RequestLog"]

MOST_ROWS: Final = 1_000
MOST_A_SECOND: Final = 100
MOST_ERRORS_A_SECOND: Final = 50
KEPT_TIMES: Final = 512


class _Api:
    __slots__ = ("errors", "longest_ms", "requests", "times")

    def __init__(self) -> None:
        self.requests = self.errors = 0
        self.longest_ms = 0.0
        self.times: deque[float] = deque(maxlen=KEPT_TIMES)


class RequestLog:
    """``note`` is called with every request; a row is made only for kept ones."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.left_out = 0
        self._rows: deque[RequestRow] = deque(maxlen=MOST_ROWS)
        self._apis: dict[str, _Api] = {}
        self._second = -1
        self._in_second = self._errors_in_second = 0

    def note(self, api: str, total_ms: float, *, is_error: bool, now: float, row: Callable[[int], RequestRow]) -> None:
        """Count a request, and keep its row, made from its number, unless there are too many."""
        self.requests += 1
        found = self._apis.get(api)
        if found is None:
            found = self._apis[api] = _Api()
        found.requests += 1
        found.times.append(total_ms)
        found.longest_ms = max(found.longest_ms, total_ms)
        if is_error:
            self.errors += 1
            found.errors += 1
        if int(now) != self._second:
            self._second = int(now)
            self._in_second = self._errors_in_second = 0
        if self._in_second < MOST_A_SECOND:
            self._in_second += 1
        elif is_error and self._errors_in_second < MOST_ERRORS_A_SECOND:
            self._errors_in_second += 1
        else:
            self.left_out += 1
            return
        self._rows.append(row(self.requests))

    def rows_after(self, number: int, most: int) -> list[RequestRow]:
        """The rows after the one of this number, oldest first; the newest ``most`` of them."""
        found: list[RequestRow] = []
        for row in reversed(self._rows):
            if row.number <= number or len(found) == most:
                break
            found.append(row)
        return found[::-1]

    def times(self) -> list[ApiTimes]:
        """The figures of each API, the busiest first."""
        busiest = sorted(self._apis.items(), key=lambda item: -item[1].requests)
        return [_times(name, one) for name, one in busiest]


def _times(name: str, api: _Api) -> ApiTimes:
    ordered = sorted(api.times)
    p50, p99 = (percentile(ordered, share) for share in (0.5, 0.99))
    return ApiTimes(name, api.requests, api.errors, round(p50, 3), round(p99, 3), round(api.longest_ms, 3))
