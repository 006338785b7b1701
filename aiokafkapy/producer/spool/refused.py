"""Spooled records that brokers refused for good, as lines that ``aiokafkapy produce --resume FILE`` reads.

Owns the line's form, which is that of a service's undelivered file (``integrations.undelivered``), and which errors are
for good. It knows no files. Kafka has no counterpart.
"""

from __future__ import annotations

import base64
import json

from ...errors import BrokerError, InvalidTopicError, RecordTooLargeError
from .format import SpooledRecord

__all__ = ["is_for_good", "refused_line"]


def is_for_good(error: BaseException) -> bool:
    """True when sending the same record again would fail in the same way, as far as anybody can tell."""
    return isinstance(error, BrokerError | RecordTooLargeError | InvalidTopicError) and not error.retriable


def refused_line(record: SpooledRecord, error: BaseException) -> bytes:
    """The record and why it was refused, as one line of JSON."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "key": _as_json(record.key),
        "value": _as_json(record.value),
        "headers": [[name, _as_json(data)] for name, data in record.headers or ()],
        "timestamp_ms": record.timestamp_ms,
        "error": f"{type(error).__name__}: {error}",
        "outcome_unknown": False,
    }
    return b'{"sent": false, ' + json.dumps(fields, ensure_ascii=False).encode()[1:] + b"\n"


def _as_json(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
