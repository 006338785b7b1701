"""A server of a few lines, started, killed, started again and ended; real ones have tests of their own."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

import pytest

from aiokafkapy.testing.servers.server_process import ServerProcess

LISTENS = """
import os, socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        connection.sendall(b"%d" % os.getpid())
        connection.close()
"""


class ServerError(RuntimeError):
    pass


class Server(ServerProcess):
    program = "few-lines"
    error_class = ServerError

    def __init__(self, lines: str = LISTENS, *, prepared_by: str = "") -> None:
        super().__init__()
        self.lines = lines
        self.prepared_by = prepared_by

    def _prepare(self) -> None:
        self._run(sys.executable, "-S", "-c", self.prepared_by, called="the preparation")

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-S", "-c", self.lines, str(self.port)]


def process_id(server: Server) -> int:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        return int(connection.recv(100))


@pytest.mark.parametrize("kill", [False, True])
def test_a_server_starts_again_at_its_address_and_leaves_nothing_behind(kill: bool) -> None:
    with Server() as server:
        directory = server._directory
        first = process_id(server)
        server.stop(kill=kill)
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            process_id(server)
        server.start()
        assert process_id(server) != first
    assert not directory.exists()
    with pytest.raises(ConnectionRefusedError):
        process_id(server)


def test_a_server_that_ends_by_itself_is_reported_with_its_output() -> None:
    server = Server("print('no disk')")
    with pytest.raises(ServerError, match=r"^few-lines did not start: no disk$"):
        server.__enter__()
    assert not server._directory.exists()


def test_a_server_that_ends_in_silence_is_reported_too() -> None:
    with pytest.raises(ServerError, match="few-lines did not start: it said nothing"):
        Server("").__enter__()


def test_a_server_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "start_timeout", 0.05)
    monkeypatch.setattr(Server, "_prepare", lambda self: None)
    server = Server("import signal; signal.pause()")
    with pytest.raises(ServerError, match="few-lines did not start"):
        server.__enter__()
    assert not server._directory.exists()


def test_a_server_that_ignores_its_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "stop_timeout", 0.05)
    with Server("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENS) as server:
        process_id(server)
    with pytest.raises(ConnectionRefusedError):
        process_id(server)


def test_a_program_that_fails_is_reported_with_its_output() -> None:
    with pytest.raises(ServerError, match=r"^the preparation: no rights$"):
        Server(prepared_by="import sys; sys.exit('no rights')").__enter__()
