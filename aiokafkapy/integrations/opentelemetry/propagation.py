"""A trace's context in the headers of records: put in by the sender, taken out by the receiver.

Owns the access of OpenTelemetry's propagators to Kafka's headers, pairs of text and bytes. The propagator, by default
the application's global one, chooses the fields (``traceparent``, ``tracestate``, ``baggage``).

Rules: a header that the caller gave is never overwritten; headers that are not pairs are left to the producer, which
refuses them with an error text; a field that is not UTF-8 is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator

__all__ = ["ContextInHeaders", "Pairs", "with_headers"]

Pairs: TypeAlias = list[tuple[str, bytes]]


class ContextInHeaders:
    """Reads and writes contexts in headers, by one propagator, or by the global one at the time of each call."""

    def __init__(self, propagator: TextMapPropagator | None = None) -> None:
        self._propagator = propagator

    def of(self, context: Context) -> Pairs:
        """The headers that carry the context."""
        found: Pairs = []
        self._current.inject(found, context, _SETTER)
        return found

    def is_in(self, headers: Iterable[object] | None) -> bool:
        """True when the headers already carry a context from the caller."""
        if not headers:
            return False
        fields = self._current.fields
        return any(name in fields for name, _ in _pairs(headers))

    def read(self, headers: Iterable[object] | None, context: Context | None = None) -> Context:
        """``context``, or the running one, with the values that the headers carry."""
        return self._current.extract(list(_pairs(headers)), context, _GETTER)

    @property
    def _current(self) -> TextMapPropagator:
        return self._propagator or propagate.get_global_textmap()


class _HeaderSetter(Setter[Pairs]):
    def set(self, carrier: Pairs, key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _HeaderGetter(Getter[list[tuple[str, object]]]):
    def get(self, carrier: list[tuple[str, object]], key: str) -> list[str] | None:
        found = []
        for name, value in carrier:
            if name.lower() == key.lower() and isinstance(value, bytes):
                try:
                    found.append(value.decode())
                except UnicodeDecodeError:
                    continue
        return found or None

    def keys(self, carrier: list[tuple[str, object]]) -> list[str]:
        return [name for name, _ in carrier]


def with_headers(headers: Iterable[object] | None, more: Pairs) -> tuple[Any, ...]:
    """A record's headers with further ones behind them."""
    return (*_sequence(headers), *more)


def _sequence(headers: Iterable[object] | None) -> Iterable[object]:
    return headers.items() if isinstance(headers, Mapping) else headers or ()


def _pairs(headers: Iterable[object] | None) -> Iterator[tuple[str, object]]:
    for header in _sequence(headers):
        if isinstance(header, tuple | list) and len(header) == 2 and isinstance(header[0], str):
            yield header[0], header[1]


_SETTER = _HeaderSetter()
_GETTER = _HeaderGetter()
