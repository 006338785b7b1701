"""``spark.python.daemon.module=aiokafkapy.spark.daemon``: Spark's Python daemon, with our modules loaded beforehand.

Owns the imports of the daemon before it forks its workers. Everything else is ``pyspark.daemon``'s. Without this
module each new worker imports for itself: half a second of CPU for our modules alone. Spark ends a worker whose task
it leaves early, as ``limit``, ``take`` and ``isEmpty`` do, and starts another for the next task.

Rules:

- No module is imported that starts a thread, which a fork would lose: neither Arrow nor numpy.
- The package must be importable by Python workers, or no Python code of the application runs at all.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

__all__ = ["PRELOADED", "main", "preload"]

PRELOADED: Final = (
    "pyspark.worker",
    "aiokafkapy.protocol.entities",
    "aiokafkapy.spark.sink.row_sender",
    "aiokafkapy.spark.sink.stream_writer",
    "aiokafkapy.spark.sink.writer",
    "aiokafkapy.spark.source.range_reader",
    "aiokafkapy.spark.source.stream_reader",
)
"""The modules that tasks of all kinds import, and through them the producer and the reader."""


def preload() -> None:
    """Import these modules, and hide them from the garbage collector, so that no worker copies their pages."""
    for name in PRELOADED:
        import_module(name)
    gc.collect()
    gc.freeze()


def main() -> None:
    """As ``pyspark.daemon``, after ``preload``."""
    preload()
    manager()


if __name__ == "__main__":
    main()
