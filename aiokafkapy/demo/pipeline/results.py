"""The results of the pipeline: the name, the columns, and Spark's computation of each.

Owns the definitions; ``expected`` has the same in pandas. It knows neither the source of flights nor the destination
of results.

Rules:

- sums and counts are integers and means are one division, so that two engines agree to the last bit;
- a result's ``key`` columns, joined by a slash, are its records' key in Kafka, and name a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "BATCH_RESULTS",
    "FLIGHT_SCHEMA",
    "MEASURES",
    "RESULTS",
    "ROLLING",
    "SLIDE",
    "WATERMARK",
    "WINDOW",
    "Result",
    "from_records",
    "parse_flights",
    "rolling",
    "summary",
    "to_records",
]

LATE_AFTER: Final = 15
"""Minutes; late by the definition of the US Department of Transportation."""
WINDOW: Final = "7 days"
SLIDE: Final = "1 day"
WATERMARK: Final = "7 days"
"""The time by which a flight may come after the latest departure seen and still count."""

FLIGHT_SCHEMA: Final = "row INT, carrier STRING, origin STRING, dest STRING, hour INT, dep_delay INT"
MEASURES: Final = {
    "flights": "BIGINT",
    "departed": "BIGINT",
    "late": "BIGINT",
    "delay_minutes": "BIGINT",
    "longest_delay": "INT",
    "mean_delay": "DOUBLE",
}
"""The columns of every result after its key columns: all flights, those that left, those more than 15 minutes late,
the sum and the largest of the delays in minutes, and their mean over those that left (null if none did).
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One table that the pipeline makes."""

    name: str
    title: str
    key: dict[str, str]
    """Columns that name a row, with their types in Spark SQL."""

    @property
    def columns(self) -> dict[str, str]:
        """All columns, in order, with their types."""
        return {**self.key, **MEASURES}

    @property
    def schema(self) -> str:
        """The columns in the form of Spark SQL."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns.items())

    def topic(self, flights: str) -> str:
        """The Kafka topic of the result, beside that of the flights."""
        return f"{flights}.{self.name}"


BATCH_RESULTS: Final = (
    Result("delay-by-carrier", "Departure delay by carrier", {"carrier": "STRING"}),
    Result("delay-by-hour", "Departure delay by hour of scheduled departure", {"hour": "INT"}),
    Result("delay-by-route", "Departure delay by route", {"origin": "STRING", "dest": "STRING"}),
)
ROLLING: Final = Result(
    "rolling-delay-by-airport", "Rolling 7-day departure delay by airport", {"origin": "STRING", "window_end": "STRING"}
)
"""``window_end`` is the end of the window, exclusive, as an ISO 8601 date in UTC."""
RESULTS: Final = (*BATCH_RESULTS, ROLLING)


def parse_flights(records: DataFrame) -> DataFrame:
    """Flights from the rows of our source: the fields of ``FLIGHT_SCHEMA``, and ``departure``, the record's
    timestamp.
    """
    from pyspark.sql import functions as f

    flight = f.from_json(f.col("value").cast("string"), FLIGHT_SCHEMA).alias("flight")
    return records.select(flight, f.col("timestamp").alias("departure")).select("flight.*", "departure")


def summary(result: Result, flights: DataFrame) -> DataFrame:
    """One of ``BATCH_RESULTS``."""
    return flights.groupBy(*result.key).agg(*_measures()).select(*result.columns)


def rolling(flights: DataFrame) -> DataFrame:
    """``ROLLING``, of a stream or of a table."""
    from pyspark.sql import functions as f

    windows = f.window("departure", WINDOW, SLIDE)
    found = flights.withWatermark("departure", WATERMARK).groupBy("origin", windows).agg(*_measures())
    end = f.date_format(f.col("window.end"), "yyyy-MM-dd")
    return found.withColumn("window_end", end).select(*ROLLING.columns)


def to_records(result: Result, rows: DataFrame) -> DataFrame:
    """Rows in the form for our sink: ``key``, and ``value`` with the row as JSON."""
    from pyspark.sql import functions as f

    key = f.concat_ws("/", *(f.col(name).cast("string") for name in result.key))
    return rows.select(key.alias("key"), f.to_json(f.struct(*result.columns)).alias("value"))


def from_records(result: Result, records: DataFrame) -> DataFrame:
    """Rows again, from the records that our source read."""
    from pyspark.sql import functions as f

    row = f.from_json(f.col("value").cast("string"), result.schema).alias("row")
    return records.select(row).select("row.*")


def _measures() -> list[Column]:
    from pyspark.sql import functions as f

    delay = f.col("dep_delay")
    left, minutes = f.count(delay), f.sum(delay)
    made: dict[str, Column] = {
        "flights": f.count("*"),
        "departed": left,
        "late": f.count(f.when(delay > LATE_AFTER, 1)),
        "delay_minutes": f.coalesce(minutes, f.lit(0)),
        "longest_delay": f.max(delay),
        "mean_delay": f.try_divide(minutes, left),
    }
    return [column.alias(name) for name, column in made.items()]
