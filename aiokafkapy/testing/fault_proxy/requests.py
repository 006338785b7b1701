"""The requests that a ``FaultProxy`` has seen, and the ``Answer``, which decides the treatment of one.

Knows the bytes of one request and nothing of connections. Request frames are without their size; the bytes sent to a
client, which a test may replace by any others, include it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeAlias
from uuid import UUID

from ...broker.faults.armed_faults import error_code
from ...errors import KafkaError, MalformedFrameError
from ...protocol.api import ApiKey
from ...protocol.codec import (
    RequestHeader,
    Struct,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_response,
)
from ...protocol.cursor import Cursor
from ...protocol.messages import build_response
from ...protocol.produce_request import LOWEST_VERSION
from ...protocol.produce_response import FIRST_FLEXIBLE
from ...record.batch import RecordBatch

__all__ = ["Answer", "Hold", "Replace", "Request", "SentBatch", "checked_delay"]

NO_HEADER = RequestHeader(-1, -1, -1, None)
"""The header of a frame that is not a Kafka request; such frames are still passed on."""


class SentBatch(NamedTuple):
    """The header of a record batch in a Produce request; the topic is an id from version 13 on."""

    topic: str | UUID
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int


@dataclass(slots=True, eq=False)
class Request:
    """A request that a client sent, read whole.

    A function that decides on it may set ``frame`` (the request without its size), which the broker then gets.
    ``node_id`` is None on a connection to a bootstrap address whose broker is not known yet; ``at`` is in seconds of
    ``time.monotonic()``; ``connection`` counts the proxy's connections from 1.
    """

    node_id: int | None
    header: RequestHeader
    frame: bytes
    connection: int
    at: float
    body_at: int = 0
    _body: Struct | None = None

    @classmethod
    def read(cls, node_id: int | None, frame: bytes, connection: int) -> Self:
        """A request from its frame; without a valid header all header fields are -1."""
        try:
            header, body_at = decode_request_header(frame)
        except MalformedFrameError:
            header, body_at = NO_HEADER, 0
        return cls(node_id, header, frame, connection, time.monotonic(), body_at)

    @property
    def api_key(self) -> int:
        """The number of the API."""
        return self.header.api_key

    @property
    def version(self) -> int:
        """The API version of the request and of its response."""
        return self.header.api_version

    @property
    def correlation_id(self) -> int:
        """The correlation id, with which the response must begin."""
        return self.header.correlation_id

    @property
    def body(self) -> Struct:
        """The decoded body. Raises if there is no schema for it, and MalformedFrameError for invalid bytes.

        The proxy drops the bytes of old requests (see ``FaultProxy``), and the body with them.
        """
        if self._body is None:
            self._body = decode_request_body(self.header, self.frame, self.body_at)
        return self._body

    @property
    def batches(self) -> list[SentBatch]:
        """The batches of a Produce request."""
        return [
            _sent_batch(topic, partition)
            for topic in self.body.topic_data
            for partition in topic.partition_data
            if partition.records is not None
        ]

    @property
    def expects_answer(self) -> bool:
        """False for Produce with acks=0."""
        if self.api_key != ApiKey.PRODUCE or self.version < LOWEST_VERSION:
            return True
        try:
            # Decoded by hand, since the body may be large: the transactional id, then acks.
            cursor = Cursor(self.frame, self.body_at)
            is_flexible = self.version >= FIRST_FLEXIBLE
            size = cursor.read_unsigned_varint() - 1 if is_flexible else _int16(cursor)
            cursor.advance(max(size, 0))
            return _int16(cursor) != 0
        except MalformedFrameError:
            return True

    def respond(self, **fields: object) -> bytes:
        """A response of this request's API and version; a field that the version lacks is dropped."""
        return encode_response(build_response(self.api_key, self.version, **fields), self.correlation_id)

    def produce_error(self, error: type[KafkaError] | int, **fields: object) -> bytes:
        """A response to this Produce request with an error, a class or a code, for each of its partitions.

        ``fields`` are further fields of a partition's response: ``error_message="..."``, ``record_errors=[...]``.
        """
        said = {"error_code": error_code(error), "base_offset": -1, "log_start_offset": -1} | fields
        topics = []
        for topic in self.body.topic_data:
            answers = [{"index": each.index} | said for each in topic.partition_data]
            place = {"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}
            topics.append(place | {"partition_responses": answers})
        return self.respond(responses=topics)

    def decode(self, answer: bytes) -> Struct:
        """The body of a response to this request, from its bytes including the size. MalformedFrameError."""
        body: Struct = decode_response(self.api_key, self.version, answer[4:])[1]
        return body

    def forget(self) -> None:
        """Drop the bytes."""
        self.frame = b""
        self._body = None


class Hold:
    """Holds responses back until ``release``."""

    __slots__ = ("_is_released", "_waiting")

    def __init__(self) -> None:
        self._is_released = False
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_released(self) -> bool:
        """True after ``release``."""
        return self._is_released

    def release(self) -> None:
        """Release the held responses, and hold no more."""
        self._is_released = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def when_released(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` at the release."""
        self._waiting.append(wake)


Replace: TypeAlias = Callable[[Request, bytes], bytes]


@dataclass(slots=True, frozen=True)
class Answer:
    """The treatment of a request that is not simply passed on.

    ``forward``: the broker gets it. ``replace``: makes the bytes for the client (any bytes, including a frame's size)
    from the broker's response, if there is one. ``delay``: seconds by which the client gets them later. ``hold``: they
    wait for its release. ``lose``: the client gets nothing. ``cut``: the connection ends after it; ``swallow``: the
    connection is half-open after it. Raises ValueError for a delay that is negative or not finite.
    """

    forward: bool = True
    replace: Replace | None = None
    delay: float = 0.0
    hold: Hold | None = None
    lose: bool = False
    cut: bool = False
    swallow: bool = False

    def __post_init__(self) -> None:
        checked_delay("delay", self.delay)


def checked_delay(name: str, seconds: float) -> float:
    """The delay of an answer; ValueError unless it is finite and at least 0."""
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{name}={seconds}: write 0 or more seconds")
    return seconds


def _int16(cursor: Cursor) -> int:
    return int.from_bytes(cursor.take(2), "big", signed=True)


def _sent_batch(topic: Struct, partition: Struct) -> SentBatch:
    batch = RecordBatch(partition.records)
    return SentBatch(
        getattr(topic, "topic_id", None) or topic.name,
        partition.index,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        batch.crc,
    )
