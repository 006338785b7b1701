"""Contexts in records' headers."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aiokafkapy.integrations.opentelemetry.propagation import ContextInHeaders, with_headers

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
IN_HEADERS = ContextInHeaders(TraceContextTextMapPropagator())


@pytest.mark.parametrize("form", [list, tuple, dict])
def test_a_context_comes_out_as_it_went_in(form: Any) -> None:
    context = IN_HEADERS.read(form([("traceparent", PARENT)]), Context())
    assert IN_HEADERS.of(context) == [("traceparent", PARENT)]
    assert trace.get_current_span(context).get_span_context().is_remote


@pytest.mark.parametrize(
    "headers",
    [None, [], [("traceparent", b"\xff")], [("traceparent", None)], [("traceparent",)], [5, "no"], [(5, b"")]],
)
def test_a_header_that_is_not_a_context_gives_none(headers: Any) -> None:
    assert IN_HEADERS.of(IN_HEADERS.read(headers, Context())) == []


def test_a_context_is_seen_in_headers() -> None:
    assert IN_HEADERS.is_in([("a", b""), ("traceparent", PARENT)])
    assert not IN_HEADERS.is_in([("a", b""), 5])
    assert not IN_HEADERS.is_in(None)


def test_headers_are_added_behind_those_of_the_caller() -> None:
    more = [("b", b"2")]
    assert with_headers({"a": b"1"}, more) == with_headers([("a", b"1")], more) == (("a", b"1"), ("b", b"2"))
    assert with_headers(None, more) == (("b", b"2"),)
