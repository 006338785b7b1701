"""Happy Eyeballs (RFC 8305): the addresses of a name race, so that a dead one costs a quarter of a second.

Owns the order of addresses and the race. Knows no sockets' options, no TLS and no names: a function opens an address.
Java has no counterpart: it waits a set-up time-out for each address. ``loop.create_connection`` has one in asyncio, not
in uvloop; the library ``aiohappyeyeballs`` does not say which addresses failed when another one wins, though a user
learns from that which address family is dead.

Rules:

- The families take turns, beginning with the one that the resolver prefers (section 4).
- The next address is begun when the last one failed, or after the Connection Attempt Delay (section 5); those that
  were begun before go on.
- The first to connect wins; all other sockets are closed, also when the race is cancelled.
- A and AAAA are asked for by one ``getaddrinfo``, which waits for both: the Resolution Delay (section 3) is left to it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterable
from itertools import zip_longest
from typing import Any, Final

from ..nodes.connection_states import Address

__all__ = ["CONNECTION_ATTEMPT_DELAY", "Race", "interleave_families"]

CONNECTION_ATTEMPT_DELAY: Final = 0.25
"""Seconds, as RFC 8305 recommends."""


def interleave_families(addresses: Iterable[Address]) -> list[Address]:
    """The addresses with their families by turns; within a family they keep their order."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    return [address for turn in zip_longest(*families.values()) for address in turn if address is not None]


class Race:
    """One race over addresses, which are taken one by one, so that those not begun are left for another time."""

    def __init__(
        self,
        open_address: Callable[[Address], Coroutine[Any, Any, socket.socket]],
        next_address: Callable[[], Address | None],
        on_failure: Callable[[Address, BaseException], None],
    ) -> None:
        self._open = open_address
        self._next_address = next_address
        self._on_failure = on_failure
        self._attempts: dict[asyncio.Task[socket.socket], Address] = {}

    @property
    def under_way(self) -> list[Address]:
        """The addresses that were begun and have neither failed nor won, in the order of their start."""
        return list(self._attempts.values())

    async def winner(self) -> tuple[Address, socket.socket] | None:
        """The first address to connect, with its socket; None when all have failed.

        Each failure, an OSError, is passed to ``on_failure``; other exceptions are raised.
        """
        try:
            while True:
                address = self._next_address()
                if address is not None:
                    self._attempts[asyncio.create_task(self._open(address))] = address
                elif not self._attempts:
                    return None
                # With no address left there is nothing to begin.
                delay = None if address is None else CONNECTION_ATTEMPT_DELAY
                await asyncio.wait(self._attempts, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
                won = self._finish_line()
                if won is not None:
                    return won
        finally:
            # No await: a cancelled caller would lose the winner's socket here.
            for task in self._attempts:
                task.cancel()
                task.add_done_callback(_close_socket)

    # internals

    def _finish_line(self) -> tuple[Address, socket.socket] | None:
        """Take out the attempts that have ended, up to the first that won."""
        for task in [task for task in self._attempts if task.done()]:
            error = task.exception()
            if error is None:
                return self._attempts.pop(task), task.result()
            address = self._attempts.pop(task)
            if not isinstance(error, OSError):
                raise error
            self._on_failure(address, error)
        return None


def _close_socket(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of an attempt that connected after it had lost the race."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()
