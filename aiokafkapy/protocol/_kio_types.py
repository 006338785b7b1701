"""Imports kio's primitive types, even while a test has replaced ``datetime.datetime`` by a frozen clock.

kio derives types from that class at import. That fails for freezegun's replacement, which has a metaclass of its own,
if this package is first imported within ``freeze_time``. Java has no counterpart.

Rule: the replacement is put back afterwards; without one nothing is changed.
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
