"""``PipelineReport``: the pipeline's work and findings, in numbers and words.

The page and the CLI show them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ..ledger import Check
from .job import Outcome

__all__ = ["PipelineReport"]


@dataclass(slots=True)
class PipelineReport:
    """The results of the pipeline."""

    cluster: str
    topic: str
    out: Path
    outcome: Outcome
    rows: dict[str, int]
    checks: list[Check]
    seconds: float

    @property
    def has_passed(self) -> bool:
        """True when every check holds."""
        return all(check.passed for check in self.checks)

    @property
    def page(self) -> Path:
        """The HTML report."""
        return self.out / "report.html"

    def facts(self) -> dict[str, str]:
        """The main figures, by name."""
        outcome = self.outcome
        return {
            "Flights": f"{outcome.flights:,} records of topic {self.topic}, {self.cluster}",
            "Spark": f"{outcome.spark_version}, {outcome.master}",
            "aiokafkapy on the executors": ", ".join(outcome.executor_packages),
            "Micro-batches of the stream": f"{outcome.micro_batches:,}",
            "Time": f"{self.seconds:.0f} s",
        }

    def as_json(self) -> dict[str, object]:
        """The report for programs."""
        return {
            "topic": self.topic,
            "report": str(self.page),
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "spark": asdict(self.outcome),
            "checks": [asdict(check) for check in self.checks],
            "passed": self.has_passed,
        }
