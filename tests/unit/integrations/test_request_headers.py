"""The headers of a request that are carried, and the records that get them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy import ProducerRecord
from aiokafkapy.integrations.request_headers import (
    LONGEST_ID,
    LONGEST_VALUE,
    MOST_BYTES,
    RequestHeaders,
    Selection,
    carried,
    carrying,
)

TRACE = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


def test_the_id_the_trace_and_chosen_headers_are_carried_and_no_others() -> None:
    given = [("X-Request-Id", b"7"), ("Authorization", b"secret"), TRACE, ("X-Tenant", b"blue"), ("x-tenant", b"2")]
    assert Selection(["X-Tenant", "x-absent"]).of(given) == (("x-request-id", b"7"), TRACE, ("x-tenant", b"blue"))
    assert Selection(request_id=None).of(given) == (TRACE,)
    assert Selection(request_id="Correlation-Id").of([("correlation-id", b"8")]) == (("correlation-id", b"8"),)


@pytest.mark.parametrize("given", [None, b"", b"a" * (LONGEST_ID + 1), b"two\nlines", b"\xff", "ü".encode()])
def test_an_id_is_made_where_the_given_one_may_not_be_shown(given: bytes | None) -> None:
    headers = [] if given is None else [("x-request-id", given)]
    ids = {dict(Selection().of(headers))["x-request-id"] for _ in range(2)}
    assert len(ids) == 2
    assert all(len(each) == 32 and each.isalnum() for each in ids)


def test_headers_that_are_too_long_are_left_out() -> None:
    names = [f"h{number}" for number in range(10)]
    given = [("long", b"v" * (LONGEST_VALUE + 1)), *((name, b"v" * LONGEST_VALUE) for name in names)]
    found = Selection(["long", *names]).of(given)
    assert "long" not in dict(found)
    assert 0 < len(found) < len(names)
    assert sum(len(name) + len(value) for name, value in found) <= MOST_BYTES


def test_several_tracestate_headers_are_one_list() -> None:
    given = [("tracestate", b"a=1"), ("x-tenant", b"1"), ("TraceState", b"b=2"), ("x-tenant", b"2")]
    found = Selection(["x-tenant"], None).of(given)
    assert found == (("tracestate", b"a=1,b=2"), ("x-tenant", b"1"))


def test_one_text_is_not_a_list_of_names() -> None:
    with pytest.raises(TypeError, match="'x-tenant' is one text"):
        Selection("x-tenant")


@pytest.mark.parametrize("name", ["", "x tenant", "x-tenant:", "x-ten\u00e4nt", "x\r\n", 5])
def test_a_name_that_no_request_can_have_is_refused_at_once(name: Any) -> None:
    with pytest.raises(ValueError, match="not the name of an HTTP header"):
        Selection([name])
    with pytest.raises(ValueError, match="not the name of an HTTP header"):
        Selection(request_id=name)


@pytest.mark.parametrize("headers", [[("A", b"1")], {"A": b"1"}])
def test_a_record_gets_the_attributes_it_lacks(headers: Any) -> None:
    with carrying((("a", b"other"), ("x-request-id", b"7"))):
        changed = RequestHeaders().on_send(ProducerRecord("t", headers=headers))
    assert changed.headers == (("A", b"1"), ("x-request-id", b"7"))


@pytest.mark.parametrize("headers", [[5], [()], ["ab"]])
def test_invalid_headers_are_left_to_the_producer(headers: Any) -> None:
    with carrying((("a", b"1"),)):
        assert RequestHeaders().on_send(ProducerRecord("t", headers=headers)).headers == (*headers, ("a", b"1"))


def test_outside_a_request_and_with_all_headers_present_the_record_is_the_same() -> None:
    record = ProducerRecord("t", headers=[("a", b"1")])
    assert RequestHeaders().on_send(record) is record
    with carrying((("a", b"2"),)):
        assert RequestHeaders().on_send(record) is record


async def test_a_task_that_the_request_starts_carries_them_when_the_request_is_over() -> None:
    is_over = asyncio.Event()

    async def later() -> Any:
        await is_over.wait()
        return carried()

    with carrying((("a", b"1"),)):
        task = asyncio.ensure_future(later())
        assert await asyncio.to_thread(carried) == (("a", b"1"),)
    assert carried() == ()
    is_over.set()
    assert await task == (("a", b"1"),)
