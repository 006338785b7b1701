"""A real PostgreSQL for as long as tests need it; where there is none they are skipped, or fail in CI.

AIOKAFKAPY_REQUIRE_POSTGRES=1 says that CI must not pass without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aiokafkapy.testing.servers.postgresql import PostgreSQL

__all__ = ["opened_postgresql", "require_postgresql"]


def require_postgresql() -> None:
    """Skip the test, or fail it, where there is no server."""
    reason = PostgreSQL.unavailable_reason()
    if reason is None:
        return
    if os.environ.get("AIOKAFKAPY_REQUIRE_POSTGRES") == "1":
        pytest.fail(f"a real PostgreSQL is required here: {reason}", pytrace=False)
    pytest.skip(f"NO POSTGRESQL: {reason}")


@contextmanager
def opened_postgresql() -> Iterator[PostgreSQL]:
    """The server, for a fixture. Synchronous on purpose: it outlives the event loops of its tests."""
    require_postgresql()
    with PostgreSQL() as server:
        yield server
