"""The report of a benchmark run, on made-up figures; rows, goals and functions fit together."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from benchmarks.goals import GOALS, Goal, answers, behind_a_peer
from benchmarks.measurement import Figures, Measurement, find_entry, find_workload, percentiles, run_in_process
from benchmarks.report import (
    charts_section,
    compare,
    full_markdown,
    goals_text,
    put_into_page,
    readme_section,
    table,
)
from benchmarks.results import Results, Row
from benchmarks.suite import everything, phases, quick, select

ROOT = Path(__file__).parents[3]
MACHINE = {
    "cpu": "a processor",
    "cores": 2,
    "kafka": "4.3.1",
    "kernel": "6.1",
    "python": "3.11.7",
    "uvloop": "0.23",
    "aiokafka": "0.14",
    "confluent-kafka": "2.16",
    "kafka-python": "3.0",
    "commit": "0123456",
}


def _row(
    client: str, *rounds: Figures, group: str = "pipelined", workload: str = "pipelined", variant: str = ""
) -> Row:
    measurement = Measurement(group=group, workload=workload, client=client, count=1000, variant=variant)
    return Row(measurement, list(rounds))


def _results(*rows: Row) -> Results:
    return Results("2026-01-31", dict(MACHINE), {row.measurement.label: row for row in rows})


def _rates(*rates: float) -> list[Figures]:
    return [{"rate": rate, "cpu_us": 1e6 / rate} for rate in rates]


@pytest.fixture
def results() -> Results:
    return _results(
        _row("aiokafkapy", *_rates(900_000, 1_000_000, 1_200_000)),
        _row("aiokafka", *_rates(90_000, 100_000, 110_000)),
        _row("confluent-kafka", *_rates(500_000, 480_000, 510_000)),
    )


def test_every_row_has_a_name_of_its_own() -> None:
    labels = [measurement.label for measurement in everything()]
    assert len(set(labels)) == len(labels)


def test_every_goal_is_about_rows_that_are_measured() -> None:
    labels = {measurement.label for measurement in everything()}
    wanted = {label for goal in GOALS for label in (goal.ours, *goal.theirs)}
    assert wanted - labels == set()


def test_every_row_has_a_function() -> None:
    workers = [measurement for measurement in everything() if find_entry(measurement) is run_in_process]
    assert len(workers) > 10
    assert [each.label for each in workers if not inspect.iscoroutinefunction(find_workload(each))] == []


def test_every_row_belongs_to_one_phase() -> None:
    assert sorted(m.label for phase in phases(everything()) for m in phase) == sorted(m.label for m in everything())


def test_the_quick_form_is_a_part_of_the_full_one() -> None:
    full = {measurement.label: measurement.count for measurement in everything()}
    short = {measurement.label: measurement.count for measurement in quick()}
    assert short.keys() < full.keys()
    assert all(count <= full[label] for label, count in short.items())


def test_rows_are_selected_by_a_part_of_the_name_or_a_pattern() -> None:
    assert {m.client for m in select(everything(), "Lone Await · 100 B · aiokafka")} == {"aiokafka", "aiokafkapy"}
    assert {m.client for m in select(everything(), "await · lone*aiokafka")} == {"aiokafka"}
    assert select(everything(), "nothing is called so") == []


def test_a_measurement_reaches_the_worker_as_it_is() -> None:
    for measurement in everything():
        assert Measurement.from_json(measurement.to_json()) == measurement


def test_percentiles_are_of_the_ordered_values() -> None:
    assert percentiles(number / 1000 for number in range(1000, 0, -1)) == {
        "p50_ms": pytest.approx(501),
        "p99_ms": pytest.approx(991),
        "p999_ms": pytest.approx(1000),
    }


def test_a_goal_is_a_ratio_of_medians_to_the_best_peer(results: Results) -> None:
    ours, theirs = "pipelined · pipelined · 100 B · aiokafkapy", ("aiokafka", "confluent-kafka")
    labels = tuple(f"pipelined · pipelined · 100 B · {client}" for client in theirs)
    goals = (
        Goal("rate", "rate", ours, labels, "at least", 2.0),
        Goal("rate of aiokafka's", "rate", ours, labels[:1], "at least", 12.0),
        Goal("CPU", "cpu_us", ours, labels, "at most", 0.5),
        Goal("µs", "cpu_us", ours, (), "at most", 0.5),
        Goal("gone", "rate", ours, ("no such row",), "at least", 1.0),
    )
    found = answers(results, goals)
    assert [answer.value for answer in found] == [2.0, 10.0, 0.5, 1.0, None]
    assert [answer.is_met for answer in found] == [True, False, True, False, None]
    assert [line.split()[0] for line in goals_text(found).splitlines()] == ["met", "MISSED", "met", "MISSED", "-"]


def _at_equal_ratio(ours: float, **theirs: tuple[float, float]) -> float | None:
    """The answer when our rate is 100 at the ratio ``ours``, and a peer's levels have these ratios and rates."""
    levels = [
        _row("confluent-kafka", {"ratio": ratio, "rate": rate}, variant=name) for name, (ratio, rate) in theirs.items()
    ]
    results = _results(_row("aiokafkapy", {"rate": 100.0, "ratio": ours}), *levels)
    row, *peers = results.rows
    (answer,) = answers(results, (Goal("", "rate", row, tuple(peers), "at least", 1.0, at_equal_ratio=True),))
    return answer.value


