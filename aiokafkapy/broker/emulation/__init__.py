"""The name of a version comes in, and an ``Emulation`` goes out: the older Kafka or other product that a dev broker is
to its clients. Kafka has no counterpart: its brokers are their own release only.

``emulation_of("2.8")`` is the release, ``emulation_of("redpanda")`` the product. Handlers ask them how to answer; they
know no handler. The versions that a handler serves are narrowed to theirs, so most of a release needs no code. Nothing
is read from disk before the first of them is wanted.
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import ConfigurationError
from .model import Emulation, FeatureLevels, UnknownApiVersions, UnknownProducer
from .profiles import PROFILES
from .releases import release, release_names

__all__ = [
    "Emulation",
    "FeatureLevels",
    "UnknownApiVersions",
    "UnknownProducer",
    "emulation_of",
    "known_versions",
]

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
