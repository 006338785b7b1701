"""A picture for each result, as PNG.

Owns the drawing of a result. Results are drawn as read back from Kafka, not as computed on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .results import BATCH_RESULTS, RESULTS, ROLLING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["draw"]

INK: Final = "#1b3a57"
ACCENT: Final = "#c8553d"
AIRPORTS: Final = {"EWR": "#1b3a57", "JFK": "#c8553d", "LGA": "#588157"}
SLOWEST: Final = 25
FEWEST_FLIGHTS: Final = 50
"""Routes with fewer flights are left out of the picture, since their means say little."""


def draw(frames: dict[str, pd.DataFrame], directory: Path) -> dict[str, Path]:
    """Draw every result, by name; returns the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    files = {}
    for result in RESULTS:
        figure, axes = plt.subplots(figsize=(11, 6.2), layout="constrained")
        _PICTURES[result.name](axes, frames[result.name])
        axes.set_title(result.title, loc="left", fontweight="bold", color=INK)
        axes.spines[["top", "right"]].set_visible(False)
        files[result.name] = directory / f"{result.name}.png"
        figure.savefig(files[result.name], dpi=110)
        plt.close(figure)
    return files


def _carriers(axes: Axes, frame: pd.DataFrame) -> None:
    ordered = frame.sort_values("mean_delay")
    bars = axes.barh(ordered["carrier"], ordered["mean_delay"], color=INK)
    axes.bar_label(bars, [f"{count:,} flights" for count in ordered["flights"]], padding=4, fontsize=8, color="#555")
    axes.set_xlabel("mean departure delay, minutes")
    axes.margins(x=0.12)


def _hours(axes: Axes, frame: pd.DataFrame) -> None:
    ordered = frame[frame["departed"] > 0].sort_values("hour")
    axes.bar(ordered["hour"], ordered["mean_delay"], color=INK)
    axes.set_xticks(range(int(ordered["hour"].min()), 24))
    axes.set_xlabel("hour of scheduled departure, New York time")
    axes.set_ylabel("mean departure delay, minutes")
    shares = axes.twinx()
    shares.plot(ordered["hour"], 100 * ordered["late"] / ordered["departed"], color=ACCENT, marker="o", markersize=4)
    shares.set_ylabel("flights more than 15 minutes late, %", color=ACCENT)
    shares.set_ylim(bottom=0)
    shares.spines["top"].set_visible(False)


def _routes(axes: Axes, frame: pd.DataFrame) -> None:
    from matplotlib.patches import Patch

    ordered = frame[frame["departed"] >= FEWEST_FLIGHTS].sort_values("mean_delay").tail(SLOWEST)
    if ordered.empty:
        ordered = frame[frame["departed"] > 0].sort_values("mean_delay").tail(SLOWEST)
    names = ordered["origin"] + " → " + ordered["dest"]
    axes.barh(names, ordered["mean_delay"], color=[AIRPORTS.get(origin, INK) for origin in ordered["origin"]])
    axes.tick_params(axis="y", labelsize=8)
    colours = [Patch(color=colour, label=f"from {airport}") for airport, colour in AIRPORTS.items()]
    axes.legend(handles=colours, frameon=False, loc="lower right")
    axes.set_xlabel(f"mean departure delay, minutes: the {len(ordered)} slowest of {len(frame)} routes")


def _rolling(axes: Axes, frame: pd.DataFrame) -> None:
    import pandas as pd

    for origin, rows in frame.groupby("origin", sort=True):
        ordered = rows.sort_values("window_end")
        ends = pd.to_datetime(ordered["window_end"])
        axes.plot(ends, ordered["mean_delay"], label=origin, color=AIRPORTS.get(str(origin)), linewidth=1.4)
    axes.set_xlabel("end of the window")
    axes.set_ylabel("mean departure delay, minutes")
    axes.legend(frameon=False)


_PICTURES: Final[dict[str, Callable[[Axes, pd.DataFrame], None]]] = dict(
    zip((result.name for result in (*BATCH_RESULTS, ROLLING)), (_carriers, _hours, _routes, _rolling), strict=True)
)
