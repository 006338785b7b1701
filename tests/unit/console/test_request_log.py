"""The request log counts everything, keeps some, and prefers errors."""

from __future__ import annotations

from functools import partial

from aiokafkapy.console.request_log import MOST_A_SECOND, MOST_ERRORS_A_SECOND, MOST_ROWS, RequestLog

from .sources import request_row


def note(log: RequestLog, now: float, *, api: str = "PRODUCE", ms: float = 1.0, outcome: str = "ok") -> None:
    row = partial(request_row, api=api, ms=ms, outcome=outcome)
    log.note(api, ms, is_error=outcome != "ok", now=now, row=row)


def test_rows_come_oldest_first_behind_the_one_that_was_seen() -> None:
    log = RequestLog()
    for second in range(5):
        note(log, second)
    assert [row.number for row in log.rows_after(0, 100)] == [1, 2, 3, 4, 5]
    assert [row.number for row in log.rows_after(3, 100)] == [4, 5]
    assert [row.number for row in log.rows_after(0, 2)] == [4, 5]
    assert log.rows_after(5, 100) == []


def test_some_requests_of_a_flood_are_kept_and_the_rest_is_counted() -> None:
    log = RequestLog()
    for _ in range(10_000):
        note(log, 7.5)
    for _ in range(1_000):
        note(log, 7.9, outcome="CorruptMessageError")
    kept = log.rows_after(0, MOST_ROWS)
    assert (log.requests, log.errors) == (11_000, 1_000)
    assert len(kept) == MOST_A_SECOND + MOST_ERRORS_A_SECOND
    assert sum(row.outcome != "ok" for row in kept) == MOST_ERRORS_A_SECOND
    assert log.left_out == 11_000 - len(kept)
    note(log, 8.0)
    assert len(log.rows_after(0, MOST_ROWS)) == len(kept) + 1


def test_rows_are_bounded() -> None:
    log = RequestLog()
    for second in range(3 * MOST_ROWS):
        note(log, second)
    assert len(log.rows_after(0, 10**6)) == MOST_ROWS


def test_an_api_has_its_times_and_the_busiest_comes_first() -> None:
    log = RequestLog()
    for number in range(100):
        note(log, number, ms=float(number))
    note(log, 200, api="FETCH", ms=500.0, outcome="closed")
    produce, fetch = log.times()
    assert (produce.api, produce.requests, produce.errors) == ("PRODUCE", 100, 0)
    assert (produce.p50_ms, produce.p99_ms, produce.longest_ms) == (50.0, 99.0, 99.0)
    assert (fetch.api, fetch.errors, fetch.longest_ms) == ("FETCH", 1, 500.0)
