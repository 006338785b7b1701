"""benchmarks.web.fixed_rate: a request's latency counts from its place in the schedule, whatever vegeta says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measurement import Figures, Measurement, MeasurementError, SkippedError
from benchmarks.web import fixed_rate
from benchmarks.web.fixed_rate import figures_of_results

RATE = 100
BEGAN = 1_795_801_820_000_000_000
MILLISECOND = 1_000_000

# It writes down how it was called, and says one line.
VEGETA = """\
#!{python}
import json, sys
with open({copy!r}, "w") as copy:
    json.dump(sys.argv[1:], copy)
print({line!r})
"""


def _line(place: int, sent_ms: float, latency_ms: float, code: int = 200, error: str = "") -> str:
    """vegeta's line for a request that was started so many ms after the beginning."""
    return f"{place},{BEGAN + int(sent_ms * MILLISECOND)},{int(latency_ms * MILLISECOND)},{code},{error}"


def _stand_in(folder: Path, line: str) -> tuple[Path, Path]:
    """A program in vegeta's place that says this line, and where it writes down how it was called."""
    program, copy = folder / "vegeta", folder / "copy"
    program.write_text(VEGETA.format(python=sys.executable, copy=str(copy), line=line))
    program.chmod(0o700)
    return program, copy


def test_the_latency_of_punctual_requests_is_that_of_their_answers() -> None:
    figures = figures_of_results([_line(place, 10 * place, 3) for place in range(200)], RATE)
    assert figures["requests"] == 200
    assert figures["seconds"] == pytest.approx(1.993)
    assert [figures[name] for name in ("p50_ms", "p99_ms", "p999_ms")] == pytest.approx([3, 3, 3])
    assert figures["late_p99_ms"] == 0


def test_requests_that_were_started_late_are_charged_for_it() -> None:
    """Half a second in which nothing is sent; then all that was due at once, each answered in 3 ms."""
    figures = figures_of_results([_line(place, max(10 * place, 500), 3) for place in range(-1, 100)], RATE)
    assert figures["p999_ms"] == pytest.approx(513)
    assert figures["late_p99_ms"] == pytest.approx(500, abs=20)
    assert figures["p50_ms"] == pytest.approx(13, abs=10)


def test_results_may_come_in_the_order_of_their_answers() -> None:
    lines = [_line(2, 20, 1), _line(0, 0, 25), _line(1, 10, 18)]
    assert figures_of_results(lines, RATE)["p50_ms"] == pytest.approx(18)


def test_any_other_answer_than_200_fails_the_measurement() -> None:
    lines = [_line(0, 0, 1), _line(1, 10, 1, 503, "503 Service Unavailable"), _line(2, 20, 1, 0, "EOF")]
    with pytest.raises(MeasurementError, match="2 of 3 requests failed: 503 Service Unavailable"):
        figures_of_results(lines, RATE)
    with pytest.raises(MeasurementError, match="nothing"):
        figures_of_results([], RATE)


async def test_vegeta_gets_the_rate_the_time_and_the_request(tmp_path: Path) -> None:
    program, copy = _stand_in(tmp_path, _line(0, 0, 3))
    figures = await fixed_rate.attack(program, "http://127.0.0.1:1/records", RATE, 500, 3)
    assert figures["p50_ms"] == pytest.approx(3)
    assert json.loads(copy.read_text()) == [
        "-url=http://127.0.0.1:1/records",
        "-size=3",
        "-duration=500ms",
        f"-connections={fixed_rate.CONNECTIONS}",
        "-rate=100",
    ]


async def test_the_capacity_is_measured_without_a_schedule_by_workers_that_wait(tmp_path: Path) -> None:
    program, copy = _stand_in(tmp_path, _line(7, 20, 3))
    figures = await fixed_rate.attack(program, "http://127.0.0.1:1/records", None, 500, 3)
    assert figures == {"requests": 1, "seconds": pytest.approx(0.003)}
    assert json.loads(copy.read_text())[-1] == f"-workers={fixed_rate.WORKERS}"


def test_requests_without_a_schedule_have_a_time_and_no_latencies() -> None:
    assert figures_of_results([_line(1, 5, 20), _line(0, 0, 15)], None) == {
        "requests": 2,
        "seconds": pytest.approx(0.025),
    }


async def test_a_vegeta_that_fails_says_why(tmp_path: Path) -> None:
    program = tmp_path / "vegeta"
    program.write_text("#!/bin/sh\necho 'dial tcp: no such host' >&2; exit 1")
    program.chmod(0o700)
    with pytest.raises(MeasurementError, match="vegeta: dial tcp: no such host"):
        await fixed_rate.attack(program, "http://127.0.0.1:1/records", RATE, 500, 3)


async def test_the_rows_are_left_out_without_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOKAFKAPY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SkippedError, match="vegeta needs Go"):
        await fixed_rate.paced_request(fixed_rate.measurements()[0], "nobody:1", "t")
    with pytest.raises(SkippedError, match="vegeta needs Go"):
        await fixed_rate.unpaced_request(fixed_rate.measurements()[0], "nobody:1", "t")


def test_each_share_of_the_capacity_has_the_same_rows_as_the_service_comes_and_with_its_heap_frozen() -> None:
    rows = fixed_rate.measurements()
    by_share = [
        [(row.client, row.options["producer"], row.options["freeze"]) for row in rows if row.options["share"] == share]
        for share in (0.1, 0.5, 0.8)
    ]
    assert by_share[0] == by_share[1] == by_share[2]
    for freeze, others in ((False, {"nobody"}), (True, set())):
        clients = {client for client, _, frozen in by_share[0] if frozen is freeze}
        assert clients == {"aiokafkapy", "aiokafka", "AIOProducer"} | others


@pytest.mark.parametrize("freeze", [False, True])
async def test_a_row_with_the_heap_frozen_has_a_share_of_what_aiokafka_does_with_its_own_frozen(
    monkeypatch: pytest.MonkeyPatch, freeze: bool
) -> None:
    """And is warmed up without a schedule, whatever the rate."""
    loads: list[tuple[str, bool, int | None]] = []

    async def under_load(measurement: Measurement, *_: object, warm_up: Any = None, **__: object) -> Figures:
        loads.append((measurement.client, measurement.options["freeze"], None))
        await warm_up("http://127.0.0.1:1/records", 1)
        return {"rate": 1_000.0, "written": 7.0}

    async def attack(program: object, url: str, rate: int | None, milliseconds: int, size: int) -> dict[str, Any]:
        loads.append(("warm-up", freeze, rate))
        return {}

    async def built(*_: object) -> Path:
        return Path("vegeta")

    monkeypatch.setattr(fixed_rate, "under_load", under_load)
    monkeypatch.setattr(fixed_rate, "attack", attack)
    monkeypatch.setattr(fixed_rate, "built", built)
    row = next(row for row in fixed_rate.measurements() if row.options["freeze"] is freeze)
    figures = await fixed_rate.paced_request(row, f"frozen-{freeze}:1", "t")
    warmed_up = ("warm-up", freeze, None)
    assert loads == [("aiokafka", freeze, None), warmed_up, ("aiokafkapy", freeze, None), warmed_up]
    assert (figures["offered"], figures["capacity"], figures["written"]) == (100, 1_000, 14)
