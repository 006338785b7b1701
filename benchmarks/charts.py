"""Charts of a run, as small PNGs: rate and CPU per message by workload and client, and latencies of awaited sends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from .results import Results, Row

__all__ = ["draw"]

COLOURS: Final = {
    "aiokafkapy": "#1b6ca8",
    "aiokafka": "#e08e45",
    "confluent-kafka": "#6b8e4e",
    "AIOProducer": "#a9bf8f",
    "kafka-python": "#b05c7a",
    "Java": "#777777",
}
# What a group of bars is called, its rows' group and its workloads.
THROUGHPUT: Final = (
    ("1,000 tasks\nthat await", "tasks", ("1,000 tasks",)),
    ("pipelined", "pipelined", ("pipelined",)),
    ("bulk", "bulk", ("send_many", "produce_batch")),
    ("pipelined,\n1 KiB", "1 KiB", ("pipelined",)),
)
DPI: Final = 110


def draw(results: Results, directory: Path) -> list[Path]:
    """Write the charts for which there are rows; returns their paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    drawn = [
        _bars(results, "rate", "messages/s (log)", directory / f"{results.date}-rate.png"),
        _bars(results, "cpu_us", "CPU µs per message (log)", directory / f"{results.date}-cpu.png"),
        _latencies(results, directory / f"{results.date}-latency.png"),
    ]
    return [path for path in drawn if path is not None]


def _bars(results: Results, figure: str, title: str, path: Path) -> Path | None:
    from matplotlib import pyplot

    groups = [(name, _best(results, group, workloads)) for name, group, workloads in THROUGHPUT]
    groups = [(name, rows) for name, rows in groups if rows]
    if not groups:
        return None
    drawing, axes = pyplot.subplots(figsize=(8, 3.4))
    left, places, names = 0.0, [], []
    for name, rows in groups:
        for number, (client, row) in enumerate(rows.items()):
            spread = row.spread(figure)
            if spread is not None:
                errors = [[spread.median - spread.low], [spread.high - spread.median]]
                axes.bar(left + number, spread.median, yerr=errors, color=COLOURS[client], label=client, width=0.9)
                text = f"{spread.median / 1e3:,.0f}k" if figure == "rate" else f"{spread.median:.2g}"
                axes.annotate(text, (left + number, spread.high), ha="center", va="bottom", fontsize=7)
        places.append(left + (len(rows) - 1) / 2)
        names.append(name)
        left += len(rows) + 1
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set_xticks(places, names)
    _finish(drawing, axes, title, path)
    return path


def _latencies(results: Results, path: Path) -> Path | None:
    from matplotlib import pyplot

    rows = _best(results, "await", ("lone await",))
    if not rows:
        return None
    drawing, axes = pyplot.subplots(figsize=(8, 2.4))
    for number, (client, row) in enumerate(rows.items()):
        middle, high = row.median("p50_ms"), row.median("p99_ms")
        if middle is not None and high is not None:
            axes.barh(number, middle, color=COLOURS[client], label=client)
            axes.barh(number, high - middle, left=middle, color=COLOURS[client], alpha=0.4)
            axes.annotate(f" {middle:.2f} / {high:.2f}", (high, number), va="center", fontsize=7)
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.15)
    _finish(drawing, axes, "lone await: p50 and p99, ms (log)", path)
    return path


def _finish(drawing: Any, axes: Any, title: str, path: Path) -> None:
    from matplotlib import pyplot

    axes.set_title(title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    axes.legend(unique.values(), unique.keys(), fontsize=7, frameon=False, ncols=3)
    drawing.tight_layout()
    # No date and no version in the file: the same figures give the same bytes.
    drawing.savefig(path, dpi=DPI, metadata={"Software": None})
    pyplot.close(drawing)


def _best(results: Results, group: str, workloads: Sequence[str]) -> dict[str, Row]:
    """Of each client, in the order of ``COLOURS``, its row with the highest rate."""
    found: dict[str, Row] = {}
    for client in COLOURS:
        rows = [
            row
            for row in results.rows.values()
            if row.rounds
            and (row.measurement.group, row.measurement.client) == (group, client)
            and row.measurement.workload in workloads
            and not row.measurement.options.get("interpreted")
            and row.measurement.options.get("callback", True)
        ]
        if rows:
            found[client] = max(rows, key=lambda row: row.median("rate") or 0.0)
    return found
