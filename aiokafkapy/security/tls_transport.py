"""TLS between a socket's transport and one connection: the handshake, of either half, then records.

Owns the TLS state of a single connection, for clients and for the dev broker's listeners. It must not know requests
nor quotas: to the connection it is a transport, to the socket's transport a protocol. Kafka's counterpart is
``SslTransportLayer``.

Why not asyncio's own TLS: when a handshake fails, asyncio and uvloop close the socket and drop the bytes that OpenSSL
still has to send. They hold the alert, from which the other side learns that its certificate was refused, and why;
without it the other side can only retry. Like Kafka, this layer writes the alert and then closes. For one record
asyncio's TLS also does more than Kafka's connections need: it reads until OpenSSL raises an exception, and takes a turn
of the loop to write.

Rules:

- ``connection_made`` of the connection comes when the handshake is done. ``on_done`` is called once, with the error if
  the handshake failed, unless ``abort`` ended it.
- Nothing decrypted is kept here: a paused reading pauses the socket.
- Only as much is encrypted as the socket takes, plus at most one piece; the rest of a write waits unencrypted, not
  copied. So the limits of the write buffer are those of the socket's transport, and a connection is paused while the
  socket is, or anything waits.
- A state changes only through ``TLS_STATES.transition``.
- The end of TLS is never waited for: bytes that the socket does not take at once are dropped then.
- Our contexts do not renegotiate, as in Kafka. If a context of the user's does, writes wait meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, cast

from ..common import Buffer
from ..sockets import hand_over
from ..states import StateTable

__all__ = ["TLS_STATES", "TlsState", "TlsTransport", "connect_tls"]

_RECORD: Final = 16 * 1024
"""The most that a record holds, and so the most that OpenSSL reads at once."""
_PIECE: Final = 64 * 1024
"""The most bytes encrypted or decrypted in one go: OpenSSL's buffers never shrink again."""


class TlsState(Enum):
    """The progress of a connection with TLS."""

    SHAKING_HANDS = "shaking_hands"
    OPEN = "open"
    CLOSED = "closed"


# Looked up once: reading a member off its class costs more than its use for each record.
_SHAKING_HANDS: Final = TlsState.SHAKING_HANDS
_OPEN: Final = TlsState.OPEN
_CLOSED: Final = TlsState.CLOSED

TLS_STATES: Final = StateTable(
    "TLS",
    _SHAKING_HANDS,
    {
        _SHAKING_HANDS: {_OPEN, _CLOSED},
        _OPEN: {_CLOSED},
        _CLOSED: (),
    },
)


async def connect_tls(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    connection_factory: Callable[[], asyncio.Protocol],
    *,
    context: ssl.SSLContext,
    server_hostname: str,
    handshake_timeout: float,
) -> None:
    """Make a connected socket a connection over TLS, as its client; the connection was made when this returns.

    Raises the SSLError of a handshake that failed, ConnectionResetError where the other side closed instead, and
    ConnectionAbortedError after ``handshake_timeout`` seconds. After an error, as after a cancellation, nothing uses
    the socket any more, and the caller closes it.
    """
    done: asyncio.Future[OSError | None] = loop.create_future()

    def on_done(error: OSError | None) -> None:
        if not done.done():
            done.set_result(error)

    transport = TlsTransport(context, connection_factory(), handshake_timeout, on_done, server_hostname)
    try:
        await hand_over(sock, loop.create_connection(lambda: transport.protocol, sock=sock))
        error = await done
    except BaseException:
        transport.abort()
        raise
    if error is not None:
        raise error


