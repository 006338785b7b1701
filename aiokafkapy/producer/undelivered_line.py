"""The line of JSON that keeps a record which was not delivered, as ``aiokafkapy produce --resume FILE`` reads it.

Owns the line's form, which a service's undelivered file (``integrations.undelivered``) has, and the spool's file of
refused records. It knows no files. Kafka has no counterpart.
"""

from __future__ import annotations

import json
from typing import Final

from ..common import Headers, bytes_as_json
from ..observability import describe_error

__all__ = ["PENDING", "SENT", "undelivered_line"]

PENDING: Final = b'{"sent": false, '
SENT: Final = b'{"sent": true , '
"""As long as the other: a line is marked by writing over its first bytes."""


def undelivered_line(
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    timestamp_ms: int,
    error: BaseException | None,
    *,
    outcome_unknown: bool,
) -> bytes:
    """A record's line; ``error`` is why it was not delivered, None where nobody has said."""
    fields = {
        "topic": topic,
        "partition": partition,
        "key": bytes_as_json(key),
        "value": bytes_as_json(value),
        "headers": [[name, bytes_as_json(data)] for name, data in headers],
        "timestamp_ms": timestamp_ms,
        "error": "its outcome is not known" if error is None else describe_error(error),
        "outcome_unknown": outcome_unknown,
    }
    return PENDING + json.dumps(fields, ensure_ascii=False).encode()[1:] + b"\n"
