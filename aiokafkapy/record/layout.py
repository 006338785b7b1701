"""Sizes and positions in the header of every record batch, also for modules that neither encode nor decode records.

Kafka's counterpart is ``DefaultRecordBatch.RECORD_BATCH_OVERHEAD``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTRIBUTES_AT",
    "BATCH_HEADER_SIZE",
    "CODEC_MASK",
    "CONTROL",
    "COUNT_AT",
    "CRC_AT",
    "LEADER_EPOCH_AT",
    "LENGTH_AT",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "MAGIC_AT",
    "MAX_BATCH_SIZE",
    "MAX_TIMESTAMP_AT",
    "TRANSACTIONAL",
]

BATCH_HEADER_SIZE: Final = 61
"""Bytes before the first record of a batch."""
MAX_BATCH_SIZE: Final = 2**31 - 1
"""Sizes on the wire are signed 32-bit."""
LOG_OVERHEAD: Final = 12
"""Size of base offset and length, which the length does not include."""
MAGIC: Final = 2
"""The only format since Kafka 4 (KIP-724)."""

# offsets within a batch's header
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
"""The checksum covers all bytes from here on."""
MAX_TIMESTAMP_AT: Final = 35
COUNT_AT: Final = 57

# bits of the attributes
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
