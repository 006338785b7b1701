"""The work and the findings of a run, and the lines that it says meanwhile.

Knows nothing of Kafka: ``faults`` and the workloads fill it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .copies import CopyAccount
from .schedule import Kind

__all__ = ["Journal", "Report", "Say"]

Say = Callable[[str], None]


@dataclass
class Report:
    """A run's work and its findings; it is well when there are none."""

    seed: int
    seconds: float = 0.0
    faults: Counter[Kind] = field(default_factory=Counter)
    moves: int = 0
    """Partitions whose replicas were taken elsewhere and back."""
    elected: int = 0
    """Partitions that an election gave another leader."""
    refused: int = 0
    """Elections and moves that the cluster would not make just then."""
    loads: list[str] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0
    retries: int = 0
    copies: CopyAccount | None = None
    """The account of the copiers, in a run with transactions."""
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        partitions = f"{self.moves} partitions moved, {self.elected} elected, {self.refused} refused"
        lines = [
            f"seed {self.seed}: {sum(self.faults.values())} faults in {self.seconds:.0f} s ({kinds}; {partitions})",
            f"{self.sent:,} records sent, {self.acknowledged:,} acknowledged, {self.retries:,} sent again",
            *self.loads,
            *(str(self.copies).splitlines() if self.copies is not None else ()),
            *(f"FINDING: {finding}" for finding in self.findings),
            f"{len(self.findings) or 'no'} finding{'' if len(self.findings) == 1 else 's'} with seed {self.seed}",
        ]
        return "\n".join(lines)


class Journal:
    """Tells events, with the seconds of the run, and writes findings into the report."""

    def __init__(self, report: Report, say: Say) -> None:
        self.report = report
        self._say = say
        self._started = time.monotonic()

    def log(self, line: str) -> None:
        """Something happened."""
        self._say(f"{time.monotonic() - self._started:7.1f} s  {line}")

    def find(self, finding: str) -> None:
        """Something broke a promise."""
        self.log(f"FINDING: {finding}")
        self.report.findings.append(finding)
