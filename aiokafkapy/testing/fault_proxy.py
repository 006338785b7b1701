"""A TCP proxy that breaks connections on command, so that a failure test is short and honest.

    async with FaultProxy("127.0.0.1", broker_port) as proxy:
        client = connect(*proxy.address)
        proxy.stall()            # both ends stay connected, nothing moves
        proxy.resume()

It moves bytes between clients and one target and knows nothing of what they mean; `alter` is where a subclass may look
at or change them (say, to rewrite the addresses that a broker advertises). asyncpg's test proxy is the model.

Rules: a verb takes effect before it returns, on connections there are and on those to come; `resume` ends whatever verb
is on; what was read before a `stall` is delivered, nothing is read after it, so that writers meet a full pipe in the
end; leaving the block leaves no connection and no task behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct
from typing import Self, cast

from .ports import LOOPBACK, free_port

__all__ = ["Direction", "FaultProxy"]

# SO_LINGER with time zero: closing sends RST, and the other end learns at once, by an error.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

# Slow: so many times a second a piece is let through.
_SLOW_TICKS = 50


class Direction(enum.Enum):
    """Which way bytes go."""

    TO_TARGET = "to target"
    TO_CLIENT = "to client"


class _Mode(enum.Enum):
    PASS = "pass"
    STALL = "stall"  # read nothing
    SWALLOW = "swallow"  # read and drop: the peer has vanished


class FaultProxy:
    """Listens on a port of its own and connects every client to `host:port`."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.connections_accepted = 0
        self.bytes_to_target = 0
        self.bytes_to_client = 0
        # What is done to bytes
        self._mode = _Mode.PASS
        self._bytes_per_second: float | None = None
        self._client_bytes_left: int | None = None
        # What there is
        self._port = 0
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()

    async def __aenter__(self) -> Self:
        """Listen; `address` is known from here on."""
        self._port = free_port()
        await self.accept()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stop listening and end all connections."""
        self.refuse()
        self.cut()
        await asyncio.gather(*(link.ended() for link in list(self._links)))

    @property
    def address(self) -> tuple[str, int]:
        """Host and port for clients; they stay the same."""
        return LOOPBACK, self._port

    @property
    def bootstrap_servers(self) -> str:
        """`address` as a Kafka client's option takes it."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def open_connections(self) -> int:
        """How many clients are connected now."""
        return len(self._links)

    def cut(self, *, reset: bool = True) -> None:
        """End all connections, by RST, or by an orderly FIN when `reset` is false. New ones are welcome."""
        for link in list(self._links):
            link.cut(reset=reset)

    def refuse(self) -> None:
        """Stop listening: new connections are refused; those there are go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def accept(self) -> None:
        """Listen again after `refuse`."""
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Link(self).client, *self.address)

    def stall(self) -> None:
        """Read nothing from either side. Nobody is told; connections are still accepted."""
        self._set_mode(_Mode.STALL)

    def half_open(self) -> None:
        """Swallow all that is sent, both ways: the peer is gone without a word, as after a power cut."""
        self._set_mode(_Mode.SWALLOW)

    def slow(self, bytes_per_second: float) -> None:
        """Let so many bytes a second through, in each direction of each connection."""
        self._bytes_per_second = bytes_per_second

    def tear(self, after_bytes: int) -> None:
        """Let so many more bytes through to clients, then cut: the last frame arrives in part."""
        self._client_bytes_left = after_bytes

    def resume(self) -> None:
        """Back to passing everything on. Connections that swallowed bytes are cut: what they carry has a hole."""
        if self._mode is _Mode.SWALLOW:
            self.cut()
        self._bytes_per_second = None
        self._client_bytes_left = None
        self._set_mode(_Mode.PASS)

    def alter(self, direction: Direction, data: bytes) -> bytes:
        """What to pass on instead of `data`, a piece of any size; here, `data` itself."""
        return data

    # internals

    def _set_mode(self, mode: _Mode) -> None:
        self._mode = mode
        for link in list(self._links):
            link.apply_mode()

    def _admit(self, direction: Direction, data: bytes) -> tuple[bytes, bool]:
        """What of `data` may pass now, and whether the connection is torn after it."""
        if self._mode is _Mode.SWALLOW:
            return b"", False
        torn = False
        if direction is Direction.TO_CLIENT and self._client_bytes_left is not None:
            torn = len(data) >= self._client_bytes_left
            data = data[: self._client_bytes_left]
            self._client_bytes_left = None if torn else self._client_bytes_left - len(data)
        if direction is Direction.TO_CLIENT:
            self.bytes_to_client += len(data)
        else:
            self.bytes_to_target += len(data)
        return self.alter(direction, data), torn


class _Link:
    """One client's connection and the one made for it to the target."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.client = _End(self, Direction.TO_TARGET)
        self.target = _End(self, Direction.TO_CLIENT)
        self._connecting: asyncio.Task[None] | None = None

    def client_connected(self) -> None:
        """A client came: keep it waiting until the target is there too."""
        self.proxy.connections_accepted += 1
        self.proxy._links.add(self)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def apply_mode(self) -> None:
        """Read and pass on, or do not, as the proxy's mode says."""
        for end in (self.client, self.target):
            end.pass_on_held()
            end.update_reading()

    def cut(self, *, reset: bool) -> None:
        """End both connections."""
        if self._connecting is not None:
            self._connecting.cancel()
        for end in (self.client, self.target):
            end.close(reset=reset)

    def end_lost(self) -> None:
        """One end has gone: pass what is on its way, then end the other."""
        if self._connecting is not None:
            self._connecting.cancel()
        for end in (self.client, self.target):
            end.close(reset=False)
        if self.client.is_closed and self.target.is_closed:
            self.proxy._links.discard(self)

    async def ended(self) -> None:
        """Return when both connections are closed."""
        if self._connecting is not None:
            await asyncio.wait([self._connecting])
        for end in (self.client, self.target):
            await end.closed()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.target, *self.proxy.target)
        except OSError:
            self.client.close(reset=True)
        else:
            self.apply_mode()


