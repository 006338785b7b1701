"""Names of a package that are imported when they are first asked for (PEP 562), so that importing it stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``: ``homes`` has the module of each name, relative to the package."""

    def import_name(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return import_name
