"""A real KDC for as long as tests need it; where there is none they are skipped, or fail in CI.

AIOKAFKAPY_REQUIRE_KERBEROS=1 says that CI must not pass without it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiokafkapy.testing.servers.kdc import Kdc

__all__ = ["Realm", "missing_kerberos", "opened_realm", "require_kerberos"]


class Realm:
    """A KDC with the service kafka/localhost and the user alice."""

    def __init__(self, kdc: Kdc) -> None:
        self.kdc = kdc
        self.service: Path = kdc.add_principal("kafka/localhost")
        self.alice: Path = kdc.add_principal("alice")


def missing_kerberos() -> str | None:
    """The reason why there is no KDC, or no library for it; fails the test where they are required."""
    is_installed = importlib.util.find_spec("gssapi") is not None
    reason = Kdc.unavailable_reason() if is_installed else "the library gssapi is not installed"
    if reason is not None and os.environ.get("AIOKAFKAPY_REQUIRE_KERBEROS") == "1":
        pytest.fail(f"a real KDC is required here: {reason}", pytrace=False)
    return reason


def require_kerberos() -> None:
    """Skip the test, or fail it, where the library or the KDC is missing."""
    reason = missing_kerberos()
    if reason is not None:
        pytest.skip(f"NO KDC: {reason}")


@contextmanager
def opened_realm() -> Iterator[Realm]:
    """The realm, for a fixture."""
    require_kerberos()
    with Kdc() as kdc:
        yield Realm(kdc)
