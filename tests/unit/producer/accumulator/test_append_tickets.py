"""The line of those who wait for room."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.producer.accumulator.append_tickets import AppendTicket, AppendTickets


class Line:
    """Tickets with their numbers, and what happened to them."""

    def __init__(self) -> None:
        self.cancellations = 0
        self.granted: list[int] = []
        self.failed: list[tuple[int, BaseException]] = []
        self.tickets = AppendTickets(self._on_cancelled)

    def _on_cancelled(self) -> None:
        self.cancellations += 1

    def add(self, number: int, deadline: float = inf, size: int = 10) -> AppendTicket:
        ticket = AppendTicket(
            self.tickets, "t", number, 1, b"key", b"value", (("h", b"x"),),
            size=size, deadline=deadline,
            on_granted=lambda _: self.granted.append(number),
            on_failed=lambda error: self.failed.append((number, error)),
        )  # fmt: skip
        self.tickets.add(ticket)
        return ticket

    def numbers(self) -> list[int]:
        return [ticket.partition for ticket in self.tickets._tickets]


@pytest.fixture
def line() -> Line:
    return Line()


def test_first_come_is_first(line: Line) -> None:
    tickets = [line.add(number) for number in range(3)]
    assert line.tickets.first is tickets[0]
    delivery: Any = object()
    tickets[0].granted(delivery)
    assert line.granted == [0]
    assert line.tickets.first is tickets[1]
    assert len(line.tickets) == 2
    assert line.tickets.bytes_waiting == 20


def test_a_ticket_lets_go_of_its_record_at_its_end(line: Line) -> None:
    ticket = line.add(0)
    assert ticket.is_waiting
    assert ticket.cancel()
    assert not ticket.is_waiting
    assert (ticket.key, ticket.value, ticket.headers) == (None, None, None)


def test_a_ticket_ends_once(line: Line) -> None:
    ticket = line.add(0)
    ticket.failed(ValueError("no"))
    assert not ticket.cancel()
    delivery: Any = object()
    ticket.granted(delivery)
    ticket.failed(ValueError("again"))
    assert [number for number, _ in line.failed] == [0]
    assert line.granted == []
    assert line.cancellations == 0


def test_a_line_that_is_cleared_is_empty_and_its_tickets_let_go_one_by_one(line: Line) -> None:
    left, cancelled = line.add(0, deadline=1.0), line.add(1)
    line.tickets.clear()
    assert (len(line.tickets), line.tickets.bytes_waiting, line.tickets.next_deadline) == (0, 0, inf)
    assert line.tickets.first is None
    assert not left.is_waiting
    left.leave()
    assert not cancelled.cancel()  # its task gave up before it was told
    for ticket in (left, cancelled):
        assert ticket.key is ticket.value is ticket.headers is None
    assert (line.granted, line.failed, line.cancellations) == ([], [], 0)


def test_the_next_in_line_is_tried_after_a_cancellation(line: Line) -> None:
    first, second = line.add(0), line.add(1)
    assert first.cancel()
    assert line.cancellations == 1
    assert line.tickets.first is second


def test_deadlines_are_met_in_their_order_and_not_in_that_of_the_line(line: Line) -> None:
    line.add(0, deadline=30.0)
    line.add(1, deadline=10.0)
    line.add(2)
    line.add(3, deadline=20.0)
    assert line.tickets.next_deadline == 10.0
    assert line.tickets.first_expired(9.999) is None
    expired = []
    while (ticket := line.tickets.first_expired(20.0)) is not None:
        expired.append(ticket.partition)
        ticket.failed(TimeoutError())
    assert expired == [1, 3]
    assert line.tickets.next_deadline == 30.0
    assert line.numbers() == [0, 2]


def test_no_deadline_is_left_behind_by_those_who_went(line: Line) -> None:
    tickets = [line.add(number, deadline=float(number)) for number in range(1000)]
    for ticket in tickets[:-1]:
        ticket.cancel()
    assert len(line.tickets._deadlines) < 100
    assert line.tickets.next_deadline == 999.0
    tickets[-1].cancel()
    assert line.tickets.next_deadline == inf
    assert line.tickets._deadlines == []
    assert line.tickets.bytes_waiting == 0


@given(st.lists(st.tuples(st.sampled_from(["add", "cancel", "grant", "expire"]), st.integers(0, 50))))
def test_any_history_keeps_the_line_in_order(steps: list[tuple[str, int]]) -> None:
    line = Line()
    waiting: dict[int, tuple[AppendTicket, float, int]] = {}
    number = 0
    for step, argument in steps:
        if step == "add":
            ticket = line.add(number, deadline=float(argument), size=argument)
            waiting[number] = ticket, float(argument), argument
            number += 1
        elif step == "cancel" and waiting:
            chosen = list(waiting)[argument % len(waiting)]
            assert waiting.pop(chosen)[0].cancel()
        elif step == "grant" and waiting:
            first = line.tickets.first
            assert first is not None
            assert first is waiting.pop(min(waiting))[0]
            delivery: Any = object()
            first.granted(delivery)
        elif step == "expire":
            while (expired := line.tickets.first_expired(float(argument))) is not None:
                assert waiting.pop(expired.partition)[1] <= argument
                expired.failed(TimeoutError())
            assert all(deadline > argument for _, deadline, _ in waiting.values())
        assert line.numbers() == list(waiting)
        assert line.tickets.bytes_waiting == sum(size for _, _, size in waiting.values())
        assert line.tickets.next_deadline == min((deadline for _, deadline, _ in waiting.values()), default=inf)
    assert line.granted == sorted(line.granted)
