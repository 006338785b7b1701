import random
import socket
import subprocess
import sys

import pytest

from aiokafkapy.testing.servers import ports
from aiokafkapy.testing.servers.ports import LOOPBACK, free_port


def test_a_free_port_can_be_listened_on_and_is_below_those_of_outgoing_connections() -> None:
    port = free_port()
    assert 20_000 <= port < 32_000
    with socket.create_server((LOOPBACK, port)):
        pass


def test_ports_in_use_or_taken_are_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both are ours, so that no other process is given one of them meanwhile.
    low, high = sorted((one := free_port(), free_port((one,))))
    monkeypatch.setattr(ports, "_PORTS", range(low, high + 1, high - low))
    assert free_port((low,)) == high
    with socket.socket() as listener:
        listener.bind((LOOPBACK, low))
        assert free_port() == high
        with pytest.raises(OSError, match="no free port"):
            free_port((high,))


def test_processes_whose_tests_are_seeded_alike_do_not_choose_the_same_ports() -> None:
    def chosen() -> list[int]:
        random.seed(7)
        return [free_port() for _ in range(10)]

    assert chosen() != chosen()


def _given_elsewhere(restricted: str = "pass") -> subprocess.CompletedProcess[str]:
    code = f"from aiokafkapy.testing.servers import ports; {restricted}; print(ports.free_port())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_port_is_given_to_no_other_process_while_its_own_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = free_port()
    assert f"no free port from {ours}" in _given_elsewhere(f"ports._PORTS = range({ours}, {ours + 1})").stderr
    released = int(_given_elsewhere().stdout)
    monkeypatch.setattr(ports, "_PORTS", range(released, released + 1))
    assert free_port() == released
