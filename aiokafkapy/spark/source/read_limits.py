"""Spark's limits of a micro-batch, with substitutes before PySpark 4.2, whose Python sources have none.

There Spark asks for the end of a micro-batch without its start or a limit, and sets the end of Trigger.AvailableNow by
asking once.
"""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_READ_LIMITS = True
except ModuleNotFoundError:
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """The limit of a micro-batch."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Every record until now."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most this many rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A reader that is told to end the query with the present records."""


__all__ = ["HAS_READ_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
