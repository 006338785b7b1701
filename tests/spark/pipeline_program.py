"""Kafka to Kafka through Spark, with a task that halts in the middle until it is told to go on.

Used by ``test_stream_faults`` and ``test_exactly_once_faults``, in their own session, and run as a program whose driver
is killed: two queries over the same source, one of them with ``exactlyOnce``. Arguments: bootstrap servers, the
topic to read, and for each query the topic to write and a folder: for the checkpoint, and for the messages of the
halted task and the test. The first folder is Spark's, too.

Rules: one task of a query halts once, in any case: of the second micro-batch, when two Arrow batches have
been given to the sink. Rows keep the number of their partition.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from aiokafkapy.spark.data_source import KafkaDataSource
from aiokafkapy.spark.sink.messages import WrittenRows
from aiokafkapy.spark.sink.stream_writer import KafkaStreamWriter

PARTITIONS = 3
IN_ARROW_BATCH = 500
IN_TASK = 3 * IN_ARROW_BATCH
IN_MICRO_BATCH = PARTITIONS * IN_TASK
MICRO_BATCHES = 3
ROWS = MICRO_BATCHES * IN_TASK
"""The rows of each partition."""
PATIENCE = 240


def once_options(topic: str) -> dict[str, str]:
    """The sink's options for each row once, with a topic of markers that no other test has."""
    return {"exactlyOnce": "true", "exactlyOnceTopic": f"{topic}-markers"}


class Signals:
    """Signals between the halted task and the test, as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def halt(self) -> None:
        """Wait to be told to go on; only the first caller does."""
        try:
            (self._folder / "halted").mkdir()
        except FileExistsError:
            return
        # Read by the test, in another process, as soon as it is there.
        hidden = self._folder / "hidden"
        hidden.write_text(str(os.getpid()))
        hidden.rename(self._folder / "worker")
        self._wait_for("go")

    @property
    def is_halted(self) -> bool:
        """True while it waits."""
        return (self._folder / "worker").exists() and not (self._folder / "go").exists()

    def wait_until_halted(self) -> int:
        """The id of the process that halted."""
        return int(self._wait_for("worker").read_text())

    def go_on(self) -> None:
        """Let it go on, and all after it."""
        (self._folder / "go").touch()

    def _wait_for(self, name: str) -> Path:
        deadline = time.monotonic() + PATIENCE
        while not (self._folder / name).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"there is no {name} after {PATIENCE} s")
            time.sleep(0.01)
        return self._folder / name


def halting_source(folder: Path) -> type[KafkaDataSource]:
    """The format ``halting-`` and the folder's name: ours, but for one task of its sink."""

    class HaltingWriter(KafkaStreamWriter):
        def write(self, iterator: Iterator[Any]) -> WrittenRows:
            def halted() -> Iterator[Any]:
                context = TaskContext.get()
                assert context is not None
                is_second = context.getLocalProperty("streaming.sql.batchId") == "1"
                for number, batch in enumerate(iterator):
                    yield batch
                    if is_second and number == 1:
                        Signals(folder).halt()

            return super().write(halted())

    class Halting(KafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return f"halting-{folder.name}"

        def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: N802
            return HaltingWriter.plan(schema, self.options, overwrite=overwrite)

    return Halting


def start_pipeline(
    session: SparkSession, bootstrap_servers: str, source: str, sink: str, folder: Path, **options: str
) -> Any:
    """The query; it ends when it has written the records that were in the source when it started. ``options``: the
    sink's.
    """
    format_ = halting_source(folder)
    session.dataSource.register(format_)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", IN_ARROW_BATCH)
    servers = {"kafka.bootstrap.servers": bootstrap_servers}
    reading = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(IN_MICRO_BATCH)}
    rows = session.readStream.format("aiokafkapy").options(**servers, **reading).load()
    writer = rows.select("value", "partition").writeStream.format(format_.name())
    writer = writer.options(**servers, **options, topic=sink).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def main(bootstrap_servers: str, source: str, sink: str, folder: Path, once_sink: str, once_folder: Path) -> None:
    """Run both queries to their end."""
    from tests.spark.conftest import SESSION, start_session, stop_session

    scratch = folder / f"driver-{time.monotonic_ns()}"
    scratch.mkdir()
    # Two slots for the tasks that halt, and two for the others.
    session = start_session(scratch, SESSION | {"spark.master": "local[4,3]"})
    try:
        first = start_pipeline(session, bootstrap_servers, source, sink, folder)
        # Not both at once: a query that starts may change objects that Spark serializes for another.
        while not Signals(folder).is_halted and not first.awaitTermination(1):
            pass
        options = once_options(once_sink)
        second = start_pipeline(session, bootstrap_servers, source, once_sink, once_folder, **options)
        for query in (first, second):
            if not query.awaitTermination(PATIENCE):
                raise TimeoutError(f"a query did not end within {PATIENCE} s")
    finally:
        stop_session(session)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5], Path(sys.argv[6]))
