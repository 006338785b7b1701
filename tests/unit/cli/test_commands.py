"""The decisions of the commands: counts, the end of reading, and figures. No broker."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import cli
from aiokafkapy.cli.app import COMMANDS, app_for
from aiokafkapy.cli.perf import Figures, Pace
from aiokafkapy.cli.produce import Outcome
from aiokafkapy.cli.producing import FIRST_FEW
from aiokafkapy.cli.read import ReadPlan, as_json_line
from aiokafkapy.cli.sources import InputRecord, SourceLine
from aiokafkapy.common import ConsumedRecord, TopicPartition
from aiokafkapy.producer.records import RecordMetadata
from tests.command_line import invoked

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def consumed(offset: int, partition: int = 0, **fields: Any) -> ConsumedRecord:
    return ConsumedRecord(offset, b"k", b"v", (), 1_000 + offset, "t", partition)._replace(**fields)


def offsets(records: list[ConsumedRecord]) -> list[int]:
    return [record.offset for record in records]


# read


def test_reading_ends_before_the_stop_of_each_partition() -> None:
    plan = ReadPlan({T0: 2, T1: 1})
    assert offsets(plan.take([consumed(0), consumed(1), consumed(2)])) == [0, 1]
    assert T0 not in plan.stops
    assert offsets(plan.take([consumed(0, 1)])) == [0]
    assert plan.is_done


def test_a_partition_ends_when_its_position_is_at_the_stop_though_nothing_was_visible() -> None:
    plan = ReadPlan({T0: 5})
    plan.note_position(T0, 4)
    assert not plan.is_done
    plan.note_position(T0, 5)
    assert plan.is_done


def test_reading_ends_after_so_many_records() -> None:
    plan = ReadPlan({T0: None}, max_records=2)
    assert offsets(plan.take([consumed(number) for number in range(5)])) == [0, 1]
    assert plan.is_done


def test_reading_to_a_time_ends_at_the_first_record_that_is_not_older() -> None:
    plan = ReadPlan({T0: 10, T1: 10}, until_ms=1_002)
    assert offsets(plan.take([consumed(number) for number in range(5)])) == [0, 1]
    assert list(plan.stops) == [T1]


def test_a_record_is_a_line_of_json_with_text_base64_and_null() -> None:
    record = consumed(7, key=b"\xff", value=None, headers=(("h", b"x"), ("n", None)))
    assert json.loads(as_json_line(record)) == {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp_ms": 1_007,
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [["h", "x"], ["n", None]],
    }
    assert "ü" in as_json_line(consumed(1, value="ü".encode()))


# produce


def given(line: int, text: bytes = b"text") -> InputRecord:
    return InputRecord(SourceLine("a.txt", line, text), b"k", b"vv", (), None, None)


def test_the_summary_has_counts_and_offsets_per_partition() -> None:
    outcome = Outcome()
    for offset in (5, 3, 4):
        outcome.note_delivered(given(1), RecordMetadata("t", 0, offset, -1))
    outcome.note_delivered(given(1), RecordMetadata("t", 2, 9, -1))
    found = outcome.as_json("t", 0.5)
    assert found["sent"] == 4
    assert found["bytes"] == 12
    assert found["partitions"] == {
        0: {"records": 3, "first_offset": 3, "last_offset": 5},
        2: {"records": 1, "first_offset": 9, "last_offset": 9},
    }


def test_a_failed_line_is_kept_with_its_place_reason_and_text() -> None:
    kept = io.StringIO()
    Outcome(kept).note_failed(given(3, b"a\xffb"), "too large")
    assert json.loads(kept.getvalue()) == {
        "source": "a.txt",
        "line": 3,
        "reason": "too large",
        "text": "a\\xffb",
    }


def test_without_a_file_the_first_failed_lines_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome()
    for line in range(FIRST_FEW + 5):
        outcome.note_failed(given(line), "no")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == FIRST_FEW + 1
    assert said[0] == "a.txt:0: no"
    assert "--failed" in said[-1]


# perf


def test_figures_are_rates_and_percentiles_of_the_timings() -> None:
    figures = Figures(1_048_576, delivered=50, seconds=2.0, latencies=[number / 1_000 for number in range(100, 0, -1)])
    found = figures.as_json()
    assert (found["records_per_second"], found["mb_per_second"]) == (25.0, 25.0)
    assert (found["p50_ms"], found["p99_ms"], found["p99_9_ms"], found["max_latency_ms"]) == (51.0, 100.0, 100.0, 100.0)
    assert Figures(1).as_json()["p50_ms"] is None


def test_the_pace_waits_for_the_rate_and_not_without_one() -> None:
    assert Pace(100.0, 10.0).delay(50, 10.2) == pytest.approx(0.3)
    assert Pace(100.0, 10.0).delay(50, 11.0) == 0.0
    assert Pace(-1, 10.0).delay(50, 10.0) == 0.0


# the program


def test_every_command_has_help_and_a_version_is_shown() -> None:
    listed = invoked("--help")
    assert listed.exit_code == 0
    for command in COMMANDS:
        assert f" {command} " in listed.output
        assert invoked(command, "--help").exit_code == 0
    version = invoked("--version")
    assert version.exit_code == 0
    assert version.output.startswith("aiokafkapy ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "t", "--key", "id"],
        ["produce", "t", "--format", "xml"],
        ["produce", "t", "--header", "novalue"],
        ["produce", "t", "--partition", "1", "--partition-field", "p", "--format", "csv"],
        ["produce", "t", "--delimiter", "::", "--format", "csv"],
        ["read", "t", "--from", "soon"],
        ["read", "t", "--follow", "--to", "latest"],
        ["read", "t", "--to", "earliest"],
        ["read", "t", "--timeout", "inf"],
        ["topics", "list", "--timeout", "nan"],
        ["perf", "t", "--timeout", "1e30"],
        ["broker", "--topic", "t:none"],
        ["broker", "--topic", "t:²"],
        ["broker", "--console-address", "127.0.0.1:0"],
        ["broker", "--schema-registry", "http://localhost:8081"],
        ["broker", "--port", "0", "--console", "--console-address", "nowhere"],
        ["console", "--address", "nowhere"],
        ["console", "--console-token", "short"],
        ["console", "--console-key", "key.pem"],
        ["console", "--console-certificate", "there-is-no-such.pem"],
        ["console", "--security-protocol", "SSLISH"],
        ["broker", "--console-certificate", "console.pem"],
        ["demo", "--console-address", "127.0.0.1:0"],
        ["topics", "create", "t", "--topic-config", "x"],
        ["topics", "create", "t", "-p", "99999999999"],
        ["topics", "create", "t", "-r", "70000"],
        ["topics", "add-partitions", "t", "--total", "99999999999"],
        ["topics", "config", "t", "--set", "x"],
        ["topics", "delete-records", "t", "--before", "-1", "--yes"],
        ["nonsense"],
    ],
)
def test_a_wrong_command_ends_with_code_2(arguments: list[str]) -> None:
    result = invoked(*arguments)
    assert result.exit_code == 2, result.output


def test_an_unknown_client_option_ends_with_code_2_and_a_proposal() -> None:
    result = invoked("topics", "list", "--config", "client.idd=x")
    assert result.exit_code == 2
    assert "did you mean client_id?" in result.output


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["topics", "list"], "topics"),
        (["--log-level", "info", "--log-format=json", "read", "produce"], "read"),
        (["--log-format", "console", "perf", "speed"], "perf"),
        (["--log-format", "console"], None),
        (["--help", "topics"], None),
        (["--version"], None),
        (["topic", "list"], None),
        ([], None),
    ],
)
def test_a_command_line_has_its_command_or_for_help_and_mistakes_all(words: list[str], named: str | None) -> None:
    app = app_for(words)
    names = [each.name for each in app.registered_groups]
    names += [each.callback.__name__ for each in app.registered_commands if each.callback]
    assert sorted(map(str, names)) == sorted(COMMANDS if named is None else [named])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_other_ones_file(name: str) -> None:
    tree = ast.parse(Path(cli.__file__).with_name(f"{name}.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1}
    assert not imported & set(COMMANDS)


def test_an_unknown_command_is_told_the_nearest_one() -> None:
    result = invoked("topcs", "list")
    assert result.exit_code == 2
    assert "Did you mean 'topics'?" in result.output


def test_showing_help_imports_neither_the_broker_nor_the_producer() -> None:
    code = (
        "import sys, aiokafkapy.cli.app as a\n"
        "a.new_app()\n"
        "bad = [m for m in sys.modules if m.startswith(('aiokafkapy.broker', 'aiokafkapy.producer', 'aiokafkapy.demo',"
        " 'aiokafkapy.client', 'kio', 'fastapi', 'aiohttp'))]\n"
        "print(bad)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
