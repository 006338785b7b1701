"""Recordings made by hand, line by line, and the messages in them."""

from __future__ import annotations

import base64
import json
from typing import Any

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_request_header, encode_request, encode_response
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress
from aiokafkapy.testing.recording import Recording

BROKER = "kafka.example:9092"
SECOND = "other.example:9092"


def request(api_key: int, version: int, correlation_id: int = 1, **fields: Any) -> bytes:
    """A whole frame."""
    return encode_request(build_request(api_key, version, **fields), correlation_id, "me")


def answer(api_key: int, version: int, correlation_id: int = 1, **fields: Any) -> bytes:
    """A whole frame."""
    return encode_response(build_response(api_key, version, **fields), correlation_id)


def records(
    *values: bytes | None, key: bytes | None = None, codec: Compression = Compression.NONE, at: int = 1_700_000_000_000
) -> bytes:
    """A batch of producer 5, each record with a header."""
    builder = RecordBatchBuilder(1 << 20)
    for value in values:
        builder.try_append(at, key, value, [("a header", b"its value"), ("none", None)])
    builder.seal(codec, compress(codec, builder.records_view()) if codec else None)
    builder.stamp(5, 1, 10)
    return b"".join(builder.buffers())


def produce(data: bytes, correlation_id: int = 1, version: int = 9) -> bytes:
    """A request with one batch for orders-0."""
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": data}]}]
    return request(ApiKey.PRODUCE, version, correlation_id, acks=-1, timeout=1_000, topic_data=topics)


def produced(offset: int, correlation_id: int = 1, error_code: int = 0) -> bytes:
    """An answer to ``produce``."""
    partitions = [{"index": 0, "error_code": error_code, "base_offset": offset, "log_start_offset": 0}]
    responses = [{"name": "orders", "partition_responses": partitions}]
    return answer(ApiKey.PRODUCE, 9, correlation_id, responses=responses)


def heartbeat(correlation_id: int = 1, generation: int = 1) -> bytes:
    """A request for which there may be any number of others."""
    return request(ApiKey.HEARTBEAT, 4, correlation_id, group_id="g", generation_id=generation, member_id="m")


class Tape:
    """The lines of a recording; each call adds one, ``step`` seconds after the one before."""

    def __init__(self, *, payloads: str = "kept", servers: tuple[str, ...] = (BROKER,), step: float = 0.25) -> None:
        self.lines: list[dict[str, Any]] = [
            {"recording": 1, "by": "a test", "began": "", "bootstrap_servers": list(servers), "payloads": payloads}
        ]
        self._step = step
        self._asked: dict[int, int] = {}

    def connected(self, connection: int = 1, address: str = BROKER) -> Tape:
        return self._add("connected", connection, address=address, node=None)

    def request(self, wire: bytes, connection: int = 1, **fields: Any) -> Tape:
        self._asked[connection] = self._asked.get(connection, 0) + 1
        header, _ = decode_request_header(wire[4:])
        said = {
            "request": self._asked[connection],
            "api_key": header.api_key,
            "version": header.api_version,
            "correlation_id": header.correlation_id,
        }
        return self._add("request", connection, **{**said, "wire": encoded(wire), **fields})

    def answer(self, wire: bytes, connection: int = 1, number: int | None = 0) -> Tape:
        """An answer to the last request (0), another, or none (None)."""
        of = self._asked.get(connection, 0) if number == 0 else number
        return self._add("answer", connection, request=of, wire=encoded(wire))

    def closed(self, connection: int = 1, by: str = "cluster", reset: bool = False) -> Tape:
        return self._add("closed", connection, by=by, reset=reset)

    def ended(self) -> Tape:
        self.lines.append({"at": self._at(), "event": "ended", "reason": "over"})
        return self

    @property
    def data(self) -> bytes:
        """The file."""
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def read(self) -> Recording:
        return Recording.parse(self.data, "it.jsonl")

    def _at(self) -> float:
        return round((len(self.lines) - 1) * self._step, 6)

    def _add(self, event: str, connection: int, **fields: Any) -> Tape:
        self.lines.append({"at": self._at(), "event": event, "connection": connection, **fields})
        return self


def encoded(wire: bytes) -> str:
    return base64.b64encode(wire).decode()
