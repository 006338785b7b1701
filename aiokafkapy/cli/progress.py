"""A progress bar on stderr, if that is a terminal.

Owns its look; does not know the counted objects. rich draws it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "progress"]


class Progress(Protocol):
    """Receives a command's progress."""

    def update(self, done: int) -> None:
        """Show the total done so far."""


class _Silent:
    def update(self, done: int) -> None:
        """Show nothing."""


@contextmanager
def progress(what: str, total: int | None, *, is_shown: bool = True, unit: str = "records") -> Iterator[Progress]:
    """A bar with a rate while the block runs; silent if stderr is not a terminal. Without ``total`` it counts up."""
    if not is_shown or not sys.stderr.isatty():
        yield _Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    filled = [BarColumn(), TextColumn("{task.percentage:>3.0f} %")] if total else []
    bar = Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *filled,
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total, counted="")

        class _Shown:
            def update(self, done: int) -> None:
                elapsed = bar.tasks[0].elapsed or 0.0
                rate = f", {done / elapsed:,.0f}/s" if elapsed > 0.2 else ""
                bar.update(task, completed=done, counted=f"{done:,} {unit}{rate}")

        yield _Shown()
