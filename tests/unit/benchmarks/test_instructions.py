"""benchmarks.micro.instructions: the counts, and worse ones."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import aiokafkapy
from benchmarks.micro import instructions as module
from benchmarks.micro import producer_sink
from benchmarks.micro.instructions import (
    Work,
    Workload,
    count_form,
    count_work,
    per_record,
    python_key,
    read_counts,
    run_marked,
)

LONE = Workload("lone await", producer_sink.lone_await, 40)
MANY = Workload("send_many", producer_sink.send_many, 400)


@pytest.mark.slow
class TestWorkloads:
    def test_all_run_at_two_lengths_with_a_mark_behind_each_and_one_before(self) -> None:
        marks: list[int] = []
        run_marked([LONE, MANY], "compiled", lambda: marks.append(1))
        assert len(marks) == 6

    def test_over_tls_the_broker_is_a_process_of_its_own(self) -> None:
        marks: list[int] = []
        run_marked(
            [Workload("TLS", producer_sink.lone_await, 40, is_over_tls=True)], "compiled", lambda: marks.append(1)
        )
        assert len(marks) == 3

    def test_interpreted_they_are_shorter_but_each_task_has_a_record(self) -> None:
        assert LONE.lengths("compiled") == (40, 120)
        assert LONE.lengths("interpreted") == (10, 30)
        assert Workload("tasks", producer_sink.workers, 2000, at_once=1000).lengths("interpreted") == (1000, 3000)
        assert Workload("sevens", producer_sink.of_seven, 900, at_once=42).lengths("interpreted") == (210, 630)

    def test_interpreted_none_is_counted_that_takes_a_quarter_of_an_hour(self) -> None:
        assert all(workload.is_counted("compiled") for workload in module.workloads())
        left_out = [workload.label for workload in module.workloads() if not workload.is_counted("interpreted")]
        assert left_out == ["7 records a batch, 10,000 partitions"]
        assert module.main(["--form", "interpreted", "--only", *left_out]) == 0  # without valgrind being asked

    def test_batches_of_seven_go_to_each_partition(self) -> None:
        sevens = Workload("sevens", producer_sink.of_seven, 42, at_once=21, partitions=3)
        run_marked([sevens], "compiled", lambda: None)
        assert {workload.partitions for workload in module.workloads()} == {6, 10_000}

    def test_a_record_that_is_not_delivered_is_an_error(self) -> None:
        async def lose_one(producer: object, value: bytes, count: int) -> None:
            await producer_sink.lone_await(producer, value, count - 1)  # type: ignore[arg-type]

        with pytest.raises(RuntimeError, match="39 of 40 records"):
            run_marked([Workload("lost", lose_one, 40)], "compiled", lambda: None)

    def test_every_workload_of_the_issue_has_its_own_label(self) -> None:
        labels = [workload.label for workload in module.workloads()]
        assert labels[:3] == ["lone await", "1,000 tasks", "pipelined enqueue"]
        assert labels[3:6] == ["pipelined enqueue, awaited", "send_nowait", "send_many"]
        assert labels[-2:] == ["7 records a batch, 6 partitions", "7 records a batch, 10,000 partitions"]
        assert len(set(labels)) == len(labels)


class TestCounts:
    def test_the_difference_of_two_lengths_leaves_out_the_cost_of_each_run(self) -> None:
        counts = [999, 1_000 + 40 * 7, 1_000 + 120 * 7, 999, 50 + 400 * 2, 50 + 1200 * 2]
        assert per_record([LONE, MANY], "compiled", counts) == {"lone await": 7.0, "send_many": 2.0}

    def test_a_missing_mark_is_an_error(self) -> None:
        with pytest.raises(RuntimeError, match="2 files for 1 workloads with 3 marks each"):
            per_record([LONE], "compiled", [1, 2])

    def test_counts_are_read_in_the_order_of_the_marks(self, tmp_path: Path) -> None:
        for part in (2, 10, 1):
            (tmp_path / f"compiled.{part}").write_text(f"version: 1\nfn=(1) totals\n1 5\ntotals: {part * 11}\n")
        (tmp_path / "compiled").write_text("totals: 1\n")
        assert read_counts(tmp_path, "compiled") == [11, 22, 110]


class Valgrind:
    """Stands in for ``subprocess.run``: writes the files that callgrind would, for the command that it is given."""

    def __init__(self, form: str = "compiled", returncode: int = 0) -> None:
        self.form = form
        self.returncode = returncode
        self.command: list[str] = []

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        self.command = command
        out = Path(next(word for word in command if word.startswith("--callgrind-out-file=")).partition("=")[2])
        for part, count in enumerate((5, 1_280, 1_840), start=1):
            out.with_name(f"{out.name}.{part}").write_text(f"totals: {count}\n")
        return subprocess.CompletedProcess(command, self.returncode, f"{self.form}\n", "what went wrong")


class TestCountForm:
    @pytest.fixture
    def valgrind(self, monkeypatch: pytest.MonkeyPatch) -> Valgrind:
        valgrind = Valgrind()
        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(subprocess, "run", valgrind)
        return valgrind

    def test_one_process_counts_all_and_its_files_are_kept_on_demand(self, valgrind: Valgrind, tmp_path: Path) -> None:
        assert count_form("compiled", [LONE], tmp_path / "kept") == {"lone await": 7.0}
        assert "--dump-before=getpriority" in valgrind.command
        assert valgrind.command[-2:] == ["--here", "--only=lone await"]
        assert len(list((tmp_path / "kept").iterdir())) == 3

    def test_a_failure_repeats_the_process_s_words(self, valgrind: Valgrind) -> None:
        valgrind.returncode = 1
        with pytest.raises(RuntimeError, match="what went wrong"):
            count_form("compiled", [LONE])

    def test_the_other_form_is_not_taken_for_the_wanted_one(self, valgrind: Valgrind) -> None:
        valgrind.form = "interpreted"
        with pytest.raises(RuntimeError, match="not compiled here"):
            count_form("compiled", [LONE])

    def test_the_loop_s_work_is_counted_on_its_own_and_allocations_where_python_takes_all_from_malloc(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run(command: list[str], env: Mapping[str, str], **_: object) -> subprocess.CompletedProcess[str]:
            if "--turns" in command:
                marked = [{"turns": turns, "tasks": 0, "futures": 1} for turns in (9, 160, 320)]
                return subprocess.CompletedProcess(command, 0, json.dumps(marked), "")
            assert env["PYTHONMALLOC"] == "malloc"
            out = Path(next(word for word in command if word.startswith("--callgrind-out-file=")).partition("=")[2])
            for part, calls in enumerate((1, 256, 368), start=1):
                out.with_name(f"{out.name}.{part}").write_text(f"fn=(1) run\ncfn=(2) malloc\ncalls={calls} 1\n* 9\n")
            return subprocess.CompletedProcess(command, 0, "compiled\n", "")

        monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(subprocess, "run", run)
        assert count_work("compiled", [LONE]) == {
            "lone await": {"turns": 2.0, "tasks": 0.0, "futures": 0.0, "allocations": 1.4}
        }

    def test_without_valgrind_it_says_how_to_get_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: None)
        with pytest.raises(RuntimeError, match="apt-get install valgrind"):
            count_form("compiled", [LONE])

    def test_the_command_says_why_it_could_not_count(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: None)
        assert module.main(["--form", "interpreted"]) == 2
        assert "apt-get install valgrind" in capsys.readouterr().err


class TestCommand:
    @pytest.fixture(autouse=True)
    def _count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 1_000.0
        self.work = {"turns": 2.0, "tasks": 0.0, "futures": 0.0, "allocations": 50.0}

        def count_form(form: str, wanted: Sequence[Workload], keep: Path | None) -> dict[str, float]:
            return {workload.label: self.count for workload in wanted}

        def count_work(form: str, wanted: Sequence[Workload]) -> dict[str, Work]:
            return {workload.label: dict(self.work) for workload in wanted}

        monkeypatch.setattr(module, "count_form", count_form)
        monkeypatch.setattr(module, "count_work", count_work)
        monkeypatch.setattr(aiokafkapy, "compiled", True)

    def test_fails_when_a_record_costs_3_percent_more_and_says_which(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["--only", "lone await", "--file", str(tmp_path / "counts.json")]
        assert module.main(["--record", *arguments]) == 0
        self.count = 1_030.0
        assert module.main(arguments) == 0
        self.count = 1_031.0
        assert module.main(arguments) == 1
        printed = capsys.readouterr().out
        assert "1,031    +3.1%  WORSE" in printed
        assert "1 figures are more than 3% worse" in printed

    @pytest.mark.parametrize(("kind", "chance", "more"), [("turns", 2.1, 2.2), ("tasks", 0.05, 0.06)])
    def test_fails_when_a_record_takes_more_of_the_loop_or_the_allocator(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, chance: float, more: float
    ) -> None:
        arguments = ["--form", "compiled", "--only", "lone await", "--file", str(tmp_path / "counts.json")]
        assert module.main(["--record", *arguments]) == 0
        before, self.work[kind] = self.work[kind], chance
        assert module.main(arguments) == 0
        self.work[kind] = more
        assert module.main(arguments) == 1
        assert f"{more:.3f}, was {before:.3f}" in capsys.readouterr().out

    def test_an_unknown_python_is_reported_loudly_and_is_not_a_failure(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert module.main(["--file", str(tmp_path / "none.json")]) == 0
        printed = capsys.readouterr().out
        assert f"*** NOTHING IS RECORDED FOR: {python_key('interpreted')}" in printed
        assert "not recorded yet" in printed

    @pytest.mark.parametrize(
        ("variables", "build"),
        [
            ({"CONFIG_ARGS": "'--enable-optimizations'", "PGO_PROF_USE_FLAG": "-fprofile-use"}, "(optimized)"),
            ({"CONFIG_ARGS": "'--enable-shared'", "PGO_PROF_USE_FLAG": ""}, "(optimized)"),  # Debian's
            ({"CONFIG_ARGS": "'--enable-shared'", "PGO_PROF_USE_FLAG": "-fprofile-use"}, "(not optimized)"),
        ],
    )
    def test_figures_are_kept_apart_by_how_their_python_was_built(
        self, variables: dict[str, str], build: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sysconfig, "get_config_var", variables.get)
        assert build in python_key("compiled")

    def test_recording_leaves_other_pythons_and_workloads_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "counts.json"
        file.write_text(json.dumps({"another": {"figures": {}}, python_key("compiled"): {"figures": {"send_many": 5}}}))
        module.main(["--record", "--form", "compiled", "--only", "lone await", "--file", str(file)])
        kept = json.loads(file.read_text())
        assert set(kept) == {"another", python_key("compiled")}
        assert kept[python_key("compiled")]["figures"] == {"send_many": 5, "lone await": 1000.0}
        assert kept[python_key("compiled")]["work"] == {"lone await": self.work}

    def test_an_unknown_workload_is_refused_with_the_known_ones(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            module.main(["--only", "nothing"])
        assert "lone await" in capsys.readouterr().err
