"""One client's connection through a ``FaultProxy``, and the one made for it to the broker.

Each side (``_End``) has an output queue. Input is split into frames, decided on by the ``Traffic``, and queued at the
other side. A response's place in the queue is taken when its request arrives, so that responses keep the order of the
requests. ``pump`` writes from the head of a queue; it is called after every event that the queue may wait for (a
response came, a hold was released, a stall ended, a timer is due, the socket is writable).

Rules: the only task is the one that connects; a full queue stops reading at the other side; a stalled link decides
nothing; a cut link decides, reads and writes nothing more.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import ssl
import struct
from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast

from ...errors import MalformedFrameError
from ...protocol.framing import FrameDecoder
from ...security.tls_transport import TlsTransport
from ..connections import MAX_FRAME, reset_connection
from .requests import Answer, Hold, Request
from .traffic import Mode, Traffic

__all__ = ["Link", "LinksGate"]

# Bytes in a queue above which reading for it pauses.
_HIGH_WATER = 1 << 20

# Bytes written to a socket at a time, so that a stall can begin in the middle of a large frame.
_CHUNK = 1 << 17

# With limited bandwidth, the times per second that bytes are let through.
_PIECES_PER_SECOND = 50

_SIZE = struct.Struct(">i")


class LinksGate(Protocol):
    """The gate of a link: the broker's address, and the settings of its node."""

    target: tuple[str, int]

    @property
    def node_id(self) -> int | None:
        """The broker at the gate's address; None before any response has named it."""

    @property
    def mode(self) -> Mode:
        """See ``Mode``."""

    @property
    def bytes_per_second(self) -> float | None:
        """The limit in each direction; None is unlimited."""

    def link_ended(self, link: Link) -> None:
        """Both its connections are closed."""


class _Then(enum.Enum):
    """The action after a piece was written."""

    NOTHING = "nothing"
    ANSWERED = "answered"
    CUT = "cut"
    SWALLOW = "swallow"
    CLOSE = "close"  # the other side has ended
    RESET = "reset"


@dataclass(slots=True, eq=False)
class _Piece:
    """An entry of an output queue."""

    data: bytes | memoryview | None  # None: a response that has not arrived yet
    then: _Then = _Then.NOTHING
    due: float = 0.0  # loop time
    hold: Hold | None = None
    # For a recording: all its bytes, and the request that it answers, with its number
    whole: bytes = b""
    request: Request | None = None
    number: int | None = None

    @property
    def size(self) -> int:
        return 0 if self.data is None else len(self.data)

    @property
    def waits(self) -> bool:
        """True while it waits for a response or for its release."""
        return self.data is None or (self.hold is not None and not self.hold.is_released)


