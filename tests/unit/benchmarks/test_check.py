"""benchmarks.micro.check: figures that count as worse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import aiokafkapy
from benchmarks.micro import check as module
from benchmarks.micro.check import Comparison, check, compare, confirm, machine_key, record, wait_for_quiet
from benchmarks.micro.null_sink import Measured


def figure(ratio: float, us: float = 1.0) -> Measured:
    return Measured(best_us=us, median_us=us, ratio=ratio, records=1000, rounds=5)


class Measurements:
    """Gives the prepared results, call by call; notes the arguments."""

    def __init__(self, *runs: dict[str, Measured]) -> None:
        self.runs = list(runs)
        self.asked: list[tuple[str, list[str] | None]] = []

    def __call__(self, form: str, labels: Iterable[str] | None) -> Mapping[str, Measured]:
        self.asked.append((form, None if labels is None else list(labels)))
        return self.runs.pop(0)


class TestComparison:
    @pytest.mark.parametrize(("ratio", "is_worse"), [(50.0, False), (100.0, False), (115.0, False), (115.1, True)])
    def test_more_than_15_percent_of_the_ratio_is_worse(self, ratio: float, is_worse: bool) -> None:
        assert Comparison("a", figure(100.0), figure(ratio)).is_worse is is_worse

    def test_microseconds_alone_do_not_count(self) -> None:
        """The machine may be slower today; then the calibration is too."""
        assert not Comparison("a", figure(100.0, us=1.0), figure(100.0, us=3.0)).is_worse

    def test_a_figure_without_a_record_is_not_worse(self) -> None:
        (comparison,) = compare({}, {"new": figure(100.0)})
        assert not comparison.is_worse
        assert comparison.change == 1.0


class TestConfirm:
    def test_a_good_result_is_not_measured_again(self) -> None:
        (comparison,) = confirm({"a": figure(100.0)}, {"a": figure(110.0)}, lambda labels: pytest.fail(str(labels)))
        assert comparison.change == pytest.approx(1.1)

    def test_one_bad_result_is_forgiven(self) -> None:
        again = Measurements({"a": figure(130.0)}, {"a": figure(104.0)})
        recorded = {"a": figure(100.0), "b": figure(100.0)}
        found = confirm(recorded, {"a": figure(150.0), "b": figure(90.0)}, lambda labels: again("compiled", labels))
        assert [(c.label, c.found.ratio, c.is_worse) for c in found] == [("a", 104.0, False), ("b", 90.0, False)]
        assert again.asked == [("compiled", ["a"]), ("compiled", ["a"])]

    def test_a_figure_that_never_holds_is_worse_by_its_best_run(self) -> None:
        ratios = [140.0, 118.0, 150.0, 120.0]
        again = Measurements(*[{"a": figure(ratio)} for ratio in ratios])
        (comparison,) = confirm({"a": figure(100.0)}, {"a": figure(130.0)}, lambda labels: again("compiled", labels))
        assert comparison.is_worse
        assert comparison.found.ratio == 118.0
        assert again.runs == []


class TestCheck:
    def test_every_form_is_compared_with_its_own(self) -> None:
        recorded = {"compiled": {"a": figure(10.0)}, "interpreted": {"a": figure(100.0)}}
        found = check(recorded, ["compiled", "interpreted"], Measurements({"a": figure(11.0)}, {"a": figure(101.0)}))
        assert {form: [c.is_worse for c in comparisons] for form, comparisons in found.items()} == {
            "compiled": [False],
            "interpreted": [False],
        }

    def test_it_measures_again_in_the_form_that_looks_bad(self) -> None:
        recorded = {"compiled": {"a": figure(10.0)}, "interpreted": {"a": figure(100.0)}}
        runs = Measurements({"a": figure(10.0)}, {"a": figure(130.0)}, {"a": figure(100.0)})
        check(recorded, ["compiled", "interpreted"], runs)
        assert runs.asked == [("compiled", None), ("interpreted", None), ("interpreted", ["a"])]

    def test_the_recorded_figure_is_the_middle_of_three(self) -> None:
        runs = Measurements(*[{"a": figure(ratio, us=ratio)} for ratio in (9.0, 12.0, 10.0)])
        assert record(["compiled"], runs) == {"compiled": {"a": figure(10.0, us=10.0)}}


class TestWaitForQuiet:
    def run(self, walls: list[float]) -> tuple[bool, int]:
        """``walls`` is how long the work of 1 s of CPU takes each time."""
        now, naps, left = 0.0, 0, iter(walls)

        def work() -> float:
            nonlocal now
            now += next(left)
            return 1.0

        def nap(seconds: float) -> None:
            nonlocal now, naps
            now += seconds
            naps += 1

        return wait_for_quiet(10.0, work=work, clock=lambda: now, sleep=nap), naps

    def test_does_not_wait_on_a_quiet_machine(self) -> None:
        assert self.run([1.05]) == (True, 0)

    def test_waits_for_the_first_quiet_moment(self) -> None:
        assert self.run([1.5, 2.0, 1.01]) == (True, 2)

    def test_gives_up(self) -> None:
        assert self.run([2.0] * 10) == (False, 3)


class TestCommand:
    @pytest.fixture(autouse=True)
    def _measure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ratio = 100.0
        monkeypatch.setattr(module, "measure_form", lambda form, **options: {"a": figure(self.ratio)})
        monkeypatch.setattr(module, "wait_for_quiet", lambda: True)
        monkeypatch.setattr(aiokafkapy, "compiled", True)

    def test_fails_when_a_figure_got_worse_and_says_which(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = ["--file", str(tmp_path / "null-sink.json")]
        assert module.main(["--record", *file]) == 0
        self.ratio = 114.0
        assert module.main(file) == 0
        assert "No figure got worse" in capsys.readouterr().out
        self.ratio = 116.0
        assert module.main(file) == 1
        printed = capsys.readouterr().out
        assert "+16.0%  WORSE" in printed
        assert "2 figures are more than 15% worse" in printed

    def test_an_unknown_machine_is_reported_loudly_and_is_not_a_failure(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert module.main(["--file", str(tmp_path / "none.json")]) == 0
        printed = capsys.readouterr().out
        assert f"*** NOTHING IS RECORDED FOR: {machine_key('compiled')}" in printed
        assert "python -m benchmarks check --record" in printed

    def test_recording_leaves_other_machines_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "null-sink.json"
        file.write_text(json.dumps({"another machine": {"figures": {}}}))
        module.main(["--record", "--form", "compiled", "--file", str(file)])
        assert set(json.loads(file.read_text())) == {"another machine", machine_key("compiled")}

    def test_a_figure_that_is_gone_is_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "null-sink.json"
        module.main(["--record", "--file", str(file)])
        kept = json.loads(file.read_text())
        for machine in kept.values():
            machine["figures"]["old"] = machine["figures"]["a"]
        file.write_text(json.dumps(kept))
        assert module.main(["--file", str(file)]) == 0
        assert "old" in capsys.readouterr().out
