"""The results of ``relay.statistics()`` and ``relay.backlog()``: plain snapshots.

Rule: the statistics are read without I/O; counts begin when the relay is made.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OutboxBacklog", "OutboxStatistics"]


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """A relay at one moment."""

    is_connected: bool = False
    """True while it has its connection to the database."""
    shards: tuple[int, ...] = ()
    """The shards that this relay publishes."""
    published: int = 0
    """Rows that were acknowledged."""
    found_published: int = 0
    """Unmarked rows that the marker showed as already committed (exactly once)."""
    refused: int = 0
    """Rows that were parked with their error."""
    batches: int = 0
    unmarked: int = 0
    """Published rows that are not marked in the database yet."""
    held: tuple[str, ...] = ()
    """Scopes that failed and are held now: topics, lanes, shards, or ``kafka``."""
    database_failures: int = 0
    last_error: str | None = None
    """The last error: of the database, of Kafka or of a record."""


@dataclass(frozen=True, slots=True)
class OutboxBacklog:
    """The rows that wait in the table, in all shards."""

    pending: int
    refused: int
    oldest_timestamp_ms: int | None
    """The lowest timestamp of a pending row: by default the time of its ``add``."""