class Link:
    """A pair of connections; owns the client's socket, which was just accepted."""

    def __init__(self, gate: LinksGate, traffic: Traffic, connection: socket.socket) -> None:
        self.gate = gate
        self.number = traffic.next_connection()
        self._traffic = traffic
        self.client = _End(self)
        self.broker = _End(self)
        self.is_cut = False
        self.is_silent = False  # half-open for good
        self._is_deaf = False  # becomes silent once everything queued is written
        self._has_hole = False
        self._recorder = traffic.recorder_of(self.number, gate.target, gate.node_id)
        self._awaited: deque[tuple[_Piece, Request, Answer]] = deque()
        self._loop = asyncio.get_running_loop()
        self._done = self._loop.create_future()
        self._connection = connection
        self._is_accepted = False
        self._may_cancel = False
        self._opening = self._loop.create_task(self._open())
        # Not in the task, which may be cancelled before its first step.
        self._opening.add_done_callback(self._on_opened)

    @property
    def mode(self) -> Mode:
        """The link's current mode."""
        return Mode.SWALLOW if self.is_silent else self.gate.mode

    def cut(self, *, reset: bool) -> None:
        """End both connections, by RST or an orderly close."""
        self.is_cut = True
        if self._may_cancel and not self.broker.is_made:
            self._opening.cancel()
        self.client.close(reset=reset)
        self.broker.close(reset=reset)

    def apply_mode(self) -> None:
        """Resume or stop reading and writing, according to ``mode``."""
        if self.mode is Mode.SWALLOW:
            self._has_hole |= self.client.drop() | self.broker.drop()
        for end in (self.client, self.broker):
            self.look_at_frames(end)
            end.pump()
            end.update_reading()

    def heal(self) -> None:
        """Stop swallowing; a link that has lost bytes is of no more use and is cut."""
        if self._has_hole or self.is_silent:
            self.cut(reset=True)

    async def ended(self) -> None:
        """Return when both connections are closed."""
        await asyncio.wait([self._done])

    # for the ends

    def peer(self, end: _End) -> _End:
        """The other side."""
        return self.broker if end is self.client else self.client

    def received(self, end: _End, data: bytes) -> None:
        """Handle received bytes."""
        if self.is_cut or self.peer(end).is_lost:
            return
        if self.mode is Mode.SWALLOW:
            self._has_hole = True
            return
        try:
            end.frames.extend(end.decoder.feed(data))
        except MalformedFrameError:
            if end is self.client:
                self._traffic.met_stranger()
            self.cut(reset=False)
        else:
            self.look_at_frames(end)

    def look_at_frames(self, end: _End) -> None:
        """Decide on the received frames, unless the link is stalled; each decision may stall it for the next."""
        while end.frames and self.mode is Mode.PASS and not self.is_cut:
            frame = end.frames.popleft()
            if end is self.broker:
                self._on_answer(frame)
            elif not self._is_deaf:
                self._on_request(frame)

    def follow(self, then: _Then) -> None:
        """Take the action that follows a written piece."""
        if then is _Then.CUT:
            self.cut(reset=False)
        elif then is _Then.SWALLOW:
            self.is_silent = True
            self.apply_mode()
        if then not in (_Then.NOTHING, _Then.CLOSE, _Then.RESET):
            self._traffic.answer_sent()

    def written(self, end: _End, piece: _Piece, size: int) -> None:
        """So many bytes of a piece, all or the first ones, went to that side."""
        if self._recorder is not None and end is self.client and size:
            data = piece.whole[:size]
            sent = self._traffic.as_sent(piece.request, data) if size == len(piece.whole) else data
            self._recorder.answer(piece.number, sent, self.gate.node_id)

    def ends(self, end: _End, *, by_peer: bool, reset: bool) -> None:
        """That side is being closed, or its peer has closed it."""
        if self._recorder is not None and end is self.client:
            self._recorder.closed(by_client=by_peer, reset=reset)

    def end_lost(self, end: _End, error: Exception | None) -> None:
        """One side is closed: write the pieces queued for the other, then close it too."""
        self._awaited.clear()
        other = self.peer(end)
        if not other.is_made and not other.queue:
            self.cut(reset=False)  # no need to connect
        other.finish(_Then.CLOSE if error is None else _Then.RESET)
        self._maybe_done()

    # asyncio callbacks

    def _on_opened(self, opening: asyncio.Task[None]) -> None:
        error = None if opening.cancelled() else opening.exception()
        if error is not None or opening.cancelled():
            self.broker.abandon()
            if not self._is_accepted:
                self.client.abandon()
            self.cut(reset=True)
        if not self.client.is_made:
            self._connection.close()
        self._maybe_done()
        if error is not None and not isinstance(error, OSError):
            raise error

    # internals

    async def _open(self) -> None:
        # The first step is never cancelled: it takes a turn or two of the loop, and if it is cancelled, uvloop calls
        # ``connection_made`` but never ``connection_lost``. The others may take forever.
        if not self.is_cut:
            await self._accept()
        if self.is_cut:
            return
        self._may_cancel = True
        await self._dial()

    async def _accept(self) -> None:
        handshake = self._traffic.client_tls.handshake(self.client)
        if handshake is None:
            await self._loop.connect_accepted_socket(lambda: self.client, self._connection)
        else:
            await self._loop.connect_accepted_socket(lambda: handshake.protocol, self._connection)
            if self.is_cut:
                handshake.abort()
            self._may_cancel = True
            try:
                await handshake.wait()
            except ssl.SSLError:
                self._traffic.met_stranger()
                raise
        self._is_accepted = True

    async def _dial(self) -> None:
        handshake = self._traffic.greet_broker(self.broker, self.gate.target[0])
        if handshake is None:
            await self._loop.create_connection(lambda: self.broker, *self.gate.target)
            return
        try:
            await self._loop.create_connection(lambda: handshake.protocol, *self.gate.target)
        except BaseException:
            handshake.abort()
            raise
        try:
            await handshake.wait()
        except OSError as error:
            if not self.is_cut:
                self._traffic.broker_refused(self.gate.target, error)
            raise

    def _maybe_done(self) -> None:
        if self._opening.done() and self.client.is_closed and self.broker.is_closed and not self._done.done():
            self._done.set_result(None)
            self.gate.link_ended(self)

    def _on_request(self, frame: bytes) -> None:
        request = Request.read(self.gate.node_id, frame, self.number)
        number = None if self._recorder is None else self._recorder.request(frame, self.gate.node_id)
        expects_answer = request.expects_answer
        answer = self._traffic.decide(request)
        if self.is_cut:
            return
        self._is_deaf = answer.swallow
        then = _Then.CUT if answer.cut else _Then.SWALLOW if answer.swallow else _Then.ANSWERED
        if expects_answer:
            piece = _Piece(None, then, hold=answer.hold, request=request, number=number)
            self.client.queue.append(piece)
            if answer.hold is not None:
                answer.hold.when_released(self.client.pump)
            if answer.forward:
                self._awaited.append((piece, request, answer))
            else:
                self._fill(piece, request, answer, b"")
        if answer.forward:
            # With acks=0 there is no response after which it could happen.
            follows = _Then.NOTHING if expects_answer or then is _Then.ANSWERED else then
            self.broker.put(_Piece(_SIZE.pack(len(request.frame)) + request.frame, follows))
        elif not expects_answer:
            self.follow(then)
        self.client.pump()

    def _on_answer(self, frame: bytes) -> None:
        if not self._awaited:
            data = self._traffic.answer_received(None, frame)
            self.client.put(_Piece(data, whole=data))
            return
        piece, request, answer = self._awaited.popleft()
        self._fill(piece, request, answer, self._traffic.answer_received(request, frame))
        self.client.pump()

    def _fill(self, piece: _Piece, request: Request, answer: Answer, data: bytes) -> None:
        """Fill in a response's bytes."""
        if answer.replace is not None:
            data = answer.replace(request, data)
        piece.data = piece.whole = b"" if answer.lose else data
        piece.due = self._loop.time() + answer.delay if answer.delay > 0 else 0.0
        self.client.queued(piece)


