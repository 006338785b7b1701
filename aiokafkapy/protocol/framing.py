"""Cuts a byte stream into size-prefixed frames, and reads which request a response's frame answers.

Shared by the client and the dev broker. The declared size is checked before anything is buffered, and memory grows only
with the bytes that have arrived: a peer that declares 100 MB and sends ten bytes costs ten bytes.
"""

from __future__ import annotations

import sys

from ..errors import MalformedFrameError

__all__ = ["HAS_GIL", "FrameDecoder", "decode_correlation_id", "int32_at"]

HAS_GIL = "free-threading" not in sys.version
"""Without one no lock guards a module's state between calls, so a module must keep none."""

_INT32_BYTES = 4
_SIGN = 1 << 31


class FrameDecoder:
    """Feed it the bytes of a stream, in any fragmentation; it returns whole frames, without their size.

    After MalformedFrameError the stream cannot be resynchronized: close the connection.
    """

    __slots__ = ("_chunks", "_missing", "_prefix", "max_size")

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._prefix = b""
        self._chunks: list[bytes] = []
        self._missing = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes buffered of an incomplete frame."""
        return len(self._prefix) + sum(map(len, self._chunks))

    def feed(self, data: bytes) -> list[bytes]:
        """Frames that ``data`` completes, in order; raises MalformedFrameError on a size below 0 or over
        ``max_size``.
        """
        frames: list[bytes] = []
        position, end = 0, len(data)
        while position < end:
            if self._missing:
                position = self._continue_frame(data, position, frames)
                continue
            if self._prefix:
                # The size itself was split: join the parts and continue in the joined bytes.
                data = self._prefix + data[position:]
                position, end, self._prefix = 0, len(data), b""
            if end - position < _INT32_BYTES:
                self._prefix = data[position:]
                break
            size = self._checked_size(data, position)
            position += _INT32_BYTES
            if end - position >= size:
                # Compiled, ``raw`` is a C pointer: a frame is copied from it without a slice object and its two ints.
                raw = data
                frames.append(raw[position : position + size])
                position += size
            else:
                self._missing = size
        return frames

    def _continue_frame(self, data: bytes, position: int, frames: list[bytes]) -> int:
        chunk = data[position : position + self._missing]
        self._chunks.append(chunk)
        self._missing -= len(chunk)
        if not self._missing:
            frames.append(b"".join(self._chunks))
            self._chunks = []
        return position + len(chunk)

    def _checked_size(self, data: bytes, position: int) -> int:
        size = int32_at(data, position)
        if not 0 <= size <= self.max_size:
            raise MalformedFrameError(f"frame of {size} bytes announced; the limit is {self.max_size}")
        return size


def decode_correlation_id(frame: bytes) -> int:
    """The correlation id of a response frame (without its size)."""
    if len(frame) < _INT32_BYTES:
        raise MalformedFrameError(f"a response of {len(frame)} bytes has no correlation id")
    return int32_at(frame, 0)


def int32_at(data: bytes, position: int) -> int:
    """The signed int32 at this position, which must be there."""
    raw = data  # as in ``feed``: compiled, no byte's place is checked
    value = raw[position]
    value = value << 8 | raw[position + 1]
    value = value << 8 | raw[position + 2]
    value = value << 8 | raw[position + 3]
    return value - ((value & _SIGN) << 1)
