"""Fixtures that tests of secured listeners share, and those of outboxes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aiokafkapy.testing import TestCertificates
from aiokafkapy.testing.servers.postgresql import PostgreSQL
from tests.databases import opened_postgresql
from tests.outboxes import TestOutbox, opened_outbox


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TestCertificates:
    """A CA, a server's certificate and a client's, for all tests of a file."""
    return TestCertificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A real PostgreSQL; each test has tables of its own in it."""
    with opened_postgresql() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
async def outbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TestOutbox]:
    """An empty outbox of three shards, in either database."""
    where = tmp_path if request.param == "sqlite" else request.getfixturevalue("postgresql")
    async with opened_outbox(where, shards=3) as outbox:
        yield outbox
