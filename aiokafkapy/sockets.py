"""``hand_over``: a connected socket becomes the event loop's, which closes it from then on.

Owns the one way in which sockets that we made or accepted become transports, for clients and the dev broker. It knows
neither protocols nor TLS.

Rule: a number of a file is closed by one owner. uvloop closes it itself, and tells the socket object so, but not when
the transport ends before the call that makes it: then the object would close the number again when it is collected, by
then perhaps another's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable

__all__ = ["hand_over"]


async def hand_over(sock: socket.socket, transport: Awaitable[tuple[asyncio.BaseTransport, object]]) -> None:
    """Await a ``loop.create_connection(…, sock=sock)`` or ``connect_accepted_socket``; after an error, as after a
    cancellation, the caller closes ``sock``, which does nothing where the loop has done so.
    """
    made, _ = await transport
    if made.is_closing() and type(asyncio.get_running_loop()).__module__.startswith(("uvloop", "winloop")):
        sock.detach()
