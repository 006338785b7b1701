"""The pipeline without Spark: the figures of pandas, their comparison, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from aiokafkapy.demo.ledger import Check
from aiokafkapy.demo.pipeline.comparison import check_results, compare
from aiokafkapy.demo.pipeline.expected import expected_rolling, expected_summary, flights_frame
from aiokafkapy.demo.pipeline.job import NO_WORKER, TRIES, Outcome, follow
from aiokafkapy.demo.pipeline.page import write_page
from aiokafkapy.demo.pipeline.pictures import draw
from aiokafkapy.demo.pipeline.report import PipelineReport
from aiokafkapy.demo.pipeline.results import BATCH_RESULTS, RESULTS, ROLLING
from aiokafkapy.demo.pipeline.runner import PipelineError, clear, render

CARRIER, HOUR, ROUTE = BATCH_RESULTS
HEADER = "carrier,origin,dest,hour,dep_delay,minute,time_hour\n"
LINES = (
    "UA,EWR,IAH,5,2,15,2013-01-01T10:00:00Z\n"
    "UA,EWR,IAH,5,16,30,2013-01-01T10:00:00Z\n"
    "AA,JFK,MIA,6,NA,0,2013-01-01T11:00:00Z\n"
    "UA,EWR,ORD,23,-3,59,2013-01-20T04:00:00Z\n"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text(HEADER + LINES)
    return path


def rows(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None))


def test_a_summary_counts_departures_and_delays(data: Path) -> None:
    flights = flights_frame(data)
    assert rows(expected_summary(CARRIER, flights)) == [
        ("AA", 1, 0, 0, 0, None, None),
        ("UA", 3, 3, 1, 15, 16, 5.0),
    ]
    assert [row[:3] for row in rows(expected_summary(HOUR, flights))] == [(5, 2, 2), (6, 1, 0), (23, 1, 1)]
    assert [row[:2] for row in rows(expected_summary(ROUTE, flights))] == [
        ("EWR", "IAH"),
        ("EWR", "ORD"),
        ("JFK", "MIA"),
    ]
    assert len(flights_frame(data, 2)) == 2


def test_a_window_is_there_when_it_is_over_for_the_watermark(data: Path) -> None:
    """The last flight leaves on the 20th at 04:59, so the watermark is the 13th at 04:59, and of the windows of the
    flights on the 1st all seven are over, of that on the 20th none.
    """
    found = rows(expected_rolling(flights_frame(data)))
    ends = [f"2013-01-{day:02d}" for day in range(2, 9)]
    assert [row[:3] for row in found if row[0] == "EWR"] == [("EWR", end, 2) for end in ends]
    assert [row[1] for row in found if row[0] == "JFK"] == ends


def test_equal_is_to_the_row(data: Path) -> None:
    expected = expected_summary(CARRIER, flights_frame(data))
    assert compare(CARRIER, expected.iloc[::-1], expected) is None
    assert "1 missing" in (compare(CARRIER, expected.head(1), expected) or "")
    assert "1 unknown" in (compare(CARRIER, expected, expected.head(1)) or "")
    other = expected.assign(flights=expected["flights"] + [0, 1])
    assert compare(CARRIER, other, expected) == (
        "2 rows, 2 expected: 0 missing, 0 unknown, 1 different; ('UA',): [(4, 3, 1, 15, 16.0, 5.0)], pandas says "
        "[(3, 3, 1, 15, 16.0, 5.0)]"
    )
    twice = pd.concat([expected, other.tail(1)])
    assert "1 different" in (compare(CARRIER, twice, expected) or "")


@pytest.mark.parametrize("wrong", [None, "flights", "late", "twice", "result"])
def test_checks_see_each_fault(data: Path, tmp_path: Path, wrong: str | None) -> None:
    flights = flights_frame(data)
    for result in RESULTS:
        frame = expected_rolling(flights) if result is ROLLING else expected_summary(result, flights)
        for way in ("kafka", "parquet"):
            is_wrong = wrong == "result" and result is HOUR and way == "kafka"
            (frame.head(1) if is_wrong else frame).to_parquet(tmp_path / f"{result.name}.{way}.parquet")
    outcome = Outcome(flights=4, distinct_flights=3 if wrong == "flights" else 4, rows_dropped_as_late=wrong == "late")
    outcome.repeated = {result.name: int(wrong == "twice" and result is ROLLING) for result in RESULTS}
    failed = [check.name for check in check_results(outcome, tmp_path, data, None) if not check.passed]
    assert (
        failed
        == {
            None: [],
            "flights": ["Spark read every flight, none twice"],
            "late": ["no flight came too late for its window"],
            "twice": ["each result is in Kafka once"],
            "result": ["delay-by-hour from Kafka"],
        }[wrong]
    )


def test_the_next_run_replaces_the_leftovers_of_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for _ in range(2):
        clear(out)
        assert not (out / "parquet").exists()
        (out / "parquet").mkdir()
        (out / "parquet" / "part").touch()
        (out / "kept.txt").touch()
    clear(out)
    assert (out / "kept.txt").exists()
    assert not (out / "parquet").exists()


@pytest.mark.parametrize("name", ["parquet", "checkpoints", "read-back"])
def test_nothing_of_others_is_deleted(tmp_path: Path, name: str) -> None:
    sales = tmp_path / name / "sales.parquet"
    sales.parent.mkdir()
    sales.touch()
    with pytest.raises(PipelineError, match=f"{name} is not of an earlier run.*choose another --out"):
        clear(tmp_path)
    assert sales.exists()


@pytest.mark.slow
def test_the_report_has_a_picture_of_each_result_and_names_failures(data: Path, tmp_path: Path) -> None:
    flights = flights_frame(data)
    frames = {result.name: expected_summary(result, flights) for result in BATCH_RESULTS}
    frames[ROLLING.name] = expected_rolling(flights)
    pictures = draw(frames, tmp_path)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures.values())
    checks = [Check("good", True, "4 rows"), Check("<bad>", False, "none")]
    counts = {name: len(frame) for name, frame in frames.items()}
    report = PipelineReport("Kafka at x", "flights", tmp_path, Outcome(flights=4), counts, checks, 1.5)
    write_page(report, pictures, report.page)
    page = report.page.read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "NOT all checks hold" in page
    assert "&lt;bad&gt;" in page
    text = "\n".join(render(report))
    assert "FAILED  <bad>" in text
    assert str(report.page) in text
    assert json.loads(json.dumps(report.as_json()))["passed"] is False


class Query:
    """A stream that does micro-batches of these sizes, and then ends, of an error if there is one."""

    def __init__(self, sizes: list[int], error: str | None) -> None:
        self.recentProgress = [SimpleNamespace(numInputRows=size) for size in sizes]
        self._error = error
        self._waited = False

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        if self._waited and self._error is not None:
            raise RuntimeError(self._error)
        self._waited, ended = True, self._waited
        return ended


def test_a_stream_whose_worker_did_not_start_in_time_goes_on_from_its_checkpoint() -> None:
    queries = iter([Query([3, 4], f"terminated with exception: {NO_WORKER}."), Query([5], None)])
    told: list[dict[str, object]] = []
    done = follow(lambda: cast(Any, next(queries)), told.append)
    assert [progress.numInputRows for progress in done] == [3, 4, 5]
    assert [event["progress"] for event in told if "progress" in event] == [7, 12]
    assert [event for event in told if "step" in event] == [told[1]]


@pytest.mark.parametrize(("error", "starts"), [(f"exception: {NO_WORKER}.", TRIES), ("division by zero", 1)])
def test_a_stream_is_given_up_after_some_starts_and_of_any_other_error_at_once(error: str, starts: int) -> None:
    started: list[Query] = []

    def start() -> Query:
        started.append(Query([], error))
        return started[-1]

    with pytest.raises(RuntimeError, match=error):
        follow(cast(Any, start), lambda event: None)
    assert len(started) == starts
