"""What every test here runs under: which event loop, which form of the core, and the Hypothesis profile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

import hypothesis
import pytest

# A shared two-core machine: a slow example is not a failing example.
hypothesis.settings.register_profile("aiokafkapy", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiokafkapy"))

pytest_plugins = ["pytester"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loop",
        choices=["asyncio", "uvloop", "both"],
        default="asyncio",
        help="the event loop of asynchronous tests; `both` runs each of them twice",
    )


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    chosen = config.getoption("--loop")
    factories: dict[str, LoopFactory] = {}
    if chosen in ("asyncio", "both"):
        factories["asyncio"] = asyncio.new_event_loop
    if chosen in ("uvloop", "both"):
        uvloop = pytest.importorskip("uvloop")
        factories["uvloop"] = uvloop.new_event_loop
    return factories


def pytest_report_header(config: pytest.Config) -> str:
    import aiokafkapy

    core = "compiled" if getattr(aiokafkapy, "compiled", False) else "interpreted"
    debug = "on" if os.environ.get("PYTHONASYNCIODEBUG") else "off"
    return f"aiokafkapy: {core} core, loop {config.getoption('--loop')}, asyncio debug {debug}"
