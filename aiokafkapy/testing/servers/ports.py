"""Ports for servers that go away and come back at the same address.

Port 0 selects one from the ephemeral range, which outgoing connections use too. While such a server is down, another
socket may take its port, and a client that keeps connecting to it can, once in some ten thousand attempts, get that
very port as its own and connect to itself. Ports below that range have neither problem.

A port is free until its server listens, which takes a JVM some seconds, and again while that server is down. So a file
in the system's folder for temporary files names the allotted ports and the process of each, while it lives. Windows
has no such file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Collection
from pathlib import Path

from .file_lock import locked

__all__ = ["LOOPBACK", "free_port"]

LOOPBACK = "127.0.0.1"

# Linux hands out 32768 and up to outgoing connections, other systems 49152 and up.
_PORTS = range(20_000, 32_000)

# Not the generator that a test run seeds: processes with the same seed would all try the same ports first.
_random = random.SystemRandom()


def free_port(taken: Collection[int | None] = ()) -> int:
    """A free port of the loopback address that is not in ``taken``; OSError without one.

    This function gives it to no other process while this one lives.
    """
    if os.name == "nt":  # no lock, and os.kill would end the process instead of asking about it
        return _choose(taken)
    ledger = Path(tempfile.gettempdir()) / f"aiokafkapy-ports-{os.getuid()}"
    with locked(ledger.with_suffix(".lock")):
        owners = {port: owner for port, owner in _read(ledger).items() if _is_alive(owner)}
        port = _choose({*taken, *(port for port, owner in owners.items() if owner != os.getpid())})
        owners[port] = os.getpid()
        ledger.write_text("".join(f"{port} {owner}\n" for port, owner in owners.items()))
    return port


def _read(ledger: Path) -> dict[int, int]:
    """The process of each port."""
    if not ledger.exists():
        return {}
    return {int(port): int(owner) for port, owner in map(str.split, ledger.read_text().splitlines())}


def _choose(taken: Collection[int | None]) -> int:
    start = _random.randrange(len(_PORTS))
    for port in itertools.chain(_PORTS[start:], _PORTS[:start]):
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
