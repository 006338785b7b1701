"""Puts headers of the request that is being served into every record that is sent meanwhile, without code at the call.

    producer = KafkaProducer("kafka:9092", interceptors=[RequestHeaders()])

Owns the carried headers, in a context variable, and the interceptor that puts them into records. It knows no
framework: ``asgi.RequestHeadersMiddleware`` and ``aiohttp.request_headers_middleware`` set the variable, and so may
any worker, with ``carrying``. Kafka has no counterpart.

Rules: a header that the caller gave, of the same name in any case, is never overwritten; a value has ``LONGEST_VALUE``
bytes at most, and all headers together ``MOST_BYTES``; longer ones are left out, for requests come from strangers. A
request id that is not plain text of up to ``LONGEST_ID`` characters is replaced by a new one. Tasks that the request
starts carry the headers too, as long as they live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, TypeAlias
from uuid import uuid4

from .. import ProducerRecord
from .http_headers import HEADER_NAME

__all__ = ["LONGEST_ID", "LONGEST_VALUE", "MOST_BYTES", "Carried", "RequestHeaders", "Selection", "carried", "carrying"]

LONGEST_VALUE: Final = 1024
"""Bytes of one header's value."""
MOST_BYTES: Final = 4096
"""Bytes of all names and values, which they add to each record."""
LONGEST_ID: Final = 128
"""Characters of a request id."""
REQUEST_ID: Final = "x-request-id"
TRACE_STATE: Final = "tracestate"
TRACE: Final = ("traceparent", TRACE_STATE)

Carried: TypeAlias = tuple[tuple[str, bytes], ...]

_carried: ContextVar[Carried] = ContextVar("aiokafkapy.request_headers", default=())


class RequestHeaders:
    """The interceptor that puts the request's headers into records. With ``KafkaTracing`` it must come after that."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record with the missing headers added; the same record outside a request."""
        found = _carried.get()
        if not found:
            return record
        given: Iterable[Any] = record.headers or ()
        headers = tuple(given.items() if isinstance(given, Mapping) else given)
        # The producer refuses a header that is not a pair.
        present = {each[0].lower() for each in headers if isinstance(each, tuple | list) and _has_a_name(each)}
        more = tuple(each for each in found if each[0] not in present)
        return replace(record, headers=(*headers, *more)) if more else record


class Selection:
    """Selects the headers of a request that are carried: its id, the trace, and ``names``, in any case."""

    def __init__(self, names: Sequence[str] = (), request_id: str | None = REQUEST_ID) -> None:
        if isinstance(names, str):
            raise TypeError(f"headers={names!r} is one text: write a list of names")
        for name in [*names, *([] if request_id is None else [request_id])]:
            if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an HTTP header: letters, digits and dashes are needed")
        self.request_id = None if request_id is None else request_id.lower()
        self._names = tuple(dict.fromkeys([*TRACE, *(name.lower() for name in names)]))

    def of(self, headers: Iterable[tuple[str, bytes]]) -> Carried:
        """The carried headers of a request; names are lower-case. A request without an id gets one."""
        given: dict[str, bytes] = {}
        for name, value in headers:
            lower = name.lower()
            if lower == TRACE_STATE and lower in given:
                given[lower] += b"," + value  # W3C Trace Context: several are one list
            else:
                given.setdefault(lower, value)
        found: list[tuple[str, bytes]] = []
        if self.request_id is not None:
            found.append((self.request_id, _checked_id(given.get(self.request_id))))
        room = MOST_BYTES - sum(len(name) + len(value) for name, value in found)
        for name in self._names:
            if name not in given or name == self.request_id or len(given[name]) > LONGEST_VALUE:
                continue
            size = len(name) + len(given[name])
            if size <= room:
                room -= size
                found.append((name, given[name]))
        return tuple(found)


def carried() -> Carried:
    """The headers that the running task carries: for log lines, for example."""
    return _carried.get()


@contextmanager
def carrying(headers: Carried) -> Iterator[None]:
    """Within the block, and in tasks that are started in it, records get these headers."""
    token = _carried.set(headers)
    try:
        yield
    finally:
        _carried.reset(token)


# internals


def _has_a_name(header: Sequence[object]) -> bool:
    return len(header) > 0 and isinstance(header[0], str)


def _checked_id(given: bytes | None) -> bytes:
    """The request's id if it is valid; it goes into logs and answers, where a line break would begin another line."""
    if given and len(given) <= LONGEST_ID and given.isascii() and given.decode().isprintable():
        return given
    return uuid4().hex.encode()
