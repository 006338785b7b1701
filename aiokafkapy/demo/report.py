"""The demo's report: figures and checks, as text and as JSON.

Owns its form; every number comes from the ``Ledger``, the clock, or the producers' own metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ..common import percentile
from .ledger import Check, render_checks
from .pipeline.report import PipelineReport
from .pipeline.runner import render as render_pipeline

__all__ = ["Load", "Report", "percentile_ms", "render"]


@dataclass(slots=True)
class Load:
    """Number of records and duration of one replay or of reading back. Latencies are milliseconds, None if not
    measured.
    """

    records: int = 0
    seconds: float = 0.0
    batches: int | None = None
    requests: int | None = None
    bytes: int | None = None
    clients: int | None = None
    http_p50_ms: float | None = None
    http_p99_ms: float | None = None
    send_p50_ms: float | None = None
    send_p99_ms: float | None = None

    @property
    def rate(self) -> float:
        """Records per second; 0 if no time passed."""
        return self.records / self.seconds if self.seconds > 0 else 0.0

    def take_metrics(self, metrics: Mapping[str, float]) -> None:
        """Batches, requests and bytes, from a producer's metrics."""
        self.batches = int(metrics.get("batch-total", 0))
        self.requests = int(metrics.get("produce-request-total", 0))
        self.bytes = int(metrics.get("byte-total", 0))

    def as_json(self) -> dict[str, object]:
        """The measurements, for programs."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        return found | {"seconds": round(self.seconds, 3), "rate": round(self.rate, 1)}


@dataclass(slots=True)
class Report:
    """The results of the demo."""

    cluster: str
    topic: str
    flights: int
    was_interrupted: bool = False
    http: Load = field(default_factory=Load)
    direct: Load = field(default_factory=Load)
    read_back: Load = field(default_factory=Load)
    checks: list[Check] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    pipeline: PipelineReport | None = None

    @property
    def has_passed(self) -> bool:
        """True when records were checked and every check holds, the pipeline's too."""
        checks = [*self.checks, *(self.pipeline.checks if self.pipeline is not None else ())]
        return bool(self.checks) and all(check.passed for check in checks)

    def as_json(self) -> dict[str, object]:
        """The report for programs."""
        return {
            "cluster": self.cluster,
            "topic": self.topic,
            "flights": self.flights,
            "interrupted": self.was_interrupted,
            "http": self.http.as_json(),
            "direct": self.direct.as_json(),
            "read_back": self.read_back.as_json(),
            "checks": [asdict(check) for check in self.checks],
            "troubles": self.troubles,
            "pipeline": None if self.pipeline is None else self.pipeline.as_json(),
            "passed": self.has_passed,
        }


def percentile_ms(ordered: Sequence[float], share: float) -> float | None:
    """The value, in milliseconds, that ``share`` of the ascending seconds do not exceed; None without values."""
    if not ordered:
        return None
    return round(percentile(ordered, share) * 1000, 3)


def render(report: Report) -> str:
    """The report as text, without colours, one fact per line."""
    prefix = "Interrupted. " if report.was_interrupted else ""
    lines = [
        "",
        f"{prefix}{report.flights:,} flights, topic {report.topic}, {report.cluster}",
        "",
        *_load_lines("over HTTP", report.http),
        *_load_lines("directly", report.direct),
        *_load_lines("read back", report.read_back),
        "",
    ]
    lines += render_checks(report.checks)
    if report.troubles:
        lines += ["", *[f"  {trouble}" for trouble in report.troubles]]
    if report.pipeline is not None:
        lines += ["", "The Spark pipeline", *render_pipeline(report.pipeline)]
    verdict = "All checks hold." if report.has_passed else "NOT all checks hold."
    if report.was_interrupted and report.has_passed:
        verdict = "All checks hold for the records sent before the interruption."
    return "\n".join([*lines, "", verdict])


# internals


def _load_lines(name: str, load: Load) -> list[str]:
    if not load.records:
        return [f"  {name:<10} nothing"]
    lines = [f"  {name:<10} {load.records:>9,} records in {load.seconds:6.2f} s  {load.rate:>10,.0f} a second"]
    if load.http_p50_ms is not None:
        lines.append(
            f"  {'':<10} await producer.send(): p50 {load.send_p50_ms} ms, p99 {load.send_p99_ms} ms;"
            f" whole POST: p50 {load.http_p50_ms} ms, p99 {load.http_p99_ms} ms ({load.clients} clients)"
        )
    if load.batches:
        lines.append(
            f"  {'':<10} {load.batches:,} batches in {load.requests or 0:,} requests,"
            f" {(load.bytes or 0) / 1_000_000:,.1f} MB"
        )
    return lines
