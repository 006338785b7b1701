"""Writes a conversation to a file while it goes on, line by line.

Owns the file, its bounds, and the numbers of requests. Knows neither sockets nor faults: the proxy reports the bytes
that a client sent and received, and which side ended the connection. ``client.tap`` is its sister within a client, and
describes the messages here, too.

Rules:

- No error is raised into the proxy: a file that fails ends the recording, which is logged, and ``failure`` has the
  reason.
- A file is readable by its owner only, and an existing one is overwritten. At ``max_bytes`` the recording ends, and
  its last line says so.
- A connection still open when the recording ends was not closed: a replay leaves it open.
"""

from __future__ import annotations

import base64
import datetime
import importlib.metadata
import json
import os
import time
from collections.abc import Sequence
from typing import Final

from ...client.tap.wire_tap import DEFAULT_MAX_BYTES, MOST_DECODED, described
from ...common import format_address
from ...observability import get_logger
from ...protocol.api import ApiKey, api_name
from ...protocol.codec import RequestHeader
from .hiding import NO_HEADER, HiddenFrame, Hiding
from .lines import FORMAT

__all__ = ["ConnectionRecorder", "Recorder"]

_logger = get_logger(__name__)

STOPPED: Final = "the recording was stopped"
FULL: Final = "max_bytes is reached"


class Recorder:
    """One file, from ``begin`` to ``end``."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        hash_payloads: bool = False,
        hide_names: Sequence[str] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Opens the file, and raises OSError if that fails; ValueError for ``max_bytes`` below 1, and for a name that
        cannot be hidden.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes}: write 1 or more")
        self.path = os.fsdecode(path)
        self.requests = 0
        self.failure: OSError | None = None
        self.is_full = False
        self._hashes = hash_payloads
        self.hiding = Hiding(hash_payloads=hash_payloads, names=hide_names)
        self._room = max_bytes
        self._began = time.monotonic()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        # Line by line, so that the lines before a crash are written.
        self._file = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")
        self._is_ended = False

    def begin(self, bootstrap_servers: Sequence[tuple[str, int]]) -> None:
        """Write the first line."""
        self._began = time.monotonic()
        self._put(
            {
                "recording": FORMAT,
                "by": f"aiokafkapy {importlib.metadata.version('aiokafkapy')}",
                "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
                "bootstrap_servers": [self.hiding.text(format_address(*each)) for each in bootstrap_servers],
                "payloads": "hashed" if self._hashes else "kept",
            }
        )

    def connected(self, connection: int, address: tuple[str, int], node_id: int | None) -> ConnectionRecorder:
        """A client has connected to the proxy's port for ``address``."""
        self.event("connected", connection, address=self.hiding.text(format_address(*address)), node=node_id)
        return ConnectionRecorder(self, connection)

    def event(self, event: str, connection: int, **fields: object) -> None:
        """Write a line, unless the recording has ended."""
        if self._is_ended:
            return
        self._put({"at": self._now(), "event": event, "connection": connection, **fields})

    def end(self) -> None:
        """Write the last line. May be called again."""
        self._end(STOPPED)

    # internals

    def _now(self) -> float:
        return round(time.monotonic() - self._began, 6)

    def _put(self, line: dict[str, object]) -> None:
        text = json.dumps(line, ensure_ascii=False) + "\n"
        self._room -= len(text.encode())
        if self._room < 0:
            self.is_full = True
            self._end(FULL)
            return
        self._write(text)

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            self._fail(error)
            self._close()

    def _end(self, reason: str) -> None:
        if self._is_ended:
            return
        self._write(json.dumps({"at": self._now(), "event": "ended", "reason": reason}) + "\n")
        self._close()

    def _close(self) -> None:
        self._is_ended = True
        try:
            self._file.close()
        except OSError as error:  # a full disk: the rest could not be written
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self.failure is None:
            self.failure = OSError(error.errno, error.strerror, self.path)
            _logger.error("recording.failed", file=self.path, error=str(error))


class ConnectionRecorder:
    """The lines of one connection."""

    def __init__(self, recorder: Recorder, connection: int) -> None:
        self._recorder = recorder
        self._connection = connection
        self._headers: list[RequestHeader] = []
        self._bare: set[int] = set()
        self._sends_bare_sasl = False
        self._is_closed = False

    def request(self, frame: bytes, node_id: int | None) -> int:
        """A whole request came, without its size here; returns its number."""
        hidden = self._recorder.hiding.request(frame, is_bare_sasl=self._sends_bare_sasl)
        header = hidden.header
        self._headers.append(header)
        number = len(self._headers)
        if self._sends_bare_sasl and header is NO_HEADER:
            self._bare.add(number)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            self._sends_bare_sasl = header.api_version == 0
        elif header is not NO_HEADER:
            self._sends_bare_sasl = False
        self._recorder.requests += 1
        self._put("request", number, hidden, node_id, client_id=header.client_id)
        return number

    def answer(self, number: int | None, data: bytes, node_id: int | None) -> None:
        """Bytes went to the client, the size included: the answer to a request, or a part of it, or (None) to no
        request.
        """
        header = NO_HEADER if number is None else self._headers[number - 1]
        hidden = self._recorder.hiding.answer(header, data, is_bare_sasl=number in self._bare)
        self._put("answer", number, hidden, node_id)

    def closed(self, *, by_client: bool, reset: bool) -> None:
        """The connection has ended. Only the first call counts."""
        if not self._is_closed:
            self._is_closed = True
            by = "client" if by_client else "cluster"
            self._recorder.event("closed", self._connection, by=by, reset=reset)

    def _put(self, event: str, number: int | None, hidden: HiddenFrame, node_id: int | None, **more: object) -> None:
        header = hidden.header
        fields: dict[str, object] = {
            "request": number,
            "node": node_id,
            "api": api_name(header.api_key) if header.api_key >= 0 else None,
            "api_key": header.api_key,
            "version": header.api_version,
            "correlation_id": header.correlation_id,
            **more,
            "size": len(hidden.wire),
        }
        if hidden.is_hidden:
            fields["hidden"] = True
        fields["body"] = _body(hidden)
        fields["wire"] = base64.b64encode(hidden.wire).decode()
        self._recorder.event(event, self._connection, **fields)


def _body(hidden: HiddenFrame) -> object:
    if hidden.body is None:
        return None
    if len(hidden.wire) > MOST_DECODED:
        return {"undecoded": f"{len(hidden.wire)} bytes"}
    return described(hidden.body)
