"""``exactlyOnce`` with attempts that end at a step of their write: the format ``killed``, for tests.

The first attempt of Spark partition 0 ends in micro-batch n at the nth of ``STEPS``, by SIGKILL to its Python worker,
or, at ``RAISES``, by an exception. At ``ASKED`` it only says so, in a file with its process id: the broker kills it,
when the request for the commit has come.

Rule: nothing of the product is changed but where it is killed; all that was awaited before a step is done.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from pyspark.sql.types import StructType

from aiokafkapy import KafkaProducer
from aiokafkapy.spark.data_source import KafkaDataSource
from aiokafkapy.spark.sink import exactly_once
from aiokafkapy.spark.sink.messages import WrittenRows
from aiokafkapy.spark.sink.row_sender import send_tables
from aiokafkapy.spark.sink.stream_writer import KafkaStreamWriter
from aiokafkapy.spark.sink.task import Task, current_task

__all__ = ["ASKED", "STEPS", "killed_source"]

RAISES: Final = "its rows raise an exception"
ASKED: Final = "the commit is asked for"
STEPS: Final = (
    "it has not begun",
    "its id is taken and nothing is sent",
    "its rows are acknowledged",
    RAISES,
    "its marker is acknowledged",
    ASKED,
    "its transaction is committed",
    "its write has returned",
)


def killed_source(folder: Path) -> type[KafkaDataSource]:
    """The format ``killed``; each end is told by a file in ``folder`` with the step as its name."""

    class Killed(KafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "killed"

        def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter:  # noqa: N802
            planned = KilledWriter.plan(schema, self.options, overwrite=overwrite)
            planned.folder = folder
            return planned

    return Killed


class KilledWriter(KafkaStreamWriter):
    """Ends some of its attempts."""

    folder: Path

    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        """Write, up to the attempt's step."""
        step = _step(current_task())
        if step is None:
            return super().write(iterator)
        end = _End(step, self.folder)
        end.at("it has not begun")
        # The process lives on when it was an exception.
        with patch.multiple(exactly_once, KafkaProducer=end.producer(), send_tables=end.send_tables):
            written = super().write(end.rows(iterator))
        end.at("its write has returned")
        return written


class _End:
    """The end of one attempt, when it is reached."""

    def __init__(self, step: str, folder: Path) -> None:
        self._step = step
        self._folder = folder

    def at(self, step: str) -> None:
        """Here, if this is its step."""
        if step == self._step:
            self._tell()
            os.kill(os.getpid(), signal.SIGKILL)

    def rows(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The rows, with an exception after them if that is its step."""
        yield from batches
        if self._step == RAISES:
            self._tell()
            raise LookupError("a fault of the rows' own")

    async def send_tables(self, *arguments: Any) -> Any:
        """The product's ``send_tables``, and the step after it."""
        written = await send_tables(*arguments)
        self.at("its rows are acknowledged")
        return written

    def producer(self) -> type[KafkaProducer[Any, Any]]:
        """The producer with the steps of a transaction."""
        end = self

        class KilledProducer(KafkaProducer[Any, Any]):
            def transaction(self) -> AbstractAsyncContextManager[None]:
                return end.around(super().transaction())

        return KilledProducer

    @asynccontextmanager
    async def around(self, transaction: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        """A transaction and the steps before, in and after it."""
        self.at("its id is taken and nothing is sent")
        async with transaction:
            yield
            self.at("its marker is acknowledged")
            if self._step == ASKED:
                self._tell()
        self.at("its transaction is committed")

    def _tell(self) -> None:
        hidden = self._folder / ".hidden"
        hidden.write_text(str(os.getpid()))
        hidden.rename(self._folder / self._step)


def _step(task: Task) -> str | None:
    """The step at which this attempt ends."""
    if task.batch_id is None or task.batch_id >= len(STEPS) or (task.partition_id, task.attempt_number) != (0, 0):
        return None
    return STEPS[task.batch_id]
