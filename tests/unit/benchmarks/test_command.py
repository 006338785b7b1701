"""The goals of Spark's benchmarks and their rows fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from benchmarks.results import Results
from benchmarks.spark.command import _goals, _keep, _large_job, _large_job_goals, _machine, _page_section, _sources
from benchmarks.spark.workloads import ROWS, large_job, measurements


def test_every_goal_is_about_rows_that_are_measured() -> None:
    wanted = measurements(ROWS)
    labels = {label for goal in _goals(wanted) for label in (goal.ours, *goal.theirs)}
    assert labels - {measurement.label for measurement in wanted} == set()


def test_the_large_job_is_apart_and_has_goals_of_its_own() -> None:
    (large,) = large_job(100)
    assert large.count == 100_000_000
    assert large.label not in {measurement.label for measurement in measurements(ROWS)}
    assert {goal.ours for goal in _large_job_goals([large])} == {large.label}


def test_the_section_for_the_docs_links_to_the_results_from_there() -> None:
    section = _page_section(Results("2026-01-31", _machine(), {}), [])
    assert "](../benchmarks/results/2026-01-31-spark.md)" in section
    assert not any(line.endswith("-") for line in section.splitlines())


def test_the_large_job_is_kept_beside_the_suite_of_the_same_day(tmp_path: Path) -> None:
    for suite in (_sources(ROWS), _large_job(100)):
        _keep(suite, Results("2026-01-31", _machine(), {}), [], tmp_path)
    assert {file.stem for file in tmp_path.iterdir()} == {"2026-01-31-spark", "2026-01-31-spark-large-job"}
