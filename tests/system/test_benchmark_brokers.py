"""The benchmarks' rows about brokers, with a few records: the dev broker as a process, and kfake where there is Go."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.macro import brokers
from benchmarks.measurement import Figures, SkippedError, find_entry


async def figures(workload: str, client: str, count: int) -> Figures:
    row = next(each for each in brokers.measurements() if (each.workload, each.client) == (workload, client))
    return await find_entry(row)(replace(row, count=count), "nobody:1", "t")


async def test_each_of_many_connections_is_answered_and_has_a_size() -> None:
    found = await figures("connections", "aiokafkapy", 150)
    assert found["written"] == 0  # in the run's own Kafka
    assert found["seconds"] > 0
    assert 0 < found["connection_kb"] < 1_000
    assert 0 < found["peak_rss_mb"] < 1_000


async def test_a_broker_ends_with_its_measurement() -> None:
    row = brokers.measurements()[0]
    assert row.client == "aiokafkapy"
    async with brokers.broker_of(row, "nobody:1", "t") as broker:
        os.kill(broker.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(broker.pid, 0)


async def test_without_go_the_rows_of_kfake_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AIOKAFKAPY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SkippedError, match="there is none"):
        await figures("connections", "kfake", 1)
