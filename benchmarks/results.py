"""The results of a run: the figures of each row, round by round, and their form in a file.

Owns medians, ranges and the JSON form. Knows neither goals nor tables.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from .measurement import Figures, Measurement

__all__ = ["Results", "Row", "Spread", "best_rows"]


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over all rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Self:
        """The spread of some values, at least one."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(slots=True)
class Row:
    """A measurement, the figures of each round that counts, and the errors of the others."""

    measurement: Measurement
    rounds: list[Figures] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skipped: str = ""

    def spread(self, figure: str) -> Spread | None:
        """A figure over the rounds; None when this row has no such figure."""
        values = [found[figure] for found in self.rounds if figure in found]
        return Spread.of(values) if values else None

    def median(self, figure: str) -> float | None:
        """The figure's median; None when this row has no such figure."""
        spread = self.spread(figure)
        return None if spread is None else spread.median


@dataclass(slots=True)
class Results:
    """A whole run: its machine, its time, and all rows by label."""

    date: str
    machine: dict[str, Any]
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def failures(self) -> dict[str, list[str]]:
        """The errors, by label."""
        return {label: row.failures for label, row in self.rows.items() if row.failures}

    @property
    def rounds(self) -> int:
        """The number of counted rounds."""
        return max((len(row.rounds) for row in self.rows.values()), default=0)

    def write(self, path: Path, goals: list[dict[str, Any]]) -> None:
        """Keep it, with the results of the goals; of a failure the first line, without the paths of a traceback."""
        rows = {
            label: {
                "measurement": asdict(row.measurement),
                "figures": {
                    name: asdict(spread)
                    for name in sorted({name for figures in row.rounds for name in figures})
                    if (spread := row.spread(name)) is not None
                },
                "rounds": row.rounds,
                **({"failures": [each.partition("\n")[0] for each in row.failures]} if row.failures else {}),
                **({"skipped": row.skipped} if row.skipped else {}),
            }
            for label, row in self.rows.items()
        }
        kept = {"date": self.date, "machine": self.machine, "goals": goals, "rows": rows}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The reverse of ``write``."""
        kept = json.loads(path.read_text())
        rows = {
            label: Row(
                Measurement(**row["measurement"]),
                row["rounds"],
                row.get("failures", []),
                row.get("skipped", ""),
            )
            for label, row in kept["rows"].items()
        }
        return cls(kept["date"], kept["machine"], rows)


def best_rows(results: Results, group: str, workloads: Sequence[str]) -> dict[str, Row]:
    """The row with the highest rate, by client; only of compiled forms that look at every outcome."""
    found: dict[str, Row] = {}
    for row in results.rows.values():
        measurement, options = row.measurement, row.measurement.options
        is_wanted = measurement.group == group and measurement.workload in workloads and bool(row.rounds)
        if is_wanted and not options.get("interpreted") and options.get("callback", True):
            best = found.get(measurement.client)
            if best is None or (row.median("rate") or 0.0) > (best.median("rate") or 0.0):
                found[measurement.client] = row
    return found
