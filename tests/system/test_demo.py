"""The demo as it is run, with a small slice of data: whole, interrupted, and with faulty surroundings."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.demo.flights import find_data_file
from aiokafkapy.demo.service import FlightBody
from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.protocol.api import ApiKey

# The part in Spark is tests/spark/test_pipeline.py's.
PROGRAM = [sys.executable, "-m", "aiokafkapy", "demo", "--no-pipeline"]
TIMEOUT = 120


@pytest.fixture(autouse=True)
def _no_debug_mode_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio's debug mode writes of slow callbacks to standard error, which is compared here."""
    monkeypatch.delenv("PYTHONASYNCIODEBUG", raising=False)


COLUMNS = [
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour"),
]


def make_flights(path: Path, count: int) -> None:
    """Flights of the file's form: thirty aircraft, some flights cancelled, some without a tail number."""
    with path.open("w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(COLUMNS)
        for number in range(count):
            tail = "NA" if number % 50 == 7 else f"N{number % 30:03d}"
            delay: list[Any] = ["NA", "NA", "NA"] if number % 40 == 3 else [517, 2, 830]
            hour, minute = 5 + number // 60 % 12, number % 60
            row = [2013, 1, 1, delay[0], hour * 100 + minute, delay[1], delay[2], 819, -3]
            row += [
                "UA",
                number % 9000,
                tail,
                "EWR",
                "IAH",
                227,
                1400,
                hour,
                minute,
                f"2013-01-01T{hour + 5:02d}:00:00Z",
            ]
            writer.writerow(row)


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """The first flights of the real file, or made ones where it is not installed."""
    path = tmp_path / "flights.csv"
    try:
        with zipfile.ZipFile(find_data_file()) as archive, archive.open("flights.csv") as source:
            path.write_bytes(b"".join(line for line, _ in zip(source, range(4_001), strict=False)))
    except KafkaError:
        make_flights(path, 4_000)
    return path


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        yield broker


def run_demo(*arguments: str, code: int = 0, **environment: str) -> dict[str, Any]:
    env = {**os.environ, **environment}
    done = subprocess.run(
        [*PROGRAM, "--json", *arguments], capture_output=True, text=True, env=env, timeout=TIMEOUT, check=False
    )
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_every_flight_goes_in_and_is_found_again(flights: Path) -> None:
    report = run_demo("--data", str(flights), "--http-flights", "600")
    assert report["passed"] is True
    assert report["flights"] == report["read_back"]["records"] == 4_000
    assert (report["http"]["records"], report["direct"]["records"]) == (600, 3_400)
    assert 0 < report["http"]["send_p50_ms"] <= report["http"]["send_p99_ms"]
    assert report["http"]["send_p50_ms"] < report["http"]["http_p99_ms"]
    assert report["http"]["batches"] > 0
    assert report["direct"]["bytes"] > 3_400 * 200
    assert {check["name"]: check["passed"] for check in report["checks"]} == {
        "every flight was acknowledged": True,
        "records in = records out": True,
        "none twice": True,
        "order per key": True,
        "key, timestamp and value as sent": True,
        "where the acknowledgement said": True,
    }


def test_the_report_for_people_names_the_checks(tmp_path: Path) -> None:
    path = tmp_path / "made.csv"
    make_flights(path, 500)
    done = subprocess.run(
        [
            *(*PROGRAM, "--data", str(path), "--http-flights", "100", "--nodes", "1", "--clients", "4"),
            *("--console", "--console-address", "127.0.0.1:0"),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert "500 flights, topic flights, embedded broker with 1 node" in done.stdout
    assert "await producer.send(): p50" in done.stdout
    assert "All checks hold." in done.stdout
    assert "Console: http://127.0.0.1:" in done.stderr


class Produced:
    """Notes when the broker has seen so many Produce requests."""

    def __init__(self, broker: DevBroker, requests: int) -> None:
        self._left = requests
        self._happened = asyncio.Event()
        broker.controls.on_request(ApiKey.PRODUCE, self._count)

    def _count(self, context: Any, body: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            self._happened.set()

    async def wait(self) -> None:
        """Return when it has happened; a demo that never gets there fails the test."""
        async with asyncio.timeout(TIMEOUT):
            await self._happened.wait()


async def start_demo(broker: DevBroker, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        "--json",
        "--bootstrap-servers",
        broker.bootstrap_servers,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


def children_of(process: asyncio.subprocess.Process) -> list[Path]:
    """The processes that it started, by their place in /proc."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [Path(f"/proc/{pid}") for pid in listed.read_text().split()] if listed.exists() else []


async def test_ctrl_c_ends_cleanly_with_the_acknowledged_records(broker: DevBroker, flights: Path) -> None:
    produced = Produced(broker, 50)
    process = await start_demo(broker, "--data", str(flights), "--http-flights", "4000", "--clients", "2")
    await produced.wait()
    children = children_of(process)
    # As a terminal does: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    async with asyncio.timeout(TIMEOUT):
        out, err = await process.communicate()
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert not [child for child in children if child.exists()]
    report = json.loads(out)
    assert report["interrupted"] is True
    assert report["passed"] is True
    assert report["direct"]["records"] == 0
    in_log = len(broker.records("flights"))
    assert report["read_back"]["records"] == report["http"]["records"] == in_log < 4_000


async def test_another_ctrl_c_ends_it_though_the_broker_does_not_answer(broker: DevBroker, flights: Path) -> None:
    produced = Produced(broker, 10)
    process = await start_demo(broker, "--data", str(flights), "--http-flights", "4000")
    await produced.wait()
    children = children_of(process)
    broker.controls.stall_connections(True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.stderr is not None
    async with asyncio.timeout(TIMEOUT):
        assert await process.stderr.readline() == b"stopping; Ctrl-C again ends it at once\n"
        os.killpg(process.pid, signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert not [child for child in children if child.exists()]


async def test_a_given_cluster_is_used_and_records_already_in_the_topic_do_not_count(
    broker: DevBroker, flights: Path
) -> None:
    arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--data", str(flights), "--limit", "900"]
    for times in (1, 2):
        report = await asyncio.to_thread(run_demo, *arguments, "--http-flights", "100", "--topic", "mine")
        assert report["passed"] is True
        assert report["read_back"]["records"] == 900
        assert len(broker.records("mine")) == times * 900
    record = next(record for record in broker.records("mine") if record.key is not None)
    body = FlightBody.model_validate_json(record.value or b"")
    assert record.key == (body.tailnum or "").encode()
    assert body.model_dump_json().encode() == record.value


async def test_records_of_somebody_else_make_the_check_fail(broker: DevBroker, flights: Path) -> None:
    broker.create_topic("shared", partitions=6, config={"retention.ms": "-1"})
    arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--data", str(flights), "--topic", "shared"]
    produced = Produced(broker, 10)
    demo = asyncio.ensure_future(asyncio.to_thread(run_demo, *arguments, "--http-flights", "1500", code=1))
    await produced.wait()
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send("shared", b"not a flight")
    report = await demo
    assert report["passed"] is False
    assert [check["name"] for check in report["checks"] if not check["passed"]] == ["records in = records out"]


async def test_a_topic_that_may_drop_old_records_is_refused(broker: DevBroker, flights: Path) -> None:
    broker.create_topic("short", partitions=1)
    command = [*PROGRAM, "--bootstrap-servers", broker.bootstrap_servers, "--data", str(flights), "--topic", "short"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 1
    assert done.stderr.startswith("error: topic short is there already and may drop records")


def test_without_data_the_error_names_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.csv"
    done = subprocess.run(
        [*PROGRAM, "--data", str(missing)], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"error: there is no file {missing}\n"
