"""What the accumulator asks of a record that waits for room.

Pure: who awaits the record, and until when, is the business of ``intake.pending_record``, whose class this describes.
Kafka has no counterpart: its threads wait inside ``BufferPool.allocate``.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from ...common import Headers

__all__ = ["WaitingRecord"]


class WaitingRecord(Hashable, Protocol):
    """A serialized record whose partition is chosen; None and -1 are the topic's sticky partition.

    It is told apart from others by its identity, not by its content.
    """

    topic: str
    partition: int | None
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers | None
