"""``aiokafkapy pipeline`` and the second half of the demo, as they are run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.demo.pipeline.results import RESULTS

from .conftest import LONGEST_PROGRAM, Broker


def run(*arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-m", "aiokafkapy", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_PROGRAM, check=False)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr, done.stderr
    return (json.loads(done.stdout) if code == 0 else {}), done.stderr


def assert_whole(report: dict[str, Any], out: Path) -> None:
    assert report["passed"] is True
    assert len(report["checks"]) == 11
    assert "records that a sink wrote twice: 0" in [check["detail"] for check in report["checks"]]
    assert all(report["rows"][result.name] > 0 for result in RESULTS)
    assert (out / "report.html").read_text().count("data:image/png;base64,") == 4
    assert {path.stem for path in out.glob("*.png")} == {result.name for result in RESULTS}


# The first worker that plans a stream, and sleeps for longer than Spark waits, as on a machine that is busy.
SLOW_PYTHON = """#!/bin/sh
case "$*" in
*python_streaming_source_runner*) mkdir "{flag}" 2>/dev/null && exec sleep 11 ;;
esac
exec "{python}" "$@"
"""


@pytest.mark.usefixtures("_java")
def test_the_demo_ends_with_the_pipeline_s_report_though_a_worker_of_spark_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    python, flag = tmp_path / "python", tmp_path / "slept"
    python.write_text(SLOW_PYTHON.format(flag=flag, python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    watched = Watched()
    options = ["--limit", "12000", "--http-flights", "500", "--out", str(out), "--json"]
    report = watched.run("demo", *options, "--console", "--console-address", "127.0.0.1:0")
    assert report["passed"] is True
    assert report["pipeline"]["spark"]["flights"] == report["flights"] == 12_000
    assert_whole(report["pipeline"], out)
    assert flag.exists()
    # All of it was live in the browser: the flights, and the records that Spark read and wrote.
    assert watched.records["flights"] == 12_000
    assert watched.records["flights.delay-by-carrier"] > 0
    assert watched.highest_rate > 0
    assert {"PRODUCE", "FETCH"} <= watched.apis


class Watched:
    """A program whose console is looked at, once a second, while it runs."""

    def __init__(self) -> None:
        self.records: dict[str, int] = {}
        self.highest_rate = 0.0
        self.apis: set[str] = set()

    def run(self, *arguments: str) -> dict[str, Any]:
        """Run the program; returns its report."""
        command = [sys.executable, "-m", "aiokafkapy", *arguments]
        said: list[str] = []
        looking: list[threading.Thread] = []
        with (
            tempfile.TemporaryFile("w+") as output,
            subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True) as process,
        ):
            too_long = threading.Timer(LONGEST_PROGRAM, process.kill)
            too_long.start()
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                if line.startswith("Console: "):
                    url = line.split()[1]
                    looking += [threading.Thread(target=look, args=(url,)) for look in (self._topics, self._requests)]
                    for thread in looking:
                        thread.start()
            too_long.cancel()
            for thread in looking:
                thread.join()
            assert process.wait() == 0, "".join(said)
            output.seek(0)
            report: dict[str, Any] = json.load(output)
            return report

    def _topics(self, url: str) -> None:
        for view in views_of(url, "topics"):
            for row in view["rows"]:
                self.records[row["name"]] = row["records"]
                self.highest_rate = max(self.highest_rate, row["records_per_second"])

    def _requests(self, url: str) -> None:
        # Not the view of clients: one that is connected for less than a second may not be seen there.
        for view in views_of(url, "requests"):
            self.apis.update(one["api"] for one in view["times"])


def views_of(url: str, view: str) -> Iterator[dict[str, Any]]:
    """The content of a view of a console, each second, until the console ends."""
    with urllib.request.urlopen(f"{url}api/live?view={view}", timeout=LONGEST_PROGRAM) as stream:
        for line in stream:
            message = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
            if "rows" in (message.get("view") or {}):
                yield message["view"]


@pytest.mark.usefixtures("_java")
def test_on_a_cluster_the_executors_use_the_shipped_package(broker: Broker, tmp_path: Path) -> None:
    out = tmp_path / "out"
    servers = ["--bootstrap-servers", broker.bootstrap_servers]
    report, _ = run(
        "pipeline", *servers, "--limit", "12000", "--master", "local-cluster[2,1,1024]", "--out", str(out), "--json"
    )
    assert_whole(report, out)
    packages = report["spark"]["executor_packages"]
    assert len(packages) == 2
    assert all(Path(package).parent.name == "aiokafkapy-packages" for package in packages)
    assert report["spark"]["master"] == "local-cluster[2,1,1024]"
    assert not (out / "shipped").exists()
    assert not any(Path(package).exists() for package in packages)
    # Not by chance: each sink, three of batches and a stream's, wrote markers.
    writes = {record.key.rpartition(b"/")[0] for record in broker.records("flights.batches")}
    assert len(writes) == 4
    carriers = broker.records("flights.delay-by-carrier")
    assert len({record.key for record in carriers}) == len(carriers) == report["rows"]["delay-by-carrier"]


@pytest.mark.usefixtures("_java")
def test_a_failure_in_spark_is_reported_in_a_few_lines(broker: Broker, tmp_path: Path) -> None:
    arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--limit", "100", "--out", str(tmp_path)]
    _, said = run("pipeline", *arguments, "--master", "local[many]", code=1)
    assert said.startswith("error: the Spark job failed")
    assert "local[many]" in said
    assert len(said.splitlines()) < 35
    assert (tmp_path / "spark.log").read_text()