class _End(asyncio.Protocol):
    """One side of a link, with its output queue."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._transport: asyncio.Transport | None = None
        self.is_made = False
        self.is_lost = False
        # Input; frames stay here while the link is stalled
        self.decoder = FrameDecoder(MAX_FRAME)
        self.frames: deque[bytes] = deque()
        # Output
        self.queue: deque[_Piece] = deque()
        self._queued_bytes = 0
        self._is_full = False
        self._next_piece_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        """True when it was never connected, or is closed."""
        return self._transport is None

    @property
    def is_congested(self) -> bool:
        """True when reading for this side should pause."""
        return self._is_full or self._queued_bytes > _HIGH_WATER

    def put(self, piece: _Piece) -> None:
        """Append a piece to the queue."""
        self.queue.append(piece)
        self.queued(piece)
        self.pump()

    def queued(self, piece: _Piece) -> None:
        """A piece in the queue now has its bytes."""
        self._queued_bytes += piece.size
        self._link.peer(self).update_reading()

    def finish(self, then: _Then) -> None:
        """The queue of this side is complete: close it after the pieces that can still be written."""
        if self._link.is_cut:
            self.close(reset=False)
            return
        kept = list(self.queue)
        for number, piece in enumerate(kept):
            if piece.waits:
                del kept[number:]
                break
        self.queue = deque(kept)
        self._queued_bytes = sum(piece.size for piece in kept)
        self.put(_Piece(b"", then))

    def drop(self) -> bool:
        """Drop all queued output and undecided input; True if there was any."""
        was_any = bool(self.queue or self.frames)
        self.queue.clear()
        self.frames.clear()
        self._queued_bytes = 0
        return was_any

    def pump(self) -> None:
        """Write the pieces at the head of the queue that may be written now."""
        loop = asyncio.get_running_loop()
        while self.queue and self._may_write:
            piece = self.queue[0]
            if piece.waits or piece.data is None:
                return
            rate = self._link.gate.bytes_per_second
            due = piece.due if rate is None or not piece.data else max(piece.due, self._next_piece_at)
            if due > loop.time():
                self._wake_at(due)
                return
            size = _CHUNK if rate is None else max(1, int(rate / _PIECES_PER_SECOND))
            self._write(piece.data[:size])
            if rate is not None and piece.data:
                self._next_piece_at = loop.time() + min(size, len(piece.data)) / rate
            if size < len(piece.data):
                piece.data = memoryview(piece.data)[size:]
            else:
                self.queue.popleft()
                self._link.written(self, piece, len(piece.whole))
                self._after(piece.then)

    def update_reading(self) -> None:
        """Pause or resume reading from this side."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._link.mode is Mode.STALL or self._link.peer(self).is_congested:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self, *, reset: bool) -> None:
        """Close this side, at once (``reset``) or after the transport's buffer is written."""
        self._stop()
        if self._transport is None:
            return
        self._link.ends(self, by_peer=False, reset=reset)
        if reset:
            reset_connection(self._transport)
        elif not self._transport.is_closing():
            self._transport.close()

    def abandon(self) -> None:
        """Connecting was given up: ``end_lost`` must not be called for this side."""
        self._stop()
        self._link.ends(self, by_peer=False, reset=True)
        self._transport = None
        self.is_lost = True

    # asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_made = True
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        own: object = transport
        if isinstance(own, TlsTransport):
            own.set_write_buffer_limits(0)  # when closed, it drops bytes that the socket has not taken: so it waits
        if self._link.is_cut:
            self.close(reset=True)
            return
        # Again in the next turn: uvloop starts reading after this call, even if it was paused in it.
        self.update_reading()
        asyncio.get_running_loop().call_soon(self.update_reading)
        self.pump()

    def data_received(self, data: bytes) -> None:
        self._link.received(self, data)

    def pause_writing(self) -> None:
        self._is_full = True
        self._link.peer(self).update_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        self.pump()
        self._link.peer(self).update_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop()
        self._link.ends(self, by_peer=True, reset=error is not None)
        self._transport = None
        self.is_lost = True
        self._link.end_lost(self, error)

    # internals

    @property
    def _may_write(self) -> bool:
        if self._transport is None or self._is_full or self._transport.is_closing():
            return False
        return self._link.mode is Mode.PASS

    def _write(self, data: bytes | memoryview) -> None:
        if data and self._transport is not None:
            self._transport.write(data)
        self._queued_bytes -= len(data)
        self._link.peer(self).update_reading()

    def _after(self, then: _Then) -> None:
        if then in (_Then.CLOSE, _Then.RESET):
            self.close(reset=then is _Then.RESET)
        else:
            self._link.follow(then)

    def _wake_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _stop(self) -> None:
        """Drop the queue and stop writing."""
        if self.queue:
            head = self.queue[0]
            if isinstance(head.data, memoryview):  # a part of it was written
                self._link.written(self, head, len(head.whole) - len(head.data))
        self.queue.clear()
        self._queued_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
