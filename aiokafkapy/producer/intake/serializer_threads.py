"""``ThreadedSerializer``: a serializer whose large records are made into bytes in a thread, beside the loop.

Owns the estimate of a record's size. Used if ``serialize_in_thread_above`` is set, and imported only then. Java has no
counterpart: its serializers run in the caller's thread.

Rules:

- Bytes, text and objects with ``nbytes`` tell their size beforehand. The size of other data is estimated from the
  topic's recent records: a large one sends those after it to threads, until smaller ones have come for a while (each
  takes an eighth off).
- A record for a thread is an awaitable, as an async serializer's: the order of calls is kept, ``max_block_ms`` bounds
  the wait, and ``send_nowait``, which never waits, refuses it. The thread begins when it is awaited.
- The thread is one of the loop's default executor, with the caller's context variables. A cancelled call leaves it to
  end by itself; its result is thrown away. The data must not be changed until the call returns. At the interpreter's
  end, when no thread can be started, the loop does it.
- An exception of the serializer in a thread is raised to the caller as it would be on the loop, of any kind. An
  awaitable result, of an async serializer, is awaited on the loop.

A thread frees the loop only of work that releases the GIL: Python code does, each 5 ms; encryption, hashing and
compression do; one call of a C encoder, as the standard library's ``json``, does not. Without a GIL everything does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from inspect import isawaitable
from typing import Any, Final

from ..serializers import PreparedSerializer

__all__ = ["ThreadedSerializer"]

_FORGOTTEN: Final = 1 / 8
"""The part of a topic's size that a smaller record takes off."""
_MAX_TOPICS: Final = 10_000


class ThreadedSerializer:
    """A prepared serializer, ``f(topic, data)``, beyond ``limit`` bytes in a thread."""

    __slots__ = ("_limit", "_serializer", "_sizes")

    def __init__(self, serializer: PreparedSerializer, limit: int) -> None:
        self._serializer = serializer
        self._limit = limit
        self._sizes: dict[str, float] = {}

    def __call__(self, topic: str, data: object) -> Any:
        """The bytes, or an awaitable of them."""
        known = _size_of(data)
        if (self._sizes.get(topic, 0.0) if known is None else known) > self._limit:
            return _InThread(self._serializer, topic, data, self._note)
        written = self._serializer(topic, data)
        self._note(topic, written)
        return written

    def _note(self, topic: str, written: object) -> None:
        """Remember the size of a topic's records."""
        if not isinstance(written, (bytes, bytearray, memoryview)):
            return
        size = float(len(written))
        before = self._sizes.get(topic)
        if before is None and len(self._sizes) >= _MAX_TOPICS:
            self._sizes.clear()
        self._sizes[topic] = size if before is None or size > before else before - (before - size) * _FORGOTTEN


class _InThread:
    """The bytes, made by a thread that begins when they are awaited."""

    __slots__ = ("_data", "_note", "_serializer", "_topic")

    def __init__(
        self, serializer: PreparedSerializer, topic: str, data: object, note: Callable[[str, Any], None]
    ) -> None:
        self._serializer = serializer
        self._topic = topic
        self._data = data
        self._note = note

    def __await__(self) -> Generator[Any, None, Any]:
        return self._made().__await__()

    async def _made(self) -> Any:
        # As a value: a future cannot have every error, a StopIteration for one.
        try:
            written, error = await asyncio.to_thread(_outcome, self._serializer, self._topic, self._data)
        except RuntimeError:  # raised by the executor: the interpreter ends, and starts no thread any more
            written, error = _outcome(self._serializer, self._topic, self._data)
        if error is not None:
            raise error
        if isawaitable(written):
            written = await written
        self._note(self._topic, written)
        return written


# internals


def _size_of(data: object) -> int | None:
    """The size of the data; None if it cannot be told without serializing it."""
    if isinstance(data, (bytes, bytearray, str)):
        return len(data)
    size = getattr(data, "nbytes", None)  # memoryview, numpy, Arrow
    return size if type(size) is int else None


def _outcome(serializer: PreparedSerializer, topic: str, data: object) -> tuple[Any, BaseException | None]:
    try:
        return serializer(topic, data), None
    except BaseException as error:
        return None, error
