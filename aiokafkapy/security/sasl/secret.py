"""A secret that cannot be shown by accident.

Owns nothing but the value. Java's counterpart is ``org.apache.kafka.common.config.types.Password``.

Rule: code that needs the value reveals it in the expression that uses it, so that no local variable of a frame that may
raise holds it: some tools print the variables of a traceback.
"""

from __future__ import annotations

import hmac
from typing import Generic, TypeVar

from ...common import HIDDEN

__all__ = ["Secret"]

T = TypeVar("T")


class Secret(Generic[T]):
    """A value, mostly text or bytes, whose ``repr``, ``str`` and format are ``<hidden>``."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return _is_equal(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self._value)


def _is_equal(one: object, other: object) -> bool:
    """Compare in constant time, for text and bytes."""
    if isinstance(one, str) and isinstance(other, str):
        return hmac.compare_digest(one.encode(errors="surrogatepass"), other.encode(errors="surrogatepass"))
    if isinstance(one, bytes) and isinstance(other, bytes):
        return hmac.compare_digest(one, other)
    return one == other
