"""Compares the results that the pipeline read back with those of pandas: equal to the row, or with the rows that
differ.

Owns the meaning of equal: the same rows by their key columns, in any order, and every value the same; no tolerance.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..ledger import Check
from .expected import expected_rolling, expected_summary, flights_frame
from .job import Outcome
from .results import RESULTS, ROLLING, Result

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_results", "compare"]

WAYS = {"kafka": "from Kafka", "parquet": "from Parquet"}


def check_results(outcome: Outcome, read_back: Path, data: Path, limit: int | None) -> list[Check]:
    """The checks of the job and of the tables in ``read_back``; ``data`` and ``limit`` select the flights
    in the topic.
    """
    import pandas as pd

    flights = flights_frame(data, limit)
    dropped, twice = outcome.rows_dropped_as_late, sum(outcome.repeated.values())
    checks = [
        Check(
            "Spark read every flight, none twice",
            outcome.flights == outcome.distinct_flights == len(flights),
            f"{outcome.flights:,} records, {outcome.distinct_flights:,} flights, {len(flights):,} in the file",
        ),
        Check("no flight came too late for its window", dropped == 0, f"{dropped:,} dropped"),
        Check("each result is in Kafka once", twice == 0, f"records that a sink wrote twice: {twice:,}"),
    ]
    for result in RESULTS:
        frame = expected_rolling(flights) if result is ROLLING else expected_summary(result, flights)
        for way, text in WAYS.items():
            found = pd.read_parquet(read_back / f"{result.name}.{way}.parquet")
            trouble = compare(result, found, frame)
            said = trouble or f"{len(frame):,} rows equal pandas'"
            checks.append(Check(f"{result.name} {text}", trouble is None, said))
    return checks


def compare(result: Result, found: pd.DataFrame, expected: pd.DataFrame) -> str | None:
    """None if they are equal to the row; else the counts, and the first row that differs."""
    rows, wanted = _rows(result, found), _rows(result, expected)
    if rows == wanted:
        return None
    wrong = [key for key in wanted if key in rows and rows[key] != wanted[key]]
    missing, foreign = wanted.keys() - rows.keys(), rows.keys() - wanted.keys()
    counts = (
        f"{len(found):,} rows, {len(wanted):,} expected: {len(missing):,} missing, {len(foreign):,} unknown, "
        f"{len(wrong):,} different"
    )
    first = next(iter([*wrong, *sorted(missing, key=str), *sorted(foreign, key=str)]))
    return f"{counts}; {first}: {rows.get(first)}, pandas says {wanted.get(first)}"


def _rows(result: Result, frame: pd.DataFrame) -> dict[tuple[object, ...], list[tuple[object, ...]]]:
    """The rows by key, to detect a key with two different rows."""
    rows: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    keys = len(result.key)
    plain = frame[list(result.columns)].astype(object).where(frame.notna(), None)
    for values in plain.itertuples(index=False, name=None):
        rows.setdefault(values[:keys], []).append(values[keys:])
    return rows
