"""A recording of the wire: every request and answer of a client, decoded, as lines of JSON, as objects
for ``async for``, or undecoded in a packet capture for Wireshark.

Owns the lines, their bounds, and their hidden parts. Knows no connection and decides nothing: the client's watch
hands it frames. kafka-python's wire debugging and Kafka's ``kafka.request.logger`` are the models.

Rules:

- No record, key, header or other run of bytes is shown unless ``payloads`` is set, only its length; no proof of
  identity (SASL's bytes, tokens, passwords) is ever shown. In a capture zeros stand for both.
- A line, a list and a text are bounded, and so is a file: at ``max_bytes`` the tap says so and ends. Frames that wait
  for ``async for`` are bounded too: beyond ``MOST_WAITING`` only their number is kept.
- Nothing raises. A frame that cannot be decoded is marked as such; a target that fails is logged once, and the tap
  ends.

Events: ``tap.ended`` (warning; target, reason).
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import enum
import os
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from ...common import HIDDEN, Buffer, milliseconds
from ...observability import describe_error, get_logger
from ...observability.interrupts import raise_soon
from ...protocol.api import api_name
from ...protocol.codec import decode_request, decode_response
from ..nodes.in_flight_requests import InFlightRequest
from .hidden_fields import has_hidden_value, is_hidden_field

if TYPE_CHECKING:
    from .pcapng import PacketWriter

__all__ = ["DEFAULT_MAX_BYTES", "TapFormat", "TapTarget", "WireTap", "described"]

TapTarget: TypeAlias = "str | os.PathLike[str] | Callable[[dict[str, Any]], object]"
"""A file's path, to which lines are appended, or a function that is called with each line's object."""
TapFormat: TypeAlias = Literal["json", "pcapng"]
"""The format of a file: lines of JSON, or a packet capture."""

DEFAULT_MAX_BYTES: Final = 100 * 1024 * 1024
MOST_DECODED: Final = 2 * 1024 * 1024
"""Bytes; decoding a larger frame would hold the loop for too long."""
MOST_WAITING: Final = 10_000
MOST_ITEMS: Final = 50
MOST_CHARACTERS: Final = 500
PATH_VARIABLE: Final = "AIOKAFKAPY_TAP"
PAYLOADS_VARIABLE: Final = "AIOKAFKAPY_TAP_PAYLOADS"
_CAPTURES: Final = (".pcapng", ".pcap")

_logger = get_logger(__name__)


class WireTap:
    """Records until it is closed; ``with producer.tap("wire.jsonl"): …`` closes it.

    Without a ``target`` it is an asynchronous iterator of the lines' objects, for one task: ``async for frame in tap``,
    until the tap or its client is closed. ``missed`` counts the frames for which there was no room.
    """

    def __init__(
        self,
        target: TapTarget | None = None,
        *,
        payloads: bool = False,
        max_bytes: int = DEFAULT_MAX_BYTES,
        format: TapFormat | None = None,  # noqa: A002
    ) -> None:
        """``format`` None: a path that ends with ``.pcapng`` or ``.pcap`` makes a capture."""
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes}: write 1 or more")
        is_capture = _is_capture(target, format)
        self._payloads = payloads
        self._room = max_bytes
        self._target = target
        self._on_close: list[Callable[[], object]] = []
        self._file: IO[str] | None = None
        self.is_closed = False
        self._capture: CaptureFile | None = None
        # iterator
        self._waiting: deque[dict[str, Any]] = deque()
        self._has_changed = asyncio.Event()
        self.missed = 0
        if target is None or callable(target):
            return
        # Readable by the owner only.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if is_capture:
            self._capture = CaptureFile(descriptor)
        else:
            # Line by line, so that the lines before a crash are there.
            self._file = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")

    @classmethod
    def from_environment(cls) -> WireTap | None:
        """The tap that ``AIOKAFKAPY_TAP=path`` asks for; None without it, and when the file cannot be written."""
        path = os.environ.get(PATH_VARIABLE)
        if not path:
            return None
        try:
            return cls(path, payloads=os.environ.get(PAYLOADS_VARIABLE, "") not in ("", "0"))
        except OSError as error:
            _logger.warning("tap.ended", target=path, reason=str(error))
            return None

    def on_close(self, on_close: Callable[[], object]) -> None:
        """Call ``on_close`` when the tap ends: its sources then leave it alone."""
        self._on_close.append(on_close)

    def request(self, entry: InFlightRequest, buffers: Sequence[Buffer], client: int = 0) -> None:
        """Record a request's whole frame, as it is written. ``client`` tells the connections of one process apart."""
        if self._capture is not None:
            self._put_packets(self._capture.request, entry, b"".join(buffers), client)
            return
        size = sum(map(len, buffers))
        self._record(entry, "request", size, lambda: decode_request(b"".join(buffers)[4:])[1])

    def response(self, entry: InFlightRequest, frame: bytes, client: int = 0) -> None:
        """Record an answer's frame, without its size."""
        if self._capture is not None:
            self._put_packets(self._capture.response, entry, frame, client)
            return
        api_key = entry.request.api_key
        self._record(entry, "response", len(frame) + 4, lambda: decode_response(api_key, entry.version, frame)[1])

    def close(self) -> None:
        """Record nothing from now on. May be called again."""
        self.is_closed = True
        self._has_changed.set()
        callbacks, self._on_close = self._on_close, []
        for on_close in callbacks:
            on_close()
        files, self._file, self._capture = (self._file, self._capture), None, None
        for file in files:
            try:
                if file is not None:
                    file.close()
            except OSError:
                pass  # a full disk was reported by the write

    def __aiter__(self) -> Self:
        if self._target is not None:
            raise TypeError("this tap writes to a target: only tap() without a target can be iterated over")
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._waiting:
            if self.is_closed:
                raise StopAsyncIteration
            self._has_changed.clear()
            await self._has_changed.wait()
        return self._waiting.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # internals

    def _record(self, entry: InFlightRequest, direction: str, size: int, decode: Callable[[], object]) -> None:
        if self.is_closed:
            return
        request = entry.request
        line = {
            "time": round(time.time(), 6),
            "node": request.node_id,
            "direction": direction,
            "api": api_name(request.api_key),
            "version": entry.version,
            "correlation_id": entry.correlation_id,
            "size": size,
            "body": self._body(size, decode),
        }
        try:
            self._put(line)
        except (KeyboardInterrupt, SystemExit) as error:
            raise_soon(error)
        except BaseException as error:
            self._end(describe_error(error))

    def _put_packets(self, packets_of: Callable[..., bytes], entry: InFlightRequest, frame: bytes, client: int) -> None:
        if self.is_closed or self._capture is None:
            return
        try:
            packets = packets_of(entry, frame, client, payloads=self._payloads)
            self._room -= len(packets)
            if self._room < 0:
                self._end("max_bytes is reached")
            else:
                self._capture.write(packets)
        except (KeyboardInterrupt, SystemExit) as error:
            raise_soon(error)
        except BaseException as error:
            self._end(describe_error(error))

    def _body(self, size: int, decode: Callable[[], object]) -> object:
        if size > MOST_DECODED:
            return {"undecoded": f"{size} bytes"}
        try:
            return described(decode(), payloads=self._payloads)
        except Exception as error:
            return {"undecoded": describe_error(error)}

    def _put(self, line: dict[str, Any]) -> None:
        if self._target is None:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(line)
                self._has_changed.set()
            else:
                self.missed += 1
        elif callable(self._target):
            self._target(line)
        elif self._file is not None:
            import json

            text = json.dumps(line, ensure_ascii=False) + "\n"
            self._room -= len(text.encode())
            if self._room < 0:
                self._file.write(json.dumps({"ended": "max_bytes is reached"}) + "\n")
                self._end("max_bytes is reached")
            else:
                self._file.write(text)

    def _end(self, reason: str) -> None:
        target = self._target if isinstance(self._target, str | os.PathLike) else repr(self._target)
        _logger.warning("tap.ended", target=str(target), reason=reason)
        self.close()


