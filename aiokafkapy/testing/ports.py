"""Ports for servers that go away and come back at the same address.

Port 0 selects one from the ephemeral range, which outgoing connections use too. While such a server is down, another
socket may take its port, and a client that keeps connecting to it can, once in some ten thousand attempts, get that
very port as its own and connect to itself. Ports below that range have neither problem.

A port is free until its server listens, which takes a JVM some seconds, and again while that server is down. So a file
in the system's folder for temporary files, locked while it is used, names the ports given and the process that has
each, for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Collection
from pathlib import Path

__all__ = ["LOOPBACK", "free_port"]

LOOPBACK = "127.0.0.1"

# Linux hands out 32768 and up to outgoing connections, other systems 49152 and up.
_PORTS = range(20_000, 32_000)

# Not the generator that a test run seeds: processes with one seed would all try the same ports first.
_random = random.SystemRandom()


def free_port(taken: Collection[int | None] = ()) -> int:
    """A free port of the loopback address that is not in ``taken``; OSError if there is none.

    No other process is given it by this function while this one lives.
    """
    with _ledger().open("a+") as ledger:
        fcntl.flock(ledger, fcntl.LOCK_EX)
        ledger.seek(0)
        given = {int(port): int(owner) for port, owner in map(str.split, ledger)}
        given = {port: owner for port, owner in given.items() if owner == os.getpid() or _is_alive(owner)}
        port = _choose({*taken, *(port for port, owner in given.items() if owner != os.getpid())})
        given[port] = os.getpid()
        ledger.truncate(0)
        ledger.writelines(f"{port} {owner}\n" for port, owner in given.items())
    return port


def _ledger() -> Path:
    return Path(tempfile.gettempdir()) / f"aiokafkapy-ports-{os.getuid()}"


def _choose(taken: Collection[int | None]) -> int:
    for port in _random.sample(_PORTS, len(_PORTS)):
        if port not in taken:
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind((LOOPBACK, port))
                return port
    raise OSError(f"no free port from {_PORTS.start} to {_PORTS.stop}")


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
