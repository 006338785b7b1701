"""``settle_in``: hides the modules of a Python worker of Spark from the garbage collector.

Owns the test whether this process is one of Spark's workers, and the settling itself.

Rule: a user's own process is left alone.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

__all__ = ["is_worker", "settle_in"]

WORTH_IT: Final = 30
"""The number of new modules that is worth a collection; each one may leave garbage that is never collected."""


def is_worker() -> bool:
    """True in a process that Spark started to run Python: for a task, for planning or for committing."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith(("pyspark.", "aiokafkapy.spark."))


def settle_in() -> None:
    """Freeze the objects that are loaded by now and stay. A worker collects after each task, and one on the driver
    after each plan: with all our modules that would be 50 ms, as long as 100,000 rows take. Does nothing while few
    modules are new.
    """
    global _settled
    if len(sys.modules) >= _settled + WORTH_IT and is_worker():
        _settled = len(sys.modules)
        gc.collect()
        gc.freeze()


_settled = 0
