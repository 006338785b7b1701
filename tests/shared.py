"""``SHARED``: expensive resources, kept while the tests of one chain share them.

Owns the clusters of Apache Kafka and the Spark session of this process, each started when first asked for. A cluster
that nobody uses costs a tenth of a processor, and the tests outside chains are most of a run.

Rules: all of it ends behind the last test of a chain (``conftest``). A start that failed is not tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

__all__ = ["SHARED", "Shared"]

T = TypeVar("T")


class Shared:
    """Contexts by name, entered once each, and left together."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._entered: dict[str, Any] = {}
        self._failed: dict[str, BaseException] = {}

    @property
    def is_used(self) -> bool:
        """True if anything was entered."""
        return bool(self._entered)

    def enter(self, name: str, make: Callable[[], AbstractContextManager[T]]) -> T:
        """The context's value; pytest's outcomes (skipped, failed) are kept, too."""
        if name in self._failed:
            raise self._failed[name]
        if name not in self._entered:
            try:
                self._entered[name] = self._stack.enter_context(make())
            except BaseException as error:
                self._failed[name] = error
                raise
        found: T = self._entered[name]
        return found

    def close(self) -> None:
        """Leave all of them, the last one first."""
        self._entered.clear()
        self._failed.clear()
        self._stack.close()


SHARED = Shared()
