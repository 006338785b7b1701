"""A stream of lines from text files, a file a micro-batch, and its query: the cheapest stream there is.

Owns the files and the running of a query over them to its end; the lines and their places are the tests'.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

__all__ = ["Lines", "run", "start", "values"]


class Lines:
    """A folder of text files that a stream reads, a file a micro-batch, and the place that its query keeps."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._files = folder / "files"
        self._files.mkdir()
        self.checkpoint = str(folder / "checkpoint")

    def add(self, name: str, numbers: range) -> None:
        """Let a file appear at once, with a number in each line."""
        hidden = self._files / f".{name}"
        hidden.write_text("".join(f"{number}\n" for number in numbers))
        hidden.rename(self._files / name)

    def frame(self) -> DataFrame:
        """The stream."""
        return self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._files))


def start(
    frame: DataFrame, checkpoint: str, servers: str, name: str = "aiokafkapy", mode: str = "append", **options: str
) -> Any:
    """The query that writes the present lines, and ends."""
    writer = (
        frame.writeStream.outputMode(mode).format(name).option("kafka.bootstrap.servers", servers).options(**options)
    )
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def run(frame: DataFrame, checkpoint: str, servers: str, *arguments: str, **options: str) -> None:
    """Write the present lines, and end; raises the query's error. Arguments are those of ``start``."""
    query = start(frame, checkpoint, servers, *arguments, **options)
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def values(records: list[Any]) -> list[int]:
    """The lines' numbers, in order."""
    return sorted(int(record.value) for record in records)
