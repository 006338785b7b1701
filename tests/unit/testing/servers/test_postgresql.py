"""A real PostgreSQL, started and ended; its use by a service is tested with outboxes."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path

import pytest

from aiokafkapy.testing.servers import postgresql as module
from aiokafkapy.testing.servers.postgresql import PostgreSQL, PostgreSQLError
from tests.databases import require_postgresql


@pytest.mark.slow
def test_a_server_takes_connections_also_when_it_was_killed_and_leaves_nothing_behind() -> None:
    require_postgresql()
    with PostgreSQL() as server:
        directory = server._directory
        assert server.url("asyncpg") == f"postgresql+asyncpg://aiokafkapy@127.0.0.1:{server.port}/postgres"
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5):
                pass
            server.stop(kill=True)
            server.start()
    assert not directory.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_a_missing_library_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_path_of", lambda program: None if program == "initdb" else shutil.which("true"))
    assert PostgreSQL.unavailable_reason() == "initdb not found (Debian: postgresql)"
    with pytest.raises(PostgreSQLError, match="there is no PostgreSQL here: initdb not found"):
        PostgreSQL().__enter__()


def test_ci_installs_the_package_that_is_named() -> None:
    """The name has no version: each release of Debian or Ubuntu has another, and one that is not found is skipped."""
    installing = (Path(__file__).parents[4] / ".ci" / "run").read_text()
    assert re.search(r"apt-get install .*\bpostgresql(?![-\w])", installing)


@pytest.mark.slow
def test_a_server_that_does_not_start_says_why_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    require_postgresql()
    monkeypatch.setattr(module, "_OPTIONS", ("no_such_option=1",))
    server = PostgreSQL()
    with pytest.raises(PostgreSQLError, match=r'postgres did not start: .*"no_such_option"'):
        server.__enter__()
    assert not server._directory.exists()
