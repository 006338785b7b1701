"""Imports kio's primitive types, also where other modules have replaced something in the process.

kio derives types from ``datetime.datetime`` at import. That fails for freezegun's replacement, which has a metaclass of
its own, if this package is first imported within ``freeze_time``. kio also imports hypothesis where it is installed, to
register strategies: half of the time that a short program with test tools beside it needs to start. Java has no
counterpart.

Rule: a replaced module is put back afterwards. Where hypothesis is loaded already kio finds it.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import sys
from collections.abc import Iterator

__all__ = ["import_types"]


def import_types() -> None:
    """Import ``kio.static.primitive``."""
    with _system_datetime(), _no_hypothesis():
        importlib.import_module("kio.static.primitive")


@contextlib.contextmanager
def _system_datetime() -> Iterator[None]:
    in_place = datetime.datetime
    datetime.datetime = next(cls for cls in in_place.__mro__ if type(cls) is type)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        datetime.datetime = in_place  # type: ignore[misc]


@contextlib.contextmanager
def _no_hypothesis() -> Iterator[None]:
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # importing it is an ImportError then
    try:
        yield
    finally:
        del sys.modules["hypothesis"]
