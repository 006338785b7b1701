"""``in_memory``: an in-memory transport for a running loop, so that brokers and clients of this package need no socket.

Owns the network of such a loop: the simulation's, without randomness, in real time. It knows no broker and no
client: they ask ``aiokafkapy.sockets`` which network their loop has. In other projects it is called a loopback or an
in-process transport.

Rules:

- bytes arrive in the next turn of the loop, in order, whole, and with the same back-pressure as a socket's;
- it belongs to the loop while the block lasts: listeners and clients that begin in it are in memory, all others are
  not affected. Clients of other libraries, ``BlockingProducer`` and ``FaultProxy``, need a port and do not reach it;
- no socket is made, and no file descriptor used.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from typing import TypeVarTuple

from ..errors import IllegalStateError
from ..sockets import network_of, use_network
from .simulation.simulated_network import SimulatedNetwork

__all__ = ["in_memory"]

Arguments = TypeVarTuple("Arguments")


@contextlib.contextmanager
def in_memory() -> Iterator[None]:
    """Within ``with in_memory():`` every ``DevBroker`` listens in memory, and every client that starts connects there.

    It is for the running loop. Raises RuntimeError if none runs, and IllegalStateError if it is already in memory.
    """
    loop = asyncio.get_running_loop()
    if network_of(loop) is not None:
        raise IllegalStateError("the connections of this loop are in memory, or simulated, already")
    use_network(loop, _MemoryNetwork(loop))
    try:
        yield
    finally:
        use_network(loop, None)


class _MemoryNetwork(SimulatedNetwork):
    """No delay, no pieces, no trace."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, random.Random(0), _trace_nothing)
        self.delay = (0.0, 0.0)

    def size_of_piece(self, most: int) -> int:
        return most

    def deliver(self, end: object, callback: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        self.loop.call_soon(callback, *arguments)


def _trace_nothing(*_: object) -> None:
    """Nobody looks."""
