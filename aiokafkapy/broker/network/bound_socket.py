"""A socket that has a port. Imports neither asyncio nor the broker: the command line opens its sockets before them."""

from __future__ import annotations

import socket

__all__ = ["bound_socket"]


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that has the port, also while connections of an earlier one are about to close. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
