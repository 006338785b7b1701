"""``--times``: a table of wall time, CPU and waiting by folder and by test, at the end of a run.

CPU is that of this process and all its descendants, including brokers, JVMs and Spark's workers; the rest of a test's
time is waiting. Each worker counts its own tests. It is measured between the phases of a test, so a session fixture
counts for the first test that uses it.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

SLOWEST = 60
TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="at the end: wall, CPU and waiting by folder and by test")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--times"):
        config.pluginmanager.register(Times(), "times")


@dataclass
class Spent:
    """The time of one test or folder."""

    tests: set[str] = field(default_factory=set)
    wall: float = 0.0
    cpu: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.tests.add(report.nodeid)
        self.wall += report.duration
        self.cpu += getattr(report, "cpu_seconds", 0.0)

    @property
    def columns(self) -> str:
        """Wall, CPU and waiting in seconds."""
        return f"{self.wall:9.1f} {self.cpu:9.1f} {max(0.0, self.wall - self.cpu):9.1f}"


class Times:
    """Measures in the processes that run tests, and reports in the one that collects their reports."""

    def __init__(self) -> None:
        self._used = used_by_the_family()
        self._folders: defaultdict[str, Spent] = defaultdict(Spent)
        self._tests: defaultdict[str, Spent] = defaultdict(Spent)

    def pytest_collection_finish(self) -> None:
        self._used = used_by_the_family()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        used = used_by_the_family()
        report.cpu_seconds = round(used - self._used, 3)  # type: ignore[attr-defined]
        self._used = used
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._folders[folder_of(report)].add(report)
        self._tests[report.nodeid].add(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("times")
        heading = f"{'wall s':>9} {'CPU s':>9} {'waiting':>9}"
        write(f"{heading}  tests  folder")
        for name, spent in sorted(self._folders.items(), key=lambda item: -item[1].wall):
            write(f"{spent.columns} {len(spent.tests):6}  {name}")
        write(f"\n{heading}  the slowest tests")
        for name, spent in sorted(self._tests.items(), key=lambda item: -item[1].wall)[:SLOWEST]:
            write(f"{spent.columns}  {name}")


def folder_of(report: pytest.TestReport) -> str:
    """The folder below ``tests``, apart for what needs real Kafka or Java."""
    folder = "/".join(report.location[0].split("/")[:2])
    return next((f"{folder}, {mark}" for mark in ("kafka", "java") if mark in report.keywords), folder)


def used_by_the_family() -> float:
    """Seconds of CPU that this process, its living descendants, and those it has reaped have used."""
    total, family = 0, [f"/proc/{os.getpid()}"]
    while family:
        process = family.pop()
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # After the name, which may have any character: state, parent, …; the four times are the 12th to the 15th.
            total += sum(map(int, _read(f"{process}/stat").rpartition(b")")[2].split()[11:15]))
            for thread in os.listdir(f"{process}/task"):  # noqa: PTH208 - a fifth of what a Path costs, three times a test
                family += [f"/proc/{int(child)}" for child in _read(f"{process}/task/{thread}/children").split()]
    return total / TICKS


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()
