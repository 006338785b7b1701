"""The common part of the fault proxy and a replay for a connection: its largest frame, and its end by RST."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Final

__all__ = ["MAX_FRAME", "reset_connection"]

MAX_FRAME: Final = 200 * 1024 * 1024
"""Bytes; a frame with a larger or negative size ends its connection."""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with time zero: closing sends RST, so the peer gets an error at once."""


def reset_connection(transport: asyncio.Transport) -> None:
    """End the connection at once, and drop unsent bytes."""
    with contextlib.suppress(OSError, AttributeError, ValueError):  # the socket may have gone
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
