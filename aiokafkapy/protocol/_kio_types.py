"""Imports kio's primitive types, also while a test has put a frozen clock in the place of ``datetime.datetime``.

kio derives types from that class when it is imported. A stand-in with a metaclass of its own (freezegun's) makes that
fail, so the first import of this package within ``freeze_time`` would. Java has no counterpart.

Rule: the stand-in is put back afterwards; without one nothing is touched.
"""

from __future__ import annotations

import datetime
import importlib

__all__ = ["import_types"]


def import_types() -> None:
    """Import ``kio.static.primitive``."""
    in_place = datetime.datetime
    system_datetime = next(cls for cls in in_place.__mro__ if type(cls) is type)
    if in_place is not system_datetime:
        datetime.datetime = system_datetime  # type: ignore[misc, assignment]
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        datetime.datetime = in_place  # type: ignore[misc]