class TlsTransport:
    """The transport of one connection with TLS.

    It has all of ``asyncio.Protocol``, and those parts of ``asyncio.Transport`` that Kafka's connections use; no
    compiled class can extend them.
    """

    __slots__ = (
        "_backlog",
        "_connection",
        "_encrypt",
        "_error",
        "_feed",
        "_handshake_timeout",
        "_incoming",
        "_is_closing",
        "_is_connected",
        "_is_paused",
        "_is_told_to_pause",
        "_on_done",
        "_outgoing",
        "_read",
        "_state",
        "_take",
        "_timer",
        "_tls",
        "_transport",
    )

    def __init__(
        self,
        context: ssl.SSLContext,
        connection: asyncio.Protocol,
        handshake_timeout: float,
        on_done: Callable[[OSError | None], None],
        server_hostname: str | None = None,
    ) -> None:
        """With a ``server_hostname`` it is the client's half, else the server's.

        ``on_done`` gets None when the handshake is done, an SSLError, or another OSError where the other side went away
        or was too slow. Raises ValueError for a name that no certificate can have, and SSLError for a context that
        cannot begin: not in ``connection_made``, since uvloop forgets a transport that is closed there.
        """
        self._state = TLS_STATES.initial
        self._is_connected = False  # connection_made was called, so connection_lost will be
        self._connection = connection
        self._on_done = on_done
        self._handshake_timeout = handshake_timeout
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None

        # OpenSSL, and its methods for each record
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._feed = self._incoming.write
        self._take = self._outgoing.read
        self._read = self._tls.read
        self._encrypt = self._tls.write

        if server_hostname is not None:
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()

        # writing
        self._backlog: deque[Buffer] = deque()
        self._is_paused = False  # by the socket's transport
        self._is_told_to_pause = False
        self._is_closing = False

    @property
    def protocol(self) -> asyncio.Protocol:
        """This object, as event loops know it."""
        return cast(asyncio.Protocol, self)

    @property
    def was_connected(self) -> bool:
        """Whether there was ever a socket's transport."""
        return self._transport is not None

    # a transport, to the connection

    def get_extra_info(self, name: str, default: object = None) -> Any:
        """``peercert`` and ``ssl_object``, as asyncio's TLS transports have them, and all of the socket's transport."""
        if name == "peercert":
            return self._tls.getpeercert()
        if name == "ssl_object":
            return self._tls
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits, which are those of the encrypted bytes."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """The bytes that wait, encrypted or not."""
        encrypted = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return encrypted + sum(len(data) for data in self._backlog)

    def write(self, data: Buffer) -> None:
        """Encrypt and hand on; ``data`` must not change until all is written."""
        self.writelines((data,))

    def writelines(self, buffers: Sequence[Buffer]) -> None:
        """Encrypt and hand on; the buffers must not change until all is written. Raises TypeError for other objects."""
        if self._state is not _OPEN or self._is_closing:
            return
        size = 0
        for data in buffers:
            size += len(data)
        if size > _RECORD:
            self._backlog.extend(_pieces(buffers))
        elif size:
            self._backlog.append(buffers[0] if len(buffers) == 1 else b"".join(buffers))
        self._write()

    def is_reading(self) -> bool:
        """Whether the socket is read."""
        return self._transport is not None and self._transport.is_reading()

    def pause_reading(self) -> None:
        """Read no more from the socket."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return (
            self._is_closing or self._state is _CLOSED or (self._transport is not None and self._transport.is_closing())
        )

    def close(self) -> None:
        """Write the waiting bytes, then the end of TLS, and close."""
        if self._state is _OPEN:
            self._is_closing = True
            self._write()
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once, also in the handshake."""
        self._end_handshake(_CLOSED)
        self._backlog.clear()
        if self._transport is not None:
            self._transport.abort()

    # a protocol, to the socket's transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the peer's time-out, and send the first handshake message."""
        # A cast, not a check: uvloop's transports are not instances of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        if self._state is _SHAKING_HANDS:
            self._timer = loop.call_later(self._handshake_timeout, self._on_timeout)
            self._flush()
        else:
            loop.call_soon(self._transport.abort)  # not at once: uvloop forgets a transport that is closed in here

    def data_received(self, data: bytes) -> None:
        """Go on with the handshake, then decrypt, which may be both in one."""
        size = len(data)
        if size <= _PIECE:
            self._receive(data, size)
            return
        view = memoryview(data)
        for start in range(0, size, _PIECE):
            self._receive(view[start : start + _PIECE], _PIECE)

    def eof_received(self) -> None:
        """The transport closes itself. Kafka's messages have a size, so one that was cut off is recognized."""

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """All encrypted bytes have left."""
        self._is_paused = False
        if self._state is _OPEN:
            self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of the connection, or of its handshake."""
        if self._state is _SHAKING_HANDS:
            self._fail(
                exc if isinstance(exc, OSError) else ConnectionResetError("the other side closed the connection")
            )
            return
        self._change(_CLOSED)
        self._backlog.clear()
        if self._is_connected:
            self._is_connected = False
            self._connection.connection_lost(exc if self._error is None else self._error)

    # internals: the handshake

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._end()  # with the alert
            self._fail(error)
        else:
            self._flush()
            self._end_handshake(_OPEN)
            self._is_connected = True
            self._connection.connection_made(cast(asyncio.BaseTransport, self))
            self._on_done(None)
            if self._state is _OPEN:
                self._write()  # pauses the connection if the socket is already full

    def _on_timeout(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._fail(ConnectionAbortedError(f"the handshake took longer than {self._handshake_timeout:g} seconds"))

    def _fail(self, error: OSError) -> None:
        self._end_handshake(_CLOSED)
        self._on_done(error)

    def _end_handshake(self, new: TlsState) -> None:
        self._change(new)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _change(self, new: TlsState) -> None:
        if self._state is not new:
            self._state = TLS_STATES.transition(self._state, new)

    # internals: records

    def _receive(self, data: Buffer, size: int) -> None:
        self._feed(data)
        if self._state is _SHAKING_HANDS:
            self._shake_hands()
        if self._state is _OPEN:
            self._decrypt(size)

    def _decrypt(self, size: int) -> None:
        """Decrypt ``size`` more bytes and pass them on; a record is never longer decrypted than encrypted."""
        wanted = min(size, _RECORD)
        try:
            while True:
                chunk = self._read(wanted)
                if not chunk:
                    self._end()  # the other side's close_notify, answered
                    return
                self._connection.data_received(chunk)
                if self._state is not _OPEN:
                    return
                # Asked for more, OpenSSL would say so by an exception: look whether there is any.
                left = self._tls.pending() if len(chunk) == wanted else 0
                if not left:
                    left = self._incoming.pending
                    if not left:
                        break
                wanted = min(left, _RECORD)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._error = error  # an alert of the other side, or bytes that are not TLS, for which we send one
            self._change(_CLOSED)
            self._end()
            return
        if self._outgoing.pending:
            self._flush()  # bytes of TLS itself: a new key of ours in answer to one of theirs
        if self._backlog:
            self._write()

    def _write(self) -> None:
        """Encrypt as much as the socket takes, and tell the connection whether that was all."""
        try:
            while self._backlog and not self._is_paused:
                data = self._backlog.popleft()
                if len(data) > _PIECE:
                    view = memoryview(data)
                    self._backlog.appendleft(view[_PIECE:])
                    data = view[:_PIECE]
                try:
                    self._encrypt(data)
                except ssl.SSLWantReadError:
                    self._backlog.appendleft(data)
                    break
                self._flush()
        except ssl.SSLError as error:
            self._error = error
            self.abort()
            return
        must_pause = self._is_paused or bool(self._backlog)
        if self._is_closing and not must_pause:
            self._end()
        elif must_pause != self._is_told_to_pause:
            self._is_told_to_pause = must_pause
            if must_pause:
                self._connection.pause_writing()
            else:
                self._connection.resume_writing()

    def _end(self) -> None:
        """Send the end of TLS, and close."""
        transport = self._transport
        if transport is None:
            return
        if self._state is _OPEN:
            self._change(_CLOSED)
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the other side has not sent its end yet, or TLS ended with an error
        self._backlog.clear()
        self._flush()
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _flush(self) -> None:
        data = self._take()
        if data and self._transport is not None:
            self._transport.write(data)


def _pieces(buffers: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer buffers: a TLS record of its own for each small one would cost more than joining them.
    Large ones are not copied.
    """
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    size = 0
    for data in buffers:
        if len(data) >= _PIECE:
            if small:
                pieces.append(b"".join(small))
                small, size = [], 0
            pieces.append(data)
            continue
        small.append(data)
        size += len(data)
        if size >= _PIECE:
            pieces.append(b"".join(small))
            small, size = [], 0
    if small:
        pieces.append(small[0] if len(small) == 1 else b"".join(small))
    return pieces
