"""The results of ``relay.statistics()`` and ``relay.backlog()``: plain snapshots.

Rule: the statistics are read without I/O, and count since the relay was made.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OutboxBacklog", "OutboxStatistics"]


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """A relay at one moment."""

    is_connected: bool = False
    """Whether it has its connection to the database."""
    shards: tuple[int, ...] = ()
    """Those that this relay publishes."""
    published: int = 0
    """Rows that were acknowledged."""
    found_published: int = 0
    """Rows that were not marked, and that the marker told to be committed already (exactly once)."""
    refused: int = 0
    """Rows that were parked with their error."""
    batches: int = 0
    unmarked: int = 0
    """Rows that are published, and that the database was not told of yet."""
    held: tuple[str, ...] = ()
    """Scopes that failed and are not tried at this moment: topics, lanes, shards, or ``kafka``."""
    database_failures: int = 0
    last_error: str | None = None
    """Of the database, of Kafka or of a record, whichever was last."""


@dataclass(frozen=True, slots=True)
class OutboxBacklog:
    """The rows that wait in the table, in all shards."""

    pending: int
    refused: int
    oldest_timestamp_ms: int | None
    """The lowest time stamp of a pending row: by default the time of its ``add``."""
