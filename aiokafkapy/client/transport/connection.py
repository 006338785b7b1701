"""One connection to one broker: an asyncio protocol that splits the stream into frames and tracks writability.

Owns the transport and the frame decoder. Knows neither requests nor states: every event goes to its
``ConnectionOwner``, the network client. Replaces Java's ``KafkaChannel``, ``Selector``, ``NetworkSend`` and
``NetworkReceive``.

Rules:

- Callbacks are a few lines and do not raise: errors that a peer can cause are caught here or in the owner.
- The high-water mark is zero, so ``is_writable`` means "the last request is completely written". It also makes uvloop
  write at once.
- Buffers given to ``write`` are not copied (except by asyncio before 3.12, which joins them, and small ones for TLS)
  and must not change until they are written.
- ``connection_lost`` reaches the owner exactly once, also after ``abort``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from ...common import Buffer
from ...errors import MalformedFrameError
from ...protocol.framing import FrameDecoder
from ..nodes.node_readiness import WritableConnection

__all__ = ["BrokerConnection", "ConnectionOwner"]


class ConnectionOwner(Protocol):
    """Receives a connection's events. The methods must not raise."""

    def on_connection_made(self, connection: BrokerConnection) -> None:
        """The socket is connected."""

    def on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
        """Whole frames have arrived, in order."""

    def on_malformed_data(self, connection: BrokerConnection, error: MalformedFrameError) -> None:
        """The bytes received are not a frame; the connection must be closed."""

    def on_writable(self, connection: BrokerConnection) -> None:
        """Everything handed to ``write`` has been written to the socket."""

    def on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        """The connection is closed, by either side."""


class BrokerConnection(WritableConnection):
    """The connection of one attempt; ``address`` is the peer's, for messages.

    It has all of ``asyncio.Protocol``, which no compiled class can extend: ``protocol`` is for callers that need one.
    """

    __slots__ = (
        "_decoder",
        "_owner",
        "_transport",
        "_write_error",
        "address",
        "is_closed",
        "last_received",
        "last_used",
        "node_id",
    )

    def __init__(
        self,
        node_id: int,
        owner: ConnectionOwner,
        now: float,
        address: str = "",
        *,
        max_response_size: int,
    ) -> None:
        self.node_id = node_id
        self.address = address
        super().__init__()
        self.is_closed = False
        # For closing and probing idle connections.
        self.last_used = now
        self.last_received = now
        self._owner = owner
        self._decoder = FrameDecoder(max_response_size)
        self._transport: asyncio.Transport | None = None
        self._write_error: Exception | None = None

    @property
    def protocol(self) -> asyncio.Protocol:
        """This connection, as event loops know it."""
        return cast(asyncio.Protocol, self)

    @property
    def last_active(self) -> float:
        """The loop time of the last write or receipt."""
        return max(self.last_used, self.last_received)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Hand buffers to the transport as one write; ``is_writable`` is then True if all were written at once."""
        transport = self._transport
        if transport is None:
            return
        try:
            if len(buffers) == 1:
                transport.write(buffers[0])
            else:
                transport.writelines(buffers)
        except Exception as error:
            # A buffer is not bytes. The number of written bytes is unknown, so the connection cannot be used any more.
            self._write_error = error
            self.abort()

    def abort(self) -> None:
        """Close at once, dropping unwritten data; ``connection_lost`` follows. Idempotent."""
        self.is_writable = False
        if self._transport is not None and not self.is_closed:
            try:
                self._transport.abort()
            except RuntimeError:
                pass  # the loop is already closed: the socket is closed with the transport

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0, low=0)
        self.is_writable = True
        self._owner.on_connection_made(self)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._decoder.feed(data)
        except MalformedFrameError as error:
            self._owner.on_malformed_data(self, MalformedFrameError(f"{error} (receive_message_max_bytes)"))
            return
        if frames:
            self._owner.on_frames(self, frames)

    def eof_received(self) -> None:
        """The transport closes itself."""

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        if not self.is_closed:
            self.is_writable = True
            self._owner.on_writable(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        # The last callback: everything that waits for this connection is settled from here, once.
        self.is_closed = True
        self.is_writable = False
        self._owner.on_connection_lost(self, exc if self._write_error is None else self._write_error)
