"""What is the same in every record batch, for those who neither write nor read records.

Kafka's counterpart is ``DefaultRecordBatch.RECORD_BATCH_OVERHEAD``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

__all__ = ["BATCH_HEADER_SIZE", "MAX_BATCH_SIZE", "Buffer"]

Buffer: TypeAlias = bytes | bytearray | memoryview

BATCH_HEADER_SIZE: Final = 61
"""Bytes before the first record of a batch."""
MAX_BATCH_SIZE: Final = 2**31 - 1
"""Sizes on the wire are signed 32-bit."""
