"""Ports for servers that go away and come back at the same address.

Port 0 selects one from the ephemeral range, which outgoing connections use too. While such a server is down, another
socket may take its port, and a client that keeps connecting to it can, once in some ten thousand attempts, get that
very port as its own and connect to itself. Ports below that range have neither problem.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Collection

__all__ = ["LOOPBACK", "free_port"]

LOOPBACK = "127.0.0.1"

# Linux hands out 32768 and up to outgoing connections, other systems 49152 and up.
_PORTS = range(20_000, 32_000)

# Not the generator that a test run seeds: processes with one seed would all choose the same ports.
_random = random.SystemRandom()


def free_port(taken: Collection[int | None] = ()) -> int:
    """A free port of the loopback address that is not in ``taken``; OSError if there is none."""
    for port in _random.sample(_PORTS, len(_PORTS)):
        if port not in taken:
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind((LOOPBACK, port))
                return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop}")
