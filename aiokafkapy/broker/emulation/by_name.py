"""The names of releases and products, and the ``Emulation`` of each.

Owns the forms that a name may have; it must not know how any of them answers. Kafka has no counterpart.
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import ConfigurationError
from .model import Emulation
from .profiles import PROFILES
from .releases import release, release_names

__all__ = ["emulation_of", "known_versions"]

_PATCH: Final = re.compile(r"(0\.\d+|[1-9]\d*\.\d+)\.\d+(?:\.\d+)?")


def emulation_of(version: str) -> Emulation:
    """The release (``2.8``; ``2.8.2`` is the same) or product of this name.

    ConfigurationError, which lists the known names, for any other.
    """
    if version in PROFILES:
        return PROFILES[version]
    patch = _PATCH.fullmatch(version)
    name = version if patch is None else patch[1]
    if name not in release_names():
        raise ConfigurationError(f"version={version!r} cannot be emulated; write one of {', '.join(known_versions())}")
    return release(name)


def known_versions() -> list[str]:
    """The releases, the oldest first, and then the products."""
    return [*release_names(), *PROFILES]
