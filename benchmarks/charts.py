"""Charts of a run, as small PNGs: rate and CPU per message, and the time of an awaited send.

Each workload has its own axis, from zero, with every client's best variant; whiskers are the range of the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from .results import Results, Row, best_rows

__all__ = ["draw"]

COLOURS: Final = {
    "aiokafkapy": "#1b6ca8",
    "aiokafka": "#e08e45",
    "confluent-kafka": "#6b8e4e",
    "AIOProducer": "#a9bf8f",
    "kafka-python": "#b05c7a",
    "Java": "#777777",
}
# An axis's label, its rows' group and its workloads.
THROUGHPUT: Final = (
    ("1,000 tasks that await", "tasks", ("1,000 tasks",)),
    ("pipelined, outcomes checked", "pipelined", ("pipelined",)),
    ("send_many, produce_batch", "bulk", ("send_many", "produce_batch")),
    ("pipelined, 1 KiB", "1 KiB", ("pipelined",)),
)
LATENCY: Final = (
    ("lone await", "await", ("lone await",)),
    ("1,000 tasks that await", "tasks", ("1,000 tasks",)),
    ("web service, 64 connections", "web", ("request",)),
)
DPI: Final = 110
HEIGHT: Final = 2.1
WIDTH: Final = 9.6

Panel = tuple[str, dict[str, Row]]


def draw(results: Results, directory: Path) -> list[Path]:
    """Write the charts for which there are rows; returns their paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    throughput, latency = _panels(results, THROUGHPUT), _panels(results, LATENCY)
    paths = []
    for name, title, panels, bar in (
        ("rate", "messages/s", throughput, _rate),
        ("cpu", "µs of CPU per message (less is better)", throughput, _cpu),
        ("latency", "ms until delivered: p50, and p99 lighter (less is better)", latency, _latency),
    ):
        if panels:
            paths.append(directory / f"{results.date}-{name}.png")
            _draw(panels, title, bar, paths[-1])
    return paths


def _panels(results: Results, wanted: Sequence[tuple[str, str, Sequence[str]]]) -> list[Panel]:
    panels = []
    for title, group, workloads in wanted:
        rows = {client: row for client, row in best_rows(results, group, workloads).items() if client in COLOURS}
        if rows:
            panels.append((title, rows))
    return panels


def _draw(panels: Sequence[Panel], title: str, bar: Callable[[Any, int, str, Row], None], path: Path) -> None:
    from matplotlib import pyplot

    drawing, found = pyplot.subplots(1, len(panels), figsize=(WIDTH, HEIGHT), squeeze=False)
    for axes, (name, rows) in zip(found[0], panels, strict=True):
        for place, (client, row) in enumerate(rows.items()):
            bar(axes, place, COLOURS[client], row)
        axes.set_title(name, fontsize=8, loc="left")
        axes.set_yticks(range(len(rows)), list(rows), fontsize=7)
        axes.set_xticks([])
        axes.set_xlim(0, axes.get_xlim()[1] * 1.25)  # room for the numbers
        axes.invert_yaxis()
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    drawing.suptitle(title, fontsize=9, x=0.01, ha="left")
    drawing.tight_layout()
    # No version in the file: the same figures give the same bytes.
    drawing.savefig(path, dpi=DPI, metadata={"Software": None})
    pyplot.close(drawing)


def _rate(axes: Any, place: int, colour: str, row: Row) -> None:
    _bar(axes, place, colour, row, "rate", lambda rate: f"{rate / 1e6:.2f}M" if rate >= 1e6 else f"{rate / 1e3:.0f}k")


def _cpu(axes: Any, place: int, colour: str, row: Row) -> None:
    _bar(axes, place, colour, row, "cpu_us", lambda microseconds: f"{microseconds:.2g}")


def _bar(axes: Any, place: int, colour: str, row: Row, figure: str, words: Callable[[float], str]) -> None:
    spread = row.spread(figure)
    if spread is not None:
        whiskers = [[spread.median - spread.low], [spread.high - spread.median]]
        axes.barh(place, spread.median, xerr=whiskers, color=colour, ecolor="#444444", error_kw={"linewidth": 0.8})
        axes.annotate(f" {words(spread.median)}", (spread.high, place), va="center", fontsize=7)


def _latency(axes: Any, place: int, colour: str, row: Row) -> None:
    middle, high = row.median("p50_ms"), row.median("p99_ms")
    if middle is not None and high is not None:
        axes.barh(place, high, color=colour, alpha=0.4)
        axes.barh(place, middle, color=colour)
        axes.annotate(f" {middle:.3g} / {high:.3g}", (high, place), va="center", fontsize=7)
