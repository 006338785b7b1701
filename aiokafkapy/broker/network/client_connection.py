"""One connection of one client: bytes in, one request at a time, one response out, and when it may read.

Owns the transport, the frame decoder and the muting of a single connection. It must not know the meaning of a request
nor its handler: it gives whole frames to its Processor and gets responses to write. Kafka's counterpart is
``KafkaChannel`` with its ``ChannelMuteState``.

Rules:

- one request at a time: from a whole frame until its response has left our buffer the connection is muted; frames that
  came along in the same read wait here;
- reading is paused as soon as bytes arrive that cannot be handed on, so a client that sends much and reads nothing
  occupies one read of the event loop (256 KiB) besides the frame in progress;
- a size that is negative or over ``socket_request_max_bytes`` closes the connection before anything is allocated for
  it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol, cast

from ...errors import MalformedFrameError
from ...protocol.framing import FrameDecoder
from ...states import StateTable
from ..context import ConnectionInfo
from ..security.sasl_session import SaslSession
from .request_channel import Request, Response

__all__ = ["MUTE_STATES", "ClientConnection", "MuteState"]


class MuteState(Enum):
    """Whether the next request may be taken, and if not, the reason."""

    NOT_MUTED = "not muted"
    MUTED = "a whole request waits for room in the request queue"
    MUTED_AND_RESPONSE_PENDING = "a request is being handled or its response written"
    MUTED_AND_THROTTLED = "the response was written and the client is over its quota"
    CLOSED = "closed"


_S = MuteState
MUTE_STATES = StateTable(
    "client connection",
    _S.NOT_MUTED,
    {
        _S.NOT_MUTED: {_S.MUTED, _S.CLOSED},
        _S.MUTED: {_S.MUTED_AND_RESPONSE_PENDING, _S.CLOSED},
        _S.MUTED_AND_RESPONSE_PENDING: {_S.NOT_MUTED, _S.MUTED_AND_THROTTLED, _S.CLOSED},
        _S.MUTED_AND_THROTTLED: {_S.NOT_MUTED, _S.CLOSED},
        _S.CLOSED: set(),
    },
)


class ConnectionOwner(Protocol):
    """A Processor as its connections see it."""

    @property
    def may_read(self) -> bool:
        """Whether requests are taken at all now."""

    def on_connected(self, connection: ClientConnection) -> None:
        """The transport is there, after TLS if any."""

    def on_request(self, connection: ClientConnection, buffer: bytes) -> Request | None:
        """Take a whole frame. None when there is no room for it yet; then it is offered again."""

    def on_sent(self, connection: ClientConnection, response: Response) -> None:
        """A response has left our buffer."""

    def on_disconnected(self, connection: ClientConnection, error: Exception | None) -> None:
        """The connection is closed, by either side; ``error`` is None after a normal end."""


class ClientConnection(asyncio.Protocol):
    """State changes go through ``MUTE_STATES``; ``request`` is the one in progress, if any."""

    __slots__ = (
        "_decoder",
        "_frames",
        "_is_reading",
        "_overflowed",
        "_owner",
        "_sending",
        "_transport",
        "_unmute_handle",
        "_write_paused",
        "info",
        "request",
        "state",
    )

    def __init__(self, owner: ConnectionOwner, info: ConnectionInfo, max_request_size: int) -> None:
        self.info = info
        self.state = MUTE_STATES.initial
        self.request: Request | None = None
        self._owner = owner

        # reading
        self._decoder = FrameDecoder(max_request_size)
        self._frames: deque[bytes] = deque()
        self._overflowed = False  # something arrived while muted; no more until unmuted
        self._is_reading = True

        # writing
        self._transport: asyncio.Transport | None = None
        self._sending: Response | None = None
        self._write_paused = False
        self._unmute_handle: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be read or written any more."""
        return self.state is MuteState.CLOSED

    @property
    def peer_subject(self) -> Sequence[Sequence[tuple[str, str]]] | None:
        """The subject of the certificate that the client showed, as ``ssl`` writes it; None when it showed none."""
        certificate = None if self._transport is None else self._transport.get_extra_info("peercert")
        return certificate.get("subject", ()) if certificate else None

    @property
    def was_connected(self) -> bool:
        """Whether the connection was ever set up, so that ``on_disconnected`` counts it out."""
        return self._transport is not None

    def send(self, response: Response) -> None:
        """Write the response of the request in progress; ``on_sent`` is called once it has left our buffer."""
        if self.is_closed or self._transport is None:
            return
        self._sending = response
        if response.buffer:
            self._transport.write(response.buffer)
        if not self._write_paused:
            self._sent()

    def unmute(self) -> None:
        """Take the next request, which may be here already."""
        if self.is_closed:
            return
        self.state = MUTE_STATES.transition(self.state, MuteState.NOT_MUTED)
        self.update_reading()

    def throttle(self, seconds: float) -> None:
        """Stay muted for so long, then unmute (KIP-219: the response, with the throttle time in it, has gone out)."""
        self.state = MUTE_STATES.transition(self.state, MuteState.MUTED_AND_THROTTLED)
        self._unmute_handle = asyncio.get_running_loop().call_later(seconds, self.unmute)

    def offer_again(self) -> None:
        """Hand on the request for which there was no room."""
        if self.state is MuteState.MUTED:
            self._hand_on()

    def update_reading(self) -> None:
        """Hand on the waiting frame if possible, and read exactly while frames can be handed on."""
        if self._transport is None or self.is_closed:
            return
        if self._is_ready:
            self._overflowed = False
            self._take_next()
        should_read = self._owner.may_read and not self._overflowed and not self._frames
        if should_read and not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        elif not should_read and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    def close(self) -> None:
        """Close at once; unsent bytes are dropped, as Kafka does when it closes a connection."""
        if self._transport is not None:
            self._transport.abort()
        self._settle(None)

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Every byte in the buffer counts as unsent, so that a client which does not read is not served further."""
        # A cast, not a check: uvloop's transports are not instances of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0, low=0)
        self._owner.on_connected(self)
        # Not at once: uvloop starts to read after this call, even if reading was paused in it.
        asyncio.get_running_loop().call_soon(self.update_reading)

    def data_received(self, data: bytes) -> None:
        """Cut into frames; the first is handed on, and more than that stops the reading."""
        if self.is_closed:
            return
        try:
            self._frames.extend(self._decoder.feed(data))
            if self.info.session is not None:
                self._check_size(self.info.session)
        except MalformedFrameError as error:
            self._close_for(error)
            return
        self._overflowed = not self._is_ready
        self.update_reading()

    def pause_writing(self) -> None:
        """The transport's buffer is full: a part of the response waits in it."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """The transport's buffer has room again: the response has left."""
        self._write_paused = False
        if self._sending is not None:
            self._sent()

    def connection_lost(self, exc: Exception | None) -> None:
        """The one place where the end is reported, however it came about."""
        self._settle(exc)

    # internals

    @property
    def _is_ready(self) -> bool:
        return self.state is MuteState.NOT_MUTED and self._owner.may_read

    def _check_size(self, session: SaslSession) -> None:
        """A client that is not authenticated may occupy little memory only."""
        limit = session.max_receive_size
        largest = max([self._decoder.buffered_bytes, *map(len, self._frames)])
        if limit is not None and largest > limit:
            raise MalformedFrameError(f"frame of {largest} bytes before authentication; the limit is {limit}")

    def _take_next(self) -> None:
        if self._frames:
            self.state = MUTE_STATES.transition(self.state, MuteState.MUTED)
            self._hand_on()

    def _hand_on(self) -> None:
        request = self._owner.on_request(self, self._frames[0])
        if request is not None:
            self._frames.popleft()
            self.request = request
            self.state = MUTE_STATES.transition(self.state, MuteState.MUTED_AND_RESPONSE_PENDING)

    def _sent(self) -> None:
        response, self._sending = self._sending, None
        self.request = None
        assert response is not None
        self._owner.on_sent(self, response)

    def _close_for(self, error: Exception) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._settle(error)

    def _settle(self, error: Exception | None) -> None:
        if self.is_closed:
            return
        self.state = MUTE_STATES.transition(self.state, MuteState.CLOSED)
        self._frames.clear()
        self._sending = None
        if self._unmute_handle is not None:
            self._unmute_handle.cancel()
        request, self.request = self.request, None
        if request is not None and request.parked is not None:
            request.parked.cancel()
        for callback in self.info.on_closed.values():
            callback()
        self._owner.on_disconnected(self, error)
