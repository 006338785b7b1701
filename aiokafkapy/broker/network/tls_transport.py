"""TLS between a socket's transport and one ClientConnection: the server's half of the handshake, then records.

Owns the TLS state of a single connection. It must not know requests nor quotas: to the connection it is a transport, to
the socket's transport a protocol. Kafka's counterpart is ``SslTransportLayer``.

Why not asyncio's own TLS: when a handshake fails, asyncio and uvloop close the socket and drop the bytes that OpenSSL
still has to say. That is the alert, by which a client knows that its certificate was refused, and why; without one it
can but try again. As Kafka, this layer writes the alert and then closes.

Rules:

- ``connection_made`` of the ClientConnection comes when the handshake is done; if that comes to nothing, ``on_failed``
  is called instead, once, unless ``abort`` ended it.
- Nothing decrypted is kept here: a paused reading pauses the socket. Nothing encrypted is kept either, so the limits of
  the write buffer are those of the socket's transport.
- TLS is not negotiated anew on a connection, as in Kafka.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, cast

__all__ = ["TlsTransport"]

_MOST_READ: Final = 256 * 1024
"""More than OpenSSL gives at once, which is one record."""


class _State(Enum):
    SHAKING_HANDS = auto()
    OPEN = auto()
    CLOSED = auto()


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """One of each connection on a listener with TLS."""

    def __init__(
        self,
        context: ssl.SSLContext,
        connection: asyncio.Protocol,
        handshake_timeout: float,
        on_failed: Callable[[OSError], None],
    ) -> None:
        """``on_failed`` gets an SSLError, or another OSError where the client went away or was too slow."""
        super().__init__()
        self._state = _State.SHAKING_HANDS
        self._is_connected = False  # the connection was told that it is made, so it is told of its end
        self._connection = connection
        self._handshake_timeout = handshake_timeout
        self._on_failed = on_failed
        self._socket: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def was_connected(self) -> bool:
        """Whether there was ever a socket's transport."""
        return self._socket is not None

    # a transport, to the ClientConnection

    def get_extra_info(self, name: str, default: object = None) -> Any:
        """``peercert``, and all that the socket's transport knows."""
        return self._tls.getpeercert() if name == "peercert" else self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Those of encrypted bytes."""
        self._transport.set_write_buffer_limits(high, low)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and hand on."""
        if self._state is not _State.OPEN:
            return
        try:
            self._tls.write(data)
        except ssl.SSLError:
            self.abort()
        else:
            self._flush()

    def is_reading(self) -> bool:
        """Whether the socket is read."""
        return self._transport.is_reading()

    def pause_reading(self) -> None:
        """Read no more from the socket."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        self._transport.resume_reading()

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._transport.is_closing()

    def abort(self) -> None:
        """Close at once, also in the handshake."""
        self._end_handshake(_State.CLOSED)
        self._transport.abort()

    # a protocol, to the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the client its time."""
        # A cast, not a check: uvloop's transports are no asyncio.Transport.
        self._socket = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(self._handshake_timeout, self._on_timeout)

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake, then decrypt, which may be both in one."""
        self._incoming.write(data)
        if self._state is _State.SHAKING_HANDS:
            self._shake_hands()
        if self._state is _State.OPEN:
            self._decrypt()

    def pause_writing(self) -> None:
        """Only the connection's responses can be too much."""
        if self._state is _State.OPEN:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """They have left."""
        if self._state is _State.OPEN:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the connection, or of its handshake."""
        if self._state is _State.SHAKING_HANDS:
            self._fail(exc if isinstance(exc, OSError) else ConnectionResetError("the client closed the connection"))
        elif self._is_connected:
            self._connection.connection_lost(exc)

    # internals

    @property
    def _transport(self) -> asyncio.Transport:
        assert self._socket is not None
        return self._socket

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert
            self._transport.close()
            self._fail(error)
        else:
            self._flush()
            self._end_handshake(_State.OPEN)
            self._is_connected = True
            self._connection.connection_made(self)

    def _decrypt(self) -> None:
        chunks = []
        is_over = True  # the client's close_notify, or bytes that are no TLS
        try:
            while chunk := self._tls.read(_MOST_READ):
                chunks.append(chunk)
        except ssl.SSLWantReadError:
            is_over = False
        except ssl.SSLError:
            pass
        self._flush()
        if chunks:
            self._connection.data_received(b"".join(chunks))
        if is_over:
            self._transport.close()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self._transport.write(data)

    def _on_timeout(self) -> None:
        self._transport.abort()
        self._fail(ConnectionAbortedError(f"the handshake took longer than {self._handshake_timeout:g} seconds"))

    def _fail(self, error: OSError) -> None:
        self._end_handshake(_State.CLOSED)
        self._on_failed(error)

    def _end_handshake(self, state: _State) -> None:
        self._state = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
