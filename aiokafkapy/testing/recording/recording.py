"""A recording that was read: the connections in it, each with its requests, their answers, and its end.

Owns the check that the lines fit together; ``lines`` checks each line by itself. Messages are not decoded here.

Rules: a damaged file raises RecordingError with the line, before a replay begins. A file that was broken off, as by a
full disk, is valid up to there: ``ended`` is then None. An incomplete last line is left out, and logged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ...observability import get_logger
from ...protocol.codec import RequestHeader, decode_request_header
from .hiding import NO_HEADER
from .lines import EVENTS, Line, RecordingError, header_of

__all__ = ["Conversation", "Exchange", "Recording"]

_logger = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and the bytes that answered it, with their size; None without an answer. Times are in seconds."""

    connection: int
    number: int
    header: RequestHeader
    wire: bytes
    at: float
    line: int
    answer: bytes | None = None
    answered_at: float = 0.0
    is_hidden: bool = False
    is_answer_hidden: bool = False

    @property
    def api_key(self) -> int:
        """The number of the API; -1 for a frame that is not a request of a known API."""
        return self.header.api_key

    @property
    def delay(self) -> float:
        """Seconds from the request to its answer."""
        return max(0.0, self.answered_at - self.at)


@dataclass(slots=True, eq=False)
class Conversation:
    """One connection. ``unasked`` are bytes that did not answer a request, each with the number of requests
    before it.
    """

    number: int
    address: tuple[str, int]
    at: float
    node_id: int | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    unasked: list[tuple[int, bytes]] = field(default_factory=list)
    last_at: float = 0.0
    closed_at: float | None = None
    is_closed_by_client: bool = False
    is_reset: bool = False

    @property
    def is_closed_by_cluster(self) -> bool:
        """True if the recording has an end that was not the client's."""
        return self.closed_at is not None and not self.is_closed_by_client


@dataclass(slots=True, eq=False)
class Recording:
    """The whole content of a file."""

    path: str
    bootstrap_servers: Sequence[tuple[str, int]]
    is_hashed: bool
    conversations: list[Conversation] = field(default_factory=list)
    ended: str | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file. Raises OSError, and RecordingError for the first line that is wrong."""
        return cls.parse(Path(path).read_bytes(), os.fsdecode(path))

    @classmethod
    def parse(cls, data: bytes, path: str = "<recording>") -> Self:
        """As ``read``, from a file's bytes."""
        texts = data.split(b"\n")
        if len(texts) == 1:
            raise RecordingError(path, 1, "the file ends in the middle of this line" if data else "the file is empty")
        recording = cls(path, *header_of(Line(path, 1, texts[0])))
        reader = _Reader(recording)
        for number, text in enumerate(texts[1:-1], 2):
            reader.read(Line(path, number, text))
        if texts[-1]:
            # The position from which bytes are not used.
            _logger.warning("recording.cut_off", file=path, line=len(texts), position=len(data) - len(texts[-1]))
        return recording

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges of all connections, in the order of their requests."""
        found = [exchange for conversation in self.conversations for exchange in conversation.exchanges]
        return sorted(found, key=lambda exchange: exchange.line)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses at which clients began, and those to which they connected."""
        return list(dict.fromkeys([*self.bootstrap_servers, *(each.address for each in self.conversations)]))


class _Reader:
    """Adds lines to a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._by_number: dict[int, Conversation] = {}
        self._at = 0.0

    def read(self, line: Line) -> None:
        if self._recording.ended is not None:
            raise line.error("there is a line after the one that ended it")
        at = line.seconds("at")
        if at < self._at:
            raise line.error(f"at is {at}: the line before is of {self._at}")
        self._at = at
        event = line.word("event", EVENTS)
        if event == "ended":
            self._recording.ended = line.text("reason")
            return
        number = line.integer("connection", 1)
        if event == "connected":
            self._connected(line, number, at)
            return
        conversation = self._by_number.get(number)
        if conversation is None:
            raise line.error(f"connection {number} has not been connected")
        if conversation.closed_at is not None:
            raise line.error(f"connection {number} was closed at {conversation.closed_at}")
        if event == "closed":
            conversation.is_closed_by_client = line.word("by", ("client", "cluster")) == "client"
            conversation.is_reset = line.flag("reset", default=False)
            conversation.closed_at = at
            return
        conversation.last_at = at
        if line.has("node") and (node_id := line.optional_integer("node", -1)) is not None:
            conversation.node_id = node_id
        if event == "request":
            self._request(line, conversation, at)
        else:
            self._answer(line, conversation, at)

    def _connected(self, line: Line, number: int, at: float) -> None:
        if number in self._by_number:
            raise line.error(f"connection {number} was connected before")
        conversation = Conversation(number, line.address("address"), at, last_at=at)
        self._by_number[number] = conversation
        self._recording.conversations.append(conversation)

    @staticmethod
    def _request(line: Line, conversation: Conversation, at: float) -> None:
        expected = len(conversation.exchanges) + 1
        number = line.integer("request", 1)
        if number != expected:
            raise line.error(f"request is {number}: the next of connection {conversation.number} is {expected}")
        wire = line.wire("wire")
        if len(wire) < 4 or int.from_bytes(wire[:4], signed=True) != len(wire) - 4:
            raise line.error(f"wire has {len(wire)} bytes, and not as many as its first four say")
        header = NO_HEADER
        if line.integer("api_key", -1) >= 0:
            header = _header(line, wire)
        conversation.exchanges.append(
            Exchange(
                conversation.number, number, header, wire, at, line.number, is_hidden=line.flag("hidden", default=False)
            )
        )

    @staticmethod
    def _answer(line: Line, conversation: Conversation, at: float) -> None:
        number = line.optional_integer("request", 1)
        wire = line.wire("wire")
        if number is None:
            conversation.unasked.append((len(conversation.exchanges), wire))
            return
        if number > len(conversation.exchanges):
            raise line.error(f"request {number} of connection {conversation.number} has not been sent")
        exchange = conversation.exchanges[number - 1]
        if exchange.answer is not None:
            raise line.error(f"request {number} of connection {conversation.number} was answered before")
        exchange.answer = wire
        exchange.answered_at = at
        exchange.is_answer_hidden = line.flag("hidden", default=False)


def _header(line: Line, wire: bytes) -> RequestHeader:
    """The header of a request, which must agree with the line."""
    try:
        header, _ = decode_request_header(wire[4:])
    except Exception as error:  # of malformed bytes
        raise line.error(f"wire is not a request: {error}") from None
    said = {
        "api_key": line.integer("api_key", 0, 2**15 - 1),
        "version": line.integer("version", -(2**15), 2**15 - 1),
        "correlation_id": line.integer("correlation_id", -(2**31)),
    }
    found = dict(zip(said, header, strict=False))
    for name, value in said.items():
        if value != found[name]:
            raise line.error(f"{name} is {value}, and {found[name]} in wire")
    return header