def test_a_peer_of_another_ratio_does_not_count() -> None:
    assert _at_equal_ratio(4.0, near=(4.1, 50.0)) == 2.0
    assert _at_equal_ratio(4.0, near=(3.9, 50.0), far=(3.0, 200.0)) == 2.0
    assert _at_equal_ratio(4.0, far=(3.0, 200.0)) is None
    assert _at_equal_ratio(4.0, far=(4.3, 200.0)) is None


def test_a_mixture_of_two_levels_of_a_peer_counts_between_them() -> None:
    """A third of the records at the quick level, two thirds at the slow one: a third of a byte, and 0.05 s for each."""
    assert _at_equal_ratio(3.0, quick=(2.0, 1 / 0.03), slow=(4.0, 1 / 0.06)) == pytest.approx(5.0)
    assert _at_equal_ratio(2.0, quick=(2.0, 100.0), slow=(4.0, 10.0)) == pytest.approx(1.0)


def test_a_mixture_is_of_one_peers_levels() -> None:
    results = _results(
        _row("aiokafkapy", {"rate": 100.0, "ratio": 3.0}),
        _row("aiokafka", {"rate": 50.0, "ratio": 2.0}),
        _row("confluent-kafka", {"rate": 50.0, "ratio": 4.0}),
    )
    ours, *theirs = results.rows
    (answer,) = answers(results, (Goal("", "rate", ours, tuple(theirs), "at least", 1.0, at_equal_ratio=True),))
    assert answer.value is None


def test_of_a_failure_the_first_line_is_kept(tmp_path: Path) -> None:
    """The rest is a traceback with the machine's paths, which the run has printed."""
    failures = ["MeasurementError: it broke\nTraceback:\n  File somewhere", "OSError: too"]
    results = Results("2026-12-01", {})
    results.rows["x"] = Row(Measurement(group="a", workload="b", client="c", count=1), failures=failures)
    results.write(tmp_path / "kept.json", [])
    assert Results.read(tmp_path / "kept.json").failures == {"x": ["MeasurementError: it broke", "OSError: too"]}


def test_the_table_has_medians_ranges_and_failures(results: Results) -> None:
    results.rows["x"] = Row(Measurement(group="arrow", workload="a", client="b", count=1), skipped="no such method")
    results.rows["y"] = Row(Measurement(group="arrow", workload="c", client="d", count=1), failures=["it broke"])
    text = table(results)
    assert "1,000,000 (900,000-1,200,000)" in text
    assert "skipped: no such method" in text
    assert "failed" in text
    assert "100,000 (90,000-110,000)" in full_markdown(results, answers(results))
    assert list(results.failures) == ["y"]


def test_a_comparison_marks_results_outside_both_ranges(results: Results) -> None:
    later = _results(
        _row("aiokafkapy", *_rates(600_000, 500_000, 700_000)),
        _row("aiokafka", *_rates(105_000, 120_000, 130_000)),
        _row("Java", *_rates(1.0)),
    )
    ours, aiokafka, java = compare(later, results).splitlines()[1:]
    assert "0.60*" in ours
    assert "1.20 " in aiokafka
    assert "not in both" in java


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    path = tmp_path / "results" / "run.json"
    results.rows["x"] = Row(Measurement(group="a", workload="b", client="c", count=1), failures=["it broke"])
    results.write(path, [answer.to_dict() for answer in answers(results)])
    assert Results.read(path) == results


