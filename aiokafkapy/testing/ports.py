"""Ports for servers that go away and come back at the same address.

Port 0 gives one from the range the system also takes the ports of outgoing connections from. While such a server is
down its port may be taken by anybody, and a client that keeps connecting to it can, once in some ten thousand tries, be
given that very port and be connected to itself. Ports below that range have neither trouble.
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


def free_port(taken: Collection[int | None] = ()) -> int:
    """A port of the loopback address that nobody listens on and that is not in `taken`; OSError when none is left."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in taken:
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind((LOOPBACK, port))
                return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop}")
