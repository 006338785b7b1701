"""``--times``: tables of wall time, CPU and waiting by folder, by file and by test, at the end of a run.

CPU is that of this process and all its descendants, including brokers, JVMs and Spark's workers; the rest of a test's
time is waiting. Each worker counts its own tests. It is measured between the phases of a test, so a session fixture
counts for the first test that uses it, as CPU before or after the test proper. The CPU of a process whose parent does
not wait for it is lost when it ends: a third of Spark's, whose Python daemons do not wait for their workers. There the
next number may be below zero.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

LONGEST = 60
"""Rows of a table of files or tests: those with the most CPU."""

TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="at the end: wall, CPU and waiting by folder, file and test")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--times"):
        config.pluginmanager.register(Times(), "times")


@dataclass
class Spent:
    """The time of one test or folder."""

    tests: set[str] = field(default_factory=set)
    wall: float = 0.0
    cpu: float = 0.0
    around: float = 0.0
    """CPU of the fixtures, before and after the test proper."""

    def add(self, report: pytest.TestReport) -> None:
        self.tests.add(report.nodeid)
        self.wall += report.duration
        cpu = getattr(report, "cpu_seconds", 0.0)
        self.cpu += cpu
        if report.when != "call":
            self.around += cpu

    @property
    def columns(self) -> str:
        """Wall, CPU, that of it outside the test proper, and waiting, in seconds."""
        waiting = max(0.0, self.wall - self.cpu)
        return f"{self.wall:9.1f} {self.cpu:9.1f} {self.around:9.1f} {waiting:9.1f} {len(self.tests):6}"


class Times:
    """Measures in the processes that run tests, and reports in the process that collects their reports."""

    def __init__(self) -> None:
        self._used = used_by_the_family()
        self._folders: defaultdict[str, Spent] = defaultdict(Spent)
        self._files: defaultdict[str, Spent] = defaultdict(Spent)
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
        self._folders["all"].add(report)
        self._folders[folder_of(report)].add(report)
        self._files[report.location[0]].add(report)
        self._tests[report.nodeid].add(report)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("times")
        for title, table, length in (
            ("folder", self._folders, len(self._folders)),
            ("file", self._files, LONGEST),
            ("test", self._tests, LONGEST),
        ):
            write(f"{'wall s':>9} {'CPU s':>9} {'fixtures':>9} {'waiting':>9}  tests  {title}, by CPU")
            for name, spent in sorted(table.items(), key=lambda item: -item[1].cpu)[:length]:
                write(f"{spent.columns}  {name}")
            write("")


def folder_of(report: pytest.TestReport) -> str:
    """The folder below ``tests``; tests with real Kafka or Java are apart."""
    folder = "/".join(report.location[0].split("/")[:2])
    return next((f"{folder}, {mark}" for mark in ("kafka", "java") if mark in report.keywords), folder)


def used_by_the_family() -> float:
    """Seconds of CPU that this process, its living descendants, and the reaped ones have used."""
    total, family = 0, [f"/proc/{os.getpid()}"]
    while family:
        process = family.pop()
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # After the name, which may have any character: state, parent, …; the four times are the 12th to the 15th.
            total += sum(map(int, _read(f"{process}/stat").rpartition(b")")[2].split()[11:15]))
            for thread in os.listdir(f"{process}/task"):  # noqa: PTH208 - a fifth of a Path's cost, three times a test
                family += [f"/proc/{int(child)}" for child in _read(f"{process}/task/{thread}/children").split()]
    return total / TICKS


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()
