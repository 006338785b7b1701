"""``aiokafkapy pipeline`` and the second half of the demo, as they are run."""

from __future__ import annotations

import json
import subprocess
import sys
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


@pytest.mark.usefixtures("_java")
def test_the_demo_ends_with_the_pipeline_s_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    report, _ = run("demo", "--limit", "12000", "--http-flights", "500", "--out", str(out), "--json")
    assert report["passed"] is True
    assert report["pipeline"]["spark"]["flights"] == report["flights"] == 12_000
    assert_whole(report["pipeline"], out)


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
def test_a_failure_in_spark_is_told_in_a_few_lines(broker: Broker, tmp_path: Path) -> None:
    arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--limit", "100", "--out", str(tmp_path)]
    _, said = run("pipeline", *arguments, "--master", "local[many]", code=1)
    assert said.startswith("error: the Spark job failed")
    assert "local[many]" in said
    assert len(said.splitlines()) < 35
    assert (tmp_path / "spark.log").read_text()
