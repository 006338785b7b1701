"""Data that becomes bytes later, in its turn: a typed topic gives it to the producer in place of a value.

The producer awaits an awaitable key or value, keeps the order of calls meanwhile, and ends the wait after
``max_block_ms``. A coroutine that is never awaited would warn: this one is closed when it is dropped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import iscoroutine
from typing import Any, NoReturn

__all__ = ["Deferred", "Failed"]


class Deferred:
    """The bytes that ``data`` will give, passed on through ``then``: ``original`` in the bytes of ``serializer``."""

    __slots__ = ("_data", "_then", "original", "serializer")

    def __init__(
        self, data: Awaitable[object], then: Callable[[Any], object], original: object, serializer: object = None
    ) -> None:
        self.serializer = serializer
        self._data = data
        self._then = then
        self.original = original

    def __await__(self) -> Generator[object, None, object]:
        return self._then((yield from self._data.__await__()))

    def __del__(self) -> None:
        if iscoroutine(self._data):
            self._data.close()


class Failed:
    """Stands for data that cannot be bytes: raises the reason, as the record's own error."""

    __slots__ = ("_error", "original", "serializer")

    def __init__(self, error: BaseException, original: object, serializer: object = None) -> None:
        self.serializer = serializer
        self._error = error
        self.original = original

    def __await__(self) -> Generator[object, None, NoReturn]:
        return _raising(self._error)


def _raising(error: BaseException) -> Generator[object, None, NoReturn]:
    yield from ()
    raise error
