"""One connection to one broker: an asyncio protocol that cuts frames and says when it can be written to.

Owns the transport and the frame decoder. Knows neither requests nor states: every event goes to its
``ConnectionOwner``, the network client. Replaces Java's ``KafkaChannel``, ``Selector``, ``NetworkSend`` and
``NetworkReceive``.

Rules:

- Callbacks are a few lines and do not raise: errors that a peer can cause are caught here or in the owner.
- ``is_writable`` is False from a write that the socket did not take at once until everything is written: the
  high-water mark is zero, so that "writable" means "the last request is completely written". It also makes uvloop
  write at once.
- Buffers given to ``write`` are not copied (but by asyncio before 3.12, which joins them) and must not change until
  they are written.
- ``connection_lost`` reaches the owner exactly once, also after ``abort``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, cast

from ...errors import MalformedFrameError
from ...protocol.framing import FrameDecoder
from ..nodes.client_request import Buffer

__all__ = ["MAX_RESPONSE_SIZE", "BrokerConnection", "ConnectionOwner"]

# The limit of a broker by default (socket.request.max.bytes); no response of a sane broker is larger.
MAX_RESPONSE_SIZE: Final = 100 * 1024 * 1024


class ConnectionOwner(Protocol):
    """Who is told of a connection's events. The methods must not raise."""

    def on_connection_made(self, connection: BrokerConnection) -> None:
        """The socket is connected."""

    def on_frames(self, connection: BrokerConnection, frames: list[bytes]) -> None:
        """Whole frames came, in order."""

    def on_malformed_data(self, connection: BrokerConnection, error: MalformedFrameError) -> None:
        """Bytes came that are no frame; the connection is of no more use."""

    def on_writable(self, connection: BrokerConnection) -> None:
        """All that was written has left."""

    def on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        """The connection is closed, by whomever."""


class BrokerConnection(asyncio.Protocol):
    """The connection of one attempt; ``address`` is the peer's, for people."""

    __slots__ = (
        "_decoder",
        "_is_encrypted",
        "_owner",
        "_transport",
        "_write_error",
        "address",
        "is_closed",
        "is_writable",
        "last_received",
        "last_used",
        "node_id",
    )

    def __init__(self, node_id: int, owner: ConnectionOwner, now: float, address: str = "") -> None:
        self.node_id = node_id
        self.address = address
        self.is_writable = False
        self.is_closed = False
        # For idle close and for probing a connection that was silent.
        self.last_used = now
        self.last_received = now
        self._owner = owner
        self._decoder = FrameDecoder(MAX_RESPONSE_SIZE)
        self._transport: asyncio.Transport | None = None
        self._is_encrypted = False
        self._write_error: Exception | None = None

    @property
    def last_active(self) -> float:
        """When something was last written or received."""
        return max(self.last_used, self.last_received)

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Hand buffers to the transport, as one write; ``is_writable`` says afterwards whether they have all left."""
        transport = self._transport
        if transport is None:
            return
        try:
            if len(buffers) == 1:
                transport.write(buffers[0])
            elif self._is_encrypted:
                # One TLS record holds 16 KiB: a record for each small buffer would cost more than joining them.
                transport.write(b"".join(buffers))
            else:
                transport.writelines(buffers)
        except Exception as error:
            # Not bytes. How much of it has left is not known: only the end of the connection makes that good.
            self._write_error = error
            self.abort()

    def abort(self) -> None:
        """Close at once, dropping what is not written; ``connection_lost`` follows. Harmless when called again."""
        self.is_writable = False
        if self._transport is not None and not self.is_closed:
            try:
                self._transport.abort()
            except RuntimeError:
                pass  # the loop is closed already: the socket goes with the transport

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._is_encrypted = transport.get_extra_info("sslcontext") is not None
        # A TLS transport pauses at the limit, others above it.
        self._transport.set_write_buffer_limits(high=1 if self._is_encrypted else 0, low=0)
        self.is_writable = True
        self._owner.on_connection_made(self)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._decoder.feed(data)
        except MalformedFrameError as error:
            self._owner.on_malformed_data(self, error)
            return
        if frames:
            self._owner.on_frames(self, frames)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        if not self.is_closed:
            self.is_writable = True
            self._owner.on_writable(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        # Where every waiter of this connection is settled, once: nothing comes after it.
        self.is_closed = True
        self.is_writable = False
        self._owner.on_connection_lost(self, exc if self._write_error is None else self._write_error)
