"""The options of a ``PartitionReader``: those of every client, and the consumer's options for fetching.

Owns names, defaults and checks. Kafka's counterpart is ``ConsumerConfig``, without the options of groups.

Rule: names and defaults are Kafka's, with dots as underscores.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..client.config import ClientConfig

__all__ = ["ReaderConfig"]


class ReaderConfig(ClientConfig):
    """The options of a ``PartitionReader``; immutable. Raises ConfigurationError for an invalid option."""

    fetch_min_bytes: Annotated[
        int, Field(ge=0, description="Bytes that the broker waits for, unless fetch_max_wait_ms is over.")
    ] = 1
    fetch_max_wait_ms: Annotated[
        int, Field(ge=0, description="Milliseconds that the broker waits for fetch_min_bytes.")
    ] = 500
    fetch_max_bytes: Annotated[
        int,
        Field(
            ge=0,
            description="Bytes of one answer, so with N leaders the reader holds at most about N times this. A first "
            "batch that is larger is read all the same (KIP-74).",
        ),
    ] = 52_428_800
    max_partition_fetch_bytes: Annotated[
        int, Field(ge=0, description="Bytes of one partition in an answer, but for a first batch that is larger.")
    ] = 1_048_576
    check_crcs: Annotated[bool, Field(description="Check each batch's checksum.")] = True
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Field(description="read_committed hides records of transactions that are open or were aborted."),
    ] = "read_uncommitted"
    auto_offset_reset: Annotated[
        Literal["earliest", "latest", "none"],
        Field(
            description="Where to go on when a position is not in the log (any more); none raises "
            "OffsetOutOfRangeError. Kafka's default is latest: a reader that is given partitions by hand is expected "
            "to see their records."
        ),
    ] = "earliest"
    default_api_timeout_ms: Annotated[
        int,
        Field(
            ge=0,
            description="Milliseconds that a look-up of offsets or partitions goes on trying, when it is given no "
            "time-out of its own.",
        ),
    ] = 60_000