class _End(asyncio.Protocol):
    """One side of a link; what it receives goes out at the other side."""

    def __init__(self, link: _Link, direction: Direction) -> None:
        self._link = link
        self._direction = direction
        self._transport: asyncio.Transport | None = None
        self._closed: asyncio.Future[None] | None = None
        self._peer_is_full = False
        # What waits: for the target to be connected, for a stall to end, or for its turn in a slow stream
        self._held = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> _End:
        """The other side."""
        return self._link.target if self._direction is Direction.TO_TARGET else self._link.client

    @property
    def is_closed(self) -> bool:
        """Never connected, or connected no more."""
        return self._transport is None

    def write(self, data: bytes) -> None:
        """Send to this side."""
        if self._transport is not None and data:
            self._transport.write(data)

    def update_reading(self) -> None:
        """Pause or resume reading from this side."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._may_pass or self._peer_is_full or self._held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def pass_on_held(self) -> None:
        """Let go of what is held back, as far as it may pass now."""
        if not self._held or not self._may_pass:
            return
        if self._link.proxy._bytes_per_second is not None:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(1 / _SLOW_TICKS, self._tick)
            return
        held = bytes(self._held)
        self._held.clear()
        self._pass_on(held)
        self.update_reading()

    def close(self, *, reset: bool) -> None:
        """End this side, at once or after what is written has gone out."""
        self._stop_timer()
        if self._transport is None:
            return
        if reset:
            with contextlib.suppress(OSError):
                self._socket().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
        else:
            self._transport.close()

    async def closed(self) -> None:
        """Return when this side is closed."""
        if self._closed is not None:
            await asyncio.wait([self._closed])

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its bases
        loop = asyncio.get_running_loop()
        self._closed = loop.create_future()
        # Again in the next turn: uvloop begins to read after this call, whatever was said in it.
        self.update_reading()
        loop.call_soon(self.update_reading)
        if self._direction is Direction.TO_TARGET:
            self._link.client_connected()

    def data_received(self, data: bytes) -> None:
        if self._may_pass and not self._held and self._link.proxy._bytes_per_second is None:
            self._pass_on(data)
        else:
            self._held += data
            self.update_reading()
            self.pass_on_held()

    def pause_writing(self) -> None:
        self.peer._peer_is_full = True
        self.peer.update_reading()

    def resume_writing(self) -> None:
        self.peer._peer_is_full = False
        self.peer.update_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._stop_timer()
        self._pass_on(bytes(self._held))
        self._held.clear()
        if self._closed is not None:
            self._closed.set_result(None)
        self._link.end_lost()

    # internals

    @property
    def _may_pass(self) -> bool:
        return self._link.proxy._mode is not _Mode.STALL and not self.peer.is_closed

    def _pass_on(self, data: bytes) -> None:
        admitted, torn = self._link.proxy._admit(self._direction, data)
        self.peer.write(admitted)
        if torn:
            self._link.cut(reset=False)

    def _tick(self) -> None:
        """A slow stream's next piece."""
        self._timer = None
        rate = self._link.proxy._bytes_per_second
        if rate is not None and self._may_pass:
            size = max(1, int(rate / _SLOW_TICKS))
            piece = bytes(self._held[:size])
            del self._held[:size]
            self._pass_on(piece)
        self.pass_on_held()
        self.update_reading()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _socket(self) -> socket.socket:
        assert self._transport is not None  # its callers have looked
        found: socket.socket = self._transport.get_extra_info("socket")
        return found
