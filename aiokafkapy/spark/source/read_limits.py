"""Spark's limits of a micro-batch, and what stands for them before PySpark 4.2, whose Python sources have none.

There Spark asks how far a micro-batch goes with neither its start nor a limit, and sets the end of Trigger.AvailableNow
by asking once.
"""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_READ_LIMITS = True
except ModuleNotFoundError:
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """How much a micro-batch may read."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Everything there is."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """At most this many rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Is told that the query ends with what there is now."""


__all__ = ["HAS_READ_LIMITS", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