def test_a_page_gets_the_table_between_its_markers(results: Results, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- benchmarks -->\nformer table\n<!-- /benchmarks -->\nafter\n")
    put_into_page(readme, readme_section(results))
    text = readme.read_text()
    assert text.startswith("before\n<!-- benchmarks -->\n")
    assert text.endswith("\n<!-- /benchmarks -->\nafter\n")
    assert "**1.00 M/s · 1 µs**" in text
    assert "former table" not in text


def test_the_highest_rate_is_bold_in_any_column() -> None:
    beaten = _results(
        _row("aiokafkapy", *_rates(200)), _row("confluent-kafka", *_rates(500)), _row("other", *_rates(900))
    )
    assert "| 200/s · 5,000 µs | **500/s · 2,000 µs** |" in readme_section(beaten)


LONE = {"group": "await", "workload": "lone await"}


def _pair(p50_ms: float, cpu_us: float) -> Results:
    """A lone await of ours at these figures, and confluent-kafka's at 1 ms and 50 µs."""
    return _results(
        _row("aiokafkapy", {"rate": 900.0, "p50_ms": p50_ms, "cpu_us": cpu_us}, **LONE),
        _row("confluent-kafka", {"rate": 1000.0, "p50_ms": 1.0, "cpu_us": 50.0}, **LONE),
    )


def test_the_readme_names_the_comparisons_in_which_a_peer_is_ahead() -> None:
    (ahead,) = (line for line in readme_section(_pair(1.25, 60.0)).splitlines() if "a peer is ahead" in line)
    assert ahead.partition(" (ours over theirs): ")[2] == (
        "lone await: p50 of confluent's produce + flush 1.25, CPU of confluent's produce + flush 1.2."
    )


def test_a_missed_goal_in_which_no_peer_is_ahead_is_not_named() -> None:
    missed = _pair(0.99, 50.0)
    assert False in [answer.is_met for answer in answers(missed)]
    assert "a peer is ahead" not in readme_section(missed)


def test_a_peer_is_ahead_with_a_higher_rate_and_not_our_own_other_row() -> None:
    ours, theirs = _row("aiokafkapy", *_rates(50)), _row("Java", *_rates(100))
    other = _row("aiokafkapy", *_rates(200), variant="5 in flight")
    goals = [
        Goal("", "rate", ours.measurement.label, (row.measurement.label,), "at least", 0.1) for row in (theirs, other)
    ]
    (found,) = behind_a_peer(_results(ours, theirs, other), (*goals, Goal("gone", "rate", "", ("",), "at least", 1.0)))
    assert (found.goal, found.value) == (goals[0], 0.5)


def test_a_page_shows_charts_that_lie_elsewhere(tmp_path: Path) -> None:
    chart = tmp_path / "results" / "2026-01-31-rate.png"
    assert charts_section([chart], tmp_path / "docs" / "page.md") == (
        "![rate by client](../results/2026-01-31-rate.png)"
    )


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("nothing\n")
    with pytest.raises(ValueError, match="has no <!-- benchmarks -->"):
        put_into_page(readme, "table")
    assert readme.read_text() == "nothing\n"


@pytest.mark.parametrize(
    ("page", "name"),
    [("README.md", "benchmarks"), ("docs/benchmarks.md", "charts"), ("docs/benchmarks.md", "spark benchmarks")],
)
def test_our_own_pages_have_the_markers(page: str, name: str) -> None:
    text = (ROOT / page).read_text()
    assert text.count(f"<!-- {name} -->") == text.count(f"<!-- /{name} -->") == 1


@pytest.mark.slow
def test_charts_are_small_files(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.charts import draw

    results.rows["lone"] = _row("aiokafka", {"p50_ms": 1.0, "p99_ms": 2.0}, group="await", workload="lone await")
    paths = draw(results, tmp_path)
    assert [path.name for path in paths] == [f"2026-01-31-{name}.png" for name in ("rate", "cpu", "latency")]
    assert all(0 < path.stat().st_size < 100_000 for path in paths)
