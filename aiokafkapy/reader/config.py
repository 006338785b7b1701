"""The options of a `PartitionReader`: a client's, and what Kafka's consumer has for fetching.

Owns names, defaults and checks. Kafka's counterpart is `ConsumerConfig`, without what concerns groups.

Rule: names and defaults are Kafka's, with dots as underscores.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..client.config import ClientConfig

__all__ = ["ReaderConfig"]


class ReaderConfig(ClientConfig):
    """Immutable; checked when it is made, by `ConfigurationError`."""

    fetch_min_bytes: int = Field(1, ge=0)
    """The broker waits until it has so many bytes, or `fetch_max_wait_ms` is over."""
    fetch_max_wait_ms: int = Field(500, ge=0)
    fetch_max_bytes: int = Field(52_428_800, ge=0)
    """Bytes of one answer, so with N leaders the reader holds at most about N times this. A first batch that is larger
    is read all the same (KIP-74)."""
    max_partition_fetch_bytes: int = Field(1_048_576, ge=0)
    check_crcs: bool = True
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    """With read_committed, records of transactions that are open or were aborted are not seen."""
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    """Where to go on when a position is not in the log (any more); none raises OffsetOutOfRangeError. Kafka's default
    is latest: a reader that is given partitions by hand is expected to see what is in them."""
    default_api_timeout_ms: int = Field(60_000, ge=0)
    """How long a look-up of offsets or partitions goes on trying, when it is given no time-out of its own."""
