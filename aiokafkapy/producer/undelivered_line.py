"""The line of JSON that keeps an undelivered record, as ``aiokafkapy produce --resume FILE`` reads it.

Owns the form of the line, which a service's undelivered file (``integrations.undelivered``) and the spool's file of
refused records share. It knows no files. Kafka has no counterpart.
"""

from __future__ import annotations

import json
from typing import Final, Protocol

from ..common import Headers, bytes_as_json
from ..observability import describe_error

__all__ = ["PENDING", "SENT", "UndeliveredRecord", "undelivered_line"]

PENDING: Final = b'{"sent": false, '
SENT: Final = b'{"sent": true , '
"""As long as the other beginning: a line is marked by writing over its first bytes."""


class UndeliveredRecord(Protocol):
    """A ``PlainRecord``, or a ``SpooledRecord``."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers | None: ...


def undelivered_line(record: UndeliveredRecord, error: BaseException | None, *, outcome_unknown: bool) -> bytes:
    """A record's line; ``error`` is the reason why it was not delivered, None if unknown."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": [[name, bytes_as_json(data)] for name, data in record.headers or ()],
        "timestamp_ms": record.timestamp_ms,
        "error": "its outcome is not known" if error is None else describe_error(error),
        "outcome_unknown": outcome_unknown,
    }
    return PENDING + json.dumps(fields, ensure_ascii=False).encode()[1:] + b"\n"