class CaptureFile:
    """A packet capture that is appended to. Several may write to one file: each frame is one write."""

    def __init__(self, descriptor: int) -> None:
        from .pcapng import PacketWriter

        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._packets: PacketWriter = PacketWriter(os.getpid())
        self.write(self._packets.header())

    def request(self, entry: InFlightRequest, frame: bytes, client: int, *, payloads: bool) -> bytes:
        """The packets of a request's whole frame."""
        from .redaction import redacted_request

        data = redacted_request(frame, payloads=payloads, most_decoded=MOST_DECODED)
        return self._packets.frame(entry.request.node_id, client, is_request=True, data=data, time_ns=time.time_ns())

    def response(self, entry: InFlightRequest, frame: bytes, client: int, *, payloads: bool) -> bytes:
        """The packets of an answer's frame, which has no size yet."""
        from .redaction import redacted_response

        whole = struct.pack(">i", len(frame)) + frame
        data = redacted_response(
            entry.request.api_key, entry.version, whole, payloads=payloads, most_decoded=MOST_DECODED
        )
        return self._packets.frame(entry.request.node_id, client, is_request=False, data=data, time_ns=time.time_ns())

    def write(self, packets: bytes) -> None:
        """Append. Raises OSError, also for a file that takes only a part: lines after it could not be read."""
        if self._file.write(packets) != len(packets):
            raise OSError("the file takes no more")

    def close(self) -> None:
        """Write no more."""
        self._file.close()


