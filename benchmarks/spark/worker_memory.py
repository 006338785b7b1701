"""The resident memory of Spark's Python workers, looked at all the time: the peak, and whether it grows.

Owns the samples of one job. Needs no Spark: the workers are found in /proc, by the daemon that forks them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..macro.processes import memory_of
from ..measurement import MeasurementError

__all__ = ["Progress", "Samples", "WorkerMemory", "growth"]

Samples = Sequence[tuple[float, float]]
"""Seconds since the job's start, and the MB of the largest worker then."""
Progress = Callable[[float, float], None]
"""Is told the same two numbers."""

PAUSE: Final = 0.1
"""Seconds between two looks."""
TOLD_EVERY: Final = 10.0
"""Seconds."""
SHARE: Final = 0.1


class WorkerMemory:
    """Samples from now on until ``stop``; ``progress`` hears of it every ten seconds, in the sampling thread."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.samples: list[tuple[float, float]] = []
        self._progress = progress
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    @property
    def peak(self) -> float:
        """The most that one worker held, in MB."""
        return max((megabytes for _, megabytes in self.samples), default=0.0)

    def stop(self) -> float:
        """The peak."""
        self._is_over.set()
        self._thread.join()
        return self.peak

    def _look(self) -> None:
        began, told = time.monotonic(), 0.0
        while not self._is_over.wait(PAUSE):
            sample = time.monotonic() - began, max(_of_workers(), default=0.0)
            self.samples.append(sample)
            if self._progress is not None and sample[0] - told >= TOLD_EVERY:
                told = sample[0]
                self._progress(*sample)


def growth(samples: Samples) -> float:
    """The most that a worker held in the last tenth of the time, over what the largest held at the end of the first.

    Raises MeasurementError when no worker was seen in one of them.
    """
    end = samples[-1][0] if samples else 0.0
    early = [megabytes for seconds, megabytes in samples if seconds <= SHARE * end and megabytes]
    late = [megabytes for seconds, megabytes in samples if seconds >= (1 - SHARE) * end and megabytes]
    if not early or not late:
        raise MeasurementError("no Python worker was seen in the first or the last tenth of the job")
    return max(late) / early[-1]


def _of_workers() -> list[float]:
    """The MB of each worker of this process's Spark that runs now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes() and _is_ours(process):
                found.append(memory_of(process.name, "VmRSS") / 1e6)
        except (OSError, MeasurementError):
            continue  # it has ended
    return found


def _is_ours(process: Path) -> bool:
    """True for a descendant of this process: other programs on the machine may have a Spark too."""
    while process.name not in ("0", "1"):
        if int(process.name) == os.getpid():
            return True
        process = process.with_name((process / "stat").read_text().rpartition(")")[2].split()[1])
    return False
