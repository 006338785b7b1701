"""The ports of nodes that are stopped: nobody else gets them meanwhile, and clients are refused there.

Owns sockets that are bound and do not listen. A port that the system chose is one of those that it gives to outgoing
connections, too; without this a node could not come back where its clients look for it, or somebody else's server would
answer them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from ...sockets import current_network
from .bound_socket import bound_socket

__all__ = ["HeldPorts"]


class HeldPorts:
    """The held ports of each node."""

    def __init__(self) -> None:
        self._sockets: dict[int, list[socket.socket]] = {}

    def hold(self, node_id: int, addresses: Iterable[tuple[str, int]]) -> None:
        """Take the ports at which a node has just stopped listening; a port that somebody else has already taken
        cannot be held. A simulated network gives each port once, so nothing is held there.
        """
        if current_network() is not None:
            return
        self._sockets[node_id] = [held for held in map(_held, addresses) if held is not None]

    def release(self, node_id: int) -> None:
        """Let the node have its ports."""
        for held in self._sockets.pop(node_id, ()):
            held.close()

    def release_all(self) -> None:
        """Release every port."""
        for node_id in list(self._sockets):
            self.release(node_id)


def _held(address: tuple[str, int]) -> socket.socket | None:
    try:
        return bound_socket(*address)
    except OSError:
        return None
