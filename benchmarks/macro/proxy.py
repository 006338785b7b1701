"""A TCP proxy that holds every byte back for a fixed time, each way: a long line without a narrow place.

``python -m benchmarks.macro.proxy HOST:PORT DELAY_MS`` is a helper process (see ``processes``): it says
``bootstrap_servers`` and answers ``stall`` (read nothing any more; nobody is told) and ``resume``.

Bytes leave in order, each piece at the time it came plus the delay, however many are on their way: requests that
follow each other are delayed side by side, as on a real line. It looks at the bytes in one way only: the target's
address is replaced by its own, of the same length, in all bytes for clients, so that clients connect to the proxy
again. The target is a single broker.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections import deque
from typing import Any, Final, cast

import uvloop

from benchmarks.macro.processes import commands

__all__ = ["DelayingProxy"]

LOOPBACK: Final = "127.0.0.1"


class DelayingProxy:
    """All connections of one port, each with one of its own to the target."""

    def __init__(self, host: str, port: int, delay: float) -> None:
        self.target = (host, port)
        self.delay = delay
        self.is_stalled = False
        self.ends: set[_End] = set()
        self._advertised = (_wire_address(host, port), b"")
        self._server: asyncio.Server | None = None

    async def listen(self) -> str:
        """Listen on a free port; returns the address for clients."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _End(self, None), LOOPBACK, 0)
        port = self._server.sockets[0].getsockname()[1]
        self._advertised = (self._advertised[0], _wire_address(LOOPBACK, port))
        return f"{LOOPBACK}:{port}"

    def close(self) -> None:
        """Listen no more, and end every connection."""
        if self._server is not None:
            self._server.close()
        for end in self.ends:
            end.abort()

    def command(self, word: str) -> dict[str, Any]:
        """``stall`` or ``resume``."""
        self.is_stalled = word == "stall"
        for end in self.ends:
            end.update_reading()
        return {"stalled": self.is_stalled}

    def readdress(self, data: bytes) -> bytes:
        """The proxy as clients see it: this address in the place of the target's."""
        return data.replace(*self._advertised)


class _End(asyncio.Protocol):
    """One side of a link. Received bytes go to the other side, later."""

    def __init__(self, proxy: DelayingProxy, client: _End | None) -> None:
        self._proxy = proxy
        self._is_client = client is None
        self._peer = client
        self._transport: asyncio.Transport | None = None
        # Bytes on their way to the other side, with the time of their arrival
        self._line: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def update_reading(self) -> None:
        """Read, or do not."""
        if self._transport is not None and not self._transport.is_closing():
            if self._proxy.is_stalled:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def abort(self) -> None:
        """End this side now."""
        if self._timer is not None:
            self._timer.cancel()
        self._line.clear()
        if self._transport is not None:
            self._transport.abort()

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._proxy.ends.add(self)
        loop = asyncio.get_running_loop()
        # In the next turn: uvloop begins to read after this call, even when paused in it.
        loop.call_soon(self.update_reading)
        if self._peer is None:
            self._connecting = loop.create_task(self._connect())
        else:
            self._peer._peer = self
            self._peer._deliver()

    def data_received(self, data: bytes) -> None:
        self._line.append((asyncio.get_running_loop().time() + self._proxy.delay, data))
        if self._timer is None:
            self._deliver()

    def connection_lost(self, error: Exception | None) -> None:
        self._proxy.ends.discard(self)
        self._transport = None
        self._is_over = True
        self._deliver()

    # internals

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: _End(self._proxy, self), *self._proxy.target)
        except OSError:
            self.abort()

    def _deliver(self) -> None:
        """Pass on the bytes that have arrived; come back for the rest."""
        self._timer = None
        if self._peer is None:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._line and self._line[0][0] <= now:
            self._peer._write(self._line.popleft()[1])
        if self._line:
            self._timer = loop.call_at(self._line[0][0], self._deliver)
        elif self._is_over and self._peer._transport is not None:
            self._peer._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(self._proxy.readdress(data) if self._is_client else data)


def _wire_address(host: str, port: int) -> bytes:
    """Host and port as they stand next to each other in Kafka's answers; the end of the host is enough."""
    return host.encode() + struct.pack(">i", port)


async def _main() -> None:
    target, delay_ms = sys.argv[1:]
    host, _, port = target.partition(":")
    proxy = DelayingProxy(host, int(port), float(delay_ms) / 1000)
    try:
        await commands({"bootstrap_servers": await proxy.listen()}, proxy.command)
    finally:
        proxy.close()


if __name__ == "__main__":
    uvloop.run(_main())