def _is_capture(target: TapTarget | None, wanted: str | None) -> bool:
    """Whether a target is a packet capture. Raises ValueError for an unknown format, or a capture without a file."""
    if wanted not in (None, "json", "pcapng"):
        raise ValueError(f"format={wanted!r}: write 'json' or 'pcapng'")
    if target is None or callable(target):
        if wanted == "pcapng":
            raise ValueError("format='pcapng': a capture is a file: give its path")
        return False
    return wanted == "pcapng" if wanted is not None else os.fsdecode(target).endswith(_CAPTURES)


def described(value: object, *, payloads: bool = False, name: str = "") -> Any:
    """A message, or a part of one, as JSON has it: bounded, and without the hidden parts."""
    if value is not None and is_hidden_field(name):
        return HIDDEN
    if dataclasses.is_dataclass(value):
        return _described_message(value, payloads=payloads)
    if isinstance(value, bytes | bytearray | memoryview):
        return _described_bytes(bytes(value), payloads=payloads)
    if isinstance(value, tuple | list | frozenset | set):
        items = list(value)
        shown = [described(item, payloads=payloads) for item in items[:MOST_ITEMS]]
        return shown if len(items) <= MOST_ITEMS else [*shown, f"… {len(items) - MOST_ITEMS} more"]
    if isinstance(value, datetime.timedelta | datetime.datetime):
        return milliseconds(value)
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _described_message(message: Any, *, payloads: bool) -> Mapping[str, Any]:
    found = {}
    for field in dataclasses.fields(message):
        found[field.name] = described(getattr(message, field.name), payloads=payloads, name=field.name)
    if has_hidden_value(message):
        found["value"] = HIDDEN
    return found


def _described_bytes(value: bytes, *, payloads: bool) -> str:
    if not payloads:
        return f"<{len(value)} bytes>"
    text = base64.b64encode(value[: MOST_CHARACTERS * 3 // 4]).decode()
    return f"base64:{text}" + ("…" if len(value) > MOST_CHARACTERS * 3 // 4 else "")
