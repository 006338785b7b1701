import errno
import socket

import pytest

from aiokafkapy.broker.network.held_ports import HeldPorts
from aiokafkapy.testing.servers.ports import LOOPBACK, free_port


def bind(port: int) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, port))


def test_a_held_port_is_nobody_elses_until_its_node_has_it() -> None:
    one = free_port()
    two = free_port((one,))
    ports = HeldPorts()
    ports.hold(1, [(LOOPBACK, one)])
    ports.hold(2, [(LOOPBACK, two)])
    with pytest.raises(OSError, match="in use") as caught:
        bind(one)
    assert caught.value.errno == errno.EADDRINUSE
    ports.release(1)
    bind(one)
    with pytest.raises(OSError, match="in use"):
        bind(two)
    ports.release_all()
    bind(two)


def test_a_port_that_somebody_has_already_is_left_to_them() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        ports = HeldPorts()
        ports.hold(1, [(LOOPBACK, listener.getsockname()[1])])
        ports.release(1)
        ports.release(7)
