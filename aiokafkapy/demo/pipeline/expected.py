"""The results as pandas computes them from the data file: the pipeline is checked against them.

Owns the arithmetic, deliberately written a second time: it shares no line with the Spark job.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..flights import open_lines
from .results import LATE_AFTER, ROLLING, Result

if TYPE_CHECKING:
    import pandas as pd
    from pandas.core.groupby import DataFrameGroupBy

__all__ = ["expected_rolling", "expected_summary", "flights_frame"]

WINDOW_DAYS = 7
WATERMARK_DAYS = 7


def flights_frame(path: Path, limit: int | None = None) -> pd.DataFrame:
    """The flights of the file, or the first ``limit`` to leave, with ``departure``, their scheduled
    departure in UTC.
    """
    import pandas as pd

    # NA is a missing value; no carrier, airport or aircraft has that name.
    with open_lines(path) as lines:
        flights = pd.read_csv(lines, na_values=["NA"], keep_default_na=False)
    hour = pd.to_datetime(flights["time_hour"], utc=True)
    flights["departure"] = hour + pd.to_timedelta(flights["minute"], unit="min")
    flights = flights.sort_values("departure", kind="stable", ignore_index=True)
    return flights if limit is None else flights.head(limit)


def expected_summary(result: Result, flights: pd.DataFrame) -> pd.DataFrame:
    """One of the batch results."""
    return _measured(flights.groupby(list(result.key), sort=True), list(result.columns))


def expected_rolling(flights: pd.DataFrame) -> pd.DataFrame:
    """The completed windows: those that end no later than the last departure minus the watermark."""
    import pandas as pd

    day = pd.Timedelta(days=1)
    closed = flights["departure"].max() - WATERMARK_DAYS * day
    copies = []
    for days in range(WINDOW_DAYS):
        # A flight is in the windows that end at the next midnight and at the six after that.
        ends = flights["departure"].dt.floor("D") + (days + 1) * day
        copies.append(flights.assign(window_end=ends))
    windows = pd.concat(copies, ignore_index=True)
    windows = windows[windows["window_end"] <= closed]
    windows = windows.assign(window_end=windows["window_end"].dt.strftime("%Y-%m-%d"))
    return _measured(windows.groupby(list(ROLLING.key), sort=True), list(ROLLING.columns))


def _measured(groups: DataFrameGroupBy, columns: list[str]) -> pd.DataFrame:
    delay = groups["dep_delay"]
    made = groups.size().to_frame("flights")
    made["departed"] = delay.count()
    made["late"] = delay.agg(lambda minutes: int((minutes > LATE_AFTER).sum())).astype("int64")
    made["delay_minutes"] = delay.sum().astype("int64")
    made["longest_delay"] = delay.max()
    made["mean_delay"] = delay.sum() / delay.count()
    return made.reset_index()[columns]
